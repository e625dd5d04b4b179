"""Run the quick form of every benchmark, one after another, and keep what they print.

    python benchmarks/run_all.py [--only NAME ...] [--full] [--timeout SECONDS] [--output FOLDER]

Each script's output goes to ``benchmarks/results/NAME.md``; the last one moves to ``previous/``, so
that ``diff -r benchmarks/results/previous benchmarks/results`` shows what a change did.  Scripts
that need data from outside skip those rows, or fail with a message that says what to set.  A script
that joins the folder is run too: with ``--quick`` if it has that option.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent

# Quick forms of the scripts that are quick without an option, or by another name.
QUICK = {
    "adagrad": ["--quick"],
    "accounting_tables": ["--only", "selection"],
    "completion": ["speed"],
    "federated": ["--only", "engines"],
    "ledger": ["--filters"],
    "mean_mechanisms": ["--fits", "6", "--part", "spaces"],
    "mean_utility": ["--draws", "400"],
    "pca": ["--draws", "3"],
    "private_quantile": ["--runs", "50"],
    "solvers": ["full-batch"],
}
# Full forms that need a word on the command line.
FULL = {"completion": ["utility"], "geometry": ["--full"], "mean_speed": ["--full"]}
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in SKIP)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--full", action="store_true", help="the forms behind the tables: hours")
    parser.add_argument("--timeout", type=float, help="seconds a script; else 600, or none if full")
    parser.add_argument("--output", type=Path, default=HERE / "results")
    options = parser.parse_args()
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
