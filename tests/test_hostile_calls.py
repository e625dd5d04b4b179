"""Hostile calls: whatever X, y, queries and parameters are, no message carries a record.

``python tests/test_hostile_calls.py 100000`` makes that many calls and prints what it found.
"""

import contextlib
import functools
import importlib
import inspect
import pkgutil
import re
import sys
import warnings
from collections import Counter

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

import skriemdp
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
    PrivateTangentClassifier,
    PrivateTangentPCA,
    PublicTable,
)
from skriemdp._quiet import QuietQueries
from skriemdp.datasets import from_frame, region_covariance
from skriemdp.federated import (
    FederatedEstimator,
    KernelQuery,
    LabelQuery,
)
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
from skriemdp.moabb import SubjectDecoder
from skriemdp.plotting import (
    AdaGradDisplay,
    CapturedVarianceDisplay,
    CompletionDisplay,
    NoiseBallDisplay,
    PoincareDiskDisplay,
    SpectrumDisplay,
)
from skriemdp.preprocessing import PerGroup, Recenter
from skriemdp.pymanopt_optimizers import (
    PerSampleProblem,
    PrivateGradientDescent,
    PrivateStochasticGradientDescent,
    PrivateVarianceReducedGradientDescent,
)

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
        draw = draw_discovered if seed % 2 else draw_call
        what, call, recorder = draw(seed, both[0], fitted)
        text, error = shown_by(call)
        findings.calls += 1
        if error is not None:
            findings.errors += 1
            findings.kinds[type(error).__name__] += 1
            if not isinstance(error, (ValueError, TypeError)):
                findings.odd.append((seed, what, text))
            if recorder.spends:
                if report is not None:
                    print(seed, what, *text, sep="\n", flush=True)
                findings.crashes.append((seed, what, text))
        if both[0].found_in(text):
            what, call, _ = draw(seed, both[1], fitted)
            again, _ = shown_by(call)
            if both[1].found_in(again):
                findings.leaks.append((seed, what, text))
        if report is not None and (seed - first) % 1000 == 999:
            report(findings)
    return findings


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
    assert findings.leaks == []
    assert findings.crashes == []
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
    found = attack(first, int(sys.argv[1]), lambda f: print(f, flush=True))
    print(found)
    for seed, what, text in found.leaks[:20] + found.crashes[:40] + found.odd[:20]:
        print(seed, what, *text, "\n", sep="\n")
