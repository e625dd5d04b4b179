"""Either side of every public threshold: the constant is moved, and pairs are replayed there.

Which branch a fit takes may depend on the numbers of records, steps, coordinates, on tiles and on
shares of a budget, all public.  A constant that decides so is listed here with a value below and
one above all that occur; a new constant of the packages that release is listed, or it is named as
one that decides nothing.
"""

import ast
import contextlib
import sys
from importlib import import_module
from pathlib import Path
from unittest import mock

import pytest

import skriemdp
from replay.pairs import PAIRS

MOST = 10**9
# Constant: values on either side, and names of pairs to which it matters.
THRESHOLDS = {
    "_mechanisms.units:_NUMBERS": (1, MOST, ("adagrad squared_error noised", "people mean tangent")),  # noqa: E501
    "_mechanisms.units:_FEW_NUMBERS": (1, MOST, ("mean tangent euclidean", "people mean tangent")),
    "_mechanisms.units:_SHORT": (0, MOST, ("mean tangent euclidean", "pca covariance single")),
    "_mechanisms.units:NEIGHBOURS": (1, MOST, ("mean found hyperboloid", "regression columns")),
    "_mechanisms.bounded_sets:_BLOCK": (1, MOST, (
        "adagrad squared_error noised", "adagrad sampled")),
    "_mechanisms.bounded_sets:_ROUNDED": (1, MOST, (
        "adagrad squared_error noised", "adagrad sampled")),
    "_mechanisms.bounded_sets:_NARROW": (0, MOST, (
        "adagrad squared_error noised", "adagrad paper noisy")),
    "_location_scale.rows:_TILE_BYTES": (1, MOST, ("pca pairs", "adagrad columns about zero")),
    "_location_scale.rows:_TOGETHER": (1, MOST, ("pca pairs", "people pca")),
    "_location_scale.columns:_FEW": (0, MOST, ("adagrad columns", "regression columns")),
    "_location_scale.columns:_CERTAIN": (0.0, 1e9, ("adagrad columns", "regression columns")),
    "_location_scale.points:_FEW": (0, MOST, ("mean found", "search hyperboloid")),
    "_location_scale.points:_FEW_RECORDS": (0.0, 1e9, ("mean found", "search euclidean")),
    "_mean.table_releases:_FEW": (0, MOST, ("mean table unlike", "mean table alike")),
    "_mean.table_releases:_FEW_NEED": (0.0, 1e9, ("mean table unlike", "mean table alike")),
    "_mean.table_releases:_PRICE": (0.0, 1e9, ("mean table unlike", "mean table alike")),
    "_location_scale.points:_MANY": (0.0, 1e9, ("mean found", "search sphere")),
    "_location_scale.search:_CHEAP": (0.0, 1e9, ("search euclidean", "mean found")),
    "_location_scale.row_releases:_PLENTY": (0.0, 1e9, ("adagrad search", "adagrad columns")),
    "_mean.class_releases:_LEAST_VOTE": (0.0, 1e9, ("class means vote", "class means euclidean")),
    "_mean.planning:_LAPLACE_DIM": (0, MOST, ("mean laplace", "mean adaptive laplace")),
    "_mean.planning:_LAPLACE_EPSILON": (0.0, 1e9, ("mean laplace", "mean found")),
    "_mean.planning:_TWO_ROUNDS": (0.0, 1e9, ("mean adaptive gaussian", "mean adaptive laplace")),
    "_mean.planning:_LEAST_SEEKING": (0.0, 1e9, ("mean adaptive gaussian", "mean adaptive laplace")),  # noqa: E501
    "_mean.planning:_NEED": (1.0, 1e3, ("mean adaptive gaussian", "mean adaptive laplace")),
    "_mean.class_releases:_LEAST_LINEAR": (0.0, 1e9, ("class means linear", "class moments linear")),  # noqa: E501
    "_mean.class_releases:_LINEAR_BY_CLASSES": (0.0, 1e9, ("class means linear",)),
    "_mean.class_releases:_MOST_DIM": (0, MOST, ("class means linear", "class moments linear")),
    "_mean.joint_releases:_LEAST_LOOK": (0.0, 1e9, ("mean joint adaptive", "mean joint tangent")),
    "_mean.planning:_BENT": (0.0, 1e9, ("mean found curved", "mean found spd")),
    "_mean.planning:_FINE": (1e-9, 1e9, ("mean found curved", "mean found spd")),
    "_mean.planning:_FORMED": (0, MOST, ("mean found curved", "mean found spd")),
    "_mean.releases:LEAST_MATRICES": (0.0, 1e9, ("mean found", "class moments")),
    "_pca.search_releases:_PAIRS_FROM": (0.0, 11.9, ("pca pairs", "pca mean")),
    "_pca.search_releases:_MOST_MEANS": (0, MOST, ("pca pairs", "pca mean")),
    "_linear_model.fit_plan:_LITTLE_NOISE": (0.0, 1e9, ("adagrad squared_error noised",)),
    "_linear_model.fit_plan:_LEAST_WHITE": (0.0, 1e9, ("adagrad white", "adagrad columns, targets")),  # noqa: E501
    "_linear_model.fit_plan:_WIDEST_WHITE": (0, MOST, ("adagrad white",)),
    "_location_scale.row_releases:LEAST_FOR_MODEL": (0.0, 1e9, ("adagrad targets", "geodesics w")),
    "_regression.geodesic_releases:_LEAST_CURVED": (0.0, 1e9, ("geodesics found",)),
    "_regression.geodesic_releases:_LEAST_WHITE": (0.0, 1e9, ("geodesics white", "geodesics const")),  # noqa: E501
    "_regression.features:_TILE": (1, MOST, ("regression parametric", "regression queries")),
    "_regression.geodesic_model:_TILE": (1, MOST, ("geodesic",)),
    "_regression.geodesic_releases:_LEAST_FOR_TWO": (0.0, 1e9, ("geodesic",)),
    "_completion.problem:BLOCK_ENTRIES": (1, MOST, ("completion sparse", "completion stochastic")),
    "_completion.releases:DENSE_SHARE": (0.0, 1.1, ("completion votes", "completion clipped")),
    "_completion.releases:LARGEST_MATRIX": (1, MOST, ("completion votes", "completion clipped")),
    "_completion.releases:STOCHASTIC_BATCHES": (2, 15, ("completion stochastic",)),
    "_completion.signal_releases:SIGNAL_ITEMS": (1, MOST, ("completion signal",)),
    "_completion.releases:PAID_THRESHOLD": (0.0, 1e9, ("completion clipped", "completion signal")),
    "_pca.search_releases:LEAST_LEFT": (0.0, 0.9, ("pca pairs", "pca mean")),
    "_linear_model.fit_plan:_LARGEST_MATRIX": (0, MOST, ("adagrad squared_error", "adagrad paper")),
    "_descent.chunked:_SMALL_BLOCK_BYTES": (1, MOST, ("erm dask", "erm descent")),
    "_location_scale.points:_KEPT_BYTES": (0, MOST, ("mean tangent euclidean", "mean found")),
    "_curator.tables:KEPT_BYTES": (0, MOST, ("curator root moments", "curator leading")),
    "_curator.curator:_MOST_EIGENVALUES": (0, MOST, ("mean found", "curator")),
}  # fmt: skip


