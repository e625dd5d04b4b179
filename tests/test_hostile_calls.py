"""Hostile calls: whatever X, y, queries and parameters are, no message carries a record.

``python tests/test_hostile_calls.py 100000 7`` makes that many calls, from seed 7 on, and prints
what it found.  A third are fits and queries of hostile tables, a third are other callables that
take rows, and a third are all public callables, with a wrong value or two for any parameter.  A
call has ten seconds and a gibibyte.
"""

import contextlib
import datetime
import functools
import importlib
import inspect
import itertools
import math
import numbers
import os
import pkgutil
import re
import resource
import signal
import socketserver
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import GEOMETRIES, RecordingAccountant, shown_by
from hypothesis import given, settings
from hypothesis import strategies as st
from pymanopt import manifolds
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from test_public_names import NAMESPACES, public

import skriemdp
from skriemdp import (
    Forecast,
    PrivacyReport,
    PrivacySpent,
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateGridSearchCV,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    PrivateTangentClassifier,
    PrivateTangentPCA,
    PublicTable,
)
from skriemdp._descent.problem import FrechetProblem
from skriemdp._errors import Public
from skriemdp._groups import read_groups
from skriemdp._quiet import QuietQueries
from skriemdp._validation import shown
from skriemdp.datasets import from_frame, region_covariance
from skriemdp.federated import (
    Agent,
    AggregatorLoop,
    AnswerBook,
    Checkpoint,
    Cohort,
    FederatedEstimator,
    Identity,
    InProcessTransport,
    KernelQuery,
    LabelQuery,
    LocalAgent,
    LocalSettings,
    LocalTask,
    SumsAgent,
    SumsLoop,
    sums_agent,
    sums_agreement,
)
from skriemdp.federated._attendance import Attempt
from skriemdp.geometry import (
    Euclidean,
    GeodesicBall,
    Geometry,
    Hyperboloid,
    Poincare,
    PymanoptGeometry,
    Sphere,
    to_lat_lon,
)
from skriemdp.inference import ConfidenceRegion, MeanInference, MedianInference
from skriemdp.ledger import LedgerTotal, Remaining, Spend
from skriemdp.moabb import SubjectDecoder
from skriemdp.page import gather
from skriemdp.plotting import (
    AdaGradDisplay,
    CapturedVarianceDisplay,
    CompletionDisplay,
    NoiseBallDisplay,
    PoincareDiskDisplay,
    SpectrumDisplay,
)
from skriemdp.preprocessing import PerGroup, Recenter
from skriemdp.privacy import GaussianEvent, PureEvent, Sensitivity
from skriemdp.pymanopt_optimizers import (
    PerSampleProblem,
    PrivateGradientDescent,
    PrivateStochasticGradientDescent,
    PrivateVarianceReducedGradientDescent,
)
from skriemdp.schedules import FunctionClass

matplotlib.use("Agg")


class Interleaved(FederatedEstimator):
    """Records belong to two clients in turns."""

    def fit(self, X, y=None, clients=None, groups=None):
        n = X.shape[0] if hasattr(X, "shape") and X.shape else len(X)
        return super().fit(X, y, np.arange(n) % 2)


MEAN = PrivateFrechetMean(radius=1.0)
ESTIMATORS = [
    MEAN,
    PrivateFrechetMean(mechanism="gradient", radius=1.0),
    PrivateFrechetMean(center="private", radius="private"),
    PrivateFrechetMean(uncertainty=True),
    PrivateFrechetMean(statistic="median", uncertainty=True),
    PrivateMinimumDistanceToMean(uncertainty=True),
    PrivateTangentPCA(1),
    PrivateFrechetMean("sphere", radius=0.5),
    PrivateFrechetMean("spd", mechanism="tangent", center=np.eye(2), radius=1.0),
    PrivateFrechetMean("hyperboloid", epsilon=8.0, radius=1.0),
    PrivateFrechetMean("grassmann", radius=0.3),
    PrivateMinimumDistanceToMean(),
    PrivateMinimumDistanceToMean(classes=[0, 1]),
    PrivateTangentClassifier(),
    PrivateTangentClassifier("sphere", radius=0.5, classes=[0, 1]),
    PrivatePrincipalEigenvector(),
    PrivatePrincipalEigenvector(mechanism="power", n_components=2, row_norm=1.0),
    PrivatePrincipalEigenvector(mechanism="gradient", row_norm=1.0),
    PrivatePrincipalEigenvector(delta=0.0),
    PrivateMatrixCompletion(),
    PrivateMatrixCompletion(rank=1, signal_test="none"),
    PrivateMatrixCompletion(mechanism="stochastic", rank=1, signal_test="none", n_steps=5),
    PrivateGeodesicRegressor(),
    PrivateHyperbolicRegressor(),
    PrivateHyperbolicRegressor("sufficient-statistics", manifold="hyperboloid"),
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
    FederatedEstimator(MEAN, 2, 2),
    PerGroup(Recenter("euclidean"), PrivateFrechetMean(radius=3.0)),
    PerGroup(Recenter("euclidean"), PrivateMinimumDistanceToMean(radius=3.0)),
    Recenter("euclidean"),
    Recenter("spd"),
    PublicTable(),
    SubjectDecoder(PrivateMinimumDistanceToMean(radius=3.0), "recenter"),
]
METHODS = (
    "predict predict_proba decision_function transform inverse_transform score recommend "
    "predict_entries fit_transform"
).split()
ODD = [
    None, True, -1, 0, 1, 2, 10**9, 10**400, -(10**5000), 0.0, -0.5, 1e-320, 1e-200, 1e200, 1e308,
    np.nan, np.inf, "auto", "private", "nonsense", b"bytes", (), [1.0, 2.0], {"a": 1}, np.ones(3),
    range(10**7), 1j, 0.5, np.float32(0.5), lambda step: 1.0, int, dict, ValueError, len, max,
    [].append, np.sum, lambda *given: None, lambda *given: 1 / 0, lambda model, X, y: 1 / 0,
]  # fmt: skip


NO_VALUES = [None, True, -1, 0, 0.5, np.inf, -np.inf, np.nan, "x", [], [1.0], {}, object()]


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

    def found_in(self, texts):
        text = "\n".join(texts)
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
        y = secrets.numbers(rng, (n, 3 if estimator.manifold else 2))
        if estimator.manifold:
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


def put_some(value):
    """Some records, more or fewer with other secrets: a message that counts them differs."""

    def change(rng, secrets, X):
        X = np.array(X, dtype=object if isinstance(value, str) else float)
        X.reshape(len(X), -1)[: 2 + int(secrets.digits) % 5, 0] = value
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
    "some nan": put_some(np.nan),
    "some infinite": put_some(-np.inf),
    "some negative": put_some(-5.0),
    "some huge": put_some(1e200),
    "some words": put_some("word"),
    "word": as_words,
    "things": as_things,
    "ragged": ragged,
    "all words": lambda rng, secrets, X: secrets.words(rng, len(X))[:, None],
    "bytes": lambda rng, secrets, X: secrets.words(rng, len(X)).astype("S"),
    "words": lambda rng, secrets, X: secrets.words(rng, len(X)),
    "one row": lambda rng, secrets, X: X[:1],
    "no rows": lambda rng, secrets, X: X[:0],
    "no columns": lambda rng, secrets, X: X[:, :0],
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
    "one record": lambda rng, secrets, X: np.array(X)[None, None],
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


def with_recorder(estimator, recorder):
    """An unfitted copy that charges `recorder`, wherever it keeps its accountant."""
    model = clone(estimator)
    names = [name for name in model.get_params() if name.split("__")[-1] == "accountant"]
    return model.set_params(**dict.fromkeys(names, recorder))


def owners(estimator, n):
    """What `fit` asks for besides rows: who owns them."""
    required = {PerGroup: "groups", FederatedEstimator: "clients", SubjectDecoder: "subjects"}
    return {required[type(estimator)]: np.arange(n) % 4} if type(estimator) in required else {}


