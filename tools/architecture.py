"""Numbers about the source of the package, for the table of docs/design.md.

python tools/architecture.py                   # this checkout
python tools/architecture.py 93d9dbc           # a commit, beside it
python tools/architecture.py 93d9dbc --sizes   # code lines by what they are for
python tools/architecture.py --choices         # places that decide the same thing again
python tools/architecture.py --decided         # functions that decide a choice outside its home
python tools/architecture.py --believed        # lines and files that default fits run and enter
python tools/architecture.py --trusted         # modules that see records, and their code lines
python tools/architecture.py --net             # the last three beside tests/data/net.json
python tools/architecture.py --net --write     # store them there
"""

from __future__ import annotations

import ast
import collections
import contextlib
import fnmatch
import functools
import hashlib
import importlib
import io
import itertools
import json
import re
import secrets
import subprocess
import sys
import tokenize
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
# Packages that may build mechanisms and events because it is what they are about.
BUILDERS = ("_mechanisms", "privacy", "ledger", "riemannian_laws")
# What modules are for: the first pattern that fits; of earlier layouts too.
PURPOSES = {
    "people who own several records": "_groups preprocessing */groups */grouped_rows",
    "exact integers": "_mechanisms/integer* _mechanisms/lattice _mechanisms/discrete_gaussian "
    "_mechanisms/batch_sizes _mechanisms/_rounding privacy/_lattice "
    "_mechanisms/bounded_sets _mechanisms/sum _mechanisms/units _core/arithmetic",
    "error bars, regions, tests, tangent components": "inference/* _mean/joint* _mean/uncertainty "
    "_mean/tangent_pca _mechanisms/lifts",
    "private search for centre and scale": "_location_scale/* solvers/ball_search solvers/rows",
    "Riemannian laws and their profiles": "riemannian_laws/* geometry/distributions* "
    "privacy/profile* _mechanisms/output",
    "ledger, filters, active budgets": "ledger/* privacy/accountant privacy/ledger "
    "privacy/filters privacy/statements",
    "auditor's page": "page/* __main__",
    "pure privacy of matrices and classes": "_mechanisms/pure_* _pca/pure_releases",
    "sensitivities, events, calibration": "privacy/*",
    "other mechanisms": "_mechanisms/*",
    "manifolds": "geometry/*",
    "means and classes": "_mean/* mean classification solvers/mean_* solvers/adaptive_mean "
    "solvers/output_mean",
    "principal components": "_pca/* decomposition solvers/pca_* solvers/subspace",
    "matrix completion": "_completion/* completion solvers/completion_* solvers/item_effects "
    "solvers/local_factors solvers/subspace_signal",
    "geodesic regression": "_regression/geodesic*",
    "hyperbolic regression": "_regression/* regression solvers/regression_plan "
    "solvers/structured_prediction solvers/wrapped_model",
    "linear models": "_linear_model/* linear_model solvers/adagrad solvers/glm "
    "solvers/linear_planning solvers/preconditioners",
    "federated learning": "federated/*",
    "descent, own costs, pymanopt optimizers": "_descent/* _erm/* erm solvers/* schedules "
    "pymanopt_optimizers",
    "search over parameters": "_selection/* selection",
    "audits": "auditing/*",
    "data sets, plots, reports": "datasets/* datasets ratings hierarchies plotting reporting",
    "curator, what rows give": "_curator/* _gives/*",
    "order of a fit, input, messages": "_core/* *",
}


def checkout() -> dict[str, str]:
    """Paths inside the package to their text, as they lie here."""
    package = ROOT / "skriemdp"
    paths = sorted(package.rglob("*.py"))
    return {path.relative_to(package).as_posix(): path.read_text() for path in paths}


