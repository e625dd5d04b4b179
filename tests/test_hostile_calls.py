"""Hostile calls: whatever X, y, queries and parameters are, no message carries a record.

``python tests/test_hostile_calls.py 100000`` makes that many calls and prints what it found.
"""

import contextlib
import io
import logging
import re
import sys
import types
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from skriemdp import (
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateGridSearchCV,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    PrivateTangentPCA,
)
from skriemdp.federated import FederatedEstimator


class Recorder:
    """An accountant that admits everything and counts."""

    spends = 0

    def __sklearn_clone__(self):
        return self

    def composes(self, epsilon, delta):
        return False

    def spend(self, event, **details):
        self.spends += 1
        return types.SimpleNamespace(entry=self.spends)


class Interleaved(FederatedEstimator):
    """Records belong to two clients in turns."""

    def fit(self, X, y=None, clients=None, groups=None):
        n = X.shape[0] if hasattr(X, "shape") and X.shape else len(X)
        return super().fit(X, y, np.arange(n) % 2)


MEAN = PrivateFrechetMean(radius=1.0)
ESTIMATORS = [
    MEAN,
    PrivateFrechetMean(mechanism="gradient", radius=1.0),
    PrivateFrechetMean(center="private", radius="auto"),
    PrivateFrechetMean(uncertainty=True),
    PrivateMinimumDistanceToMean(uncertainty=True),
    PrivateTangentPCA(1),
    PrivateFrechetMean("sphere", radius=0.5),
    PrivateFrechetMean("spd", mechanism="tangent", radius=1.0),
    PrivateFrechetMean("hyperboloid", epsilon=8.0, radius=1.0),
    PrivateFrechetMean("grassmann", radius=0.3),
    PrivateMinimumDistanceToMean(),
    PrivateMinimumDistanceToMean(classes=[0, 1]),
    PrivatePrincipalEigenvector(),
    PrivatePrincipalEigenvector(mechanism="power", n_components=2, row_norm=1.0),
    PrivatePrincipalEigenvector(mechanism="gradient", row_norm=1.0),
    PrivatePrincipalEigenvector(delta=0.0),
    PrivateMatrixCompletion(),
    PrivateMatrixCompletion(rank=1, signal_test="none"),
    PrivateMatrixCompletion(method="stochastic", rank=1, signal_test="none", n_steps=5),
    PrivateGeodesicRegressor(),
    PrivateHyperbolicRegressor(),
    PrivateHyperbolicRegressor("sufficient-statistics", coordinates="lorentz"),
    PrivateHyperbolicRegressor("per-query", privacy_unit="label", n_queries=10**5),
    PrivateNoisyAdaGrad(n_steps=5),
    PrivateNoisyAdaGrad(classes=[0, 1], n_steps=5),
    PrivateNoisyAdaGrad("squared_error", "diagonal", n_steps=5),
    PrivateRiemannianERM(n_steps=5),
    PrivateRiemannianERM("sphere", n_steps=5),
    PrivateGridSearchCV(PrivateFrechetMean(noise="gaussian", radius=1.0), {"radius": [1.0, 3.0]}),
    PrivateGridSearchCV(PrivateMinimumDistanceToMean(), {"radius": [1.0, 3.0]}),
    PrivateGridSearchCV(PrivateNoisyAdaGrad(n_steps=2), {"alpha": [0.0, 0.1]}),
    PrivateGridSearchCV(PrivatePrincipalEigenvector(), {"n_components": [1, 2]}),
    PrivateGridSearchCV(PrivateMatrixCompletion(signal_test="none"), {"rank": [0, 1]}),
    PrivateGridSearchCV(PrivateHyperbolicRegressor(n_steps=2), {"radius": [1.0, 2.0]}),
    Interleaved(MEAN, 2),
    Interleaved(PrivatePrincipalEigenvector(row_norm=1.0, center="assume"), 2, unit="client"),
    Interleaved(PrivateRiemannianERM(), 2, local_steps=2),
]
METHODS = (
    "predict predict_proba decision_function transform inverse_transform score recommend "
    "predict_entries fit_transform"
).split()
ODD = [
    None, True, -1, 0, 1, 2, 10**9, 10**400, -(10**5000), 0.0, -0.5, 1e-320, 1e-200, 1e200, 1e308,
    np.nan, np.inf, "auto", "private", "nonsense", b"bytes", (), [1.0, 2.0], {"a": 1}, np.ones(3),
    range(10**7), 1j, 0.5, np.float32(0.5), lambda step: 1.0,
]  # fmt: skip
# Whose values are objects with errors of their own.
NOT_VARIED = {"accountant", "estimator", "callback", "n_jobs", "loss"}
# An integer of these many rounds or frequencies is allowed, but takes a while.
COSTLY = {"n_steps", "n_rounds", "local_steps", "n_frequencies", "n_queries", "mean_runs"}


