"""Long work says how far it is, in public numbers, and a search says nothing."""

import logging

import numpy as np
import pytest

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGridSearchCV,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    _progress,
    config_context,
)
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import Sphere


@pytest.fixture
def told(monkeypatch, caplog):
    """All that is told, without the pause of a second."""
    monkeypatch.setattr(_progress, "_SECONDS", 0.0)
    caplog.set_level(logging.INFO, logger="skriemdp")
    return lambda: [record.getMessage() for record in caplog.records]


def table(n=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    return X, (X[:, 0] > 0).astype(int)


def model(**settings):
    return PrivateNoisyAdaGrad(
        classes=[0, 1], epsilon=1.0, delta=1e-5, accountant=PrivacyAccountant(), **settings
    )


def test_a_fit_tells_its_steps(told):
    model(n_steps=4).fit(*table())
    assert told() == [f"AdaGrad: {step} of 4" for step in (1, 2, 3, 4)]


def test_what_is_told_does_not_depend_on_the_records(told, caplog):
    X, y = table()
    model(n_steps=3).fit(X, y)
    first = told()
    caplog.clear()
    model(n_steps=3).fit(1e6 * X[::-1], y)
    assert told() == first


def directions(n=60):
    X = table(n)[0]
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def descent():
    return PrivateFrechetMean(
        Sphere(2),
        center=np.array([1.0, 0.0, 0.0]),
        radius=1.0,
        mechanism="gradient",
        n_steps=2,
        epsilon=1.0,
        delta=1e-5,
        accountant=PrivacyAccountant(),
    )


def test_descents_tell_too(told):
    descent().fit(directions())
    assert told() == ["descent: 1 of 2", "descent: 2 of 2"]


def test_federated_runs_tell_their_rounds(told):
    run = FederatedEstimator(descent().set_params(epsilon=30.0), n_rounds=3)
    run.fit(directions(), clients=np.arange(60) % 3)
    assert [line for line in told() if "rounds" in line] == [f"rounds: {t} of 3" for t in (1, 2, 3)]


def test_a_second_passes_between_two_lines(caplog):
    caplog.set_level(logging.INFO, logger="skriemdp")
    model(n_steps=5).fit(*table())
    assert caplog.records == []


def test_the_runs_of_a_search_are_silent(told):
    search = PrivateGridSearchCV(model(n_steps=3), {"alpha": [0.0, 0.1]}, mean_runs=3.0)
    search.fit(*table(200))
    said = told()
    assert not said, said


def test_nothing_is_told_unless_somebody_listens(capsys):
    model(n_steps=3).fit(*table())
    assert capsys.readouterr() == ("", "")


def test_a_long_fit_tells_first_how_long_and_one_too_long_is_refused(told, monkeypatch):
    components = PrivatePrincipalEigenvector(2, accountant=PrivacyAccountant())
    components.fit(table()[0])
    assert told() == []
    work = 4.0 * 60 * 3**2 + 10.0 * 3**3  # the matrix, and its decomposition
    monkeypatch.setattr("skriemdp._core.work._PER_SECOND", work / 600.0)
    components.fit(table()[0])
    assert told() == ["this fit takes about 10 minutes of one core"]
    with config_context(most_operations=2000), pytest.raises(ValueError, match="10 minutes"):
        components.fit(table()[0])
    assert len(components.accountant.history) == 2


def test_a_search_does_not_tell_how_long_its_fits_are(told):
    with _progress.silence():
        _progress.expect(100.0)
    assert told() == []
    _progress.expect(100.0)
    assert told() == ["this fit takes about 100 seconds of one core"]
