"""What is public: the names that these namespaces export, each with an entry in the reference."""

import importlib
import re
from pathlib import Path

import pytest

import skriemdp

ROOT = Path(__file__).parents[1]
PACKAGE = Path(skriemdp.__file__).parent
NAMESPACES = (
    "skriemdp",
    "skriemdp.auditing",
    "skriemdp.datasets",
    "skriemdp.federated",
    "skriemdp.federated.flower",
    "skriemdp.federated.nvflare",
    "skriemdp.geometry",
    "skriemdp.inference",
    "skriemdp.ledger",
    "skriemdp.moabb",
    "skriemdp.page",
    "skriemdp.plotting",
    "skriemdp.preprocessing",
    "skriemdp.privacy",
    "skriemdp.pymanopt_optimizers",
    "skriemdp.riemannian_laws",
    "skriemdp.schedules",
)
MOST = 250


def loaded(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(str(error))


def public(name):
    """The public names of a namespace."""
    return sorted(n for n in loaded(name).__all__ if not n.startswith("_"))


def in_the_reference():
    """``(namespace, name)`` of every entry."""
    where = "skriemdp"
    for page in ("index.md", "extending.md"):
        for line in (ROOT / "docs/api" / page).read_text(encoding="utf-8").splitlines():
            if line.startswith(".. currentmodule::"):
                where = line.split()[-1]
            elif re.fullmatch(r"   [\w.]+", line):
                yield where, line.strip()


def test_modules_are_private_unless_they_are_listed():
    """A part of the path starts with an underscore, or the module is one of the namespaces."""
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if path.name == "__init__.py":
            parts = parts[:-1]
        if not any(part.startswith("_") for part in parts):
            assert ".".join(parts) in NAMESPACES


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_public_name_exists_and_has_an_entry(namespace):
    names = public(namespace)
    assert names
    listed = {name for where, name in in_the_reference() if where == namespace}
    assert set(names) <= listed
    for name in names:
        getattr(loaded(namespace), name)


def test_nothing_private_is_in_the_reference():
    for where, name in in_the_reference():
        assert not any(part.startswith("_") for part in f"{where}.{name}".split("."))


def test_public_names_are_few():
    listed = {
        f"{where}.{name}"
        for where, name in in_the_reference()
        if f"{where}.{name}" not in NAMESPACES
    }
    assert 150 < len(listed) <= MOST
