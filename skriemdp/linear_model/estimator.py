"""`PrivateNoisyAdaGrad`: private linear models by adaptive gradient steps that need no tuning."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skriemdp._quiet import quietly, read_array, read_records, read_weights
from skriemdp._validation import (
    check_count,
    check_fraction,
    check_nonnegative,
    check_option,
    check_positive,
    check_scale,
    shown,
)
from skriemdp.core.arithmetic import chooses_integers, draws_dominate
from skriemdp.core.estimator import Data, Plan, PrivateEstimator
from skriemdp.core.manifold_input import warn_large_delta, warn_published_labels
from skriemdp.core.parameters import label_list
from skriemdp.core.work import Work
from skriemdp.descent.progress import ProgressBar
from skriemdp.descent.sampling import FullBatch, PoissonSampler
from skriemdp.descent.stochastic import NOISE_BRACKET
from skriemdp.linear_model.adagrad import OUTPUTS, NoisyAdaGrad
from skriemdp.linear_model.glm import (
    CLASSIFICATION,
    LOSSES,
    GeneralizedLinearLoss,
    LinearProblem,
    LinearRows,
)
from skriemdp.linear_model.planning import (
    FULL_MATRIX_LIMIT,
    default_steps,
    envelope,
    orthonormal_basis,
    public_curvature,
    public_minimizer,
)
from skriemdp.privacy.calibration import calibrate, gaussian_mu

__all__ = ["PrivateNoisyAdaGrad"]

PRECONDITIONERS = ("auto", "noised", "diagonal", "norm", "paper", "public", "none")
_FULL = ("noised", "paper", "public")
# Where "huber" turns linear, over half the width of `target_range`.
_HUBER_THRESHOLD = 0.5


def _is_classifier(estimator) -> bool:
    return estimator.loss in CLASSIFICATION


def _has_scores(estimator):
    if not _is_classifier(estimator):
        raise AttributeError("decision_function needs a loss for classification.")
    return True


def _has_probabilities(estimator):
    if estimator.loss != "log_loss":
        raise AttributeError("predict_proba needs loss='log_loss'.")
    return True


@dataclasses.dataclass(frozen=True, eq=False)
class _Settings:
    solver: NoisyAdaGrad
    loss: GeneralizedLinearLoss
    start: np.ndarray
    basis: np.ndarray | None
    preconditioner: str
    public_weights: np.ndarray | None


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
    preconditioner : {"auto", "noised", "diagonal", "norm", "paper", "public", "none"}, \
default="auto"
        "noised": full matrix of the noisy gradients in the public subspace, less the known second
        moment of the noise, floored at it; for at most 100 dimensions.  "diagonal", "norm": the
        same idea per coordinate, or one number.  "public": curvature of `public_X`.  "paper":
        Algorithm 1 of the reference, which pays for a private matrix in every step.  "none": DP-GD.
        "auto": "noised" with a subspace, "norm" without.
    feature_norm : float, default=1.0
        Public bound of the Euclidean norm of a row of X.  Longer rows are scaled down to it,
        silently.
    target_range : tuple of float, default=(-1.0, 1.0)
        Public bounds of a regressor's targets; values outside are clipped, predictions too.
    classes : array-like, optional
        Public list of a classifier's labels.  Without it the labels that occur in y are published,
        with a warning.
    alpha : float, default=0.0
        L2 penalty of `coef_`, in the units of X (regression: and of the target over half the width
        of its range).
    fit_intercept : bool, default=True
        Learn an intercept, as the coefficient of a constant feature.
    max_norm : float, optional
        Radius of the ball that holds ``(feature_norm * coef, intercept)``.  Iterates are projected
        on it in the metric of the preconditioner.
    subspace : ndarray of shape (n_features, k), callable, or int, optional
        Public subspace that holds the useful gradients: a basis; a function of the step t = 1, 2,
        ... that gives one; or k, for the leading right singular vectors of `public_X`.  Gradients
        are projected on it before noise is added, and the intercept keeps an axis of its own.
    public_X : array-like of shape (m, n_features), optional
        Public rows, not part of X.
    public_y : array-like of shape (m,), optional
        Their targets, for a public start and `public_baseline_`.
    start : {"auto", "zero", "public"}, default="auto"
        "public" starts from the minimiser on the public rows; "auto" does so if there are targets.
    clip_norm : float, sequence of float or callable, optional
        Bound of the norm of a record's gradient in units of scaled rows (norm at most 1): one
        number, one per step, or a function of the step t = 1, 2, ...; public.  By default the
        loss's own bound (1 for two classes, sqrt(2) for more, 1/2 for "huber"), and 1 for
        "squared_error", which has none.
    n_steps : int, optional
        Public rule by default.
    step_size : float, optional
        Public rule by default, with which steps of "noised" grow as the released iterates move.
    batch_size : float, optional
        Expected size of Poisson-sampled batches; all records in every step by default.
    moment_share : float, default=0.2
        Share of ``mu**2`` that "paper" spends on its matrices.
    output : {"second-half", "average", "last"}, default="second-half"
        Which iterates are averaged.
    epsilon, delta, accountant, random_state, verbose
        As in :class:`skriemdp.PrivateFrechetMean`; delta must be positive.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features), (n_classes, n_features), or (n_features,)
        For two classes, more, and regression.
    intercept_ : ndarray of shape (1,) or (n_classes,), or float
    classes_ : ndarray
        Classifiers only.
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
    public_baseline_ : PrivateNoisyAdaGrad or None
        The model fitted to the public rows alone; compare it with this one on public or test rows,
        because at small epsilon it often wins.
    privacy_spent_ : PrivacySpent
    n_features_in_ : int
    feature_names_in_ : ndarray
        When X had feature names.

    Notes
    -----
    *Guarantee*: (epsilon, delta)-DP under replacement of one record (row and target), n and the
    class list public; exactly Gaussian for full batches, exact composition of Poisson-sampled
    Gaussian mechanisms otherwise.  Public inputs must not be computed from X or y.  There are no
    class or sample weights.  `predict` and `score` depend on the rows they are given.

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
    >>> X = rng.normal(size=(2000, 3)) / 3
    >>> y = X[:, 0] + 0.1 * rng.normal(size=2000) > 0
    >>> model = PrivateNoisyAdaGrad(classes=[False, True], epsilon=1.0).fit(X, y)
    >>> model.coef_.shape
    (1, 3)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    def __init__(
        self,
        loss="log_loss",
        preconditioner="auto",
        *,
        feature_norm=1.0,
        target_range=(-1.0, 1.0),
        classes=None,
        alpha=0.0,
        fit_intercept=True,
        max_norm=None,
        subspace=None,
        public_X=None,
        public_y=None,
        start="auto",
        clip_norm=None,
        n_steps=None,
        step_size=None,
        batch_size=None,
        moment_share=0.2,
        output="second-half",
        epsilon=1.0,
        delta=1e-5,
        accountant=None,
        random_state=None,
        verbose=0,
    ):
        self.loss = loss
        self.preconditioner = preconditioner
        self.feature_norm = feature_norm
        self.target_range = target_range
        self.classes = classes
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_norm = max_norm
        self.subspace = subspace
        self.public_X = public_X
        self.public_y = public_y
        self.start = start
        self.clip_norm = clip_norm
        self.n_steps = n_steps
        self.step_size = step_size
        self.batch_size = batch_size
        self.moment_share = moment_share
        self.output = output
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    # -- scikit-learn ---------------------------------------------------------------------------

    def fit(self, X, y):
        """Train on the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
        y : array-like of shape (n,)

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

    @available_if(_has_scores)
    def decision_function(self, X):
        """Linear scores: ``(n,)`` for two classes (positive: the second), else one per class."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Probabilities of the classes, shape ``(n, n_classes)``."""
        scores = self._scores(X)
        if scores.shape[1] > 1:
            return softmax(scores, axis=1)
        positive = expit(scores[:, 0])
        return np.stack([1.0 - positive, positive], axis=1)

    def predict(self, X):
        """Labels, or target values clipped to `target_range`; shape ``(n,)``."""
        scores = self._scores(X)
        if not _is_classifier(self):
            return np.clip(scores[:, 0], *self.target_range)
        if scores.shape[1] == 1:
            return self.classes_[(scores[:, 0] > 0).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

    def score(self, X, y, sample_weight=None):
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
        predicted, classifier = self.predict(X), _is_classifier(self)
        if sample_weight is not None:
            sample_weight = read_weights(sample_weight, len(predicted))
        measure = accuracy_score if classifier else r2_score
        return quietly(
            lambda y: measure(y, predicted, sample_weight=sample_weight),
            y,
            names=("y",),
            labels=classifier,
        )

    def __sklearn_tags__(self):
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

    def _validate(self, X, y=None):
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
        facts = {"n": X.shape[0], "p": X.shape[1], "classes": None}
        if not regression:
            warn_published_labels(self.classes)
            classes = label_list(self.classes, y)
            if len(classes) < 2:
                raise ValueError(
                    f"classes must have at least two labels; got one class in "
                    f"{'y' if self.classes is None else 'classes'}."
                )
            facts["classes"] = classes
        return Data((X, self._targets(y, facts["classes"], "y")), facts)

    def _targets(self, y, classes, name):
        """Targets as the losses want them: class numbers, or reals scaled to [-1, 1]."""
        if classes is None:
            low, high = self._range()
            y = np.clip(np.asarray(y, dtype=float), low, high)
            return (y - 0.5 * (low + high)) / (0.5 * (high - low))
        if not np.isin(y, classes).all():
            raise ValueError(f"{name} has labels that are not in classes; list every label.")
        return np.searchsorted(classes, y).astype(float)

    def _range(self):
        try:
            low, high = (float(v) for v in self.target_range)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(
                f"target_range must be a pair of numbers, got {shown(self.target_range)}."
            ) from None
        if not (abs(low) <= 1e100 and abs(high) <= 1e100 and high - low >= 1e-100):
            raise ValueError(
                f"target_range must be increasing numbers up to 1e100, got {(low, high)!r}."
            )
        return low, high

    def _plan(self, facts, terms):
        n, p, classes = facts["n"], facts["p"], facts["classes"]
        self._check_parameters(n)
        warn_large_delta(self.delta, n)
        n_outputs = 1 if classes is None or len(classes) == 2 else len(classes)
        loss = GeneralizedLinearLoss(self.loss, n_outputs, _HUBER_THRESHOLD)
        work = self._work(n, p, n_outputs)
        public = self._public_problem(p, classes, loss)
        mu = gaussian_mu(self.epsilon, self.delta)
        intercept = bool(self.fit_intercept)
        moving = callable(self.subspace)
        basis, bases, size = None, None, p + intercept
        if moving:
            width = orthonormal_basis(self.subspace(1), p, intercept).shape[1]
        elif self.subspace is not None:
            rows = None if public is None else public.rows
            basis = orthonormal_basis(self.subspace, p, intercept, rows)
            size = width = basis.shape[1]
        else:
            width = size
        name = self.preconditioner
        if name == "auto":
            name = "norm" if self.subspace is None else "noised"
        self._check_preconditioner(name, width, moving, public)
        warm = self.public_y is not None and self.start != "zero"
        n_steps, step_size, first_step_size = default_steps(name, n, width, mu, loss, warm)
        if self.batch_size is not None:
            # The steps of sampled runs come from public sizes alone, so that a smaller epsilon
            # never buys more of them and never costs a ledger more.
            n_steps, _, _ = default_steps(name, n, width, 1.0, loss, warm)
        n_steps = n_steps if self.n_steps is None else int(self.n_steps)
        if self.step_size is not None:
            step_size, first_step_size = float(self.step_size), None
        if moving:
            steps = range(1, n_steps + 1)
            bases = [orthonormal_basis(self.subspace(t), p, intercept) for t in steps]
        penalty = self._penalty(size)
        curvature = None
        if name == "public":
            curvature = public_curvature(public, basis, penalty)
        unit = LinearRows(np.zeros((1, p)), 1.0, bool(self.fit_intercept)).unit
        settings = {
            "n_steps": n_steps,
            "step_size": step_size,
            "first_step_size": first_step_size,
            "clip_norms": envelope(self.clip_norm, n_steps, loss.residual_bound),
            "preconditioner": name,
            "curvature": curvature,
            "penalty": penalty,
            "max_norm": None if self.max_norm is None else float(self.max_norm) / unit,
            "output": self.output,
            "basis_at": None if bases is None else (lambda step: bases[step - 1]),
        }
        solver = self._calibrated(n, mu, settings)
        exact = self._adds_integers(solver, n, width, n_outputs)
        solver = dataclasses.replace(solver, exact=exact)
        start = np.zeros((size, n_outputs))
        public_weights = None
        if public is not None and public.targets is not None:
            inside = public
            if basis is not None:
                inside = dataclasses.replace(public, rows=public.rows.in_basis(basis))
            public_weights = public_minimizer(inside, penalty)
            if warm:
                start = public_weights
        if solver.max_norm is not None:
            start = start * min(1.0, solver.max_norm / max(np.linalg.norm(start), 1e-300))
        return Plan(
            event=solver.event(n),
            settings=_Settings(solver, loss, start, basis, name, public_weights),
            public=self._public_facts(facts),
            work=work,
            exact=exact,
        )

    def _adds_integers(self, solver, n, width, n_outputs):
        return chooses_integers(
            self.batch_size is None and solver.preconditioner != "paper",
            lambda: solver.factors(width, n_outputs),
            "batch_size=None and a preconditioner other than 'paper'",
            costly=draws_dominate(n, width * n_outputs),
        )

    def _work(self, n, p, n_outputs):
        """Memory and steps; refused already here, because public rows are worked on in planning."""
        steps = 1 if self.n_steps is None else int(self.n_steps)
        entries, cause = 6.0 * p * n_outputs + 3.0 * n * n_outputs, "the number of classes"
        if self.public_X is not None:
            entries += 3.0 * p * p
            cause = f"the {p} x {p} matrices of public_X"
        if callable(self.subspace):
            shape = np.shape(self.subspace(1))
            entries += steps * float(math.prod(shape))
            cause = "a basis per step of a callable subspace"
        return Work(8.0 * entries, steps, cause).check()

    def _public_facts(self, facts):
        public = {"n": facts["n"], "feature_norm": float(self.feature_norm)}
        if facts["classes"] is None:
            public["target_range"] = self._range()
        else:
            public["classes"] = facts["classes"]
        if self.subspace is not None:
            public["subspace"] = "given"
        if self.public_X is not None:
            public["public_X"] = "given"
        return public

    def _gaussian_choice(self):
        return "batch_size=None"

    def _check_parameters(self, n):
        check_fraction(delta=self.delta, moment_share=self.moment_share)
        check_option(PRECONDITIONERS, preconditioner=self.preconditioner)
        check_option(OUTPUTS, output=self.output)
        check_option(("auto", "zero", "public"), start=self.start)
        check_scale(feature_norm=self.feature_norm)
        check_nonnegative(alpha=self.alpha)
        for name in ("max_norm", "step_size", "batch_size"):
            if getattr(self, name) is not None:
                check_positive(**{name: getattr(self, name)})
        if self.n_steps is not None:
            check_count(n_steps=self.n_steps)
        if self.start == "public" and self.public_y is None:
            raise ValueError("start='public' needs public_X and public_y.")
        if self.batch_size is not None and self.batch_size > n:
            raise ValueError(f"batch_size={self.batch_size} exceeds the number of rows n={n}.")

    def _check_preconditioner(self, name, width, moving, public):
        if name in _FULL and width > FULL_MATRIX_LIMIT:
            raise ValueError(
                f"preconditioner={name!r} works with a matrix of size {width}, more than "
                f"{FULL_MATRIX_LIMIT}; pass a public subspace, or preconditioner='diagonal'."
            )
        if name == "public" and public is None:
            raise ValueError("preconditioner='public' needs public_X.")
        if name in ("diagonal", "public") and moving:
            raise ValueError(
                f"preconditioner={name!r} belongs to fixed axes; with a callable subspace use "
                "'noised', 'norm', 'paper' or 'none'."
            )

    def _public_problem(self, p, classes, loss):
        if self.public_X is None:
            if self.public_y is not None:
                raise ValueError("public_y was given without public_X.")
            return None
        X = read_array(self.public_X, "public_X", accept_sparse="csr", dtype=np.float64)
        if X.shape[1] != p:
            raise ValueError(f"public_X has {X.shape[1]} columns, X has {p}.")
        targets = None
        if self.public_y is not None:
            y = np.asarray(self.public_y)
            if y.shape != (X.shape[0],):
                raise ValueError(f"public_y has shape {y.shape}, expected {(X.shape[0],)}.")
            targets = self._targets(y, classes, "public_y")
        rows = LinearRows(X, float(self.feature_norm), bool(self.fit_intercept))
        return LinearProblem(rows, targets, loss)

    def _penalty(self, size):
        """Ridge per scaled weight; the intercept, the last one, pays none."""
        unit = LinearRows(np.zeros((1, 1)), 1.0, bool(self.fit_intercept)).unit
        ridge = float(self.alpha) * (unit / float(self.feature_norm)) ** 2
        if not ridge <= 1e100:
            raise ValueError(
                f"alpha={self.alpha!r} is {ridge:.3g} for rows of norm one, above 1e100; pass a "
                "smaller alpha."
            )
        penalty = np.full((size, 1), ridge)
        if self.fit_intercept:
            penalty[-1] = 0.0
        return penalty

    def _calibrated(self, n, mu, settings):
        steps = settings["n_steps"]
        if self.batch_size is not None and self.batch_size < n:
            sampler = PoissonSampler(float(self.batch_size))
            noise = calibrate(
                lambda noise: sampler.event(n, noise, steps),
                self.epsilon,
                self.delta,
                NOISE_BRACKET,
            )
            return NoisyAdaGrad(sampler=sampler, noise_multiplier=noise, **settings)
        share, moment = 1.0, None
        if settings["preconditioner"] == "paper":
            share = 1.0 - self.moment_share
            moment = math.sqrt(steps / self.moment_share) / mu
        return NoisyAdaGrad(
            sampler=FullBatch(),
            noise_multiplier=math.sqrt(steps / share) / mu,
            moment_multiplier=moment,
            **settings,
        )

    def _release(self, data, plan, streams):
        (X, targets), settings = data.arrays, plan.settings
        solver, basis = settings.solver, settings.basis
        rows = LinearRows(X, float(self.feature_norm), bool(self.fit_intercept))
        unit = rows.unit
        if basis is not None:
            rows = rows.in_basis(basis)
        problem = LinearProblem(rows, targets, settings.loss)
        progress = None
        if self.verbose:
            progress = ProgressBar(type(self).__name__, self.epsilon, self.delta)
        weights, spectrum, floor = solver.solve(problem, settings.start, streams, progress)
        classes = data.facts["classes"]
        self._learn(weights, basis, unit, classes)
        self.preconditioner_ = settings.preconditioner
        self.preconditioner_spectrum_, self.preconditioner_floor_ = spectrum, floor
        self.noise_scale_ = solver.noise(problem.n, solver.n_steps)
        self.n_iter_, self.step_size_ = solver.n_steps, solver.step_size
        if basis is not None:
            self.subspace_ = basis[: X.shape[1], : basis.shape[1] - bool(self.fit_intercept)]
        self.public_baseline_ = None
        if settings.public_weights is not None:
            baseline = clone(self)
            baseline.n_features_in_ = self.n_features_in_
            if hasattr(self, "feature_names_in_"):
                baseline.feature_names_in_ = self.feature_names_in_
            baseline._learn(settings.public_weights, basis, unit, classes)
            self.public_baseline_ = baseline

    def _learn(self, weights, basis, unit, classes):
        """Set the coefficients, in the units of X and y, from weights of scaled rows."""
        if basis is not None:
            weights = basis @ weights
        intercept = np.zeros(weights.shape[1])
        if self.fit_intercept:
            weights, intercept = weights[:-1], weights[-1] * unit
        coef = weights.T * (unit / self.feature_norm)
        if classes is not None:
            self.classes_, self.coef_, self.intercept_ = classes, coef, intercept
            return
        low, high = self._range()
        half = 0.5 * (high - low)
        self.coef_ = coef[0] * half
        self.intercept_ = float(intercept[0] * half + 0.5 * (low + high))

    def _scores(self, X) -> Any:
        check_is_fitted(self, "coef_")
        X = read_records(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return X @ np.atleast_2d(self.coef_).T + self.intercept_
