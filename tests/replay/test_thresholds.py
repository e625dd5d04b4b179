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
    "mechanisms.units:_NUMBERS": (1, MOST, ("adagrad squared_error noised", "people mean tangent")),
    "mechanisms.units:_FEW_NUMBERS": (1, MOST, ("mean tangent euclidean", "people mean tangent")),
    "mechanisms.units:_SHORT": (0, MOST, ("mean tangent euclidean", "pca covariance single")),
    "mechanisms.units:NEIGHBOURS": (1, MOST, ("mean found hyperboloid", "regression columns")),
    "mechanisms.bounded_sets:_BLOCK": (1, MOST, (
        "adagrad squared_error noised", "adagrad sampled")),
    "mechanisms.bounded_sets:_ROUNDED": (1, MOST, (
        "adagrad squared_error noised", "adagrad sampled")),
    "mechanisms.bounded_sets:_NARROW": (0, MOST, (
        "adagrad squared_error noised", "adagrad paper noisy")),
    "location_scale.rows:_TILE_BYTES": (1, MOST, ("pca pairs", "adagrad columns about zero")),
    "location_scale.rows:_TOGETHER": (1, MOST, ("pca pairs", "people pca")),
    "location_scale.columns:_FEW": (0, MOST, ("adagrad columns", "regression columns")),
    "location_scale.columns:_CERTAIN": (0.0, 1e9, ("adagrad columns", "regression columns")),
    "location_scale.points:_FEW": (0, MOST, ("mean found", "search hyperboloid")),
    "location_scale.points:_FEW_RECORDS": (0.0, 1e9, ("mean found", "search euclidean")),
    "location_scale.points:_MANY": (0.0, 1e9, ("mean found", "search sphere")),
    "location_scale.search:_CHEAP": (0.0, 1e9, ("search euclidean", "mean found")),
    "location_scale.row_releases:_PLENTY": (0.0, 1e9, ("adagrad search", "adagrad columns")),
    "mean.class_releases:_LEAST_VOTE": (0.0, 1e9, ("class means vote", "class means euclidean")),
    "mean.planning:_LAPLACE_DIM": (0, MOST, ("mean laplace", "mean adaptive laplace")),
    "mean.planning:_LAPLACE_EPSILON": (0.0, 1e9, ("mean laplace", "mean found")),
    "mean.planning:_TWO_ROUNDS": (0.0, 1e9, ("mean adaptive gaussian", "mean adaptive laplace")),
    "mean.planning:_LEAST_SEEKING": (0.0, 1e9, ("mean adaptive gaussian", "mean adaptive laplace")),
    "mean.planning:_NEED": (1.0, 1e3, ("mean adaptive gaussian", "mean adaptive laplace")),
    "mean.class_releases:_LEAST_LINEAR": (0.0, 1e9, ("class means linear", "class moments linear")),
    "mean.class_releases:_LINEAR_BY_CLASSES": (0.0, 1e9, ("class means linear",)),
    "mean.class_releases:_MOST_DIM": (0, MOST, ("class means linear", "class moments linear")),
    "mean.joint_releases:_LEAST_LOOK": (0.0, 1e9, ("mean joint adaptive", "mean joint tangent")),
    "mean.releases:LEAST_MATRICES": (0.0, 1e9, ("mean found", "class moments")),
    "pca.search_releases:_PAIRS_FROM": (0.0, 11.9, ("pca pairs", "pca mean")),
    "pca.search_releases:_MOST_MEANS": (0, MOST, ("pca pairs", "pca mean")),
    "linear_model.fit_plan:_LITTLE_NOISE": (0.0, 1e9, ("adagrad squared_error noised",)),
    "linear_model.fit_plan:_LEAST_WHITE": (0.0, 1e9, ("adagrad white", "adagrad columns, targets")),
    "linear_model.fit_plan:_WIDEST_WHITE": (0, MOST, ("adagrad white",)),
    "location_scale.row_releases:LEAST_FOR_MODEL": (0.0, 1e9, ("adagrad targets", "geodesics w")),
    "regression.geodesic_releases:_LEAST_CURVED": (0.0, 1e9, ("geodesics found",)),
    "regression.geodesic_releases:_LEAST_WHITE": (0.0, 1e9, ("geodesics white", "geodesics const")),
    "regression.features:_TILE": (1, MOST, ("regression parametric", "regression queries")),
    "regression.geodesic_model:_TILE": (1, MOST, ("geodesic",)),
    "regression.geodesic_releases:_LEAST_FOR_TWO": (0.0, 1e9, ("geodesic",)),
    "completion.problem:BLOCK_ENTRIES": (1, MOST, ("completion sparse", "completion stochastic")),
    "completion.releases:DENSE_SHARE": (0.0, 1.1, ("completion votes", "completion clipped")),
    "completion.releases:LARGEST_MATRIX": (1, MOST, ("completion votes", "completion clipped")),
    "completion.releases:STOCHASTIC_BATCHES": (2, 15, ("completion stochastic",)),
    "completion.signal_releases:SIGNAL_ITEMS": (1, MOST, ("completion signal",)),
    "completion.releases:PAID_THRESHOLD": (0.0, 1e9, ("completion clipped", "completion signal")),
    "pca.search_releases:LEAST_LEFT": (0.0, 0.9, ("pca pairs", "pca mean")),
    "linear_model.fit_plan:_LARGEST_MATRIX": (0, MOST, ("adagrad squared_error", "adagrad paper")),
    "descent.chunked:_SMALL_BLOCK_BYTES": (1, MOST, ("erm dask", "erm descent")),
    "location_scale.points:_KEPT_BYTES": (0, MOST, ("mean tangent euclidean", "mean found")),
    "curator.tables:KEPT_BYTES": (0, MOST, ("curator root moments", "curator leading")),
    "curator.curator:_MOST_EIGENVALUES": (0, MOST, ("mean found", "curator")),
}  # fmt: skip