def at_commit(commit: str) -> dict[str, str]:
    """The same of a commit."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True
        ).stdout

    names = git("ls-tree", "-r", "--name-only", commit, "skriemdp").split()
    names = [name for name in names if name.endswith(".py")]
    return {name.removeprefix("skriemdp/"): git("show", f"{commit}:{name}") for name in names}


def classes_of(sources: dict[str, str]) -> set[str]:
    """Mechanisms and events: classes of the builders that have an event, or are one."""
    found = set()
    for name, text in sources.items():
        if name.split("/")[0] not in BUILDERS:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                members = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
                if node.name.endswith("Event") or {"event", "release"} <= members:
                    found.add(node.name)
    return found


def is_release(name: str) -> bool:
    """Whether a module says by its name that it holds releases."""
    stem = name.rpartition("/")[2].removesuffix(".py")
    return stem == "releases" or stem.endswith("_releases")


def building_modules(sources: dict[str, str]) -> list[str]:
    """Modules that make a mechanism or an event, neither builders nor releases."""
    wanted, found = classes_of(sources), []
    for name, text in sources.items():
        if name.split("/")[0] in BUILDERS or is_release(name):
            continue
        made = [n.func for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
        if any(set(ast.unparse(f).split(".")[-2:]) & wanted for f in made):
            found.append(name)
    return found


def annotated_share(sources: dict[str, str], packages: tuple[str, ...] = ()) -> float:
    """Functions whose arguments and result all have a type, over all functions."""
    done = total = 0
    for name, text in sources.items():
        if packages and name.split("/")[0] not in packages:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                given += [a for a in (node.args.vararg, node.args.kwarg) if a]
                typed = all(a.annotation or a.arg in ("self", "cls") for a in given)
                total += 1
                done += typed and (node.returns is not None or node.name == "__init__")
    return done / total


def constructor_parameters(sources: dict[str, str]) -> int:
    """Parameters of the public estimators' constructors, in all."""
    count = 0
    for text in sources.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and (
                node.name.startswith("Private") or node.name == "FederatedEstimator"
            ):
                for method in node.body:
                    if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                        names = {a.arg for a in [*method.args.args, *method.args.kwonlyargs]}
                        if {"accountant", "random_state"} & names:
                            count += len(names) - 1
    return count


def code_lines(text: str) -> int:
    """How many lines have code on them."""
    return len(code_rows(text))


def code_rows(text: str) -> set[int]:
    """Lines with code on them: no comment, no blank line, no docstring."""
    prose = set()
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node):
            first = node.body[0]
            prose |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = set()
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (*silent, tokenize.ENDMARKER):
            lines |= set(range(token.start[0], token.end[0] + 1))
    return lines - prose


def spend_calls(sources: dict[str, str]) -> int:
    """Places that charge a budget."""
    return sum(
        isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".spend")
        for text in sources.values()
        for node in ast.walk(ast.parse(text))
    )


def largest_package(sources: dict[str, str]) -> str:
    """The package with most files, and how many."""
    sizes = collections.Counter(name.rpartition("/")[0] for name in sources if "/" in name)
    ((name, size),) = sizes.most_common(1)
    return f"{size} ({name})"


def promises() -> Any:
    """The tests of the promises: what they call a clip or a factory is counted here."""
    sys.path.insert(0, str(ROOT / "tests"))
    return importlib.import_module("test_promises")


def choices(sources: dict[str, str]) -> dict[str, str]:
    """How often the package decides the same thing again."""
    tests = promises()
    clips = set(tests.clip_sites(sources)) - tests.OTHER_CLIPS
    trees = {name: ast.parse(text) for name, text in sources.items()}
    classes = [
        node
        for name, tree in trees.items()
        if name.startswith("_mechanisms/")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(n, ast.FunctionDef) and n.name.startswith("release") for n in node.body)
    ]
    discrete = [node for node in classes if "discrete-gaussian" in ast.unparse(node)]
    floats = [n for n in classes if re.search(r"'(gaussian|symmetric)'", ast.unparse(n))]
    functions = [
        n for tree in trees.values() for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)
    ]
    signatures = {ast.unparse(node.args) for node in functions if node.name == "release"}
    words = {"exact", "lattice", "arithmetic"}
    deciding = [n for n in functions if words & {a.arg for a in [*n.args.args, *n.args.kwonlyargs]}]
    searches = {
        name
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("budget.quantile")
    }
    constants = [
        node
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.Assign)
        and re.fullmatch(r"_?[A-Z][A-Z_0-9]*", ast.unparse(node.targets[0]))
        and any(
            isinstance(n, ast.Constant) and type(n.value) in (int, float)
            for n in ast.walk(node.value)
        )
    ]
    builders = set(tests.factory_callers(sources)) | set(building_modules(sources))
    return {
        "places that shorten private rows, outside mechanisms": str(len(clips)),
        "their files": str(len({name for name, _ in clips})),
        "mechanisms of integers; of floats": f"{len(discrete)}; {len(floats)}",
        "signatures of `release`": str(len(signatures)),
        "modules that build mechanisms or events besides releases, factories counted": str(
            len(builders)
        ),
        "functions with `exact`, `lattice` or `arithmetic` in their signature": str(len(deciding)),
        "modules that search by quantiles": str(len(searches)),
        "constants that are numbers": str(len(constants)),
        "code lines": str(sum(map(code_lines, sources.values()))),
    }


