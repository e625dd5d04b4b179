"""Run the quick form of every benchmark, one after another, and keep what they print.

    python benchmarks/run_all.py [--only NAME ...] [--full] [--timeout SECONDS] [--output FOLDER]
    python benchmarks/run_all.py --compare benchmarks/baseline.json     # or --save

Each script's output goes to ``benchmarks/results/NAME.md``; the last one moves to ``previous/``, so
that ``diff -r benchmarks/results/previous benchmarks/results`` shows what a change did.  Scripts
that need data from outside skip those rows, or fail with a message that says what to set.  A script
that joins the folder is run too: with ``--quick`` if it has that option.

``--save`` and ``--compare`` run ``peers.py`` alone and keep, or compare with, what does not depend
on the machine: its ratios of time, errors of private answers, and exact epsilons (README.md).
"""

import argparse
import importlib.metadata
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent

# Quick forms of the scripts that are quick without an option, or by another name.
QUICK = {
    "adagrad": ["--quick"],
    "arithmetic": ["--fits", "1"],
    "accounting_tables": ["--only", "selection"],
    "completion": ["speed"],
    "federated": ["--only", "engines"],
    "inference_simulated": ["far", "--trials", "50"],
    "ledger": ["--filters"],
    "mean_mechanisms": ["--fits", "6", "--part", "spaces"],
    "mean_utility": ["--draws", "400"],
    "peers": ["--repeats", "2"],
    "pca": ["--draws", "3"],
    "private_quantile": ["--runs", "50"],
    "solvers": ["full-batch"],
}
# Full forms that need a word on the command line.
FULL = {
    "completion": ["utility"],
    "geometry": ["--full"],
    "inference_simulated": ["regions", "--trials", "2000"],
    "mean_speed": ["--full"],
}
SKIP = {
    "run_all": "this script",
    "reference_profiles": "writes tests/data/riemannian_profiles.json, in hours",
}


def arguments(name, full):
    """What to put on the command line of a script."""
    if full:
        return FULL.get(name, [])
    source = (HERE / f"{name}.py").read_text(encoding="utf-8")
    return QUICK.get(name, ["--quick"] if '"--quick"' in source else [])


def run(name, extra, output, timeout):
    """Run one script; returns (status, wall seconds, processor seconds)."""
    target = output / f"{name}.md"
    if target.exists():
        (output / "previous").mkdir(exist_ok=True)
        shutil.move(target, output / "previous" / target.name)
    environment = {"MPLBACKEND": "Agg"} | os.environ
    for library in ("OMP", "OPENBLAS", "MKL"):
        environment.setdefault(f"{library}_NUM_THREADS", "1")
    command = [sys.executable, str(HERE / f"{name}.py"), *extra]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(target, "w", encoding="utf-8") as file:
        print(f"`python benchmarks/{name}.py {' '.join(extra)}".rstrip() + "`\n", file=file)
        file.flush()
        try:
            code = subprocess.run(
                command, stdout=file, stderr=subprocess.STDOUT, env=environment, timeout=timeout
            ).returncode
            status = "ok" if code == 0 else f"failed ({code})"
        except subprocess.TimeoutExpired:
            status = f"stopped after {timeout:g} s"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return status, time.perf_counter() - start, used


# How far a figure may move: ratios of time vary by load and processor, errors by their noise.
TIME, ERROR, STANDARD_ERRORS, EXACT = 1.5, 1.1, 5.0, 1e-6
PACKAGES = ("numpy", "scipy", "scikit-learn", "pyriemann", "pymanopt")


def measure():
    """What ``peers.py`` finds, with the versions that it ran with."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.json"
        command = [sys.executable, str(HERE / "peers.py"), "--json", str(file), "--ours"]
        subprocess.run(command, check=True)
        figures = json.loads(file.read_text(encoding="utf-8"))
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"versions": {"python": sys.version.split()[0]} | versions, "figures": figures}


def verdict(old, new):
    """ "better", "worse", "changed" or "" for two records of one figure."""
    a, b = old["value"], new["value"]
    if new["kind"] == "exact":
        same = math.isclose(a, b, rel_tol=EXACT)
    elif new["kind"] == "time":
        same = max(a, b) <= TIME * min(a, b)
    else:
        noise = STANDARD_ERRORS * math.hypot(old["standard_error"], new["standard_error"])
        same = abs(a - b) <= noise or max(a, b) <= ERROR * min(a, b)
    if same:
        return ""
    return "changed" if new["kind"] == "exact" else "worse" if b > a else "better"


def compare(baseline, found):
    """Print what moved; returns the number of figures that got worse, changed or went missing."""
    for name, version in baseline["versions"].items():
        if found["versions"].get(name) != version:
            print(f"{name}: {version} then, {found['versions'].get(name)} now")
    old, new = baseline["figures"], found["figures"]
    verdicts = {key: verdict(old[key], new[key]) for key in old.keys() & new.keys()}
    moved = [key for key in old if verdicts.get(key)]
    print("\n| figure | then | now | |\n|---|---|---|---|")
    for key in moved:
        print(f"| {key} | {old[key]['value']:.3g} | {new[key]['value']:.3g} | {verdicts[key]} |")
    gone = [key for key in old if key not in new]
    for key in gone:
        print(f"| {key} | {old[key]['value']:.3g} | | missing |")
    for key in new.keys() - old.keys():
        print(f"| {key} | | {new[key]['value']:.3g} | new |")
    print(f"\n{len(verdicts)} figures compared, {len(moved)} moved")
    return len(gone) + sum(verdicts[key] != "better" for key in moved)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in SKIP)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--full", action="store_true", help="the forms behind the tables: hours")
    parser.add_argument("--timeout", type=float, help="seconds a script; else 600, or none if full")
    parser.add_argument("--output", type=Path, default=HERE / "results")
    parser.add_argument("--save", type=Path, help="write this file of figures, and stop")
    parser.add_argument("--compare", type=Path, help="compare with a file of figures, and stop")
    options = parser.parse_args()
    if options.save or options.compare:
        # Read first: both may name one file.
        baseline = options.compare and json.loads(options.compare.read_text(encoding="utf-8"))
        found = measure()
        if options.save:
            options.save.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        if baseline and (bad := compare(baseline, found)):
            raise SystemExit(f"{bad} figures are worse, changed or missing")
        return
    timeout = options.timeout or (None if options.full else 600.0)
    options.output.mkdir(parents=True, exist_ok=True)
    print(
        "| script | arguments | status | seconds | processor |\n|---|---|---|---|---|", flush=True
    )
    failed = []
    for name in options.only:
        extra = arguments(name, options.full)
        status, wall, used = run(name, extra, options.output, timeout)
        print(f"| {name} | {' '.join(extra)} | {status} | {wall:.0f} | {used:.0f} |", flush=True)
        if status != "ok":
            failed.append(name)
    for name in sorted(SKIP.keys() - {"run_all"}):
        print(f"| {name} | | not run: {SKIP[name]} | | |")
    print(f"\noutputs: {options.output}")
    if failed:
        raise SystemExit(f"not finished: {', '.join(failed)}; their outputs say why")


if __name__ == "__main__":
    main()
