"""`PrivateGridSearchCV`: a search whose whole cost is known in advance and charged once."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.model_selection import ParameterGrid, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skriemdp._random import NoiseStreams, check_random_state, data_digest, public_generator
from skriemdp._validation import check_fraction, check_option, check_positive
from skriemdp.core.estimator import PrivateEstimator, take_tags
from skriemdp.core.spent import SEEDED, PrivacySpent
from skriemdp.geometry import Euclidean
from skriemdp.ledger.accountant import current_accountant
from skriemdp.mechanisms.tangent import TangentGaussian, TangentRadial
from skriemdp.privacy.calibration import gaussian_mu
from skriemdp.privacy.events import GaussianEvent, ParallelEvent, SelectionEvent
from skriemdp.privacy.radial import RadialEvent, best_radial_law

__all__ = ["PrivateGridSearchCV"]


# Radial noise halves the error of scores; that much more may the search cost for it.
_MORE = 1.02
_ZERO = np.zeros(1)


class _Prepaid:
    """Accountant of one fit inside a search: admits once what was planned, writes nothing.

    Plans are made on the terms of `accountant`, which was charged for the search.
    """

    def __init__(self, event, accountant):
        self._left = [event]
        self.composes = accountant.composes

    def __sklearn_clone__(self):
        return self

    def spend(self, event, **details):
        if event not in self._left:
            raise RuntimeError("a fit of the search costs more than what the search has charged.")
        self._left.remove(event)


def _score_noise(event, sensitivity):
    if isinstance(event, RadialEvent):
        return TangentRadial(Euclidean(1), sensitivity, event)
    return TangentGaussian(Euclidean(1), sensitivity, 1.0 / event.mu)


def _delegates(name):
    def check(search):
        getattr(getattr(search, "best_estimator_", None) or search.estimator, name)
        return True

    return check


class PrivateGridSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Choose parameters of a private estimator privately; only the winning model is released.

    A plain ``GridSearchCV`` over private estimators spends a budget for every fit, and then
    publishes scores that are not private.  Here candidates are drawn at random a random, secret
    number of times K; each run fits on one public part of the records and is scored, with noise, on
    the rest; only the best run is released.  By the theorems of Papernot and Steinke this costs
    little more than a few fits, whatever the number of candidates.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A private estimator, or a pipeline whose last step is one and whose other steps learn
        nothing.  Its fits must have finite Renyi divergences, as those of all our estimators have.
    param_grid : dict or list of dict
        As in scikit-learn's GridSearchCV.  Candidates may differ in epsilon: every run is charged
        like the most expensive one.
    mean_runs : float, optional
        Expected number of runs E[K]; by default twice the number of candidates.
    law : {"negative-binomial", "poisson"}, default="negative-binomial"
        Law of K.  A Poisson number may be 0; then `best_estimator_` is None.
    shape : float, default=0.0
        Parameter eta of the truncated negative binomial law (0 logarithmic, 1 geometric).
    loss : {"auto", "zero_one", "squared_error"} or callable, default="auto"
        Loss of each validation record, ``loss(model, X, y) -> (n,)``; "auto" is "zero_one" for
        classifiers, else "squared_error" of ``predict`` against y (regressors) or X (the rest).
    loss_bound : float, default=1.0
        Public; each record's loss is clipped to [0, loss_bound].
    validation_fraction : float, default=0.25
        Public share of the records that scores; the split is public, random and blind to labels.
    delta : float, default=1e-5
        The delta at which `privacy_spent_` states the cost.
    accountant : PrivacyAccountant, optional
    random_state : int, optional
        As for every estimator: an int protects nobody.
    public_seed : int, default=0
        Seed of the public split.

    Attributes
    ----------
    best_estimator_ : estimator
        The selected run itself, not a refit.
    best_params_ : dict
    best_index_ : int
        Index in ``cv_results_["params"]``.
    best_score_ : float
        Minus the noisy mean loss of the winner.
    cv_results_ : dict
        ``"params"``: the candidates; ``"released_score"``: NaN except for the winner.
    privacy_spent_ : PrivacySpent
        The whole search.

    Notes
    -----
    *Guarantee*: replace-one record, n and the split public.  A record trains or scores, so one run
    costs the larger of the two (parallel composition); scores get noise that costs what the most
    expensive fit costs at `delta`, so they are almost free.  Fits count with their own Renyi
    divergences, whatever the law of their noise.  K is never stored or shown, but wall time reveals
    it: do not publish how long a search took.  One event is charged before anything runs.

    References
    ----------
    Papernot and Steinke (2022), arXiv:2110.03620, Theorems 2 and 6; Liu and Talwar (2019).

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivateFrechetMean, PrivateGridSearchCV
    >>> X = np.random.default_rng(0).normal(size=(400, 2)) * 0.1
    >>> search = PrivateGridSearchCV(
    ...     PrivateFrechetMean(epsilon=0.5), {"radius": [0.3, 1.0, 10.0]}, loss_bound=0.5
    ... ).fit(X)
    >>> sorted(search.best_params_)
    ['radius']
    """

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        mean_runs=None,
        law="negative-binomial",
        shape=0.0,
        loss="auto",
        loss_bound=1.0,
        validation_fraction=0.25,
        delta=1e-5,
        accountant=None,
        random_state=None,
        public_seed=0,
    ):
        self.estimator = estimator
        self.param_grid = param_grid
        self.mean_runs = mean_runs
        self.law = law
        self.shape = shape
        self.loss = loss
        self.loss_bound = loss_bound
        self.validation_fraction = validation_fraction
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state
        self.public_seed = public_seed

    def fit(self, X, y=None):
        """Search, and release the best run.

        Raises
        ------
        ValueError, TypeError
            For candidates that cannot be charged in advance; nothing is charged.
        BudgetExceededError
            If the accountant refuses the whole search; nothing runs.
        """
        check_fraction(delta=self.delta, validation_fraction=self.validation_fraction)
        check_positive(loss_bound=self.loss_bound)
        check_random_state(self.random_state)
        if not callable(self.loss):
            check_option(("auto", "zero_one", "squared_error"), loss=self.loss)
        candidates = list(ParameterGrid(self.param_grid))
        train, test = self._split(X, y)
        accountant = self.accountant
        if accountant is None:
            token = getattr(_private_step(self.estimator), "_ledger_token", None)
            accountant = current_accountant(token)
        fits = self._fit_events(candidates, (X, y), train, accountant)
        event, scoring = self._event(fits, accountant.composes(0.0, self.delta))
        seeded = self.random_state is not None
        epsilon = float(event.epsilon(self.delta))
        accountant.spend(
            event,
            label=type(self).__name__,
            params={
                "estimator": type(_private_step(self.estimator)).__name__,
                "epsilon": epsilon,
                "delta": float(self.delta),
                "unit": "record",
                "guarantee": SEEDED if seeded else "exact",
                "seeded": seeded,
            },
        )
        context = b"" if self.random_state is None else data_digest(*map(_array, (X, y)))
        streams = NoiseStreams(self.random_state, b"search" + context)
        runs = list(zip(candidates, fits, strict=True))
        best = self._run(event, scoring, runs, train, test, streams, accountant)
        self.privacy_spent_ = PrivacySpent(
            epsilon=epsilon,
            delta=float(self.delta),
            event=event,
            guarantee=SEEDED if seeded else "exact",
            seeded=seeded,
            public={"n": len(train[0]) + len(test[0]), "n_validation": len(test[0])},
        )
        self._report(candidates, best)
        return self

    # -- before the charge: public numbers only -------------------------------------------------

    def _split(self, X, y):
        seed = int(public_generator(self.public_seed, "validation split").integers(2**31))
        arrays = (X,) if y is None else (X, y)
        parts = train_test_split(*arrays, test_size=self.validation_fraction, random_state=seed)
        return (
            (parts[0], None if y is None else parts[2]),
            (parts[1], None if y is None else parts[3]),
        )

    def _fit_events(self, candidates, whole, train, accountant):
        """What a fit of each candidate will cost."""
        events = []
        for parameters in candidates:
            model = clone(self.estimator).set_params(**parameters)
            step = _private_step(model)
            if step.random_state is not None:
                raise ValueError(
                    "estimator has an integer random_state: runs of one candidate would share "
                    "their noise. Leave it None; random_state of the search seeds a study."
                )
            if step._remembers_queries:
                raise ValueError(
                    f"a {type(step).__name__} with {parameters} keeps the rows that it is asked "
                    "about, and a search asks it about the validation records: the released model "
                    "would recognise them. Search over models that predict without limit."
                )
            step._validate(*_before(model, *whole))  # validation records raise now or never
            facts = step._validate(*_before(model, *train)).facts
            event = step._plan(facts, step._terms(accountant)).event
            if event.extra_delta:
                raise ValueError(
                    f"a fit with {parameters} has no finite Renyi divergence, so a search over it "
                    "has no known cost; use a mechanism with Gaussian or radial noise."
                )
            events.append(event)
        return events

    def _event(self, fits, composes):
        """The whole search, and what a score costs: a record is in a fit, or in a score.

        Gaussian fits pay for scores of their own mu.  Next to other laws the noise of a score is
        calibrated to the fits' epsilon at the search's delta: radial, which is smaller, unless
        Gaussian noise makes the whole search cheaper, or the ledger `composes` releases.
        """
        runs = 2.0 * len(fits) if self.mean_runs is None else self.mean_runs
        distinct = tuple(dict.fromkeys(fits))
        if None not in (mus := [event.mu for event in distinct]):
            run = GaussianEvent(1.0 / max(mus))
            return SelectionEvent(run, runs, self.law, self.shape), run
        # Where delta alone covers a fit, any small epsilon will do.
        epsilon = max(1e-3, *(event.epsilon(self.delta) for event in distinct))
        radial = best_radial_law(1, epsilon, self.delta)
        gaussian = GaussianEvent(1.0 / gaussian_mu(epsilon, self.delta))
        by_radial, by_gaussian = (
            SelectionEvent(ParallelEvent((*distinct, score)), runs, self.law, self.shape)
            for score in (radial, gaussian)
        )
        cheap = by_radial.epsilon(self.delta) <= _MORE * by_gaussian.epsilon(self.delta)
        if cheap and not composes:
            return by_radial, radial
        return by_gaussian, gaussian

    # -- after the charge -----------------------------------------------------------------------

    def _run(self, event, scoring, candidates, train, test, streams, accountant):
        rng = streams("search")
        noise = _score_noise(scoring, sensitivity=self.loss_bound / len(test[0]))
        best = None
        for _ in range(event.draw_count(rng)):
            index = int(rng.integers(len(candidates)))
            parameters, fit = candidates[index]
            model = clone(self.estimator).set_params(**parameters)
            step = _private_step(model)
            owner = step.accountant
            verbose = step.verbose
            step.set_params(accountant=_Prepaid(fit, accountant), verbose=0)
            if streams.seeded:
                step.set_params(random_state=int(rng.integers(2**62)))
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                # A warning of a run that loses would show that run, and count the runs; one of an
                # overflow would tell of a validation record.
                warnings.simplefilter("ignore")
                model.fit(*train)
                losses = np.clip(self._losses(model, *test), 0.0, self.loss_bound)
            step.set_params(accountant=owner, random_state=None, verbose=verbose)
            score = float(noise.release(_ZERO, -np.mean(losses, keepdims=True), rng)[0])
            if best is None or score > best[0]:
                best = (score, index, model)
        return best

    def _losses(self, model, X, y):
        loss = self.loss
        if loss == "auto":
            loss = "zero_one" if is_classifier(model) else "squared_error"
        if callable(loss):
            losses = loss(model, X, y)
        else:
            supervised = y is not None and (is_classifier(model) or is_regressor(model))
            predicted, truth = np.asarray(model.predict(X)), np.asarray(y if supervised else X)
            truth = truth.reshape(predicted.shape)
            if loss == "zero_one":
                losses = predicted != truth
            else:
                losses = np.square(predicted - truth).reshape(len(truth), -1).sum(axis=1)
        losses = np.asarray(losses, dtype=float)
        if losses.shape != (len(X),):
            raise ValueError(f"loss must return one number per record, got shape {losses.shape}.")
        return np.nan_to_num(losses, nan=self.loss_bound)

    def _report(self, candidates, best):
        scores = np.full(len(candidates), np.nan)
        self.best_estimator_ = self.best_params_ = self.best_index_ = self.best_score_ = None
        if best is not None:
            self.best_score_, self.best_index_, self.best_estimator_ = best
            self.best_params_ = candidates[self.best_index_]
            scores[self.best_index_] = self.best_score_
            # What the winner alone would have cost is not what its release cost.
            _private_step(self.best_estimator_).privacy_spent_ = self.privacy_spent_
        self.cv_results_ = {"params": candidates, "released_score": scores}

    # -- the winner's methods -------------------------------------------------------------------

    def _winner(self):
        check_is_fitted(self)
        if self.best_estimator_ is None:
            raise ValueError("the search drew no run (law='poisson'); there is no model.")
        return self.best_estimator_

    @property
    def n_features_in_(self):
        return self._winner().n_features_in_

    @property
    def classes_(self):
        return self._winner().classes_

    @available_if(_delegates("predict"))
    def predict(self, X):
        """``best_estimator_.predict(X)``."""
        return self._winner().predict(X)

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X):
        """``best_estimator_.predict_proba(X)``."""
        return self._winner().predict_proba(X)

    @available_if(_delegates("transform"))
    def transform(self, X):
        """``best_estimator_.transform(X)``."""
        return self._winner().transform(X)

    @available_if(_delegates("transform"))
    def fit_transform(self, X, y=None):
        """Search, then transform the same rows with the winner."""
        return self.fit(X, y).transform(X)

    @available_if(_delegates("score"))
    def score(self, X, y=None):
        """``best_estimator_.score(X, y)``; depends on the rows it is given, not private."""
        return self._winner().score(X, y)

    def __sklearn_tags__(self):
        return take_tags(super().__sklearn_tags__(), self.estimator)


def _private_step(estimator) -> PrivateEstimator:
    """The private estimator at the end; the steps before it must not learn."""
    step = estimator
    if isinstance(estimator, Pipeline):
        for name, before in estimator.steps[:-1]:
            if before not in (None, "passthrough") and get_tags(before).requires_fit:
                raise TypeError(
                    f"step {name!r} learns from the records without privacy; a search can charge "
                    "only pipelines of stateless steps and one private estimator at the end."
                )
        step = estimator.steps[-1][1]
    if not isinstance(step, PrivateEstimator):
        raise TypeError(
            f"estimator must be a private estimator of skriemdp, or a pipeline that ends with one; "
            f"got {type(step).__name__}."
        )
    return step


def _before(estimator, X, y):
    """What the last step of a pipeline of stateless steps is fitted on."""
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        X = estimator[:-1].fit_transform(X, y)
    return X, y


def _array(value):
    if value is None or hasattr(value, "tocsr"):
        return value
    value = np.asarray(value)
    return value.ravel() if value.ndim == 2 and value.shape[1] == 1 else value