class Secrets:
    """Entries of twelve digits and words, which all begin alike, so that one search finds any."""

    def __init__(self, digits, word):
        self.digits, self.word = digits, word

    def numbers(self, rng, shape, low=-3, high=1):
        tail = rng.integers(0, 10**7, size=shape)
        size = 10.0 ** rng.integers(low, high, size=shape)
        leading = int(self.digits) / 10 ** len(self.digits)
        sign = rng.choice([-1.0, 1.0], size=shape)
        return sign * (leading + tail * 10.0 ** -(7 + len(self.digits))) * size

    def words(self, rng, n):
        letters = np.array(list("bcdfghjklmnpqrstvwxz"))
        return np.array([self.word + "".join(rng.choice(letters, 6)) for _ in range(n)])

    def found_in(self, text):
        bare = re.sub(r"[^0-9a-z]", "", re.sub(r"e[+-]?\d+", "", text.lower()))
        digits = re.sub(r"[^0-9]", "", text)
        return self.digits in bare or self.digits in digits or self.word in text.lower()


def secrets_of(seed):
    rng = np.random.default_rng([seed, 77])
    digits = "".join(map(str, [rng.integers(1, 10), *rng.integers(0, 10, 4)]))
    return Secrets(digits, "".join(rng.choice(list("qxzjvkw"), 4)))


# -- hostile input ---------------------------------------------------------------------------------


def table(rng, secrets, estimator):
    n, d = int(rng.integers(8, 30)), int(rng.integers(3, 6))
    estimator = getattr(estimator, "estimator", estimator)
    kind = getattr(estimator, "manifold", "")
    X = secrets.numbers(rng, (n, d))
    valid = rng.random() < 0.6
    if kind == "sphere" and valid:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    if kind == "hyperboloid" and valid:
        X[:, 0] = np.sqrt(1.0 + (X[:, 1:] ** 2).sum(axis=1))
    if kind == "spd":
        X = secrets.numbers(rng, (n, 2, 2))
        X = X @ np.swapaxes(X, 1, 2) + 0.1 * np.eye(2) if valid else X
    if kind == "grassmann":
        X = secrets.numbers(rng, (n, 3, 1))
        X = np.linalg.qr(X)[0] if valid else X
    y = rng.integers(0, 2, n)
    y[:2] = 0, 1
    if isinstance(estimator, PrivateHyperbolicRegressor):
        y = secrets.numbers(rng, (n, 3 if estimator.coordinates == "lorentz" else 2))
        if estimator.coordinates == "lorentz":
            y[:, 0] = np.sqrt(1.0 + (y[:, 1:] ** 2).sum(axis=1))
    elif isinstance(estimator, PrivateGeodesicRegressor):
        y = secrets.numbers(rng, (n, 2))
    elif getattr(estimator, "loss", None) in ("squared_error", "huber"):
        y = secrets.numbers(rng, n)
    return X, y


def put(value):
    def change(rng, secrets, X):
        X = np.array(X, dtype=float)
        X.reshape(-1)[rng.integers(X.size)] = value
        return X

    return change


def as_words(rng, secrets, X):
    X = np.array(X, dtype=object)
    flat = X.reshape(-1)
    flat[rng.integers(flat.size)] = secrets.words(rng, 1)[0]
    return X


def as_things(rng, secrets, X):
    X = np.array(X, dtype=object)
    word = secrets.words(rng, 1)[0]
    things = [{word: 1}, [word], None, word.encode(), (word,), 1j, pd.Timestamp("2024"), object()]
    X.reshape(-1)[rng.integers(X.size)] = things[rng.integers(len(things))]
    return X


