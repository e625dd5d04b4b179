"""What users' own packages make of this library: each host's idiom, with the person as the unit.

    python tools/hosts.py                    # a table of what is installed here
    python tools/hosts.py --write docs/hosts.md

A host is run as its own documentation runs it, with an estimator of ours in the place of one of
theirs.  Each idiom returns what its guarantee protects, from the statement of privacy or the
ledger, and raises where the host's part fails.  `tests/test_hosts.py` runs them one by one; `make
test-hosts` makes an environment that holds them, and the page.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from skriemdp import (
    BudgetError,
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateMinimumDistanceToMean,
    PrivateRiemannianERM,
    PrivateTangentClassifier,
)
from skriemdp.datasets import make_people
from skriemdp.preprocessing import PerGroup, Recenter

ROOT = Path(__file__).parents[1]
# What a description of another library's release says of its unit.
OF_PEOPLE = {"params": {"unit": "group"}}
X, Y, PERSON = make_people(60, 8, 3, rng=np.random.default_rng(0))


def checked(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def script(path: str):
    """A script of the examples, as a module."""
    place = ROOT / "examples" / path
    sys.path.insert(0, str(place.parent))
    try:
        spec = importlib.util.spec_from_file_location(place.stem, place)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(place.parent))
    return module


def scikit_learn() -> str:
    import sklearn
    from sklearn.model_selection import GroupKFold, cross_validate

    decoder = PrivateTangentClassifier("spd", classes=[0, 1], epsilon=3.0)
    model = PerGroup(Recenter("spd"), decoder)
    folds = GroupKFold(3, shuffle=True, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            model,
            X,
            Y,
            cv=folds,
            params={"groups": PERSON},
            error_score="raise",
            return_estimator=True,
        )
    units = {one.privacy_spent_.unit for one in found["estimator"]}
    checked(len(found["test_score"]) == 3 and units == {"group"}, "a fold protects rows")
    return "person"


def pyriemann() -> str:
    from pyriemann.estimation import Covariances
    from sklearn.pipeline import make_pipeline

    signals = np.random.default_rng(0).normal(size=(120, 3, 40))
    person, labels = np.arange(120) // 4, np.arange(120) % 2
    means = PrivateMinimumDistanceToMean("spd", classes=[0, 1], epsilon=8.0)
    model = make_pipeline(Covariances("oas"), means)
    model.fit(signals, labels, privateminimumdistancetomean__groups=person)
    mdm = means.to_pyriemann()
    checked(mdm.predict(model[0].transform(signals)).shape == (120,), "no prediction")
    checked(means.privacy_spent_.unit == "group", "trials are protected")
    return "person"


def pymanopt() -> str:
    import pymanopt.manifolds as manifolds

    def cost(point, x, y):
        return -((x @ point) ** 2)

    def gradient(point, x, y):
        return -2.0 * (x @ point) * x

    directions = np.random.default_rng(0).normal(size=(240, 3)) * [2.0, 1.0, 1.0]
    model = PrivateRiemannianERM(manifolds.Sphere(3), cost=cost, euclidean_gradient=gradient)
    model.set_params(clip_norm=2.0, n_steps=5, epsilon=3.0)
    model.fit(directions, groups=np.arange(240) // 4)
    checked(model.privacy_spent_.unit == "group", "rows are protected")
    return "person"


def moabb() -> str:
    results = script("moabb_people.py").evaluate(4, 3.0)
    counts = results.groupby("pipeline")["score"].count()
    checked(len(counts) == 3 and (counts == 4).all(), "a fold is missing")
    return "person"


def nilearn() -> str:
    from nilearn.connectome import ConnectivityMeasure, sym_matrix_to_vec

    from skriemdp.geometry import Correlation

    rng = np.random.default_rng(0)
    series = [rng.normal(size=(80, 6)) for _ in range(60)]
    connectomes = ConnectivityMeasure(kind="correlation").fit_transform(series)
    mean = PrivateFrechetMean(Correlation(6), epsilon=3.0)
    mean.fit(connectomes, groups=np.arange(60) // 2)
    checked(sym_matrix_to_vec(mean.mean_, discard_diagonal=True).shape == (15,), "no edges")
    checked(mean.privacy_spent_.unit == "group", "sessions are protected")
    return "person"


def flower() -> str:
    from flwr.serverapp import GaussianPrivacyEvent
    from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

    from skriemdp.federated import FlowerAccountant

    with tempfile.TemporaryDirectory() as folder:
        budget = PrivacyAccountant(2.0, path=Path(folder) / "clients.ledger", unit="client")
        accountant = FlowerAccountant(budget, population_size=4)
        DifferentialPrivacyServerSideFixedClipping(FedAvg(), 8.0, 1.0, 4, accountant=accountant)
        event = GaussianPrivacyEvent(8.0, sample_size=4, population_size=4)
        rounds = 0
        while not accountant.would_exceed(event):
            accountant.compose(event)
            rounds += 1
        checked(rounds == len(budget.history) > 2, "a round was not charged")
    return "client"


def nvflare() -> str:
    from nvflare.apis.dxo import DXO, DataKind, from_shareable
    from nvflare.apis.fl_constant import FilterKey, FLContextKey
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.utils.task_utils import apply_filters
    from nvflare.private.privacy_manager import Scope

    from skriemdp.federated.nvflare import NoisyUpdates

    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "site.ledger"
        scope, context = Scope(), FLContext()
        scope.add_task_result_filter(NoisyUpdates(str(ledger), 2.0, 1e-5, 0.5, 1.0), FilterKey.OUT)
        context.set_prop(FLContextKey.SCOPE_OBJECT, scope)
        update = DXO(DataKind.WEIGHT_DIFF, {"w": np.ones(4)}).to_shareable()
        chain = Scope.TASK_RESULT_FILTERS_NAME
        left = apply_filters(chain, update, context, {}, "train", FilterKey.OUT)
        checked((from_shareable(left).data["w"] != 1.0).all(), "an update left as it was")
        checked(len(PrivacyAccountant(path=ledger).history) == 1, "no charge")
    return "site"


def dask() -> str:
    import dask
    import dask.array as da

    rows = da.from_array(0.1 * np.random.default_rng(0).normal(size=(400, 2)), chunks=(100, 2))
    model = PrivateRiemannianERM("euclidean", radius=1.0, n_steps=3, epsilon=3.0)
    with dask.config.set(scheduler="synchronous"):
        model.fit(rows)
        try:
            model.fit(rows, groups=np.arange(400) // 4)
        except (ValueError, TypeError):
            return "row; people are refused"
    raise AssertionError("people in dask arrays are neither refused nor in this table")


def opendp() -> str:
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    numbers = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    budget = PrivacyAccountant(3.0, unit="group")
    # A person moves the sum by at most one.
    budget.spend(
        dp.m.make_gaussian(*numbers, scale=4.0), d_in=1.0, relation="replace-one", **OF_PEOPLE
    )
    PrivateFrechetMean(epsilon=1.0, accountant=budget).fit(X.reshape(480, 9), groups=PERSON)
    checked(len(budget.history) == 2 and 1.0 < budget.spent.epsilon <= 3.0, "not added up")
    return "person"


def dp_accounting() -> str:
    from dp_accounting import dp_event

    budget = PrivacyAccountant(3.0, unit="group")
    step = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
    budget.spend(dp_event.SelfComposedDpEvent(step, 100), relation="add-or-remove-one", **OF_PEOPLE)
    try:
        PrivateFrechetMean(epsilon=1.0, accountant=budget).fit(X.reshape(480, 9))
    except BudgetError:
        PrivateFrechetMean(epsilon=1.0, accountant=budget).fit(X.reshape(480, 9), groups=PERSON)
        checked(len(budget.history) == 2, "not added up")
        return "person"
    raise AssertionError("a fit of rows was charged to a budget of people")


class Host(NamedTuple):
    """A package of the user's, by the names that it is installed and imported under."""

    package: str
    module: str
    idiom: str
    run: Callable[[], str]