# -- the net: what has to be read, decided and trusted; it never rises ----------------------------
#
# The patterns are frozen.  Code that is written so that they miss it counts as if they did not.

NET = ROOT / "tests" / "data" / "net.json"
# Choices that are orthogonal in theory, by what a test of one says.
CHOICES = {
    "person or row": r"\b(groups?|grouped|people|owned|by_trace|n_groups)\b",
    "n secret or public": r"\b(secret_n|PRESENT|noise of n|_left_by_presence|records\.noise)\b",
    "pure or Gaussian": r"\b(pure|PureBudget|delta == 0|delta == 0\.0|law is None"
    r"|law is not None)\b",
    "dense, sparse, streamed": r"\b(issparse|sparse|streamed|is_sparse|is_stream|has_scores"
    r"|tocsr)\b",
    "ball public or searched": r"\b(search is None|search is not None|ball is None"
    r"|ball is not None|row_norm is None|center is None|radius is None|private_center"
    r"|targets is None|targets is not None)\b",
    "all records or batches": r"\b(sampled|stochastic|batch_size|chosen is None"
    r"|chosen is not None|sampler)\b",
    "here or at clients": r"\b(tables|n_tables|times|together|trust|shares is None|cohort)\b",
    "which manifold, by name": r"\b(is_one_of|Sphere|Circle|Grassmann|Stiefel|SPDGeometry"
    r"|PlanarShapes|Product|Correlation|Rotations)\b",
}
# Where each of them may be decided.
HOMES = {
    "person or row": ("_groups.py", "_mechanisms/units.py"),
    "n secret or public": ("_core/count_releases.py",),
    "pure or Gaussian": ("_mechanisms/budget.py",),
    "dense, sparse, streamed": ("_location_scale/rows.py", "_arrays.py"),
    "ball public or searched": ("_location_scale/search.py",),
    "all records or batches": ("_descent/releases.py",),
    "here or at clients": ("federated/",),
    "which manifold, by name": ("geometry/",),
}
# Modules that account for noise; they are trusted whether records pass through them or not.
ACCOUNTING = ("_mechanisms/", "privacy/", "ledger/", "riemannian_laws/")
ACCOUNTING += ("_random.py", "_core/charge.py", "_core/estimator.py")


def named_functions(node: ast.AST, before: str = "") -> list[tuple[str, ast.FunctionDef]]:
    """All functions below `node` with their qualified names, those inside others too."""
    found = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{before}{child.name}"
            if isinstance(child, ast.FunctionDef):
                found.append((name, child))
            found += named_functions(child, f"{name}.")
        else:
            found += named_functions(child, before)
    return found


def tests_of(function: ast.FunctionDef) -> list[str]:
    """What a function tests: conditions, filters of comprehensions, operands of and and or."""
    found: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            found.append(node.test)
        elif isinstance(node, ast.comprehension):
            found += node.ifs
        elif isinstance(node, ast.BoolOp):
            found.append(node)
    return [ast.unparse(test) for test in found]


def decided(sources: dict[str, str]) -> dict[str, dict[str, int]]:
    """For each choice, the functions that decide it outside its home: each counts one."""
    found: dict[str, dict[str, int]] = {choice: {} for choice in CHOICES}
    for name, text in sources.items():
        for function, node in named_functions(ast.parse(text)):
            said = tests_of(node)
            for choice, pattern in CHOICES.items():
                if not name.startswith(HOMES[choice]) and any(re.search(pattern, s) for s in said):
                    key, named = f"{name}:{function}", found[choice]
                    while key in named:  # a function of the same name, such as a setter
                        key += "'"
                    named[key] = 1
    return found


