"""Dependencies point one way, importing stays cheap, and tests are named after what they hold."""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

PACKAGE = Path(importlib.util.find_spec("skriemdp").origin).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each layer may import of ours, besides itself.
LEAVES = {"_arrays", "_groups", "_validation", "_random", "_config", "_quiet", "_warnings"}
LEAVES |= {"_containers", "_fingerprint", "_known_classes", "_progress", "_process", "_walk"}
SOLVING = LEAVES | {"geometry", "privacy", "_mechanisms", "riemannian_laws", "_descent"}
SOLVING |= {"_gives", "_curator"}
ROOM = SOLVING | {"_core", "ledger", "datasets", "_location_scale", "inference"}
ALLOWED = {
    "_arrays": set(),
    "_errors": set(),
    "_validation": set(),
    "_process": set(),
    "_random": {"_process", "_validation"},
    "_config": set(),
    "_groups": set(),
    "_progress": set(),
    "_containers": set(),
    "_documented": set(),
    "_quiet": {"_containers", "_documented", "_process", "_warnings"},
    "_fingerprint": set(),
    "_known_classes": set(),
    "_walk": set(),
    "_warnings": set(),
    "geometry": LEAVES,
    "privacy": LEAVES,
    "_gives": LEAVES | {"geometry"},
    "_mechanisms": LEAVES | {"privacy"},
    "riemannian_laws": LEAVES | {"geometry", "privacy", "_mechanisms"},
    "_descent": LEAVES | {"geometry", "privacy", "_mechanisms"},
    "_curator": LEAVES | {"geometry", "_gives", "privacy", "_mechanisms", "_descent"},
    "schedules": {"_validation"},
    "ledger": LEAVES | {"privacy"},
    "_location_scale": SOLVING,
    "_core": LEAVES | {"geometry", "privacy", "ledger", "_mechanisms"},
    "pymanopt_optimizers": SOLVING | {"_core", "ledger"},
    "datasets": LEAVES | {"geometry"},
    "page": LEAVES | {"privacy", "ledger", "federated"},
    "__main__": {"page"},
    "plotting": {"_quiet", "_validation", "ledger", "geometry"},
    "_reporting": {"_known_classes", "_walk", "geometry", "_descent"},
    "inference": LEAVES | {"geometry"},
    "_erm": ROOM,
    "preprocessing": SOLVING | {"_core"},
    "_public_table": LEAVES,
    "_mean": ROOM,
    "_pca": ROOM,
    "_completion": ROOM,
    "_linear_model": ROOM,
    "_regression": ROOM,
    "_selection": ROOM | {"preprocessing"},
    "moabb": ROOM | {"preprocessing"},
    "_tangent": ROOM | {"_mean", "_linear_model"},
    "federated": ROOM | {"_regression", "schedules"},
}
# Audits fit estimators; nothing imports audits.
ALLOWED["auditing"] = set(ALLOWED) - {"auditing", "plotting"}
# What checkers of types read; when it runs it imports nothing (see below).
ALLOWED["__init__"] = set(ALLOWED)


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


def test_imports_point_down():
    beyond = {
        str(path.relative_to(PACKAGE)): set(imported(path)) - ALLOWED[own] - {own, "_errors"}
        for path in MODULES
        for own in [layer(path)]
    }
    assert {path: names for path, names in beyond.items() if names} == {}


def test_the_layer_check_can_fail():
    tree = "from skriemdp.privacy import _events as events"
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


# Names of packages where they differ from those of their modules.  Extras are imported where they
# are needed, never when a module of ours loads, but by modules of which they are the purpose.
MODULES_OF = {"scikit-learn": "sklearn", "array-api-compat": "array_api_compat"}
OF_EXTRAS = {"federated/flower.py", "moabb.py"}


def _imported_at_once(tree):
    """Names of packages that a module imports when it loads, outside of `try` and type checks."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0]


def test_what_is_imported_is_a_dependency():
    """A bare installation imports: nothing is needed that it does not bring along."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    needed = [re.split("[>=<]", name)[0] for name in tomllib.loads(text)["project"]["dependencies"]]
    known = {MODULES_OF.get(name, name) for name in needed} | {"skriemdp"}
    known |= sys.stdlib_module_names
    for path in MODULES:
        if str(path.relative_to(PACKAGE)) not in OF_EXTRAS:
            found = set(_imported_at_once(ast.parse(path.read_text(encoding="utf-8"))))
            assert found <= known, f"{path.name} imports {sorted(found - known)}"
    assert list(_imported_at_once(ast.parse("import a.b\nfrom c import d"))) == ["a", "c"]


def test_every_dependency_is_imported():
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    needed = [re.split("[>=<]", name)[0] for name in tomllib.loads(text)["project"]["dependencies"]]
    source = "\n".join(path.read_text(encoding="utf-8") for path in MODULES)
    for name in needed:
        module = MODULES_OF.get(name, name)
        assert re.search(rf"^ *(import|from) {module}\b", source, flags=re.M), name


# -- names of tests --------------------------------------------------------------------------------

# A file is named after a module or package, with words before or after it, or it is listed here
# with the promise that it holds.
PROMISES = {
    "digests": "fits learn what they learned before, tools/digests.py",
    "architecture": "what has to be read, decided and trusted, tools/architecture.py",
    "baseline": "what moved in the benchmarks is seen",
    "composing_fits": "fits that share a budget",
    "cures": "what a message tells to do ends the message",
    "docs": "the documentation is true",
    "elsewhere": "faults that other libraries had",
    "estimators": "what every estimator owes scikit-learn and the budget",
    "exact_fits": "whole fits that add integers",
    "extreme_records": "no record crashes a fit",
    "hostile_calls": "no call crashes a fit or shows a record",
    "hosts": "other packages, by their own idioms",
    "layers": "imports, and names of tests",
    "mission": "one script that uses everything",
    "names": "one word for one meaning, docs/names.md",
    "people": "fits that protect people",
    "public_names": "what is exported, and where it is documented",
    "promises": "what a reader of an epsilon believes",
    "reproductions": "published figures",
    "types": "what checkers of types and editors know",
}
# Names of drawers say nothing about what is inside.
DRAWERS = {"more", "misc", "various", "other", "extra", "hardening", "utils", "helpers"}


def holds_a_module(name):
    """Whether the name of a file of tests holds that of a module or package."""
    stems = {path.stem.strip("_") for path in MODULES} | {
        path.parent.name.strip("_") for path in MODULES
    }
    return any(f"_{stem}_" in f"_{name}_" for stem in stems - {"init", PACKAGE.name})


def says_what_it_tests(name):
    """Whether it does, or is listed."""
    return (holds_a_module(name) or name in PROMISES) and not DRAWERS & set(name.split("_"))


def test_files_of_tests_say_what_they_test():
    names = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    assert {name for name in names if not says_what_it_tests(name)} == set()


def test_the_list_of_promises_is_no_longer_than_it_must_be():
    files = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    assert PROMISES.keys() <= files
    assert not any(map(holds_a_module, PROMISES))


def test_drawers_are_refused():
    assert says_what_it_tests("ledger_processes") and says_what_it_tests("mission")
    assert not any(map(says_what_it_tests, ("geometry_more", "hardening", "fixes", "init")))
