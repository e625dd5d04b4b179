"""Step sizes and bounds of the published convergence theory, from public constants."""

from __future__ import annotations

import math

import numpy as np

from skriemdp._validation import check_count, check_fraction, check_nonnegative, check_positive

__all__ = [
    "ball_constant",
    "convex_gap_bound",
    "curvature_constant",
    "decaying_step_sizes",
    "gradient_bound",
    "published_several_steps_bound",
    "published_svrg_bound",
    "rpl_gap_bound",
    "several_steps_bound",
    "several_steps_limit",
    "svrg_settings",
    "theory_settings",
]


def curvature_constant(least_curvature: float, diameter: float) -> float:
    """zeta of (5.1): ``x / tanh(x)`` with ``x = sqrt(-kappa_min) * diameter``, or 1.

    Parameters
    ----------
    least_curvature : float
        Lower bound of the sectional curvatures.
    diameter : float
        Of the set that holds all iterates.

    Notes
    -----
    The paper prints ``sqrt(|kappa_min| M)``; the comparison theorem has ``sqrt(|kappa_min|) M``.
    """
    check_nonnegative(diameter=diameter)
    if least_curvature >= 0 or diameter == 0:
        return 1.0
    x = math.sqrt(-least_curvature) * diameter
    return x / math.tanh(x)


def ball_constant(ball) -> float:
    """:func:`curvature_constant` of a ball; also bounds the Hessian of half the squared distance.

    The second statement is for pairs of its points, and on spheres for radii up to pi/4.
    """
    return curvature_constant(ball.geometry.curvature_bounds[0], 2.0 * ball.radius)


def gradient_bound(start_gap, n_rounds, step_size, smoothness, dim, noise_variance):
    """Right-hand side of Theorem 5.1: bound of the least mean squared gradient norm.

    All clients take one full step of size at most ``1 / smoothness`` per round.

    Parameters
    ----------
    start_gap : float
        ``f(start) - min f``.
    n_rounds : int
    step_size, smoothness : float
    dim : int
        Of the manifold.
    noise_variance : float
        Of a tangent coordinate of the *averaged* step: ``sum_i N_i^2 sigma_i^2 / (sum_i N_i)^2``.
    """
    return 2.0 * start_gap / (n_rounds * step_size) + dim * smoothness * step_size * noise_variance


def convex_gap_bound(start_distance, n_rounds, step_size, smoothness, zeta, dim, noise_variance):
    """Right-hand side of Theorem 5.3: bound of the expected excess risk of the last point.

    As in Theorem 5.1, with geodesically convex costs and steps of at most ``1/(2 smoothness)``.

    Parameters
    ----------
    start_distance : float
        From the start to the minimiser.
    n_rounds : int
    step_size, smoothness : float
    zeta : float
        :func:`curvature_constant`.
    dim : int
    noise_variance : float
        As in :func:`gradient_bound`.
    """
    t = n_rounds
    first = zeta * start_distance**2 / (2.0 * step_size * (zeta + t - 1.0))
    growth = t * (6.0 * zeta + t - 1.0) / (16.0 * smoothness * (zeta + t - 1.0))
    return first + growth * dim * noise_variance


def rpl_gap_bound(
    start_gap,
    n_rounds,
    step_size,
    smoothness,
    rpl,
    dim,
    noise_variance,
    n_clients,
    per_round,
    spread,
):
    """Right-hand side of Theorem 5.4: bound of the expected excess risk of the last point.

    Uniform subsets of clients of equal size take one full step per round; the risk satisfies
    ``f - min f <= |grad f|^2 / (2 rpl)``.

    Parameters
    ----------
    start_gap : float
    n_rounds : int
    step_size, smoothness : float
        The step at most ``1 / smoothness``.
    rpl : float
        The constant mu of the Riemannian Polyak-Lojasiewicz condition.
    dim : int
    noise_variance : float
        Of a tangent coordinate of *one client's* step.
    n_clients, per_round : int
    spread : float
        v: bound of the mean over clients of ``|grad f_i - grad f|^2``.

    Notes
    -----
    The paper's kappa_1 has a factor d that its proof does not produce; it is left out here.
    """
    damped = 2.0 - smoothness * step_size
    forgotten = (1.0 - rpl * step_size * damped) ** n_rounds
    factor = smoothness * step_size / (2.0 * rpl * damped)
    sampling = (n_clients - per_round) / (per_round * (n_clients - 1.0))
    floor = factor * (dim * noise_variance / per_round + spread * sampling)
    return forgotten * start_gap + (1.0 - forgotten) * floor