def default_fits() -> dict[str, Callable[[], Any]]:
    """Default fits, on made-up records."""
    import numpy as np

    import skriemdp as s

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), rng.normal(size=500)
    factors = rng.normal(size=(500, 3, 6))
    spd, labels = factors @ np.swapaxes(factors, 1, 2) / 6, (y > 0).astype(int)
    ball = {"center": np.zeros(3), "radius": 5.0}
    classes = {"classes": [0, 1]}
    return {
        "mean in R^3": lambda: s.PrivateFrechetMean("euclidean").fit(X),
        "mean of matrices": lambda: s.PrivateFrechetMean("spd").fit(spd),
        "mean in a public ball": lambda: s.PrivateFrechetMean("euclidean", **ball).fit(X),
        "components": lambda: s.PrivatePrincipalEigenvector().fit(X),
        "linear model": lambda: s.PrivateNoisyAdaGrad("squared_error").fit(X, y),
        "class means": lambda: s.PrivateMinimumDistanceToMean("spd", **classes).fit(spd, labels),
    }


class Entered(NamedTuple):
    """What a fit runs: code lines inside functions, and all lines of the functions it enters."""

    lines: dict[str, int]
    run: int


_KEYS = itertools.count()


@contextlib.contextmanager
def fixed_noise() -> Iterator[None]:
    """Fits draw the noise that they drew in the last run of this program: no count is by chance."""
    before = secrets.token_bytes

    def token_bytes(size: int | None = None) -> bytes:
        return hashlib.shake_256(str(next(_KEYS)).encode()).digest(size or 32)

    secrets.token_bytes = token_bytes  # type: ignore[assignment]  # undone below
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        secrets.token_bytes = before


@contextlib.contextmanager
def traced(trace: Callable[..., Any]) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@functools.cache
def code_and_functions(path: str) -> tuple[frozenset[int], tuple[tuple[int, int, int], ...]]:
    """Code lines of a module; first line without and with decorators, and last, of functions."""
    text = Path(path).read_text()
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    places = (
        (n.lineno, min([n.lineno, *(d.lineno for d in n.decorator_list)]), n.end_lineno or 0)
        for n in nodes
    )
    return frozenset(code_rows(text)), tuple(places)


def entered(fit: Callable[[], Any]) -> Entered:
    """What `fit`, once everything is loaded and remembered, runs and enters, by module."""
    package = str(ROOT / "skriemdp")
    lines: set[tuple[str, int]] = set()
    functions: set[tuple[str, int]] = set()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(package) or code.co_name == "<module>":
            return None
        functions.add((code.co_filename, code.co_firstlineno))

        def local(frame: Any, event: str, argument: Any) -> Any:
            if event == "line":
                lines.add((code.co_filename, frame.f_lineno))
            return local

        return local

    with fixed_noise(), traced(trace):
        fit()
    read: dict[str, set[int]] = collections.defaultdict(set)
    for path, begin in functions:
        rows, places = code_and_functions(path)
        for first, decorated, last in places:
            if begin in (first, decorated):
                read[path] |= {row for row in rows if decorated <= row <= last}
    run = sum(row in code_and_functions(path)[0] for path, row in lines)
    names = {path: Path(path).relative_to(package).as_posix() for path in read}
    return Entered({names[path]: len(rows) for path, rows in sorted(read.items())}, run)


def believed(times: int = 3) -> dict[str, Entered]:
    """What default fits enter: the least of so many, whose noise takes them different ways."""
    found = {}
    for name, fit in default_fits().items():
        with fixed_noise():
            fit()  # loads, and fills caches
        tried = [entered(fit) for _ in range(times)]
        found[name] = min(tried, key=lambda one: sum(one.lines.values()))
    return found


# An odd number of records: arrays of as many rows, or of half as many, are theirs.
_RECORDS = 157


