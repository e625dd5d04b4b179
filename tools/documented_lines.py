"""Share of the lines inside functions that documented use runs; the largest functions left idle.

python tools/documented_lines.py --run       # pages, examples, the papers' figures: half an hour
python tools/documented_lines.py --list 80   # the last run again; what failed then counts as idle
"""

import argparse
import ast
import collections
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import coverage

ROOT = Path(__file__).parents[1]
STORE = ROOT / "build" / "documented"
SETTINGS = f"""[run]\nsource_pkgs = skriemdp\nparallel = true\nsigterm = true
patch = subprocess, _exit\ndata_file = {STORE}/data"""
FIT = "from skriemdp import *; import joblib; b = PrivacyAccountant(3, path='c', witness='w'); "
FIT += "joblib.dump(PrivateFrechetMean(accountant=b).fit([[0.0, 1.0]] * 99), 'mean.pkl')"
KEYS = " ".join(f"{name}={number:064x}" for number, name in enumerate("abc", 9))


def commands() -> list[list[str]]:
    """Arguments of Python, run in this order in one folder."""
    lines = ["-m pytest -q -p no:cacheprovider tests/test_docs.py -k python_of_complete"]
    lines += [f"examples/{p.name}" for p in sorted((ROOT / "examples").glob("[dmp]*.py"))]
    deploy, figures = "examples/deployment", "examples/reproductions"
    lines += [f"{deploy}/{name}.py --kill south --restart" for name in ("run", "secure_sum")]
    lines += [f"{deploy}/nvflare_rounds.py --workspace runs"] * 2
    scripts = sorted((ROOT / figures).glob("*20*.py"))
    lines += [f"{figures}/{p.name} --quick --output figures" for p in scripts]
    ends = ["identity key", f"cohort d {KEYS}", "cohort d", "report c --html a.html --author A"]
    ends += ["report c --model mean.pkl", "report c --json", "check c --witness w"]
    return [*map(str.split, lines), ["-c", FIT], *(f"-m skriemdp {e}".split() for e in ends)]


def run() -> None:
    STORE.mkdir(parents=True, exist_ok=True)
    (STORE / "settings").write_text(SETTINGS)
    added = {"MPLBACKEND": "Agg", "COVERAGE_PROCESS_START": f"{STORE}/settings"}
    added["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as folder:
        kept = {"cwd": folder, "env": os.environ | added, "capture_output": True, "text": True}
        for words in commands():
            there = [str(ROOT / w) if w.startswith(("examples/", "tests/")) else w for w in words]
            end = subprocess.run([sys.executable, *there], **kept)
            said = f"failed: {end.stderr.strip().splitlines()[-1:]}" if end.returncode else "ok"
            print(*words[:4], said, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--list", type=int, default=20)
    if (options := parser.parse_args()).run:
        run()
    stored = coverage.Coverage(config_file=f"{STORE}/settings")
    stored.combine(keep=True)
    done, total, idle = collections.Counter(), collections.Counter(), []
    for path in sorted((ROOT / "skriemdp").rglob("*.py")):
        name, (_, lines, _, missing, _) = path.relative_to(ROOT), stored.analysis2(str(path))
        inside = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own = set(range(node.body[0].lineno, node.end_lineno + 1)) & set(lines)
                inside |= own
                idle += [(len(own), f"{name}:{node.name}")] * (own <= set(missing))
        for key in ("all", name.parts[1]):
            total[key] += len(inside)
            done[key] += len(inside - set(missing))
    for key in sorted(total, key=lambda key: done[key] - total[key]):
        print(f"{done[key] / max(total[key], 1):5.0%}  {done[key]:6} of {total[key]:6}  {key}")
    print(*(f"{size:5}  {name}" for size, name in sorted(idle)[::-1][: options.list]), sep="\n")


if __name__ == "__main__":
    main()
