"""Private releases of a principal subspace: one frozen settings object per mechanism."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from scipy.special import chdtri

from skriemdp._groups import Groups
from skriemdp._progress import counted
from skriemdp._random import public_generator
from skriemdp.descent.gradient_descent import RiemannianGradientDescent
from skriemdp.descent.queries import GradientQuery
from skriemdp.location_scale.grouped_rows import GroupedRows, records_of
from skriemdp.location_scale.rows import Rows, RowSum, largest_summand
from skriemdp.mechanisms.bingham import ExponentialDirection
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.counts import GaussianCount
from skriemdp.mechanisms.covariance import SymmetricGaussian
from skriemdp.mechanisms.integer_matrices import IntegerMatrices
from skriemdp.mechanisms.integer_products import IntegerFactors, IntegerFrames, IntegerMoments
from skriemdp.mechanisms.integers import check_integers
from skriemdp.mechanisms.sums import noisy_sum, sum_sigma
from skriemdp.pca.bounds import Budget, Records, Streams, product_quantile, trace_quantile
from skriemdp.pca.problem import SubspaceProblem, frame_space, product_ball
from skriemdp.privacy.sensitivity import (
    Sensitivity,
    computed_sum_sensitivity,
    disjoint_groups_sensitivity,
    frame_product_sensitivity,
    interval_sensitivity,
    mean_sensitivity,
    second_moment_sensitivity,
)

__all__ = [
    "STEP_SIZE",
    "CovarianceRelease",
    "CovarianceSums",
    "ExponentialRelease",
    "GradientRelease",
    "PowerRelease",
    "RefineRelease",
    "Release",
    "Subspace",
    "count_beyond",
]

# Step of "gradient", in units of 1 / row_norm**2.
STEP_SIZE = 4.0

# Shares of mu**2 for the explained variances where no noisy matrix shows them: in the subspace, and
# in all.
_INSIDE_SHARE, _TOTAL_SHARE = 0.03, 0.02
# "refine": shares of what the search left of mu**2, for the first matrix and for the quantile that
# shortens one product; its level.
_MATRIX_SHARE, _REFINED_SHARE, _REFINED_LEVEL = 0.35, 0.06, 0.9
# What that matrix has to show for products to be better than a second one: largest eigenvalues
# below this share of row_norm**2 (for one component).  One product where they all stand out of the
# largest that noise alone would have, by this factor; else so many.
_FLAT, _OUTSTANDING, _SEARCH_STEPS = 0.045, 1.08, 4
# Several products: share of a step for that quantile; its level.
_POWER_SHARE, _POWER_LEVEL = 0.06, 0.8
# People: share of the total variance's part for the quantile that bounds traces; its level.
_TRACE_SHARE, _TRACE_LEVEL = 0.25, 0.9


@dataclasses.dataclass(frozen=True)
class Subspace:
    """A released subspace.

    Attributes
    ----------
    components : ndarray of shape (k, d)
        Orthonormal rows, by decreasing released variance.
    variances : ndarray of shape (k,)
        Released, not yet made nonnegative.
    total_variance : float
        Released trace.
    noise_scale : float
        Standard deviation of the noise of a coordinate of ``A w``, A the second moment, in the last
        release that the components come from; NaN where the noise is not additive.
    spectrum : ndarray of shape (d,) or None
        All eigenvalues of the released matrix, decreasing.
    spectrum_noise : float or None
        Standard deviation of the noise of that matrix's entries off the diagonal.
    """

    components: np.ndarray
    variances: np.ndarray
    total_variance: float
    noise_scale: float
    spectrum: np.ndarray | None = None
    spectrum_noise: float | None = None


class Release(Protocol):
    """Releases a principal subspace of clipped rows with what is left of a budget."""

    n_components: int

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace: ...

    def check_integers(self, d: int, mu: float, grouped: bool) -> None:
        """ValueError where some sum has no lattice that is fine enough, for `mu` in all.

        With `grouped` the records are people.
        """
        ...


@dataclasses.dataclass(frozen=True)
class CovarianceRelease:
    """Eigenvectors of the clipped second moment plus symmetric noise (Analyze Gauss).

    *Guarantee*: that of :class:`SymmetricGaussian` at sensitivity ``sqrt(2) row_norm^2 / n``; the
    eigenvectors and eigenvalues of the released matrix are post-processing, however many are used.
    Noise is isotropic in the Frobenius norm: the product with any unit vector has the noise of one
    private matrix-vector product with the whole budget, so iterating privately cannot gain.  With
    `exact` the noise and the sum are of integers, and the statement is about the program
    (docs/theory/lattice.md).
    """

    n_components: int
    exact: bool = False

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace:
        rng = streams("second moment")
        matrix, sigma = _noisy_matrix(rows, center, row_norm, budget.rest(), rng, self.exact)
        return _from_matrix(matrix, sigma, self.n_components)

    def check_integers(self, d: int, mu: float, grouped: bool) -> None:
        _moments(grouped)(1.0, d, 1.0 / mu)


@dataclasses.dataclass(frozen=True)
class CovarianceSums:
    """The release of :class:`CovarianceRelease` in two halves: noisy sums, and what they say.

    Parameters
    ----------
    n_components, dim : int
    row_norm : float
        Public bound of the rows, which are taken as centred at zero.
    mu : float
        Of the matrix.
    count : GaussianCount
        Noise for the number of longer rows.
    exact : bool, default=False
    grouped : bool, default=False
        Whether records are people who own several rows.

    Notes
    -----
    *Guarantee*: that of the matrix and `count` together, for each table by itself.
    """

    n_components: int
    dim: int
    row_norm: float
    mu: float
    count: GaussianCount
    exact: bool = False
    grouped: bool = False

    @property
    def size(self) -> int:
        """Number of sums."""
        return 1 + self.dim**2

    @property
    def center(self) -> np.ndarray:
        """Zero, which is public."""
        return np.zeros(self.dim)

    def noisy(self, arrays: tuple, groups: Groups | None, streams: Streams) -> np.ndarray:
        """Number of records that are shortened, and the sum of their matrices; one noisy vector.

        A row's matrix is ``z z'``, a person's the mean of those of own rows.
        """
        rows = records_of(arrays[0], groups, by_trace=False)
        outside = count_beyond(rows, self.center, self.row_norm)
        noisy = self.count.release(outside, streams("clipped fraction"))
        rng = streams("second moment")
        moment, _ = _noisy_matrix(rows, self.center, self.row_norm, self.mu, rng, self.exact)
        return np.concatenate([[noisy], rows.n * moment.ravel()])

    def finish(self, noisy: np.ndarray, n: int, n_tables: int) -> Subspace:
        """The subspace of noisy sums over so many tables, of n records in all."""
        matrix = noisy[1:].reshape(self.dim, self.dim) / n
        return _from_matrix(matrix, math.sqrt(n_tables) * self._sigma(n), self.n_components)

    def _sigma(self, n: int) -> float:
        """Noise of one release along a unit matrix, over the number of all records."""
        if self.exact:
            return _moments(self.grouped)(self.row_norm, self.dim, 1.0 / self.mu).sigma / n
        term = second_moment_sensitivity(self.row_norm)
        if self.grouped:
            sensitivity = mean_sensitivity(term, n)
        else:
            rows = Rows(np.empty((n, 0)), n, self.dim)
            sensitivity = _per_row(rows, term, _largest(self.center, self.row_norm), self.dim**2)
        return SymmetricGaussian(self.dim, sensitivity, 1.0 / self.mu).sigma


def count_beyond(rows: Rows | GroupedRows, center: np.ndarray, row_norm: float) -> int:
    """Number of rows, or of people, farther than `row_norm` from the centre; private."""
    tiles = rows.squared_norms(center)
    return int(sum(np.count_nonzero(~(squares <= row_norm**2)) for squares in tiles))


@dataclasses.dataclass(frozen=True)
class RefineRelease:
    """A noisy second moment, then what it shows to be best: products, or more of the same.

    The terms ``|z| |W' z|`` of a product with the leading eigenvectors W are about ``sqrt(lambda
    trace)``, far below ``row_norm^2`` when the spectrum is flat, so one clipped product has much
    less noise than a matrix.  Where the spectrum is flat and noise hides the eigenvectors, several
    products find them; where it is not flat, a second matrix is better, and is averaged with the
    first, which leaves the noise of one that had all of the budget (docs/theory/pca.md).

    *Guarantee*: adaptive Gaussian releases within one budget: matrices as in
    :class:`CovarianceRelease`, quantiles from noisy counts, and sums of terms of Frobenius norm at
    most C, of sensitivity ``min(2 C, diameter) / n``.  Which of them follow is a function of the
    first matrix.
    """

    n_components: int
    exact: bool = False

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace:
        left = budget.left
        mu = budget.take(_MATRIX_SHARE * left)
        rng = streams("second moment")
        matrix, sigma = _noisy_matrix(rows, center, row_norm, mu, rng, self.exact)
        rough = _from_matrix(matrix, sigma, self.n_components)
        if not _is_flat(rough, row_norm):
            rng = streams("second moment", 2)
            again, second = _noisy_matrix(rows, center, row_norm, budget.rest(), rng, self.exact)
            weight = sigma**2 / (sigma**2 + second**2)
            matrix = matrix + weight * (again - matrix)
            return _from_matrix(matrix, second * math.sqrt(weight), self.n_components)
        products = _Products(rows, center, row_norm, budget, streams, self.exact)
        frame = rough.components.T
        if _stands_out(rough):
            frame, scale = products.once(frame, _REFINED_SHARE * left, _REFINED_LEVEL, budget.left)
        else:
            frame, scale = products.often(frame, _SEARCH_STEPS, budget.left)
        frame = _signed(frame)
        variances = np.einsum("ij,ij->j", frame, matrix @ frame)
        return dataclasses.replace(
            rough, components=frame.T, variances=variances, noise_scale=scale
        )

    def check_integers(self, d: int, mu: float, grouped: bool) -> None:
        rest = 1.0 - _MATRIX_SHARE
        for share in (_MATRIX_SHARE, rest):
            _moments(grouped)(1.0, d, 1.0 / (mu * math.sqrt(share)))
        for share in (rest - _REFINED_SHARE, rest / _SEARCH_STEPS * (1.0 - _POWER_SHARE)):
            _check_products(d, self.n_components, mu * math.sqrt(share), grouped)


def _is_flat(rough: Subspace, row_norm: float) -> bool:
    """Whether a product with the leading eigenvectors has less noise than a matrix; released."""
    assert rough.spectrum is not None
    k = len(rough.components)
    # The terms' quantile over their root mean square is lower for more coordinates.
    spread = chdtri(k, 1.0 - _REFINED_LEVEL) / k / chdtri(1, 1.0 - _REFINED_LEVEL)
    return float(rough.spectrum[:k].sum()) <= _FLAT / spread * row_norm**2


def _stands_out(rough: Subspace) -> bool:
    """Whether the leading eigenvalues are larger than noise alone would make them; released."""
    assert rough.spectrum is not None and rough.spectrum_noise is not None
    edge = 2.0 * math.sqrt(len(rough.spectrum)) * rough.spectrum_noise
    least = float(rough.spectrum[len(rough.components) - 1] - rough.spectrum.mean())
    return least > _OUTSTANDING * edge


@dataclasses.dataclass(frozen=True)
class PowerRelease:
    """Block power iteration with clipped, noisy products; for d x d matrices too large to form.

    *Guarantee*: adaptive Gaussian releases within one budget, as in :class:`RefineRelease`.
    """

    n_components: int
    n_steps: int
    public_seed: int
    exact: bool = False

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace:
        frame = _public_frame(rows.d, self.n_components, self.public_seed)
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) * budget.left
        products = _Products(rows, center, row_norm, budget, streams, self.exact)
        frame, scale = products.often(frame, self.n_steps, share)
        return _with_variances(frame, scale, rows, center, row_norm, budget, streams, self.exact)

    def check_integers(self, d: int, mu: float, grouped: bool) -> None:
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) / self.n_steps * (1.0 - _POWER_SHARE)
        _check_products(d, self.n_components, mu * math.sqrt(share), grouped)
        _check_variances(self.n_components, mu, grouped)


@dataclasses.dataclass(frozen=True)
class _Products:
    """Clipped, noisy products of the second moment with frames, and the frames that they span."""

    rows: Records
    center: np.ndarray
    row_norm: float
    budget: Budget
    streams: Streams
    exact: bool

    def once(
        self, frame: np.ndarray, part: float, level: float, share: float, *label: object
    ) -> tuple[np.ndarray, float]:
        """One product for `share` of the budget, `part` of it for the bound of its terms.

        Returns its left singular vectors, shape ``(d, k)``, and the scale of its noise.  It is
        close to W times the eigenvalues, so they are ordered.
        """
        known = self.rows, self.center, self.row_norm, frame
        bound = product_quantile(*known, self.budget, part, level, self.streams, *label)
        rest, rng = min(share - part, self.budget.left), self.streams("product", *label)
        product, scale = _noisy_product(*known, bound, self.budget, rest, rng, self.exact)
        return np.linalg.svd(product, full_matrices=False)[0], scale

    def often(self, frame: np.ndarray, n_steps: int, share: float) -> tuple[np.ndarray, float]:
        """Block power iteration: so many products for `share` of the budget."""
        share, scale = share / n_steps, math.nan
        for step in counted("components", n_steps):
            frame, scale = self.once(frame, share * _POWER_SHARE, _POWER_LEVEL, share, step)
        return frame, scale


@dataclasses.dataclass(frozen=True)
class GradientRelease:
    """DP-RGD on the sphere, Stiefel or Grassmann manifold, or DP-PGD with ambient noise.

    *Guarantee*: that of :class:`RiemannianGradientDescent` on :class:`SubspaceProblem`.
    """

    n_components: int
    manifold: str
    n_steps: int
    public_seed: int
    exact: bool = False

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace:
        geometry, domain = frame_space(self.manifold, rows.d, self.n_components)
        problem = SubspaceProblem(geometry, rows, center, row_norm)
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) * budget.left
        solver = RiemannianGradientDescent(
            mu=budget.take(share),
            n_steps=self.n_steps,
            step_size=STEP_SIZE / row_norm**2,
            domain=domain,
            exact=self.exact,
        )
        start = _public_frame(rows.d, self.n_components, self.public_seed)
        point = solver.solve(problem, start.reshape(geometry.shape), streams("descent"))
        query = GradientQuery(problem, point.reshape(geometry.shape))
        scale = sum_sigma(query, solver.noise_multipliers[-1], self.exact) / rows.n / 2.0
        frame = point.reshape(rows.d, -1)
        return _with_variances(frame, scale, rows, center, row_norm, budget, streams, self.exact)

    def check_integers(self, d: int, mu: float, grouped: bool) -> None:
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) / self.n_steps
        check_integers(d * self.n_components, 1.0 / (mu * math.sqrt(share)))
        _check_variances(self.n_components, mu, grouped)


@dataclasses.dataclass(frozen=True)
class ExponentialRelease:
    """Directions from the exponential mechanism, one after the other; pure differential privacy.

    *Guarantee*: the epsilons of the directions and variances add up.  Each direction is drawn for
    the records projected off the earlier ones, which shortens them.
    """

    n_components: int

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace:
        gram = rows.clipped_gram(center, row_norm)
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) * budget.left / self.n_components
        rest, frame = np.eye(rows.d), np.zeros((rows.d, 0))
        for index in range(self.n_components):
            # Coordinates of the orthogonal complement keep the law on its unit sphere.
            mechanism = ExponentialDirection(budget.take(share), row_norm)
            inside = mechanism.release(rest.T @ gram @ rest, streams("direction", index))[0]
            direction = rest @ inside
            frame = np.column_stack([frame, direction])
            rest = np.linalg.svd(frame, full_matrices=True)[0][:, index + 1 :]
        return _with_variances(frame, math.nan, rows, center, row_norm, budget, streams)


def _moments(grouped: bool) -> type[IntegerMoments]:
    """The integers of records whose second moments are added."""
    return IntegerMatrices if grouped else IntegerMoments


def _check_products(d: int, k: int, mu: float, grouped: bool) -> None:
    if grouped:
        check_integers(d * k, 1.0 / mu)
        return
    IntegerFactors(d, k, 1.0 / mu)
    # The frames that will be found are orthonormal up to rounding, as this one is.
    IntegerFrames(1.0, np.eye(d, k), 1.001 / mu)


def _check_variances(k: int, mu: float, grouped: bool) -> None:
    _moments(grouped)(1.0, k, 1.0 / (mu * math.sqrt(_INSIDE_SHARE)))
    total = _TOTAL_SHARE * (1.0 - _TRACE_SHARE if grouped else 1.0)
    check_integers(1, 1.0 / (mu * math.sqrt(total)))


# -- parts --------------------------------------------------------------------------------------


def _per_row(rows: Records, term: Sensitivity, largest: float, dim: int) -> Sensitivity:
    """Of a mean of one such term per row, as floats add it; no summand is longer than `largest`.

    The sums of people are not raised: how many rows they have is nobody's business.
    """
    term = disjoint_groups_sensitivity(term) if rows.paired else term
    if isinstance(rows, Rows):
        term = computed_sum_sensitivity(term, largest, rows.n, dim, rows.longest_tile)
    return mean_sensitivity(term, rows.n)


def _largest(center: np.ndarray, row_norm: float) -> float:
    """How long a term may be that stands for a row's product with itself, in a sum of floats.

    Where rows are centred after they were added, theorem and constant are those of
    :func:`skriemdp.location_scale.rows.largest_summand`, squared.
    """
    return (largest_summand(row_norm) if center.any() else row_norm) ** 2


def _noisy_matrix(
    rows: Records,
    center: np.ndarray,
    row_norm: float,
    mu: float,
    rng: np.random.Generator,
    exact: bool,
) -> tuple[np.ndarray, float]:
    """The second moment of clipped rows plus noise, and the noise along a unit matrix."""
    if exact:
        lattice = _moments(rows.grouped)(row_norm, rows.d, 1.0 / mu)
        return lattice.release(rows.centred(center), rng) / rows.n, lattice.sigma / rows.n
    term, largest = second_moment_sensitivity(row_norm), _largest(center, row_norm)
    sensitivity = _per_row(rows, term, largest, rows.d**2)
    mechanism = SymmetricGaussian(rows.d, sensitivity, 1.0 / mu)
    moment = rows.clipped_gram(center, row_norm) / rows.n
    return mechanism.release(moment, rng), mechanism.sigma


def _from_matrix(matrix: np.ndarray, sigma: float, k: int) -> Subspace:
    values, vectors = np.linalg.eigh(matrix)
    frame = _signed(vectors[:, ::-1][:, :k])
    return Subspace(
        components=frame.T,
        variances=values[::-1][:k],
        total_variance=float(np.trace(matrix)),
        noise_scale=sigma / math.sqrt(2.0),
        spectrum=values[::-1].copy(),
        spectrum_noise=sigma / math.sqrt(2.0),
    )


def _noisy_product(
    rows: Records,
    center: np.ndarray,
    row_norm: float,
    frame: np.ndarray,
    bound: float,
    budget: Budget,
    share: float,
    rng: np.random.Generator,
    exact: bool,
) -> tuple[np.ndarray, float]:
    """Mean of ``z z' W``, terms clipped to Frobenius norm `bound`, plus noise; and its scale."""
    if isinstance(rows, GroupedRows):
        query = _product_query(rows, center, row_norm, frame, bound)
        multiplier = 1.0 / budget.take(share)
        noisy = noisy_sum(query, multiplier, rng, exact=exact)
        if query.bound.center is not None:
            noisy = noisy + rows.n * query.bound.center
        scale = sum_sigma(query, multiplier, exact) / rows.n
        return noisy.reshape(frame.shape) / rows.n, scale
    if exact:
        multiplier = 1.0 / budget.take(share)
        total, sigma = _exact_product(rows, center, row_norm, frame, bound, multiplier, rng)
        return total / rows.n, sigma / rows.n
    term = frame_product_sensitivity(row_norm, frame.shape[1], bound)
    term = _per_row(rows, term, _largest(center, row_norm), frame.size)
    mechanism = budget.noise(share, term, frame.size)
    mean = rows.clipped_product(center, row_norm, frame, bound) / rows.n
    return mechanism.release(mean.ravel(), rng).reshape(frame.shape), mechanism.sigma


