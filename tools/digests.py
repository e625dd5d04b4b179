"""A thousand seeded fits, each as a few numbers: what a change moves shows here.

python tools/digests.py               # compare with tests/data/digests.json; 1 if one differs
python tools/digests.py --write       # store them there
python tools/digests.py --exact FILE  # every bit of every fit, one line each, to compare two trees
python tools/digests.py --exact FILE mean circle   # only names with these words

Records are made of integers, square roots and quotients, and seeds enter the noise alone, without
the digest of records and event; so other processors and libraries give the same fits, up to
rounding.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import skriemdp as s  # noqa: E402  # of this checkout
from skriemdp import geometry as g  # noqa: E402
from skriemdp._random import NoiseStreams  # noqa: E402
from skriemdp.federated import FederatedEstimator  # noqa: E402

STORED = ROOT / "tests" / "data" / "digests.json"
# Fits in which rounding decides, such as which of two equal eigenvectors is the first: their
# numbers are those of one machine.
UNSTEADY = ("mean shapes", "mean product gradient")
# Numbers that divide by what may be next to nothing.
_LOOSE = {"coef_standard_error_"}
# How far a number may be off, of the sum of what is added up in it.
TOLERANCE = 1e-6
_N = 240

# -- records ---------------------------------------------------------------------------------------


def bell(seed: int, *shape: int) -> np.ndarray:
    """Numbers of standard deviation 1.15 that are multiples of 2**-11, the same everywhere."""
    rows = np.random.RandomState(seed).randint(0, 4096, size=(*shape, 4))
    return (rows.sum(axis=-1) - 8190.0) / 2048.0


def length(rows: np.ndarray) -> np.ndarray:
    """Norms, added up column by column."""
    total = np.zeros(len(rows))
    for column in rows.T:
        total = total + column * column
    return np.sqrt(total)[:, None]


def turned(angles: np.ndarray, n: int, p: int) -> np.ndarray:
    """Frames: the first axes of R^n, turned in every plane by an angle with this tangent."""
    frames = np.zeros((len(angles), n, p))
    frames[:, range(p), range(p)] = 1.0
    planes = [(i, j) for i in range(n) for j in range(max(i + 1, p), n)]
    for (i, j), t in zip(planes, angles.T, strict=False):
        c, d = ((1.0 - t * t) / (1.0 + t * t))[:, None], (2.0 * t / (1.0 + t * t))[:, None]
        a, b = frames[:, i].copy(), frames[:, j].copy()
        frames[:, i], frames[:, j] = c * a - d * b, d * a + c * b
    return frames


def rotations(axes: np.ndarray) -> np.ndarray:
    """Rotations with the quaternions (1, x)."""
    q = np.concatenate([np.ones((len(axes), 1)), axes], axis=1)
    w, x, y, z = (q / length(q)).T
    rows = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]
    rows += [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]
    rows += [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    return np.stack(rows, axis=1).reshape(-1, 3, 3)


def on_sphere(seed: int, dim: int, radius: float = 1.0, n: int = _N) -> np.ndarray:
    rows = 0.25 * bell(seed, n, dim + 1) + np.eye(dim + 1)[dim]
    return radius * (rows / length(rows))


def matrices(seed: int, size: int, n: int = _N) -> np.ndarray:
    factors = bell(seed, n, size, size + 3)
    return factors @ factors.swapaxes(1, 2) / 4.0


def on_hyperboloid(seed: int, dim: int, n: int = _N) -> np.ndarray:
    rows = 0.3 * bell(seed, n, dim) + 0.5
    return np.concatenate([np.sqrt(1.0 + length(rows) ** 2), rows], axis=1)


def in_ball(seed: int, dim: int) -> np.ndarray:
    rows = 0.3 * bell(seed, _N, dim) + 0.25
    return rows / (2.0 + length(rows))


def correlations(seed: int) -> np.ndarray:
    points = np.broadcast_to(np.eye(3), (_N, 3, 3)).copy()
    for i, j, value in zip((0, 0, 1), (1, 2, 2), 0.125 * bell(seed, 3, _N) + 0.125, strict=True):
        points[:, i, j] = points[:, j, i] = np.clip(value, -0.45, 0.45)
    return points


def shapes(seed: int) -> np.ndarray:
    pentagon = [[4, 0], [1, 4], [-3, 2], [-3, -2], [1, -4]]
    return np.array(pentagon, float) + 0.5 * bell(seed, _N, 5, 2)


def flat(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


SPACES: dict[str, tuple[Any, Callable[[int], np.ndarray]]] = {
    "euclidean": (g.Euclidean(3), lambda seed: bell(seed, _N, 3) + [5.0, -2.0, 1.0]),
    "sphere": (g.Sphere(2), lambda seed: on_sphere(seed, 2)),
    "large sphere": (g.Sphere(4, radius=3.0), lambda seed: on_sphere(seed, 4, 3.0)),
    "circle": (g.Circle(24.0), lambda seed: (0.5 * bell(seed, _N, 1) + 23.0) % 24.0),
    "hyperboloid": (g.Hyperboloid(2), lambda seed: on_hyperboloid(seed, 2)),
    "poincare": (g.Poincare(3), lambda seed: in_ball(seed, 3)),
    "affine": (g.SPD(2), lambda seed: matrices(seed, 2)),
    "affine of three": (g.SPD(3), lambda seed: matrices(seed, 3)),
    "log-euclidean": (g.LogEuclideanSPD(2), lambda seed: matrices(seed, 2)),
    "bures": (g.BuresWassersteinSPD(2), lambda seed: matrices(seed, 2)),
    "subspaces": (g.Grassmann(5, 2), lambda seed: turned(0.08 * bell(seed, _N, 6), 5, 2)),
    "hyperplanes": (g.Grassmann(4, 3), lambda seed: turned(0.08 * bell(seed, _N, 3), 4, 3)),
    "frames": (g.Stiefel(4, 2), lambda seed: turned(0.08 * bell(seed, _N, 5), 4, 2)),
    "correlations": (g.Correlation(3), correlations),
    "rotations": (g.Rotations(), lambda seed: rotations(0.12 * bell(seed, _N, 3) + 0.2)),
    "shapes": (g.PlanarShapes(5), shapes),
    "product": (
        g.Product(g.Sphere(2), g.Euclidean(2), g.SPD(2)),
        lambda seed: flat(on_sphere(seed, 2), bell(seed + 1, _N, 2), matrices(seed + 2, 2)),
    ),
    "poses": (
        g.Product(g.Circle(1.0), g.Rotations()),
        lambda seed: flat(0.05 * bell(seed, _N, 1), rotations(0.12 * bell(seed + 1, _N, 3))),
    ),
}
PEOPLE = np.arange(_N) // 3
LABELS = np.arange(_N) % 2


def table(seed: int, d: int) -> np.ndarray:
    return bell(seed, _N, d) * (1.0 + np.arange(d) % 3) + 2.0


def ratings(seed: int) -> np.ndarray:
    state = np.random.RandomState(seed)
    values = state.randint(1, 6, size=(120, 12)).astype(float)
    return np.where(state.randint(0, 2, size=values.shape) == 1, values, np.nan)


# -- fits ------------------------------------------------------------------------------------------

Fit = Callable[[int], Any]


def ball(space: str) -> dict[str, Any]:
    """A public ball that holds most records of a space."""
    geometry, make = SPACES[space]
    center = np.asarray(geometry.canonical(make(99)[:1]))[0]
    radius = min(0.45 * geometry.radius_limit, 1.8)
    return {"center": center, "radius": radius}


def present() -> s.PrivacyAccountant:
    """A ledger for which the number of records is secret."""
    return s.PrivacyAccountant(unit="record, present or not")


def means() -> Iterator[tuple[str, Fit]]:
    ways: dict[str, dict[str, Any]] = {
        "": {},
        "gaussian": {"noise": "gaussian"},
        "people": {"people": True},
        "present": {"present": True},
        "little": {"epsilon": 0.3},
        "much": {"epsilon": 8.0},
        "bars": {"uncertainty": True},
        "bars people": {"uncertainty": True, "people": True},
        "bars present": {"uncertainty": True, "present": True},
        "median": {"statistic": "median"},
        "gradient": {"mechanism": "gradient", "n_steps": 5},
    }
    public: dict[str, dict[str, Any]] = {
        "ball": {},
        "ball gaussian": {"noise": "gaussian"},
        "ball laplace": {"noise": "laplace", "mechanism": "tangent"},
        "ball pure": {"delta": 0.0},
        "ball people": {"people": True},
        "ball present": {"present": True},
        "ball bars": {"uncertainty": True},
        "ball gradient": {"mechanism": "gradient", "n_steps": 5},
        "ball drawn gaussian": {"mechanism": "gaussian"},
        "ball drawn laplace": {"mechanism": "laplace"},
        "ball drawn k-norm": {"mechanism": "k-norm"},
    }
    for space, (geometry, make) in SPACES.items():
        for way, params in [*ways.items(), *public.items()]:
            given = ball(space) if way in public else {}

            def fit(
                seed: int, params: Any = params, given: Any = given, at: Any = (geometry, make)
            ):
                return fitted(
                    s.PrivateFrechetMean, seed, at[1], params | given | {"manifold": at[0]}
                )

            yield f"mean {space} {way}".strip(), fit


def fitted(
    kind: Any, seed: int, make: Callable[[int], np.ndarray], params: dict[str, Any], *y: Any
) -> Any:
    """A fit of the records of a seed; `people` and `present` name the unit."""
    params = dict(params)
    groups = {"groups": PEOPLE} if params.pop("people", False) else {}
    if params.pop("present", False):
        params["accountant"] = present()
    return kind(**params, random_state=seed).fit(make(seed), *y, **groups)


def of_classes() -> Iterator[tuple[str, Fit]]:
    ways: dict[str, dict[str, Any]] = {
        "": {},
        "people": {"people": True},
        "present": {"present": True},
        "bars": {"uncertainty": True},
        "much": {"epsilon": 8.0},
        "ball": {"ball": True},
        "ball people": {"ball": True, "people": True},
        "ball pure": {"ball": True, "delta": 0.0},
        "ball bars": {"ball": True, "uncertainty": True},
    }
    for space in ("euclidean", "sphere", "affine", "hyperboloid", "subspaces", "product"):
        geometry, make = SPACES[space]
        for way, params in ways.items():
            given = ball(space) if params.get("ball") else {}
            rest = {k: v for k, v in params.items() if k != "ball"}
            rest |= given | {"manifold": geometry, "classes": [0, 1]}

            def fit(seed: int, rest: Any = rest, make: Any = make) -> Any:
                return fitted(s.PrivateMinimumDistanceToMean, seed, make, rest, LABELS)

            yield f"classes {space} {way}".strip(), fit
    for space in ("euclidean", "sphere", "affine"):
        geometry, make = SPACES[space]

        def pipeline(seed: int, geometry: Any = geometry, make: Any = make) -> Any:
            given = {"manifold": geometry, "classes": [0, 1]}
            return fitted(s.PrivateTangentClassifier, seed, make, given, LABELS)

        yield f"tangent classifier {space}", pipeline


def components() -> Iterator[tuple[str, Fit]]:
    for mechanism in ("covariance", "refine", "power", "gradient"):
        for way, params in {
            "": {},
            "two": {"n_components": 2},
            "people": {"people": True},
            "public": {"row_norm": 6.0, "center": "assume"},
            "public people": {"row_norm": 6.0, "center": "assume", "people": True},
            "public norm": {"row_norm": 6.0},
            "assume": {"center": "assume"},
            "much": {"epsilon": 8.0},
        }.items():
            given: dict[str, Any] = {"mechanism": mechanism} | params  # type: ignore[operator]
            yield f"components {mechanism} {way}".strip(), _table_fit(given)
    pure = {"mechanism": "covariance", "delta": 0.0}
    for way, more in {"": {}, "public": {"row_norm": 6.0}, "people": {"people": True}}.items():
        yield f"components pure {way}".strip(), _table_fit(pure | more)
    for space in ("euclidean", "sphere", "affine", "hyperboloid", "correlations"):
        geometry, make = SPACES[space]
        for way, more in {
            "": {},
            "people": {"people": True},
            "present": {"present": True},
            "ball": ball(space),
        }.items():
            given = {"manifold": geometry, "n_components": 1} | more

            def fit(seed: int, given: Any = given, make: Any = make) -> Any:
                return fitted(s.PrivateTangentPCA, seed, make, given)

            yield f"tangent components {space} {way}".strip(), fit


def _table_fit(given: dict[str, Any]) -> Fit:
    return lambda seed: fitted(
        s.PrivatePrincipalEigenvector, seed, lambda seed: table(seed, 4), given
    )


def linear() -> Iterator[tuple[str, Fit]]:
    public = {"feature_norm": 8.0, "center": np.zeros(3)}
    for loss in ("log_loss", "hinge", "squared_error", "huber"):
        for way, more in {
            "": {},
            "people": {"people": True},
            "sampled": {"batch_size": 40, "n_steps": 10},
            "sampled public": {"batch_size": 40, "n_steps": 10} | public,
            "public": public,
            "public people": public | {"people": True},
            "much": {"epsilon": 8.0},
            "white": {"epsilon": 200.0},
            "ridge": {"alpha": 0.1},
            "through zero": {"fit_intercept": False},
            "noised": {"preconditioner": "noised"},
            "diagonal": {"preconditioner": "diagonal"},
            "norm": {"preconditioner": "norm"},
            "paper": {"preconditioner": "paper", "n_steps": 10},
            "none": {"preconditioner": "none"},
        }.items():
            given: dict[str, Any] = {"loss": loss} | more
            if loss in ("log_loss", "hinge"):
                given["classes"] = [0, 1]
            elif "public" in way:
                given["target_range"] = (-4.0, 8.0)

            def fit(seed: int, given: Any = given, loss: str = loss) -> Any:
                X = table(seed, 3)
                y = X[:, 0] - 0.5 * X[:, 1] + bell(seed + 1, _N)
                y = (y > 1.0).astype(int) if "classes" in given else y
                return fitted(s.PrivateNoisyAdaGrad, seed, lambda seed: X, given, y)

            yield f"linear {loss} {way}".strip(), fit


def _pull(point: np.ndarray, x: np.ndarray, y: Any) -> np.ndarray:
    return point - x


def costs() -> Iterator[tuple[str, Fit]]:
    ways: dict[str, dict[str, Any]] = {
        "": {},
        "people": {"people": True},
        "clip": {"clip_norm": "private"},
        "average": {"output": "average"},
        "poisson": {"batch_size": 40},
        "fixed size": {"batch_size": 40, "sampling": "fixed-size"},
        "variance-reduced": {"batch_size": 40, "solver": "variance-reduced", "n_steps": 10},
        "much": {"epsilon": 8.0},
    }
    for space in ("euclidean", "sphere", "affine", "hyperboloid", "frames"):
        geometry, make = SPACES[space]
        for way, more in ways.items():
            given = {"manifold": geometry, "n_steps": 6} | more | ball(space)

            def fit(seed: int, given: Any = given, make: Any = make) -> Any:
                return fitted(s.PrivateRiemannianERM, seed, make, given)

            yield f"descent {space} {way}".strip(), fit
    for way, more in ways.items():
        own = {"gradient": _pull, "n_steps": 6, "start": np.zeros(3)} | more

        def fit(seed: int, own: Any = own) -> Any:
            return fitted(s.PrivateRiemannianERM, seed, lambda seed: bell(seed, _N, 3), own)

        yield f"descent own cost {way}".strip(), fit


def regressions() -> Iterator[tuple[str, Fit]]:
    for space in ("euclidean", "sphere", "affine", "hyperboloid", "rotations"):
        geometry, make = SPACES[space]
        for way, more in {
            "": {},
            "people": {"people": True},
            "ball": ball(space),
            "scaled": {"feature_center": np.zeros(2), "feature_scale": 2.0},
            "white": {"epsilon": 3000.0},
        }.items():
            if way == "white" and space != "euclidean":
                continue
            given = {"manifold": geometry} | more

            def fit(seed: int, given: Any = given, make: Any = make) -> Any:
                X = bell(seed + 5, _N, 2)
                return fitted(s.PrivateGeodesicRegressor, seed, lambda seed: X, given, make(seed))

            yield f"geodesic {space} {way}".strip(), fit
    for mechanism in ("parametric", "sufficient-statistics", "per-query"):
        for way, more in {
            "": {},
            "people": {"people": True},
            "public": {"feature_scale": 1.0, "base_point": np.array([1.0, 0.0, 0.0])},
            "label": {"privacy_unit": "label"},
        }.items():
            given = {"mechanism": mechanism, "manifold": "hyperboloid"} | more
            given |= {"n_frequencies": 8} if mechanism != "per-query" else {"n_queries": 3}

            def hyperbolic(seed: int, given: Any = given) -> Any:
                X, y = bell(seed + 5, _N, 2), on_hyperboloid(seed, 2)
                return fitted(s.PrivateHyperbolicRegressor, seed, lambda seed: X, given, y)

            yield f"hyperbolic {mechanism} {way}".strip(), hyperbolic


def others() -> Iterator[tuple[str, Fit]]:
    for way, given in {
        "": {},
        "gradient": {"mechanism": "gradient", "rank": 2, "n_steps": 5},
        "covariance": {"mechanism": "covariance", "rank": 2},
        "stochastic": {"mechanism": "stochastic", "rank": 2, "n_steps": 5},
        "none": {"mechanism": "none"},
        "untested": {"signal_test": "none", "rank": 1},
        "much": {"epsilon": 8.0},
    }.items():
        yield (
            f"completion {way}".strip(),
            lambda seed, given=given: fitted(s.PrivateMatrixCompletion, seed, ratings, given),
        )
    for way, more in {"": {}, "runs": {"mean_runs": 3.0}}.items():

        def searched(seed: int, more: Any = more) -> Any:
            model = s.PrivateMinimumDistanceToMean("euclidean", np.zeros(3), 4.0, classes=[0, 1])
            grid = {"radius": [2.0, 8.0]}
            search = s.PrivateGridSearchCV(model, grid, **more, random_state=seed)
            return search.fit(bell(seed, _N, 3), LABELS)

        yield f"grid search {way}".strip(), searched
    models: dict[str, tuple[Any, Callable[[int], tuple[np.ndarray, ...]]]] = {
        "mean": (
            lambda: s.PrivateFrechetMean(g.Sphere(2), **ball("sphere")),
            lambda seed: (on_sphere(seed, 2),),
        ),
        "classes": (
            lambda: s.PrivateMinimumDistanceToMean(g.SPD(2), **ball("affine"), classes=[0, 1]),
            lambda seed: (matrices(seed, 2), LABELS),
        ),
        "components": (
            lambda: s.PrivatePrincipalEigenvector(center="assume", row_norm=6.0),
            lambda seed: (table(seed, 3),),
        ),
    }
    for name, (model, data) in models.items():
        for way, more in {
            "statistic": {"local": "statistic"},
            "aggregator": {"local": "statistic", "trust": "aggregator"},
            "sgd": {"local_steps": 2, "n_rounds": 3},
        }.items():

            def federated(seed: int, model: Any = model, data: Any = data, more: Any = more) -> Any:
                run = FederatedEstimator(model(), **{"n_rounds": 1} | more, random_state=seed)
                return run.fit(*data(seed), clients=np.arange(_N) % 4)

            yield f"federated {name} {way}", federated


def fits() -> dict[str, tuple[Fit, int]]:
    """All fits by name, with their seeds: every kind, then all but means with other seeds."""
    again = {}
    for group in (of_classes, components, linear, costs, regressions, others):
        again |= dict(group())
    kinds = [dict(means()) | again, again, again]
    return {
        f"{name} {seed}": (fit, seed)
        for seed, group in enumerate(kinds, start=1)
        for name, fit in group.items()
    }


# -- numbers ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def plain_streams() -> Iterator[None]:
    """Noise of a seed and a label, whatever the records and the event: those differ in rounding."""
    init = NoiseStreams.__init__

    def __init__(self: NoiseStreams, random_state: int | None = None, context: bytes = b"") -> None:
        init(self, random_state, b"")

    NoiseStreams.__init__ = __init__  # type: ignore[method-assign]  # undone below
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        NoiseStreams.__init__ = init  # type: ignore[method-assign]


def learned(model: Any) -> dict[str, np.ndarray]:
    """The numbers that a fit learned, by attribute; frames as projectors, axes without signs."""
    found: dict[str, np.ndarray] = {}
    geometry = getattr(model, "geometry_", None)
    known = geometry.embedding if isinstance(geometry, g.Geometry) else None
    for name, value in sorted(vars(model).items()):
        if not name.endswith("_") or name in _LOOSE:
            continue
        if isinstance(value, tuple | list) and all(np.ndim(v) == np.ndim(value[0]) for v in value):
            value = np.concatenate([np.ravel(v) for v in value]) if value else np.zeros(0)
        if not isinstance(value, np.ndarray | float | int) or isinstance(value, bool):
            continue
        numbers = np.asarray(value)
        if numbers.dtype.kind not in "fiu":
            continue
        numbers = numbers.astype(float)
        if known is not None and known.rank and numbers.shape[-2:] == geometry.shape:
            frames = known.give(numbers.reshape(-1, *geometry.shape))
            numbers = np.swapaxes(frames, -1, -2) @ frames
        found[name] = np.abs(numbers) if "components" in name else numbers
    return found


def number(values: np.ndarray) -> tuple[float, float]:
    """A weighted sum of all entries, and the sum of their sizes in it."""
    flat = np.nan_to_num(np.ravel(values), nan=0.0, posinf=1e9, neginf=-1e9)
    weights = 1.0 + (0.6180339887 * np.arange(len(flat))) % 1.0
    return math.fsum(weights * flat), math.fsum(weights * np.abs(flat))


def result(fit: Fit, seed: int) -> dict[str, np.ndarray]:
    """What a fit learned."""
    with plain_streams():
        return learned(fit(seed))


def summary(found: dict[str, np.ndarray]) -> dict[str, float]:
    """Ten digits of each attribute's number."""
    return {name: float(f"{number(values)[0]:.10g}") for name, values in found.items()}


