"""Private releases of a principal subspace: one frozen settings object per mechanism."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Protocol

import numpy as np
from scipy.special import chdtri

from skriemdp._arrays import squared_lengths
from skriemdp._dataclasses import dataclass
from skriemdp._groups import Groups
from skriemdp._progress import counted
from skriemdp._random import public_generator
from skriemdp.descent.gradient_descent import RiemannianGradientDescent
from skriemdp.descent.queries import GradientQuery
from skriemdp.location_scale.grouped_rows import GroupedRows, records_of
from skriemdp.location_scale.rows import Rows, centred_rows, row_products
from skriemdp.mechanisms.bingham import ExponentialDirection
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.counts import GaussianCount
from skriemdp.mechanisms.held import Frame, Held, Moment, Outer, ball, unpacked, variances
from skriemdp.mechanisms.sum import mu_of, plain_moment, private_sum
from skriemdp.pca.bounds import (
    VARIANCES,
    Budget,
    Records,
    Streams,
    noisy_mean,
    noisy_number,
    product_quantile,
    trace_quantile,
)
from skriemdp.pca.problem import SubspaceProblem, frame_space, product_ball
from skriemdp.privacy.sensitivity import frame_product_sensitivity

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
    "exact_moment",
]

# Names of the releases.
_MOMENT, _REFINEMENT, _PRODUCTS = "second moment", "refinement", "products"
_GRADIENTS, _DIRECTIONS = "gradients", "directions"
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


@dataclass(frozen=True)
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

    def reserve(self, budget: Budget, d: int) -> None:
        """Take from the budget of a plan what the search leaves."""
        ...

    def sums(self, d: int, people: bool) -> list[tuple[float, Held]]:
        """Shares of what the search leaves for the sums, and sets that are as fine as theirs."""
        ...


@dataclass(frozen=True)
class CovarianceRelease:
    """Eigenvectors of the clipped second moment plus symmetric noise (Analyze Gauss).

    *Guarantee*: that of a sum held in a :class:`Moment`, of sensitivity ``sqrt(2) row_norm^2``; the
    eigenvectors and eigenvalues of the released matrix are post-processing, however many are used.
    Noise is isotropic in the Frobenius norm: the product with any unit vector has the noise of one
    private matrix-vector product with the whole budget, so iterating privately cannot gain.
    """

    n_components: int

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace:
        rng = streams("second moment")
        mu = budget.rest(_MOMENT, rows.d**2)
        matrix, sigma = _noisy_matrix(rows, center, row_norm, mu, rng)
        return _from_matrix(matrix, sigma, self.n_components)

    def reserve(self, budget: Budget, d: int) -> None:
        budget.rest(_MOMENT, d**2)

    def sums(self, d: int, people: bool) -> list[tuple[float, Held]]:
        return [(1.0, Moment(1.0, d, people))]


@dataclass(frozen=True)
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
    people : bool, default=False
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
    people: bool = False

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
        moment, _ = _noisy_matrix(rows, self.center, self.row_norm, self.mu, rng)
        return np.concatenate([[noisy], rows.n * moment.ravel()])

    def finish(self, noisy: np.ndarray, n: int, n_tables: int) -> Subspace:
        """The subspace of noisy sums over so many tables, of n records in all."""
        held = Moment(self.row_norm, self.dim, self.people)
        sigma = math.sqrt(n_tables) * held.sigma(held.check(self.mu)) / n
        matrix = noisy[1:].reshape(self.dim, self.dim) / n
        return _from_matrix(matrix, sigma, self.n_components)


def count_beyond(rows: Rows | GroupedRows, center: np.ndarray, row_norm: float) -> int:
    """Number of rows, or of people, farther than `row_norm` from the centre; private."""
    tiles = rows.squared_norms(center)
    return int(sum(np.count_nonzero(~(squares <= row_norm**2)) for squares in tiles))


@dataclass(frozen=True)
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

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace:
        left = budget.left
        mu = budget.take(_MATRIX_SHARE * left, _MOMENT, rows.d**2)
        rng = streams("second moment")
        matrix, sigma = _noisy_matrix(rows, center, row_norm, mu, rng)
        rough = _from_matrix(matrix, sigma, self.n_components)
        if not _is_flat(rough, row_norm):
            rng = streams("second moment", 2)
            mu = budget.rest(_REFINEMENT)
            again, second = _noisy_matrix(rows, center, row_norm, mu, rng)
            weight = sigma**2 / (sigma**2 + second**2)
            matrix = matrix + weight * (again - matrix)
            return _from_matrix(matrix, second * math.sqrt(weight), self.n_components)
        products = _Iteration(rows, center, row_norm, budget, _REFINEMENT, streams)
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

    def reserve(self, budget: Budget, d: int) -> None:
        budget.take(_MATRIX_SHARE * budget.left, _MOMENT, d**2)
        budget.rest(_REFINEMENT)

    def sums(self, d: int, people: bool) -> list[tuple[float, Held]]:
        rest = 1.0 - _MATRIX_SHARE
        matrices: list[tuple[float, Held]] = [
            (share, Moment(1.0, d, people)) for share in (_MATRIX_SHARE, rest)
        ]
        shares = rest - _REFINED_SHARE, rest / _SEARCH_STEPS * (1.0 - _POWER_SHARE)
        return matrices + _products(d, self.n_components, shares, people)


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


@dataclass(frozen=True)
class PowerRelease:
    """Block power iteration with clipped, noisy products; for d x d matrices too large to form.

    *Guarantee*: adaptive Gaussian releases within one budget, as in :class:`RefineRelease`.
    """

    n_components: int
    n_steps: int
    public_seed: int

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace:
        frame = _public_frame(rows.d, self.n_components, self.public_seed)
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) * budget.left
        products = _Iteration(rows, center, row_norm, budget, _PRODUCTS, streams)
        frame, scale = products.often(frame, self.n_steps, share)
        return _with_variances(frame, scale, rows, center, row_norm, budget, streams)

    def reserve(self, budget: Budget, d: int) -> None:
        _reserve(budget, _PRODUCTS)

    def sums(self, d: int, people: bool) -> list[tuple[float, Held]]:
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) / self.n_steps * (1.0 - _POWER_SHARE)
        k = self.n_components
        return _products(d, k, (share,), people) + _variances(k, people)


@dataclass(frozen=True)
class _Iteration:
    """Clipped, noisy products of the second moment with frames, and the frames that they span."""

    rows: Records
    center: np.ndarray
    row_norm: float
    budget: Budget
    name: str
    streams: Streams

    def once(
        self, frame: np.ndarray, part: float, level: float, share: float, *label: object
    ) -> tuple[np.ndarray, float]:
        """One product for `share` of the budget, `part` of it for the bound of its terms.

        Returns its left singular vectors, shape ``(d, k)``, and the scale of its noise.  It is
        close to W times the eigenvalues, so they are ordered.
        """
        known = self.rows, self.center, self.row_norm, frame
        bound = product_quantile(*known, self.budget, part, self.name, level, self.streams, *label)
        rest, rng = min(share - part, self.budget.left), self.streams("product", *label)
        mu = self.budget.take(rest, self.name)
        product, scale = _noisy_product(*known, bound, mu, rng)
        return np.linalg.svd(product, full_matrices=False)[0], scale

    def often(self, frame: np.ndarray, n_steps: int, share: float) -> tuple[np.ndarray, float]:
        """Block power iteration: so many products for `share` of the budget."""
        share, scale = share / n_steps, math.nan
        for step in counted("components", n_steps):
            frame, scale = self.once(frame, share * _POWER_SHARE, _POWER_LEVEL, share, step)
        return frame, scale


@dataclass(frozen=True)
class GradientRelease:
    """DP-RGD on the sphere, Stiefel or Grassmann manifold, or DP-PGD with ambient noise.

    *Guarantee*: that of :class:`RiemannianGradientDescent` on :class:`SubspaceProblem`.
    """

    n_components: int
    manifold: Any
    n_steps: int
    public_seed: int

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace:
        geometry, domain = frame_space(self.manifold, rows.d, self.n_components)
        problem = SubspaceProblem(geometry, rows, center, row_norm)
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) * budget.left
        solver = RiemannianGradientDescent(
            mu=budget.take(share, _GRADIENTS, rows.d * self.n_components),
            n_steps=self.n_steps,
            step_size=STEP_SIZE / row_norm**2,
            domain=domain,
        )
        start = _public_frame(rows.d, self.n_components, self.public_seed)
        point = solver.solve(problem, start.reshape(geometry.shape), streams("descent"))
        held = GradientQuery(problem, point.reshape(geometry.shape)).held
        sigma = held.sigma(held.check(mu_of(solver.noise_multipliers[-1])))
        scale = sigma / rows.n / 2.0
        frame = point.reshape(rows.d, -1)
        return _with_variances(frame, scale, rows, center, row_norm, budget, streams)

    def reserve(self, budget: Budget, d: int) -> None:
        _reserve(budget, _GRADIENTS, d * self.n_components)

    def sums(self, d: int, people: bool) -> list[tuple[float, Held]]:
        share, k = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) / self.n_steps, self.n_components
        return [(share, ball(Ball(1.0), d * k)), *_variances(k, people)]


@dataclass(frozen=True)
class ExponentialRelease:
    """Directions from the exponential mechanism, one after the other; pure differential privacy.

    *Guarantee*: the epsilons of the directions and variances add up.  Each direction is drawn for
    the records projected off the earlier ones, which shortens them.
    """

    n_components: int

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace:
        gram, longest = exact_moment(rows, center, row_norm)
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) * budget.left / self.n_components
        rest, frame = np.eye(rows.d), np.zeros((rows.d, 0))
        for index in range(self.n_components):
            # Coordinates of the orthogonal complement keep the law on its unit sphere.
            epsilon = budget.take(share, _DIRECTIONS, rows.d, "exponential")
            mechanism = ExponentialDirection(epsilon, longest)
            inside = mechanism.release(rest.T @ gram @ rest, streams("direction", index))[0]
            direction = rest @ inside
            frame = np.column_stack([frame, direction])
            rest = np.linalg.svd(frame, full_matrices=True)[0][:, index + 1 :]
        return _with_variances(frame, math.nan, rows, center, row_norm, budget, streams)

    def reserve(self, budget: Budget, d: int) -> None:
        _reserve(budget, _DIRECTIONS, d, "exponential")


def _reserve(budget: Budget, name: str, dim: int | None = None, law: str = "") -> None:
    """Take from the budget of a plan the directions, and variances by :func:`_with_variances`."""
    budget.take((1.0 - _INSIDE_SHARE - _TOTAL_SHARE) * budget.left, name, dim, law)
    budget.rest(VARIANCES)


def _products(d: int, k: int, shares: tuple[float, ...], people: bool) -> list[tuple[float, Held]]:
    # The frames that will be found are orthonormal up to rounding, as this one is.
    kinds = [ball(Ball(1.0), d * k)] if people else [Outer(1.0, d, k), Frame(1.0, np.eye(d, k))]
    return [(0.998 * share, held) for share in shares for held in kinds]


def _variances(k: int, people: bool) -> list[tuple[float, Held]]:
    total = _TOTAL_SHARE * (1.0 - _TRACE_SHARE if people else 1.0)
    return [(_INSIDE_SHARE, variances(1.0, k)), (total, ball(Ball(0.5), 1))]


# -- parts --------------------------------------------------------------------------------------


def _noisy_matrix(
    rows: Records, center: np.ndarray, row_norm: float, mu: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """The second moment of clipped rows plus noise, and the noise along a unit matrix."""
    held = Moment(row_norm, rows.d, rows.grouped)
    give = centred_rows(center, keep_sparse=not rows.grouped)
    noisy = private_sum(rows.units, give, held, mu, rng)
    return noisy.value / rows.n, noisy.sigma / rows.n


def exact_moment(rows: Records, center: np.ndarray, row_norm: float) -> tuple[np.ndarray, float]:
    """Sum of the second moments of clipped rows, for pure noise, and a bound of their lengths.

    Those of people are bounded by their traces.
    """
    held = Moment(row_norm, rows.d, rows.grouped, by_trace=rows.grouped)
    give = centred_rows(center, keep_sparse=not rows.grouped)
    return plain_moment(rows.units, give, held, rows.n)


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
    mu: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """Mean of ``z z' W``, terms clipped to Frobenius norm `bound`, plus noise; and its scale."""
    units, weighted = rows.weighted(center, row_norm)
    shape, n, middle = frame.shape, rows.n, None
    if rows.grouped:  # people's terms ``A W`` are no outer products

        def terms(*own: Any) -> np.ndarray:
            z, weights = weighted(*own)
            along = row_products(z, frame) * np.square(weights)[:, None]
            return (z[:, :, None] * along[:, None, :]).reshape(len(along), -1)

        inside = product_ball(row_norm, frame).clipped(bound)
        middle, held = inside.center, ball(inside, frame.size)
        noisy = private_sum(units, terms, held, mu, rng)
    elif frame_product_sensitivity(row_norm, shape[1]).value <= 2.0 * bound:
        noisy = private_sum(units, centred_rows(center), Frame(row_norm, frame), mu, rng)
    else:
        centred = centred_rows(center, keep_sparse=True)

        def factors(own: Any) -> tuple[Any, np.ndarray]:
            return (z := centred(own)), row_products(z, frame)

        noisy = private_sum(units, factors, Outer(bound, shape[0], shape[1], row_norm), mu, rng)
    mean = noisy.value.reshape(shape) / n
    return mean if middle is None else mean + middle.reshape(shape), noisy.sigma / n


