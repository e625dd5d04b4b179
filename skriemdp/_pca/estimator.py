"""Private principal components: `PrivatePrincipalEigenvector`."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skriemdp._arrays import ManifoldLike
from skriemdp._core.arithmetic import INTEGERS, PLAIN
from skriemdp._core.estimator import Data, Plan, PrivateEstimator, Terms
from skriemdp._core.forecast import Expected
from skriemdp._core.manifold_input import bounds_cure
from skriemdp._core.work import Work, decomposed
from skriemdp._errors import PublicAttributeError, PublicTypeError, PublicValueError
from skriemdp._location_scale.rows import Rows, is_stream, open_rows, records_of, rows_digest
from skriemdp._mechanisms.budget import GaussianBudget, PureBudget
from skriemdp._mechanisms.counts import noisy_clip_fraction
from skriemdp._mechanisms.units import Units
from skriemdp._pca.releases import CovarianceRelease, PowerRelease, RefineRelease, Subspace
from skriemdp._pca.search_releases import BoundsSearch, Budget, count_share, pairs_are_better
from skriemdp._quiet import read_array, read_records
from skriemdp._random import NoiseStreams
from skriemdp._validation import check_count, check_option, check_scale
from skriemdp._warnings import warn_user
from skriemdp.inference._covariances import shares_of
from skriemdp.privacy._calibration import gaussian_mu

if TYPE_CHECKING:
    from skriemdp._pca.problem import SubspaceProblem
    from skriemdp._pca.sum_releases import CovarianceSums
    from skriemdp.geometry._base import Geometry
    from skriemdp.ledger._accountant import PrivacyAccountant

MECHANISMS = ("auto", "covariance", "gradient", "power", "refine")

FRAME_SPACES = ("auto", "sphere", "stiefel", "grassmann", "ambient")


def _dense_fit(estimator: Any) -> bool:
    return not getattr(estimator, "_sparse_fit", False)


@dataclass(frozen=True)
class _Settings:
    bounds: BoundsSearch
    release: Any
    make_budget: Any


class PrivatePrincipalEigenvector(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator
):
    """Differentially private principal component analysis (PCA).

    Rows are centred by a private mean and scaled to a private bound of their norm, so nothing about
    the data has to be known beforehand; with ``center="assume"`` they are taken as centred, and raw
    data then give the direction of their mean.

    Parameters
    ----------
    n_components : int, default=1
        Number of components k.
    row_norm : "private" or float, default="private"
        Norm to which every centred row is scaled when it is longer.  "private" releases a quantile
        of the norms at a level set by n, d and the budget, for 5 % of ``mu**2`` (10 % for pairs).
        A number is public: it must not be computed from the data; `clipped_fraction_` then tells
        how many rows it shortens.
    mechanism : {"auto", "covariance", "gradient", "power", "refine"}, default="auto"
        "covariance": eigenvectors of the noisy second moment.  "refine": the same for a part of the
        budget, then what that matrix shows to be best: clipped noisy products with its eigenvectors
        for flat spectra in high dimension, more of the matrix elsewhere.
        "power": block power iteration with clipped noisy products; never forms a d x d matrix.
        "gradient": DP-RGD on `manifold`.
        "auto": "covariance" for ``delta=0``, "power" for d > 3000, "refine" for d >= 150, else
        "covariance".
    center : {"private", "assume"}, default="private"
        Whether to subtract a private mean, or to take the rows as centred at zero already.  The
        mean costs 3 % of ``mu**2`` where n is large, a third where it is small, and up to nine
        tenths where the data lie far from zero.  Where ``n mu / sqrt(d)`` is between 6.7 and 12,
        differences of disjoint pairs of rows, matched by `public_seed`, take the place of centred
        rows, and `mean_` is one rough mean for 5 %; not for streams, a public `row_norm` or pure
        privacy.
    manifold : {"auto", "sphere", "stiefel", "grassmann", "ambient"}, Geometry or pymanopt \
