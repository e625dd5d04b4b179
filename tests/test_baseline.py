"""The baseline of the benchmarks: what moved is seen, noise is not."""

import copy
import importlib.util
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SPEC = importlib.util.spec_from_file_location("run_all", BENCHMARKS / "run_all.py")
run_all = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(run_all)
BASELINE = json.loads((BENCHMARKS / "baseline.json").read_text(encoding="utf-8"))


def error(value, standard_error):
    return {"kind": "error", "value": value, "standard_error": standard_error}


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ({"kind": "time", "value": 1.0}, {"kind": "time", "value": 1.4}, ""),
        ({"kind": "time", "value": 1.0}, {"kind": "time", "value": 1.6}, "worse"),
        ({"kind": "time", "value": 1.0}, {"kind": "time", "value": 0.6}, "better"),
        (error(0.10, 0.01), error(0.15, 0.01), ""),  # within five standard errors
        (error(0.10, 0.001), error(0.15, 0.001), "worse"),
        (error(0.10, 0.001), error(0.05, 0.001), "better"),
        (error(0.100, 1e-6), error(0.105, 1e-6), ""),  # significant, but small
        ({"kind": "exact", "value": 1.0}, {"kind": "exact", "value": 1.0 + 1e-9}, ""),
        ({"kind": "exact", "value": 1.0}, {"kind": "exact", "value": 0.99}, "changed"),
    ],
)
def test_verdicts(old, new, expected):
    assert run_all.verdict(old, new) == expected


def test_comparison_with_itself_finds_nothing():
    assert len(BASELINE["figures"]) > 50
    assert {"time", "error", "exact"} == {f["kind"] for f in BASELINE["figures"].values()}
    assert run_all.compare(BASELINE, BASELINE) == 0


def test_comparison_names_what_is_worse_and_what_is_missing(capsys):
    found = copy.deepcopy(BASELINE)
    slow, gone, *_ = [k for k, f in BASELINE["figures"].items() if f["kind"] == "time"]
    found["figures"][slow]["value"] *= 2.0
    del found["figures"][gone]
    found["versions"]["numpy"] = "9.9"
    assert run_all.compare(BASELINE, found) == 2
    printed = capsys.readouterr().out
    assert "9.9 now" in printed and f"| {slow} |" in printed and "worse" in printed
    assert f"| {gone} |" in printed and "missing" in printed