def _product_query(
    rows: GroupedRows, center: np.ndarray, row_norm: float, frame: np.ndarray, bound: float
) -> RowSum:
    """People's terms ``A W``, each in a ball; they are no outer products."""
    ball = product_ball(row_norm, frame).clipped(bound)
    return RowSum(rows.n, frame.size, ball, lambda: rows.products(center, row_norm, frame))


def _exact_product(
    rows: Rows,
    center: np.ndarray,
    row_norm: float,
    frame: np.ndarray,
    bound: float,
    multiplier: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """As the sum behind :func:`_noisy_product`, in integers: of factors, or of rows and frame."""
    factors = IntegerFactors(frame.shape[0], frame.shape[1], multiplier)
    if frame_product_sensitivity(row_norm, frame.shape[1]).value <= 2.0 * bound:
        lattice = IntegerFrames(row_norm, frame, multiplier)
        return lattice.release(rows.centred(center), rng), lattice.sigma
    total = factors.start()
    for z, projections in rows.projected(center, row_norm, frame):
        factors.add(total, *factors.balanced(z, projections, bound))
    return factors.release(total, bound, rng), factors.sigma(bound)


def _with_variances(
    frame: np.ndarray,
    scale: float,
    rows: Records,
    center: np.ndarray,
    row_norm: float,
    budget: Budget,
    streams: Streams,
    exact: bool = False,
) -> Subspace:
    """Order the columns by their released variances, with what is left of the budget."""
    inside = budget.left * _INSIDE_SHARE / (_INSIDE_SHARE + _TOTAL_SHARE)
    most = row_norm**2
    if isinstance(rows, GroupedRows) and not rows.by_trace:
        # The Frobenius norm of a matrix does not bound its trace by the same number.
        share = _TRACE_SHARE * (budget.left - inside)
        most = trace_quantile(rows, center, row_norm, budget, share, _TRACE_LEVEL, streams)
    rng = streams("inside variance"), streams("total variance")
    release = _exact_variances if exact else _float_variances
    small, total = release(frame, rows, center, row_norm, most, budget, inside, rng)
    values, vectors = np.linalg.eigh(small)
    frame = _signed(frame @ vectors[:, ::-1])
    return Subspace(frame.T, values[::-1], total, scale)


Rngs = tuple[np.random.Generator, np.random.Generator]


def _float_variances(
    frame: np.ndarray,
    rows: Records,
    center: np.ndarray,
    row_norm: float,
    most: float,
    budget: Budget,
    inside: float,
    rngs: Rngs,
) -> tuple[np.ndarray, float]:
    """Second moment of the coordinates in the frame, and of all together, each at most `most`."""
    gram, total = rows.clipped_projected_gram(center, row_norm, frame, most)
    k = frame.shape[1]
    # Symmetric matrices as vectors: an isometry takes them to R^(k (k + 1) / 2).
    upper = np.triu_indices(k)
    weights = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    square = interval_sensitivity(row_norm**2)
    moment = square if k == 1 else second_moment_sensitivity(row_norm)
    moment = _per_row(rows, moment, row_norm**2, len(weights))
    mechanism = budget.noise(inside, moment, len(weights))
    noisy = mechanism.release(gram[upper] * weights / rows.n, rngs[0])
    small = np.zeros((k, k))
    small[upper] = noisy / weights
    trace = _per_row(rows, interval_sensitivity(most), most, 1)
    mechanism = budget.rest_noise(trace, 1)
    noisy = mechanism.release(np.array([total / rows.n]), rngs[1])
    return small + np.triu(small, 1).T, float(noisy[0])


def _exact_variances(
    frame: np.ndarray,
    rows: Records,
    center: np.ndarray,
    row_norm: float,
    most: float,
    budget: Budget,
    inside: float,
    rngs: Rngs,
) -> tuple[np.ndarray, float]:
    """As :func:`_float_variances`, in integers."""
    multiplier, k = 1.0 / budget.take(inside), frame.shape[1]

    def mean_square(
        tiles: Callable[[], Iterator[np.ndarray]],
        most: float,
        multiplier: float,
        rng: np.random.Generator,
    ) -> float:
        half = 0.5 * most
        query = RowSum(rows.n, 1, Ball(half, np.array([half])), tiles)
        noisy = noisy_sum(query, multiplier, rng, exact=True)
        return float(noisy[0]) / rows.n + half

    if k == 1:
        squares = lambda: rows.inside_squares(center, row_norm, frame)  # noqa: E731
        small = np.array([[mean_square(squares, row_norm**2, multiplier, rngs[0])]])
    else:
        lattice = _moments(rows.grouped)(row_norm, k, multiplier)
        inner = (inside for _, inside in rows.projected(center, row_norm, frame))
        small = lattice.release(inner, rngs[0]) / rows.n
    lengths = lambda: rows.clipped_squares(center, row_norm)  # noqa: E731
    return small, mean_square(lengths, most, 1.0 / budget.rest(), rngs[1])


def _signed(frame: np.ndarray) -> np.ndarray:
    """Columns with their largest entry positive; eigenvectors have no sign of their own."""
    largest = frame[np.argmax(np.abs(frame), axis=0), np.arange(frame.shape[1])]
    return frame * np.where(largest < 0, -1.0, 1.0)


def _public_frame(d: int, k: int, public_seed: int) -> np.ndarray:
    """A uniformly random public frame, shape ``(d, k)``."""
    rng = public_generator(public_seed, "start of a private PCA", d, k)
    q, r = np.linalg.qr(rng.standard_normal((d, k)))
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)
