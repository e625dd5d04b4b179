"""Would the fast tests notice?  Small faults, one at a time.

    python tools/mutation.py --seed 0 --count 300 [--recheck RESULTS]
    python tools/mutation.py --packages skriemdp/descent --count 90 [--folder FOLDER]
    python tools/mutation.py --packages skriemdp/federated --tests tests/test_federated.py

A clone of the last commit is tested, never this checkout.  One run of the tests under coverage
says which test reaches which line.  Each mutant is then given to the tests that reach its line: at
first the most specific ones (at most `QUICK`, `QUICK_SECONDS` in all), and, if they all pass, the
others, up to `SECONDS` of predicted time.  Slow tests take no part; with ``--tests`` only those
files do, which takes less time and finds less.  Prints a table and the
survivors; results are kept in FOLDER/results.jsonl, so that a stopped run goes on where it was.

A mutant is chosen by the hash of its text, so that an edit elsewhere does not change the sample.
`--recheck RESULTS` runs the survivors of an earlier run once more, after tests were added.
"""

from __future__ import annotations

import argparse
import ast
import collections
import dataclasses
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("skriemdp",)
# Run documents, networks and optional packages: slow to start, and they test something else.
IGNORED_TESTS = (
    "test_docs.py",
    "test_flower.py",
    "test_nvflare.py",
    "test_descent_dask.py",
    "test_layers.py",
)
QUICK, QUICK_SECONDS, SECONDS = 40, 4.0, 15.0

# ---- faults ------------------------------------------------------------------------------------

