"""Kinds of faults that other libraries had: one property for each, over estimators and settings.

docs/elsewhere.md names them, with links.
"""

import random
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from dp_accounting import dp_event
from replay.tape import Pair
from sklearn.base import clone

from skriemdp import (
    BudgetExceededError,
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    PrivateTangentClassifier,
    PrivateTangentPCA,
)
from skriemdp._mechanisms import noise
from skriemdp.privacy._calibration import gaussian_epsilon
from skriemdp.privacy._events import GaussianEvent, PureEvent

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
RNG = np.random.default_rng(0)
N, D = 60, 3
ROWS = RNG.normal(size=(N, D))
LABELS = np.arange(N) % 2
# Every estimator in bounds that are public, and once where they are found.
PUBLIC = [
    PrivateFrechetMean(radius=2.0),
    PrivateFrechetMean("sphere", radius=0.7),
    PrivateMinimumDistanceToMean(radius=2.0, classes=[0, 1]),
    PrivateTangentClassifier(radius=2.0, classes=[0, 1]),
    PrivateTangentPCA(1, radius=2.0),
    PrivatePrincipalEigenvector(row_norm=2.0),
    PrivateNoisyAdaGrad(feature_norm=2.0, classes=[0, 1], n_steps=5),
    PrivateNoisyAdaGrad("squared_error", feature_norm=2.0, target_range=(0.0, 1.0), n_steps=5),
    PrivateGeodesicRegressor(feature_scale=2.0, radius=1.0),
    PrivateHyperbolicRegressor(n_frequencies=4, feature_scale=1.0, base_point=[0.0, 0.0]),
    PrivateMatrixCompletion(rank=1, bounds=(0.0, 1.0), signal_test="none"),
    PrivateRiemannianERM(radius=2.0, n_steps=3),
]
FOUND = [
    PrivateFrechetMean(epsilon=5.0),
    PrivateMinimumDistanceToMean(classes=[0, 1]),
    PrivateTangentClassifier(classes=[0, 1]),
    PrivatePrincipalEigenvector(),
    PrivateNoisyAdaGrad(classes=[0, 1], n_steps=5),
]


def data(estimator, rows=ROWS, labels=LABELS):
    """What its `fit` takes."""
    if getattr(estimator, "manifold", None) == "sphere":
        size = np.abs(rows).max(axis=1, keepdims=True)
        rows = np.where(size > 0.0, rows / np.where(size > 0.0, size, 1.0), np.eye(D)[0])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True),)
    if isinstance(estimator, PrivateHyperbolicRegressor):
        return rows, 0.1 * np.tanh(rows[:, :2])
    if isinstance(estimator, PrivateMatrixCompletion):
        return (1.0 / (1.0 + np.exp(-np.clip(rows, -30.0, 30.0))) + 1e-3,)
    return rows, labels.astype(float) if estimator_is_regressor(estimator) else labels


def estimator_is_regressor(estimator):
    loss = getattr(estimator, "loss", "")
    return isinstance(estimator, PrivateGeodesicRegressor) or loss == "squared_error"


class Watch:
    """``noise.draw``, and what it was asked."""

    def __init__(self):
        self.asked, self._draw = [], noise.draw

    def __call__(self, statistic, scale, law, rng, size=(), **facts):
        self.asked.append((scale, facts["sensitivity"]))
        return self._draw(statistic, scale, law, rng, size, **facts)


def fitted(estimator, *arrays, **settings):
    watch = Watch()
    with mock.patch.object(noise, "draw", watch):
        model = clone(estimator).set_params(accountant=PrivacyAccountant(), **settings)
        return model.fit(*arrays), watch.asked


def flat(numbers):
    return [float(getattr(part, "value", part)) for part in np.ravel(np.asarray(numbers, object))]


# -- bounds that make a sensitivity zero ----------------------------------------------------------


@pytest.mark.parametrize("ends", [(0.0, 1.0), (0.0, 100.0), (-3.0, 0.0), (2.0, 5.0), (-1e-3, 1e6)])
def test_no_bounds_make_noise_vanish(ends):
    """A lower bound of zero made a sensitivity zero elsewhere: here every draw has a scale."""
    low, high = ends
    for estimator, y in (
        (PrivateNoisyAdaGrad("squared_error", target_range=ends, n_steps=2), high * LABELS),
        (PrivateNoisyAdaGrad("huber", target_range=ends, n_steps=2), low + 0.0 * LABELS),
        (PrivateMatrixCompletion(rank=1, bounds=ends, signal_test="none"), None),
    ):
        X = np.full((N, D), 0.5 * (low + high)) if y is None else ROWS
        _, asked = fitted(estimator, X) if y is None else fitted(estimator, X, y)
        for scale, sensitivity in asked:
            assert min(flat(scale)) > 0.0 and min(flat(sensitivity)) > 0.0


