"""`PrivateTangentClassifier`: a private linear model on coordinates at a private mean."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skriemdp._arrays import ArrayLike, ManifoldLike
from skriemdp._core.estimator import Data, Plan, PrivateEstimator, Terms
from skriemdp._core.forecast import Expected
from skriemdp._core.manifold_input import check_reach, public_ball, public_point
from skriemdp._errors import PublicValueError
from skriemdp._linear_model.estimator import PrivateNoisyAdaGrad, way_to
from skriemdp._mean.domains import PointClassifier, logarithms
from skriemdp._mean.estimator import PrivateFrechetMean
from skriemdp._tangent.releases import MEAN_SHARE, TwoPlans, shares_of_epsilon
from skriemdp._validation import check_option, check_positive
from skriemdp._warnings import unwarned
from skriemdp.geometry._base import Geometry

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams
    from skriemdp.ledger._accountant import PrivacyAccountant


class _Model(PrivateNoisyAdaGrad):
    """A linear model of coordinates."""

    def _ways_to_bounds(self) -> dict[str, str | None]:
        return {"radius": way_to("radius", self.feature_norm)}


class PrivateTangentClassifier(PointClassifier):
    """Classify points by a private linear model on tangent coordinates at a private mean.

    Seen from a point near all of them, points of a manifold are vectors, in which a linear model
    separates classes.  A part of the budget finds the mean, the rest trains the model; both are one
    fit, with one charge.

    Parameters
    ----------
    manifold : str, Geometry or pymanopt manifold, default="euclidean"
        As in :class:`skriemdp.PrivateFrechetMean`.
    center : array-like of shape ``point_shape`` or "private", optional
        Public point at which coordinates are taken: then nothing is spent on a mean.  "private"
        spends 15 % of ``mu**2`` on one.  None means "private" with ``radius="private"``, and the
        geometry's base point (zero, root, pole) with a number, which matrices of "spd" do not have.
    radius : float or "private", default="private"
        Public bound of the distance of points from the center; coordinates that are longer are
        scaled down to it, silently.  "private" spends a part of the budget on finding one, in units
        of each coordinate where they differ much (:class:`skriemdp.PrivateNoisyAdaGrad`).
    classes : array-like, optional
        Public list of class labels, two at least.  Without it the labels that occur in y are
        published, with a warning.
    epsilon, delta, accountant, random_state
        As in :class:`skriemdp.PrivateFrechetMean`; delta must be positive.

    Attributes
    ----------
    center_ : ndarray of shape ``point_shape``
        Public, or a private mean.
    radius_ : float
        Bound of the length of coordinates, public or found.
    coef_ : ndarray of shape (1, dim) or (n_classes, dim)
        For two classes, or more; of orthonormal tangent coordinates at `center_`.  Where the scale
        of each was found, `predict` cuts them at a few scales first.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    clipped_fraction_ : float
        Private estimate of the share of records whose coordinates were scaled down.
    noise_scale_ : float
        Standard deviation of the noise per coordinate of the model's last mean gradient.
    geometry_ : Geometry
    privacy_spent_ : PrivacySpent
    n_features_in_ : int
    feature_names_in_ : ndarray
        When X had feature names.

    Notes
    -----
    *Guarantee*: (epsilon, delta)-DP under replacement of one record, label included, or of all
    records of one group (docs/theory/groups.md); n, their number, and the class list are public.
    Exactly Gaussian: two fits of one budget, of which the second sees records from a point that the
    first released (docs/theory/adagrad.md, section 6).  `predict`, `predict_proba` and `score`
    depend on the rows they are given.

    Within :class:`skriemdp.preprocessing.PerGroup` around
    :class:`skriemdp.preprocessing.Recenter` everybody's rows lie about the base point, which then
    is the center, at no cost.

    References
    ----------
    Barachant, Bonnet, Congedo, Jutten (2013), for tangent space classification without privacy.

    Examples
    --------
    >>> from skriemdp import PrivateTangentClassifier
    >>> from skriemdp.datasets import digits_covariances
    >>> X, y = digits_covariances()
    >>> model = PrivateTangentClassifier("spd", classes=range(10), epsilon=3.0).fit(X, y)
    >>> model.coef_.shape, tuple(model.privacy_spent_)
    ((10, 15), (3.0, 1e-05))
    """

    __metadata_request__fit = {"groups": True}

    def __init__(
        self,
        manifold: ManifoldLike = "euclidean",
        center: ArrayLike | None = None,
        radius: float | Literal["private"] = "private",
        *,
        classes: Iterable[Any] | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
    ):
        self.manifold = manifold
        self.center = center
        self.radius = radius
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> PrivateTangentClassifier:
        """Release a private mean and a linear model on the coordinates there.

        Parameters
        ----------
        X : array-like of shape (n, *point_shape) or (n, n_features)
        y : array-like of shape (n,)
        groups : array-like of shape (n,), optional
            Who owns each row.  Then an owner gives the mean of own rows' logarithms to the
            mean, and the mean of own rows' gradients to the model; all rows of one owner, their
            labels and their number are protected together, and n is the number of owners, which
            is public.

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

    def decision_function(self, X: Any) -> np.ndarray:
        """Linear scores: ``(n,)`` for two classes (positive: the second), else one per class."""
        return self._queried(X, "decision_function")

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, shape ``(n, n_classes)``."""
        return self._queried(X, "predict_proba")

    def predict(self, X: Any) -> np.ndarray:
        """Labels, shape ``(n,)``."""
        return self._queried(X, "predict")

    def _queried(self, X: Any, method: str) -> np.ndarray:
        points = self._points(X)
        seen = np.asarray(self.geometry_.log_coordinates(self.center_, points))
        return np.asarray(getattr(self._model, method)(seen))

    # -- the order of work ----------------------------------------------------------------------

    def _validate(self, X: Any, y: Any = None, least: int = 2) -> Data:
        data = super()._validate(X, y, least)
        if len(data.facts["classes"]) < 2:
            raise PublicValueError(
                "classes must have at least two labels; got one class in "
                f"{'y' if self.classes is None else 'classes'}."
            )
        return data

    def _plan(self, facts: dict[str, Any], terms: Terms) -> Plan[_Parts]:
        geometry, n = facts["geometry"], facts["n"]
        if self.delta == 0:
            raise PublicValueError(
                "delta=0 has no linear model, whose noise is Gaussian; pass delta > 0."
            )
        seen = {"n": n, "p": geometry.dim, "classes": facts["classes"], "sparse": False}
        public = {"n": n, "manifold": str(geometry), "classes": facts["classes"]}
        center, mean, plan_of_mean = self._public_center(geometry), None, None
        at_mean, at_model = shares_of_epsilon(terms, MEAN_SHARE)
        if center is None:
            mean = PrivateFrechetMean(geometry, "private", self.radius)
            mean.set_params(epsilon=at_mean, delta=terms.delta)
            # What is released with others is Gaussian; the mean's own error is not what counts.
            own = dataclasses.replace(terms, epsilon=at_mean, composes=True)
            with unwarned():
                plan_of_mean = mean._plan({"geometry": geometry, "n": n}, own)
        else:
            at_model, public["center"] = terms.epsilon, center
        model = _Model(center=np.zeros(geometry.dim), classes=facts["classes"])
        model.set_params(feature_norm=self.radius, epsilon=at_model, delta=terms.delta)
        plan_of_model = model._plan(seen | {"grouped": bool(facts.get("grouped"))}, terms)
        if not isinstance(self.radius, str):
            public["radius"] = float(self.radius)
        plans = TwoPlans(plan_of_mean, plan_of_model).checked(terms)
        return Plan(
            event=plans.event,
            settings=_Parts(center, mean, model, plans),
            public=public,
            work=plans.work.plus(16.0 * n * geometry.dim, "the coordinates of the points"),
            arithmetic=plans.arithmetic,
            releases=plans.releases,
        )

    def _public_center(self, geometry: Geometry) -> Any:
        """The public point at which coordinates are taken; None where it is a private mean."""
        public = not isinstance(self.radius, str)
        if not public:
            check_option(("private",), radius=self.radius)
        if isinstance(self.center, str):
            check_option(("private",), center=self.center)
            return None
        if public:
            check_positive(radius=self.radius)
            return public_ball(geometry, self.center, float(self.radius)).center
        if self.center is None:
            return None
        center = public_point(geometry, center=self.center)
        check_reach(geometry, center=center)
        return center

    def _expected(self, plan: Plan[_Parts], facts: Any, spread: Any) -> Expected:
        parts = plan.settings
        found = parts.model._expected(parts.plans.model, facts, spread)
        where = "a public point" if parts.mean is None else "a private mean"
        return found._replace(mechanism=f"coordinates at {where}; {found.mechanism}")

    def _release(self, data: Data, plan: Plan[_Parts], streams: NoiseStreams) -> None:
        parts, geometry, (points, labels) = plan.settings, data.facts["geometry"], data.arrays
        center: Any = parts.center
        model = parts.model
        if parts.mean is not None:
            of_points = Data((points,), data.facts | {"flat": False}, data.groups)
            with unwarned():
                _release_part(parts.mean, of_points, parts.plans.mean, streams, "mean")
            center = parts.mean.mean_
        seen = logarithms(geometry, center, points)
        of_rows = Data((seen, labels.astype(float)), data.facts, data.groups)
        model.n_features_in_ = geometry.dim
        _release_part(model, of_rows, parts.plans.model, streams, "model")
        self.geometry_, self.center_, self._model = geometry, np.asarray(center), model
        self.radius_, self.classes_ = model.feature_norm_, model.classes_
        self.coef_, self.intercept_ = model.coef_, model.intercept_
        self.clipped_fraction_, self.noise_scale_ = model.clipped_fraction_, model.noise_scale_


@dataclass(frozen=True, eq=False)
class _Parts:
    """Parts of a fit.

    Attributes
    ----------
    center : ndarray or None
        Public.
    mean : PrivateFrechetMean or None
        Finds one that is not.
    model : PrivateNoisyAdaGrad
        Of coordinates there.
    plans : TwoPlans
        Of both.
    """

    center: np.ndarray | None
    mean: PrivateFrechetMean | None
    model: PrivateNoisyAdaGrad
    plans: TwoPlans


def _release_part(
    part: PrivateEstimator, data: Data, plan: Any, streams: NoiseStreams, name: str
) -> None:
    """One of two fits that were charged together; its releases have names of their own."""
    part._release(data, plan, functools.partial(streams, name))  # type: ignore[arg-type]
