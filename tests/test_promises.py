"""The sentences that a reader of an epsilon believes, held by the source of the package.

Noise is drawn by mechanisms; what scales it comes from one file, with a proof; budgets are charged
in one place.  docs/design.md says what follows from that.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from pathlib import Path

import pytest

PACKAGE = Path(importlib.util.find_spec("skriemdp").origin).parent
SOURCES = {
    path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))
}

DRAWS = {
    "beta", "binomial", "bytes", "chisquare", "choice", "dirichlet", "exponential", "gamma",
    "geometric", "gumbel", "integers", "laplace", "logistic", "multinomial", "multivariate_normal",
    "negative_binomial", "normal", "permutation", "permuted", "poisson", "random", "rayleigh",
    "shuffle", "standard_cauchy", "standard_exponential", "standard_gamma", "standard_normal",
    "standard_t", "triangular", "uniform", "vonmises", "wald", "weibull", "zipf",
}  # fmt: skip

# Where generators may be asked: mechanisms and laws draw noise, the others draw no noise at all.
NOISY = ("_mechanisms/", "riemannian_laws/", "datasets/", "_random.py")

# Draws that are no noise, each with its reason.
PLAIN_DRAWS = {
    # Who is in a batch, and which iterate is the answer: part of the accounted event.
    ("_descent/releases.py", "_subset"),
    ("_descent/trajectory.py", "Trajectory.__init__"),
    ("federated/_releases.py", "Participation.draw"),
    ("federated/_estimator.py", "FederatedEstimator._charged"),
    # How many candidates run, which of them, and the seeds of their fits: likewise.
    ("privacy/_events_mixed.py", "SelectionEvent.draw_count"),
    ("_selection/estimator.py", "PrivateGridSearchCV._run"),
    ("_curator/curator.py", "Curator._selected"),
    # Covariances as they might have been released: of the public generator of a region.
    ("inference/_covariances.py", "symmetric_noise"),
    # Made-up records and points, from a generator that the caller makes.
    ("_descent/separate_rows.py", "made_up_points"),
    ("_descent/separate_rows.py", "made_up_records"),
    ("_descent/separate_rows.py", "made_up_tables"),
    ("geometry/_orthonormal.py", "uniform"),
    ("geometry/_grassmann.py", "Grassmann.random_point"),
    ("geometry/_sphere.py", "Sphere.random_point"),
    ("geometry/_stiefel.py", "Stiefel.random_point"),
}

# Noise is drawn where mechanisms and laws are, and nowhere else.
DRAWERS = ("_mechanisms/", "riemannian_laws/", "_curator/")
# Factories of mechanisms and events: whoever calls one of them builds.
FACTORIES = {"count", "quantile"}

# A list that must only get shorter: a test fails when an entry is new, and when one is not needed.
# No guarantee rests on these.  They scale what is estimated (`scale_factors`, `unit_rows`,
# `_label_points`: sets bound what comes of it, tests/replay/test_mutations.py takes them away),
# shorten what is released or public, or project points on the public ball of the data.
OTHER_CLIPS = {
    ("geometry/_ball.py", "GeodesicBall.coordinates"),
    ("geometry/_ball.py", "GeodesicBall.project_and_count"),
    ("geometry/_ball.py", "GeodesicBall.project_with_log_sum"),
    ("inference/_moments.py", "MeanInference.step"),
    ("_linear_model/glm.py", "unit_rows"),
    ("_location_scale/rows.py", "scale_factors"),
    ("_mean/class_releases.py", "ClassSums.finish"),
    ("_mean/linear_decision.py", "_within"),
    ("_mean/releases.py", "TangentMean.finish"),
    ("_regression/estimator.py", "PrivateHyperbolicRegressor._label_points"),
    ("_regression/estimator.py", "PrivateHyperbolicRegressor._tangent_predictions"),
    ("_regression/fit_plan.py", "_public_base"),
    ("_regression/geodesic_fit.py", "_made_up"),
    ("_regression/geodesic_model.py", "GeodesicModel.moved"),
}

# What these products make is told to the user (`noise_scale_`) and scales no noise.
TOLD = {
    ("_erm/estimator.py", "PrivateRiemannianERM._calibrated"),
}
# Packages that may build mechanisms and events because it is what they are about.
BUILDERS = ("_mechanisms/", "privacy/", "ledger/", "riemannian_laws/", "_curator/")
# One stands in the order of work, the other on a client's own machine.
CHARGES = {"_core/charge.py", "federated/_agent.py", "federated/_round_releases.py"}


# Trees are looked at and never changed; most files are the same from test to test.
parsed = functools.lru_cache(maxsize=1024)(ast.parse)


def by_file(found_in):
    """A function of (file, text) as one of a package; answers about a file are remembered."""
    remembered = functools.cache(lambda name, text, *more: tuple(found_in(name, text, *more)))

    @functools.wraps(found_in)
    def of_all(sources, *more):
        for name, text in sources.items():
            yield from remembered(name, text, *more)

    return of_all


def functions(tree):
    """``(name, node)`` of every function, and of the module without them."""

    def walk(node, owner):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{owner}.{child.name}" if owner else child.name
                if isinstance(child, ast.FunctionDef):
                    yield name, child
                yield from walk(child, name)
            else:
                yield from walk(child, owner)

    yield "", tree
    yield from walk(tree, "")


def own_nodes(function):
    """Nodes of a function that are not inside another one."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef):
            waiting += ast.iter_child_nodes(node)


