"""Bounds of PriRFed's convergence theory; a part of huang2025_prirfed.py.

Theorems 5.1, 5.3 and 5.4 with the corrections of docs/theory/federated.md, the bounds that Theorems
5.5 and 5.6 print, and the one that replaces them where clients differ.
"""

import math

from skriemdp.schedules import svrg_settings


def longest_step_beta(n_steps):
    """The beta of Theorem 5.5 that admits the longest step."""
    return 2.0 if n_steps == 2 else ((n_steps - 1) / (n_steps - 2)) ** (n_steps - 1)


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
        Curvature constant.
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
    trains as an unbiased one along its whole path, which fails from its second step on, as the
    local point depends on the client (docs/theory/federated.md, section 6).

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

    Notes
    -----
    *Theorem.*  Costs of records are L_f-Lipschitz and L_g-smooth, f is the mean of the clients'
    risks f_i.  In each of T rounds a uniformly drawn client takes K steps of size a along
    directions with conditional mean ``grad f_i`` and conditional second moment at most q, and the
    server adopts the last point.  Then the mean over rounds of ``E |grad f(x_t)|^2`` is at most

        (f(x_0) - min f) / (a K T) + a L_g q / 2 + a L_g L_f (K - 1) sqrt(q).

    With noise of variance s^2 on d coordinates ``q = L_f^2 + d s^2`` for DP-RSGD.  For the
    variance-reduced steps of Algorithm 3 ``q = 5 L_f^2 + d s^2``, with m K in place of K.

    *Proof.*  Let x_k be the local points of a round, i its client.  By smoothness ``E f(x_{k+1}) <=
    E f(x_k) - a E <grad f(x_k), grad f_i(x_k)> + a^2 L_g q / 2``.  With both gradients transported
    to x_0 the inner product there differs by at most ``2 L_g L_f dist(x_k, x_0)``, and ``E
    dist(x_k, x_0) <= a k sqrt(q)``.  At x_0, which is independent of i, its mean is ``E |grad
    f(x_0)|^2``.  Sum over k, then over rounds.  For Algorithm 3 the direction less its noise is ``D
    - E D + grad f_i`` with D the difference of two gradients of one record, so ``q - d s^2 <= 4
    L_f^2 + L_f^2``.
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
        beta = longest_step_beta(n_steps)
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
