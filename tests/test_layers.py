"""Dependencies point one way, and importing the package stays cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "skriemdp"
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each layer may import of ours, besides itself.
LEAVES = {"_validation", "_random", "_config", "_quiet", "_warnings"}
SOLVING = LEAVES | {"geometry", "privacy", "mechanisms", "riemannian_laws", "descent"}
ROOM = SOLVING | {"core", "ledger", "datasets"}
ALLOWED = {
    "_validation": set(),
    "_random": {"_validation"},
    "_config": set(),
    "_quiet": set(),
    "_warnings": set(),
    "geometry": LEAVES,
    "privacy": LEAVES,
    "mechanisms": LEAVES | {"privacy"},
    "riemannian_laws": LEAVES | {"geometry", "privacy", "mechanisms"},
    "descent": LEAVES | {"geometry", "privacy", "mechanisms"},
    "ledger": LEAVES | {"privacy"},
    "core": LEAVES | {"geometry", "privacy", "ledger", "mechanisms"},
    "pymanopt_optimizers": SOLVING | {"core", "ledger"},
    "datasets": LEAVES | {"geometry"},
    "plotting": {"_validation", "ledger", "geometry"},
    "reporting": {"_validation", "ledger"},
    "erm": ROOM,
    "mean": ROOM,
    "pca": ROOM,
    "completion": ROOM,
    "linear_model": ROOM,
    "regression": ROOM,
    "selection": ROOM,
    "federated": ROOM | {"regression"},
    "__init__": set(),
}
# Audits fit estimators; nothing imports audits.
ALLOWED["auditing"] = set(ALLOWED) - {"__init__", "auditing", "plotting"}


def layer(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
            if node.module == "skriemdp":
                names = [f"skriemdp.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert not (isinstance(node, ast.ImportFrom) and node.level), "relative import"
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "skriemdp" and len(parts) > 1:
                yield parts[1]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path):
    own = layer(path)
    allowed = ALLOWED[own] | {own}
    assert set(imported(path)) <= allowed


def test_the_layer_check_can_fail():
    tree = "from skriemdp.privacy import events"
    path = PACKAGE / "geometry" / "made_up.py"
    assert layer(path) == "geometry"
    (module,) = [n.module for n in ast.walk(ast.parse(tree)) if isinstance(n, ast.ImportFrom)]
    assert module.split(".")[1] not in ALLOWED["geometry"]


def test_import_loads_nothing_heavy():
    code = "import sys, skriemdp; print([m for m in ('numpy', 'sklearn') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_estimators_do_not_import_optional_packages():
    code = (
        "import sys; from skriemdp import PrivateFrechetMean;"
        "print([m for m in ('dp_accounting', 'pymanopt', 'matplotlib', 'torch', 'jax')"
        " if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