def is_public(generator, function):
    """Whether an expression is a generator with a public seed, made in the same function."""
    if isinstance(generator, ast.Name):
        given = [
            node.value
            for node in own_nodes(function)
            if isinstance(node, ast.Assign)
            and [ast.unparse(t) for t in node.targets] == [generator.id]
        ]
        return len(given) == 1 and is_public(given[0], function)
    if not isinstance(generator, ast.Call):
        return False
    name = ast.unparse(generator.func)
    fixed = name == "np.random.default_rng" and all(
        isinstance(a, ast.Constant) for a in generator.args
    )
    return name == "public_generator" or (fixed and bool(generator.args))


@by_file
def draws(name, text):
    """``(file, function)`` that ask a generator for numbers, outside of where noise is drawn."""
    if name.startswith(NOISY):
        return
    for owner, function in functions(parsed(text)):
        for node in own_nodes(function):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in DRAWS
                and not is_public(node.func.value, function)
            ):
                yield name, owner


@by_file
def calls(name, text, last):
    """Files with a call of ``last(...)`` or ``x.last(...)``, once for each."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == last:
            yield name


@by_file
def noise_callers(name, text):
    """``(file, function)`` that call ``noise.draw``, by whatever name, outside of the drawers."""
    if name.startswith(DRAWERS):
        return
    tree = parsed(text)
    names = {"noise.draw"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "skriemdp._mechanisms"
        ):
            module = node.module.removeprefix("skriemdp._mechanisms").lstrip(".")
            for alias in node.names:
                called = alias.asname or alias.name
                if (module, alias.name) == ("", "noise"):
                    names.add(f"{called}.draw")
                if (module, alias.name) == ("noise", "draw"):
                    names.add(called)
    for owner, function in functions(tree):
        for node in own_nodes(function):
            if isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) in names:
                yield name, owner


@by_file
def factory_callers(name, text):
    """Files beside the releases that call a factory of a budget, or ask it for its event."""
    if name.startswith(BUILDERS) or is_release(name):
        return
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value).split(".")[-1]
            if node.func.attr in FACTORIES and "budget" in owner.lower():
                yield name
        if isinstance(node, ast.Attribute) and node.attr == "event":
            owner = node.value
            if isinstance(owner, ast.Call) and ast.unparse(owner.func).endswith("Budget"):
                yield name


@by_file
def clip_sites(name, text):
    """``(file, function)`` that shorten vectors, outside of the mechanisms.

    By a call of ``clip_norms`` or ``enforce``, or by factors ``bound / maximum(lengths, bound)``.
    """
    if name.startswith(("_mechanisms/", "datasets/", "riemannian_laws/", "privacy/")):
        return
    for owner, function in functions(parsed(text)):
        for node in own_nodes(function):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func).split(".")[-1]
                if called in ("clip_norms", "_clip_norms", "enforce", "_shrinking"):
                    yield name, owner
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                under = ast.unparse(node.right)
                if under.startswith("np.maximum(") and "norm" in under + ast.unparse(node.left):
                    yield name, owner


def is_release(name):
    """Whether a module says by its name that it holds releases."""
    return name.removesuffix(".py").endswith(("/releases", "_releases"))


@functools.cache
def built():
    """Names of the mechanisms and events: classes that are an event, or have one and a release."""
    found = set()
    for name, text in SOURCES.items():
        for node in ast.walk(parsed(text)) if name.startswith(BUILDERS) else ():
            if isinstance(node, ast.ClassDef):
                members = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
                if node.name.endswith("Event") or {"event", "release"} <= members:
                    found.add(node.name)
    return found


@by_file
def builds(name, text):
    """``(file, class)`` of mechanisms and events that neither builders nor releases mention.

    Calls, of the class or of what it offers (``X.calibrated(...)``), and classes passed on.  Not
    annotations, imports, and the second argument of ``isinstance``.
    """
    if name.startswith(BUILDERS) or is_release(name):
        return
    waiting = [parsed(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name | ast.Attribute):
            last = node.id if isinstance(node, ast.Name) else node.attr
            if last in built():
                yield name, last
        for field, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            if field in ("annotation", "returns"):
                continue
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                children = children[:1]
            waiting += [child for child in children if isinstance(child, ast.AST)]


@by_file
def scaled_by_hand(name, text):
    """``(file, function)`` that multiply or divide by a noise multiplier."""
    for owner, function in functions(parsed(text)):
        for node in own_nodes(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
                factors = [ast.unparse(side) for side in (node.left, node.right)]
                if any("noise_multiplier" in factor.split("(")[0] for factor in factors):
                    yield name, owner


def unused_theorems(sources):
    """Functions of the file of sensitivities that no other file of the package imports."""
    tree = parsed(sources["privacy/_sensitivity.py"])
    made = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    imported = {
        alias.name
        for name, text in sources.items()
        if name != "privacy/_sensitivity.py"
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.ImportFrom) and node.module == "skriemdp.privacy._sensitivity"
        for alias in node.names
    }
    return {name for name in made if not name.startswith("_")} - imported


def planted(name, text):
    """The package with lines more at the end of one of its files."""
    return SOURCES | {name: SOURCES[name] + text}


# -- the promises, and for each a line that breaks it ---------------------------------------------


def test_only_mechanisms_draw_noise():
    assert set(draws(SOURCES)) == PLAIN_DRAWS


def test_only_mechanisms_and_laws_call_the_function_that_draws():
    assert not set(noise_callers(SOURCES))


@pytest.mark.parametrize(
    "text",
    [
        "def planted(rng):\n    noise.draw(0.0, 1.0, 'gaussian', rng, sensitivity=1.0)\n",
        "def planted(rng):\n    return functools.partial(noise.draw, 0.0)\n",
        "from skriemdp._mechanisms.noise import draw\n\ndef planted(rng):\n    draw(0.0)\n",
        "from skriemdp._mechanisms import noise as n\n\ndef planted(rng):\n    n.draw(0.0)\n",
        "from skriemdp._mechanisms.noise import draw as d\n\ndef planted(rng):\n    d(0.0)\n",
    ],
)
def test_a_call_of_it_elsewhere_is_found(text):
    for place in ("_mean/releases.py", "_regression/prediction_releases.py"):
        found = set(noise_callers(planted(place, f"\n\n{text}")))
        assert found == {(place, "planted")}
    assert not set(noise_callers({"_mechanisms/vector.py": text}))


def test_only_releases_call_a_factory():
    assert not set(factory_callers(SOURCES))


@pytest.mark.parametrize(
    "line",
    [
        "budget.count(0.1)",
        "self.budget.count(0.1)",
        "GaussianBudget(mu).event",
        "own_budget.quantile(0.1, grid, 0.5)",
    ],
)
def test_a_factory_called_elsewhere_is_found(line):
    text = f"\n\ndef planted(self, budget, bound, mu):\n    return {line}\n"
    assert "_core/charge.py" in set(factory_callers(planted("_core/charge.py", text)))
    assert not set(factory_callers({"_mean/releases.py": text}))


def test_where_rows_are_shortened_is_listed():
    assert set(clip_sites(SOURCES)) == OTHER_CLIPS


@pytest.mark.parametrize(
    "line",
    [
        "clip_norms(rows, bound)",
        "bounds.clip_norms(rows, bound)",
        "self.bound.enforce(rows).sum(axis=0)",
        "rows * (bound / np.maximum(norms, bound))",
    ],
)
def test_a_clip_elsewhere_is_found(line):
    text = f"\n\ndef planted(self, rows, bound, norms):\n    return {line}\n"
    found = set(clip_sites(planted("_erm/estimator.py", text))) - OTHER_CLIPS
    assert found == {("_erm/estimator.py", "planted")}
    assert not set(clip_sites({"_mechanisms/sum.py": text}))


@pytest.mark.parametrize(
    "line",
    [
        "rng.standard_normal(3)",
        "streams('x').laplace(size=3)",
        "np.random.default_rng().gumbel()",
        "np.random.default_rng(seed).normal()",
        "self.rng.standard_gamma(2.0)",
    ],
)
def test_a_draw_elsewhere_is_found(line):
    text = f"\n\ndef planted(rng, seed, streams):\n    return {line}\n"
    found = set(draws(planted("_mean/releases.py", text))) - PLAIN_DRAWS
    assert found == {("_mean/releases.py", "planted")}


def test_a_generator_that_was_public_once_is_found():
    text = "\n\ndef planted(rng):\n    a = public_generator(0, 'a')\n    a = rng\n    a.random()\n"
    assert set(draws(planted("_erm/estimator.py", text))) - PLAIN_DRAWS
    assert (
        set(draws(planted("_erm/estimator.py", text.replace("    a = rng\n", "")))) == PLAIN_DRAWS
    )


def test_sensitivities_are_made_in_one_file():
    assert set(calls(SOURCES, "Sensitivity")) == {"privacy/_sensitivity.py"}
    found = set(
        calls(planted("_pca/search_releases.py", "\nS = Sensitivity(1.0, '')\n"), "Sensitivity")
    )
    assert "_pca/search_releases.py" in found


def test_every_sensitivity_is_used():
    assert not unused_theorems(SOURCES)
    text = "\n\ndef planted_sensitivity():\n    return 1.0\n"
    assert unused_theorems(planted("privacy/_sensitivity.py", text)) == {"planted_sensitivity"}


def test_only_releases_build_mechanisms_and_events():
    assert {"GaussianNoise", "GaussianEvent", "GaussianCount"} <= built()
    assert set(builds(SOURCES)) == set()


@pytest.mark.parametrize(
    "line",
    [
        "GaussianNoise(bound, 1.0)",
        "vector.GaussianNoise(bound, 1.0)",
        "GaussianNoise.calibrated(bound)",
        "[make(bound, 1.0) for make in (GaussianNoise,)]",
        "functools.partial(GaussianNoise, bound)",
    ],
)
@pytest.mark.parametrize("place", ["_mean/planning.py", "_selection/estimator.py"])
def test_a_mechanism_built_elsewhere_is_found(place, line):
    text = f"def planted(bound):\n    return {line}\n"
    assert set(builds({place: SOURCES[place] + text})) == {(place, "GaussianNoise")}
    assert not set(builds({"_mean/releases.py": text}))
    harmless = "def planted(x: GaussianNoise):\n    return isinstance(x, GaussianNoise)\n"
    assert not set(builds({place: harmless}))


def test_only_mechanisms_scale_noise():
    found = set(scaled_by_hand(SOURCES)) - TOLD
    assert {name.split("/")[0] for name, _ in found} <= {"_mechanisms", "privacy"}
    assert TOLD <= set(scaled_by_hand(SOURCES))
    for line in ("2.0 * self.noise_multiplier * 3.0", "noise_multiplier / n"):
        text = f"\n\ndef planted(self, noise_multiplier, n):\n    return {line}\n"
        assert ("_mean/output_releases.py", "planted") in scaled_by_hand(
            planted("_mean/output_releases.py", text)
        )


def test_budgets_are_charged_in_few_places():
    """Those that override ``spend`` on an accountant are ledgers, which charge themselves."""
    assert set(calls(SOURCES, "spend")) == CHARGES
    assert "_erm/estimator.py" in calls(planted("_erm/estimator.py", "\na.spend(1)\n"), "spend")


def test_mechanisms_know_no_geometry():
    def imports(sources):
        return {
            name
            for name, text in sources.items()
            if name.startswith("_mechanisms/") and "skriemdp.geometry" in text
        }

    assert not imports(SOURCES)
    text = "\nfrom skriemdp.geometry._base import Geometry\n"
    assert imports(planted("_mechanisms/vector.py", text)) == {"_mechanisms/vector.py"}
