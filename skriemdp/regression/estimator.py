"""`PrivateHyperbolicRegressor`: regression with responses in hyperbolic space."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skriemdp._quiet import read_records, read_weights
from skriemdp._random import check_random_state
from skriemdp._validation import (
    check_count,
    check_factor,
    check_option,
    check_scale,
)
from skriemdp.core.estimator import Data, Plan, PrivateEstimator
from skriemdp.core.manifold_input import (
    check_descent_radius,
    public_array,
    public_point,
    warn_large_delta,
)
from skriemdp.core.work import Work, check_limit
from skriemdp.descent.progress import ProgressBar
from skriemdp.geometry import GeodesicBall, Hyperboloid, Poincare
from skriemdp.ledger.accountant import BudgetExceededError
from skriemdp.privacy.calibration import gaussian_mu
from skriemdp.regression.planning import (
    BASE_SHARE,
    BasePoint,
    composed,
    frechet_variation,
    frequency_rule,
    length_rule,
    model_rule,
    query_rule,
    shorten,
)
from skriemdp.regression.structured_prediction import (
    KernelRidgeWeights,
    KernelWeights,
    QueryServer,
    WeightedMean,
)
from skriemdp.regression.wrapped_model import FeatureMap, MomentModel, WrappedModel

__all__ = ["PrivateHyperbolicRegressor"]

METHODS = ("parametric", "sufficient-statistics", "per-query")
UNITS = ("record", "label")
COORDINATES = ("tangent", "lorentz", "poincare")
# Scaled features are clipped to this many scales.
_FEATURE_LIMIT = 10.0
# Curvature radii from the origin to the farthest label.
_FARTHEST = 20.0
# Above it the kernel matrix of the per-query method needs more than a gigabyte.
_LARGEST_KERNEL = 12_000


@dataclasses.dataclass(frozen=True)
class _Settings:
    base: BasePoint | None
    public_base: np.ndarray | None
    model: object
    features: FeatureMap


class PrivateHyperbolicRegressor(RegressorMixin, PrivateEstimator):
    """Regression with responses in hyperbolic space, differentially private for (x, y).

    Parameters
    ----------
    method : {"parametric", "sufficient-statistics", "per-query"}, default="parametric"
        "parametric": one private model ``exp_b(W' phi(x))`` on random Fourier features, fitted by
        DP gradient descent on the geodesic Huber loss; any number of predictions.
        "sufficient-statistics": one release of second moments and products with the labels in one
        tangent space, then ridge regression; for very little budget and labels near one point.
        "per-query": the structured prediction of the literature, a weighted Fréchet mean by DP-RGD
        for each query; `predict` answers `n_queries` distinct rows, then refuses.
    privacy_unit : {"record", "label"}, default="record"
        Who is protected: the pair (x, y), or y alone with all features public.  "per-query" uses
        Nadaraya-Watson weights for records and kernel ridge weights for labels.
    coordinates : {"tangent", "lorentz", "poincare"}, default="tangent"
        Layout of y and of predictions: normal coordinates at the origin (any real vector is one),
        the hyperboloid (time coordinate first), or the unit ball.
    curvature : float, default=-1.0
    feature_scale : float or array-like of shape (n_features,), default=1.0
        Public scale of the features, which are divided by it and clipped at ten of it.
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
    step_size : float, optional
        Step size of "parametric"; a public rule by default.
    ridge : float, optional
        Ridge of "sufficient-statistics" (half the noise by default) and of the kernel ridge weights
        of "per-query" (1 by default).
    n_queries : int, default=100
        Distinct rows that "per-query" will answer; the budget is split over them.
    public_seed : int, default=0
        Seed of the random features, which are public.
    epsilon, delta : float, default=1.0, 1e-5
        Privacy of the fit and of all predictions.
    accountant, random_state, verbose
        As in :class:`skriemdp.PrivateFrechetMean`.

    Attributes
    ----------
    coef_ : ndarray of shape (2 * n_frequencies, dim)
        Private weights W, in geodesic distance (not for "per-query").
    base_point_ : ndarray
        Base point, in the layout of y.
    feature_map_ : FeatureMap
        ``feature_map_(X)`` are the random features of X.
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
    *Guarantee*: (epsilon, delta)-DP under replacement of one record (x, y), or of one label, n
    public; exactly Gaussian.  Predictions of "parametric" and "sufficient-statistics" are
    post-processing.  Those of "per-query" were charged at `fit`, all of them; the model must then
    hold the records, and refuses in copies, pickles and other processes.  `score` depends on the
    rows it is given and is not private.  Proofs: docs/theory/regression.md.

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
    >>> from skriemdp.datasets.hierarchies import make_tree
    >>> X, y = make_tree(2000)
    >>> model = PrivateHyperbolicRegressor(coordinates="lorentz", epsilon=3.0).fit(X, y)
    >>> model.predict(X[:5]).shape
    (5, 3)
    >>> model.score(X, y) > 0.3
    True
    """

    def __init__(
        self,
        method="parametric",
        *,
        privacy_unit="record",
        coordinates="tangent",
        curvature=-1.0,
        feature_scale=1.0,
        radius=6.0,
        base_point="private",
        n_frequencies=None,
        length_scale=None,
        clip_norm=None,
        n_steps=None,
        step_size=None,
        ridge=None,
        n_queries=100,
        public_seed=0,
        epsilon=1.0,
        delta=1e-5,
        accountant=None,
        random_state=None,
        verbose=0,
    ):
        self.method = method
        self.privacy_unit = privacy_unit
        self.coordinates = coordinates
        self.curvature = curvature
        self.feature_scale = feature_scale
        self.radius = radius
        self.base_point = base_point
        self.n_frequencies = n_frequencies
        self.length_scale = length_scale
        self.clip_norm = clip_norm
        self.n_steps = n_steps
        self.step_size = step_size
        self.ridge = ridge
        self.n_queries = n_queries
        self.public_seed = public_seed
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    # -- scikit-learn ---------------------------------------------------------------------------

    def fit(self, X, y):
        """Release a private model ("per-query": charge for all queries).

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n, dim), (n,) or (n, dim + 1)
            Labels in the layout `coordinates`.

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
        return self._fit(X, y)

    def predict(self, X):
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

    def score(self, X, y, sample_weight=None):
        """Fréchet R^2: one minus the squared distances to y over those of y's Fréchet mean.

        Parameters
        ----------
        X, y : as in `fit`
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        float
            1 is perfect, 0 as good as the non-private Fréchet mean of y.  Not private.
        """
        check_is_fitted(self)
        X, y = read_records(
            self, X, y, reset=False, multi_output=True, y_numeric=True, dtype=np.float64
        )
        labels = self._tangent_labels(y, self.geometry_)
        points = np.asarray(self.geometry_.exp_coordinates(self.geometry_.base_point, labels))
        predicted = self.geometry_.exp_coordinates(
            self.geometry_.base_point, self._tangent_predictions(X)
        )
        squares = np.asarray(self.geometry_.dist(predicted, points)) ** 2
        weights = read_weights(sample_weight, len(X))
        total = frechet_variation(self.geometry_, points, weights)
        error = float(weights @ squares)
        if total == 0.0:
            return 1.0 if error == 0.0 else 0.0
        return 1.0 - error / total

    @property
    def n_queries_left_(self):
        """Queries that "per-query" will still answer in this process."""
        check_is_fitted(self)
        if self._server is None:
            raise AttributeError(f"method={self.method!r} answers any number of queries.")
        return self.n_queries - self._server.n_answered if self._server.can_answer else 0

    @property
    def _remembers_queries(self):
        return self.method == "per-query"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        # A private model of a few hundred records is mostly noise.
        tags.regressor_tags.poor_score = True
        return tags

    # -- the order of work ----------------------------------------------------------------------

    def _validate(self, X, y=None):
        check_option(COORDINATES, coordinates=self.coordinates)
        X, y = read_records(
            self,
            X,
            y,
            multi_output=True,
            y_numeric=True,
            dtype=np.float64,
            ensure_min_samples=2,
        )
        y = np.asarray(y, dtype=float)
        columns = 1 if y.ndim == 1 else y.shape[1]
        geometry = Hyperboloid(columns - (self.coordinates == "lorentz"), self.curvature)
        labels = self._tangent_labels(y, geometry)
        facts = {"geometry": geometry, "n": len(X), "d": X.shape[1], "flat": y.ndim == 1}
        return Data((X, labels), facts)

    def _plan(self, facts, terms):
        n, geometry = facts["n"], facts["geometry"]
        check_option(METHODS, method=self.method)
        check_option(UNITS, privacy_unit=self.privacy_unit)
        check_scale(radius=self.radius)
        check_random_state(self.public_seed)
        for name in ("length_scale", "clip_norm", "step_size", "ridge"):
            if getattr(self, name) is not None:
                check_factor(**{name: getattr(self, name)})
        warn_large_delta(self.delta, n)
        unit = math.sqrt(-geometry.curvature)
        check_scale(**{"radius * sqrt(-curvature)": float(self.radius) * unit})
        if float(self.radius) * unit > _FARTHEST:
            raise ValueError(
                f"radius={self.radius!r} is above {_FARTHEST / unit:.4g}, {_FARTHEST:g} curvature "
                "radii, beyond which points of hyperbolic space overflow floating point; pass a "
                "smaller radius, or rescale the labels."
            )
        if self.clip_norm is not None:
            check_scale(**{"clip_norm * sqrt(-curvature)": float(self.clip_norm) * unit})
        mu = gaussian_mu(self.epsilon, self.delta)
        base, public_base = None, None
        if isinstance(self.base_point, str):
            check_option(("private",), base_point=self.base_point)
            check_descent_radius(
                geometry, float(self.radius), "pass a smaller one, or a public base_point"
            )
            base = BasePoint(geometry.dim, float(self.radius) * unit, n, math.sqrt(BASE_SHARE) * mu)
            mu = math.sqrt(mu**2 - base.event.mu**2) * (1.0 - 1e-14)
        else:
            public_base = self._public_base(geometry)
        model, copies = self._model(n, mu, geometry, unit)
        features, work = self._feature_map(n, facts["d"], geometry.dim)
        return Plan(
            event=composed(base, model, copies),
            settings=_Settings(base, public_base, model, features),
            public={
                "n": n,
                "coordinates": self.coordinates,
                "curvature": float(self.curvature),
                "radius": float(self.radius),
                "feature_scale": self.feature_scale,
                "public_seed": self.public_seed,
                "base_point": self.base_point,
            }
            | ({"X": "every feature"} if self.privacy_unit == "label" else {}),
            unit=self.privacy_unit,
            work=work,
        )

    def _model(self, n, mu, geometry, unit):
        records = self.privacy_unit == "record"
        default_clip = 0.5 if self.method == "parametric" else 2.0
        clip = default_clip if self.clip_norm is None else float(self.clip_norm) * unit
        if self.n_steps is not None:
            check_count(n_steps=self.n_steps)
        if self.method == "sufficient-statistics":
            return MomentModel(mu, clip, self.ridge, records), 1
        if self.method == "parametric":
            n_steps, step_size, momentum = model_rule(n, mu, self.n_steps)
            step_size = step_size if self.step_size is None else self.step_size
            return WrappedModel(n, mu, n_steps, step_size, clip, momentum), 1
        check_count(n_queries=self.n_queries)
        if not records and n > _LARGEST_KERNEL:
            raise ValueError(
                f"n={n} records are too many for kernel ridge weights (at most {_LARGEST_KERNEL}); "
                "use method='parametric', or fit on a subsample."
            )
        check_limit("most_steps", n_queries=self.n_queries)
        least = 4.0 * np.finfo(float).eps * n * n
        if not records and self.ridge is not None and self.ridge < least:
            raise ValueError(
                f"ridge={self.ridge!r} is below {least:.2g}, where rounding of n={n} kernel rows "
                "could leave no solution; pass a larger ridge."
            )
        mu_query = mu / math.sqrt(self.n_queries)
        n_steps = query_rule(n, mu_query) if self.n_steps is None else self.n_steps
        ball = GeodesicBall(Hyperboloid(geometry.dim), None, float(self.radius) * unit)
        return WeightedMean(ball, mu_query, n_steps, clip, records), self.n_queries

    def _feature_map(self, n, d, dim):
        """The random features, and the work of a fit, refused before they are drawn."""
        try:
            scale = np.asarray(self.feature_scale, dtype=float)
        except (TypeError, ValueError, OverflowError):
            scale = np.zeros(())
        sane = (scale >= 1e-100) & (scale <= 1e100)
        if scale.shape not in ((), (d,)) or not sane.all():
            raise ValueError(
                f"feature_scale must be a number in [1e-100, 1e100] or {d} of them, one per "
                "feature."
            )
        n_frequencies = (
            frequency_rule(n, self.method == "parametric")
            if self.n_frequencies is None
            else self.n_frequencies
        )
        check_count(n_frequencies=n_frequencies)
        length = length_rule(d) if self.length_scale is None else self.length_scale
        columns = 2 * n_frequencies
        entries = n * (columns + 4 * dim) + d * n_frequencies + 5 * columns * dim
        if self.method == "sufficient-statistics":
            entries += 4 * columns * columns
        if self.method == "per-query" and self.privacy_unit == "label":
            entries += 3 * n * n
        steps = (1 if self.n_steps is None else self.n_steps) * (
            self.n_queries if self.method == "per-query" else 1
        )
        work = Work(8.0 * entries, steps, f"n_frequencies={n_frequencies}").check()
        features = FeatureMap(d, n_frequencies, length, scale, _FEATURE_LIMIT, self.public_seed)
        return features, work

    def _public_base(self, geometry):
        """The public base point on the hyperboloid of curvature -1."""
        if self.coordinates == "lorentz":
            point = public_point(geometry, base_point=self.base_point)[None]
        elif self.coordinates == "poincare":
            ball = Poincare(geometry.dim, geometry.curvature)
            point = public_point(ball, base_point=self.base_point)[None]
        else:
            point = public_array("base_point", self.base_point).reshape(1, -1)
            if point.shape[1] != geometry.dim or not np.isfinite(point).all():
                raise ValueError(f"base_point must hold {geometry.dim} finite numbers.")
        unit = math.sqrt(-geometry.curvature)
        labels = self._tangent_labels(point, geometry)
        labels = shorten(labels, float(self.radius)) * unit
        space = Hyperboloid(geometry.dim)
        return np.asarray(space.exp_coordinates(space.base_point, labels))[0]

    def _release(self, data, plan, streams):
        (X, labels), settings = data.arrays, plan.settings
        geometry = data.facts["geometry"]
        unit = math.sqrt(-geometry.curvature)
        space = Hyperboloid(geometry.dim)
        labels = shorten(labels, float(self.radius)) * unit
        points = np.asarray(space.exp_coordinates(space.base_point, labels))
        base = settings.public_base
        if settings.base is not None:
            base = settings.base.release(points, streams("base point"))
        self.geometry_, self.feature_map_ = geometry, settings.features
        self._base, self._flat = base, data.facts["flat"]
        self._reach = float(self.radius) * unit
        origin = np.asarray(space.log_coordinates(space.base_point, base))[None] / unit
        self._server = None
        self.noise_scale_ = settings.model.sigma / unit
        if self.method == "per-query":
            weights = self._weights(settings.features.scaled(X))
            self._server = QueryServer(
                settings.model, weights, points, base, self.n_queries, streams
            )
        else:
            arguments = {}
            if self.verbose:
                name = type(self).__name__
                arguments["progress"] = ProgressBar(name, self.epsilon, self.delta)
            coordinates = np.asarray(space.log_coordinates(base, points))
            weights = settings.model.release(
                settings.features(X), coordinates, streams("model"), **arguments
            )
            self.coef_ = weights / unit
        self.base_point_ = self._layout(origin)[0]

    def _weights(self, X):
        length = self._query_length(X.shape[1])
        if self.privacy_unit == "record":
            return KernelWeights(X, length)
        return KernelRidgeWeights(X, length, 1.0 if self.ridge is None else self.ridge)

    def _query_length(self, d):
        return length_rule(d) if self.length_scale is None else self.length_scale

    # -- layouts --------------------------------------------------------------------------------

    def _tangent_labels(self, y, geometry):
        """Normal coordinates at the origin, ``(n, dim)``; raises for rows that are no points."""
        y = np.asarray(y, dtype=float)
        y = y[:, None] if y.ndim == 1 else y
        if self.coordinates == "tangent":
            space, expected = None, geometry.dim
        elif self.coordinates == "lorentz":
            space, expected = geometry, geometry.dim + 1
        else:
            space, expected = Poincare(geometry.dim, geometry.curvature), geometry.dim
        if y.shape[1] != expected:
            raise ValueError(f"y has {y.shape[1]} columns, but {expected} are expected.")
        if space is None:
            return y
        if not np.asarray(space.belongs(y)).all():
            raise ValueError(
                f"some rows of y are not points of {space}; check coordinates="
                f"{self.coordinates!r} and curvature, or pass coordinates='tangent'."
            )
        return np.asarray(space.log_coordinates(space.base_point, y))

    def _layout(self, coordinates):
        """Labels in the user's layout, from normal coordinates at the origin."""
        if self.coordinates == "tangent":
            return coordinates[:, 0] if self._flat else coordinates
        space = self.geometry_
        if self.coordinates == "poincare":
            space = Poincare(space.dim, space.curvature)
        return np.asarray(space.exp_coordinates(space.base_point, coordinates))

    def _tangent_predictions(self, X):
        """Normal coordinates of the predictions at the origin; geodesic distance."""
        unit = math.sqrt(-self.geometry_.curvature)
        space = Hyperboloid(self.geometry_.dim)
        if self._server is not None:
            points = self._server.answer(self.feature_map_.scaled(X))
            if points is None:
                raise BudgetExceededError(self._refusal())
        else:
            coordinates = shorten(self.feature_map_(X) @ (self.coef_ * unit), 2.0 * self._reach)
            points = np.asarray(space.exp_coordinates(self._base, coordinates))
        coordinates = np.asarray(space.log_coordinates(space.base_point, points))
        return shorten(coordinates, self._reach) / unit

    def _refusal(self):
        if not self._server.can_answer:
            return (
                "this is a copy, pickle or forked process of a model with method='per-query': it "
                "holds no records and repeats stored answers only. Predict with the fitted model "
                "itself, or use method='parametric', which predicts without limit."
            )
        return (
            f"{self.n_queries_left_} of n_queries={self.n_queries} queries are left, fewer than "
            "the new rows of X; nothing was released. Repeated rows cost nothing. Declare more "
            "n_queries, or use method='parametric', which predicts without limit."
        )