BOUNDARY = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
NEGATED = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
}
SWAPPED = {
    "min": "max",
    "minimum": "maximum",
    "floor": "ceil",
    "any": "all",
    "nextafter": "copysign",
    "log1p": "log",
    "expm1": "exp",
}
SWAPPED |= {SWAPPED[name]: name for name in ("min", "minimum", "floor", "any")}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One fault: the bytes [start, end) of a file replaced."""

    path: str
    scope: str
    line: int
    last_line: int
    start: int
    end: int
    kind: str
    before: str
    after: str
    ordinal: int = 0

    def key(self, seed):
        text = repr((seed, self.path, self.scope, self.kind, self.before, self.after, self.ordinal))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class Sites(ast.NodeVisitor):
    """Every place of one file where a fault can be planted."""

    def __init__(self, path, source):
        self.path, self.source = path, source.encode()
        self.offsets = [0]
        for line in self.source.splitlines(keepends=True):
            self.offsets.append(self.offsets[-1] + len(line))
        self.scope, self.found, self.twins = [], [], collections.Counter()
        self.returns = None
        self.visit(ast.parse(source))

    def plant(self, node, kind, after):
        start = self.offsets[node.lineno - 1] + node.col_offset
        end = self.offsets[node.end_lineno - 1] + node.end_col_offset
        before = self.source[start:end].decode()
        mutant = Mutant(
            self.path, ".".join(self.scope), node.lineno, node.end_lineno, start, end, kind,
            before, after,
        )  # fmt: skip
        twins = self.twins[mutant.key(0)]
        self.twins[mutant.key(0)] += 1
        self.found.append(dataclasses.replace(mutant, ordinal=twins))

    def swap(self, node, kind, **fields):
        """Replace `node` by a copy with other fields."""
        values = {name: getattr(node, name) for name in node._fields} | fields
        self.plant(node, kind, f"({ast.unparse(type(node)(**values))})")

    # What is never changed: names, types, texts.
    def visit_Import(self, node): ...
    def visit_ImportFrom(self, node): ...
    def visit_JoinedStr(self, node): ...
    def visit_arg(self, node): ...

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)

    def visit_ClassDef(self, node):
        self.scope.append(node.name)
        for child in node.body:
            self.visit(child)
        self.scope.pop()

    def visit_FunctionDef(self, node):
        if node.name in ("__repr__", "__str__", "_repr_html_", "summary"):
            return
        outer, self.returns = self.returns, node.returns and ast.unparse(node.returns)
        self.scope.append(node.name)
        self.visit(node.args)
        for child in node.body:
            self.visit(child)
        self.scope.pop()
        self.returns = outer

    # Statements.
    def visit_Raise(self, node):
        self.plant(node, "delete statement", "pass")

    def visit_Assign(self, node):
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return
        if self.scope:
            self.plant(node, "delete statement", "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        self.plant(node, "delete statement", "pass")
        if type(node.op) in ARITHMETIC:
            operator = ARITHMETIC[type(node.op)]()
            self.plant(
                node, "arithmetic", ast.unparse(ast.AugAssign(node.target, operator, node.value))
            )
        self.generic_visit(node)

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        self.plant(node, "delete statement", "pass")
        self.generic_visit(node)

    def visit_Return(self, node):
        if node.value is None:
            return
        value = ast.unparse(node.value)
        after = {"float": f"0.9 * ({value})", "bool": f"not ({value})"}.get(self.returns, "None")
        if value != after:
            self.plant(node, "return value", f"return {after}")
        self.generic_visit(node)

    def visit_If(self, node):
        self.plant(node.test, "negate condition", f"(not ({ast.unparse(node.test)}))")
        self.generic_visit(node)

    visit_IfExp = visit_While = visit_If

    # Expressions.
    def visit_Compare(self, node):
        for index, operator in enumerate(node.ops):
            for kind, table in (("boundary", BOUNDARY), ("comparison", NEGATED)):
                if type(operator) in table:
                    changed = list(node.ops)
                    changed[index] = table[type(operator)]()
                    self.swap(node, kind, ops=changed)
        self.generic_visit(node)

    def visit_BinOp(self, node):
        if type(node.op) in ARITHMETIC and not isinstance(node.left, ast.JoinedStr):
            self.swap(node, "arithmetic", op=ARITHMETIC[type(node.op)]())
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.Not | ast.USub):
            self.plant(node, "drop sign or not", f"({ast.unparse(node.operand)})")
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        self.swap(node, "and / or", op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        self.generic_visit(node)

    def visit_Constant(self, node):
        value = node.value
        if isinstance(value, bool):
            self.plant(node, "constant", repr(not value))
        elif isinstance(value, int):
            self.plant(node, "constant", repr(value + 1))
        elif isinstance(value, float):
            self.plant(node, "constant", repr(2.0 * value or 1.0))

    def visit_Call(self, node):
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if name in ("warn", "debug", "info", "TypeVar", "namedtuple"):
            return
        if name in SWAPPED:
            function = ast.unparse(node.func).removesuffix(name) + SWAPPED[name]
            self.swap(node, "other function", func=ast.Name(function))
        if node.args and not isinstance(node.args[-1], ast.Starred):
            self.swap(node, "drop argument", args=node.args[:-1])
        for index in range(len(node.keywords)):
            rest = node.keywords[:index] + node.keywords[index + 1 :]
            self.swap(node, "drop argument", keywords=rest)
        self.generic_visit(node)


def all_mutants(folder, packages):
    mutants = []
    for package in packages:
        for path in sorted((folder / package).rglob("*.py")):
            mutants += Sites(str(path.relative_to(folder)), path.read_text(encoding="utf-8")).found
    return mutants


# ---- which test reaches which line -------------------------------------------------------------


def environment(folder):
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    return os.environ | threads | {
        "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "Agg",
        "COVERAGE_FILE": str(folder / ".reached"),
    }  # fmt: skip


def collect(folder, packages, tests):
    """Run the fast tests once under coverage."""
    (folder / "coverage.ini").write_text("[run]\nbranch = False\n")
    ignored = [*tests] or [f"--ignore=tests/{name}" for name in IGNORED_TESTS]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *ignored]
        + [f"--cov={package}" for package in packages]
        + ["--cov-config=coverage.ini", "--cov-context=test", "--cov-report="]
        + ["--junitxml=times.xml", "-o", "junit_family=xunit1", "-p", "no:randomly"],
        cwd=folder, env=environment(folder), check=True,
    )  # fmt: skip


class Reached:
    """Tests by line, from the run under coverage."""

    def __init__(self, folder, packages):
        from coverage import CoverageData

        self.folder = folder
        self.seconds = collections.defaultdict(float)
        for case in xml.etree.ElementTree.parse(folder / "times.xml").iter("testcase"):
            self.seconds[f"{case.get('file')}::{case.get('name')}"] += float(case.get("time"))
        data = CoverageData(str(folder / ".reached"))
        data.read()
        self.by_line, self.breadth = {}, collections.Counter()
        for package in packages:
            for path in (folder / package).rglob("*.py"):
                lines = collections.defaultdict(set)
                for line, contexts in data.contexts_by_lineno(str(path)).items():
                    lines[line] = {c.rsplit("|", 1)[0] for c in contexts if c}
                    self.breadth.update(lines[line])
                self.by_line[str(path.relative_to(folder))] = lines

    def tests(self, mutant):
        """Tests that reach a mutant, the most specific first, functions taking turns."""
        lines = self.by_line[mutant.path]
        hits = set().union(*(lines[n] for n in range(mutant.line, mutant.last_line + 1)))
        if not hits:  # run at import, or in another process: whoever uses the file
            hits = set().union(*lines.values()) or set(self.seconds)
        functions = collections.defaultdict(list)
        for test in sorted(hits & self.seconds.keys(), key=lambda t: (self.seconds[t], t)):
            functions[test.split("[")[0]].append(test)
        rounds = []
        for tests in functions.values():
            rounds += [(turn, self.breadth[test], test) for turn, test in enumerate(tests)]
        return [test for _, _, test in sorted(rounds)]

    def batches(self, mutant):
        """The most specific tests, and the others as far as time allows."""
        first, second, total = [], [], 0.0
        for test in self.tests(mutant):
            cost = self.seconds[test] + 0.005
            if len(first) < QUICK and not second and (not first or total + cost < QUICK_SECONDS):
                first.append(test)
            elif total + cost < SECONDS:
                second.append(test)
            else:
                continue
            total += cost
        return first, second


# ---- one mutant --------------------------------------------------------------------------------


def run_tests(folder, tests, timeout):
    """Run tests in a forked child that already has the libraries; ok, killed or timeout."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setsid()
        with open(folder / "last.log", "wb") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        import pytest

        options = ["-x", "-q", "--no-cov", "-p", "no:cacheprovider", "-p", "no:xdist"]
        os._exit(int(pytest.main([*options, *tests])))
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            if code == 5:
                raise RuntimeError(f"no test collected: {tests[:3]}")
            return "ok" if code == 0 else "killed"
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def judge(folder, reached, mutant):
    """(status, test that failed or number of tests that passed, seconds)."""
    path = folder / mutant.path
    source = path.read_bytes()
    changed = source[: mutant.start] + mutant.after.encode() + source[mutant.end :]
    start = time.monotonic()
    first, second = reached.batches(mutant)
    passed = 0
    try:
        path.write_bytes(changed)
        for batch in (first, second):
            if not batch:
                continue
            predicted = sum(reached.seconds[test] for test in batch)
            status = run_tests(folder, batch, 30 + 5 * predicted)
            if status != "ok":
                log = (folder / "last.log").read_text(errors="replace")
                failed = [line for line in log.splitlines() if line.startswith(("FAILED", "ERROR"))]
                by = failed[0].split(" - ")[0].split(" ", 1)[1] if failed else status
                return status, by, time.monotonic() - start
            passed += len(batch)
    finally:
        path.write_bytes(source)
    return "survived", f"{passed} tests", time.monotonic() - start


