"""Private releases of a principal subspace: one frozen settings object per mechanism."""

from __future__ import annotations

import abc
import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import chdtri

from skriemdp._arrays import squared_lengths
from skriemdp._location_scale.rows import centred_rows, row_products
from skriemdp._mechanisms.bounded_sets import Frame, Moment, Outer, ball, unpacked, variances
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.quantile import noisy_quantile
from skriemdp._mechanisms.sum import plain_moment, private_sum
from skriemdp._pca.search_releases import Bounds, Budget, Streams, noisy_mean, noisy_number
from skriemdp._progress import counted
from skriemdp._random import public_generator
from skriemdp.inference._covariances import variances_along
from skriemdp.privacy._sensitivity import frame_product_sensitivity

if TYPE_CHECKING:
    from skriemdp._pca.search_releases import Records

# Names of the releases.
MOMENT, _REFINEMENT, _VARIANCES = "second moment", "refinement", "variances"
# Grid of the bounds of products and traces, over the largest possible one: a convention.
_BELOW = 1.08 ** np.arange(-127.0, 1.0)

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
        release that the components come from.
    spectrum : ndarray of shape (d,) or None
        All eigenvalues of the released matrix, decreasing.
    spectrum_noise : float or None
        Standard deviation of the noise of that matrix's entries off the diagonal.
    along : ndarray of shape (k,) or None
        Variances without what noise adds to eigenvalues, where the components are eigenvectors of
        that matrix.
    """

    components: np.ndarray
    variances: np.ndarray
    total_variance: float
    noise_scale: float
    spectrum: np.ndarray | None = None
    spectrum_noise: float | None = None
    along: np.ndarray | None = None


@dataclass(frozen=True)
class Release(abc.ABC):
    """Releases a principal subspace of clipped rows with what is left of a budget."""

    n_components: int

    @abc.abstractmethod
    def release(self, found: Bounds, budget: Budget, streams: Streams) -> Subspace:
        """The subspace of the rows that a search found."""

    @abc.abstractmethod
    def reserve(self, budget: Budget, d: int, people: bool) -> None:
        """Take from the budget of a plan what the search leaves.

        ValueError where integers would be too coarse for some sum.
        """


@dataclass(frozen=True)
class CovarianceRelease(Release):
    """Eigenvectors of the clipped second moment plus symmetric noise (Analyze Gauss).

    *Guarantee*: that of a sum held in a :class:`Moment`, of sensitivity ``sqrt(2) row_norm^2``; the
    eigenvectors and eigenvalues of the released matrix are post-processing, however many are used.
    Noise is isotropic in the Frobenius norm: the product with any unit vector has the noise of one
    private matrix-vector product with the whole budget, so iterating privately cannot gain.
    """

    def release(self, found: Bounds, budget: Budget, streams: Streams) -> Subspace:
        mu = budget.rest(MOMENT, found.rows.d**2)
        matrix, sigma = noisy_matrix(found, mu, streams("second moment"))
        return from_matrix(matrix, sigma, self.n_components)

    def reserve(self, budget: Budget, d: int, people: bool) -> None:
        Moment(1.0, d, people).check(budget.rest(MOMENT, d**2))


@dataclass(frozen=True)
class RefineRelease(Release):
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

    def release(self, found: Bounds, budget: Budget, streams: Streams) -> Subspace:
        left = budget.remaining
        mu = budget.take(_MATRIX_SHARE * left, MOMENT, found.rows.d**2)
        matrix, sigma = noisy_matrix(found, mu, streams("second moment"))
        rough = from_matrix(matrix, sigma, self.n_components)
        if not _is_flat(rough, found.row_norm):
            mu = budget.rest(_REFINEMENT)
            again, second = noisy_matrix(found, mu, streams("second moment", 2))
            weight = sigma**2 / (sigma**2 + second**2)
            matrix = matrix + weight * (again - matrix)
            return from_matrix(matrix, second * math.sqrt(weight), self.n_components)
        products = _Iteration(found, budget, _REFINEMENT, streams)
        frame = rough.components.T
        if _stands_out(rough):
            frame, scale = products.once(
                frame, _REFINED_SHARE * left, _REFINED_LEVEL, budget.remaining
            )
        else:
            frame, scale = products.often(frame, _SEARCH_STEPS, budget.remaining)
        frame = signed(frame)
        variances = np.einsum("ij,ij->j", frame, matrix @ frame)
        return dataclasses.replace(
            rough, components=frame.T, variances=variances, noise_scale=scale, along=None
        )

    def reserve(self, budget: Budget, d: int, people: bool) -> None:
        part = _REFINED_SHARE / (1.0 - _MATRIX_SHARE)
        square = Moment(1.0, d, people)
        square.check(budget.take(_MATRIX_SHARE * budget.remaining, MOMENT, d**2))
        square.check(mu := budget.rest(_REFINEMENT))
        for share in (1.0 - part, (1.0 - _POWER_SHARE) / _SEARCH_STEPS):
            _check_products(mu * math.sqrt(share), d, self.n_components, people)


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
class Directions(Release):
    """Releases a frame, then the variances in it, which no noisy matrix shows."""

    name: ClassVar[str]

    def dim(self, d: int) -> int | None:
        """Number of coordinates of one of the releases; None where there are several kinds."""
        return None

    @abc.abstractmethod
    def frame(
        self, found: Bounds, budget: Budget, share: float, streams: Streams
    ) -> tuple[np.ndarray, float]:
        """Orthonormal columns for `share` of the budget, and the scale of their noise."""

    @abc.abstractmethod
    def check(self, mu: float, d: int, people: bool) -> None:
        """ValueError where integers would be too coarse for what has this mu in all."""

    def release(self, found: Bounds, budget: Budget, streams: Streams) -> Subspace:
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) * budget.remaining
        frame, scale = self.frame(found, budget, share, streams)
        return _with_variances(frame, scale, found, budget, streams)

    def reserve(self, budget: Budget, d: int, people: bool) -> None:
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) * budget.remaining
        mu = budget.take(share, self.name, self.dim(d))
        total = budget.rest(_VARIANCES) / math.sqrt(_INSIDE_SHARE + _TOTAL_SHARE)
        self.check(mu, d, people)
        variances(1.0, self.n_components).check(total * math.sqrt(_INSIDE_SHARE))
        share = _TOTAL_SHARE * (1.0 - _TRACE_SHARE if people else 1.0)
        ball(Ball(0.5), 1).check(total * math.sqrt(share))


@dataclass(frozen=True)
class PowerRelease(Directions):
    """Block power iteration with clipped, noisy products; for d x d matrices too large to form.

    *Guarantee*: adaptive Gaussian releases within one budget, as in :class:`RefineRelease`.
    """

    n_steps: int
    public_seed: int
    name = "products"

    def frame(
        self, found: Bounds, budget: Budget, share: float, streams: Streams
    ) -> tuple[np.ndarray, float]:
        frame = public_frame(found.rows.d, self.n_components, self.public_seed)
        products = _Iteration(found, budget, self.name, streams)
        return products.often(frame, self.n_steps, share)

    def check(self, mu: float, d: int, people: bool) -> None:
        mu *= math.sqrt((1.0 - _POWER_SHARE) / self.n_steps)
        _check_products(mu, d, self.n_components, people)


@dataclass(frozen=True)
class _Iteration:
    """Clipped, noisy products of the second moment with frames, and the frames that they span."""

    found: Bounds
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
        rows, center, norm = self.found.rows, self.found.center, self.found.row_norm
        # A norm that bounds about the fraction `level` of the terms z z' W.
        norms, rng = rows.product_norms(center, norm, frame), self.streams("product norm", *label)
        grid = norm**2 * _BELOW
        bound = noisy_quantile(self.budget, part, self.name, grid, level, norms, rows.n, rng)
        mu = self.budget.take(min(share - part, self.budget.remaining), self.name)
        rng = self.streams("product", *label)
        product, scale = _noisy_product(self.found, frame, bound, mu, rng)
        return np.linalg.svd(product, full_matrices=False)[0], scale

    def often(self, frame: np.ndarray, n_steps: int, share: float) -> tuple[np.ndarray, float]:
        """Block power iteration: so many products for `share` of the budget."""
        share, scale = share / n_steps, math.nan
        for step in counted("components", n_steps):
            frame, scale = self.once(frame, share * _POWER_SHARE, _POWER_LEVEL, share, step)
        return frame, scale


def _check_products(mu: float, d: int, k: int, people: bool) -> None:
    """ValueError where integers would be too coarse for a product with a frame."""
    # The frames that will be found are orthonormal up to rounding, as this one is.
    kinds = [ball(Ball(1.0), d * k)] if people else [Outer(1.0, d, k), Frame(1.0, np.eye(d, k))]
    for bounded_set in kinds:
        bounded_set.check(mu * math.sqrt(0.998))


# -- parts --------------------------------------------------------------------------------------


def noisy_matrix(found: Bounds, mu: float, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """The second moment of clipped rows plus noise, and the noise along a unit matrix."""
    rows = found.rows
    bounded_set = Moment(found.row_norm, rows.d, rows.grouped)
    give = centred_rows(found.center, keep_sparse=not rows.grouped)
    noisy = private_sum(rows.units, give, bounded_set, mu, rng)
    return noisy.value / rows.n, noisy.sigma / rows.n


def exact_moment(rows: Records, center: np.ndarray, row_norm: float) -> tuple[np.ndarray, float]:
    """Sum of the second moments of clipped rows, for pure noise, and a bound of their lengths.

    Those of people are bounded by their traces.
    """
    bounded_set = Moment(row_norm, rows.d, rows.grouped, by_trace=rows.grouped)
    give = centred_rows(center, keep_sparse=not rows.grouped)
    return plain_moment(rows.units, give, bounded_set, rows.n)


def from_matrix(matrix: np.ndarray, sigma: float, k: int) -> Subspace:
    values, vectors = np.linalg.eigh(matrix)
    frame = signed(vectors[:, ::-1][:, :k])
    return Subspace(
        components=frame.T,
        variances=values[::-1][:k],
        total_variance=float(np.trace(matrix)),
        noise_scale=sigma / math.sqrt(2.0),
        spectrum=values[::-1].copy(),
        spectrum_noise=sigma / math.sqrt(2.0),
        along=variances_along(values[::-1], sigma)[:k],
    )


def _noisy_product(
    found: Bounds, frame: np.ndarray, bound: float, mu: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Mean of ``z z' W``, terms clipped to Frobenius norm `bound`, plus noise; and its scale."""
    rows, center, row_norm = found.rows, found.center, found.row_norm
    units, weighted = rows.weighted(center, row_norm)
    shape, n, middle = frame.shape, rows.n, None
    if rows.grouped:  # people's terms ``A W`` are no outer products

        def terms(*own: Any) -> np.ndarray:
            z, weights = weighted(*own)
            along = row_products(z, frame) * np.square(weights)[:, None]
            return (z[:, :, None] * along[:, None, :]).reshape(len(along), -1)

        inside = product_ball(row_norm, frame).clipped(bound)
        middle, bounded_set = inside.center, ball(inside, frame.size)
        noisy = private_sum(units, terms, bounded_set, mu, rng)
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
    frame: np.ndarray, scale: float, found: Bounds, budget: Budget, streams: Streams
) -> Subspace:
    """Order the columns by their released variances, with what is left of the budget."""
    rows: Any = found.rows  # those of people have traces too
    center, row_norm = found.center, found.row_norm
    part = budget.remaining * _INSIDE_SHARE / (_INSIDE_SHARE + _TOTAL_SHARE)
    most, k = row_norm**2, frame.shape[1]
    if rows.grouped:
        # The Frobenius norm of a matrix bounds its trace by sqrt(d) times as much; few need that.
        share, grid = _TRACE_SHARE * (budget.remaining - part), row_norm * rows.d**0.25 * _BELOW
        traces = (np.sqrt(tile[:, 0]) for tile in rows.scaled_squares(center, row_norm))
        known = share, _VARIANCES, grid, _TRACE_LEVEL, traces, rows.n, streams("trace")
        most = noisy_quantile(budget, *known) ** 2
    units, weighted = rows.weighted(center, row_norm)

    def inside(*own: Any) -> np.ndarray:
        z, weights = weighted(*own)
        return row_products(z, frame) * weights[:, None]

    def squares(*own: Any) -> np.ndarray:
        z, weights = weighted(*own)
        return (squared_lengths(z) * np.square(weights))[:, None]

    bounded_set, rng = variances(row_norm, k), streams("inside variance")
    packed, _ = noisy_mean(units, inside, bounded_set, rows.n, budget, part, _VARIANCES, rng)
    rest, rng = budget.remaining, streams("total variance")
    total, _ = noisy_number(units, squares, most, rows.n, budget, rest, _VARIANCES, rng)
    values, vectors = np.linalg.eigh(unpacked(packed, k))
    frame = signed(frame @ vectors[:, ::-1])
    return Subspace(frame.T, values[::-1], total, scale)


