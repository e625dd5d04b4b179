"""Step sizes of the published convergence theory, from public constants."""

from __future__ import annotations

import math

from skriemdp._validation import check_count, check_positive
from skriemdp.descent.schedules import curvature_constant
from skriemdp.geometry.ball import GeodesicBall
from skriemdp.geometry.base import Geometry

__all__ = ["ball_constant", "several_steps_limit", "svrg_settings", "theory_settings"]


def ball_constant(ball: GeodesicBall) -> float:
    """zeta of (5.1): the curvature constant of a ball.

    It also bounds the Hessian of half the squared distance to one of its points, on spheres for
    radii up to pi/4.
    """
    return curvature_constant(ball.geometry.curvature_bounds[0], 2.0 * ball.radius)


def svrg_settings(n_clients: int, smoothness: float, zeta: float) -> tuple[int, float]:
    """Steps per epoch m and step size of Theorem 5.6.

    Parameters
    ----------
    n_clients : int
    smoothness, zeta : float

    Returns
    -------
    m : int
        ``max(2, floor(10 N / (3 sqrt(zeta))))``.
    step_size : float
        ``1 / (10 L_g N^(2/3) sqrt(zeta))``.
    """
    check_count(n_clients=n_clients)
    check_positive(smoothness=smoothness, zeta=zeta)
    steps = max(2, math.floor(10.0 * n_clients / (3.0 * math.sqrt(zeta))))
    return steps, 1.0 / (10.0 * smoothness * n_clients ** (2.0 / 3.0) * math.sqrt(zeta))


def several_steps_limit(n_steps: int, beta: float | None = None) -> float:
    """Largest step size of Theorem 5.5 for K > 1 local steps, ``(beta^(1/(K-1)) - 1) / beta``.

    Parameters
    ----------
    n_steps : int
        K, at least 2.
    beta : float, optional
        The theorem's free constant, above 1; by default the one that admits the longest step,
        ``((K-1)/(K-2))^(K-1)``, and 2 for K = 2, where the longest would need an infinite one.
    """
    check_count(minimum=2, n_steps=n_steps)
    if beta is None:
        beta = _longest_step_beta(n_steps)
    if not 1.0 < beta < math.inf:
        raise ValueError(f"beta must be above 1, got {beta!r}.")
    return math.expm1(math.log(beta) / (n_steps - 1)) / beta


def _longest_step_beta(n_steps: int) -> float:
    return 2.0 if n_steps == 2 else ((n_steps - 1) / (n_steps - 2)) ** (n_steps - 1)


def theory_settings(
    geometry: Geometry,
    domain: GeodesicBall | None,
    *,
    local: str,
    local_steps: int,
    n_clients: int,
    smoothness: float | None = None,
    half_squared_distance: bool = False,
) -> tuple[float, int]:
    """Step size and local steps of the theorem that speaks of this kind of run.

    "rsgd" with one local step: ``1 / L_g`` (Theorems 5.1 and 5.4).  With several: half the limit of
    Theorem 5.5, and at most ``1 / L_g``.  "rsvrg": Theorem 5.6, whose first step of an epoch is the
    anchor's.

    Parameters
    ----------
    geometry : Geometry
    domain : GeodesicBall or None
        Public ball of the iterates.
    local : {"rsgd", "rsvrg"}
    local_steps, n_clients : int
    smoothness : float, optional
        L_g.  For half the squared distance on a ball it is :func:`ball_constant` by default.
    half_squared_distance : bool
        Whether a record's cost is half the squared distance to it.

    Returns
    -------
    step_size : float
    local_steps : int

    Examples
    --------
    >>> from skriemdp.geometry import SPD, GeodesicBall
    >>> ball = GeodesicBall(SPD(2), None, 1.0)
    >>> theory_settings(ball.geometry, ball, local="rsgd", local_steps=1, n_clients=5,
    ...                 half_squared_distance=True)[1]
    1
    """
    zeta = 1.0
    if geometry.curvature_bounds[0] < 0:
        if domain is None and local == "rsvrg":
            raise ValueError("schedule='theory' with 'rsvrg' needs a public ball of the iterates.")
        zeta = 1.0 if domain is None else ball_constant(domain)
    if smoothness is None:
        if not half_squared_distance:
            raise ValueError("schedule='theory' needs the public smoothness L_g of this problem.")
        smoothness = zeta
    check_positive(smoothness=smoothness)
    if local == "rsvrg":
        steps, step_size = svrg_settings(n_clients, smoothness, zeta)
        return step_size, steps - 1
    if local_steps == 1:
        return 1.0 / smoothness, 1
    return min(1.0 / smoothness, 0.5 * several_steps_limit(local_steps)), local_steps
