"""`PrivateMatrixCompletion`: a private recommender; users complete their own rows locally."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skriemdp._arrays import ManifoldLike
from skriemdp._completion.local_factors import local_coordinates
from skriemdp._completion.problem import with_data
from skriemdp._completion.releases import (
    STOCHASTIC_BATCHES,
    STOCHASTIC_STEPS,
    CompletionPlan,
    release_model,
)
from skriemdp._core.estimator import Data, Plan, PrivateEstimator, Terms
from skriemdp._core.work import Work
from skriemdp._descent.releases import PoissonSampler
from skriemdp._descent.stochastic import NOISE_BRACKET, RiemannianSGD
from skriemdp._descent.trajectory import Moves
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._mechanisms.counts import noisy_clip_fraction
from skriemdp._quiet import checked_format, quietly, read_array, read_records
from skriemdp._random import NoiseStreams, public_generator
from skriemdp._validation import check_count, check_option, shown
from skriemdp._warnings import warn_user
from skriemdp.datasets._ratings import observed_matrix
from skriemdp.geometry import Grassmann, as_geometry
from skriemdp.privacy._calibration import calibrate, gaussian_mu
from skriemdp.privacy._lattice import sampled_delta

if TYPE_CHECKING:
    from skriemdp.ledger._accountant import PrivacyAccountant

MECHANISMS = ("auto", "gradient", "covariance", "stochastic", "none")
_CHECKS: dict[str, Any] = {"accept_sparse": ["csr", "csc", "coo"], "dtype": np.float64}


class PrivateMatrixCompletion(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Differentially private low-rank matrix completion; a record is a user's whole row.

    Released are an overall level, item effects and, where it pays, a subspace W of the item space.
    Bias and factors of a user are computed from these and his own row, on demand, and are not
    stored: `transform`, `predict` and `recommend` of a row are for that user only.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Dimension of the subspace, if there is one; 0 for item effects only.  "auto": 5, or 8 where
        rows are dense.
    bounds : tuple of float, default=(1, 5)
        Public least and largest rating; (0.5, 5) for half stars.  Ratings outside are clipped, and
        `clipped_fraction_` tells how many, privately.
    mechanism : {"auto", "gradient", "covariance", "stochastic", "none"}, default="auto"
        How the subspace is released.  "gradient": DP-RGD on the Grassmann manifold, every user's
        gradient clipped.  "covariance": leading eigenvectors of the noisy hollow second moment of
        the normalised residual rows; no steps, but d x d memory.
        "stochastic": DP-RSGD on Poisson samples of users, as published but with the noise that the
        guarantee needs.  "none": item effects only.  "auto": "covariance" when a typical user rated
        at least 30 % of at most 2000 items, else "gradient".
    manifold : Geometry or pymanopt manifold, optional
        Space of the subspace, ``Grassmann(n_items, rank)`` of pymanopt or of
        :mod:`skriemdp.geometry`, wrapped by ours; it sets `rank`.  By default Grassmann.
    signal_test : {"paid", "none"}, default="paid"
        How to decide whether a subspace is worth its share of the budget, also when `rank` is a
        number; if not, the item effects get it.  "paid": a private measurement of the leading
        eigenvalues, for 5 % of ``mu**2``.  "public": n, d, rank and budget alone.  "none": always a
        subspace.
    n_steps : int, optional
        Steps of "gradient" (by default 20 or 40, by n, d, rank and budget) and of "stochastic" (by
        default 200, of n / 50 users each).
    public_seed : int, default=0
        Seed of the public random start and of the ratings that `score` hides.
    epsilon, delta : float, default=1.0, 1e-5
        Privacy of the whole fit; delta must be positive.
    accountant, random_state
        As in :class:`skriemdp.PrivateFrechetMean`.

    Attributes
    ----------
    components_ : ndarray of shape (rank_, n_features)
        Orthonormal rows that span W.
    item_effects_ : ndarray of shape (n_features,)
        Private deviation of each item from the level, in rating units.
    item_counts_ : ndarray of shape (n_features,)
        Private weighted numbers of ratings, at least zero.
    level_ : float
        Private overall level, in rating units.
    rank_ : int
    ridge_ : float
        Penalty of local factors, by a private vote of the users; infinite where they, or the signal
        test, left the subspace unused.
    mechanism_ : str
        "gradient", "covariance", "stochastic" or "none".
    subspace_reason_ : str
        Why, with the numbers that decided.
    signal_ : float or None
        The paid measurement, in units of the noise.
    typical_count_ : float
        Private median of the numbers of ratings of the users.
    clipped_fraction_ : float
        Private estimate of the share of ratings outside `bounds`, averaged over users, for 1 % of
        ``mu**2``.  A warning tells where it stands out of its noise.
    spectrum_ : ndarray of shape (n_features,) or None
        Released eigenvalues of "covariance", and
    spectrum_noise_ : float or None
        the largest eigenvalue that noise alone reaches.
    item_names_ : list or None
        Columns of the data frame on which the model was fitted.
    n_features_in_ : int
    privacy_spent_ : PrivacySpent

    Notes
    -----
    *Guarantee*: the released attributes are (epsilon, delta)-differentially private under
    replacement of one user's whole row, pattern included; n, the items and `bounds` are public.
    Exactly ``privacy_spent_.mu``-GDP, except "stochastic".  Recommendations computed from them by
    each user are jointly differentially private (the billboard lemma): what a coalition of other
    users sees protects the remaining one.  *Not covered*: publishing predictions or factors of
    users, and dropping items or users after a look at the data (docs/theory/completion.md).

    Time O(nnz r^2) per step and memory O(nnz + d r); "covariance" needs O(d^2).

    References
    ----------
    Han, Mishra, Jawanpuria, Gao (2022), arXiv:2205.09494 ("stochastic").
    Boumal, Absil (2011), RTRMC, NeurIPS, for the non-private problem.
    Hsu, Huang, Roth, Roughgarden, Wu (2014), Private matchings and allocations (billboard lemma).

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivateMatrixCompletion
    >>> rng = np.random.default_rng(0)
    >>> ratings = np.clip(rng.integers(1, 6, size=(1000, 30)) + np.arange(30) % 2, 1, 5.0)
    >>> ratings[rng.random((1000, 30)) < 0.7] = np.nan          # 70 % unobserved
    >>> model = PrivateMatrixCompletion(bounds=(1, 5), epsilon=3.0).fit(ratings)
    >>> model.predict(ratings[:2]).shape
    (2, 30)
    >>> items = model.recommend(ratings[:2], 3)                 # for these two users only
    >>> items.shape
    (2, 3)
    """

    def __init__(
        self,
        rank: int | Literal["auto"] = "auto",
        bounds: tuple[float, float] = (1, 5),
        *,
        mechanism: Literal["auto", "gradient", "covariance", "stochastic", "none"] = "auto",
        manifold: ManifoldLike | None = None,
        signal_test: Literal["paid", "none"] = "paid",
        n_steps: int | None = None,
        public_seed: int = 0,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
    ) -> None:
        self.rank = rank
        self.bounds = bounds
        self.mechanism = mechanism
        self.manifold = manifold
        self.signal_test = signal_test
        self.n_steps = n_steps
        self.public_seed = public_seed
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> PrivateMatrixCompletion:
        """Release level, item effects and subspace.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_users, n_items)
            Dense: NaN is unobserved, and so is zero where `bounds` exclude it.  Sparse:
            stored entries are observed, zeros included.  A table
            with one rating per row becomes such a matrix by
            :func:`skriemdp.datasets.from_frame`.
        y : ignored

        Returns
        -------
        self
        """
        return self._fit(X)

    def transform(self, X: Any) -> np.ndarray:
        """Each user's own bias and factors, shape ``(n_users, 1 + rank_)``; for that user only."""
        return self._coordinates(self._observed(X))

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """Completed rows of users with these biases and factors, clipped to `bounds`."""
        check_is_fitted(self)
        Z = read_array(Z, "Z", dtype=np.float64, ensure_2d=False)
        if Z.ndim != 2 or Z.shape[1] != self._n_features_out:
            raise PublicValueError(
                f"Z must have shape (n_users, {self._n_features_out}) like the result of "
                f"transform, got {Z.shape}."
            )
        scores = (self.level_ + self.item_effects_)[None, :] + Z[:, :1]
        scores = scores + Z[:, 1:] @ self.components_
        return np.clip(scores, *self.bounds_)

    def predict(self, X: Any) -> np.ndarray:
        """Completed rows, shape ``(n_users, n_items)``; observed entries are predicted too.

        Rows must be dense, with NaN: of sparse ones the result could be many times larger than the
        data.  For them there are `predict_entries`, `recommend` and, block by block,
        ``inverse_transform(transform(X))``.
        """
        if sparse.issparse(X):
            raise PublicTypeError(
                "predict completes whole rows, a dense array that may be far larger than sparse X; "
                "use predict_entries(X, wanted), recommend(X), or inverse_transform(transform(X)) "
                "on a block of rows."
            )
        return self.inverse_transform(self.transform(X))

    def predict_entries(self, X: Any, wanted: Any) -> sparse.csr_array:
        """Predictions of chosen entries only.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_users, n_items)
        wanted : sparse matrix of shape (n_users, n_items)
            Its stored entries say where; their values do not matter.

        Returns
        -------
        csr_array of shape (n_users, n_items)
        """
        matrix, wanted = self._observed(X), quietly(_pattern, wanted, names=("wanted",))
        if wanted.shape != matrix.shape:
            raise PublicValueError(f"wanted has shape {wanted.shape}, X has {matrix.shape}.")
        values = self._entries(matrix, wanted)
        return with_data(wanted, values)

    def recommend(self, X: Any, k: int = 10, *, catalogue: Any = None) -> np.ndarray:
        """The `k` unrated items with the highest predictions of each user, best first.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_users, n_items)
        k : int
        catalogue : array-like of shape (n_items,), optional
            What the columns are called, the list that ``from_frame`` got.  By default the names of
            the columns of the data frame on which the model was fitted, whatever their type.

        Returns
        -------
        ndarray of shape (n_users, k)
            Names of items, and None where a user has fewer than k unrated ones.  Without names,
            column numbers, and -1.
        """
        check_count(k=k)
        check_is_fitted(self)
        names = self._names(catalogue)
        matrix = self._observed(X)
        k = min(k, matrix.shape[1])
        result = np.empty((matrix.shape[0], k), dtype=np.intp)
        rows = max(1, (1 << 22) // matrix.shape[1])
        effects = self.item_effects_[None, :]
        for begin in range(0, matrix.shape[0], rows):
            block = matrix[begin : begin + rows]
            scores = effects + self._coordinates(block)[:, 1:] @ self.components_
            users = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
            scores[users, block.indices] = -np.inf
            best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            rated = np.isneginf(np.take_along_axis(scores, best, axis=1))
            result[begin : begin + rows] = np.where(rated, -1, best)
        return result if names is None else names[result]

    def _names(self, catalogue: Any) -> np.ndarray | None:
        """Names of the items, and None at the end."""
        if catalogue is None:
            catalogue = self.item_names_
        if catalogue is None:
            return None
        listed = list(catalogue)
        if len(listed) != self.n_features_in_:
            raise PublicValueError(
                f"catalogue lists {len(listed)} items, but the model has {self.n_features_in_}; "
                "pass the list that from_frame got."
            )
        names = np.empty(len(listed) + 1, dtype=object)
        names[:-1] = listed
        return names

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the root mean squared error of predicted ratings.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_users, n_items)
            What each user's local fit sees.
        y : same kind, optional
            Ratings to predict.  Without it (or with one label per row, which is ignored), a public
            pseudo-random fifth of each row is hidden from the local fit and predicted.  The score
            depends on these rows and is not private.

        Returns
        -------
        float
            NaN when there is nothing to predict.
        """
        matrix = self._observed(X)
        if y is None or np.ndim(y) == 1 and not sparse.issparse(y):
            matrix, hidden = self._split(matrix)
        else:
            hidden = self._observed(y)
            if hidden.shape[0] != matrix.shape[0]:
                raise PublicValueError(
                    f"y has {hidden.shape[0]} rows, X has {matrix.shape[0]}: both list the same "
                    "users."
                )
        if not len(hidden.data):
            return math.nan
        return -math.sqrt(np.mean((self._entries(matrix, hidden) - hidden.data) ** 2))

    @property
    def _n_features_out(self) -> int:
        return 1 + len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def _observed(self, X: Any) -> sparse.csr_array:
        check_is_fitted(self)
        names = _column_names(X)
        if None not in (names, self.item_names_) and names != self.item_names_:
            raise PublicValueError(
                "the columns of X are not the items of the fit, in its order; pass "
                "X[model.item_names_]."
            )
        X = read_records(self, X, reset=False, ensure_all_finite="allow-nan", **_CHECKS)
        return _clipped(observed_matrix(_read_zeros(X, self.bounds_)), self.bounds_)

    def _coordinates(self, matrix: sparse.csr_array) -> np.ndarray:
        centre, half = _scale(self.bounds_)
        effects = self.level_ + self.item_effects_
        values = (matrix.data - effects[matrix.indices]) / half
        return half * local_coordinates(with_data(matrix, values), self.components_.T, self.ridge_)

    def _entries(self, matrix: sparse.csr_array, wanted: sparse.csr_array) -> np.ndarray:
        """Predictions of the stored entries of `wanted`."""
        coordinates, counts = self._coordinates(matrix), np.diff(wanted.indptr)
        scores = self.level_ + self.item_effects_[wanted.indices]
        scores = scores + np.repeat(coordinates[:, 0], counts)
        for row, factor in zip(self.components_, coordinates.T[1:], strict=True):
            scores += row[wanted.indices] * np.repeat(factor, counts)
        return np.clip(scores, *self.bounds_)

    def _split(self, matrix: sparse.csr_array) -> list[sparse.csr_array]:
        """Split off a pseudo-random fifth of each user's items; return the rest and that fifth."""
        rng = public_generator(self.public_seed, "hidden ratings")
        # One draw per item and an offset per user: a function of positions, not of what was rated.
        by_item, by_user = rng.random(matrix.shape[1]), rng.random(matrix.shape[0])
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        # A fifth of each row is hidden from the local fit.
        hidden = (by_item[matrix.indices] + by_user[rows]) % 1.0 < 0.2
        parts = []
        for chosen in (~hidden, hidden):
            entries = (matrix.data[chosen], (rows[chosen], matrix.indices[chosen]))
            parts.append(sparse.csr_array(entries, shape=matrix.shape))
        return parts

    def _validate(self, X: Any, y: Any = None) -> Data:
        _refuse_long_tables(X)
        names = _column_names(X)
        X = read_records(self, X, ensure_all_finite="allow-nan", ensure_min_samples=2, **_CHECKS)
        matrix = observed_matrix(_read_zeros(X, _public_bounds(self.bounds)))
        if not np.isfinite(matrix.data).all():
            raise PublicValueError("X contains infinite ratings; use NaN for unobserved ones.")
        return Data((matrix,), {"n": matrix.shape[0], "d": matrix.shape[1], "names": names})

    def _plan(self, facts: dict[str, int], terms: Terms) -> Plan:
        n, d = facts["n"], facts["d"]
        check_option(MECHANISMS, mechanism=self.mechanism)
        check_option(("paid", "none"), signal_test=self.signal_test)
        if self.delta == 0:
            raise PublicValueError(
                "delta=0 asks for pure differential privacy, which no mechanism here gives; use a "
                "delta well below 1/n."
            )
        bounds = _public_bounds(self.bounds)
        rank = self._public_rank(d)
        if self.n_steps is not None:
            check_count(n_steps=self.n_steps)
        mechanism = "none" if rank == 0 or d < 3 else self.mechanism
        plan = CompletionPlan(
            mu=gaussian_mu(self.epsilon, self.delta),
            n=n,
            d=d,
            bounds=bounds,
            rank=rank,
            mechanism=mechanism,
            test=self.signal_test,
            n_steps=None if self.n_steps is None else int(self.n_steps),
            public_seed=self.public_seed,
        )
        work = self._work(n, d, 8 if rank is None else rank, mechanism)
        work.check()
        if mechanism == "stochastic":
            plan = self._stochastic(plan)
        plan.check(float(self.epsilon), float(self.delta))
        public = {"n": n, "n_items": d, "bounds": bounds}
        event, planned = plan.event, plan.releases
        return Plan(event, plan, public, unit="user", work=work, releases=planned)

    def _work(self, n: int, d: int, rank: int, mechanism: str) -> Work:
        # Products of pairs of columns in a step, and the factors of all users.
        entries = 3.0 * d * (rank + 1) * (rank + 2) + 4.0 * n * (rank + 1)
        cause = f"rank={rank}"
        if mechanism == "covariance":
            entries += 4.0 * d * d
            cause = f"the {d} x {d} matrix of mechanism='covariance'; 'gradient' forms none"
        return Work(8.0 * entries, 1 if self.n_steps is None else self.n_steps, cause)

    def _gaussian_choice(self) -> str:
        return "mechanism='auto'"

    def _public_rank(self, d: int) -> int | None:
        if self.manifold is not None:
            return self._rank_of_manifold(d)
        if isinstance(self.rank, str):
            check_option(("auto",), rank=self.rank)
            return None
        check_count(minimum=0, rank=self.rank)
        if self.rank >= max(d, 2):
            raise PublicValueError(
                f"rank={self.rank} must be smaller than the number of items, {d}; a subspace of "
                "all items tells nothing."
            )
        return int(self.rank)

    def _rank_of_manifold(self, d: int) -> int:
        geometry = as_geometry(self.manifold)
        rank = geometry.shape[-1]
        if not rank < d or geometry != Grassmann(d, rank):
            raise PublicValueError(
                f"manifold={geometry} does not hold subspaces of {d} items; pass Grassmann({d}, "
                "rank), of pymanopt or of skriemdp.geometry, or manifold=None."
            )
        if self.rank not in ("auto", rank):
            raise PublicValueError(
                f"rank={shown(self.rank)}, but subspaces of manifold={geometry} have dimension "
                f"{rank}; pass rank='auto' with it."
            )
        return rank

    def _stochastic(self, plan: CompletionPlan) -> CompletionPlan:
        """The plan with DP-RSGD calibrated so that all releases together meet the budget."""
        integers = plan.d * min(plan.rank or 5, plan.d - 1)
        sampler = PoissonSampler(min(max(1.0, plan.n / STOCHASTIC_BATCHES), plan.n), integers)
        moves = Moves(self.n_steps or STOCHASTIC_STEPS)

        def with_noise(noise_multiplier: float) -> CompletionPlan:
            run = RiemannianSGD(sampler, noise_multiplier, moves)
            return dataclasses.replace(plan, stochastic=run)

        noise = calibrate(
            lambda noise: with_noise(noise).event,
            self.epsilon,
            sampled_delta(float(self.delta)),
            NOISE_BRACKET,
        )
        return with_noise(noise)

    def _release(self, data: Data, plan: Plan, streams: NoiseStreams) -> None:
        (matrix,), settings = data.arrays, plan.settings
        self.item_names_ = data.facts["names"]
        bounds = settings.bounds
        centre, half = _scale(bounds)
        scaled = with_data(matrix, (matrix.data - centre) / half)
        model = release_model(scaled, settings, streams)
        self.bounds_ = bounds
        self.level_ = centre + half * model.level
        self.item_effects_ = half * model.effects
        self.item_counts_ = np.maximum(model.counts, 0.0)
        self.components_ = np.zeros((0, len(model.effects)))
        if model.subspace is not None:
            self.components_ = model.subspace.T.copy()
        self.rank_ = len(self.components_)
        self.ridge_ = model.ridge
        self.mechanism_ = model.mechanism
        self.subspace_reason_ = model.reason
        self.signal_ = model.signal
        self.typical_count_ = model.typical_count
        self.clipped_fraction_ = noisy_clip_fraction(
            *model.clipped, 0.0, _outside(bounds), excess=0.0, of="the ratings"
        )
        if self.typical_count_ <= 1.0:
            warn_user(_UNMATCHED)
        self.spectrum_, self.spectrum_noise_ = model.singular_values, model.noise_level


