"""What a fit has to tell costs nothing: not a release, not what a subclass stored, not a budget."""

import threading
import warnings

import joblib
import numpy as np
import pytest
from conftest import RecordingAccountant, shown_by
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.pipeline import make_pipeline
from test_hostile_calls import ESTIMATORS, owners, valid_call, with_recorder

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGridSearchCV,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
)
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import Euclidean
from skriemdp.preprocessing import PerGroup, Recenter
from skriemdp.pymanopt_optimizers import PerSampleProblem, PrivateGradientDescent

RNG = np.random.default_rng(0)
NOISE = RNG.normal(size=(400, 3))
LABELS = RNG.integers(0, 2, 400)


def fitted_strictly(model, *rows, **more):
    """The words of a fit for which warnings are errors; notes are words of its other warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            model.fit(*rows, **more)
        except Warning as warning:
            return [str(warning), *getattr(warning, "__notes__", ())]
    return []


LOUD = {
    "a ball that clips": (PrivateFrechetMean(center=np.zeros(3), radius=0.1), ()),
    "means of no classes": (PrivateMinimumDistanceToMean(classes=[0, 1], radius=0.1), (LABELS,)),
    "a model that clips": (PrivateNoisyAdaGrad(classes=[0, 1], feature_norm=0.1), (LABELS,)),
    "components that clip": (PrivatePrincipalEigenvector(row_norm=0.1, center="assume"), ()),
    "a region that clips": (PrivateFrechetMean(radius=0.1, uncertainty=True), ()),
    "in a federation": (
        FederatedEstimator(PrivateFrechetMean(radius=0.1, epsilon=5.0), 1, local="statistic"),
        (None, np.arange(400) % 2),
    ),
    "behind each person's transformer": (
        PerGroup(
            Recenter("euclidean"),
            PrivateNoisyAdaGrad(classes=[0, 1], feature_norm=0.1, epsilon=5.0),
        ),
        (LABELS, np.arange(400) // 2),
    ),
}


@pytest.mark.parametrize("case", LOUD)
def test_a_warning_that_is_an_error_leaves_the_fitted_model(case):
    model, more = LOUD[case]
    assert shown_by(lambda: with_recorder(model, RecordingAccountant()).fit(NOISE, *more))[0]
    recorder = RecordingAccountant()
    model = with_recorder(model, recorder)
    told = fitted_strictly(model, NOISE, *more)
    assert told and all("not shown" not in text for text in told)
    assert len(recorder.spends) == 1 and hasattr(model, "privacy_spent_")


def everything_fitted(index, recorder):
    model = with_recorder(ESTIMATORS[index], recorder)
    X, y = valid_call(index)
    return model, (X, y), owners(model, len(X))


@pytest.mark.parametrize("index", range(len(ESTIMATORS)))
def test_no_strict_fit_of_any_estimator_is_charged_and_lost(index):
    recorder = RecordingAccountant()
    model, rows, more = everything_fitted(index, recorder)
    told = fitted_strictly(model, *rows, **more)
    assert not recorder.spends or hasattr(model, "privacy_spent_"), told
    usual = with_recorder(ESTIMATORS[index], RecordingAccountant())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usual.fit(*rows, **more)
    if recorder.spends:
        assert set(vars(model)) == set(vars(usual))


def test_what_is_told_before_a_charge_refuses_a_strict_fit_for_nothing():
    recorder = RecordingAccountant()
    model = PrivateMinimumDistanceToMean(accountant=recorder)
    (text,) = fitted_strictly(model, NOISE, LABELS)
    assert "classes=None" in text and recorder.spends == [] and not hasattr(model, "means_")


def test_the_words_of_other_packages_end_no_release_and_become_no_error():
    """They may quote a record."""
    recorder = RecordingAccountant()

    def loud(point, X, y=None):
        if recorder.spends:
            warnings.warn("gradients are slow today", RuntimeWarning, stacklevel=1)
        return point - X

    model = PrivateRiemannianERM(gradient=loud, n_steps=3, accountant=recorder)
    assert not any("gradients are slow today" in text for text in fitted_strictly(model, NOISE))
    assert len(recorder.spends) == 1 and hasattr(model, "point_")
    problem = PerSampleProblem(Euclidean(3), None, NOISE, gradient=loud)
    optimizer = PrivateGradientDescent(max_iterations=2, accountant=recorder, verbosity=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert optimizer.run(problem).point.shape == (3,)


def test_warnings_point_at_the_line_of_the_fit():
    with pytest.warns(UserWarning, match="were projected") as seen:
        PrivateFrechetMean(radius=0.1).fit(NOISE)
    assert {warning.filename for warning in seen} == {__file__}


def test_a_search_tells_nothing_of_its_runs():
    search = PrivateGridSearchCV(
        PrivateFrechetMean(noise="gaussian", radius=0.1), {"radius": [0.1, 0.2]}
    )
    texts, error = shown_by(lambda: search.fit(NOISE))
    assert error is None and not any("projected" in text for text in texts)


# -- one fit at a time ----------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_estimator_that_is_being_fitted_is_refused_to_another_thread(wrapped):
    recorder, inside, go_on = RecordingAccountant(), threading.Event(), threading.Event()

    def waiting(point, X, y=None):
        if recorder.spends:  # before that, it is tried on made-up records
            inside.set()
            go_on.wait(20)
        return point - X

    model = PrivateRiemannianERM(gradient=waiting, n_steps=1, accountant=recorder)
    whole = make_pipeline(model) if wrapped else model
    first = threading.Thread(target=model.fit, args=(NOISE,))
    first.start()
    try:
        assert inside.wait(20)
        with pytest.raises(RuntimeError, match="another thread.*nothing was charged.*clone"):
            whole.fit(NOISE)
        assert len(recorder.spends) == 1
    finally:
        go_on.set()
        clone(model).fit(NOISE)  # the cure, whether the first still runs or has just ended
        first.join()
    assert len(recorder.spends) == 2 and hasattr(model, "point_")
    whole.fit(NOISE)
    assert len(recorder.spends) == 3


def test_many_threads_spend_once_each_for_what_they_learn():
    with PrivacyAccountant() as budget:
        model = PrivateFrechetMean(radius=5.0, accountant=budget)
        outcomes = []

        def fit():
            try:
                outcomes.append(model.fit(NOISE))
            except RuntimeError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=fit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    done = sum(outcome is model for outcome in outcomes)
    assert done >= 1 and len(budget.history) == done


# -- what a subclass stores -----------------------------------------------------------------------


class Named(PrivateFrechetMean):
    def fit(self, X, y=None, groups=None):
        self.unit_, self.plain = "mm", 1
        return super().fit(X, y, groups)


class Renamed(Named):
    def fit(self, X, y=None, groups=None):
        self.owner_ = "us"
        return super().fit(X, y, groups)


class Twice(PrivateFrechetMean):
    def fit(self, X, y=None, groups=None):
        self.unit_ = "mm"
        self.uncertainty = True
        super().fit(X)
        first = self.inference_
        self.uncertainty = False
        super().fit(X)
        self.first_ = first
        return self


class NamedClasses(PrivateMinimumDistanceToMean):
    def fit(self, X, y, groups=None):
        self.names_ = list(X)
        return super().fit(X, y, groups)


class NamedClients(FederatedEstimator):
    def fit(self, X, y=None, clients=None, groups=None):
        self.hospitals_ = len(set(clients))
        return super().fit(X, y, clients, groups)


class NamedSearch(PrivateGridSearchCV):
    def fit(self, X, y=None, groups=None):
        self.tried_ = 2
        return super().fit(X, y, groups)


@pytest.mark.filterwarnings("ignore")
def test_what_a_subclass_stores_before_the_fit_of_its_base_stays():
    assert Named().fit(NOISE).unit_ == "mm"
    assert Named().fit_transform(NOISE) is not None
    both = Renamed().fit(NOISE)
    assert (both.owner_, both.unit_, both.plain) == ("us", "mm", 1)
    twice = Twice().fit(NOISE)
    assert twice.unit_ == "mm" and twice.first_ is not None and not hasattr(twice, "inference_")
    assert len(NamedClasses(classes=[0, 1]).fit(NOISE, LABELS).names_) == 400
    clients = NamedClients(PrivateFrechetMean(radius=3.0), 1, local="statistic")
    assert clients.fit(NOISE, None, np.arange(400) % 4).hospitals_ == 4
    mean = PrivateFrechetMean(noise="gaussian", radius=1.0)
    assert NamedSearch(mean, {"radius": [1.0, 2.0]}).fit(NOISE).tried_ == 2


@pytest.mark.filterwarnings("ignore")
def test_nothing_of_an_older_fit_stays():
    model = Named(uncertainty=True).fit(NOISE)
    model.stale_ = 1
    model.set_params(uncertainty=False).fit(NOISE)
    assert not hasattr(model, "stale_") and not hasattr(model, "inference_")
    with pytest.raises(ValueError, match="NaN"):
        model.fit(NOISE * np.nan)
    assert model.unit_ == "mm" and hasattr(model, "mean_")


@pytest.mark.filterwarnings("ignore")
def test_tools_that_fit_clones_in_threads_are_not_refused():
    model = PrivateMinimumDistanceToMean(classes=[0, 1], radius=5.0)
    vote = VotingClassifier([("a", model), ("b", model)], n_jobs=2)
    with joblib.parallel_config("threading"):
        assert len(vote.fit(NOISE, LABELS).estimators_) == 2