manifold, default="auto"
        Space of the components, on which "gradient" descends.  "auto": sphere for one component,
        else Grassmann.  "ambient" adds noise in the ambient space and projects (DP-PGD).
        pymanopt's ``Sphere(d)``, ``Stiefel(d, k)`` and ``Grassmann(d, k)`` are wrapped: they become
        ours of the same metric, and must fit `n_components` and X whatever the mechanism.
    n_steps : int, optional
        Steps of "gradient" (20 by default) and "power" (8).
    public_seed : int, default=0
        Seed of the public random start of "gradient" and "power", and of the matching of pairs.
    epsilon, delta : float, default=1.0, 1e-5
        Privacy of the whole fit.  ``delta=0`` asks for pure differential privacy, which
        "covariance" can give.
    accountant : PrivacyAccountant, optional
        Ledger that the fit is charged to; the active one by default.
    random_state : int, optional
        None for private noise from the operating system.  An int makes the noise reproducible, for
        tests and studies; nobody is protected then.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, by decreasing released variance; largest entry positive.
    explained_variance_ : ndarray of shape (n_components,)
        Released variances along the components, of the clipped rows, at least zero.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Shares of the variance along the components, in [0, 1], of the released total; where these
        are eigenvectors of a released matrix, less what noise adds to eigenvalues.
    singular_values_ : ndarray of shape (n_components,)
        ``sqrt(n * explained_variance_)``.
    mean_ : ndarray of shape (n_features,)
        The private mean; zeros with ``center="assume"``.
    row_norm_ : float
        Norm that rows were scaled to; a private release for ``row_norm="private"``.
    clipped_fraction_ : float
        Private estimate of the fraction of shortened rows; only where `row_norm` is a number.
    spectrum_ : ndarray of shape (n_features,) or None
        All eigenvalues of the released matrix, where the mechanism releases one.
    spectrum_noise_scale_ : float or None
        Standard deviation of the noise of that matrix's entries off the diagonal; on the diagonal
        it is sqrt(2) times that.
    noise_scale_ : float
        Standard deviation of the noise on a coordinate of the second moment times a unit vector.
    mechanism_ : str
        The mechanism used.
    n_components_, n_samples_ : int
    privacy_spent_ : PrivacySpent
        Unpacks as ``epsilon, delta``.
    n_features_in_ : int
    feature_names_in_ : ndarray
        When X had feature names.

    Notes
    -----
    *Guarantee*: (epsilon, delta)-differential privacy under replacement of one record, or of all
    records of one group (docs/theory/groups.md), n, their number, public; exactly
    ``privacy_spent_.mu``-GDP, or pure for ``delta=0``.  Norms, mean, components
    and variances are all charged; `transform`, `predict` and `score` of a row depend on that row
    and are not private (docs/theory/pca.md).

    Variances are those of clipped rows, too small where clipping cuts tails; the directions
    hardly suffer.  Where the largest released eigenvalue is within the reach of the noise, a
    warning says that the first component is close to a random direction.

    All sums with Gaussian noise are of exact integers.  With ``delta=0`` noise is floating-point
    noise on exact totals, but for that of the matrix.  Sparse matrices are densified a few rows at
    a time only.
    Data larger than memory: pass a memory map, or an iterable of tables that can be read several
    times; beyond one table, memory is that of the d x d matrix.

    References
    ----------
    Dwork, Talwar, Thakurta, Zhang (2014), Analyze Gauss, STOC ("covariance").
    Han, Mishra, Jawanpuria, Gao (2022), arXiv:2205.09494 ("gradient").
    Hardt, Price (2014), The noisy power method, NeurIPS ("power").

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivatePrincipalEigenvector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 4)) * [3, 1, 1, 1] + [10, 0, 0, 0]
    >>> pca = PrivatePrincipalEigenvector(epsilon=1.0).fit(X)
    >>> bool(abs(pca.components_[0, 0]) > 0.9)
    True
    >>> pca.transform(X).shape
    (5000, 1)
    """

    __metadata_request__fit = {"groups": True}

    def __init__(
        self,
        n_components: int = 1,
        row_norm: float | Literal["private"] = "private",
        mechanism: Literal["auto", "covariance", "gradient", "power", "refine"] = "auto",
        *,
        center: Literal["private", "assume"] = "private",
        manifold: ManifoldLike = "auto",
        n_steps: int | None = None,
        public_seed: int = 0,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.row_norm = row_norm
        self.mechanism = mechanism
        self.center = center
        self.manifold = manifold
        self.n_steps = n_steps
        self.public_seed = public_seed
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state

    # -- scikit-learn ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        """Release private principal components of the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features), or iterable of such
            A list, tuple or other object that gives its tables anew each time it is iterated over;
            generators, which can be read once, are refused.
        y : None
            Ignored.
        groups : array-like of shape (n,), optional
            Who owns each row; for one table.  Then an owner's second moment takes the place of a
            row's, shortened after averaging.  All rows of one owner and their number are protected
            together; n is the number of owners.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For bad parameters or input, before anything is charged or released.
        BudgetExceededError
            If the accountant's ceiling would be exceeded; nothing is released.
        """
        return self._fit(X, y, groups)

    def fit_transform(self, X: Any, y: Any = None, groups: Any = None) -> np.ndarray:
        """Fit, then transform the same rows, which must be one table."""
        if is_stream(X):
            raise PublicTypeError(
                "X gives its rows in several tables, and their coordinates are several tables too; "
                "call fit(X), then transform(table) for each."
            )
        return self.fit(X, y, groups).transform(X)

    def transform(self, X: Any) -> np.ndarray:
        """Coordinates of the centred rows along the components, ``(n, n_components)``."""
        return self._coordinates(self._table(X))

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Rows of the original features from coordinates ``(n, n_components)``."""
        check_is_fitted(self)
        X = read_array(X, "X", dtype=np.float64, ensure_2d=False)
        k = len(self.components_)
        if X.ndim != 2 or X.shape[1] != k:
            raise PublicValueError(f"X must have shape (n, {k}), got {X.shape}.")
        return X @ self.components_ + self.mean_

    @available_if(_dense_fit)
    def predict(self, X: Any) -> np.ndarray:
        """Each row's projection on the affine subspace of mean and components (rank k).

        Absent after a fit on sparse data, whose reconstruction is a dense table; ask for it with
        ``inverse_transform(transform(X))``.
        """
        return self.inverse_transform(self.transform(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Share of the second moment about the mean that the components capture (not private)."""
        X = self._table(X)
        coordinates = self._coordinates(X)
        total = math.fsum(float(t.sum()) for t in _rows(X).squared_norms(self.mean_))
        return float(np.sum(coordinates**2)) / total if total > 0 else 0.0

    # -- what the noise can have done -------------------------------------------------------------

    def noise_radius(self, level: float = 0.95) -> float:
        """Bound of what noise did to the second moment; not an interval for the population.

        With probability `level` over the noise, the operator norm of what was added to the second
        moment of the clipped rows is at most this.  Each released eigenvalue in `spectrum_` is then
        within it of the one without noise (Weyl 1912).  It costs no budget.

        Parameters
        ----------
        level : float, default=0.95

        Returns
        -------
        float
            ``sigma (sqrt(2 d) + sqrt(2 log(2 / (1 - level))))``, sigma the noise on the diagonal.

        Raises
        ------
        AttributeError
            Unless the fit released the matrix with Gaussian noise: ``mechanism="covariance"`` and
            ``delta > 0``.

        Notes
        -----
        The bound is safe rather than sharp (docs/theory/pca.md).  What sampling did is not in it,
        and the largest eigenvalue of a sample is too large on average.
        """
        check_is_fitted(self)
        spectrum, spent = getattr(self, "spectrum_", None), self.privacy_spent_
        if self.mechanism_ != "covariance" or spectrum is None or spent.planned_event.mu is None:
            raise PublicAttributeError(
                f"mechanism={self.mechanism_!r} with delta={spent.planned_delta:g} released no "
                "matrix with Gaussian noise, whose size is known; fit with mechanism='covariance' "
                "and delta > 0. A refit costs budget."
            )
        from skriemdp._mechanisms.covariance import symmetric_noise_radius

        sigma = math.sqrt(2.0) * self.spectrum_noise_scale_
        return symmetric_noise_radius(sigma, len(spectrum), level)

    def sine_bound(self, level: float = 0.95) -> float:
        """Bound of the angle that noise turned the components by, as a sine; at most one.

        With probability `level` over the noise, every direction in the span of `components_` makes
        an angle with the span without noise whose sine is at most this (Davis and Kahan 1970).

        Parameters
        ----------
        level : float, default=0.95

        Returns
        -------
        float
            ``radius / (l_k - l_(k+1) - radius)`` with :meth:`noise_radius` and the released
            eigenvalues l; one where that gap is too small to say anything, zero where all
            components are kept.

        Raises
        ------
        AttributeError
            As :meth:`noise_radius`.
        """
        radius = self.noise_radius(level)
        k = len(self.components_)
        if k == len(self.spectrum_):
            return 0.0
        gap = float(self.spectrum_[k - 1] - self.spectrum_[k]) - radius
        return min(1.0, radius / gap) if gap > 0.0 else 1.0

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- the order of work ----------------------------------------------------------------------

    def _validate(self, X: Any, y: Any = None) -> Data:
        rows = open_rows(X, self._checked)
        facts = {"n": rows.n, "d": rows.d, "sparse": rows.is_sparse, "streamed": rows.streamed}
        return Data((rows,), facts)

    def _with_tried_functions(self, data: Data) -> Data:
        if data.groups is not None and data.facts["streamed"]:
            raise PublicValueError(
                "groups needs X as one table, of which a person's rows can be taken together: a "
                "NumPy array, a memory map or a sparse matrix."
            )
        return data

    def _checked(self, table: Any, first: bool) -> Any:
        return read_records(
            self,
            table,
            **({} if first else {"reset": False}),
            dtype=_DTYPES,
            accept_sparse="csr",
            ensure_all_finite=False,  # open_rows looks at the entries
        )

    def _plan(self, facts: dict[str, Any], terms: Terms) -> Plan:
        n, d, grouped = facts["n"], facts["d"], facts.get("grouped", False)
        if n < 2:
            raise PublicValueError(f"PCA needs at least two records; got n = {n}, 1 sample.")
        self._check_parameters(n, d)
        pure = self.delta == 0
        budget: type[Budget]
        if pure:
            budget = PureBudget
            # The largest eigenvalue of pure noise is 3.1 d / (n epsilon), in units of the squared
            # norm, where Gaussian noise has 2 sqrt(d) / (n mu).
            total, strength = float(self.epsilon), self.epsilon / (1.6 * math.sqrt(d))
        else:
            budget = GaussianBudget
            total = strength = gaussian_mu(self.epsilon, self.delta)
        name = self._choose(d)
        row_norm = None if self.row_norm == "private" else float(self.row_norm)
        bounds = BoundsSearch(n, d, strength, self.center == "private", row_norm)
        if pure:
            bounds = dataclasses.replace(bounds, n_epsilon=n * total)
            bounds.warn_hidden()
        # Differences of pairs need one table in memory, to be matched at random.
        if (
            bounds.private_center
            and row_norm is None
            and not pure
            and not facts["streamed"]
            and not (facts["sparse"] and grouped)
            and pairs_are_better(n, d, n * strength)
        ):
            bounds = dataclasses.replace(bounds, pair_seed=self.public_seed)
        release = self._release_of(name)
        planned = budget(total)
        bounds.reserve(planned)
        # A search spends what it needs: the components may have more than it has to leave.
        for left in (planned, budget(total)):
            release.reserve(left, d, grouped)
        words = PLAIN if pure else INTEGERS
        public = {"n": n, "d": d, "mechanism": name, "center": self.center}
        if bounds.pair_seed is not None:
            public["rows"] = "differences of disjoint pairs"
        return Plan(
            event=planned.event,
            releases=planned.releases,
            settings=_Settings(bounds, release, functools.partial(budget, total)),
            public=public | {"row_norm": self.row_norm, "public_seed": self.public_seed},
            work=self._work(name, n, d),
            arithmetic=words,
        )

    def _work(self, name: str, n: int, d: int) -> Work:
        k, steps = int(self.n_components), 1 if self.n_steps is None else self.n_steps
        if name in ("power", "gradient"):
            work, cause = 4.0 * n * d * k * max(steps, 10), f"n_components={k}"
            return Work(8.0 * (2 * n + 6 * d * k + 4 * k * k), steps, cause, work)
        cause = f"the {d} x {d} matrix of mechanism={name!r}; 'power' forms none"
        work = 4.0 * n * d * d + decomposed(d)
        return Work(8.0 * (2.5 * n + 4 * d * d), steps, cause, work)

    def _expected(self, plan: Plan, facts: Any, spread: Any) -> Expected:
        settings, name = plan.settings, plan.public["mechanism"]
        budget, mu = settings.make_budget(), plan.event.mu
        if budget.pure or mu is None or name not in ("covariance", "refine"):
            return super()._expected(plan, facts, spread)._replace(mechanism=name)
        from skriemdp._pca.expected import expected_components

        before = 0.0 if settings.bounds.row_norm is None else count_share(budget)
        k, grouped = int(self.n_components), facts.get("grouped", False)
        return expected_components(settings.bounds, name, k, mu, before, grouped, spread)

    def _gaussian_choice(self) -> str:
        return "mechanism='auto'"

    def _check_parameters(self, n: int, d: int) -> None:
        check_option(MECHANISMS, mechanism=self.mechanism)
        check_option(("private", "assume"), center=self.center)
        if isinstance(self.manifold, str):
            check_option(FRAME_SPACES, manifold=self.manifold)
        check_count(n_components=self.n_components)
        if self.n_steps is not None:
            check_count(n_steps=self.n_steps)
        if isinstance(self.row_norm, str):
            check_option(("private",), row_norm=self.row_norm)
        else:
            check_scale(row_norm=self.row_norm)
        if self.n_components > d:
            raise PublicValueError(
                f"n_components={self.n_components} exceeds the number of features, {d}."
            )
        if self.delta == 0 and self.mechanism not in ("auto", "covariance"):
            raise PublicValueError(
                f"delta=0 asks for pure differential privacy, which mechanism={self.mechanism!r} "
                "cannot give; use mechanism='covariance', or delta > 0, for instance 1e-5."
            )
        if self.mechanism == "gradient" and self.n_components == d:
            raise PublicValueError(
                "mechanism='gradient' needs n_components below the number of features, "
                f"but n_features = {d}."
            )
        if self.mechanism == "gradient" or not isinstance(self.manifold, str):
            from skriemdp._pca.problem import frame_space

            frame_space(self.manifold, d, int(self.n_components))

    def _choose(self, d: int) -> str:
        """The mechanism, from public quantities only."""
        if self.mechanism != "auto":
            return self.mechanism
        if self.delta == 0:
            return "covariance"
        # Matrices of 72 MB each; above, iterate with products.
        if d > 3000:
            return "power"
        # In many dimensions a first matrix tells what the rest of the budget is best spent on.
        return "refine" if d >= 150 else "covariance"

    def _release_of(self, name: str) -> Any:
        k = int(self.n_components)
        if name == "power":
            return PowerRelease(k, self.n_steps or 8, self.public_seed)
        if name == "gradient":
            from skriemdp._pca.problem import GradientRelease

            return GradientRelease(k, self.manifold, self.n_steps or 20, self.public_seed)
        if self.delta == 0:
            from skriemdp._pca.pure_releases import PureCovarianceRelease

            return PureCovarianceRelease(k)
        return RefineRelease(k) if name == "refine" else CovarianceRelease(k)

    def _noise_context(self, data: Data, plan: Plan) -> bytes:
        if self.random_state is None:
            return b""
        head = super()._noise_context(Data((), data.facts), plan)
        return head + rows_digest(data.arrays[0])

    def _release(self, data: Data, plan: Plan, streams: NoiseStreams) -> None:
        (rows,), settings = data.arrays, plan.settings
        budget = settings.make_budget(plan.releases)
        if data.groups is not None:
            rows = records_of(Units((rows.chunks,), data.groups), by_trace=budget.pure)
        self._sparse_fit = data.facts["sparse"]
        found = settings.bounds.release(rows, budget, streams)
        if found.clipped is not None:
            fraction, sigma = found.clipped
            self._tell_clipped(fraction, sigma, found.row_norm, "row_norm='private'")
        subspace = settings.release.release(found, budget, streams)
        self._set_learned(subspace, found.mean, found.row_norm, rows.n)
        self.mechanism_ = plan.public["mechanism"]
        self._warn_of_noise()

    if TYPE_CHECKING:
        spectrum_: Any
        spectrum_noise_scale_: Any

    def _set_learned(self, subspace: Subspace, mean: np.ndarray, row_norm: float, n: int) -> None:
        variances = np.maximum(subspace.variances, 0.0)
        self.mean_ = mean
        self.row_norm_ = float(row_norm)
        self.components_ = subspace.components
        self.explained_variance_ = variances
        along = variances if subspace.along is None else subspace.along
        self.explained_variance_ratio_ = shares_of(along, subspace.total_variance)
        self.singular_values_ = np.sqrt(n * variances)
        self.spectrum_ = subspace.spectrum
        self.spectrum_noise_scale_ = subspace.spectrum_noise
        self.noise_scale_ = float(subspace.noise_scale)
        self.n_components_ = len(self.components_)
        self.n_samples_ = n

    def _tell_clipped(self, fraction: float, sigma: float, row_norm: float, private: str) -> None:
        """Set the released fraction of clipped rows; warn where it is large."""
        cure = bounds_cure(row_norm=private)
        advice = f"are longer than row_norm={row_norm:g} and were scaled to it; {cure}"
        self.clipped_fraction_ = noisy_clip_fraction(fraction, sigma, 0.0, advice, self.delta == 0)

    # -- sums over several tables, each with noise of its own -----------------------------------

    def _additive_plan(self, facts: Any, terms: Terms) -> Plan[CovarianceSums]:
        """The sums that clients release: of records' matrices, rows centred at zero."""
        plan = self._plan(facts, terms)
        settings, n, d = plan.settings, facts["n"], facts["d"]
        if self.center != "assume" or isinstance(self.row_norm, str):
            raise PublicValueError(
                "clients search for no center and no norm: pass center='assume', with rows that "
                "are centred at zero, and row_norm=<number>, their public bound."
            )
        if type(settings.release) is not CovarianceRelease:
            raise PublicValueError(
                "sums of clients are second moments with Gaussian noise; pass "
                f"mechanism='covariance' and delta > 0 (got mechanism={self.mechanism!r}, "
                f"delta={self.delta!r}, with n={n} and d={d})."
            )
        from skriemdp._pca.sum_releases import CovarianceSums

        known = int(self.n_components), d, float(self.row_norm), facts.get("grouped", False)
        sums = CovarianceSums.planned(*known, settings.make_budget())
        return dataclasses.replace(plan, settings=sums)

    def _learn(
        self, statistic: CovarianceSums, noisy: np.ndarray, facts: Any, n_tables: int = 1
    ) -> None:
        """Set the learned attributes from noisy sums over tables of n rows in all."""
        n, self._sparse_fit = facts["n"], False
        subspace = statistic.finish(noisy, n, n_tables)
        sigma = math.sqrt(n_tables) * statistic.count.sigma / n
        self._tell_clipped(noisy[0] / n, sigma, statistic.row_norm, "")
        self._set_learned(subspace, statistic.center, statistic.row_norm, n)
        self.mechanism_ = "covariance"
        self._warn_of_noise()

    def _warn_of_noise(self) -> None:
        """Released numbers only: is the first component more than noise?"""
        if self.spectrum_ is None or len(self.spectrum_) < 2:
            return
        # Noise alone has its largest eigenvalue at about 2 sqrt(d) times the scale of an entry,
        # and at 2.4 sqrt(d) times that with pure privacy.
        reach = 2.0 if self.delta > 0 else 2.4
        edge = reach * math.sqrt(len(self.spectrum_)) * self.spectrum_noise_scale_
        if self.spectrum_[0] - np.mean(self.spectrum_) < 1.1 * edge:
            warn_user(
                "the largest released eigenvalue is within the reach of the noise: the first "
                "component is close to a random direction; use more records or a larger epsilon."
            )

    # -- helpers of the fitted estimator --------------------------------------------------------

    def _table(self, X: Any) -> Any:
        check_is_fitted(self)
        return read_records(self, X, reset=False, dtype=_DTYPES, accept_sparse="csr")

    def _coordinates(self, X: Any) -> np.ndarray:
        # A sparse X stays sparse: the mean is subtracted from the small product.
        return np.asarray(X @ self.components_.T) - self.mean_ @ self.components_.T

    def _problem(self, X: Any, y: Any = None) -> SubspaceProblem:
        """The risk of the subspace for general solvers; needs a public row norm."""
        if self.row_norm == "private":
            raise PublicValueError("a general solver needs a public bound; pass row_norm=<number>.")
        if self.center != "assume":
            raise PublicValueError("a general solver does not centre rows; pass center='assume'.")
        from skriemdp._pca.problem import SubspaceProblem, frame_space

        rows = open_rows(X, self._checked)
        geometry, _ = frame_space(self.manifold, rows.d, int(self.n_components))
        return SubspaceProblem(geometry, rows, np.zeros(rows.d), float(self.row_norm))

    def _records(self, data: Data) -> tuple[Any, ...]:
        """Arrays with one row per record, for federated runs."""
        (rows,) = data.arrays
        self._check_parameters(rows.n, rows.d)
        if rows.streamed or rows.is_sparse:
            raise PublicValueError("federated runs need X as one dense table.")
        if rows.d < 2:
            raise PublicValueError("a direction needs at least 2 features; X has n_features = 1.")
        return (rows.chunks,)

    def _domain_and_start(self, geometry: Geometry, start: Any = None) -> tuple[None, None]:
        """Iterates go everywhere, and start anywhere."""
        return None, None

    def _adopt_point(self, point: Any) -> None:
        """Learned attributes from a released frame, for federated runs; variances are unknown."""
        frame = np.asarray(point).reshape(len(point), -1).T
        largest = np.abs(frame).argmax(axis=1)
        signs = np.where(frame[np.arange(len(frame)), largest] < 0, -1.0, 1.0)
        self.components_ = frame * signs[:, None]
        self.mean_ = np.zeros(frame.shape[1])
        self.row_norm_ = float(self.row_norm)
        self.n_components_ = len(frame)
        self.mechanism_ = "federated"


_DTYPES = (np.float64, np.float32)


def _rows(X: Any) -> Rows:
    return Rows(X, *X.shape)