_UNMATCHED = (
    "the released number of ratings of a typical user is at its floor, one (a private estimate): "
    "if users rated more, the ids of items do not match the catalogue, or those of users are not "
    "the users'. Compare how both are spelled: quotes, spaces, capitals, zeros in front."
)


def _outside(bounds: tuple[float, float]) -> str:
    low, high = bounds
    return (
        f"lie outside bounds=({low:g}, {high:g}) and were clipped: pass bounds= of the scale of "
        "the ratings, such as (0.5, 5) for half stars or (0, 100) for percent; NaN where a code "
        "like 0, -1 or 99 says that nobody rated; and see whether rating= names the right column."
    )


# Names of columns, without "id", of tables with one rating per row.
_WHO = {"user", "customer", "client", "person", "reader", "viewer", "member"}
_WHAT = {"item", "movie", "film", "product", "book", "song", "title", "article"}


def _refuse_long_tables(X: Any) -> None:
    """A table with one rating per row has other rows than the users'; its column names show it."""
    names = getattr(X, "columns", None)
    if names is None or len(names) > 6:
        return
    words = {str(name).lower().replace("_", "").removesuffix("id") for name in names}
    if words & _WHO and words & _WHAT:
        raise PublicValueError(
            "X looks like a table with one rating per row, but every row must be one user's "
            "ratings of all items; X, users = skriemdp.datasets.from_frame(X, user=, item=, "
            "rating=, catalogue=) makes such rows."
        )


