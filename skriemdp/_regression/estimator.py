"""`PrivateHyperbolicRegressor`: regression with responses in hyperbolic space."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skriemdp._arrays import ArrayLike, ManifoldLike
from skriemdp._core.estimator import Data, Plan, Terms
from skriemdp._descent.releases import Evidence
from skriemdp._errors import PublicAttributeError, PublicValueError
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._mechanisms.counts import noisy_clip_fraction
from skriemdp._mechanisms.units import Units
from skriemdp._quiet import read_records
from skriemdp._regression.features import ADVICE, FeatureMap
from skriemdp._regression.fit_plan import plan_fit
from skriemdp._regression.layouts import label_space, layout, tangent_labels
from skriemdp._regression.moment_releases import MomentSums
from skriemdp._regression.planning import BASE, BASE_SHARE, MODEL, clip_norms, query_ridge
from skriemdp._regression.prediction_releases import KernelRidgeWeights, KernelWeights, QueryServer
from skriemdp._regression.scores import ManifoldRegressor
from skriemdp._warnings import warn_user
from skriemdp.geometry import Hyperboloid
from skriemdp.ledger._accountant import BudgetExceededError, PrivacyAccountant


class PrivateHyperbolicRegressor(ManifoldRegressor):
    """Regression with responses in hyperbolic space, differentially private for (x, y).

    Parameters
    ----------
    mechanism : {"parametric", "sufficient-statistics", "per-query"}, default="parametric"
        "parametric": one private model ``exp_b(W' phi(x))`` on random Fourier features, fitted by
        DP gradient descent on the geodesic Huber loss; any number of predictions.
        "sufficient-statistics": one release of second moments and products with the labels in one
        tangent space, then ridge regression; for very little budget and labels near one point.
        "per-query": the structured prediction of the literature, a weighted Fréchet mean by DP-RGD
        for each query; `predict` answers `n_queries` distinct rows, then refuses.
    privacy_unit : {"record", "label"}, default="record"
        Who is protected: the pair (x, y), or y alone with all features public.  "per-query" uses
        Nadaraya-Watson weights for records and kernel ridge weights for labels.
    manifold : Geometry, pymanopt manifold or str, optional
        Hyperbolic space of which y and predictions are points: "hyperboloid" (time coordinate
        first), "poincare" (the unit ball), ``Hyperboloid`` or ``Poincare`` of
        :mod:`skriemdp.geometry`, also of other curvature than -1, or pymanopt's ``PoincareBall``.
        By default labels are normal coordinates at the origin, curvature -1: any real vectors.
    feature_scale : "private", float or array-like of shape (n_features,), default="private"
        Scale of the features, which are divided by it and clipped at ten of it.  "private" finds a
        centre, which is subtracted, and one scale for all features, or one for each where their
        units differ, privately, for 3 to 56 % of ``mu**2``; with public features it takes the mean
        and the standard deviation of each.  Numbers must be public; nothing is subtracted then.
    radius : float, default=6.0
        Public bound of the labels' distance from the origin; labels outside are projected.  Neither
        privacy nor noise of "parametric" depends on it.  At most 10 curvature radii for a private
        `base_point`.
    base_point : "private" or array-like of one label, default="private"
        Point b of the tangent space.  "private" spends 10 % of ``mu**2`` on a robust mean.
    n_frequencies : int, optional
        Frequencies of the random features, two features each; by default 128, or 32 to 64 for
        second moments.
    length_scale : float, optional
        Width of the kernel in units of `feature_scale`; by default a rule of the number of
        features.
    clip_norm : float, optional
        "parametric": bound of each record's gradient, in geodesic distance, which makes the loss a
        Huber loss.  "sufficient-statistics": bound of the labels' tangent vectors.  "per-query":
        bound of each logarithm.  By default 0.5, 2 and 2 curvature radii.
    n_steps : int, optional
        Steps of gradient descent, of the fit or of each query; a public rule by default.
    ridge : float, optional
        Ridge of "sufficient-statistics" (half the noise by default) and of the kernel ridge weights
        of "per-query" (by default it follows the budget of a query: 1 where that is large).
    n_queries : int, default=100
        Distinct rows that "per-query" will answer; the budget is split over them.
    public_seed : int, default=0
        Seed of the random features, which are public.
    epsilon, delta : float, default=1.0, 1e-5
        Privacy of the fit and of all predictions.
    accountant, random_state
        As in :class:`skriemdp.PrivateFrechetMean`.

    Attributes
    ----------
    coef_ : ndarray of shape (2 * n_frequencies, dim)
        Private weights W, in geodesic distance (not for "per-query").
    base_point_ : ndarray
        Base point, in the layout of y.
    feature_map_ : FeatureMap
        ``feature_map_(X)`` are the random features of X.
    feature_center_, feature_scale_ : ndarray or float
        What is subtracted from the features, and their scale.
    clipped_fraction_ : float
        Private estimate, for 1 % of ``mu**2``, of the share of records with a feature beyond ten
        scales.  Exact where features are public.
    noise_scale_ : float
        Noise on every entry of: the mean gradient of one step ("parametric"), the products of
        features and labels ("sufficient-statistics"), the gradient per unit of the largest weight
        ("per-query"); in geodesic distance.
    n_queries_left_ : int
        Queries that "per-query" will still answer.
    geometry_ : Hyperboloid
    n_features_in_ : int
    privacy_spent_ : PrivacySpent

    Notes
    -----
    *Guarantee*: (epsilon, delta)-DP under replacement of one record (x, y), of one label, or of all
    records of one group (docs/theory/groups.md), n, their number, public; exactly Gaussian.
    Predictions of "parametric" and "sufficient-statistics" are post-processing.  Those of
    "per-query" were charged at `fit`, all of them; the model must then hold the records, and
    refuses in copies, pickles and other processes.  `score` depends on the rows it is given and is
    not private.  Proofs: docs/theory/regression.md.

    Features that were computed from all records together (spectral embeddings of a graph,
    standardisation) carry the other records into x; then a record's privacy is that of its row,
    not of the node.

    References
    ----------
    Han, Mishra, Jawanpuria, Gao (2022), arXiv:2205.09494; Marconi, Rosasco, Ciliberto (2020),
    arXiv:2001.06207 (structured prediction with hyperbolic responses).

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivateHyperbolicRegressor
    >>> from skriemdp.datasets import make_tree
    >>> X, y = make_tree(2000)
    >>> model = PrivateHyperbolicRegressor(manifold="hyperboloid", epsilon=3.0).fit(X, y)
    >>> model.predict(X[:5]).shape
    (5, 3)
    >>> model.score(X, y) > 0.3
    True
    """

    def __init__(
        self,
        mechanism: Literal["parametric", "sufficient-statistics", "per-query"] = "parametric",
        *,
        privacy_unit: Literal["record", "label"] = "record",
        manifold: ManifoldLike | None = None,
        feature_scale: ArrayLike = "private",
        radius: float = 6.0,
        base_point: ArrayLike = "private",
        n_frequencies: int | None = None,
        length_scale: float | None = None,
        clip_norm: float | None = None,
        n_steps: int | None = None,
        ridge: float | None = None,
        n_queries: int = 100,
        public_seed: int = 0,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
    ):
        self.mechanism = mechanism
        self.privacy_unit = privacy_unit
        self.manifold = manifold
        self.feature_scale = feature_scale
        self.radius = radius
        self.base_point = base_point
        self.n_frequencies = n_frequencies
        self.length_scale = length_scale
        self.clip_norm = clip_norm
        self.n_steps = n_steps
        self.ridge = ridge
        self.n_queries = n_queries
        self.public_seed = public_seed
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state

    # -- scikit-learn ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, groups: Any = None) -> PrivateHyperbolicRegressor:
        """Release a private model ("per-query": charge for all queries).

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n, dim), (n,) or (n, dim + 1)
            Labels, as `manifold` says.
        groups : array-like of shape (n,), optional
            Who owns each row; not with ``privacy_unit="label"``.  Then what a record adds is the
            mean over an owner's rows ("parametric": of gradients, shortened after averaging).  All
            rows of one owner and their number are protected together; n is the number of owners.

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

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels, in the layout of the fitted y.

        Raises
        ------
        BudgetExceededError
            "per-query" only: the rows hold more new queries than are left, or this is a copy of
            the fitted model; nothing is released.
        """
        check_is_fitted(self)
        X = read_records(self, X, reset=False, dtype=np.float64)
        return self._layout(self._tangent_predictions(X))

    def _compared(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = read_records(
            self, X, y, reset=False, multi_output=True, y_numeric=True, dtype=np.float64
        )
        labels = tangent_labels(y, self._space, self.geometry_)
        points, origin = self.geometry_.exp_coordinates, self.geometry_.base_point
        return np.asarray(points(origin, labels)), points(origin, self._tangent_predictions(X))

    @property
    def n_queries_left_(self) -> int:
        """Queries that "per-query" will still answer in this process."""
        check_is_fitted(self)
        if self._server is None:
            raise PublicAttributeError(
                f"mechanism={self.mechanism!r} answers any number of queries."
            )
        return self.n_queries - self._server.n_answered if self._server.can_answer else 0

    @property
    def _remembers_queries(self) -> bool:  # type: ignore[override]  # a field elsewhere
        return self.mechanism == "per-query"

    # -- the order of work ----------------------------------------------------------------------

    def _validate(self, X: Any, y: Any = None) -> Data:
        X, y = read_records(
            self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, ensure_min_samples=2
        )
        y = np.asarray(y, dtype=float)
        facts = self._facts(len(X), X.shape[1], y.shape[1:])
        return Data((X, tangent_labels(y, facts["space"], facts["geometry"])), facts)

    def _facts(self, n: int, d: int, label_shape: tuple[int, ...]) -> dict[str, Any]:
        columns = label_shape[0] if label_shape else 1
        geometry, space = label_space(self.manifold, columns)
        facts = {"geometry": geometry, "space": space, "n": n, "d": d}
        return facts | {"flat": not label_shape}

    def _plan(self, facts: dict[str, Any], terms: Terms) -> Plan:
        return plan_fit(self, facts)

    def _release(self, data: Data, plan: Plan, streams: Any) -> None:
        (X, labels), settings, groups = data.arrays, plan.settings, data.groups
        geometry = data.facts["geometry"]
        unit = math.sqrt(-geometry.curvature)
        space = Hyperboloid(geometry.dim)
        points = self._label_points(labels, geometry)
        budget, rows = GaussianBudget(settings.mu, plan.releases), Units((X,), groups)
        responses = Units((points,), groups)
        features = settings.scaling.release(rows, budget, streams)
        self.clipped_fraction_ = settings.scaling.clipped(rows, features, budget, streams)
        self.feature_center_, self.feature_scale_ = features.center, features.scale
        base = settings.public_base
        if settings.base is not None:
            budget.take(BASE_SHARE, BASE)
            base = settings.base.release(responses, streams("base point"))
        mu = budget.rest(MODEL) / math.sqrt(settings.copies)
        model = dataclasses.replace(settings.model, mu=mu)
        self._set_frame(data.facts, features, base)
        self.noise_scale_ = model.sigma / unit
        if self.mechanism == "per-query":
            weights = self._weights(X, features, model.mu)
            model = dataclasses.replace(model, start=base)
            self._server = QueryServer(model, weights, responses, self.n_queries, streams)
        else:
            coordinates = np.asarray(space.log_coordinates(base, points))
            units = Units((features(X), coordinates), groups)
            weights, evidence = model.release(units, streams("model"))
            self.coef_ = weights / unit
            if evidence < Evidence.HIDDEN:
                warn_user(
                    "the labels never stood out of their noise: this model may be no better than "
                    "its base point for all rows. Use more records or a larger epsilon."
                )

    if TYPE_CHECKING:
        _server: QueryServer | None

    def _label_points(self, labels: np.ndarray, geometry: Hyperboloid) -> np.ndarray:
        """Labels, clipped to the radius, as points of curvature -1."""
        space = Hyperboloid(geometry.dim)
        labels = clip_norms(labels, float(self.radius)) * math.sqrt(-geometry.curvature)
        return np.asarray(space.exp_coordinates(space.base_point, labels))

    def _set_frame(self, facts: dict[str, Any], features: FeatureMap, base: np.ndarray) -> None:
        """Set the learned attributes other than the model: features and space of predictions."""
        geometry = facts["geometry"]
        unit, space = math.sqrt(-geometry.curvature), Hyperboloid(geometry.dim)
        self.geometry_, self.feature_map_ = geometry, features
        self._space = facts["space"]
        self._base, self._flat = base, facts["flat"]
        self._reach = float(self.radius) * unit
        self._server = None
        origin = np.asarray(space.log_coordinates(space.base_point, base))[None] / unit
        self.base_point_ = self._layout(origin)[0]

    # -- sums over several tables, each with noise of its own -----------------------------------

    def _records(self, data: Data) -> tuple:
        """Features, and labels as tangent coordinates; for federated runs."""
        return data.arrays

    def _additive_plan(self, facts: dict[str, Any], terms: Terms) -> Plan[MomentSums]:
        """The sums that clients release: second moments of features and labels."""
        if self.mechanism != "sufficient-statistics" or self.privacy_unit != "record":
            raise PublicValueError(
                "sums of clients are second moments; pass mechanism='sufficient-statistics' with "
                f"privacy_unit='record' (got {self.mechanism!r}, {self.privacy_unit!r})."
            )
        if facts.get("tables") and self.n_frequencies is None:
            raise PublicValueError(
                "clients have tables of several sizes, on which the default number of frequencies "
                "depends; pass n_frequencies=<number>, the same at all clients and at the server."
            )
        plan = self._plan(facts, terms)
        settings = plan.settings
        if settings.scaling.auto or settings.base is not None:
            raise PublicValueError(
                "clients search for no scale and no base point: pass feature_scale=<number> and a "
                "public base_point."
            )
        points = functools.partial(self._label_points, geometry=facts["geometry"])
        known = settings.scaling.features, points, settings.public_base
        sums = MomentSums.planned(settings.model, GaussianBudget(settings.mu), *known)
        return dataclasses.replace(plan, settings=sums)

    def _learn(
        self, statistic: MomentSums, noisy: np.ndarray, facts: dict[str, Any], n_tables: int = 1
    ) -> None:
        """Set the learned attributes from noisy sums over tables of n records in all."""
        n, unit = facts["n"], math.sqrt(-facts["geometry"].curvature)
        features = statistic.features
        self.feature_center_, self.feature_scale_ = features.center, features.scale
        self._set_frame(facts, features, statistic.base)
        sigma = math.sqrt(n_tables) * statistic.count.sigma / n
        advice = ADVICE.format(limit=features.limit)
        self.clipped_fraction_ = noisy_clip_fraction(noisy[0] / n, sigma, 0.0, advice)
        self.noise_scale_ = math.sqrt(n_tables) * statistic.model.sigma / unit
        self.coef_ = statistic.weights(noisy, n_tables) / unit

    def _weights(self, X: np.ndarray, features: FeatureMap, mu: float) -> Any:
        X, length = features.scaled(X), features.length_scale
        if self.privacy_unit == "record":
            return KernelWeights(X, length)
        ridge = query_ridge(len(X), mu) if self.ridge is None else self.ridge
        return KernelRidgeWeights(X, length, ridge)

    # -- layouts --------------------------------------------------------------------------------

    def _layout(self, coordinates: np.ndarray) -> np.ndarray:
        return layout(coordinates, self._space, self._flat)

    def _tangent_predictions(self, X: np.ndarray) -> np.ndarray:
        """Normal coordinates of the predictions at the origin; geodesic distance."""
        unit = math.sqrt(-self.geometry_.curvature)
        space = Hyperboloid(self.geometry_.dim)
        if self._server is not None:
            points = self._server.answer(self.feature_map_.scaled(X))
            if points is None:
                raise BudgetExceededError(self._refusal())
        else:
            coordinates = clip_norms(self.feature_map_(X) @ (self.coef_ * unit), 2.0 * self._reach)
            points = np.asarray(space.exp_coordinates(self._base, coordinates))
        coordinates = np.asarray(space.log_coordinates(space.base_point, points))
        return clip_norms(coordinates, self._reach) / unit

    def _refusal(self) -> str:
        assert self._server is not None
        if not self._server.can_answer:
            return (
                "this is a copy, pickle or forked process of a model with mechanism='per-query': "
                "it holds no records and repeats stored answers only. Predict with the fitted "
                "model itself, or use mechanism='parametric', which predicts without limit."
            )
        return (
            f"{self.n_queries_left_} of n_queries={self.n_queries} queries are left, fewer than "
            "the new rows of X; nothing was released. Repeated rows cost nothing. Declare more "
            "n_queries, or use mechanism='parametric', which predicts without limit."
        )
