"""Published theorems as functions of public constants: step sizes, and a bound that fails."""

from __future__ import annotations

import math

from skriemdp._errors import PublicValueError
from skriemdp._validation import check_instance, check_positive
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.geometry._base import Geometry, check_geometry
from skriemdp.schedules import curvature_constant, several_steps_limit, svrg_settings


def ball_constant(ball: GeodesicBall) -> float:
    """zeta of (5.1): the curvature constant of a ball.

    It also bounds the Hessian of half the squared distance to one of its points, on spheres for
    radii up to pi/4.
    """
    return curvature_constant(ball.geometry.curvature_bounds[0], 2.0 * ball.radius)


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
    check_geometry(geometry)
    if domain is not None:
        check_instance(GeodesicBall, "pass a ball, or None", domain=domain)
    zeta = 1.0
    if geometry.curvature_bounds[0] < 0:
        if domain is None and local == "rsvrg":
            raise PublicValueError("local='rsvrg' needs domain, a public ball of the iterates.")
        zeta = 1.0 if domain is None else ball_constant(domain)
    if smoothness is None:
        if not half_squared_distance:
            raise PublicValueError("pass smoothness, the public L_g of this problem.")
        smoothness = zeta
    check_positive(smoothness=smoothness)
    if local == "rsvrg":
        steps, step_size = svrg_settings(n_clients, smoothness, zeta)
        return step_size, steps - 1
    if local_steps == 1:
        return 1.0 / smoothness, 1
    return min(1.0 / smoothness, 0.5 * several_steps_limit(local_steps)), local_steps


def published_table_bound(
    n_clients: int,
    clients_per_round: int,
    n_rounds: int,
    epsilon: float,
    delta: float,
    slack: float,
) -> tuple[float, float]:
    """The (epsilon', delta') that Theorem 4.2 of PriRFed states; **not valid** for records.

    Kept to reproduce the paper's Table 1 beside the true values (docs/theory/federated.md).

    Parameters
    ----------
    n_clients, clients_per_round, n_rounds : int
    epsilon, delta : float
        Of one local training.
    slack : float
        The paper's ``delta'`` of advanced composition.
    """
    share = clients_per_round / n_clients
    sampled = math.log1p(share * math.expm1(clients_per_round * epsilon))
    advanced = math.sqrt(2.0 * n_rounds * math.log(1.0 / slack)) * sampled
    advanced += n_rounds * sampled * math.expm1(sampled)
    total = min(n_rounds * sampled, advanced)
    return total, slack + n_rounds * share * clients_per_round * delta