def ragged(rng, secrets, X):
    rows = np.array(X).reshape(len(X), -1).tolist()
    rows[rng.integers(len(rows))].pop()
    return rows


def flat(X):
    return np.array(X).reshape(len(X), -1)


def broken_sparse(rng, secrets, X):
    matrix = sparse.csr_array(flat(X))
    part = getattr(matrix, str(rng.choice(["indices", "indptr"])))
    part[rng.integers(len(part))] = rng.choice([-5, 10**6, 2**31 - 1])
    return matrix if rng.random() < 0.7 else sparse.csr_matrix(matrix, copy=False)


def broken_coo(rng, secrets, X):
    matrix = sparse.coo_array(flat(X))
    matrix.col[rng.integers(len(matrix.col))] = rng.choice([-5, 10**6])
    return matrix


CHANGES = {
    "nothing": lambda rng, secrets, X: X,
    "nan": put(np.nan),
    "infinity": put(np.inf),
    "huge": put(1e308),
    "denormal": put(5e-324),
    "word": as_words,
    "things": as_things,
    "ragged": ragged,
    "all words": lambda rng, secrets, X: secrets.words(rng, len(X))[:, None],
    "bytes": lambda rng, secrets, X: secrets.words(rng, len(X)).astype("S"),
    "words": lambda rng, secrets, X: secrets.words(rng, len(X)),
    "one row": lambda rng, secrets, X: X[:1],
    "no rows": lambda rng, secrets, X: X[:0],
    "first row": lambda rng, secrets, X: X[0],
    "number": lambda rng, secrets, X: float(np.ravel(X)[0]),
    "word alone": lambda rng, secrets, X: str(secrets.words(rng, 1)[0]),
    "none": lambda rng, secrets, X: None,
    "complex": lambda rng, secrets, X: np.array(X) * (1 + 1j),
    "list": lambda rng, secrets, X: np.array(X).tolist(),
    "tuple": lambda rng, secrets, X: tuple(map(tuple, flat(X))),
    "dict": lambda rng, secrets, X: dict(enumerate(np.ravel(X))),
    "set": lambda rng, secrets, X: set(np.ravel(X)),
    "iterator": lambda rng, secrets, X: iter(X),
    "stream": lambda rng, secrets, X: [flat(X)[i : i + 1] for i in range(len(X))],
    "stream with words": lambda rng, secrets, X: [flat(X), as_words(rng, secrets, flat(X))],
    "frame": lambda rng, secrets, X: pd.DataFrame(flat(X)).add_prefix("c"),
    "frame with words": lambda rng, secrets, X: pd.DataFrame(
        as_words(rng, secrets, flat(X))
    ).add_prefix("c"),
    "frame with categories": lambda rng, secrets, X: pd.DataFrame(flat(X)).assign(
        g=pd.Categorical(secrets.words(rng, len(X)))
    ),
    "frame with dates": lambda rng, secrets, X: pd.DataFrame(flat(X)).assign(
        when=pd.date_range("2024", periods=len(X))
    ),
    "frame with missing": lambda rng, secrets, X: (
        pd.DataFrame(flat(X)).astype("Float64").mask(flat(X) > 0)
    ),
    "series": lambda rng, secrets, X: pd.Series(np.ravel(X)),
    "masked": lambda rng, secrets, X: np.ma.masked_array(X, mask=np.array(X) > 0),
    "structured": lambda rng, secrets, X: np.rec.fromarrays(
        list(flat(X).T), names=["c" + str(i) for i in range(flat(X).shape[1])]
    ),
    "dates": lambda rng, secrets, X: (np.abs(flat(X)) * 1e12).astype("M8[s]"),
    "csr": lambda rng, secrets, X: sparse.csr_array(flat(X)),
    "csc": lambda rng, secrets, X: sparse.csc_matrix(flat(X)),
    "coo": lambda rng, secrets, X: sparse.coo_array(flat(X)),
    "lil": lambda rng, secrets, X: sparse.lil_array(flat(X)),
    "dok": lambda rng, secrets, X: sparse.dok_array(flat(X)),
    "bsr": lambda rng, secrets, X: sparse.bsr_array(flat(X)),
    "broken sparse": broken_sparse,
    "broken coo": broken_coo,
    "sparse nan": lambda rng, secrets, X: sparse.csr_array(put(np.nan)(rng, secrets, flat(X))),
    "sparse inf": lambda rng, secrets, X: sparse.csr_array(put(np.inf)(rng, secrets, flat(X))),
    "wider": lambda rng, secrets, X: np.hstack([flat(X), flat(X)]),
    "deeper": lambda rng, secrets, X: np.array(X)[..., None, None],
    "integers": lambda rng, secrets, X: (np.array(X) * 1e11).astype(np.int64),
    "whole numbers": lambda rng, secrets, X: (np.array(X) * 1e11).astype(object).astype(int),
    "float32": lambda rng, secrets, X: np.array(X, dtype=np.float32),
    "long": lambda rng, secrets, X: np.array(X, dtype=np.longdouble),
    "booleans": lambda rng, secrets, X: np.array(X) > 0,
}