@pytest.mark.parametrize("estimator", PUBLIC + FOUND, ids=str)
def test_every_draw_has_noise_whatever_the_records(estimator):
    for rows in (ROWS, 0.0 * ROWS, np.ones_like(ROWS), 1e-150 * ROWS):
        _, asked = fitted(estimator, *data(estimator, rows))
        assert asked
        for scale, sensitivity in asked:
            assert min(flat(scale)) > 0.0 and min(flat(sensitivity)) > 0.0


# -- wrong sensitivities --------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", PUBLIC, ids=str)
def test_random_neighbours_move_no_release_further_than_claimed(estimator):
    """Corners, axes and asymmetric places, drawn at random; with the same answers for both."""
    rng = np.random.default_rng(1)

    def fit(accountant, *arrays):
        return clone(estimator).set_params(accountant=accountant).fit(*arrays)

    for turn in range(6):
        rows = rng.normal(size=(24, D)) * rng.choice([0.01, 1.0, 10.0], size=D)
        ends = rng.choice([-50.0, -1.0, 0.0, 0.5, 2.0, 50.0], size=(2, D))
        labels = np.arange(24) % 2
        one, two = rows.copy(), rows.copy()
        one[0], two[0] = ends
        other = labels.copy()
        other[0] = 1 - labels[0] if turn % 2 else labels[0]
        neighbours = data(estimator, one, labels), data(estimator, two, other)
        # Raises where one moves too far; charges are checked where they are known in advance.
        Pair(f"random {turn}", fit, *neighbours, 0.0, charge=lambda tape, mine: None).run()


# -- a factor for replace-one ---------------------------------------------------------------------


@pytest.mark.parametrize("multiplier", [0.7, 1.0, 3.0, 10.0, 40.0])
def test_a_replaced_record_moves_a_sum_twice_as_far(multiplier):
    """A clipped sum's noise is over the norm of one record; a replaced one moves it by two."""
    exact = gaussian_epsilon(2.0 / multiplier, 1e-5)
    budget = PrivacyAccountant()
    budget.spend(dp_event.GaussianDpEvent(multiplier), relation="add-or-remove-one")
    assert exact * (1.0 - 1e-9) <= budget.spent.epsilon <= exact * 1.001
    ours = PrivacyAccountant()
    ours.spend(GaussianEvent(multiplier / 2.0))  # over the sensitivity of a replacement
    assert ours.spent.epsilon == pytest.approx(exact)


# -- rounding that refuses a part of a budget -----------------------------------------------------


@pytest.mark.parametrize("parts", [3, 7, 10, 11, 30, 49])
def test_all_parts_of_a_budget_can_be_spent_and_no_more(parts):
    for part in PrivacyAccountant(1.0, 0.0).split(parts):
        part.spend(PureEvent(part.epsilon))
        with pytest.raises(BudgetExceededError):
            part.spend(PureEvent(1e-6))
    whole, share = PrivacyAccountant(1.0, 0.0), 1.0 / parts
    for spent in range(1, parts + 1):
        try:
            whole.spend(PureEvent(share))
        except BudgetExceededError:  # where floats add up to more than one, exactly
            assert spent * Fraction(share) > 1
            whole.spend(PureEvent(share * (1.0 - 1e-12)))  # the cure: what is left
    assert len(whole.history) == parts
    with pytest.raises(BudgetExceededError):
        whole.spend(PureEvent(1e-6))


@pytest.mark.parametrize("tiny", [5e-324, 1e-300, 1e-30, 1e-17, 1e-12])
def test_what_rounding_would_lose_is_refused_when_nothing_is_left(tiny):
    budget = PrivacyAccountant(1.0, 0.0)
    budget.spend(PureEvent(1.0))
    before = len(budget.history)
    try:
        budget.spend(PureEvent(tiny))
    except (BudgetExceededError, ValueError):
        assert len(budget.history) == before
    else:  # within the ledger's stated rounding, once, and written down
        assert len(budget.history) == before + 1 and tiny <= 1e-9