def signed(frame: np.ndarray) -> np.ndarray:
    """Columns with their largest entry positive; eigenvectors have no sign of their own."""
    largest = frame[np.argmax(np.abs(frame), axis=0), np.arange(frame.shape[1])]
    return frame * np.where(largest < 0, -1.0, 1.0)


def public_frame(d: int, k: int, public_seed: int) -> np.ndarray:
    """A uniformly random public frame, shape ``(d, k)``."""
    rng = public_generator(public_seed, "start of a private PCA", d, k)
    q, r = np.linalg.qr(rng.standard_normal((d, k)))
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)


def product_ball(row_norm: float, frame: np.ndarray) -> Ball:
    """The ball of all ``A W``, A positive semidefinite with ``|A|_F <= row_norm^2``, W a frame.

    Radius ``row_norm^2 rho`` about ``(row_norm^2 / m) W``, with ``m = max(k, 2)`` and ``rho = 1/2``
    for one column, ``sqrt(1 - 1/k)`` for more (docs/theory/pca.md, docs/theory/groups.md).
    """
    columns = frame.shape[1]
    share = 0.5 if columns == 1 else math.sqrt(1.0 - 1.0 / columns)
    return Ball(row_norm**2 * share, row_norm**2 / max(columns, 2) * frame.ravel())
