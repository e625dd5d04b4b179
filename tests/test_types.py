"""What a type checker and an editor make of the public names."""

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import skriemdp

SCRIPT = """
import numpy as np
from skriemdp import PrivacyAccountant, PrivateFrechetMean, frechet_mean, privacy_report

budget = PrivacyAccountant(epsilon=3.0, delta=1e-5)
first, *others = budget.split([2, 1, 1])
X = np.eye(3)
mean = PrivateFrechetMean("sphere", epsilon=1.0, delta=1e-5, accountant=first).fit(X)
epsilon, delta = mean.privacy_spent_
point: np.ndarray = frechet_mean(X, "sphere")
print(privacy_report(budget), point, epsilon + delta)
"""
PLANTED = {
    "budget.spent_all()": 'has no attribute "spent_all"',
    'PrivateFrechetMean(epsilon="one")': 'expected "float"',
    "PrivateFrechetMean(epsilonn=1.0)": 'Unexpected keyword argument "epsilonn"',
}


def test_checkers_see_every_public_name():
    tree = ast.parse(Path(skriemdp.__file__).read_text())
    typed = [n for n in tree.body if isinstance(n, ast.If) and "not" not in ast.unparse(n.test)]
    imports = [node for node in ast.walk(typed[0]) if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module for node in imports for alias in node.names}
    assert seen == skriemdp._HOME


def test_numbers_of_estimators_are_typed():
    """Epsilon, delta and the seed of all of them; nothing is `Any` that is one plain type."""
    found = 0
    for name in skriemdp.__all__:
        if isinstance(cls := getattr(skriemdp, name), type) and hasattr(cls, "fit"):
            parameters = inspect.signature(cls).parameters
            types = {p: parameters[p].annotation for p in ("delta", "random_state")}
            assert types == {"delta": "float", "random_state": "int | None"}, name
            found += 1
    assert found >= 10


@pytest.mark.slow
def test_a_checker_finds_what_is_wrong_in_a_script_and_nothing_else(tmp_path):
    pytest.importorskip("mypy")
    lines = SCRIPT.count("\n")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "\n".join(PLANTED) + "\n")
    root = Path(skriemdp.__file__).parents[1]
    tree = {} if root.name == "site-packages" else {"MYPYPATH": str(root)}
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent"]  # no stubs of other packages
        + ["--cache-dir", str(tmp_path / "cache"), str(script)],
        env=os.environ | tree,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    errors = [line for line in run.stdout.splitlines() if ": error:" in line]
    assert len(errors) == len(PLANTED), run.stdout + run.stderr
    for number, (error, text) in enumerate(zip(errors, PLANTED.values(), strict=True)):
        assert f"script.py:{lines + 1 + number}:" in error and text in error
