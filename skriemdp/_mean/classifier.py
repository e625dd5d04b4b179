"""`PrivateMinimumDistanceToMean`: nearest private class mean, from one joint release."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from skriemdp._arrays import ArrayLike, ManifoldLike
from skriemdp._core.arithmetic import INTEGERS, PLAIN
from skriemdp._core.estimator import Data, Plan, Terms
from skriemdp._core.forecast import Expected
from skriemdp._core.manifold_input import ball_cure, clipped_share
from skriemdp._core.parameters import RequiresParameter
from skriemdp._errors import PublicAttributeError, PublicValueError
from skriemdp._location_scale.points import PointRecords, warn_direction
from skriemdp._location_scale.search import BallEstimate
from skriemdp._mean.class_releases import (
    ClassReleases,
    ClassRule,
    ClassSums,
    PeopleOfClasses,
    Vote,
    linear_pays,
)
from skriemdp._mean.domains import PointClassifier, public_domain, public_facts, search_domain
from skriemdp._mean.expected import (
    expected_error,
    expected_joint_mean,
    radius_at_level,
    stated_spread,
)
from skriemdp._mean.exports import pyriemann_metric, synthetic_classes
from skriemdp._mean.joint_releases import JointMean, plan_joint_mean
from skriemdp._mean.linear_decision import LinearDecision
from skriemdp._mean.uncertainty import WIDER, warn_cut
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._validation import check_option, shown
from skriemdp._warnings import warn_user
from skriemdp.geometry import Geometry
from skriemdp.privacy._calibration import gaussian_mu

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams
    from skriemdp.inference import ConfidenceRegion
    from skriemdp.ledger._accountant import PrivacyAccountant

# About a public center, as after recentring, people's class means are clipped to this part of the
# distance that holds most people: what they lose of their length is much alike, and noise is in
# proportion (benchmarks/people.py, "search").
_OF_PEOPLE = 0.6
# What not every fit learns: some with ``uncertainty=True`` only, the last after a vote only.
_OF_SOME = ("inference_", "covariances_", "tangent_covariances_", "_clipped_noise", "decision_")


class PrivateMinimumDistanceToMean(PointClassifier):
    """Classify a point by private class means; differentially private for (x, y).

    Parameters
    ----------
    manifold : str, Geometry or pymanopt manifold, default="euclidean"
        As in :class:`skriemdp.PrivateFrechetMean`.
    center : array-like of shape ``point_shape`` or "private", optional
        Public centre of the ball that bounds the points.  "private" spends a part of the budget on
        finding one.  None means "private" with ``radius="private"``, and the geometry's base point
        (zero, root, pole) with a number, which matrices of "spd" do not have.
    radius : float or "private", default="private"
        Public radius of that ball, in geodesic distance; rows outside are clipped to it,
        silently.  "private" spends a part of the budget on finding one.
    classes : array-like, optional
        Public list of class labels.  Without it the labels that occur in y are published, with a
        warning: whether a label occurs at all can be one record's secret.  A sorted list of texts
        also stands for the numbers 0, 1, ... of integer y.
    uncertainty : bool, default=False
        Release the second moment of each class with its mean, so that `confidence_region`,
        `covariances_` and :func:`skriemdp.mean_test` know sampling error and noise
        (docs/user_guide/uncertainty.md).  The noise of the means is the same at equal epsilon, that
        of the counts ``sqrt(2)`` times as large, and a private radius is 1.3 times as wide.  Needs
        ``delta > 0`` and records as units (no `groups`).
    epsilon, delta, accountant, random_state
        As in :class:`skriemdp.PrivateFrechetMean`.

    Attributes
    ----------
    means_ : ndarray of shape (n_classes, *point_shape)
        Private class means, each the exponential of a private mean of logarithms at the centre.
        With ``uncertainty=True`` the Fréchet mean that belongs to the released moments of the class
        (docs/theory/regions.md).
    class_counts_ : ndarray of shape (n_classes,)
        Private class sizes; they cost nothing beyond the means.  With `groups` a person who shows
        K classes counts ``1 / sqrt(K)`` in each of them.
    classes_ : ndarray of shape (n_classes,)
    center_, radius_ : ndarray of shape ``point_shape``, float
        The ball that was used: public, or released.
    clipped_fraction_ : float
        Private estimate of the fraction of rows outside the ball, in [0, 1]; with `groups`, of
        people whose class means are farther off in root mean square, and with a public center and
        a private radius by more than ``radius_ / .6``.
    noise_scale_ : float
        Noise per tangent coordinate of a class of ``n / n_classes`` records, in geodesic distance;
        with `groups`, if everybody shows every class.
    decision_ : {"linear", "geodesic", "tangent", "largest class"}
        How `predict` decides: by scores that are linear in coordinates at `center_`, with one
        covariance of all classes; by geodesic distances; by distances in those coordinates; or by
        naming the class of the largest released count.  From ``n mu = 150`` on, with Gaussian
        noise and without `uncertainty`, the records were asked; the first way is one of them from
        ``n mu = 100 sqrt(dim)``, and 12 times that root for each class, on, without `groups`.
        There ``uncertainty=True`` decides linearly without asking.  Elsewhere there is no such
        attribute, and geodesic distances decide.
    covariances_ : ndarray of shape (n_classes, dim, dim)
        With ``uncertainty=True``: of the errors of `means_`, sampling and noise together, in
        orthonormal coordinates there.  NaN for a class whose released count is below one.
    tangent_covariances_ : ndarray of shape (n_classes, dim, dim)
        With ``uncertainty=True``: of the records of each class, in coordinates at its mean.
    inference_ : tuple of skriemdp.inference.MeanInference or None
        With ``uncertainty=True``: what was released of each class, for
        :func:`skriemdp.mean_test`; None as above.
    privacy_spent_ : PrivacySpent

    Notes
    -----
    *Guarantee*: (epsilon, delta)-DP under replacement of one record, label included, or of all
    records of one group; their number n and the class list are public; where the accountant's unit
    is "record, present or not", under addition and removal of a record too, n secret
    (docs/theory/presence.md).  Exactly Gaussian, or pure
    for ``delta=0``, which needs a public `center` and `radius`, and no `groups`.  The ball is
    searched on all rows together, whatever their labels (docs/theory/location-scale.md); with
    `groups`, on the means of each group's own rows by class.  One joint release has sensitivity 2r
    for all classes together (docs/theory/sensitivity.md, docs/theory/groups.md), so more classes
    cost no more budget.  What `decision_` says is a further release, for 2 to 4 % of ``mu**2``:
    noisy numbers of the records that each way labels right.  A linear decision needs one second
    moment of all records more, for 12 % of what the search leaves, of sensitivity ``sqrt(2) s^2``
    with vectors clipped to ``s = .75 r`` (docs/theory/moments.md).  `predict`, `predict_proba`
    and `score` depend on the rows they are given.

    References
    ----------
    Barachant, Bonnet, Congedo, Jutten (2012), for the non-private classifier on SPD matrices;
    Fisher (1936), for the linear one.

    Examples
    --------
    >>> from skriemdp import PrivateMinimumDistanceToMean
    >>> from skriemdp.datasets import digits_covariances
    >>> X, y = digits_covariances()
    >>> model = PrivateMinimumDistanceToMean("spd", classes=range(10), epsilon=3.0)
    >>> model.fit(X, y).means_.shape
    (10, 5, 5)
    """

    __metadata_request__fit = {"groups": True}
    _share_after_presence = 0.42
    _rule: ClassRule
    inference_: Any = RequiresParameter("uncertainty=True")
    covariances_: Any = RequiresParameter("uncertainty=True")
    tangent_covariances_: Any = RequiresParameter("uncertainty=True")

    def __init__(
        self,
        manifold: ManifoldLike = "euclidean",
        center: ArrayLike | None = None,
        radius: float | Literal["private"] = "private",
        *,
        classes: Iterable[Any] | None = None,
        uncertainty: bool = False,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
    ):
        self.manifold = manifold
        self.center = center
        self.radius = radius
        self.classes = classes
        self.uncertainty = uncertainty
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: np.ndarray | None = None) -> PrivateMinimumDistanceToMean:
        """Release private class means.

        Parameters
        ----------
        X : array-like of shape (n, *point_shape) or (n, n_features)
        y : array-like of shape (n,)
        groups : array-like of shape (n,), optional
            Who owns each row.  Then all rows of one owner, their labels and their number are
            protected together, and n below is the number of owners, which is public.

        Returns
        -------
        self
        """
        return self._fit(X, y, groups)

    def predict(self, X: Any) -> np.ndarray:
        """Label of the nearest class mean, shape ``(n,)``; `decision_` says in what sense."""
        points, way = self._points(X), self._way
        return self.classes_[self._rule.places(points, way)]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Softmax of minus the squared distances or of scores, shape ``(n, n_classes)``.

        Where the largest class is named for all rows: the released shares of the classes.
        """
        points, way = self._points(X), self._way
        if way == "largest class":
            return np.tile(self._rule.shares(), (len(points), 1))
        return softmax(self._rule.scores(points, way), axis=1)

    def confidence_region(self, label: Any, level: float = 0.95) -> ConfidenceRegion | None:
        """Region that holds the mean of a class of the population with probability `level`.

        It covers the Fréchet mean of the law of that class projected on the ball `center_`,
        `radius_`; records must be independent.  Post-processing: nothing more is spent.

        Parameters
        ----------
        label : object
            One of `classes_`.
        level : float, default=0.95

        Returns
        -------
        skriemdp.inference.ConfidenceRegion or None
            None for a class whose released count is below one.

        Raises
        ------
        AttributeError
            Unless the fit was made with ``uncertainty=True``.
        ValueError
            For a label that is none of `classes_`.
        """
        check_is_fitted(self)
        inference = self.inference_
        (places,) = np.nonzero(self.classes_ == label)
        if len(places) != 1:
            raise PublicValueError(f"label={shown(label)} is none of classes_; pass one of them.")
        known = inference[places[0]]
        if known is None:
            return None
        return known.region(
            level,
            self.privacy_spent_,
            clipped=(self.clipped_fraction_, self._clipped_noise),
            of=f"class {shown(label)} of the population",
        )

    def sample(self, n: int = 1, random_state: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Synthetic records with labels: wrapped Gaussians with the moments of the classes.

        They show released means, covariances and shares of the classes, and nothing else of the
        records.  Post-processing: nothing more is spent, for any `n`.

        Parameters
        ----------
        n : int, default=1
        random_state : int, optional
            Public; the draws are no noise that protects anybody.

        Returns
        -------
        X : ndarray of shape (n, *point_shape)
        y : ndarray of shape (n,)
            None of a class whose released count is below one.

        Raises
        ------
        AttributeError
            Unless the fit was made with ``uncertainty=True``, and some class has a count.
        """
        check_is_fitted(self)
        known = [k is not None for k in getattr(self, "inference_", ())]
        if not any(known):
            raise PublicAttributeError(
                "sample needs the second moments of the classes, which this fit did not release; "
                "pass uncertainty=True and fit again, which costs a budget of its own."
            )
        counts = np.where(known, np.maximum(self.class_counts_, 0.0), 0.0)
        X, labels = synthetic_classes(
            self.geometry_, self.means_, self.tangent_covariances_, counts, n, random_state
        )
        return X, self.classes_[labels]

    def to_pyriemann(self) -> Any:
        """pyRiemann's ``MDM`` with the private class means, fitted, for matrices.

        It decides by geodesic distances, whatever `decision_` says.

        Returns
        -------
        pyriemann.classification.MDM

        Raises
        ------
        ValueError
            For manifolds that pyRiemann does not have.
        """
        check_is_fitted(self)
        metric = pyriemann_metric(self.geometry_)
        from pyriemann.classification import MDM

        return MDM(metric=metric).fit(self.means_, self.classes_)

    @property
    def _way(self) -> str:
        return getattr(self, "decision_", "geodesic")

    def _needs_public_n(self, groups: Any) -> str:
        if self.classes is None:
            return "a label may be one record's: pass classes=, the public list of all labels."
        return super()._needs_public_n(groups)

    def _plan(self, facts: dict[str, Any], terms: Terms) -> Plan:
        geometry, n, classes = facts["geometry"], facts["n"], facts["classes"]
        check_option((False, True), uncertainty=self.uncertainty)
        if self.uncertainty:
            return self._joint_plan(geometry, n, classes, bool(facts.get("grouped")), terms)
        if self.delta == 0 and facts.get("grouped"):
            raise PublicValueError(
                "delta=0 has no release for groups, whose members may show several classes; pass a "
                "delta > 0."
            )
        ball, search = public_domain(geometry, self.center, self.radius), None
        pure, epsilon = self.delta == 0, float(self.epsilon)
        total = epsilon if pure else gaussian_mu(epsilon, self.delta)
        if ball is None:
            if pure:
                raise PublicValueError(
                    "delta=0 has no private search for a ball; pass a public center= and radius=, "
                    "or a delta > 0."
                )
            secret = terms.secret_n
            search = search_domain(geometry, n, total, self.center, self.radius, secret)
        grouped = bool(facts.get("grouped"))
        vote = Vote.planned(geometry, n, len(classes), 0.0 if pure else total, not grouped)
        asked = total, pure, grouped, vote, ball, search
        fit = ClassReleases(geometry, len(classes), *asked)
        budget = fit.reserved()
        _warn_little_information(fit, n)
        return Plan(
            event=budget.event,
            arithmetic=PLAIN if pure else INTEGERS,
            releases=budget.releases,
            settings=fit,
            public=public_facts(geometry, n, ball, search) | {"classes": classes},
            work=fit.work(n),
        )

    def _joint_plan(
        self, geometry: Geometry, n: int, classes: np.ndarray, grouped: bool, terms: Terms
    ) -> Plan[JointMean]:
        """Means with their second moments."""
        if grouped:
            raise PublicValueError(
                "uncertainty=True has no regions with groups: people who show several classes make "
                "the errors of class means depend on each other. Pass uncertainty=False; or, where "
                "everybody shows one class, and who shows which is public, fit "
                "PrivateFrechetMean(uncertainty=True) on the rows of each class with their groups."
            )
        if self.delta == 0:
            raise PublicValueError("delta=0 has no regions of class means; pass delta > 0.")
        mu = gaussian_mu(self.epsilon, self.delta)
        ball, search = public_domain(geometry, self.center, self.radius), None
        if ball is None:
            search = search_domain(geometry, n, mu, self.center, self.radius, terms.secret_n)
        return plan_joint_mean(
            geometry, n, mu, 1.0, WIDER, ball=ball, search=search, n_classes=len(classes)
        ).plan(classes=classes)

    def _expected(self, plan: Plan, facts: Any, spread: Any) -> Expected:
        fit, n = plan.settings, facts["n"]
        if isinstance(fit, JointMean):
            return expected_joint_mean(fit, spread)
        k, dim, stated = fit.n_classes, fit.geometry.dim, stated_spread(fit.ball, spread)
        (budget, count), ball, search = fit.begun(), fit.ball, fit.search
        if search is not None:
            search.near().shares.reserve(budget)
            radius = search.radius or radius_at_level(stated[0], search.level, dim)
            ball = BallEstimate(fit.geometry.base_point, radius=radius, level=search.level)
        sums = fit.sums(ball, count, budget)
        noise = math.sqrt(dim) * sums.noise_scale(n)
        floor = math.sqrt(dim) * dataclasses.replace(sums, rest=budget.total).noise_scale(n)
        name = f"sums and sizes of {k} classes in a ball, {budget.law} noise"
        found = expected_error(name, noise, floor, n / k, stated)
        assumed = f"{found.assumed}; their mean is that of all classes, which are equally large"
        return found._replace(assumed=assumed)

    def _release(self, data: Data, plan: Plan, streams: NoiseStreams) -> None:
        for name in _OF_SOME:
            self.__dict__.pop(name, None)
        if isinstance(plan.settings, JointMean):
            self._release_joint(data, plan.settings, streams)
            return
        fit: ClassReleases = plan.settings
        (budget, count), kept, reach = fit.begun(plan.releases), 1.0, None
        ball: Any = fit.ball
        if fit.search is not None:
            assert isinstance(budget, GaussianBudget)
            geometry, (points, labels) = fit.geometry, data.arrays
            records = (
                PointRecords(geometry, points, data.facts["n"])
                if data.groups is None
                else PeopleOfClasses(geometry, points, labels, data.groups)
            )
            ball = fit.search.release(records, budget, streams)
            kept, reach = ball.level, ball.radius
            if data.groups is not None and fit.search.center is not None:
                ball = dataclasses.replace(ball, radius=_OF_PEOPLE * reach)
            warn_direction(ball)
        statistic = fit.sums(ball, count, budget, reach)
        noisy = statistic.noisy(data.units, streams)
        self._learn(statistic, noisy, data.facts, kept=kept)
        if fit.vote.ways:
            vote = dataclasses.replace(fit.vote, rule=self._rule)
            decision = vote.release(data.units, streams("decision"))
            self.decision_ = decision.way
            if not decision.informative:
                _warn_undecided(decision.way)
            else:  # of records whose own labels drew the means to them
                _warn_together(self._rule)

    def _release_joint(self, data: Data, joint: JointMean, streams: NoiseStreams) -> None:
        """Means with their second moments."""
        records = PointRecords(joint.geometry, data.arrays[0], joint.n)
        known, means, found, seen = joint.release_classes(records, data.arrays[1], streams)
        nothing = np.full((joint.geometry.dim,) * 2, np.nan)
        self.inference_, self.means_ = known, means
        self.covariances_ = np.stack([nothing if k is None else k.covariance for k in known])
        self.tangent_covariances_ = np.stack(
            [nothing if k is None else k.tangent_covariance for k in known]
        )
        self.geometry_, self.classes_ = joint.geometry, data.facts["classes"]
        self.class_counts_ = np.maximum(found.counts, 0.0)
        self.center_, self.radius_ = np.asarray(seen.center), float(seen.radius)
        self.noise_scale_ = found.first_sigma * len(known) / joint.n
        self.clipped_fraction_ = float(np.clip(seen.clipped, 0.0, 1.0))
        self._clipped_noise = seen.clipped_noise
        asked, linear = (joint.geometry, joint.n, len(known), joint.mu), None
        if len(known) > 1 and linear_pays(*asked):
            moments = joint.pooled(found, seen.radius)
            linear = LinearDecision.of(joint.geometry, seen.center, moments)
            self.decision_ = "linear"
        rule = (self.geometry_, self.center_, self.means_, None, self.class_counts_)
        self._rule = ClassRule(*rule, linear=linear)
        warn_cut(seen.clipped, seen.clipped_noise, self.radius_, self.center, self.radius)

    # -- sums over several tables, each with noise of its own -----------------------------------

    def _records(self, data: Data) -> tuple:
        """Points, and the places of their labels; for federated runs."""
        return data.arrays

    def _additive_plan(self, facts: dict[str, Any], terms: Terms) -> Plan[ClassSums]:
        """The sums that clients release; for federated runs."""
        if self.classes is None:
            raise PublicValueError(
                "clients do not know each other's labels; pass classes=, the public list of all."
            )
        if self.uncertainty:
            raise PublicValueError(
                "clients release no second moments: pass uncertainty=False, or fit the pooled "
                "records."
            )
        plan = self._plan(facts, terms)
        fit = plan.settings
        if fit.search is not None:
            raise PublicValueError(
                "clients search for no private ball: pass a public center= and radius=, the ball "
                f"that bounds the data; got center={shown(self.center)}, "
                f"radius={shown(self.radius)}."
            )
        fit = dataclasses.replace(fit, vote=Vote(facts["n"], (), 0.0))  # which clients do not ask
        budget, count = fit.begun()
        statistic = fit.sums(fit.ball, count, budget)
        return dataclasses.replace(plan, settings=statistic, releases=budget.releases)

    def _learn(
        self,
        statistic: ClassSums,
        noisy: np.ndarray,
        facts: dict[str, Any],
        n_tables: float = 1,
        kept: float = 1.0,
    ) -> None:
        """Set the learned attributes from noisy sums; `kept` is the share meant to be inside."""
        n, count = facts["n"], statistic.count
        outside, self._rule = statistic.finish(noisy, n_tables)
        self.means_, self.class_counts_ = self._rule.means, self._rule.counts
        self.geometry_, self.classes_ = statistic.fit.geometry, facts["classes"]
        self.center_, self.radius_ = np.asarray(statistic.center), float(statistic.radius)
        self.noise_scale_ = statistic.noise_scale(n, n_tables)
        sigma = math.sqrt(n_tables) * count.sigma / n
        searchable = not statistic.fit.pure and n_tables == 1
        cure = ball_cure(self.center, self.radius, searchable)
        stated = outside / n, sigma, 1.0 - kept, self.radius_, cure
        self.clipped_fraction_ = clipped_share(*stated, statistic.fit.pure)
        if not statistic.fit.vote.ways:
            _warn_together(self._rule)


# Of equal means one in 200 stands out so far.
_SEPARATED = 3.0
# Up to here labels can be right, and the released means tell.
_HOPELESS = 2.0


def _warn_together(rule: ClassRule) -> None:
    """Warn, from released means, when nothing tells them from equal ones."""
    if rule.separation < _SEPARATED:
        warn_user(
            "the released class means differ by no more than their noise may explain, so nothing "
            "here tells whether predict is right more often than one label for all rows would be. "
            "If the classes differ, use more records or a larger epsilon."
        )


def _warn_undecided(way: str) -> None:
    """Warn, from a released vote, that class means do no better than one label."""
    what = (
        "so predict names that class for every row"
        if way == "largest class"
        else "so they may be noise"
    )
    warn_user(
        "class means label hardly more records right than the name of the largest class does (a "
        f"private estimate), {what}. If the classes differ, use more records or a larger epsilon."
    )


def _warn_little_information(fit: ClassReleases, n: int) -> None:
    """Warn, from public numbers, when the noise of a class mean is of the size of the ball."""
    dim, n_classes, grouped = fit.geometry.dim, fit.n_classes, fit.grouped
    # About the mu of the sums, or the epsilon of pure ones.
    rest = fit.total * (fit.remaining if fit.pure else math.sqrt(fit.remaining))
    sigma = 2.0 * (math.sqrt(dim + 3.0) if fit.pure else 1.0) / rest
    noise = sigma * math.sqrt(dim) * (math.sqrt(n_classes) if grouped else n_classes) / n
    if noise > _HOPELESS:
        said = "" if fit.pure else f", n mu = {n * rest:.3g} for the means"
        warn_user(
            f"with n={n} {'people' if grouped else 'records'}{said}, in {n_classes} classes and "
            f"{dim} dimensions, the noise of a class mean is about {noise:.1f} times the radius: "
            "labels may be little better than guesses. Use more records, a larger epsilon or fewer "
            "classes."
        )
