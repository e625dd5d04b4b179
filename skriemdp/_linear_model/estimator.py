"""`PrivateNoisyAdaGrad`: private linear models by adaptive gradient steps that need no tuning."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skriemdp._arrays import ArrayLike, ManifoldLike
from skriemdp._containers import plain
from skriemdp._core.estimator import Data, Plan, PrivateEstimator, Terms
from skriemdp._core.forecast import Expected, ExpectedError
from skriemdp._core.manifold_input import LEAST_SIGNAL, bounds_cure, warn_published_labels
from skriemdp._core.parameters import read_labels
from skriemdp._descent.releases import Evidence
from skriemdp._errors import PublicAttributeError, PublicValueError
from skriemdp._linear_model.fit_plan import (
    CONSTANT,
    GRADIENTS,
    ConstantPlan,
    plan_fit,
    ridge_penalty,
)
from skriemdp._linear_model.glm import (
    CLASSIFICATION,
    LOSSES,
    LinearProblem,
    row_unit,
    scaled_targets,
    unit_rows,
)
from skriemdp._location_scale.row_releases import RowBallEstimate, clipped_fraction
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._mechanisms.units import SeenRows, Units
from skriemdp._quiet import quietly, read_records, read_weights
from skriemdp._validation import check_option
from skriemdp._warnings import warn_user

if TYPE_CHECKING:
    from skriemdp.ledger._accountant import PrivacyAccountant


def way_to(name: str, value: Any) -> str | None:
    """Return the argument that asks for a private bound; None if the bound in use is private."""
    return None if isinstance(value, str) else f"{name}='private'"


class _Line(NamedTuple):
    """Scores of rows at their place: far from zero ``x' coef_ + intercept_`` would lose digits."""

    place: RowBallEstimate
    coef: np.ndarray
    intercept: np.ndarray

    def scores(self, X: Any) -> np.ndarray:
        if issparse(X) and self.place.columns is None:
            return X @ self.coef.T + (self.intercept - self.coef @ self.place.center)
        filled = issparse(X) and self.place.center.any()
        rows = self.place.offsets(X.toarray() if filled else X)
        return np.asarray(rows @ self.coef.T + self.intercept)


def _says_one_label(line: _Line) -> bool:
    """Whether rows within their norm of their centre have the centre's label, most of them surely.

    Of a classifier; a function of released numbers.
    """
    coef, at_center = line.coef, line.intercept
    if len(coef) == 1:
        coef, at_center = np.concatenate([np.zeros_like(coef), coef]), np.append(0.0, at_center)
    first = int(at_center.argmax())
    others = np.arange(len(coef)) != first
    gaps = at_center[first] - at_center[others]
    lengths = np.linalg.norm(coef[first] - coef[others], axis=1)
    # Rows of several columns as long as that hardly ever point along one vector.
    part = 1.0 if coef.shape[1] < 8 else 0.75
    return bool((gaps > part * lengths * line.place.norm).all())


def _is_classifier(estimator: PrivateNoisyAdaGrad) -> bool:
    return estimator.loss in CLASSIFICATION


def _has_scores(estimator: PrivateNoisyAdaGrad) -> bool:
    if not _is_classifier(estimator):
        raise PublicAttributeError("decision_function needs a loss for classification.")
    return True


def _has_probabilities(estimator: PrivateNoisyAdaGrad) -> bool:
    if estimator.loss != "log_loss":
        raise PublicAttributeError("predict_proba needs loss='log_loss'.")
    return True