def differences(stored: dict[str, float], found: dict[str, np.ndarray]) -> list[str]:
    """What a fit learned otherwise than it is stored."""
    said = []
    for name, old in stored.items():
        if name not in found:
            said.append(f"{name} is gone")
            continue
        new, size = number(found[name])
        if not abs(new - old) <= TOLERANCE * size + 1e-12:
            said.append(f"{name}: {old!r} -> {new:.10g}")
    return said


def exact(found: dict[str, np.ndarray]) -> str:
    """A digest of every bit."""
    digest = hashlib.blake2b(digest_size=6)
    for name, values in found.items():
        digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def running(most: int = 1000) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """The first fits that are steady and not refused, with what they learned."""
    left = most
    for name, fit in fits().items():
        if not left:
            return
        if name.startswith(UNSTEADY):
            continue
        try:
            found = result(*fit)
        except (ValueError, TypeError):  # a way that a space or an estimator has not
            continue
        left -= 1
        yield name, found


def compare(names: list[str] | None = None) -> list[str]:
    """A line for each fit that learned something else than is stored."""
    stored, said = json.loads(STORED.read_text()), []
    known = fits()
    for name in stored if names is None else names:
        if name not in known:
            said.append(f"{name}: is gone")
            continue
        found = differences(stored[name], result(*known[name]))
        said += [f"{name}: {'; '.join(found)}"] if found else []
    return said


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if "--exact" in sys.argv:
        path, *words = words
        known = fits()
        names = [name for name in json.loads(STORED.read_text()) if set(words) <= set(name.split())]
        lines = [f"{name}\t{exact(result(*known[name]))}\n" for name in names]
        Path(path).write_text("".join(lines))
        return
    if "--write" in sys.argv:
        lines = [f"{json.dumps(name)}: {json.dumps(summary(found))}" for name, found in running()]
        STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return
    print(*(said := compare()), sep="\n")
    sys.exit(bool(said))


if __name__ == "__main__":
    main()
