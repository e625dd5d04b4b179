"""`PrivateGridSearchCV`: a search whose whole cost is known in advance and charged once."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.validation import check_consistent_length, has_fit_parameter

from skriemdp._core.arithmetic import INTEGERS, PLAIN
from skriemdp._core.charge import charge
from skriemdp._core.estimator import PrivateEstimator, check_noise
from skriemdp._core.manifold_input import geometry_of
from skriemdp._core.parameters import check_parameters, warn_large_epsilon
from skriemdp._core.spent import PrivacySpent
from skriemdp._core.work import check_limit
from skriemdp._descent.carried import check_per_sample
from skriemdp._descent.separate_rows import (
    RowCheck,
    check_rows,
    made_up_records,
    refuse_faults,
    refuse_mixing,
)
from skriemdp._descent.steps import fitted_in
from skriemdp._errors import PublicRuntimeError, PublicTypeError, PublicValueError
from skriemdp._groups import Groups, check_order, read_groups
from skriemdp._mechanisms.budget import Release
from skriemdp._progress import silence
from skriemdp._quiet import Charged, quietly, read_array
from skriemdp._random import (
    NoiseStreams,
    check_public_seed,
    check_random_state,
    data_digest,
    public_generator,
)
from skriemdp._selection.parts import (
    Part,
    Uncharged,
    as_array,
    as_given,
    before_last,
    candidates_of,
    check_before,
    fit_arguments,
    fitted,
    is_pipeline,
    last_step,
    learning,
    length,
    private_step,
    quiet,
    refuse_streams,
    seen,
    split,
    validated_step,
)
from skriemdp._selection.releases import Scores
from skriemdp._validation import (
    check_fraction,
    check_function,
    check_option,
    check_positive,
    check_privacy,
    check_scale,
    shown,
)
from skriemdp._warnings import unwarned
from skriemdp.geometry import as_geometry
from skriemdp.ledger._accountant import PrivacyAccountant
from skriemdp.ledger._statements import noise_of
from skriemdp.ledger._units import UNITS
from skriemdp.preprocessing import AsksForRows, PerGroup, asks, transformed_once
from skriemdp.privacy._events import as_drawn

if TYPE_CHECKING:
    from skriemdp.privacy._event import Event

# How squared errors read the truth: as the estimators read their tables.
_NUMBERS: dict[str, Any] = {
    "dtype": np.float64,
    "ensure_2d": False,
    "allow_nd": True,
    "ensure_all_finite": False,
    "ensure_min_samples": 0,
    "ensure_min_features": 0,
}


# Arithmetic of a search whose steps or losses are not computed apart for each record.
_COMPANY = "floating-point losses that may round otherwise in other company"


class _Prepaid(Uncharged):
    """Accountant of one fit inside a search: admits once what was planned, writes nothing.

    Plans are made on the terms of `accountant`, which was charged for the search.
    """

    def __init__(self, event: Event, accountant: PrivacyAccountant):
        super().__init__()
        self._left = [event]
        self.composes = accountant.composes  # type: ignore[method-assign]

    def spend(self, event: Event, **details: Any) -> None:
        if event not in self._left:
            raise PublicRuntimeError(
                "a fit of the search costs more than what the search has charged."
            )
        self._left.remove(event)


class PrivateGridSearchCV(AsksForRows):
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
        nothing (docs/sharp-edges-scikit-learn.md has a list).  Its fits must have finite Renyi
        divergences, as those of all our estimators have.
    param_grid : dict or list of dict
        As in scikit-learn's GridSearchCV.  Candidates may differ in epsilon: every run is charged
        like the most expensive one.
    mean_runs : float, optional
        Expected number of runs E[K]; by default twice the number of candidates.  K has the
        logarithmic law, whose cost is the least of those that are known.
    loss : {"auto", "zero_one", "squared_error"} or callable, default="auto"
        Loss of each validation record, ``loss(model, X, y) -> (n,)``; entry i must depend on the
        model and on record i only, which is tried on made-up records; "auto" is "zero_one" for
        classifiers, else "squared_error" of ``predict`` against y (regressors) or X (the rest), as
        the steps before the private one make it.
    loss_bound : float, default=1.0
        Public; each record's loss is clipped to [0, loss_bound].
    delta : float, default=1e-5
        The delta at which `privacy_spent_` states the cost.
    accountant : PrivacyAccountant, optional
        By default the one that `estimator`, a step or a value of `param_grid` names, else the
        active one; two different ones are refused.
    random_state : int, optional
        As for every estimator: an int protects nobody.
    public_seed : int, default=0
        Seed of the public split: a quarter of the records, or of the groups, scores; the rest
        trains.  It is random and blind to labels; groups are permuted in the order of their ids.

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
    *Guarantee*: replace-one record, or all records of one group (docs/theory/groups.md), n and the
    split public; for fits that protect less, as ``privacy_unit="label"`` does, no more than that.
    With groups a group's loss is the mean of own rows' losses, and
    :class:`skriemdp.preprocessing.PerGroup` may stand for the private estimator; a `loss` then sees
    the estimator inside, and transformed rows.  A record trains or scores, so one run
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
        estimator: BaseEstimator,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        mean_runs: float | None = None,
        loss: Literal["auto", "zero_one", "squared_error"] | Callable[..., Any] = "auto",
        loss_bound: float = 1.0,
        delta: float = 1e-5,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
        public_seed: int = 0,
    ):
        self.estimator = estimator
        self.param_grid = param_grid
        self.mean_runs = mean_runs
        self.loss = loss
        self.loss_bound = loss_bound
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state
        self.public_seed = public_seed

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Search, and release the best run.

        Parameters
        ----------
        X : array-like of shape (n, ...)
        y : array-like of shape (n, ...), optional
        groups : array-like of shape (n,), optional
            Who owns each row.  Every fit gets the groups of its part, whether or not scikit-learn
            routes metadata.  All rows of one owner and their number are protected together.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For candidates that cannot be charged in advance; nothing is charged.
        BudgetExceededError
            If the accountant refuses the whole search; nothing runs.
        """
        with transformed_once():
            return self._fit(X, y, groups)

    def _fit(self, X: Any, y: Any, groups: Any) -> Self:
        check_fraction(delta=self.delta)
        check_scale(loss_bound=self.loss_bound)
        check_random_state(self.random_state)
        check_public_seed(self.public_seed)
        if not callable(self.loss):
            check_option(("auto", "zero_one", "squared_error"), loss=self.loss)
        else:
            check_function("loss", self.loss, "model", "X", "y")
        candidates = candidates_of(
            self.param_grid,
            lambda count: check_limit("most_candidates", **{"len(param_grid)": count}),
        )
        runs = 2.0 * len(candidates) if self.mean_runs is None else self.mean_runs
        check_positive(mean_runs=runs)
        if runs <= 1.0:
            raise PublicValueError(
                f"mean_runs must exceed 1, the least number of runs, got {shown(runs)}."
            )
        check_limit("most_runs", mean_runs=runs)
        refuse_streams(private_step(self.estimator), X)
        whole, train, test = self._parts(X, y, groups)
        n = train.n + test.n
        # With groups, rows move when a person has more of them.
        separate = self._try_steps(candidates, X, y) and groups is None
        if callable(self.loss):
            if held := fitted_in(self.loss, "loss"):
                raise learning("loss", f"it holds {held}")
            for part, size in ((whole, n), (train, train.n), (test, test.n)):
                check_per_sample(self.loss, size, (part.X, part.y), "loss")
            separate &= self._try_loss(candidates[0], X, y).identical
        self._check_truth(test)
        accountant = self._accountant()
        fits, unit, words = self._fit_events(candidates, whole, train, accountant)
        scores = Scores.planned(
            fits, runs, self.loss_bound, self.delta, accountant.composes(0.0, self.delta)
        )
        event, gaussian = scores.event, scores.scoring.mu is not None
        words.append((INTEGERS if gaussian else PLAIN) if separate else _COMPANY)
        if scores.scoring.mu is not None:
            scores.bounded_set.check(scores.scoring.mu)
        seed = self.random_state
        context = b"" if seed is None else data_digest(*map(as_array, (X, y)))
        streams = NoiseStreams(seed, b"search" + context)
        epsilon = float(event.epsilon(self.delta))
        warn_large_epsilon(epsilon)
        public = {
            "n" if groups is None else "n_groups": n,
            "n_validation": test.n,
            "arithmetic": "; ".join(sorted(set(words))),
            "releases": (Release("fits and scores", 1.0, noise_of(event.to_dict())),),
        }
        entry = charge(
            accountant,
            event,
            self,
            random_state=seed,
            params={
                "estimator": type(private_step(self.estimator)).__name__,
                "epsilon": epsilon,
                "delta": float(self.delta),
                "unit": unit,
                "guarantee": "exact",
            },
            facts=public,
        )
        spent = PrivacySpent(
            epsilon, float(self.delta), as_drawn(event, seed), unit, public=public, entry=entry
        )
        chosen = list(zip(candidates, fits, strict=True))
        with (charged := Charged(entry)):
            best = self._run(scores, chosen, train, test, streams, accountant)
        charged.raise_failure()
        self.privacy_spent_ = spent
        self._report(candidates, best)
        return self

    # -- before the charge: public numbers only -------------------------------------------------

    def _parts(self, X: Any, y: Any, groups: Any) -> tuple[Part, Part, Part]:
        """All records, those that train and those that score."""
        last = last_step(self.estimator)
        if groups is None:
            if isinstance(last, PerGroup):
                raise PublicValueError(
                    "groups says who owns each row, and PerGroup needs it; for rows of one person "
                    "each pass groups=np.arange(len(X))."
                )
            train, test = self._split(X, y)
            return Part(X, y), Part(*train), Part(*test)
        if not has_fit_parameter(last, "groups"):
            raise PublicValueError(
                f"estimator: fit of {type(last).__name__} takes no groups, so a search over it "
                "protects single records; leave out groups, or use an estimator whose fit has "
                "groups=."
            )
        if not (hasattr(X, "shape") or hasattr(X, "__len__")):
            X = np.asarray(X)
        if y is not None:
            quietly(lambda X, y: check_consistent_length(X, y), X, y, labels=True)
        check_order(groups, X)
        owned = read_groups(groups, length(X))
        people = np.empty(length(X), dtype=np.intp)
        people[owned.order] = owned.owners()
        whole = Part(X, y, people)
        (trains, _), (scores, _) = self._split(np.arange(owned.count), None)
        rows = [np.flatnonzero(np.isin(people, chosen)) for chosen in (trains, scores)]
        return whole, whole.rows(rows[0]), whole.rows(rows[1])

    def _split(self, X: Any, y: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        arrays = (X,) if y is None else (X, y)

        def divided(*arrays: Any) -> list[Any]:
            # A quarter of the records, or of the groups, scores: public.
            return split(arrays, 0.25, self.public_seed)

        train, test, *labels = quietly(divided, *arrays, labels=True)
        y_train, y_test = labels or (None, None)
        return (train, y_train), (test, y_test)

    def _check_truth(self, part: Part) -> None:
        """Raise unless the validation records hold numbers where "squared_error" will compare.

        What cannot be compared must be found out before the charge.
        """
        model, loss, X, y = self.estimator, self.loss, part.X, part.y
        if callable(loss):
            return
        supervised = y is not None and (is_classifier(model) or is_regressor(model))
        if not hasattr(private_step(model), "predict"):
            raise PublicTypeError(
                f"loss={loss!r} needs an estimator with predict; pass a function."
            )
        if not supervised and hasattr(X, "tocsr"):
            raise PublicTypeError(
                f"Sparse data X is not supported with loss={loss!r}, which compares predictions "
                "with its rows; pass X.toarray(), or a function as loss."
            )
        if loss == "zero_one" and not (supervised and np.ndim(y) == 1):
            raise PublicValueError(
                "loss='zero_one' compares labels, one for each record, with what a classifier "
                "predicts; pass loss='squared_error', or a function."
            )
        if loss == "zero_one" or (loss == "auto" and is_classifier(model)):
            return
        read_array(y if supervised else X, "y" if supervised else "X", **_NUMBERS)

    def _fit_events(
        self,
        candidates: list[dict[str, float]],
        whole: Part,
        train: Part,
        accountant: PrivacyAccountant,
    ) -> tuple[list[Event], str, list[str]]:
        """Return events of the candidates' fits, their weakest unit, and their arithmetic."""
        events, units, words = [], set(), []
        for parameters in candidates:
            model = clone(self.estimator).set_params(**parameters)
            step = private_step(model)
            if step.random_state is not None:
                raise PublicValueError(
                    "estimator has an integer random_state: runs of one candidate would share "
                    "their noise. Leave it None; random_state of the search seeds a study."
                )
            if step._remembers_queries:
                raise PublicValueError(
                    f"a {type(step).__name__} with {parameters} keeps the rows that it is asked "
                    "about, and a search asks it about the validation records: the released model "
                    "would recognise them. Search over models that predict without limit."
                )
            check_privacy(step.epsilon, step.delta)
            check_parameters(step)
            # Validation records raise now or never.
            validated_step(model, step, whole)
            data = validated_step(model, step, train)
            plan = step._planned(data.facts, step._terms(accountant))
            units.add(plan.unit)
            words.append(plan.arithmetic)
            plan.work.check()
            check_noise(plan.event)
            event = plan.event
            if event.extra_delta:
                raise PublicValueError(
                    f"a fit with {parameters} has no finite Renyi divergence, so a search over it "
                    "has no known cost; use a mechanism with Gaussian or Laplace noise."
                )
            events.append(event)
        known = [unit for unit in UNITS if unit in units]
        unit = known[0] if known else units.pop()
        return events, unit if train.people is None else "group", words

    def _try_steps(self, candidates: list[dict[str, Any]], X: Any, y: Any) -> bool:
        """Try what stands before the private one, of all candidates that differ in it."""
        last = self.estimator.steps[-1][0] if is_pipeline(self.estimator) else ""
        identical, tried = True, set()
        for parameters in candidates:
            others = {k: v for k, v in parameters.items() if k.split("__")[0] != last}
            if (key := str([(name, id(others[name])) for name in sorted(others)])) not in tried:
                tried.add(key)
                model = clone(self.estimator).set_params(**parameters)
                identical &= check_before(model, X, y)
        return identical

    def _try_loss(self, parameters: dict[str, Any], X: Any, y: Any) -> RowCheck:
        """Refuse a loss that mixes records: on made-up records, by a model of made-up records."""
        model = clone(self.estimator).set_params(**parameters)
        step = private_step(model)
        step.set_params(accountant=Uncharged(), **quiet(step))
        X = np.asarray(X) if not hasattr(X, "shape") else X
        given, y_shape = X.shape[1:], None if y is None else np.shape(y)[1:]
        last = last_step(model)
        try:
            if isinstance(last, PerGroup):  # the loss sees what is inside, and transformed rows
                model, given = last.estimator, last._tried(given).shape
            geometry, x_shape = None, given
            if not get_tags(step).input_tags.three_d_array:  # rows are numbers; y may be points
                if y_shape and getattr(step, "manifold", None) is not None:
                    geometry = as_geometry(step.manifold, point_shape=y_shape)
            elif hasattr(step, "manifold"):
                like = np.empty((0, *given))
                geometry = geometry_of(like, step.manifold)
                if geometry.shape != tuple(x_shape) and math.prod(geometry.shape) == x_shape[0]:
                    x_shape = geometry.shape
            rng = public_generator(0, "made-up records of a search")
            made = [made_up_records(geometry, x_shape, y_shape, 1.0, rng) for _ in range(2)]
            made = [as_given(records, given, y, step) for records in made]
            with warnings.catch_warnings(), unwarned(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                model.fit(*made[0])
        except Exception as error:  # noqa: BLE001  the estimator may want other records than these
            check = RowCheck(False, True, False, error=type(error).__name__)
        else:
            loss = cast(Callable[..., Any], self.loss)
            check = check_rows(lambda X, y: loss(model, X, y), [made])
            refuse_faults(check, "loss", "a function (model, X, y)", "one number")
        refuse_mixing(check, "loss")
        return check

    # -- after the charge -----------------------------------------------------------------------

    def _run(
        self,
        scores: Scores,
        candidates: list[tuple[dict[str, float], Event]],
        train: Part,
        test: Part,
        streams: NoiseStreams,
        accountant: PrivacyAccountant,
    ) -> tuple[float, int, PrivateEstimator]:
        rng = streams("search")
        scored = scores.scorer(test.n, rng)
        best = None
        for _ in range(scores.event.draw_count(rng)):
            index = int(rng.integers(len(candidates)))
            parameters, fit = candidates[index]
            model = clone(self.estimator).set_params(**parameters)
            step = private_step(model)
            owner = step.accountant
            loud = {name: getattr(step, name) for name in quiet(step)}
            seed = int(rng.integers(2**62)) if streams.seeded else None
            prepaid = _Prepaid(as_drawn(fit, seed), accountant)
            step.set_params(accountant=prepaid, random_state=seed, **quiet(step))
            with warnings.catch_warnings(), unwarned(), silence(), np.errstate(all="ignore"):
                # A word of a run that loses would show that run, and count the runs; one of an
                # overflow would tell of a validation record.
                warnings.simplefilter("ignore")
                model.fit(train.X, train.y, **fit_arguments(model, train.people))
                losses = np.clip(self._losses(model, test), 0.0, self.loss_bound)
                if test.people is not None:
                    owned = Groups.from_ids(test.people)
                    losses = owned.means(losses[owned.order])
            for used in (step, fitted(model)):
                used.set_params(accountant=owner, random_state=None, **loud)
            score = scored(losses)
            if best is None or score > best[0]:
                best = (score, index, model)
        assert best is not None  # there is at least one run
        return best

    def _losses(self, model: Any, part: Part) -> np.ndarray:
        loss, y = self.loss, part.y
        model, X = seen(model, part.X, part.people)
        if loss == "auto":
            loss = "zero_one" if is_classifier(model) else "squared_error"
        if callable(loss):
            losses = loss(model, X, y)
        else:
            supervised = y is not None and (is_classifier(model) or is_regressor(model))
            predicted = np.asarray(model.predict(X))
            truth = y if supervised else before_last(model, X)[1]
            if loss == "zero_one":
                losses = predicted != np.asarray(truth).reshape(predicted.shape)
            else:
                truth = read_array(truth, "truth", **_NUMBERS).reshape(predicted.shape)
                losses = np.square(predicted - truth).reshape(len(truth), -1).sum(axis=1)
        losses = np.asarray(losses, dtype=float)
        if losses.shape != (length(X),):
            raise PublicValueError(
                f"loss must return one number per record, got shape {losses.shape}."
            )
        return np.nan_to_num(losses, nan=self.loss_bound)

    def _report(
        self, candidates: list[dict[str, float]], best: tuple[float, int, PrivateEstimator]
    ) -> None:
        scores = np.full(len(candidates), np.nan)
        self.best_score_, self.best_index_, self.best_estimator_ = best
        self.best_params_ = candidates[self.best_index_]
        scores[self.best_index_] = self.best_score_
        # What the winner alone would have cost is not what its release cost.
        for step in (fitted(self.best_estimator_), last_step(self.best_estimator_)):
            step.privacy_spent_ = self.privacy_spent_
        self.cv_results_ = {"params": candidates, "released_score": scores}

    # -- the winner's methods -------------------------------------------------------------------

    @property
    def _answering(self) -> Any:
        return getattr(self, "best_estimator_", self.estimator)

    @asks("transform")
    def fit_transform(self, X: Any, y: Any = None, groups: Any = None) -> np.ndarray:
        """Search, then transform the same rows with the winner."""
        return self.fit(X, y, groups).transform(X, groups)

    def _queried(self, X: Any, groups: Any) -> tuple[Any, Any, dict[str, Any]]:
        if not isinstance(last_step(self.best_estimator_), PerGroup):
            return self.best_estimator_, X, {}
        return *before_last(self.best_estimator_, X), {"groups": groups}