# These are compared with released numbers, or refuse, warn, bound rounding or are of an algorithm
# of integers; no release of records depends on their side.
OTHERS = set(
    """
    _mechanisms.batch_sizes:COIN _mechanisms.bounds:_LARGEST _mechanisms.bounds:_LEAST
    _mechanisms.bounds:_MOST _mechanisms.counts:_RARELY_PURE _mechanisms.counts:_SURE
    _mechanisms.discrete_gaussian:LARGEST_SCALE _mechanisms.discrete_gaussian:_CELLS
    _mechanisms.bounded_sets:_FRAME_BITS _mechanisms.bounded_sets:_LEAST_MU
    _mechanisms.bounded_sets:_MOST_MU
    _mechanisms.bounded_sets:_SLACK _mechanisms.pure_spectrum:LARGEST_SIZE _mechanisms.sum:_LONGEST
    _location_scale.columns:_ALIKE _location_scale.columns:_DISTANCES
    _location_scale.columns:_NARROWER _location_scale.columns:_ONE _location_scale.search:_ASIDE
    _location_scale.search:_SAME _location_scale.search:_CURVED
    _location_scale.search:_HIDDEN _location_scale.search:_SHRUNK _mean.class_releases:_AHEAD
    _mean.estimator:_COARSE _mean.estimator:_WIDE _mean.releases:LEAST_ROWS
    _mean.class_releases:_LEAST_KEPT _mean.class_releases:_TELLS _mean.classifier:_SEPARATED
    _mean.classifier:_HOPELESS _mean.joint_releases:LEAST_COUNT
    _mean.planning:LAPLACE_GAIN _mean.planning:_MUCH _mean.uncertainty:_CUT _pca.releases:_FLAT
    _pca.releases:_OUTSTANDING _pca.search_releases:_PAIRS_TO
    _linear_model.fit_plan:_LARGEST_RIDGE
    _linear_model.public_rows:_FOLDS _regression.fit_plan:_FARTHEST
    _regression.fit_plan:_LARGEST_KERNEL _regression.geodesic_fit:_FEW_DIMENSIONS
    _regression.geodesic_fit:_NEAR _regression.geodesic_fit:_STRAIGHT
    _regression.geodesic_releases:_MOST_SEARCHED _completion.item_releases:DEVIATION_BOUND
    _completion.problem:LEAST_RIDGE _completion.releases:HOPELESS_SNR
    _completion.releases:LEAST_STRENGTH _completion.releases:STRONG_SIGNAL
    _curator.curator:_ROUNDING _core.forecast:_FINE _core.forecast:_MOST_N
    _core.manifold_input:LEAST_SIGNAL _core.parameters:_LARGE_EPSILON
    """.split()
)
RELEASING = (
    "_mechanisms _location_scale _mean _pca _linear_model "
    "_descent _regression _selection _completion _erm "
    "_gives _curator _tangent _core"
).split()


