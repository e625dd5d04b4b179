"""Run every reproduction of the papers' figures, one after another, and keep tables and figures.

Run:  python examples/reproductions/run_all.py [--quick] [--output FOLDER] [--data FOLDER]

Each script prints its tables to FOLDER/NAME.md and writes its figures to FOLDER/NAME*.png.  Parts
whose data are absent say so in one line and are left out.  A script that joins this folder is run
too, with the same options.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
HELPERS = {
    "run_all",
    "reproduction_tools",
    "huang2025_bounds",
    "huang2025_theory",
    "published_svrg",
}


def names():
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in HELPERS)


def run(name, extra, target):
    """Run one script; returns (exit code, wall seconds, processor seconds)."""
    environment = {"MPLBACKEND": "Agg"} | os.environ
    for library in ("OMP", "OPENBLAS", "MKL"):
        environment.setdefault(f"{library}_NUM_THREADS", "1")
    command = [sys.executable, str(HERE / f"{name}.py"), *extra]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(target, "w", encoding="utf-8") as file:
        # Data travel by folder, which is nobody's business but the reader's own.
        shown = " ".join(word for word in extra if word == "--quick")
        print(f"`python examples/reproductions/{name}.py {shown}".rstrip() + "`", file=file)
        file.flush()
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return code.returncode, time.perf_counter() - start, used


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer points and repeats")
    parser.add_argument("--output", type=Path, default=Path("reproductions_output"))
    parser.add_argument("--data", type=Path, default=os.environ.get("SKRIEMDP_DATA"))
    parser.add_argument("--only", nargs="+", choices=names(), default=names())
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    extra = ["--output", str(options.output)]
    extra += ["--quick"] if options.quick else []
    extra += ["--data", str(options.data)] if options.data else []
    print("| script | status | skipped | seconds | processor |\n|---|---|---|---|---|", flush=True)
    failed = []
    for name in options.only:
        target = options.output / f"{name}.md"
        code, wall, used = run(name, extra, target)
        text = target.read_text(encoding="utf-8")
        skipped = sum(line.startswith("skipped:") for line in text.splitlines())
        status = "ok" if code == 0 else f"failed ({code})"
        print(f"| {name} | {status} | {skipped} | {wall:.0f} | {used:.0f} |", flush=True)
        if code:
            failed.append(name)
    print(f"\ntables and figures: {options.output}")
    if failed:
        raise SystemExit(f"not finished: {', '.join(failed)}; their tables say why")


if __name__ == "__main__":
    main()