class PrivateNoisyAdaGrad(PrivateEstimator):
    """Differentially private linear classifier or regressor, trained by noisy AdaGrad.

    Releases an approximate minimiser of the mean loss of ``x' coef + intercept`` plus ``alpha / 2
    |coef|^2``.  Each step adds Gaussian noise to the mean gradient; the steps adapt to the noisy
    gradients themselves, which costs no budget.  Defaults follow a public rule of n, epsilon, delta
    and the number of parameters; nothing has to be tuned on the data.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_error", "huber"}, default="log_loss"
        The first two make a classifier (softmax, or Crammer and Singer's hinge, for more than two
        classes), the others a regressor.
    preconditioner : {"auto", "noised", "diagonal", "norm", "paper", "none"}, default="auto"
        "noised": full matrix of the noisy gradients in the public subspace, less the known second
        moment of the noise, floored at it; for at most 100 dimensions.  "diagonal", "norm": the
        same idea per coordinate, or one number.  "paper": Algorithm 1 of the reference, which pays
        for a private matrix in every step.  "none": DP-GD.
        "auto": "noised" with a subspace; without one "norm", or "diagonal" where n, the budget and
        the number of parameters k say that noise is small (``n mu >= 500 sqrt(k)``).
    manifold : Geometry or pymanopt manifold, optional
        Space of a class's or the regressor's coefficients: ``Euclidean(n_features)``, the default,
        which wraps pymanopt's.  Steps divide by what gradients at different points add up to, in
        one set of axes for all points, and only flat space has one; costs on other manifolds are
        for :class:`skriemdp.PrivateRiemannianERM`.
    center : array-like of shape (n_features,), optional
        Public centre of the rows, which is subtracted from them.  None: found privately if
        `feature_norm` is "private", zero if that is a number; zero too without an intercept and for
        sparse X, which it would fill.
    feature_norm : float or "private", default="private"
        Bound of the Euclidean norm of a row of X less its centre; longer rows are scaled down to
        it, silently.  "private" finds it privately, for 4 to 53 % of ``mu**2`` with the centre, and
        from `public_X`, where there is one, for nothing.  A number must be public.  With "private"
        a classifier of n records and d columns looks at the columns one by one where ``n mu >= 64
        sqrt(d)`` and no public rows or subspace are given (sparse X: of at most 512 columns), and
        divides each by a scale of its own where they come in unlike units; the norm is then that
        of the scaled rows.  A regressor of ``n mu >= 400 sqrt(d)`` also whitens dense rows, where
        nothing else is asked of them (no penalty, ball, subspace, public rows, batches or groups),
        for 15 % of what the search leaves; the norm is then that of whitened rows.
    target_range : tuple of float or "private", default="private"
        Public bounds of a regressor's targets; values outside are clipped, predictions too.
        "private" finds them privately, for 10 to 32 % of ``mu**2``, and from `public_y`, where
        there are any, for nothing.
    classes : array-like, optional
        Public list of a classifier's labels.  Without it the labels that occur in y are published,
        with a warning.  A sorted list of texts also stands for the numbers 0, 1, ... of integer y.
    alpha : float, default=0.0
        L2 penalty of `coef_`, in the units of X (regression: and of the target over half the width
        of its range).
    fit_intercept : bool, default=True
        Learn an intercept, as the coefficient of a constant feature.
    max_norm : float, optional
        Radius of the ball that holds ``(feature_norm * coef, intercept)`` of the scaled rows, where
        the intercept is the score of the centre.  Iterates are projected on it in the metric of the
        preconditioner.
    subspace : ndarray of shape (n_features, k), callable, or int, optional
        Public subspace that holds the useful gradients: a basis; a function of the step t = 1, 2,
        ... that gives one; or k, for the leading right singular vectors of `public_X`.  Gradients
        are projected on it before noise is added, and the intercept keeps an axis of its own.
    public_X : array-like of shape (m, n_features), optional
        Public rows, not part of X.
    public_y : array-like of shape (m,), optional
        Their targets.  Training starts from the minimiser on these rows, `public_baseline_`.
    clip_norm : float, sequence of float or callable, optional
        Bound of the norm of a record's gradient in units of scaled rows (norm at most 1): one
        number, one per step, or a function of the step t = 1, 2, ...; public.  By default what no
        gradient exceeds where all scores are zero ("log_loss": 1/2 for two classes, ``sqrt(1 -
        1/k)`` for k), the loss's own bound ("hinge": 1, or sqrt(2); "huber": 1/2), and 1 for
        "squared_error", which has none; with groups, whose mean gradients are short, an eighth of
        the loss's own bound.  "log_loss" has the bound 1, or sqrt(2); where noise is small, "auto"
        and "diagonal" take three quarters of it.
    n_steps : int, optional
        Public rule by default.
    step_size : float, optional
        Public rule by default, with which steps of "noised" grow as the released iterates move.
    batch_size : float, optional
        Expected size of Poisson-sampled batches; all records in every step by default.
    epsilon, delta, accountant, random_state
        As in :class:`skriemdp.PrivateFrechetMean`; delta must be positive.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features), (n_classes, n_features), or (n_features,)
        For two classes, more, and regression.
    intercept_ : ndarray of shape (1,) or (n_classes,), or float
    classes_ : ndarray
        Classifiers only.
    center_ : ndarray of shape (n_features,)
    feature_norm_ : float
        Centre and norm, given or found; the norm is that of the scaled rows.
    feature_scale_, feature_limit_ : ndarray of shape (n_features,)
        What columns less `center_` are divided by, and how far from it a number may lie: what lies
        farther counts as if it lay there, in `predict` too, which takes differences from `center_`
        first; ``X @ coef_.T + intercept_`` does neither, and far from zero loses digits.  Ones and
        infinity where nothing was asked.
    target_range_ : tuple of float
        Regressors only: bounds of the targets, given or found.
    clipped_fraction_ : float
        Private estimate, for 1 % of ``mu**2``, of the share of rows that were scaled down, or whose
        targets were clipped.
    preconditioner_ : str
        What "auto" chose.
    preconditioner_spectrum_ : ndarray
        Eigenvalues of the last preconditioner, decreasing.
    preconditioner_floor_ : float
        What noise alone would add up to in them.
    subspace_ : ndarray of shape (n_features, k)
        When the subspace was fixed: its orthonormal basis.
    noise_scale_ : float
        Standard deviation of the noise per coordinate of the last mean gradient, scaled rows.
    n_iter_ : int
    step_size_ : float
        The longest allowed.
    is_constant_ : bool
        Regressors only: whether `predict` says the same for all rows, the mean of the targets, with
        all of the budget.  So does a fit that has to find the range of the targets where ``n mu <
        36``, n, epsilon and delta public: it then asks nothing about the rows, and a model would be
        worse.
    public_baseline_ : PrivateNoisyAdaGrad or None
        The model fitted to the public rows alone; compare it with this one on public or test rows,
        because at small epsilon it often wins.
    privacy_spent_ : PrivacySpent
    n_features_in_ : int
    feature_names_in_ : ndarray
        When X had feature names.

    Notes
    -----
    *Guarantee*: (epsilon, delta)-DP under replacement of one record (row and target), or of all
    records of one group (docs/theory/groups.md), n, their number, and the class list public;
    exactly Gaussian for full batches, exact composition of Poisson-sampled Gaussian mechanisms with
    the search otherwise.  Public inputs must not be computed from X or y.
    There are no class or sample weights.  `predict` and `score` depend on the rows they are given.

    Use ``cv=KFold(5)`` in searches and cross-validation: folds stratified by the labels are chosen
    by the data, which the ledger's total does not allow.

    References
    ----------
    Kairouz, Ribero, Rush, Thakurta (2021), "(Nearly) dimension independent private ERM with AdaGrad
    rates via publicly estimated subspaces", Algorithms 1 and 3.  Its sensitivity of the matrix is
    too small by ``2 sqrt(2)``; ours is proved in docs/theory/adagrad.md.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivateNoisyAdaGrad
    >>> rng = np.random.default_rng(0)
    >>> X = 170.0 + 10.0 * rng.normal(size=(2000, 3))
    >>> y = X[:, 0] + rng.normal(size=2000) > 170.0
    >>> model = PrivateNoisyAdaGrad(classes=[False, True], epsilon=1.0).fit(X, y)
    >>> model.coef_.shape
    (1, 3)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    __metadata_request__fit = {"groups": True}

    def __init__(
        self,
        loss: Literal["log_loss", "hinge", "squared_error", "huber"] = "log_loss",
        preconditioner: Literal["auto", "noised", "diagonal", "norm", "paper", "none"] = "auto",
        *,
        manifold: ManifoldLike | None = None,
        center: ArrayLike | None = None,
        feature_norm: float | Literal["private"] = "private",
        target_range: tuple[float, float] | Literal["private"] = "private",
        classes: Iterable[Any] | None = None,
        alpha: float = 0.0,
        fit_intercept: bool = True,
        max_norm: float | None = None,
        subspace: ArrayLike | Callable[..., np.ndarray] | None = None,
        public_X: ArrayLike | None = None,
        public_y: ArrayLike | None = None,
        clip_norm: float | Sequence[float] | Callable[..., float] | None = None,
        n_steps: int | None = None,
        step_size: float | None = None,
        batch_size: int | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
    ):
        self.loss = loss
        self.preconditioner = preconditioner
        self.manifold = manifold
        self.center = center
        self.feature_norm = feature_norm
        self.target_range = target_range
        self.classes = classes
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_norm = max_norm
        self.subspace = subspace
        self.public_X = public_X
        self.public_y = public_y
        self.clip_norm = clip_norm
        self.n_steps = n_steps
        self.step_size = step_size
        self.batch_size = batch_size
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state

    # -- scikit-learn ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, groups: Any = None) -> PrivateNoisyAdaGrad:
        """Train on the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
        y : array-like of shape (n,)
        groups : array-like of shape (n,), optional
            Who owns each row.  Then an owner's gradient is the mean of own rows' gradients, clipped
            after averaging.  All rows of one owner and their number are protected together; n, and
            what `batch_size` counts, is the number of owners.

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

    @available_if(_has_scores)
    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Linear scores: ``(n,)`` for two classes (positive: the second), else one per class."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, shape ``(n, n_classes)``."""
        scores = self._scores(X)
        if scores.shape[1] > 1:
            return softmax(scores, axis=1)
        positive = expit(scores[:, 0])
        return np.stack([1.0 - positive, positive], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """Labels, or target values clipped to `target_range`; shape ``(n,)``."""
        scores = self._scores(X)
        if not _is_classifier(self):
            return np.clip(scores[:, 0], *self.target_range_)
        if scores.shape[1] == 1:
            return self.classes_[(scores[:, 0] > 0).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

    def score(self, X: np.ndarray, y: Any, sample_weight: np.ndarray | None = None) -> float:
        """Accuracy of a classifier, R^2 of a regressor; not private.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        float
        """
        from sklearn.metrics import accuracy_score, r2_score  # half as long to load as to fit

        predicted, classifier = self.predict(X), _is_classifier(self)
        if sample_weight is not None:
            sample_weight = read_weights(sample_weight, len(predicted))
        measure = accuracy_score if classifier else r2_score
        return quietly(
            lambda y: measure(plain(y, "y"), predicted, sample_weight=sample_weight),
            y,
            names=("y",),
            labels=classifier,
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        # A private model of a handful of records is mostly noise.
        if _is_classifier(self):
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(poor_score=True)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags(poor_score=True)
        return tags

    # -- the order of work ----------------------------------------------------------------------

    def _validate(self, X: Any, y: Any = None) -> Data:
        check_option(LOSSES, loss=self.loss)
        regression = not _is_classifier(self)
        X, y = read_records(
            self,
            X,
            y,
            labels=not regression,
            accept_sparse="csr",
            dtype=np.float64,
            ensure_min_samples=2,
            y_numeric=regression,
        )
        facts = {"n": X.shape[0], "p": X.shape[1], "classes": None, "sparse": issparse(X)}
        if not regression:
            classes, y = read_labels(self.classes, y)
            warn_published_labels(self.classes)
            if len(classes) < 2:
                raise PublicValueError(
                    f"classes must have at least two labels; got one class in "
                    f"{'y' if self.classes is None else 'classes'}."
                )
            facts["classes"] = classes
        return Data((X, np.asarray(y, dtype=float)), facts)

    def _plan(self, facts: dict[str, Any], terms: Terms) -> Plan:
        return plan_fit(self, facts)

    def _expected(self, plan: Plan, facts: dict[str, Any], spread: Any) -> Expected:
        settings, n = plan.settings, facts["n"]
        if isinstance(settings, ConstantPlan):
            noise = settings.mean.sigma(settings.usual_mu)
            what = "x half the width of the range of the targets (their mean)"
            return Expected("one constant, gaussian noise", (ExpectedError("noise", noise, what),))
        solver = settings.solver
        if not settings.sampled:
            solver = solver.with_mu(settings.usual_mu)
        name = f"{solver.n_steps} steps of {solver.preconditioner!r}, gaussian noise"
        unit = "x the bound of a row's norm (coordinate of a step's mean gradient)"
        error = ExpectedError("noise", solver.noise_of_last(settings.start.shape, n), unit)
        if settings.sampled or solver.basis_at is not None:
            return Expected(name, (error,))
        signal = n * settings.usual_mu / math.sqrt(settings.start.size)
        worth = "a model then says more than one answer for all rows"
        return Expected(name, (error,), LEAST_SIGNAL / signal, worth)

    def _gaussian_choice(self) -> str:
        return "batch_size=None"

    def _ways_to_bounds(self) -> dict[str, str | None]:
        """Return, for each bound of rows, the argument that asks for a private one."""
        found = {"feature_norm": way_to("feature_norm", self.feature_norm)}
        if found["feature_norm"] and self.center is not None:
            return {"center": "center=None", **found}
        return found

    def _release(self, data: Data, plan: Plan, streams: Any) -> None:
        (X, targets), settings, groups = data.arrays, plan.settings, data.groups
        if isinstance(settings, ConstantPlan):
            budget = GaussianBudget(settings.targets.mu, plan.releases)
            self._release_constant(data, settings, budget, streams)
            return
        # A sampled run has an event of its own.
        planned = plan.releases[:-1] if settings.sampled else plan.releases
        budget = GaussianBudget(settings.bounds.mu, planned)
        place, beyond = settings.bounds.release(Units((X,), groups), budget, streams)
        expected_fraction, where = 1.0 - place.level, ""
        found = self._ways_to_bounds()
        if settings.targets is not None:
            targets, missed, outside = self._release_targets(data, settings, budget, streams)
            beyond, expected_fraction = beyond | missed, expected_fraction + outside
            where = ", or their targets out of range,"
            found["target_range"] = way_to("target_range", self.target_range)
            self.is_constant_ = False
        solver, basis, intercept = settings.solver, settings.basis, bool(self.fit_intercept)
        self.clipped_fraction_ = clipped_fraction(
            int(np.count_nonzero(beyond)),
            data.facts["n"],
            expected_fraction,
            f"lie farther than {place.norm:.3g} from their center{where} and were scaled down; "
            + bounds_cure(**found),
            budget,
            streams,
        )
        if not settings.sampled:
            solver = solver.with_mu(budget.rest(GRADIENTS))
        unit = row_unit(intercept)

        def seen(rows: Any) -> Any:
            return unit_rows(place.seen(rows), place.norm, intercept)

        rows: Any = SeenRows(X, seen, X.shape[1] + intercept)
        if issparse(X) or groups is not None or basis is not None or solver.basis_at is not None:
            rows = rows[:]  # others are read once, to be rounded
        problem = LinearProblem(rows, targets, settings.loss, groups).in_basis(basis)
        lengths = place.norm if place.columns is None else place.norm * place.columns.scale
        penalty = ridge_penalty(self.alpha, lengths, unit, problem.rows.shape[1], intercept)
        weights, spectrum, floor, noise, evidence = solver.solve(
            problem, penalty, settings.start, streams, intercept
        )
        if evidence < Evidence.HIDDEN:
            warn_user(
                "the gradients of the coefficients never stood out of their noise: this model may "
                f"be no better than {self._alternative()}. Use more records, a larger epsilon or "
                "fewer features."
            )
        self.center_, self.feature_norm_ = place.center, place.norm
        classes = data.facts["classes"]
        self._learn(weights, basis, unit, place, classes)
        if classes is not None and evidence >= Evidence.HIDDEN and _says_one_label(self._line):
            warn_user(
                "scores hardly vary beside those at the center of the rows: this model gives one "
                "label to all, or nearly all, rows. A rare class, or columns in unlike units, hide "
                "what tells the classes apart: divide columns by public numbers of their size, or "
                "use more records or a larger epsilon."
            )
        self.preconditioner_ = solver.preconditioner
        self.preconditioner_spectrum_, self.preconditioner_floor_ = spectrum, floor
        self.noise_scale_ = noise
        self.n_iter_, self.step_size_ = solver.n_steps, solver.step_size
        if basis is not None:
            self.subspace_ = basis[: X.shape[1], : basis.shape[1] - bool(self.fit_intercept)]
        self.public_baseline_ = None
        if settings.public_weights is not None:
            baseline = clone(self)
            baseline.n_features_in_ = self.n_features_in_
            if classes is None:
                baseline.target_range_ = self.target_range_
            if hasattr(self, "feature_names_in_"):
                baseline.feature_names_in_ = self.feature_names_in_
            baseline._learn(settings.public_weights, basis, unit, place, classes)
            self.public_baseline_ = baseline

    def _release_targets(
        self, data: Data, settings: Any, budget: GaussianBudget, streams: Any
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Targets scaled to [-1, 1], which were clipped, and the share that was meant to be.

        Sets `target_range_`.
        """
        targets = data.arrays[1]
        own: Any = functools.partial(streams, "targets")
        records = Units((targets[:, None],), data.groups)
        within, missed = settings.targets.release(records, budget, own)
        (middle,) = within.center
        # Far from zero neighbouring floats may be farther apart than that.
        half = max(within.norm, 2.0 * np.spacing(abs(middle)))
        self.target_range_ = float(middle - half), float(middle + half)
        return scaled_targets(targets, *self.target_range_), missed, 1.0 - within.level

    def _release_constant(
        self, data: Data, settings: Any, budget: GaussianBudget, streams: Any
    ) -> None:
        """The mean of the targets; of the rows nothing is asked."""
        targets, missed, outside = self._release_targets(data, settings, budget, streams)
        self.clipped_fraction_ = clipped_fraction(
            int(np.count_nonzero(missed)),
            data.facts["n"],
            outside,
            f"have targets out of range and were clipped; {bounds_cure(target_range=None)}",
            budget,
            streams,
        )
        mu, rng = budget.rest(CONSTANT), streams("constant")
        mean = settings.mean.release(Units((targets,), data.groups), mu, rng)
        p = data.facts["p"]
        place = RowBallEstimate(np.zeros(p), 1.0)  # nobody asked where the rows are
        self._set_line(np.zeros((1, p)), np.array([mean]), place, None)
        self.is_constant_, self.noise_scale_ = True, settings.mean.sigma(mu)
        self.center_, self.feature_norm_ = place.center, place.norm
        self.preconditioner_, self.preconditioner_spectrum_ = settings.preconditioner, np.zeros(0)
        self.preconditioner_floor_, self.n_iter_, self.step_size_ = 0.0, 0, 0.0
        self.public_baseline_ = None

    def _alternative(self) -> str:
        """Name the model that a fit falls back to if it learned nothing."""
        if self.public_y is not None:
            return "the model of the public rows, public_baseline_"
        return "one label for all rows" if _is_classifier(self) else "a constant"

    def _learn(
        self,
        weights: np.ndarray,
        basis: np.ndarray | None,
        unit: float,
        place: RowBallEstimate,
        classes: np.ndarray | None,
    ) -> None:
        """Set the coefficients, in the units of X and y, from weights of scaled rows."""
        if basis is not None:
            weights = basis @ weights
        intercept = np.zeros(weights.shape[1])
        if self.fit_intercept:
            weights, intercept = weights[:-1], weights[-1] * unit
        coef = place.of_offsets(weights.T * (unit / place.norm))
        self._set_line(coef, intercept, place, classes)

    def _set_line(
        self,
        coef: np.ndarray,
        intercept: np.ndarray,
        place: RowBallEstimate,
        classes: np.ndarray | None,
    ) -> None:
        """Set the coefficients from those of scaled targets and rows at their place."""
        if classes is None:
            low, high = self.target_range_
            half = 0.5 * (high - low)
            coef, intercept = coef * half, intercept * half + 0.5 * (low + high)
        self._line = _Line(place, coef, intercept)
        self.feature_scale_ = np.ones(coef.shape[1])
        self.feature_limit_ = np.full(coef.shape[1], np.inf)
        if place.columns is not None:
            self.feature_scale_, self.feature_limit_ = place.columns.scale, place.columns.limit
        coef = coef / self.feature_scale_
        intercept = intercept - coef @ place.center
        self.coef_, self.intercept_ = coef, intercept
        if classes is None:
            self.coef_, self.intercept_ = coef[0], intercept[0].item()
        else:
            self.classes_ = classes

    def _scores(self, X: Any) -> Any:
        check_is_fitted(self, "coef_")
        X = read_records(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return self._line.scores(X)