# ---- the run -----------------------------------------------------------------------------------


def prepare(folder, packages, tests):
    if not (folder / ".git").exists():
        subprocess.run(["git", "clone", "--quiet", "--local", str(ROOT), str(folder)], check=True)
    if not (folder / "times.xml").exists():
        collect(folder, packages, tests)
    os.environ.update(environment(folder))
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    os.chdir(folder)
    # Imported once; each mutant is tested in a fork.  Nothing of ours may be among them.
    import hypothesis  # noqa: F401
    import randomgen  # noqa: F401
    import scipy.integrate  # noqa: F401
    import scipy.optimize  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.utils.estimator_checks  # noqa: F401

    assert not any(name.split(".")[0] == "skriemdp" for name in sys.modules)


def report(results):
    killed = [r for r in results if r["status"] != "survived"]
    print("\n| file | mutants | killed | of them by timeout | survived |\n|---|---|---|---|---|")
    for path in sorted({r["path"] for r in results}):
        rows = [r for r in results if r["path"] == path]
        count = collections.Counter(r["status"] for r in rows)
        dead = len(rows) - count["survived"]
        print(f"| {path} | {len(rows)} | {dead} | {count['timeout']} | {count['survived']} |")
    print("\n| fault | mutants | killed |\n|---|---|---|")
    for kind in sorted({r["kind"] for r in results}):
        rows = [r for r in results if r["kind"] == kind]
        dead = sum(r["status"] != "survived" for r in rows)
        print(f"| {kind} | {len(rows)} | {dead} |")
    share = len(killed) / len(results)
    print(f"\n{len(killed)} of {len(results)} killed ({share:.1%})\n\nSurvivors:")
    for r in results:
        if r["status"] == "survived":
            print(f"  {r['path']}:{r['line']} {r['scope']} [{r['kind']}] ({r['by']})")
            print(f"    - {r['before']}\n    + {r['after']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--folder", type=Path, help="clone and results (default: a new one)")
    parser.add_argument("--recheck", type=Path, help="results whose survivors are run again")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help="folders to sample")
    parser.add_argument("--tests", nargs="+", default=(), help="files of tests; all by default")
    options = parser.parse_args()
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="mutation-"))).resolve()
    recheck = options.recheck and options.recheck.resolve()
    prepare(folder, options.packages, options.tests)
    reached = Reached(folder, options.packages)
    mutants = all_mutants(folder, options.packages)
    mutants = sorted(mutants, key=lambda m: m.key(options.seed))[: options.count]
    file = folder / "results.jsonl"
    kept = {}
    if recheck:
        file = folder / "recheck.jsonl"
        rows = [json.loads(line) for line in recheck.read_text().splitlines()]
        kept = {r["key"]: r for r in rows if r["status"] != "survived"}
    if file.exists():
        kept |= {r["key"]: r for r in map(json.loads, file.read_text().splitlines())}
    results = []
    random.Random(options.seed).shuffle(mutants)  # an unfinished run is a fair sample too
    with open(file, "a", encoding="utf-8") as out:
        for number, mutant in enumerate(mutants, 1):
            key = mutant.key(options.seed)
            if key not in kept:
                status, by, seconds = judge(folder, reached, mutant)
                kept[key] = dataclasses.asdict(mutant) | {
                    "key": key, "status": status, "by": by, "seconds": round(seconds, 1),
                }  # fmt: skip
                print(json.dumps(kept[key]), file=out, flush=True)
                where = f"{mutant.path}:{mutant.line}"
                print(f"{number:4d} {status:9s} {seconds:5.1f} s {where} {mutant.kind}", flush=True)
            results.append(kept[key])
    report(results)


if __name__ == "__main__":
    main()