# -- results that are no numbers ------------------------------------------------------------------


@pytest.mark.parametrize("estimator", PUBLIC + FOUND, ids=str)
def test_extreme_records_give_finite_results(estimator):
    for extreme in (1e300, -1e150, 5e-324, 1e-160, 0.0):
        rows = ROWS.copy()
        rows[:7] = extreme
        model, _ = fitted(estimator, *data(estimator, rows))
        for name, value in vars(model).items():
            if name.endswith("_") and isinstance(value, np.ndarray | float):
                numbers = np.asarray(value)
                if numbers.dtype.kind == "f" and name != "feature_limit_":
                    assert np.isfinite(numbers).all(), (name, extreme)


# -- randomness that somebody else seeds ----------------------------------------------------------


@pytest.mark.parametrize("estimator", PUBLIC + FOUND, ids=str)
def test_global_seeds_neither_steer_nor_notice_a_fit(estimator):
    arrays, found = data(estimator), []
    for _ in range(2):
        np.random.seed(7)
        random.seed(7)
        before = np.random.get_state()[1].tolist(), random.getstate()
        model, _ = fitted(estimator, *arrays)
        assert (np.random.get_state()[1].tolist(), random.getstate()) == before
        found.append(learned_numbers(model, arrays[0][:5]))
    # Noise is new although all that could be seeded was: equal numbers would be one draw twice.
    assert not np.array_equal(*found)


def learned_numbers(model, rows):
    """All that a fit set: some of it may lie on a public grid, and be equal by chance."""
    parts = [model.predict(rows).astype(float)] if hasattr(model, "predict") else []
    for name in sorted(vars(model)):
        value = np.asarray(getattr(model, name)) if name.endswith("_") else np.zeros(0, dtype=int)
        if value.dtype.kind == "f":
            parts.append(value)
    return np.concatenate([np.ravel(part) for part in parts])


def test_public_randomness_is_that_of_its_seed():
    settings = {"n_frequencies": 4, "feature_scale": 1.0, "base_point": [0.0, 0.0]}
    for seed in range(5):
        pair = [
            PrivateHyperbolicRegressor(public_seed=seed, epsilon=1e3, **settings).fit(
                *data(PUBLIC[9])
            )
            for _ in range(2)
        ]
        one, two = (model.predict(ROWS[:5]) for model in pair)
        assert np.abs(one - two).max() < 0.1  # noise alone tells them apart


# -- paths without privacy ------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", PUBLIC + FOUND, ids=str)
def test_no_fit_ends_without_a_charge_and_noise(estimator):
    """Whatever a fit returns passed the one function that draws, after the charge."""
    arrays = data(estimator)

    def refuse(*arguments, **facts):
        raise InterruptedError

    budget = PrivacyAccountant()
    model = clone(estimator).set_params(accountant=budget)
    with mock.patch.object(noise, "draw", refuse), pytest.raises(Exception) as stopped:  # noqa: B017
        model.fit(*arrays)
    assert stopped.value is not None and len(budget.history) == 1
    assert not hasattr(model, "privacy_spent_")


# -- records that are counted twice ---------------------------------------------------------------


@pytest.mark.parametrize("copies", [2, 5, 40])
@pytest.mark.parametrize(
    "estimator", [e for e in PUBLIC if not isinstance(e, PrivateMatrixCompletion)], ids=str
)
def test_copies_of_a_person_move_no_more_than_the_person(estimator, copies):
    """Resampled or repeated rows under their owner's id are one unit."""
    rows = 0.3 * RNG.normal(size=(24, D))
    one, two = rows.copy(), rows.copy()
    one[0], two[0] = 5.0, -5.0
    owners = np.arange(24)

    def fit(accountant, *arrays):
        *rest, groups = arrays
        return clone(estimator).set_params(accountant=accountant).fit(*rest, groups=groups)

    def owned(table, labels, times):
        repeat = np.concatenate([np.zeros(times - 1, dtype=int), owners])
        return (*data(estimator, table[repeat], labels[repeat]), owners[repeat])

    labels = owners % 2
    pair = owned(one, labels, copies), owned(two, np.where(owners == 0, 1, labels), 1)
    Pair(f"{copies} copies", fit, *pair, 0.0).run()
