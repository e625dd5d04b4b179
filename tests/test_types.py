"""What a type checker and an editor make of the public names."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skriemdp
from skriemdp.federated import FederatedEstimator
from skriemdp.preprocessing import PerGroup, Recenter

# Numbers and functions that one estimator has and that mean what its page says.
ALONE = {
    *("alpha", "fit_intercept", "length_scale", "max_norm", "mean_runs", "ridge"),
    *("callback", "cost", "euclidean_gradient", "gradient", "loss", "retraction", "smoothness"),
    *("step_size", "uncertainty", "whiten"),
}
# Not estimators of a statistic: they wrap others.
OTHERS = ("FederatedEstimator", "PrivateGridSearchCV", "PerGroup", "PublicTable", "Recenter")

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
    'PrivateFrechetMean("sphere", radius="auto")': "expected \"float | Literal['private']\"",
    "PrivateFrechetMean(3)": 'incompatible type "int"',
    "PrivateFrechetMean(epsilonn=1.0)": 'Unexpected keyword argument "epsilonn"',
}


def test_checkers_see_every_public_name():
    tree = ast.parse(Path(skriemdp.__file__).read_text())
    typed = [n for n in tree.body if isinstance(n, ast.If) and "not" not in ast.unparse(n.test)]
    imports = [node for node in ast.walk(typed[0]) if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module for node in imports for alias in node.names}
    assert seen == skriemdp._HOME


def parameters_of_estimators():
    """(estimator, name, annotation, default) of all constructors."""
    found = [getattr(skriemdp, name) for name in skriemdp.__all__]
    found = [cls for cls in found if isinstance(cls, type) and hasattr(cls, "fit")]
    assert len(found) >= 10
    for cls in [*found, FederatedEstimator, PerGroup, Recenter]:
        for name, parameter in inspect.signature(cls).parameters.items():
            yield cls.__name__, name, str(parameter.annotation), parameter.default


def test_every_parameter_has_a_type():
    """`Any` may stand for what a container or a function holds, never for the parameter itself."""
    for cls, name, annotation, _ in parameters_of_estimators():
        parts = {part.strip() for part in re.sub(r"\[.*?\]+", "", annotation).split("|")}
        assert not parts & {"Any", "object", "<class 'inspect"}, (cls, name, annotation)
        assert parts != {"str"}, (cls, name)  # a word has a list of words
        if name in ("epsilon", "delta"):
            assert annotation == "float", (cls, name)
        if name == "random_state":
            assert annotation == "int | None", cls


BOUNDS = (
    "center",
    "radius",
    "row_norm",
    "feature_norm",
    "feature_scale",
    "clip_norm",
    "base_point",
    "target_range",
)


def test_one_word_for_what_is_found_with_budget_and_one_for_what_is_chosen():
    """Bounds and centres are "private"; "auto" is a public rule and belongs to no bound."""
    for cls, name, annotation, default in parameters_of_estimators():
        bound = name in BOUNDS
        assert not (bound and '"auto"' in annotation.replace("'", '"')), (cls, name)
        assert default != ("auto" if bound else "private"), (cls, name)


def test_the_table_of_names_knows_every_parameter():
    text = (Path(__file__).parents[1] / "docs" / "api/index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|", text.split("## Names of parameters")[1], flags=re.M)
    table = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    ours = parameters_of_estimators()
    seen = {name for cls, name, *_ in ours if cls not in OTHERS} - ALONE
    assert seen == table


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