def compared():
    """Constants of the packages that release, in capitals, that are compared with something."""
    for package in RELEASING:
        for path in sorted((Path(skriemdp.__file__).parent / package).glob("*.py")):
            tree = ast.parse(path.read_text())
            own = {
                name.id
                for node in tree.body
                if isinstance(node, ast.Assign | ast.AnnAssign)
                for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
                for name in ast.walk(target)
                if isinstance(name, ast.Name) and name.id.strip("_").isupper()
            }
            for node in ast.walk(tree):
                order = isinstance(node, ast.Compare) and any(
                    isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops
                )
                for name in ast.walk(node) if order else ():
                    if isinstance(name, ast.Name) and name.id in own:
                        yield f"{package}.{path.stem}:{name.id}"


def test_every_constant_that_is_compared_is_known():
    found = set(compared())
    assert found <= set(THRESHOLDS) | OTHERS
    assert OTHERS <= found, "what is gone is taken out of the list"
    assert not OTHERS & set(THRESHOLDS)


@contextlib.contextmanager
def moved(place, value):
    """The constant in every module that holds it."""
    module, name = place.split(":")
    old = vars(import_module(f"skriemdp.{module}"))[name]
    loaded = [m for n, m in sys.modules.items() if n.startswith("skriemdp.")]
    holders = [m for m in loaded if name in vars(m) and vars(m)[name] is old]
    with contextlib.ExitStack() as stack:
        for holder in holders:
            stack.enter_context(mock.patch.object(holder, name, value))
        yield


def concerned(names, most=2):
    """The first pairs of each name; the quickest are first in their families."""
    for name in names:
        found = [pair for pair in PAIRS if pair.name.startswith(name) and not pair.xfail]
        assert found, name
        yield from found[:most]


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("place", THRESHOLDS)
def test_pairs_replay_on_either_side_of_a_threshold(place):
    *sides, names = THRESHOLDS[place]
    refused = 0
    for value in sides:
        with moved(place, value):
            for pair in concerned(names):
                try:
                    pair.run()
                except ValueError:  # such a fit is refused before its charge
                    refused += 1
    assert refused < 2 * len(list(concerned(names)))