def _with_variances(
    frame: np.ndarray,
    scale: float,
    rows: Records,
    center: np.ndarray,
    row_norm: float,
    budget: Budget,
    streams: Streams,
) -> Subspace:
    """Order the columns by their released variances, with what is left of the budget."""
    part = budget.left * _INSIDE_SHARE / (_INSIDE_SHARE + _TOTAL_SHARE)
    most, k = row_norm**2, frame.shape[1]
    if isinstance(rows, GroupedRows) and not rows.by_trace:
        # The Frobenius norm of a matrix does not bound its trace by the same number.
        share = _TRACE_SHARE * (budget.left - part)
        most = trace_quantile(rows, center, row_norm, budget, share, _TRACE_LEVEL, streams)
    units, weighted = rows.weighted(center, row_norm)

    def inside(*own: Any) -> np.ndarray:
        z, weights = weighted(*own)
        return row_products(z, frame) * weights[:, None]

    def squares(*own: Any) -> np.ndarray:
        z, weights = weighted(*own)
        return (squared_lengths(z) * np.square(weights))[:, None]

    known, rng = (rows.n, budget), streams("inside variance")
    packed, _ = noisy_mean(units, inside, variances(row_norm, k), *known, part, VARIANCES, rng)
    rng = streams("total variance")
    total, _ = noisy_number(units, squares, most, *known, budget.left, VARIANCES, rng)
    values, vectors = np.linalg.eigh(unpacked(packed, k))
    frame = _signed(frame @ vectors[:, ::-1])
    return Subspace(frame.T, values[::-1], total, scale)


def _signed(frame: np.ndarray) -> np.ndarray:
    """Columns with their largest entry positive; eigenvectors have no sign of their own."""
    largest = frame[np.argmax(np.abs(frame), axis=0), np.arange(frame.shape[1])]
    return frame * np.where(largest < 0, -1.0, 1.0)


def _public_frame(d: int, k: int, public_seed: int) -> np.ndarray:
    """A uniformly random public frame, shape ``(d, k)``."""
    rng = public_generator(public_seed, "start of a private PCA", d, k)
    q, r = np.linalg.qr(rng.standard_normal((d, k)))
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)
