"""What has to be read, decided again and trusted: numbers that never rise."""

import copy
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "architecture.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("architecture", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_no_number_of_the_net_rises():
    """Lines that default fits enter, functions that decide again, modules that see records.

    A number that rose is lowered again by the change that raised it.  One that fell is stored by
    ``python tools/architecture.py --net --write``.
    """
    run = subprocess.run([sys.executable, str(TOOL), "--net"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_number_that_rises_is_told_by_name(tool):
    stored = json.loads(tool.NET.read_text())
    assert tool.risen(stored, stored) == []
    lower = copy.deepcopy(stored)
    lower["decided"]["person or row"].popitem()
    assert tool.risen(stored, lower) == []
    for kind, column in [
        ("decided", "n secret or public"),
        ("believed", "mean in R^3"),
        ("trusted", "records are seen"),
    ]:
        now = copy.deepcopy(stored)
        now[kind][column]["new/module.py"] = 7
        said = tool.risen(stored, now)
        assert any(f"{kind}: {column}" in line for line in said)
        assert all("new/module.py 0 -> 7" in line for line in said if column in line)


def test_a_decision_moved_to_another_function_is_no_rise(tool):
    stored = json.loads(tool.NET.read_text())
    now = copy.deepcopy(stored)
    parts = now["decided"]["all records or batches"]
    parts.pop(next(iter(parts)))
    parts["new/module.py:decide"] = 1
    assert tool.risen(stored, now) == []


@pytest.mark.parametrize(
    ("choice", "body"),
    [
        ("person or row", "if self.groups is None: pass"),
        ("person or row", "return rows if grouped else []"),
        ("n secret or public", "while secret_n: pass"),
        ("pure or Gaussian", "return a and law is None"),
        ("dense, sparse, streamed", "return [r for r in rows if issparse(r)]"),
        ("ball public or searched", "assert search is not None"),
        ("all records or batches", "return 1 if batch_size is None else 2"),
        ("here or at clients", "if tables or x: pass"),
        ("which manifold, by name", "if is_one_of(space, 'Sphere'): pass"),
    ],
)
def test_decisions_are_seen_outside_their_home(tool, choice, body):
    text = f"class A:\n    def f(self):\n        {body}\n"
    found = tool.decided({"_mean/made_up.py": text})
    assert found.pop(choice) == {"_mean/made_up.py:A.f": 1}
    assert not any(found.values())
    home = tool.HOMES[choice][0]
    assert not tool.decided({home if home.endswith(".py") else f"{home}one.py": text})[choice]


def test_what_is_passed_on_is_no_decision(tool):
    text = "def f(groups, sampled):\n    return g(groups=groups, sampled=sampled)\n"
    assert not any(tool.decided({"_mean/made_up.py": text}).values())


def test_records_are_seen_where_they_are_held(tool):
    import numpy as np

    rows = np.zeros((tool._RECORDS, 2))
    assert tool.shows_records(rows) and tool.shows_records({"X": (1, [rows])})
    assert tool.shows_records(np.zeros(tool._RECORDS // 2))  # pairs of records
    assert not tool.shows_records(np.zeros((3, tool._RECORDS)))
    assert not tool.shows_records(tool._RECORDS)