def several_steps_bound(
    start_gap,
    n_rounds,
    n_steps,
    step_size,
    smoothness,
    lipschitz,
    dim,
    noise_variance,
    reduced=False,
):
    """Bound of the mean squared gradient norm over the server's points; one client per round.

    In each round a uniformly drawn client takes K noisy steps, on all its records or on batches.
    Replaces Theorems 5.5 and 5.6 where clients differ: those count the gradient of the client who
    trains as an unbiased one along its whole path, which fails from its second step on
    (docs/theory/federated.md, section 6).

    Parameters
    ----------
    start_gap : float
    n_rounds : int
        T.
    n_steps : int
        K; m K for variance-reduced steps.
    step_size, smoothness : float
    lipschitz : float
        Bound of every record's gradient, L_f.
    dim : int
    noise_variance : float
        Of a tangent coordinate of a local step.
    reduced : bool, default=False
        Whether the steps are variance-reduced, as in Algorithm 3.
    """
    q = (5.0 if reduced else 1.0) * lipschitz**2 + dim * noise_variance
    drift = step_size * smoothness * lipschitz * (n_steps - 1) * math.sqrt(q)
    return start_gap / (step_size * n_steps * n_rounds) + 0.5 * step_size * smoothness * q + drift


def published_several_steps_bound(
    start_gap,
    n_rounds,
    n_steps,
    step_size,
    smoothness,
    lipschitz,
    dim,
    noise_variance,
    zeta=1.0,
    beta=None,
):
    """Right-hand side of Theorem 5.5 as printed; **valid only for clients with the same risk**.

    Parameters
    ----------
    start_gap, n_rounds, n_steps, step_size, smoothness, lipschitz, dim, noise_variance
        As in :func:`several_steps_bound`; the bound is of a random local point.
    zeta : float
    beta : float, optional
        As in :func:`several_steps_limit`.
    """
    if beta is None:
        beta = _longest_step_beta(n_steps)
    c = (1.0 + step_size * beta) ** (n_steps - 1)
    if c >= beta:
        raise ValueError(f"step_size={step_size} exceeds the theorem's limit for this beta.")
    q = lipschitz**2 + dim * noise_variance
    floor = step_size * beta * (smoothness + 2.0 * c * zeta) / (2.0 * (beta - c)) * q
    return start_gap / (n_steps * n_rounds * step_size * (1.0 - c / beta)) + floor


def published_svrg_bound(
    start_gap, n_rounds, n_epochs, n_clients, smoothness, dim, noise_variance, zeta=1.0
):
    """Right-hand side of Theorem 5.6 as printed; **not valid**, even for clients with one risk.

    Its proof needs ``nu >= 1/2`` where its own definitions allow ``nu <= 1/10``, so that the noise
    counts for too little; and it has the gap of Theorem 5.5 (docs/theory/federated.md, section 6).
    Step size and epoch length are those of :func:`svrg_settings`; the theorem's constant c is its
    least value ``10 N / (3 m)``.

    Parameters
    ----------
    start_gap : float
    n_rounds, n_epochs : int
        T and K.
    n_clients : int
    smoothness : float
    dim : int
    noise_variance : float
        Of a tangent coordinate of a local step.
    zeta : float
    """
    steps, _ = svrg_settings(n_clients, smoothness, zeta)
    n = float(n_clients)
    c = 10.0 * n / (3.0 * steps)
    first = c * smoothness * math.sqrt(zeta) * start_gap / (n ** (1 / 3) * n_epochs * n_rounds)
    return first + dim * noise_variance / (100.0 * math.sqrt(zeta)) * (n ** (-2 / 3) + 1.0 / n)


def decaying_step_sizes(n_rounds: int, smoothness: float, fraction: float = 0.5) -> np.ndarray:
    """Step sizes ``2 fraction / (L_g (t + 1))``, which satisfy (5.3) of Theorem 5.2.

    Their sum diverges, that of their squares does not, and ``L_g alpha_t <= 2 fraction``.

    Parameters
    ----------
    n_rounds : int
    smoothness : float
    fraction : float, default=0.5
        In (0, 1).
    """
    check_count(n_rounds=n_rounds)
    check_positive(smoothness=smoothness)
    check_fraction(fraction=fraction)
    return 2.0 * fraction / (smoothness * np.arange(1, n_rounds + 1))


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


def _longest_step_beta(n_steps):
    return 2.0 if n_steps == 2 else ((n_steps - 1) / (n_steps - 2)) ** (n_steps - 1)


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


def theory_settings(
    geometry,
    domain,
    *,
    local: str,
    local_steps: int,
    n_clients: int,
    smoothness=None,
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
        L_g.  For half the squared distance on a ball it is :func:`curvature_constant` by default.
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