def draw_call(seed, secrets, fitted):
    """One call: (what it is, a function of no arguments, its recorder)."""
    rng = np.random.default_rng(seed)
    index = int(rng.integers(len(ESTIMATORS)))
    model, recorder = ESTIMATORS[index], RecordingAccountant()
    X, y = table(rng, secrets, model)
    rows = len(X)
    names = list(CHANGES)
    change_x = str(rng.choice(names)) if rng.random() < 0.7 else "nothing"
    change_y = str(rng.choice(names)) if rng.random() < 0.4 else "nothing"
    X, y = changed(change_x, rng, secrets, X), changed(change_y, rng, secrets, y)
    method = "fit" if rng.random() < 0.6 else str(rng.choice(METHODS))
    what = [type(model).__name__, str(index), method, change_x, change_y]
    if method == "fit":
        model = with_recorder(model, recorder)
        if rng.random() < 0.4:
            name = str(rng.choice(sorted(model.get_params(deep=False))))
            value = ODD[rng.integers(len(ODD))]
            model.set_params(**{name: value})
            what.append(f"{name}=" + type(value).__name__)
        if rng.random() < 0.1:
            for name in ("radius", "row_norm", "feature_norm"):
                if name in model.get_params(deep=False):
                    model.set_params(**{name: 10.0 ** rng.integers(-70, 70)})
        owned = owners(model, rows)
        return what, lambda: model.fit(X, y, **owned), recorder
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
        model = with_recorder(ESTIMATORS[index], recorder)
        return what, lambda: model.fit_transform(X, y), recorder
    return what, lambda: call(X, y), recorder


# -- every public callable that takes rows ---------------------------------------------------------

# Numbers only: what is public, released or charged.  The page reads ledgers.
WITHOUT_ROWS = {"riemannian_laws", "page", "ledger", "privacy", "schedules"}
# Parameters without a default that hold no records; others do, whatever they are called.
NO_ROWS = {
    "integers",
    "accountant", "agents", "book", "catalogue", "client", "cost", "delta", "dim", "draws",
    "epsilon", "estimator", "estimators", "event", "fit_id", "geometry", "label", "length_scale",
    "local", "manifold", "message", "model", "n", "name", "noise_multiplier", "parts", "path",
    "problem", "radius", "release", "ridge", "rng", "round", "schedule", "size", "sizes", "start",
    "state", "task", "tasks", "transport", "trials", "weights", "domain", "edges", "folder",
    "n_clients", "local_steps", "param_grid", "point_shape", "transformer", "settings", "value",
    "n_fits", "noise_scale", "answer", "plan", "plans", "shape",
}  # fmt: skip
# Whose records entered elsewhere: a client's through `sums_agent` and `FederatedEstimator.fit`.
WITHOUT_NEW_ROWS = {
    "Agent",
    "InProcessTransport",
    "LocalAgent",
    "Participation",
    "SumsLoop",
    "SumsAgent",
    "learn_from_sums",
}
WITHOUT_NEW_ROWS |= {"AnswerBook", "AggregatorLoop", "Cohort", "CohortLoop"}
# Optional ones that do.
ROWS = {"y", "groups", "clients", "sample_weight", "truth", "background", "popmean", "items"}
ROWS |= {"ratings", "public_X", "public_y", "initial_point"}


def public_names():
    """What users import: names that `skriemdp` and its public modules list, by place."""
    names = {name: getattr(skriemdp, name) for name in skriemdp.__all__}
    for found in pkgutil.iter_modules(skriemdp.__path__):
        if not found.name.startswith("_") and found.name not in WITHOUT_ROWS:
            module = importlib.import_module(f"skriemdp.{found.name}")
            for name in getattr(module, "__all__", ()):
                names[f"{found.name}.{name}"] = getattr(module, name)
    return names


def row_parameters(function):
    """Names of the parameters that take records; empty where nothing is known of them."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        p.name
        for p in parameters
        if p.name not in ("self", "cls")
        and (p.name in ROWS or (p.default is p.empty and p.kind in kinds and p.name not in NO_ROWS))
    ]


@functools.cache
def by_class():
    """What is discovered, class by class, so that large classes are not attacked more."""
    classes = {}
    for found in discovered():
        classes.setdefault(found[0] or found[1], []).append(found)
    return list(classes.values())


def discovered():
    """Public callables that take rows: (class or None, name, function)."""
    found, seen = [], set()
    for place, thing in public_names().items():
        if id(thing) in seen or not callable(thing) or place.split(".")[-1] in WITHOUT_NEW_ROWS:
            continue
        seen.add(id(thing))
        if not inspect.isclass(thing):
            found += [(None, place, thing)] * bool(row_parameters(thing))
            continue
        for name, member in inspect.getmembers(thing, callable):
            hidden = name.startswith(("_", "get_", "set_")) or issubclass(thing, (tuple, Exception))
            if not hidden and row_parameters(member):
                found.append((thing, name, member))
        made = not issubclass(thing, BaseEstimator) and thing.__module__.startswith("skriemdp")
        if made and set(row_parameters(thing)) & {"data", "query", *ROWS}:
            found.append((None, place, thing))
    return found


OPTIMIZERS = {
    PrivateGradientDescent: {"max_iterations": 2},
    PrivateStochasticGradientDescent: {"batch_size": 4, "max_iterations": 2},
    PrivateVarianceReducedGradientDescent: {"batch_size": 4, "max_iterations": 10},
}


def gradient(point, X, y=None):
    return point - X


def a_problem(rng, secrets):
    return PerSampleProblem(Euclidean(4), None, secrets.numbers(rng, (12, 4)), gradient=gradient)


def summed(data, trials):
    return np.sum(np.asarray(data, dtype=float)) + np.ones(trials)


# Objects that are neither estimators nor geometries.
MADE = {
    ConfidenceRegion: lambda: ConfidenceRegion(Euclidean(4), np.zeros(4), np.eye(4), 6.0, 0.95),
    MeanInference: lambda: MeanInference(
        Euclidean(2), np.zeros(2), 1.0, np.zeros(2), np.eye(2), 500, 0.01, 0.01
    ),
    MedianInference: lambda: MedianInference(
        Euclidean(2), np.zeros(2), 1.0, 0.5, np.eye(3), 0.01, np.eye(3), 0.01, 500
    ),
    GeodesicBall: lambda: GeodesicBall(Euclidean(4), np.zeros(4), 1.0),
    KernelQuery: lambda: KernelQuery(Euclidean(4), (0.0,) * 4, 1.0),
    LabelQuery: lambda: LabelQuery(Euclidean(4)),
    AdaGradDisplay: lambda: AdaGradDisplay(np.ones(3)),
    CapturedVarianceDisplay: lambda: CapturedVarianceDisplay(np.ones(2), np.ones((2, 3))),
    CompletionDisplay: lambda: CompletionDisplay(np.ones(3)),
    NoiseBallDisplay: lambda: NoiseBallDisplay(Sphere(2), np.eye(3)[0], 0.1),
    PoincareDiskDisplay: lambda: PoincareDiskDisplay(np.eye(3), np.ones((3, 2, 3))),
    SpectrumDisplay: lambda: SpectrumDisplay(np.ones(3), 1.0),
    PymanoptGeometry: lambda: PymanoptGeometry(manifolds.Oblique(3, 2)),
}  # fmt: skip
MADE |= {kind: functools.partial(kind, accountant=RecordingAccountant(), verbosity=0, **more)
         for kind, more in OPTIMIZERS.items()}  # fmt: skip


@functools.cache
def components():
    return PrivatePrincipalEigenvector(accountant=RecordingAccountant()).fit(np.eye(30, 4))


# What callables are given besides rows.
GIVEN = {
    "catalogue": lambda rng, secrets: np.arange(5),
    "cost": lambda rng, secrets: None,
    "draws": lambda rng, secrets: 2,
    "estimator": lambda rng, secrets: components(),
    "estimators": lambda rng, secrets: [],
    "geometry": lambda rng, secrets: Euclidean(4),
    "length_scale": lambda rng, secrets: 1.0,
    "manifold": lambda rng, secrets: Euclidean(4),
    "noise_scale": lambda rng, secrets: 1.0,
    "problem": a_problem,
    "radius": lambda rng, secrets: 1.0,
    "release": lambda rng, secrets: summed,
    "ridge": lambda rng, secrets: 1.0,
}


def objects(owner, fitted):
    """What a public class's methods are called on; none means that nobody knows how."""
    if issubclass(owner, BaseEstimator):
        return [model for model in fitted if type(model) is owner]
    if issubclass(owner, Geometry):
        same = [geometry for geometry in GEOMETRIES if isinstance(geometry, owner)]
        return same or [MADE[owner]()]
    return [MADE[owner]()] if owner in MADE else []


