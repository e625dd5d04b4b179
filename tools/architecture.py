"""Numbers about the source of the package, for the table of docs/design.md.

python tools/architecture.py                   # this checkout
python tools/architecture.py 93d9dbc           # a commit, beside it
python tools/architecture.py 93d9dbc --sizes   # code lines by what they are for
python tools/architecture.py --choices         # places that decide the same thing again
python tools/architecture.py --run             # lines and files that three default fits run
"""

from __future__ import annotations

import ast
import collections
import fnmatch
import importlib
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# Packages that may build mechanisms and events because it is what they are about.
BUILDERS = ("mechanisms", "privacy", "ledger", "riemannian_laws")
# What modules are for: the first pattern that fits; of earlier layouts too.
PURPOSES = {
    "people who own several records": "_groups preprocessing */groups */grouped_rows */noise_shape",
    "exact integers": "mechanisms/integer* mechanisms/lattice mechanisms/discrete_gaussian "
    "mechanisms/batch_sizes mechanisms/_rounding privacy/lattice "
    "mechanisms/held mechanisms/sum mechanisms/units core/arithmetic",
    "error bars, regions, tests, tangent components": "inference/* mean/joint* mean/uncertainty "
    "mean/tangent_pca mechanisms/lifts",
    "private search for centre and scale": "location_scale/* solvers/ball_search solvers/rows",
    "Riemannian laws and their profiles": "riemannian_laws/* geometry/distributions* "
    "privacy/profile* mechanisms/output",
    "ledger, filters, active budgets": "ledger/* privacy/accountant privacy/ledger "
    "privacy/filters privacy/statements",
    "auditor's page": "page/* __main__",
    "pure privacy of matrices and classes": "mechanisms/pure_* pca/pure_releases",
    "sensitivities, events, calibration": "privacy/*",
    "other mechanisms": "mechanisms/*",
    "manifolds": "geometry/*",
    "means and classes": "mean/* mean classification solvers/mean_* solvers/adaptive_mean "
    "solvers/output_mean",
    "principal components": "pca/* decomposition solvers/pca_* solvers/subspace",
    "matrix completion": "completion/* completion solvers/completion_* solvers/item_effects "
    "solvers/local_factors solvers/subspace_signal",
    "geodesic regression": "regression/geodesic*",
    "hyperbolic regression": "regression/* regression solvers/regression_plan "
    "solvers/structured_prediction solvers/wrapped_model",
    "linear models": "linear_model/* linear_model solvers/adagrad solvers/glm "
    "solvers/linear_planning solvers/preconditioners",
    "federated learning": "federated/*",
    "descent, own costs, pymanopt optimizers": "descent/* erm/* erm solvers/* schedules "
    "pymanopt_optimizers",
    "search over parameters": "selection/* selection",
    "audits": "auditing/*",
    "data sets, plots, reports": "datasets/* datasets ratings hierarchies plotting reporting",
    "order of a fit, input, messages": "core/* *",
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
    return len(lines - prose)


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
        if name.startswith("mechanisms/")
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


def run() -> None:
    """Code lines and files that default fits run, traced."""
    import numpy as np

    import skriemdp

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), rng.normal(size=500)
    mean = skriemdp.PrivateFrechetMean("euclidean", center=np.zeros(3), radius=5.0)
    for name, fit in {
        "mean in a public ball of R^3": lambda: mean.fit(X),
        "principal component": lambda: skriemdp.PrivatePrincipalEigenvector().fit(X),
        "AdaGrad": lambda: skriemdp.PrivateNoisyAdaGrad("squared_error").fit(X, y),
    }.items():
        lines: set[tuple[str, int]] = set()

        def trace(frame: Any, event: str, argument: Any, lines: Any = lines) -> Any:
            if "/skriemdp/" not in frame.f_code.co_filename:
                return None
            if event == "line":
                lines.add((frame.f_code.co_filename, frame.f_lineno))
            return trace

        sys.settrace(trace)
        try:
            fit()
        finally:
            sys.settrace(None)
        print(f"| {name} | {len(lines)} lines, {len({file for file, _ in lines})} files |")


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
    if "--run" in sys.argv:
        return run()
    commits = [word for word in sys.argv[1:] if not word.startswith("-")]
    count = sizes if "--sizes" in sys.argv else choices if "--choices" in sys.argv else numbers
    columns = [count(at_commit(commit)) for commit in commits] + [count(checkout())]
    for row in columns[0]:
        print("| " + " | ".join([row, *(column[row] for column in columns)]) + " |")
    if "-v" in sys.argv:
        print(*building_modules(checkout()), sep="\n")


if __name__ == "__main__":
    main()