def changed(name, rng, secrets, X):
    """`X` after a change; as it is where the change does not apply."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return CHANGES[name](rng, secrets, X)
        except Exception:
            return X


def draw_call(seed, secrets, fitted):
    """One call: (what it is, a function of no arguments, its recorder)."""
    rng = np.random.default_rng(seed)
    index = int(rng.integers(len(ESTIMATORS)))
    model, recorder = ESTIMATORS[index], Recorder()
    X, y = table(rng, secrets, model)
    rows = len(X)
    names = list(CHANGES)
    change_x = str(rng.choice(names)) if rng.random() < 0.7 else "nothing"
    change_y = str(rng.choice(names)) if rng.random() < 0.4 else "nothing"
    X, y = changed(change_x, rng, secrets, X), changed(change_y, rng, secrets, y)
    method = "fit" if rng.random() < 0.6 else str(rng.choice(METHODS))
    what = [type(model).__name__, str(index), method, change_x, change_y]
    if method == "fit":
        model = clone(model).set_params(accountant=recorder)
        if rng.random() < 0.4:
            name = str(rng.choice(sorted(set(model.get_params(deep=False)) - NOT_VARIED)))
            value = ODD[rng.integers(len(ODD))]
            model.set_params(**{name: value})
            what.append(f"{name}=" + type(value).__name__)
        if rng.random() < 0.1:
            for name in ("radius", "row_norm", "feature_norm"):
                if name in model.get_params(deep=False):
                    model.set_params(**{name: 10.0 ** rng.integers(-70, 70)})
        return what, lambda: model.fit(X, y), recorder
    if fitted[index] is None or not hasattr(fitted[index], method):
        return what, lambda: None, recorder
    model = fitted[index]
    call = getattr(model, method)
    if method in ("predict", "predict_proba", "decision_function", "transform"):
        return what, lambda: call(X), recorder
    if method == "recommend":
        return what, lambda: call(X, 2), recorder
    if method == "score" and rng.random() < 0.5:
        change = str(rng.choice(names))
        weight = changed(change, rng, secrets, np.abs(secrets.numbers(rng, rows)))
        return [*what, change], lambda: call(X, y, sample_weight=weight), recorder
    if method == "inverse_transform":
        return what, lambda: call(X), recorder
    if method == "fit_transform":
        model = clone(ESTIMATORS[index]).set_params(accountant=recorder)
        return what, lambda: model.fit_transform(X, y), recorder
    return what, lambda: call(X, y), recorder


# -- what a call shows -----------------------------------------------------------------------------


def chain(error):
    seen, waiting = [], [error]
    while waiting:
        error = waiting.pop()
        if error is None or any(error is other for other in seen):
            continue
        seen.append(error)
        waiting += [error.__cause__, error.__context__, *getattr(error, "exceptions", ())]
    return seen


def shown_by(call):
    """The text that a call makes anywhere, and the error that ended it."""
    streams = io.StringIO()
    handler = logging.StreamHandler(streams)
    logging.getLogger().addHandler(handler)
    error = None
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(streams),
            contextlib.redirect_stderr(streams),
        ):
            warnings.simplefilter("always")
            try:
                call()
            except Exception as problem:
                error = problem
    finally:
        logging.getLogger().removeHandler(handler)
    parts = [streams.getvalue(), *(str(warning.message) for warning in caught)]
    for link in chain(error):
        parts += [str(link), repr(link), repr(link.args), *getattr(link, "__notes__", ())]
    return "\n".join(parts), error


def fitted_models(secrets):
    """Each estimator fitted to a valid table, for the calls that ask about other rows."""
    models = []
    for estimator in ESTIMATORS:
        rng = np.random.default_rng(0)
        for _ in range(50):
            X, y = table(rng, secrets, estimator)
            model = clone(estimator).set_params(accountant=Recorder())
            with warnings.catch_warnings(), contextlib.suppress(Exception):
                warnings.simplefilter("ignore")
                models.append(model.fit(X, y))
                break
        else:
            models.append(None)
    return models


class Findings:
    def __init__(self):
        self.calls = self.errors = 0
        self.leaks, self.crashes, self.odd = [], [], []
        self.kinds = Counter()

    def __str__(self):
        return (
            f"{self.calls} calls, {self.errors} errors {dict(self.kinds.most_common())}\n"
            f"{len(self.leaks)} leaks, {len(self.crashes)} charged and then crashed"
        )


def attack(first, n_calls, report=None):
    """Make `n_calls` hostile calls; a hit counts if other secrets at the same place are hit too."""
    findings = Findings()
    both = secrets_of(first), secrets_of(first + 1)
    fitted = fitted_models(both[0])
    for seed in range(first, first + n_calls):
        what, call, recorder = draw_call(seed, both[0], fitted)
        text, error = shown_by(call)
        findings.calls += 1
        if error is not None:
            findings.errors += 1
            findings.kinds[type(error).__name__] += 1
            if not isinstance(error, (ValueError, TypeError)):
                findings.odd.append((seed, what, text))
            if recorder.spends:
                if report is not None:
                    print(seed, what, text[:1500], flush=True)
                findings.crashes.append((seed, what, text))
        if both[0].found_in(text):
            what, call, _ = draw_call(seed, both[1], fitted)
            again, _ = shown_by(call)
            if both[1].found_in(again):
                findings.leaks.append((seed, what, text))
        if report is not None and (seed - first) % 1000 == 999:
            report(findings)
    return findings


@pytest.mark.slow
def test_no_message_carries_a_record_and_no_charged_fit_crashes():
    findings = attack(0, 400)
    assert findings.leaks == []
    assert findings.crashes == []
    assert findings.errors > 150


LEAKS = {
    "error": 'raise ValueError(f"bad {X}")',
    "note": 'error = ValueError("bad"); error.add_note(str(X)); raise error',
    "warning": 'warnings.warn(f"{X}"); return X',
    "print": "print(X); return X",
    "log": 'logging.getLogger("skriemdp").warning("%s", X); return X',
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_planted_leak_is_found(leak, monkeypatch):
    secrets, place = secrets_of(5), {"__name__": "skriemdp.planted"}
    exec(f"import logging, warnings\ndef planted(geometry, X):\n    {LEAKS[leak]}", place)
    monkeypatch.setattr("skriemdp.mean.domains.as_points", place["planted"])
    X, _ = table(np.random.default_rng(0), secrets, MEAN)
    text, _ = shown_by(lambda: clone(MEAN).set_params(accountant=Recorder()).fit(X))
    assert secrets.found_in(text)


@pytest.mark.parametrize("method", ["fit", "predict", "transform", "score"])
def test_what_foreign_code_says_of_a_record_is_withheld(method, monkeypatch):
    secrets = secrets_of(6)
    X, _ = table(np.random.default_rng(0), secrets, MEAN)
    model = clone(MEAN).set_params(accountant=Recorder()).fit(X)

    def foreign(geometry, X):
        try:
            raise KeyError(str(X))
        except KeyError:
            raise ValueError(f"bad {X}")  # noqa: B904

    for module in ("domains", "estimator"):
        monkeypatch.setattr(f"skriemdp.mean.{module}.as_points", foreign)
    text, error = shown_by(lambda: getattr(model, method)(X))
    assert isinstance(error, ValueError)
    assert error.__context__ is None and error.__cause__ is None
    assert not secrets.found_in(text)


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 10**6
    found = attack(first, int(sys.argv[1]), lambda f: print(f, flush=True))
    print(found)
    for seed, what, text in found.leaks[:20] + found.crashes[:40] + found.odd[:20]:
        print(seed, what, text[:600], "\n", sep="\n")