def rows_for(name, rng, secrets, X, y):
    """Records for a parameter of this name; any change of them is made later."""
    n = len(X)
    if name in ("groups", "clients", "users"):
        return secrets.words(rng, 4)[np.arange(n) % 4]
    if name in ("sample_weight", "ratings", "scores", "scores_neighbour"):
        return np.abs(secrets.numbers(rng, n))
    if name == "items":
        return np.arange(n) % 6
    if name == "images":
        return np.abs(secrets.numbers(rng, (n, 8, 8), high=0))
    if name in ("lat", "lon"):
        return secrets.numbers(rng, n)
    if name in ("wanted", "Z", "points", "clouds"):
        return secrets.numbers(rng, (n, 3, 3)[: int(rng.integers(2, 4))])
    return y if name == "y" else X


def draw_discovered(seed, secrets, fitted, only=None):
    """One call of a public callable: (what it is, a function of no arguments, its recorder)."""
    rng, recorder = np.random.default_rng(seed), RecordingAccountant()
    groups = by_class() if only is None else [[only]]
    choice = groups[rng.integers(len(groups))]
    owner, name, function = choice[rng.integers(len(choice))]
    owned = [None] if owner is None else objects(owner, fitted)
    target = owned[rng.integers(len(owned))]
    X, y = table(rng, secrets, target)
    if isinstance(target, Geometry):
        X = secrets.numbers(rng, (len(X), *target.shape))
    changes, arguments = [], {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in row_parameters(function):
            optional = parameter.default is not parameter.empty
            needed = isinstance(target, PerGroup) or parameter.name in ("clients", "items")
            if optional and not needed and rng.random() < 0.5:
                continue
            value = rows_for(parameter.name, rng, secrets, X, y)
            change = str(rng.choice(list(CHANGES))) if rng.random() < 0.5 else "nothing"
            given = changed(change, rng, secrets, value)
            kernel = isinstance(target, (Geometry, GeodesicBall, KernelQuery, LabelQuery))
            # Formulas take arrays of numbers, and read no tables.
            numbers = isinstance(given, np.ndarray) and given.dtype.kind in "biufc"
            arguments[parameter.name] = given if numbers or not kernel else value
            changes.append(change)
        elif parameter.name in GIVEN and parameter.default is parameter.empty:
            arguments[parameter.name] = GIVEN[parameter.name](rng, secrets)
    if owner is not None:
        if name.startswith("fit"):
            target = with_recorder(target, recorder)
        function = getattr(target, name, None)
    what = [owner.__name__ if owner else "", name, *changes]
    if function is None:  # an estimator without this query
        return what, lambda: None, recorder
    if name == "mean_test":
        return what, lambda: function(MADE[MeanInference](), **arguments), recorder
    if name.endswith("Display"):
        return what, lambda: drawn(function(**arguments)), recorder
    return what, lambda: function(**arguments), recorder


def drawn(display):
    try:
        display.plot()
    finally:
        plt.close("all")


# -- every parameter of every public callable ------------------------------------------------------


class Broken:
    """An object whose every answer is an error."""

    def __getattr__(self, name):
        raise BROKEN(name)

    def fail(self, *given):
        raise BROKEN("an object of a user")

    __float__ = __int__ = __index__ = __len__ = __iter__ = __eq__ = __lt__ = __bool__ = fail
    __hash__ = __repr__ = __str__ = __array__ = fail


BROKEN = type("BROKEN", (Exception,), {"__doc__": "What a user's own object raises."})
NESTED = functools.reduce(lambda inner, _: [inner], range(900), 1.0)
WRONG = [
    *ODD, *NO_VALUES, "", "x" * 10**5, "a\0b", "\ud800", "../..", "1", "inf", -0.0, 2**62, 2**63,
    10**18, 1e-100, 1e100, 5e-324, Decimal("0.5"), Decimal("NaN"), Fraction(1, 3), np.int64(-3),
    np.bool_(True), np.uint8(200), np.array(1.0), np.array([]), np.zeros((0, 3)), np.eye(3),
    np.ones((2, 2, 2)), np.array(["a"], dtype=object), np.array("2024", "M8[D]"), np.ma.masked,
    np.full(4, np.nan), np.array([1 + 1j]), np.zeros(3, dtype=[("a", float)]), pd.NA, pd.NaT,
    pd.Series([1.0, 2.0]), pd.DataFrame({"a": [1.0]}), sparse.csr_array(np.eye(2)), set(), {1, 2},
    frozenset({None}), slice(None), ..., NotImplemented, bytearray(3), memoryview(b"abc"),
    [[1.0], [2.0, 3.0]], [None], ["a", 1], [np.nan], [np.inf, -np.inf], [10**400], [[]], (1.0,),
    (0.0, 0.0), (2.0, 1.0), (np.nan, np.nan), (1, 2, 3), {"radius": 1.0}, {1: 2}, {None: None},
    NESTED, Broken(), object, type, math, Euclidean(4), Sphere, MEAN, PrivateFrechetMean,
    datetime.date(2024, 1, 1), Path("nowhere"), np.random.default_rng(0), np.random.RandomState(0),
    np.random, iter([1.0]), (x for x in [1.0]), GaussianEvent(1.0), RecordingAccountant(),
    lambda: None, lambda x: x, lambda *given: np.nan, lambda *given: "word", lambda *given: given,
]  # fmt: skip

NAMES = ("east", "west")
BALL = GeodesicBall(Euclidean(4), np.zeros(4), 1.0)
SETTINGS = LocalSettings("rsgd", 2, 0.1, 1.0, 1.0)


def a_file(name):
    return os.path.join(tempfile.mkdtemp(), name)


def an_identity(name):
    return Identity(name.encode().ljust(32, b"."))


def a_cohort():
    return Cohort({name: an_identity(name).public for name in NAMES})


def an_agent():
    return Agent("east", a_problem_of_means(), SETTINGS, 5.0, BALL)


def a_problem_of_means():
    return FrechetProblem(BALL, np.full((20, 4), 0.1))


@functools.cache
def a_dataset():
    return np.full((40, 3), 0.1) * np.arange(1, 4)


def a_client(cohort=None, name="east", **more):
    if cohort is not None:
        more |= {"cohort": cohort, "identity": an_identity(name)}
    account = skriemdp.PrivacyAccountant(100.0, path=a_file("ledger"))
    book = AnswerBook(a_file("answers"))
    return sums_agent(MEAN, a_dataset(), client=name, book=book, accountant=account, **more)


def clients(cohort=None, **more):
    return InProcessTransport({name: a_client(cohort, name, **more) for name in NAMES})


def trusting():
    return clients(trust="aggregator")


def a_loop():
    sizes = dict.fromkeys(NAMES, 40)
    return AggregatorLoop(MEAN, sizes, a_dataset(), accountant=skriemdp.PrivacyAccountant(100.0))


# Values of parameters without a default, by "class or function.name" or by name.
KNOWN = {
    "a": lambda: 1.0,
    "accountant": skriemdp.PrivacyAccountant,
    "agents": lambda: {"east": an_agent()},
    "alarm": lambda: 0.05,
    "book": lambda: AnswerBook(a_file("answers")),
    "bracket": lambda: (0.1, 100.0),
    "budget": skriemdp.PrivacyAccountant,
    "build_agent": lambda: lambda config: an_agent(),
    "build_deployment": lambda: lambda config: None,
    "catalogue": lambda: np.arange(5),
    "center": lambda: np.zeros(4),
    "charge": lambda: lambda: None,
    "checkpoint": lambda: Checkpoint(a_file("run")),
    "client": lambda: "east",
    "clients": lambda: NAMES,
    "clients_per_round": lambda: 1,
    "cohort": a_cohort,
    "cost": lambda: None,
    "count": lambda: 2,
    "covariance": lambda: np.eye(4),
    "curvature": lambda: -1.0,
    "data": lambda: a_dataset(),
    "delta": lambda: 1e-5,
    "deltas": lambda: (0.1, 0.0),
    "diameter": lambda: 1.0,
    "dim": lambda: 2,
    "distance": lambda: 1.0,
    "domain": lambda: BALL,
    "draws": lambda: 2,
    "edges": lambda: np.array([[0, 1], [1, 2], [0, 3]]),
    "epsilon": lambda: 1.0,
    "epsilons": lambda: (0.0, 1.0),
    "epsilon_0": lambda: 1.0,
    "delta_0": lambda: 1e-6,
    "estimator": lambda: MEAN,
    "estimators": lambda: [components()],
    "event": lambda: GaussianEvent(5.0),
    "events": lambda: (GaussianEvent(5.0), PureEvent(0.5)),
    "fit_id": lambda: "spring",
    "function_class": lambda: FunctionClass("convex", 3, 1.0, diameter=1.0),
    "geometry": lambda: Euclidean(4),
    "grid": lambda: None,
    "iterate": lambda: 1.0,
    "k": lambda: 2,
    "kappa": lambda: 0.0,
    "label": lambda: 0,
    "largest": lambda: 1.0,
    "length": lambda: 1.0,
    "length_scale": lambda: 1.0,
    "level": lambda: 0.9,
    "lipschitz": lambda: 1.0,
    "local": lambda: "rsgd",
    "local_steps": lambda: 2,
    "loop": lambda: SumsLoop(NAMES, 3),
    "lowest_curvature": lambda: -1.0,
    "make_event": lambda: lambda scale: GaussianEvent(scale),
    "manifold": lambda: "euclidean",
    "mean": lambda: 2.0,
    "members": lambda: {name: an_identity(name).public for name in NAMES},
    "messages": lambda: {"east": b"junk"},
    "message": lambda: b"message",
    "mu": lambda: 0.5,
    "n": lambda: 100,
    "n_clients": lambda: 4,
    "n_fits": lambda: 3,
    "n_records": lambda: 100,
    "n_rounds": lambda: 2,
    "n_steps": lambda: 5,
    "name": lambda: "east",
    "nodes": lambda: {"east": 1},
    "noise_multiplier": lambda: 5.0,
    "noise_scale": lambda: 1.0,
    "noise_variance": lambda: 1.0,
    "norm": lambda: 1.0,
    "norm_bounds": lambda: [1.0, 2.0],
    "order": lambda: 2.0,
    "p": lambda: 1,
    "param_grid": lambda: {"radius": [1.0, 2.0]},
    "parts": lambda: 2,
    "path": lambda: a_file("file"),
    "point_shape": lambda: (4,),
    "population": lambda: 1000,
    "batch_size": lambda: 10,
    "probability": lambda: 0.5,
    "problem": lambda: PerSampleProblem(Euclidean(3), None, a_dataset(), gradient=gradient),
    "query": lambda: (0.0,) * 4,
    "radius": lambda: 1.0,
    "release": lambda: summed,
    "rho": lambda: 0.1,
    "ridge": lambda: 1.0,
    "rng": lambda: np.random.default_rng(0),
    "round": lambda: 0,
    "row_norm": lambda: 1.0,
    "sampling_probability": lambda: 0.1,
    "scale": lambda: 1.0,
    "scale_over_sensitivity": lambda: 1.0,
    "schedule": lambda: (("east",), ("west",)),
    "seconds": lambda: 0.0,
    "secret": lambda: b"s" * 32,
    "sensitivity": lambda: Sensitivity(0.1, "none"),
    "settings": lambda: SETTINGS,
    "shape": lambda: (3,),
    "sigma": lambda: 1.0,
    "signature": lambda: bytes(64),
    "size": lambda: 2,
    "sizes": lambda: {"east": 40, "west": 40},
    "smoothness": lambda: 1.0,
    "start": lambda: None,
    "state": lambda: {"a": 1},
    "statement": dict,
    "stretch": lambda: 1.0,
    "task": lambda: LocalTask("spring", 0, "east", np.zeros(4)),
    "tasks": lambda: [LocalTask("spring", 0, "east", np.zeros(4))],
    "tolerance": lambda: 0.01,
    "total": lambda: Sensitivity(0.1, "none"),
    "transformer": lambda: Recenter("euclidean"),
    "transport": clients,
    "uploads": dict,
    "value": lambda: np.zeros(3),
    "weight": lambda: 1.0,
    "weights": lambda: (0.5, 0.5),
    "width": lambda: 1.0,
    "zeta": lambda: 1.0,
    "Agent.problem": a_problem_of_means,
    "FlowerAccountant.budget": lambda: skriemdp.PrivacyAccountant(3.0, unit="client"),
    "Participation.local": lambda: GaussianEvent(5.0),
    "RiemannianEvent.scale": lambda: 0.5,
    "ServerLoop.schedule": lambda: (("east",),),
    "AggregatorLoop.transport": trusting,
    "SumsLoop.transport": clients,
    "AggregatorLoop.X": a_dataset,
    "CohortLoop.transport": lambda: clients(a_cohort()),
    "learn_from_sums.uploads": lambda: a_loop().run(trusting(), None, "spring")[0],
    "lengths_in_words.lengths": lambda: np.array([1.0, 2.0]),
    "Sensitivity.name": lambda: "x",
    "RiemannianGaussian.points": lambda: np.zeros((3, 4)),
    "RiemannianLaplace.points": lambda: np.zeros((3, 4)),
    "release.value": lambda: np.zeros(4),
    "score_covariance.spread": lambda: np.eye(2),
    "from_compositions.parts": lambda: np.full((3, 3), 1 / 3),
    "moment": lambda: np.eye(4),
    "own_means.groups": lambda: read_groups(np.arange(40) % 4, 40),
    "own_means.points": lambda: np.zeros((40, 4)),
    "matches.statement": lambda: components().privacy_spent_.to_dict(),
    "FlowerAccountant.population_size": lambda: 10,
    "PlanarShapes.landmarks": lambda: 4,
    "found_at_most.profile": lambda: ([0.5, 1.0], GaussianEvent(2.0).delta),
    "guessed_at_most.profile": lambda: ([0.5, 1.0], GaussianEvent(2.0).delta),
    "SumsLoop.size": lambda: a_client().plan.settings.size,
    "learn_from_sums.sizes": lambda: dict.fromkeys(NAMES, 40),
    "attempt": lambda: Attempt("spring", 0, 1),
    "entries": list,
    "mean_test.estimators": lambda: MADE[MeanInference](),
    "Product.factors": lambda: Sphere(2),
    "Euclidean.shape": lambda: 3,
    "SPD.size": lambda: 2,
    "learn_from_sums.X": a_dataset,
    "Sensitivity.value": lambda: 1.0,
    "with_tolerance.sensitivity": lambda: 1.0,
    "calibrated_riemannian_event.sensitivity": lambda: 0.1,
    "RiemannianEvent.sensitivity": lambda: 0.1,
    "calibrated_riemannian_event.law": lambda: "laplace",
    "calibrated_riemannian_event.space": lambda: "hyperbolic",
    "RiemannianEvent.law": lambda: "laplace",
    "RiemannianEvent.space": lambda: "hyperbolic",
    "Sensitivity.theorem": lambda: "none",
    "geometry_from_name.name": lambda: "sphere",
    "FunctionClass.name": lambda: "convex",
    "LocalSettings.method": lambda: "rsgd",
    "LocalSettings.step_size": lambda: 0.1,
    "LocalSettings.batch_fraction": lambda: 1.0,
    "LocalSettings.clip_norm": lambda: 1.0,
    "AnswerBook.point": lambda: np.zeros(4),
    "ServerLoop.start": lambda: np.zeros(4),
    "ServerLoop.weights": lambda: {"east": 1, "west": 1},
    "ServerLoop.transport": lambda: InProcessTransport({"east": an_agent()}),
    "Agent.point": lambda: np.zeros(4),
    "LocalTask.point": lambda: np.zeros(4),
    "LocalUpdate.point": lambda: np.zeros(4),
    "PymanoptGeometry.manifold": lambda: manifolds.Oblique(3, 2),
    "PerSampleProblem.manifold": lambda: Euclidean(3),
    "CohortLoop.agreement": lambda: sums_agreement(MEAN, a_dataset()),
    "SumsAgent.agreement": lambda: None,
    "LocalAgent.agent": lambda: a_client(a_cohort()),
    "reply.client": lambda: a_client(a_cohort()),
    "reply.data": lambda: b"junk",
    "PlanDisplay.plans": lambda: [MEAN.plan(100, 3)],
    "PlanDisplay.from_estimator.shape": lambda: 3,
    "PerGroup.estimator": lambda: PrivateFrechetMean(radius=3.0),
    "PrivateGridSearchCV.estimator": lambda: PrivateFrechetMean(radius=1.0),
    "SubjectDecoder.estimator": lambda: PrivateMinimumDistanceToMean(radius=3.0),
    "event_from_dict.values": lambda: GaussianEvent(1.0).to_dict(),
    "MeanInference.first": lambda: np.zeros(4),
    "MeanInference.second": lambda: np.eye(4),
    "MeanInference.radius": lambda: 1.0,
    "MeanInference.first_noise": lambda: 0.01,
    "MeanInference.second_noise": lambda: 0.01,
    "audit_epsilon.X": lambda: np.zeros(3),
    "audit_epsilon.X_neighbour": lambda: np.ones(3),
    "audit_scores.scores": lambda: np.arange(400.0),
    "audit_scores.scores_neighbour": lambda: np.arange(400.0) + 1,
    "AuditResult.mu": lambda: 1.0,
    "AuditResult.epsilon_gdp": lambda: 1.0,
    "AuditResult.confidence": lambda: 0.9,
    "AuditResult.trials": lambda: 100,
    "gather.path": lambda: a_ledger(),
    "matches.path": lambda: a_ledger(),
    "to_data.facts": lambda: gather(a_ledger()),
    "to_html.facts": lambda: gather(a_ledger()),
    "to_text.facts": lambda: gather(a_ledger()),
    "PrivacyAccountant.release": lambda: GaussianEvent(5.0),
    "as_event.release": lambda: GaussianEvent(5.0),
    "as_drawn.random_state": lambda: None,
    "exact_moment_norm.longest": lambda: 1.0,
    "exact_total_sensitivity.bound": lambda: Sensitivity(0.1, "none", 0.1),
    "exact_total_sensitivity.moved": lambda: 0.1,
    "frame_product_sensitivity.columns": lambda: 2,
    "several_steps_limit.n_steps": lambda: 5,
    "from_estimator.model": components,
    "from_estimator.estimator": components,
    "wanted": lambda: np.zeros((40, 3)),
}


# Parameters with a default that are given all the same, so that a call takes no seconds.
QUICK = {
    "Participation.rule": lambda: "uniform",
    "FunctionClass.diameter": lambda: 1.0,
    "PerSampleProblem.gradient": lambda: gradient,
    "calibrated.epsilon": lambda: 1.0,
    "calibrated_riemannian_event.epsilon": lambda: 1.0,
    "calibrated.delta": lambda: 1e-5,
    "exact_total_sensitivity.n": lambda: 10.0,
    "theory_settings.smoothness": lambda: 1.0,
    "mean_test.popmean": lambda: np.zeros(2),
    "audit_estimator.trials": lambda: 50,
    "audit_epsilon.trials": lambda: 60,
    "embed_taxonomy.n_epochs": lambda: 2,
    "fetch_eeg.source": lambda: a_file("none"),
    "load_movielens.data_home": lambda: a_file("none"),
}
# Made from other than their parameters' known values.
EXAMPLES = MADE | {
    Agent: an_agent,
    SumsAgent: lambda: a_client(a_cohort()),
    LocalAgent: lambda: LocalAgent(a_client(a_cohort())),
    Forecast: lambda: MEAN.plan(100, 3),
    PrivacyReport: lambda: skriemdp.privacy_report(components()),
    PrivacySpent: lambda: components().privacy_spent_,
    LedgerTotal: lambda: a_spent().total,
    Spend: lambda: a_spent().history[0],
    Remaining: lambda: a_spent().remaining(),
}


def a_spent():
    accountant = skriemdp.PrivacyAccountant(10.0)
    accountant.spend(GaussianEvent(5.0))
    return accountant


@functools.cache
def a_ledger():
    path = a_file("ledger")
    skriemdp.PrivacyAccountant(10.0, path=path).spend(GaussianEvent(5.0))
    return path


@functools.cache
def everything():
    """Public callables: {owner's or function's name: [(owner or None, name, function)]}."""
    found = {}
    for place in NAMESPACES:
        try:
            names = public(place)
        except pytest.skip.Exception:
            continue
        for thing in (getattr(importlib.import_module(place), name) for name in names):
            if not callable(thing) or (inspect.isclass(thing) and issubclass(thing, Exception)):
                continue
            if not inspect.isclass(thing):
                found[thing.__name__] = [(None, thing.__name__, thing)]
                continue
            if inspect.isabstract(thing):
                continue  # its methods are those of its subclasses
            made = thing is not Geometry
            members = [(None, thing.__name__, thing)] * made
            for name, member in inspect.getmembers(thing, callable):
                own = (getattr(member, "__module__", None) or "").startswith("skriemdp")
                hook = hasattr(socketserver.TCPServer, name)  # which Python calls, with sockets
                if own and not hook and not name.startswith("_"):
                    members.append((thing, name, member))
            found[thing.__name__] = members
    return found


def known(owner, name, parameter):
    """How a valid value of a parameter is made; None where nobody knows."""
    places = [owner.__name__] if owner is not None else []
    for place in (".".join([*places, name]), *places, name):
        for values in (KNOWN, QUICK):
            if f"{place}.{parameter}" in values:
                return values[f"{place}.{parameter}"]
    return KNOWN.get(parameter)


def parameters_of(function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.name not in ("self", "cls")]


def given_to(owner, name, function, target, rng, secrets):
    """Valid arguments of a call, as a list and a dict."""
    X, y = getattr(target, "_rows_of_test", None) or table(rng, secrets, target)
    if isinstance(target, Geometry):
        X = np.broadcast_to(target.base_point, (len(X), *target.shape)).copy()
    listed, named = [], {}
    for p in parameters_of(function):
        maker = None if name == "fit" else known(owner, name, p.name)
        qualified = maker is not None and KNOWN.get(p.name) is not maker
        asked = p.default is p.empty or qualified
        asked |= p.name == "y" and isinstance(target, BaseEstimator)
        value = None
        if maker is not None and (qualified or not isinstance(target, Geometry)):
            value = maker()
        elif isinstance(target, Geometry):
            value = tangent_or_point(target, p.name, X)
        else:
            value = rows_for(p.name, rng, secrets, X, y)
        if p.kind == p.VAR_POSITIONAL:
            listed.append(value)
        elif asked and hasattr(function, "registry"):  # which type decides is asked of the first
            listed.append(value)
        elif p.kind != p.VAR_KEYWORD and asked:
            named[p.name] = value
    return listed, named


def tangent_or_point(geometry, name, X):
    if name in ("tangent_vector", "tangent_vector_a", "tangent_vector_b"):
        return np.zeros_like(X)
    if name == "rng":
        return np.random.default_rng(0)
    if name == "moment":
        return np.eye(geometry.dim)
    if name in KNOWN and name != "center":
        return KNOWN[name]()
    if name == "center":
        return geometry.base_point
    if name == "coordinates":
        return np.zeros((len(X), geometry.dim))
    return X[0] if name == "point" else X


def target_of(owner, fitted):
    if owner is None:
        return []
    if issubclass(owner, (BaseEstimator, Geometry)):
        return objects(owner, fitted)
    if owner in EXAMPLES:
        return [EXAMPLES[owner]()]
    rng, secrets = np.random.default_rng(0), secrets_of(0)
    listed, named = given_to(None, owner.__name__, owner, None, rng, secrets)
    return [owner(*listed, **named)]


def draw_parameter(seed, secrets, fitted, only=None, wrong=True):
    """One call with a wrong value: (what it is, a function of no arguments, its recorder)."""
    rng, recorder = np.random.default_rng(seed), RecordingAccountant()
    groups = list(everything().values()) if only is None else [[only]]
    choice = groups[rng.integers(len(groups))]
    owner, name, function = choice[rng.integers(len(choice))]
    what = [owner.__name__ if owner else "", name]
    targets = target_of(owner, fitted)
    target = targets[rng.integers(len(targets))] if targets else None
    estimator = isinstance(target, BaseEstimator)
    if isinstance(target, skriemdp.PrivacyAccountant):
        recorder.spends = Spends(target)
    listed, named = given_to(owner, name, function, target, rng, secrets)
    value = WRONG[rng.integers(len(WRONG))]
    if estimator and (name.startswith("fit") or name == "plan" or rng.random() < 0.1):
        target = with_recorder(target, recorder)  # and not fitted
        if rng.random() < 0.7 and wrong:
            names = sorted(set(target.get_params()) - {"accountant"})
            chosen = names[rng.integers(len(names))]
            with contextlib.suppress(AttributeError):  # estimator=1 has no estimator__radius
                target.set_params(**{chosen: value})
            what, wrong = [*what, f"{chosen}={shown(value)}"], False
        n = len(named.get("X", ()))
        named |= owners(target, n) if name.startswith("fit") else {}
    parameters = parameters_of(function)
    for _ in range(int(rng.integers(1, 3)) if parameters and wrong else 0):
        p = parameters[rng.integers(len(parameters))]
        value = WRONG[rng.integers(len(WRONG))]
        if p.name == "n_jobs" and isinstance(value, numbers.Integral) and 1 < value < 1100:
            value = -(10**6)  # a machine's worth of processes is what it asks for
        what.append(f"{p.name}={shown(value)}")
        if p.kind == p.VAR_POSITIONAL:
            listed = [*listed, value][-int(rng.integers(1, 3)) :]
        elif p.kind == p.VAR_KEYWORD:
            named[str(rng.choice(["most_steps", "epsilon", "nonsense"]))] = value
        elif p.name not in named and listed:
            listed = [value, *listed[1:]]
        else:
            named[p.name] = value
    if owner is not None and isinstance(inspect.getattr_static(owner, name), property):
        return what, lambda: None, recorder
    call = function if owner is None else getattr(target, name, None)

    def run():
        result = call(*listed, **named)
        if inspect.isgenerator(result) or isinstance(result, map):
            list(itertools.islice(result, 3))
        elif hasattr(result, "__enter__") and hasattr(result, "gen"):
            with result:
                pass

    return what, (run if call is not None else lambda: None), recorder


class Spends(list):
    """What an accountant was charged since."""

    def __init__(self, accountant):
        self.accountant, self.before = accountant, len(accountant.history)

    def __bool__(self):
        return len(self.accountant.history) > self.before


# -- a call's limits -------------------------------------------------------------------------------

SECONDS, GIBIBYTES = 10.0, 1.0


class TookTooLong(BaseException):
    """A call that ran into its limit of time."""


@contextlib.contextmanager
def limited():
    """Limit a call's processor time, its waits, and the memory that it may add."""

    def stop(*given):
        raise TookTooLong

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    handlers = [(s, signal.signal(s, stop)) for s in (signal.SIGPROF, signal.SIGALRM)]
    resource.setrlimit(
        resource.RLIMIT_AS, (pages * resource.getpagesize() + int(GIBIBYTES * 2**30), most)
    )
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, 4 * SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        for number, handler in handlers:
            signal.signal(number, handler)


class ClosedAFile(Exception):
    """A call that closed a file of the process: it was given a number in place of a path."""


def cut_off(call):
    """`shown_by` with limits; standard streams that the call closed are opened again."""
    kept = [os.dup(number) for number in range(3)]
    try:
        with limited():
            return shown_by(call)
    except TookTooLong as error:
        return [f"took longer than {SECONDS:g} s"], error
    finally:
        closed = [n for n, old in enumerate(kept) if not same_file(n, old)]
        for number, old in enumerate(kept):
            os.dup2(old, number)
            os.close(old)
        if closed:
            raise ClosedAFile


def same_file(number, other):
    try:
        return os.path.samestat(os.fstat(number), os.fstat(other))
    except OSError:
        return False


def fitted_models(secrets):
    """Each estimator fitted to a valid table, for the calls that ask about other rows."""
    models = []
    for estimator in ESTIMATORS:
        rng = np.random.default_rng(0)
        for _ in range(50):
            X, y = table(rng, secrets, estimator)
            model = with_recorder(estimator, RecordingAccountant())
            owned = owners(model, len(X))
            with warnings.catch_warnings(), contextlib.suppress(Exception):
                warnings.simplefilter("ignore")
                models.append(model.fit(X, y, **owned))
                model._rows_of_test = X, y
                break
        else:
            models.append(None)
    return models


class Findings:
    """What calls ended in, and which of them are faults, by kind of fault."""

    def __init__(self):
        self.calls = self.errors = 0
        self.faults = {}
        self.kinds = Counter()

    def add(self, kind, seed, what, text):
        self.faults.setdefault(kind, []).append((seed, what, text))

    def of(self, kind):
        return [fault for (of, *_), faults in self.faults.items() if of == kind for fault in faults]

    def __str__(self):
        listed = sorted(self.faults.items(), key=lambda item: -len(item[1]))
        lines = [f"{len(faults):5} {' '.join(kind)}" for kind, faults in listed]
        return "\n".join(
            [
                f"{self.calls} calls, {self.errors} errors {dict(self.kinds.most_common())}",
                *[f"{len(self.of(kind))} {kind}" for kind in (*KINDS, FORMULA)],
                *lines,
            ]
        )


KINDS = ("leaks", "counts", "lost charges", "odd", "slow", "memory")
# Of formulas of geometries, which take arrays of numbers and look at nothing else.
FORMULA = "formula"
# Errors that the documentation names: what is missing, what is refused, and a bad value or type.
DOCUMENTED = (ValueError, TypeError, Public, OSError, BROKEN)


def place_of(error):
    """Where an error arose, and whether that is in this file: in what a user passed."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    return f"{last.filename.split('skriemdp/')[-1]}:{last.name}", last.filename == __file__


def fault_of(error, text):
    """The kind of fault that an error is, or None."""
    if isinstance(error, TookTooLong):
        return "slow"
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, ClosedAFile):
        return "odd"
    withheld = "is not shown, because it may quote" in "".join(text)
    allowed = (ValueError, TypeError) if withheld else DOCUMENTED
    return None if isinstance(error, allowed) or place_of(error)[1] else "odd"


FORMULAS = {kind.__name__ for kind in (Geometry, GeodesicBall, *map(type, GEOMETRIES))}
FORMULAS |= {"CoordinateGeometry", "PymanoptGeometry"}
DRAWS = (draw_call, draw_discovered, draw_parameter)


def attack(first, n_calls, report=None):
    """Make `n_calls` hostile calls; a hit counts if other secrets at the same place are hit too."""
    findings = Findings()
    both = secrets_of(first), secrets_of(first + 1)
    fitted = fitted_models(both[0])
    for seed in range(first, first + n_calls):
        draw = DRAWS[seed % 3]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            what, call, recorder = draw(seed, both[0], fitted)
        begun = time.process_time()
        try:
            text, error = cut_off(call)
        except ClosedAFile as closed:
            text, error = [], closed
        took = time.process_time() - begun
        findings.calls += 1
        told = f"{took:.1f} s" if took > SECONDS / 3 else ""
        if error is not None:
            findings.errors += 1
            findings.kinds[type(error).__name__] += 1
            place = place_of(error)[0]
            if fault := fault_of(error, text):
                fault = FORMULA if fault == "odd" and what[0] in FORMULAS else fault
                findings.add((fault, type(error).__name__, *what[:2], place), seed, what, text)
            if recorder.spends:
                findings.add(("lost charges", *what[:2], place), seed, what, text)
        elif told:
            findings.add(("slow", *what[:3]), seed, what, [told])
        again = []
        if both[0].found_in(text) or "some" in " ".join(what):
            _, call, _ = draw(seed, both[1], fitted)
            again, other = cut_off(call)
        if both[0].found_in(text) and both[1].found_in(again):
            findings.add(("leaks", *what[:2]), seed, what, text)
        if again and error is not None and other is not None and said(error) != said(other):
            findings.add(("counts", *what[:2]), seed, what, [said(error), said(other)])
        if report is not None and findings.calls % 1000 == 0:
            report(findings)
        skriemdp.set_config(**DEFAULTS)
    return findings


def said(error):
    return re.sub(r"0x[0-9a-f]+", "", str(error))


DEFAULTS = skriemdp.get_config()


def test_every_public_class_that_takes_rows_is_attacked():
    fitted = fitted_models(secrets_of(0))
    assert None not in fitted
    assert {owner for owner, *_ in discovered() if owner and not objects(owner, fitted)} == set()
    names = {name for _, name, _ in discovered()}
    assert {"fit", "contains", "geodesics", "datasets.from_frame", "mean_test", "run"} <= names


def quotes(self, table):
    raise ValueError(f"bad {np.ravel(table)[0]}")


@pytest.mark.parametrize("owner", [ConfidenceRegion, PrivateFrechetMean, Recenter, SpectrumDisplay])
def test_a_planted_quoting_method_is_found_without_naming_it(owner, monkeypatch):
    by_class.cache_clear()
    before = {found[:2] for found in discovered()}
    monkeypatch.setattr(owner, "shown", quotes, raising=False)
    new = [found for found in discovered() if found[:2] not in before]
    by_class.cache_clear()
    assert [(found[0], found[1]) for found in new] == [(owner, "shown")]
    secrets = secrets_of(3)
    fitted = fitted_models(secrets) if issubclass(owner, BaseEstimator) else []
    leaks = 0
    for seed in range(20):
        _, call, _ = draw_discovered(seed, secrets, fitted, new[0])
        leaks += secrets.found_in(shown_by(call)[0])
    assert leaks > 5


@pytest.mark.parametrize("owner", [ConfidenceRegion, PrivateFrechetMean, Recenter, SpectrumDisplay])
def test_a_new_method_goes_through_the_door(owner):
    secrets = secrets_of(3)
    place = {"__name__": "elsewhere", "np": np}
    exec(inspect.getsource(quotes), place)
    kind = type(owner.__name__, (owner,), {"shown": place["quotes"]})
    target = object.__new__(kind)
    text, error = shown_by(lambda: target.shown(secrets.numbers(np.random.default_rng(0), (4, 4))))
    assert isinstance(error, ValueError) and not secrets.found_in(text)
    assert issubclass(owner, QuietQueries)


@pytest.mark.slow
def test_no_message_carries_a_record_and_no_charged_fit_crashes():
    findings = attack(0, 400)
    assert [findings.of(kind) for kind in KINDS] == [[]] * len(KINDS)
    assert findings.errors > 150


LEAKS = {
    "error": 'raise PublicValueError(f"bad {X}")',
    "note": 'error = PublicValueError("bad"); error.add_note(str(X)); raise error',
    "warning": 'warnings.warn(f"{X}"); return X',
    "print": "print(X); return X",
    "log": 'logging.getLogger("skriemdp").warning("%s", X); return X',
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_planted_leak_is_found(leak, monkeypatch):
    secrets, place = secrets_of(5), {"__name__": "skriemdp.planted"}
    imports = "import logging, warnings\nfrom skriemdp._errors import PublicValueError\n"
    exec(f"{imports}def planted(geometry, X, name):\n    {LEAKS[leak]}", place)
    monkeypatch.setattr("skriemdp._core.manifold_input.as_points", place["planted"])
    X, _ = table(np.random.default_rng(0), secrets, MEAN)
    text, _ = shown_by(lambda: clone(MEAN).set_params(accountant=RecordingAccountant()).fit(X))
    assert secrets.found_in(text)


@pytest.mark.parametrize("method", ["fit", "predict", "transform", "score"])
def test_what_foreign_code_says_of_a_record_is_withheld(method, monkeypatch):
    secrets = secrets_of(6)
    X, _ = table(np.random.default_rng(0), secrets, MEAN)
    model = clone(MEAN).set_params(accountant=RecordingAccountant()).fit(X)

    def foreign(geometry, X, name="X"):
        try:
            raise KeyError(str(X))
        except KeyError:
            raise ValueError(f"bad {X}")  # noqa: B904

    for module in ("_core.manifold_input", "_mean.domains", "_mean.estimator"):
        monkeypatch.setattr(f"skriemdp.{module}.as_points", foreign)
    text, error = shown_by(lambda: getattr(model, method)(X))
    assert isinstance(error, ValueError)
    assert error.__context__ is None and error.__cause__ is None
    assert not secrets.found_in(text)


# -- plausible input, silent nonsense --------------------------------------------------------------


@functools.cache
def valid_call(index):
    """An estimator and rows that it can be fitted to, with what else its fit asks for."""
    secrets, estimator = secrets_of(0), ESTIMATORS[index]
    for seed in range(50):
        X, y = table(np.random.default_rng(seed), secrets, estimator)
        with contextlib.suppress(ValueError):
            with_recorder(estimator, RecordingAccountant()).fit(X, y, **owners(estimator, len(X)))
            return X, y
    raise AssertionError("no table fits")


def refused(index, change, kinds=(ValueError,), **parameters):
    """The message of a fit to changed rows, which must be refused, spend and show nothing."""
    recorder = RecordingAccountant()
    X, y = valid_call(index)
    model = with_recorder(ESTIMATORS[index], recorder)
    names = [n for n in model.get_params() if n.split("__")[-1] in parameters]
    model.set_params(**{name: parameters[name.split("__")[-1]] for name in names})
    X = change(X)
    y, owned = (None if y is None else y[: len(X)]), owners(model, len(X))
    texts, error = shown_by(lambda: model.fit(X, y, **owned))
    assert isinstance(error, kinds), error
    assert recorder.spends == [] and not secrets_of(0).found_in(texts)
    return str(error)


EVERY = pytest.mark.parametrize("index", range(len(ESTIMATORS)))


@EVERY
@pytest.mark.filterwarnings("ignore")
def test_complex_and_one_dimensional_rows_are_refused(index):
    assert re.search(
        r"X.*complex numbers.*(separate columns|numpy\.)", refused(index, lambda X: X * 1j)
    )
    text = refused(index, lambda X: X.reshape(len(X), -1)[:, 0])
    assert text.startswith("X") and re.search("[Rr]eshape", text)


# Junk in place of records, and the estimators for which it is none: entries may be missing, points
# of a Euclidean space have any shape, and a table of public categories holds words.
JUNK = {
    "nan": (PrivateMatrixCompletion, PublicTable),
    "infinity": PublicTable,
    "one row": (Recenter, PublicTable),
    "no rows": (),
    "no columns": (),
    "word": PublicTable,
    "all words": PublicTable,
    "one record": (PrivateRiemannianERM, Recenter),
}


@EVERY
def test_junk_records_are_refused_for_free(index):
    inner = getattr(ESTIMATORS[index], "estimator", ESTIMATORS[index])
    for junk in (name for name, takers in JUNK.items() if not isinstance(inner, takers)):
        change = functools.partial(CHANGES[junk], np.random.default_rng(0), secrets_of(0))
        refused(index, change, (ValueError, TypeError))


@EVERY
@settings(max_examples=5, deadline=None, derandomize=True)
@given(data=st.data())
def test_junk_parameters_are_used_or_refused_for_free(index, data):
    recorder = RecordingAccountant()
    X, y = valid_call(index)
    model = with_recorder(ESTIMATORS[index], recorder)
    charges = any(name.endswith("accountant") for name in model.get_params())
    name = data.draw(st.sampled_from(sorted(set(model.get_params(deep=False)) - {"accountant"})))
    value = data.draw(st.sampled_from(NO_VALUES))
    model.set_params(**{name: value})
    texts, error = shown_by(lambda: model.fit(X, y, **owners(model, len(X))))
    assert not secrets_of(0).found_in(texts)
    if error is None:
        assert len(recorder.spends) == charges
    else:
        assert isinstance(error, (ValueError, TypeError)), f"{name}={value!r}: {error!r}"
        assert recorder.spends == [], f"{name}={value!r} failed after the charge: {error}"


@EVERY
@pytest.mark.filterwarnings("ignore")
def test_what_is_no_accountant_is_refused(index):
    charged = [n for n in ESTIMATORS[index].get_params() if n.endswith("accountant")]
    for wrong in (1.0, skriemdp.PrivacyAccountant) if charged else ():
        text = refused(index, lambda X: X, TypeError, accountant=wrong)
        assert text.startswith("accountant must be a skriemdp.PrivacyAccountant, or None")


@pytest.mark.mostly_slow(4)
@EVERY
def test_an_epsilon_that_protects_nobody_is_announced_once(index):
    X, y = valid_call(index)
    for epsilon, times in ((1.0, 0), (1000.0, 1)):
        model = with_recorder(ESTIMATORS[index], RecordingAccountant())
        names = [n for n in model.get_params() if n.split("__")[-1] == "epsilon"]
        model.set_params(**dict.fromkeys(names, epsilon))
        with warnings.catch_warnings(record=True) as caught, contextlib.suppress(ValueError):
            warnings.simplefilter("always")
            model.fit(X, y, **owners(model, len(X)))
        said = [w for w in caught if "protects next to nobody" in str(w.message)]
        assert len(said) == (times if names else 0)


READERS = {
    "frechet_mean": ((12, 3), skriemdp.frechet_mean),
    "mean_test": ((2,), lambda X: skriemdp.mean_test(MADE[MeanInference](), popmean=X)),
    "datasets.region_covariance": ((12, 8, 8), region_covariance),
    "datasets.from_frame": (
        (12,),
        lambda X: from_frame(["a"] * 12, [1] * 12, X, catalogue=[1]),
    ),
    "geometry.to_lat_lon": ((12, 3), to_lat_lon),
    "contains": ((12, 4), lambda X: MADE[ConfidenceRegion]().contains(X)),
}


@pytest.mark.parametrize("change", ["complex", "word", "nan"])
@pytest.mark.parametrize("name", READERS)
def test_functions_refuse_tables_that_are_no_numbers(name, change):
    shape, function = READERS[name]
    assert name in {found[1] for found in discovered()}
    X = np.abs(secrets_of(0).numbers(np.random.default_rng(0), shape, high=0))
    if (name, change) == ("datasets.from_frame", "nan"):
        return  # an unknown rating is none
    words = {"complex": "complex numbers", "word": "holds text", "nan": "NaN"}[change]
    with pytest.raises((ValueError, TypeError), match=words):
        function(changed(change, np.random.default_rng(0), secrets_of(0), X))


@pytest.mark.filterwarnings("ignore")
def test_zeros_outside_the_bounds_mean_not_rated():
    ratings = np.random.default_rng(0).integers(1, 6, (40, 6)).astype(float)
    ratings[::2, 0] = 0.0
    model = PrivateMatrixCompletion(random_state=0, accountant=RecordingAccountant())
    missing = np.where(ratings == 0, np.nan, ratings)
    same = [
        clone(model).fit(X).predict(missing) for X in (ratings, missing, sparse.csr_array(ratings))
    ]
    assert np.array_equal(same[0], same[1]) and np.array_equal(same[0], same[2])
    zero = clone(model).set_params(bounds=(0, 5)).fit(ratings)
    assert np.array_equal(zero.predict(ratings[:2]), clone(zero).fit(ratings).predict(ratings[:2]))
    assert not np.array_equal(zero.predict(ratings[:2]), zero.predict(missing[:2]))
    model.fit(missing)
    assert np.array_equal(model.predict(ratings), model.predict(missing))


@pytest.mark.parametrize("kind", [PrivateFrechetMean, PrivateMinimumDistanceToMean])
@pytest.mark.parametrize("manifold", ["spd", "spd-log-euclidean", "spd-bures-wasserstein"])
@pytest.mark.filterwarnings("ignore")
def test_a_ball_of_matrices_needs_a_center(kind, manifold):
    X = 1e-10 * np.eye(2) * np.linspace(1.0, 2.0, 40)[:, None, None]
    recorder = RecordingAccountant()
    model = kind(manifold, radius=1.0, accountant=recorder)
    with pytest.raises(ValueError, match="radius=1 needs a center.*radius='private'"):
        model.fit(X, np.arange(40) % 2)
    assert recorder.spends == []
    model.set_params(center=1.5e-10 * np.eye(2)).fit(X, np.arange(40) % 2)
    assert len(recorder.spends) == 1


def test_labels_of_a_hyperboloid_are_no_tangent_vectors():
    rng, recorder = np.random.default_rng(0), RecordingAccountant()
    X, vectors = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    points = Hyperboloid(2).exp_coordinates(Hyperboloid(2).base_point, vectors)
    disk = Poincare(2).from_hyperboloid(points)
    model = PrivateHyperbolicRegressor(accountant=recorder)
    with pytest.raises(ValueError, match="rows of y are points of Hyper.*manifold='hyperboloid'"):
        model.fit(X, points)
    for manifold, y in (("poincare", points), ("hyperboloid", np.c_[disk, disk[:, :1]])):
        with pytest.raises(ValueError, match="some rows of y are not points of"):
            model.set_params(manifold=manifold).fit(X, y)
    for space, y in ((Hyperboloid(2), np.c_[disk, disk[:, :1]]), (Poincare(3), points)):
        with pytest.raises(ValueError, match="some rows of y are not points of"):
            PrivateGeodesicRegressor(space, accountant=recorder).fit(X, y)
    assert recorder.spends == []


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 10**6
    os.chdir(tempfile.mkdtemp())
    tempfile.tempdir = os.getcwd()
    found = attack(first, int(sys.argv[1]), lambda f: print(f, flush=True))
    print(found)
    for kind, faults in found.faults.items():
        print("\n==", *kind, len(faults))
        for seed, what, text in faults[:3]:
            print(seed, what, *(line[:500] for line in text[:3]), sep="\n")