HOSTS = (
    Host(
        "scikit-learn", "sklearn", "`cross_validate` by `GroupKFold`, metadata routed", scikit_learn
    ),
    Host(
        "pyriemann",
        "pyriemann",
        "a pipeline with `Covariances`; `MDM` from the private means",
        pyriemann,
    ),
    Host("pymanopt", "pymanopt", "its manifold, cost and Euclidean gradient", pymanopt),
    Host("moabb", "moabb", "`CrossSubjectEvaluation`, all new people in turn", moabb),
    Host(
        "nilearn",
        "nilearn.connectome",
        "`ConnectivityMeasure` in, `sym_matrix_to_vec` out",
        nilearn,
    ),
    Host(
        "flwr",
        "flwr.serverapp",
        "a strategy with fixed clipping and our accountant, to its ceiling",
        flower,
    ),
    Host("nvflare", "nvflare", "a site's policy filters the result of a task", nvflare),
    Host("dask", "dask.array", "a fit on a dask array", dask),
    Host("opendp", "opendp", "a measurement and a fit in one ledger", opendp),
    Host(
        "dp-accounting",
        "dp_accounting",
        "an event and a fit in one ledger; rows refused",
        dp_accounting,
    ),
)


def installed(host: Host) -> str | None:
    """Its version; None where it is not here."""
    try:
        return version(host.package)
    except PackageNotFoundError:
        return None


def imports(host: Host) -> bool:
    """Whether it can be imported: two hosts may ask for unlike versions of a third package."""
    try:
        importlib.import_module(host.module)
    except Exception:  # of whatever kind
        return False
    return True


def row(host: Host) -> tuple[str, str, str, str]:
    found = installed(host)
    if found is None:
        return host.package, "-", host.idiom, "not installed here"
    if not imports(host):
        return host.package, found, host.idiom, "cannot be imported beside the others"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return host.package, found, host.idiom, host.run()
    except Exception as error:  # a table of what fails is the purpose
        return host.package, found, host.idiom, f"fails: {type(error).__name__}"


PAGE = """# In other packages

Doors are tested with the clients that others wrote: each package below is run as its own
documentation runs it, with an estimator of ours in the place of one of theirs, in an environment of
newest versions (`make test-hosts`, which made this table). *Protects* is what the guarantee speaks
of, read from the statement of privacy or the ledger.

| package | version | idiom | protects |
|---|---|---|---|
{rows}

People in dask arrays are refused: [people](user_guide/people.md). The tests of scikit-learn's
oldest supported version are those of `make test-oldest`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    rows = [row(host) for host in HOSTS]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    print(table)
    if args.write:
        args.write.write_text(PAGE.format(rows=table), encoding="utf-8")
    print(json.dumps({cells[0]: cells[3] for cells in rows}))
    if any(cells[3].startswith("fails") for cells in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
