"""The file of a model is compared with its charge, unloaded; what no charge covers is named."""

import dataclasses
import json
import os
import pickle
import re
import subprocess
import sys
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler
from test_estimators import AROUND, ESTIMATORS, data

from skriemdp import PrivacyAccountant, PrivateFrechetMean, PrivateGridSearchCV, PrivateNoisyAdaGrad
from skriemdp.page import gather
from skriemdp.page._command import main
from skriemdp.preprocessing import Recenter

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return PrivacyAccountant(path=tmp_path_factory.mktemp("ledger") / "a.ledger")


def mean(ledger):
    return PrivateFrechetMean(radius=1.0, accountant=ledger)


def linear(ledger):
    return PrivateNoisyAdaGrad(classes=[0, 1], feature_norm=1.0, n_steps=2, accountant=ledger)


def pickled(protocol=None):
    return lambda model, path: path.write_bytes(pickle.dumps(model, protocol))


WRITTEN = {f"pickle {p}": pickled(p) for p in range(2, pickle.HIGHEST_PROTOCOL + 1)}
WRITTEN["joblib"] = joblib.dump
for way in ("zlib", "gzip", "bz2", "xz", "lzma"):
    WRITTEN[f"joblib {way}"] = lambda model, path, way=way: joblib.dump(
        model, path, compress=(way, 3)
    )


def found_in(model, ledger, folder, write=None):
    (write or pickled())(model, folder / "model")
    return gather(ledger.path, model=folder / "model")


GOOD = {
    "itself": mean,
    "behind steps": lambda b: make_pipeline(Normalizer(), FunctionTransformer(np.tanh), mean(b)),
    "behind codes": lambda b: make_pipeline(
        OneHotEncoder(categories=[[0.0, 1.0]] * 3, handle_unknown="ignore", sparse_output=False),
        mean(b),
    ),
    "in a union": lambda b: FeatureUnion([("a", mean(b)), ("b", Normalizer())]),
    "a search": lambda b: PrivateGridSearchCV(
        make_pipeline(Normalizer(), mean(b)), {"privatefrechetmean__radius": [1.0, 3.0]}
    ),
}


@pytest.mark.parametrize("write", WRITTEN)
@pytest.mark.parametrize("name", GOOD)
def test_good_models_are_good_in_every_format(name, write, ledger, tmp_path):
    model = GOOD[name](ledger).fit(X, Y)
    facts = found_in(model, ledger, tmp_path, WRITTEN[write])
    assert facts.against == [] and facts.models
    assert any(place.endswith("mean_") for place in facts.compared)
    assert any(place.endswith("geometry_ (an object)") for place in facts.left)


@pytest.mark.parametrize("estimator", ESTIMATORS + AROUND, ids=str)
def test_every_estimator_is_recognised_by_its_numbers(estimator, ledger, tmp_path):
    model = clone(estimator)
    own = "accountant" in model.get_params(deep=False)
    model.set_params(**{"accountant" if own else "estimator__accountant": ledger})
    model.fit(*data(estimator))
    ours = type(model).__module__.startswith("skriemdp.")  # others are foreign classes
    for write in (pickled(), joblib.dump):
        facts = found_in(model, ledger, tmp_path, write)
        assert bool(facts.against) != ours
    for name, value in vars(model).items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size and ours:
            changed = clone_of(model)
            setattr(changed, name, np.where(np.isfinite(value), value * (1 + 1e-15) + 1e-300, 0.0))
            told = found_in(changed, ledger, tmp_path).against
            assert any(name in text for text in told), name
            break


def clone_of(model):
    return pickle.loads(pickle.dumps(model))


def with_attribute(model, name, value):
    setattr(model, name, value)
    return model