def observed_fits() -> dict[str, Callable[[], Any]]:
    """One fit of every estimator, on `_RECORDS` made-up records."""
    import numpy as np
    from scipy import sparse

    import skriemdp as s
    from skriemdp.geometry import SPD, Hyperboloid

    rng, places = np.random.default_rng(0), np.random.default_rng(7)
    X, y = rng.normal(size=(_RECORDS, 3)), rng.normal(size=_RECORDS)
    middle, plane = np.diag([1.0, 4.0, 0.2]), Hyperboloid(2)
    matrices = SPD(3).exp_coordinates(middle, 0.3 * places.normal(size=(_RECORDS, 6)))
    far = 0.3 * places.normal(size=(_RECORDS, 2)) + [1.0, 0.5]
    points = plane.exp_coordinates(plane.base_point, far)
    rated = np.where(rng.random((_RECORDS, 30)) < 0.4, rng.integers(1, 6, (_RECORDS, 30)), 0)
    ratings, labels = sparse.csr_array(rated.astype(float)), np.arange(_RECORDS) % 2
    mean, ball = s.PrivateFrechetMean, {"center": np.eye(3), "radius": 3.0}
    classes = s.PrivateMinimumDistanceToMean("spd", classes=[0, 1])
    hyperbolic = s.PrivateHyperbolicRegressor(manifold="hyperboloid")
    return {
        "mean": lambda: mean("spd").fit(matrices),
        "mean in a public ball": lambda: mean("spd", **ball).fit(matrices),
        "median": lambda: mean("hyperboloid", statistic="median").fit(points),
        "mean with bars": lambda: mean("euclidean", uncertainty=True).fit(X),
        "mean of people": lambda: mean("euclidean").fit(X, groups=np.arange(_RECORDS) // 3),
        "class means": lambda: classes.fit(matrices, labels),
        "components": lambda: s.PrivatePrincipalEigenvector(n_components=1).fit(X),
        "tangent components": lambda: s.PrivateTangentPCA(manifold="spd", n_components=2).fit(
            matrices
        ),
        "linear model": lambda: s.PrivateNoisyAdaGrad("log_loss", classes=[0, 1]).fit(X, labels),
        "geodesic": lambda: s.PrivateGeodesicRegressor("hyperboloid").fit(y[:, None], points),
        "hyperbolic": lambda: hyperbolic.fit(X, points),
        "completion": lambda: s.PrivateMatrixCompletion(bounds=(1, 5)).fit(ratings),
    }


def shows_records(value: Any, depth: int = 0) -> bool:
    """Whether a value is an array of as many rows as there are records, or holds one."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and hasattr(value, "ndim"):
        return bool(shape) and shape[0] in (_RECORDS, _RECORDS // 2)
    if depth > 2:
        return False
    if isinstance(value, tuple | list) and len(value) < 8:
        return any(shows_records(each, depth + 1) for each in value)
    if isinstance(value, dict) and len(value) < 20:
        return any(shows_records(each, depth + 1) for each in value.values())
    if type(value).__module__.startswith("skriemdp") and hasattr(value, "__dict__"):
        return any(shows_records(each, depth + 1) for each in list(vars(value).values())[:20])
    return False


def holding_records() -> set[str]:
    """Modules of which a function was seen with records among its arguments."""
    package, holding = str(ROOT / "skriemdp") + "/", set()
    looked: collections.Counter[Any] = collections.Counter()

    def trace(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        path = code.co_filename
        if path.startswith(package) and path not in holding and looked[code] < 3:
            looked[code] += 1
            if any(map(shows_records, frame.f_locals.values())):
                holding.add(path)

    fits = observed_fits()
    with fixed_noise(), traced(trace):
        for fit in fits.values():
            fit()
    return {path.removeprefix(package) for path in holding}


def trusted(sources: dict[str, str]) -> dict[str, int]:
    """Code lines of modules that see records, but for geometry, noise, accounting and ledger.

    Each of them can make an epsilon false.
    """
    seen = holding_records()
    names = sorted(n for n in seen if not n.startswith((*ACCOUNTING, "geometry/")))
    return {name: code_lines(sources[name]) for name in names}


Counts = dict[str, dict[str, dict[str, int]]]


def net() -> Counts:
    """What is stored: for each count its parts by name, whose numbers add up to it."""
    sources = checkout()
    return {
        "decided": decided(sources),
        "believed": {name: found.lines for name, found in believed().items()},
        "trusted": {"records are seen": trusted(sources)},
    }


def totals(counts: Counts) -> dict[str, int]:
    """The numbers that never rise; of decisions also their sum."""
    found = {
        f"{kind}: {name}": sum(parts.values())
        for kind, columns in counts.items()
        for name, parts in columns.items()
    }
    decisions = sum(sum(parts.values()) for parts in counts["decided"].values())
    return found | {"decided: all": decisions}


def risen(stored: Counts, now: Counts) -> list[str]:
    """One line for each number that rose, with the functions or modules that made it rise."""
    before, found = totals(stored), []
    for name, total in totals(now).items():
        kind, _, column = name.partition(": ")
        if column in now[kind] and total > before.get(name, 0):
            old, new = stored[kind].get(column, {}), now[kind][column]
            more = [f"{k} {old.get(k, 0)} -> {v}" for k, v in new.items() if v > old.get(k, 0)]
            found.append(f"{name}: {before.get(name, 0)} -> {total} ({'; '.join(more)})")
    return found


def compare_net() -> int:
    """Print every number beside the stored one; 1 where one rose."""
    now = net()
    if "--write" in sys.argv:
        NET.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
    stored = json.loads(NET.read_text())
    before = totals(stored)
    for name, total in totals(now).items():
        print(f"| {name} | {before.get(name, 0)} | {total} |")
    print(*(rose := risen(stored, now)), sep="\n")
    return int(bool(rose))


def numbers(sources: dict[str, str]) -> dict[str, str]:
    """The rows of the table."""
    return {
        "modules that build a mechanism or an event, besides mechanisms, privacy, ledger, "
        "riemannian_laws and the modules of releases": str(len(building_modules(sources))),
        "modules of releases (`releases.py`, `*_releases.py`)": str(sum(map(is_release, sources))),
        "places that charge a budget": str(spend_calls(sources)),
        "files of the largest package": largest_package(sources),
        "functions with all types": f"{annotated_share(sources):.0%}",
        "constructor parameters of the estimators": str(constructor_parameters(sources)),
        "code lines without docstrings and comments": str(sum(map(code_lines, sources.values()))),
        "of these imports, signatures of functions, lists of names": str(form_lines(sources)),
        "files": str(len(sources)),
    }


def sizes(sources: dict[str, str]) -> dict[str, str]:
    """Code lines by what they are for."""
    found = dict.fromkeys(PURPOSES, 0)
    for name, text in sources.items():
        found[purpose(name)] += code_lines(text)
    return {name: str(size) for name, size in found.items()}


def purpose(name: str) -> str:
    """What a module is for."""
    stem = name.removesuffix(".py")
    for wanted, patterns in PURPOSES.items():
        if any(fnmatch.fnmatchcase(stem, pattern) for pattern in patterns.split()):
            return wanted
    raise AssertionError(name)


def form_lines(sources: dict[str, str]) -> int:
    """Code lines that import, open a function, or list a module's names."""
    count = 0
    for text in sources.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                count += max(node.body[0].lineno - node.lineno, 1)
            elif isinstance(node, ast.Import | ast.ImportFrom) or (
                isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            ):
                count += (node.end_lineno or node.lineno) - node.lineno + 1
    return count


def main() -> None:
    if "--net" in sys.argv:
        sys.exit(compare_net())
    if "--decided" in sys.argv:
        for choice, parts in decided(checkout()).items():
            print(f"| {choice} | {len(parts)} |", *(parts if "-v" in sys.argv else ()), sep="\n")
        return
    if "--believed" in sys.argv:
        for name, found in believed().items():
            files, read = len(found.lines), sum(found.lines.values())
            print(f"| {name} | runs {found.run} lines | enters {read} lines in {files} files |")
        return
    if "--trusted" in sys.argv:
        lines = trusted(checkout())
        print(*(f"| {name} | {count} |" for name, count in lines.items()), sep="\n")
        print(f"| {len(lines)} modules | {sum(lines.values())} |")
        return
    commits = [word for word in sys.argv[1:] if not word.startswith("-")]
    count = sizes if "--sizes" in sys.argv else choices if "--choices" in sys.argv else numbers
    columns = [count(at_commit(commit)) for commit in commits] + [count(checkout())]
    for row in columns[0]:
        print("| " + " | ".join([row, *(column[row] for column in columns)]) + " |")
    if "-v" in sys.argv:
        print(*building_modules(checkout()), sep="\n")


if __name__ == "__main__":
    main()
