"""`PrivateMinimumDistanceToMean`: nearest private class mean, from one joint release."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from skriemdp._quiet import read_records
from skriemdp.core.arithmetic import adds_integers
from skriemdp.core.estimator import Data, Plan, PrivateEstimator
from skriemdp.core.manifold_input import (
    CHECKS,
    as_points,
    check_membership,
    point_shape,
    public_ball,
    warn_large_delta,
    warn_published_labels,
)
from skriemdp.core.parameters import label_list
from skriemdp.core.work import Work
from skriemdp.geometry import as_geometry
from skriemdp.mechanisms.counts import SumsAndCounts
from skriemdp.mechanisms.pure_sums import PureSumsAndCounts
from skriemdp.privacy.calibration import gaussian_mu

__all__ = ["PrivateMinimumDistanceToMean"]


def _class_means(ball, points, labels, n_classes, mechanism, rng, exact):
    """Private class means ``(n_classes, *shape)`` and sizes, from points projected on the ball.

    One release of the class-wise sums of ``log_c x_i``, vectors of length <= r, with their numbers.
    """
    geometry, center, radius = ball.geometry, ball.center, ball.radius
    coordinates = np.asarray(ball.coordinates(points))
    if exact:
        sums, counts = mechanism.release_rows(coordinates, labels, n_classes, rng)
    else:
        sums = np.zeros((n_classes, geometry.dim))
        np.add.at(sums, labels, coordinates)
        counts = np.bincount(labels, minlength=n_classes).astype(float)
        sums, counts = mechanism.release(sums, counts, rng)
    means = sums / np.maximum(counts, 1.0)[:, None]
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    means *= np.minimum(1.0, radius / np.maximum(norms, 1e-300))
    return np.asarray(geometry.exp_coordinates(center, means)), np.maximum(counts, 0.0)


class PrivateMinimumDistanceToMean(ClassifierMixin, PrivateEstimator):
    """Classify a point by the nearest private class mean; differentially private for (x, y).

    Parameters
    ----------
    manifold, center, radius
        As in :class:`skriemdp.PrivateFrechetMean`: space of the points and the public ball that
        bounds them.
    classes : array-like, optional
        Public list of class labels.  Without it the labels that occur in y are published, with a
        warning: whether a label occurs at all can be one record's secret.
    epsilon, delta, accountant, random_state, verbose
        As in :class:`skriemdp.PrivateFrechetMean`.

    Attributes
    ----------
    means_ : ndarray of shape (n_classes, *point_shape)
        Private class means, each the exponential of a private mean of logarithms at the centre.
    class_counts_ : ndarray of shape (n_classes,)
        Private class sizes; they cost nothing beyond the means.
    classes_ : ndarray of shape (n_classes,)
    noise_scale_ : float
        Noise per tangent coordinate of a class of ``n / n_classes`` records, in geodesic distance.
    privacy_spent_ : PrivacySpent

    Notes
    -----
    *Guarantee*: (epsilon, delta)-DP under replacement of one record, label included; n and the
    class list are public; exactly Gaussian, or pure for ``delta=0``.  One joint release has
    sensitivity 2r for all classes together (docs/theory/sensitivity.md), so more classes cost no
    more budget.  `predict`, `predict_proba` and `score` depend on the rows they are given.

    References
    ----------
    Barachant, Bonnet, Congedo, Jutten (2012), for the non-private classifier on SPD matrices.

    Examples
    --------
    >>> from skriemdp import PrivateMinimumDistanceToMean
    >>> from skriemdp.datasets.sets import digits_covariances
    >>> import numpy as np
    >>> X, y = digits_covariances()
    >>> center = np.diag([0.11, 0.11, 0.08, 0.02, 0.02])
    >>> model = PrivateMinimumDistanceToMean("spd", center, 2.0, classes=range(10), epsilon=3.0)
    >>> model.fit(X, y).means_.shape
    (10, 5, 5)
    """

    def __init__(
        self,
        manifold="euclidean",
        center=None,
        radius=1.0,
        *,
        classes=None,
        epsilon=1.0,
        delta=1e-5,
        accountant=None,
        random_state=None,
        verbose=0,
    ):
        self.manifold = manifold
        self.center = center
        self.radius = radius
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y):
        """Release private class means.

        Parameters
        ----------
        X : array-like of shape (n, *point_shape) or (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def predict(self, X):
        """Label of the nearest class mean, shape ``(n,)``."""
        nearest = np.argmin(self._distances(X), axis=1)
        return self.classes_[nearest]

    def predict_proba(self, X):
        """Softmax of minus the squared distances, shape ``(n, n_classes)``."""
        return softmax(-(self._distances(X) ** 2), axis=1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        # A private mean of a handful of records is mostly noise.
        tags.classifier_tags.poor_score = True
        return tags

    def _distances(self, X):
        check_is_fitted(self)
        X = read_records(self, X, reset=False, **CHECKS)
        points = as_points(self.geometry_, X)
        check_membership(self.geometry_, points)
        columns = [np.asarray(self.geometry_.dist(mean, points)) for mean in self.means_]
        return np.stack(columns, axis=1)

    def _validate(self, X, y=None):
        X, y = read_records(self, X, y, labels=True, ensure_min_samples=2, **CHECKS)
        classes = label_list(self.classes, y)
        warn_published_labels(self.classes)
        if not np.isin(y, classes).all():
            raise ValueError("y has labels that are not in classes; list every possible label.")
        geometry = as_geometry(self.manifold, point_shape=point_shape(X, self.manifold))
        points = as_points(geometry, X)
        check_membership(geometry, points)
        facts = {"geometry": geometry, "n": len(points), "classes": classes}
        return Data((points, np.searchsorted(classes, y)), facts)

    def _plan(self, facts, terms):
        warn_large_delta(self.delta, facts["n"])
        ball = public_ball(facts["geometry"], self.center, self.radius)
        mechanism: SumsAndCounts | PureSumsAndCounts
        exact = False
        if self.delta == 0:
            mechanism = PureSumsAndCounts(ball.geometry.dim, ball.radius, float(self.epsilon))
        else:
            mechanism = SumsAndCounts(ball.radius, 1.0 / gaussian_mu(self.epsilon, self.delta))
            exact = adds_integers(
                ball.geometry.separate_rows,
                len(facts["classes"]) * (ball.geometry.dim + 1),
                [mechanism.noise_multiplier],
                f"logarithms that are computed one by one, unlike those of {ball.geometry}",
            )
        return Plan(
            event=mechanism.event,
            exact=exact,
            settings=(ball, mechanism, facts["classes"]),
            public={
                "n": facts["n"],
                "manifold": str(facts["geometry"]),
                "center": ball.center,
                "radius": ball.radius,
                "classes": facts["classes"],
            },
            work=Work(
                8.0 * ball.geometry.dim * (2 * facts["n"] + 3 * len(facts["classes"])),
                cause="the size of X and the number of classes",
            ),
        )

    def _release(self, data, plan, streams):
        (points, labels), (ball, mechanism, classes) = data.arrays, plan.settings
        self.geometry_, self.classes_ = ball.geometry, classes
        self.means_, self.class_counts_ = _class_means(
            ball, points, labels, len(classes), mechanism, streams("class means"), plan.exact
        )
        self.noise_scale_ = mechanism.sum_sigma * len(classes) / len(points)