# These are compared with released numbers, or refuse, warn, bound rounding or are of an algorithm
# of integers; no release of records depends on their side.
OTHERS = set(
    """
    mechanisms.batch_sizes:COIN mechanisms.bounds:_LARGEST mechanisms.bounds:_LEAST
    mechanisms.bounds:_MOST mechanisms.counts:_RARELY_PURE mechanisms.counts:_SURE
    mechanisms.discrete_gaussian:LARGEST_SCALE mechanisms.discrete_gaussian:_CELLS
    mechanisms.bounded_sets:_FRAME_BITS mechanisms.bounded_sets:_LEAST_MU
    mechanisms.bounded_sets:_MOST_MU
    mechanisms.bounded_sets:_SLACK mechanisms.pure_spectrum:LARGEST_SIZE mechanisms.sum:_LONGEST
    location_scale.columns:_ALIKE location_scale.columns:_DISTANCES
    location_scale.columns:_NARROWER location_scale.columns:_ONE location_scale.search:_ASIDE
    location_scale.search:_SAME location_scale.search:_CURVED
    location_scale.search:_HIDDEN location_scale.search:_SHRUNK mean.class_releases:_AHEAD
    mean.releases:LEAST_ROWS
    mean.class_releases:_LEAST_KEPT mean.class_releases:_TELLS mean.classifier:_SEPARATED
    mean.classifier:_HOPELESS mean.joint_releases:LEAST_COUNT mean.noise_shape:_ROUNDING
    mean.planning:LAPLACE_GAIN mean.planning:_MUCH mean.uncertainty:_CUT pca.releases:_FLAT
    pca.releases:_OUTSTANDING pca.search_releases:_NORM_SHARE pca.search_releases:_PAIRS_TO
    pca.search_releases:_RANK_SHARE linear_model.fit_plan:_LARGEST_RIDGE
    linear_model.public_rows:_FOLDS regression.fit_plan:_FARTHEST
    regression.fit_plan:_LARGEST_KERNEL regression.geodesic_fit:_FEW_DIMENSIONS
    regression.geodesic_fit:_NEAR regression.geodesic_fit:_STRAIGHT
    regression.geodesic_releases:_MOST_SEARCHED completion.item_releases:DEVIATION_BOUND
    completion.problem:LEAST_RIDGE completion.releases:HOPELESS_SNR
    completion.releases:LEAST_STRENGTH completion.releases:STRONG_SIGNAL
    curator.curator:_ROUNDING core.forecast:_FINE core.forecast:_MOST_N
    core.manifold_input:LEAST_SIGNAL core.parameters:_LARGE_EPSILON
    """.split()
)
RELEASING = (
    "mechanisms location_scale mean pca linear_model descent regression selection completion erm "
    "gives curator tangent core"
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