def _column_names(X: Any) -> list[Any] | None:
    """Return the column names of a data frame; None for other tables."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else list(names)


def _read_zeros(X: Any, bounds: tuple[float, float]) -> Any:
    """A dense `X` whose zeros are no ratings, as NaN: zero is how many tables write "not rated"."""
    low, high = bounds
    if sparse.issparse(X) or low <= 0 <= high:
        return X
    return np.where(X == 0, np.nan, X)


def _pattern(wanted: Any) -> sparse.csr_array:
    """Return the wanted entries as a sparse matrix whose indices fit its shape."""
    if sparse.issparse(wanted):
        wanted = checked_format(wanted, "wanted")
    wanted = sparse.csr_array(wanted, dtype=np.float64)
    return checked_format(wanted, "wanted")


def _public_bounds(bounds: Any) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError, OverflowError):
        raise PublicValueError(
            f"bounds must be two numbers (low, high), got {shown(bounds)}."
        ) from None
    if not (abs(low) <= 1e100 and abs(high) <= 1e100 and high - low >= 1e-100):
        raise PublicValueError(
            f"bounds must be finite numbers up to 1e100 with low < high, got {shown(bounds)}."
        )
    return low, high


def _scale(bounds: tuple[float, float]) -> tuple[float, float]:
    """Middle and half length of the rating range."""
    return (bounds[0] + bounds[1]) / 2.0, (bounds[1] - bounds[0]) / 2.0


def _clipped(matrix: sparse.csr_array, bounds: tuple[float, float]) -> sparse.csr_array:
    return with_data(matrix, np.clip(matrix.data, *bounds))
