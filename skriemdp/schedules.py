"""Published step sizes, numbers of steps and noise, as functions of public numbers.

The theorems of two papers say how to run private descent on a manifold:

* Han, Mishra, Jawanpuria and Gao (2022), *Differentially private Riemannian optimization*
  (arXiv:2205.09494), Theorems 2 to 5 and Table 1: full-batch descent (DP-RGD) on four classes of
  functions.  :class:`FunctionClass` holds the theorem's constants, :func:`schedule` chooses the
  number of steps and the noise.
* Huang, Huang, Jawanpuria and Mishra (2025), *Federated learning on Riemannian manifolds with
  differential privacy* (PriRFed), Theorems 5.5 and 5.6: steps of a client in a federated run.
  :func:`several_steps_limit` and :func:`svrg_settings`;
  :func:`skriemdp.federated.theory_settings` picks between them.

Constants are worked out and corrected where the derivation does not give the printed ones
(:class:`FunctionClass`; docs/theory/federated.md, section 6).  Nothing here looks
at data, so nothing here costs budget; an estimator that is given these numbers calibrates its own
noise, whatever a theorem says.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skriemdp._errors import PublicValueError
from skriemdp._validation import (
    check_count,
    check_instance,
    check_nonnegative,
    check_option,
    check_positive,
    check_scale,
)

__all__ = [
    "FUNCTION_CLASSES",
    "FunctionClass",
    "Schedule",
    "curvature_constant",
    "schedule",
    "several_steps_limit",
    "svrg_settings",
]

_CONVEX = ("convex", "strongly-convex")
FUNCTION_CLASSES = (*_CONVEX, "pl", "nonconvex")


def curvature_constant(lowest_curvature: float, diameter: float) -> float:
    """The constant ``zeta`` of the trigonometric distance bound.

    One on nonnegatively curved domains, else ``x / tanh x`` with ``x = sqrt(-lowest_curvature) *
    diameter`` (Zhang and Sra 2016; Lemma 1 of Han et al. 2022).

    Parameters
    ----------
    lowest_curvature : float
        Lower bound of the sectional curvature on the domain.
    diameter : float
        Largest distance between two points of the domain.

    Returns
    -------
    float
        At least one.

    Examples
    --------
    >>> curvature_constant(-1.0, 2.0).__round__(3)
    2.075
    """
    check_instance(numbers.Real, "pass a lower bound", lowest_curvature=lowest_curvature)
    check_nonnegative(diameter=diameter)
    if lowest_curvature >= 0:
        return 1.0
    x = math.sqrt(-lowest_curvature) * diameter
    return 1.0 if x < 1e-8 else x / math.tanh(x)


@dataclass(frozen=True)
class FunctionClass:
    """Public facts about an empirical risk on a domain W that contains its minimiser.

    Parameters
    ----------
    name : {"convex", "strongly-convex", "pl", "nonconvex"}
        Geodesically convex; geodesically strongly convex; Riemannian Polyak-Lojasiewicz; or only
        smooth.  For the first three the promise is about the excess risk, for the last about the
        squared gradient norm.
    dim : int
        Dimension of the manifold.
    lipschitz : float
        Bound L0 of every record's gradient norm on W (for instance the clip norm).
    gradient_diameter : float, optional
        Bound of the difference of two records' gradients; ``2 * lipschitz`` by default.
    smoothness : float, optional
        L1, for "pl" and "nonconvex".
    strong_convexity : float, optional
        beta, for "strongly-convex".
    pl_constant : float, optional
        tau with ``F(w) - F* <= tau |grad F(w)|^2``, for "pl".
    diameter : float, optional
        Diameter of W, for "convex"; also enters the curvature constant.
    lowest_curvature : float, default=0.0
        Lower bound of the sectional curvature on W.
    initial_gap : float, optional
        Bound of ``F(start) - F*`` for "pl" and "nonconvex"; by default what the other constants
        imply.

    Notes
    -----
    With ``V = dim * sigma**2`` the expected squared norm of a step's noise and ``G**2 =
    lipschitz**2 + V``, full batches, T steps (Han et al. 2022, Table 1, with corrections):

    =================  =========  ====================================  ============================
    class              theorem    step size at t = 1, ..., T            promised, in expectation
    =================  =========  ====================================  ============================
    "convex"           2          ``diameter / (G sqrt(zeta T))``       ``diameter G sqrt(zeta/T)``
    "strongly-convex"  3          ``2 / (beta t)``; first ``1 / beta``  ``2 zeta G^2/(beta (T+1))``
    "pl"               4          ``1 / L1``                            ``r^T gap + (1-r^T)tau V``
    "nonconvex"        5          ``1 / L1``                            ``2 L1 gap/T + (1 + 1/T) V``
    =================  =========  ====================================  ============================

    with ``r = 1 - 1 / (2 tau L1)``.

    Proofs are the paper's, with these corrections.  *Convex*: the bound holds for iterates 1 to T
    as well, which are averaged; the paper averages 0 to T-1.  *Strongly convex*: with ``F(w_t) - F*
    <= (1 / eta - beta) / 2 d_t^2 - d_{t+1}^2 / (2 eta) + zeta eta G^2 / 2``, d_t the distance to
    the minimiser and ``eta_t = 2 / (beta (t + 1))``, multiply by t and sum; the running average has
    weights ``2 / (t + 1)``, and the first step is free because d_1 has weight zero.  The paper
    prints ``eta_t = 1 / (beta (t + 1))``, for which the sum does not telescope.  *Polyak-
    Lojasiewicz* (``F - F* <= tau |grad F|^2``): the printed rate and bound are those of ``1 /
    tau``.  With stochastic gradients the last two keep a term that does not fall with n at a
    constant step size.
    """

    name: str
    dim: int
    lipschitz: float
    gradient_diameter: float | None = None
    smoothness: float | None = None
    strong_convexity: float | None = None
    pl_constant: float | None = None
    diameter: float | None = None
    lowest_curvature: float = 0.0
    initial_gap: float | None = None

    def __post_init__(self) -> None:
        check_option(FUNCTION_CLASSES, name=self.name)
        check_count(dim=self.dim)
        check_positive(lipschitz=self.lipschitz)
        needed = {
            "convex": ("diameter",),
            "strongly-convex": ("strong_convexity",),
            "pl": ("smoothness", "pl_constant"),
            "nonconvex": ("smoothness",),
        }[self.name]
        for parameter in needed:
            if getattr(self, parameter) is None:
                raise PublicValueError(f"function class {self.name!r} needs {parameter}.")
        for parameter in (
            "gradient_diameter",
            "smoothness",
            "strong_convexity",
            "pl_constant",
            "diameter",
            "initial_gap",
        ):
            value = getattr(self, parameter)
            if value is not None:
                check_positive(**{parameter: value})
        if self.lowest_curvature < 0 and self.diameter is None and self.name in _CONVEX:
            raise PublicValueError("negative curvature needs the diameter of the domain.")
        if self.name == "nonconvex" and self.initial_gap is None and self.diameter is None:
            raise PublicValueError("function class 'nonconvex' needs initial_gap or diameter.")
        if self.name == "pl" and 2 * self._known("pl_constant") * self._known("smoothness") < 1:
            raise PublicValueError(
                "no function has pl_constant * smoothness < 1/2: smoothness gives |grad F|^2 <= "
                "2 smoothness (F - F*)."
            )

    def _known(self, name: str) -> float:
        return float(getattr(self, name))

    @property
    def zeta(self) -> float:
        """Curvature constant of the domain."""
        return curvature_constant(self.lowest_curvature, self.diameter or 0.0)

    @property
    def gap(self) -> float:
        """Bound of ``F(start) - F*``."""
        if self.initial_gap is not None:
            return self.initial_gap
        if self.name == "pl":
            return self._known("pl_constant") * self.lipschitz**2
        return self.lipschitz * self._known("diameter")

    def step_sizes(
        self, n_steps: int, noise_variance: float, batch_variance: float = 0.0
    ) -> float | tuple[float, ...]:
        """Step sizes of the theorem; one number or a tuple.

        Parameters
        ----------
        n_steps : int
        noise_variance : float
            ``dim * sigma**2``, expected squared norm of the noise of a step.
        batch_variance : float
            Bound of ``E |batch mean - mean|^2``, in units of ``lipschitz**2``
            (`sampler.variance_share(n)`).
        """
        if self.name == "convex":
            square = self._square(noise_variance, batch_variance)
            return self._known("diameter") / math.sqrt(square * self.zeta * n_steps)
        if self.name == "strongly-convex":
            # The first step size is free: the weight of its distance in the proof is zero.
            steps = [2.0 / (self._known("strong_convexity") * (t + 1)) for t in range(1, n_steps)]
            return (1.0 / self._known("strong_convexity"), *steps)
        return 1.0 / self._known("smoothness")

    @property
    def output(self) -> str:
        """The iterate that the theorem speaks of."""
        return {
            "convex": "average",
            "strongly-convex": "weighted-average",
            "pl": "last",
            "nonconvex": "random",
        }[self.name]

    def bound(self, n_steps: int, noise_variance: float, batch_variance: float = 0.0) -> float:
        """Promised excess risk (squared gradient norm for "nonconvex"), in expectation.

        Arguments as in :meth:`step_sizes`, whose step sizes it is about.
        """
        check_count(n_steps=n_steps)
        check_nonnegative(noise_variance=noise_variance, batch_variance=batch_variance)
        variance = noise_variance + batch_variance * self.lipschitz**2
        if self.name == "convex":
            square = self._square(noise_variance, batch_variance)
            return self._known("diameter") * math.sqrt(square * self.zeta / n_steps)
        if self.name == "strongly-convex":
            square = self._square(noise_variance, batch_variance)
            return 2.0 * self.zeta * square / (self._known("strong_convexity") * (n_steps + 1))
        if self.name == "pl":
            rate = 1.0 - 1.0 / (2.0 * self._known("pl_constant") * self._known("smoothness"))
            decay = rate**n_steps
            return decay * self.gap + (1.0 - decay) * self._known("pl_constant") * variance
        return (
            2.0 * self._known("smoothness") * self.gap / n_steps + (1.0 + 1.0 / n_steps) * variance
        )

    def _square(self, noise_variance: float, batch_variance: float) -> float:
        return self.lipschitz**2 * (1.0 + batch_variance) + noise_variance


@dataclass(frozen=True)
class Schedule:
    """Settings chosen by :func:`schedule`, ready for `RiemannianGradientDescent`.

    Attributes
    ----------
    n_steps : int
    step_size : float or tuple of float
    output : str
    sigma : float
        Noise of each tangent coordinate of a step's mean gradient.
    utility_bound : float
        Promised excess risk, or squared gradient norm for "nonconvex", in expectation over noise.
    """

    n_steps: int
    step_size: float | tuple[float, ...]
    output: str
    sigma: float
    utility_bound: float


def schedule(function_class: FunctionClass, n: int, mu: float, max_steps: int = 10_000) -> Schedule:
    """Number of steps, step sizes and noise of full-batch descent for one budget.

    Theorems 2 to 5 of Han, Mishra, Jawanpuria and Gao (2022), with the noise of an exact Gaussian
    calibration instead of the printed constant.

    Parameters
    ----------
    function_class : FunctionClass
    n : int
        Number of records, public.
    mu : float
        Gaussian differential privacy parameter of the whole run, for instance
        ``gaussian_mu(epsilon, delta)``.
    max_steps : int, default=10000
        At most this many.  The theorems ask for up to ``n**2`` steps; for the convex classes
        ``(n mu)**2 / (4 dim)`` are enough.

    Returns
    -------
    Schedule
        Its `n_steps`, `step_size` and `output` are parameters of `PrivateRiemannianERM`.

    Raises
    ------
    ValueError
        If `n`, `mu` or `max_steps` is not positive.

    Notes
    -----
    The noise of each tangent coordinate is ``sigma = sqrt(T) * diameter / (n mu)``, where
    ``diameter`` bounds the difference of two records' gradients: T Gaussian releases that are
    mu-GDP together.  For "pl" and "nonconvex" T minimises the bound.  The bounds of the convex
    classes fall towards a limit; at ``T = (n mu lipschitz / diameter)^2 / dim``, which is taken,
    they are within a factor sqrt 2 and 2 of it.

    Examples
    --------
    >>> smooth = FunctionClass("strongly-convex", dim=3, lipschitz=1.0, strong_convexity=1.0)
    >>> plan = schedule(smooth, n=1000, mu=0.5)
    >>> plan.output, plan.utility_bound < 0.01
    ('weighted-average', True)
    """
    check_instance(FunctionClass, "pass FunctionClass(name, ...)", function_class=function_class)
    check_count(n=n, max_steps=max_steps)
    check_scale(mu=mu)
    diameter = function_class.gradient_diameter or 2.0 * function_class.lipschitz
    per_step = function_class.dim * (diameter / n / mu) ** 2  # noise variance is T times this

    if function_class.name in _CONVEX:
        # Their bounds fall with T towards a limit, set by the noise; stop where optimisation and
        # noise contribute alike.
        n_steps = min(max_steps, math.ceil(function_class.lipschitz**2 / per_step))
    else:
        n_steps = _minimiser(lambda T: function_class.bound(T, T * per_step), max_steps)
    variance = n_steps * per_step
    return Schedule(
        n_steps=n_steps,
        step_size=function_class.step_sizes(n_steps, variance),
        output=function_class.output,
        sigma=math.sqrt(variance / function_class.dim),
        utility_bound=function_class.bound(n_steps, variance),
    )


def svrg_settings(n_clients: int, smoothness: float, zeta: float) -> tuple[int, float]:
    """Steps per epoch m and step size of federated variance-reduced descent ("rsvrg").

    Theorem 5.6 of Huang, Huang, Jawanpuria and Mishra (2025).

    Parameters
    ----------
    n_clients : int
        N.
    smoothness : float
        Geodesic smoothness L_g of every record's cost.
    zeta : float
        :func:`curvature_constant` of the domain.

    Returns
    -------
    m : int
        ``max(2, floor(10 N / (3 sqrt(zeta))))``.
    step_size : float
        ``1 / (10 L_g N^(2/3) sqrt(zeta))``.

    Notes
    -----
    The theorem needs clients with the same risk (docs/theory/federated.md, section 6).

    Examples
    --------
    >>> steps, step_size = svrg_settings(8, smoothness=1.0, zeta=1.0)
    >>> steps, round(step_size, 4)
    (26, 0.025)
    """
    check_count(n_clients=n_clients)
    check_positive(smoothness=smoothness, zeta=zeta)
    steps = max(2, math.floor(10.0 * n_clients / (3.0 * math.sqrt(zeta))))
    return steps, 1.0 / (10.0 * smoothness * n_clients ** (2.0 / 3.0) * math.sqrt(zeta))


def several_steps_limit(n_steps: int, beta: float | None = None) -> float:
    """Largest step of a client with K > 1 steps a round, ``(beta^(1/(K-1)) - 1) / beta``.

    Theorem 5.5 of Huang, Huang, Jawanpuria and Mishra (2025), in units where its coefficient c_K
    is one.

    Parameters
    ----------
    n_steps : int
        K, at least 2.
    beta : float, optional
        The theorem's free constant, above 1; by default the one that admits the longest step,
        ``((K-1)/(K-2))^(K-1)``, and 2 for K = 2, where the longest would need an infinite one.

    Returns
    -------
    float

    Examples
    --------
    >>> several_steps_limit(3)
    0.25
    """
    check_count(minimum=2, n_steps=n_steps)
    if beta is None:
        beta = 2.0 if n_steps == 2 else ((n_steps - 1) / (n_steps - 2)) ** (n_steps - 1)
    check_positive(beta=beta)
    if beta <= 1.0:
        raise PublicValueError(f"beta must be above 1, got {beta!r}.")
    return math.expm1(math.log(beta) / (n_steps - 1)) / beta


def _minimiser(bound: Callable[[Any], Any], largest: int) -> int:
    """Integer in [1, largest] that minimises a function that falls and then rises."""
    low, high = 1, largest
    while low < high:
        middle = (low + high) // 2
        if bound(middle) <= bound(middle + 1):
            high = middle
        else:
            low = middle + 1
    return low