class Runs:
    """Would run a command when it is loaded."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


class Foreign:
    def __init__(self, rows):
        self.rows = rows


def statement_of(model, **changes):
    model.privacy_spent_ = dataclasses.replace(model.privacy_spent_, **changes)
    return model


BAD = {
    "a scaler before": (
        lambda b: make_pipeline(StandardScaler(), mean(b)).fit(X),
        "StandardScaler",
    ),
    "raw scores": (
        lambda b: GridSearchCV(linear(b), {"epsilon": [1.0, 2.0]}, cv=2).fit(X, Y),
        "GridSearchCV",
    ),
    "the exact mean": (
        lambda b: with_attribute(mean(b).fit(X), "mean_", X.mean(axis=0)),
        "mean_ is not what its fit released",
    ),
    "the records": (lambda b: with_attribute(mean(b).fit(X), "X_", X), "X_, which its fit"),
    "the records as a list": (
        lambda b: with_attribute(mean(b).fit(X), "extra", X.tolist()),
        "list of 40",
    ),
    "the records as a parameter": (
        lambda b: mean(b).fit(X).set_params(center=X),
        r"array of shape \(40, 3\)",
    ),
    "the records beside": (lambda b: [mean(b).fit(X), X], r"array of shape \(40, 3\)"),
    "one column beside": (lambda b: {"m": mean(b).fit(X), "y": list(map(float, Y))}, "list of 40"),
    "a small table beside": (
        lambda b: {"m": mean(b).fit(X), "mean": X.mean(0)},
        "beside the model",
    ),
    "an object of another package": (
        lambda b: [mean(b).fit(X), Foreign(X)],
        "test_model_file.Foreign",
    ),
    "a class replaced": (
        lambda b: with_attribute(mean(b).fit(X), "geometry_", X),
        "geometry_ is not what its fit released",
    ),
    "a plain model behind": (
        lambda b: make_pipeline(mean(b), LogisticRegression()).fit(X, Y),
        "LogisticRegression",
    ),
    "a frozen model": (
        lambda b: make_pipeline(FrozenEstimator(StandardScaler().fit(X)), mean(b)).fit(X),
        "StandardScaler",
    ),
    "a model that keeps its records": (
        lambda b: [mean(b).fit(X), KNeighborsClassifier().fit(X, Y)],
        "KNeighborsClassifier",
    ),
    "a bound method": (
        lambda b: make_pipeline(
            FunctionTransformer(StandardScaler().fit(X).transform), mean(b)
        ).fit(X),
        "StandardScaler",
    ),
    "a mean without privacy": (
        lambda b: [mean(b).fit(X), Recenter("euclidean").fit(X)],
        "Recenter",
    ),
    "a smaller epsilon": (
        lambda b: statement_of(mean(b).fit(X), planned_epsilon=0.1),
        "the epsilon that it states",
    ),
    "another unit": (lambda b: statement_of(mean(b).fit(X), unit="group"), "the unit that it"),
}


@pytest.mark.parametrize("write", [pickled(), pickled(2), joblib.dump], ids=["5", "2", "joblib"])
@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named(name, write, ledger, tmp_path):
    made, words = BAD[name]
    facts = found_in(made(ledger), ledger, tmp_path, write)
    assert re.search(words, "; ".join(facts.findings)), facts.findings


def test_the_command_names_a_bad_file(tmp_path, capsys):
    ledger = PrivacyAccountant(path=tmp_path / "a.ledger")
    joblib.dump(make_pipeline(StandardScaler(), mean(ledger)).fit(X), tmp_path / "model")
    assert main(["report", str(ledger.path), "--model", str(tmp_path / "model")]) == 1
    told = capsys.readouterr()
    assert "NOT the one that was charged" in told.out and "StandardScaler" in told.err


@pytest.mark.parametrize("write", [pickled(), joblib.dump], ids=["pickle", "joblib"])
@pytest.mark.parametrize("where", ["beside", "within", "in a statement"])
def test_a_command_is_named_and_never_run(where, write, ledger, tmp_path):
    harm = tmp_path / "harm"
    model, command = mean(ledger).fit(X), Runs(f'{sys.executable} -c \'open("{harm}", "w")\'')
    if where == "within":
        model.start = command
    elif where == "in a statement":
        model.privacy_spent_.public["n"] = command
    facts = found_in([model, command] if where == "beside" else model, ledger, tmp_path, write)
    assert any(f"run {os.system.__module__}.system" in text for text in facts.against)
    assert not harm.exists()
    joblib.load(tmp_path / "model") if write is joblib.dump else pickle.loads(
        (tmp_path / "model").read_bytes()
    )
    assert harm.exists()


def test_labels_that_occurred_are_named_and_combined_fits_are_not(ledger, tmp_path):
    from sklearn.ensemble import VotingClassifier

    combined = MultiOutputClassifier(linear(ledger)).fit(X, np.c_[Y, Y])
    facts = found_in(combined, ledger, tmp_path)
    assert len(facts.models) == 2 and facts.against == []
    vote = VotingClassifier([("a", linear(ledger))]).fit(X, Y)
    assert any("which labels occurred" in text for text in found_in(vote, ledger, tmp_path).against)


def test_the_verdict_says_what_was_compared_and_what_was_not(ledger, tmp_path, capsys):
    pickled()(mean(ledger).fit(X), tmp_path / "model")
    assert main(["report", str(ledger.path), "--model", str(tmp_path / "model")]) == 0
    out = capsys.readouterr().out
    assert "It is the one that was charged" in out and "mean_" in out
    assert "Not compared" in out and "geometry_ (an object)" in out and "repeated" in out
    statement = json.dumps(mean(ledger).fit(X).privacy_spent_.to_dict())
    (tmp_path / "model").write_text(statement)
    assert main(["report", str(ledger.path), "--model", str(tmp_path / "model")]) == 0
    assert "its statement alone" in capsys.readouterr().out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_that_nobody_writes_is_refused_at_once(ledger, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "skriemdp", "report", str(ledger.path)]
    done = subprocess.run(
        [*command, "--model", str(tmp_path / "pipe")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and "no regular file" in done.stderr
    for other in (tmp_path, "/dev/null"):
        assert main([*command[3:], "--model", str(other)]) == 2


@pytest.mark.parametrize("cut", [1, 10, 300, -20])
def test_a_damaged_file_is_refused(cut, ledger, tmp_path, capsys):
    for write in WRITTEN.values():
        write(mean(ledger).fit(X), tmp_path / "model")
        whole = (tmp_path / "model").read_bytes()
        (tmp_path / "model").write_bytes(whole[:cut])
        status = main(["report", str(ledger.path), "--model", str(tmp_path / "model")])
        assert status == 2 and "skriemdp:" in capsys.readouterr().err


def test_a_refit_is_compared_with_its_own_fit(ledger, tmp_path):
    model = mean(ledger).fit(X)
    first = model.mean_
    model.fit(X + 1.0)
    assert found_in(model, ledger, tmp_path).against == []
    model.mean_ = first
    assert found_in(model, ledger, tmp_path).against
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found_in(clone(mean(ledger)).fit(X), ledger, tmp_path).against == []
