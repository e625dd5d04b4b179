"""PrivateGridSearchCV: one charge, a hidden number of runs, and the guarantee of its theorem."""

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skriemdp import (
    PrivateFrechetMean,
    PrivateGridSearchCV,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
)
from skriemdp._core.arithmetic import INTEGERS, PLAIN
from skriemdp._selection.estimator import _Prepaid
from skriemdp._selection.parts import candidates_of
from skriemdp.auditing import audit_scores
from skriemdp.ledger._accountant import PrivacyAccountant
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import GaussianEvent, SelectionEvent

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2)) * 0.1
GAUSSIAN = PrivateFrechetMean(noise="gaussian", epsilon=0.5, radius=1.0)


def test_one_charge_for_the_whole_search(recording_accountant):
    search = PrivateGridSearchCV(
        GAUSSIAN, {"radius": [0.3, 1.0, 5.0]}, accountant=recording_accountant
    ).fit(X)
    (event,) = recording_accountant.spends
    assert event == search.privacy_spent_.event
    assert search.privacy_spent_.epsilon == event.epsilon(1e-5)
    # Three candidates, six expected runs, at less than three times the cost of one fit.
    assert 0.5 < search.privacy_spent_.epsilon < 1.5
    assert search.best_estimator_.privacy_spent_ is search.privacy_spent_


def test_every_run_is_charged_like_the_dearest_candidate(recording_accountant):
    PrivateGridSearchCV(GAUSSIAN, {"epsilon": [0.1, 2.0]}, accountant=recording_accountant).fit(X)
    (event,) = recording_accountant.spends
    dearest = PrivateFrechetMean(noise="gaussian", epsilon=2.0, radius=1.0).fit(X).privacy_spent_
    assert event.event.mu == pytest.approx(dearest.mu, rel=1e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_laplace_fits_cost_no_more_than_gaussian_ones(delta, recording_accountant):
    """Their own divergences count; their Gaussian bounds would make it 4.3 instead of 1.0."""
    base = PrivateFrechetMean(
        mechanism="tangent", noise="laplace", epsilon=0.5, delta=delta, radius=1.0
    )
    search = PrivateGridSearchCV(
        base, {"radius": [0.3, 1.0]}, mean_runs=8.0, accountant=recording_accountant
    ).fit(X)
    (event,) = recording_accountant.spends
    fit = clone(base).fit(X).privacy_spent_.event
    *fits, score = event.event.events
    assert fits == [fit]
    assert score.epsilon(1e-5) <= fit.epsilon(1e-5) * (1 + 1e-9)
    gaussian = SelectionEvent(GaussianEvent(1 / gaussian_mu(0.5, 1e-5)), 8.0, shape=0.0)
    assert search.privacy_spent_.epsilon < 1.1 * gaussian.epsilon(1e-5)
    assert search.privacy_spent_.epsilon >= SelectionEvent(fit, 8.0, shape=0.0).epsilon(1e-5)


def test_pure_fits_cost_little_more_than_their_theorem():
    base = PrivateFrechetMean(mechanism="tangent", epsilon=0.5, delta=0.0, radius=1.0)
    search = PrivateGridSearchCV(base, {"radius": [0.3, 1.0]}).fit(X)
    assert search.privacy_spent_.epsilon <= 1.001 * (2.0 * 0.5)


def test_scores_fall_back_on_gaussian_noise_where_laplace_noise_costs_more():
    base = PrivateFrechetMean(mechanism="tangent", noise="laplace", epsilon=0.5, radius=1.0)
    rows = np.repeat(X, 10, axis=1)
    search = PrivateGridSearchCV(base, {"radius": [2.0, 5.0]}).fit(rows)
    assert isinstance(search.privacy_spent_.event.event.events[-1], GaussianEvent)


def test_a_fit_that_costs_something_else_is_refused():
    """As if an estimator's plan depended on more than public facts."""
    prepaid = _Prepaid(GaussianEvent(5.0), PrivacyAccountant())
    with pytest.raises(RuntimeError, match="costs more"):
        prepaid.spend(GaussianEvent(4.9))
    prepaid.spend(GaussianEvent(5.0))
    with pytest.raises(RuntimeError, match="costs more"):
        prepaid.spend(GaussianEvent(5.0))


def test_a_refused_search_runs_nothing(recording_accountant):
    recording_accountant.refuse = True
    search = PrivateGridSearchCV(GAUSSIAN, {"radius": [1.0, 3.0]}, accountant=recording_accountant)
    with pytest.raises(RuntimeError, match="refused"):
        search.fit(X)
    assert not hasattr(search, "best_estimator_")


def test_runs_that_lose_warn_nobody(recwarn):
    """The number of warnings, and what they say, would show the runs that are not released."""
    PrivateGridSearchCV(GAUSSIAN, {"radius": [1e-4, 1.0]}, mean_runs=20.0).fit(X + 5.0)
    assert not any("outside the ball" in str(w.message) for w in recwarn)


def test_only_the_winner_is_shown():
    search = PrivateGridSearchCV(GAUSSIAN, {"radius": [0.3, 1.0, 5.0]}, mean_runs=20.0).fit(X)
    scores = search.cv_results_["released_score"]
    assert np.flatnonzero(~np.isnan(scores)).tolist() == [search.best_index_]
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    np.testing.assert_array_equal(search.transform(X), search.best_estimator_.transform(X))


def half_distance(model, X, y):
    return 0.5 * np.sum((X - model.point_) ** 2, axis=1)


def test_a_good_candidate_wins(monkeypatch):
    monkeypatch.setattr(SelectionEvent, "draw_count", lambda event, rng: 30)
    search = PrivateGridSearchCV(
        PrivateFrechetMean(noise="gaussian", epsilon=20.0, radius=1.0),
        {"radius": [1e-4, 0.6]},
        loss_bound=1.0,
    ).fit(np.r_[X, X, X] + 0.4)
    assert search.best_params_ == {"radius": 0.6}


def test_pipeline_of_stateless_steps():
    search = PrivateGridSearchCV(
        make_pipeline(FunctionTransformer(), GAUSSIAN), {"privatefrechetmean__radius": [1.0]}
    ).fit(X)
    assert search.predict(X).shape == X.shape


def test_nobody_follows_a_run_that_loses():
    seen = []
    moves = PrivateRiemannianERM(n_steps=3, callback=lambda step, point: seen.append(step))
    search = PrivateGridSearchCV(moves, {"step_size": [0.1, 0.2]}, loss=half_distance).fit(X)
    assert not seen and search.best_estimator_.callback is moves.callback


@pytest.mark.parametrize(
    "estimator, error, words",
    [
        (make_pipeline(StandardScaler(), GAUSSIAN), TypeError, "learns from the records"),
        (StandardScaler(), TypeError, "must be a private estimator"),
        (PrivateFrechetMean(random_state=0, radius=1.0), ValueError, "random_state"),
    ],
    ids=["scaler before", "not private", "seeded"],
)
def test_what_cannot_be_charged_is_refused(estimator, error, words, recording_accountant):
    search = PrivateGridSearchCV(estimator, {}, accountant=recording_accountant)
    with pytest.raises(error, match=words):
        search.fit(X)
    assert recording_accountant.spends == []


def test_seeded_search_repeats_and_protects_nobody():
    searches = [
        PrivateGridSearchCV(GAUSSIAN, {"radius": [0.5, 1.0]}, random_state=3).fit(X)
        for _ in range(2)
    ]
    assert searches[0].best_score_ == searches[1].best_score_
    assert searches[0].privacy_spent_.guarantee == "none (seeded)"


@pytest.mark.parametrize(
    "law, shape, mean",
    [("negative-binomial", 1.0, 4.0), ("negative-binomial", 0.0, 6.0), ("poisson", 1.0, 5.0)],
)
def test_winner_follows_the_law_of_the_theorem(law, shape, mean):
    """K drawn by the event has the law whose theorem the event accounts for."""
    event = SelectionEvent(GaussianEvent(1.0), mean, law, shape)
    rng = np.random.default_rng(5)
    counts = np.array([event.draw_count(rng) for _ in range(20000)])
    assert counts.mean() == pytest.approx(mean, rel=0.06)
    edges = np.array([0, 1, 2, 3, 5, 9, np.inf])
    k = np.arange(0, 4000)
    if law == "poisson":
        from scipy.stats import poisson

        mass = poisson.pmf(k, mean)
    else:
        from scipy.stats import geom, logser

        mass = geom.pmf(k, event.gamma) if shape == 1.0 else logser.pmf(k, 1 - event.gamma)
    bins = [mass[(k >= a) & (k < b)].sum() for a, b in zip(edges[:-1], edges[1:], strict=True)]
    seen = np.histogram(counts, bins=np.r_[edges[:-1], 1e9])[0]
    keep = np.array(bins) > 0
    expected = np.array(bins)[keep] / sum(bins) * seen.sum()
    assert chisquare(seen[keep], expected).pvalue > 1e-7


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cheat", [False, True], ids=["as shipped", "next to no noise"])
@pytest.mark.parametrize(("noise", "searches"), [("gaussian", 200), ("laplace", 150)])
def test_audit_of_a_whole_search(noise, searches, cheat, monkeypatch):
    """False alarm below 1e-7 (bounds at confidence 1 - 1e-8)."""
    if cheat:
        from skriemdp._mechanisms import noise as draws
        from skriemdp._mechanisms.vector import GaussianNoise, LaplaceNoise

        for mechanism, name in ((GaussianNoise, "sigma"), (LaplaceNoise, "scale")):
            true = getattr(mechanism, name).fget
            cheating = property(lambda self, true=true: true(self) / 100)
            monkeypatch.setattr(mechanism, name, cheating)
        integers = draws._integers
        monkeypatch.setattr(draws, "_integers", lambda *args: integers(*args) // 100)
    data = np.zeros((40, 1))
    neighbour = data.copy()
    data[0], neighbour[0] = 1.0, -1.0
    base = PrivateFrechetMean(mechanism="tangent", noise=noise, epsilon=0.3, delta=1e-3, radius=1.0)
    # With this division the record that differs is one that trains.
    settings = {"mean_runs": 3.0, "delta": 1e-3, "public_seed": 1}
    search = PrivateGridSearchCV(base, {"radius": [1.0]}, **settings)

    def scores(rows):
        return [float(search.fit(rows).best_estimator_.mean_[0]) for _ in range(searches)]

    sides = -np.array(scores(data)), -np.array(scores(neighbour))
    audit = audit_scores(*sides, delta=1e-3, confidence=1 - 1e-8, tuning_share=0.2)
    stated = search.privacy_spent_.epsilon
    assert (audit.epsilon > stated) == cheat


def test_models_that_remember_their_queries_are_refused():
    # The winner held a digest of every validation row: it recognised 50 of 50, and no stranger.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    model = PrivateHyperbolicRegressor("per-query", n_queries=30)
    accountant = PrivacyAccountant(epsilon=10.0)
    search = PrivateGridSearchCV(model, {"radius": [1.0, 3.0]}, accountant=accountant)
    with pytest.raises(ValueError, match="would recognise them"):
        search.fit(X, 0.3 * X)
    assert not accountant.history


@pytest.mark.parametrize("row", range(0, 40, 5))
def test_a_bad_record_raises_before_the_charge(row):
    # Only training records were validated in advance; one for validation raised after the charge.
    X = np.full((40, 3), 3.0**-0.5)
    X[row] *= 1.5
    accountant = PrivacyAccountant(epsilon=50.0)
    mean = PrivateFrechetMean("sphere", epsilon=0.5, radius=1.0)
    search = PrivateGridSearchCV(mean, {"radius": [0.3, 1.0]}, accountant=accountant)
    with pytest.raises(ValueError, match="some rows of X are not points"):
        search.fit(X)
    assert not accountant.history


def test_what_a_seeded_search_cannot_digest_is_refused_before_the_charge(
    recording_accountant, monkeypatch
):
    def broken(*arrays):
        raise ValueError("no digest")

    monkeypatch.setattr("skriemdp._selection.estimator.data_digest", broken)
    inner = PrivateFrechetMean(radius=1.0, accountant=recording_accountant)
    search = PrivateGridSearchCV(inner, {"epsilon": [0.5, 1.0]}, loss_bound=4.0, random_state=0)
    search.set_params(accountant=recording_accountant)
    with pytest.raises(ValueError, match="no digest"):
        search.fit(np.random.default_rng(0).normal(size=(60, 2)))
    assert recording_accountant.spends == []


def distance_to_the_origin(model, X, y):
    return np.linalg.norm(np.einsum("ij,j->i", X, model.mean_)[:, None] - 1.0, axis=1)


@pytest.mark.parametrize(
    ("settings", "groups", "said"),
    [
        ({}, False, INTEGERS),
        ({"loss": distance_to_the_origin}, False, INTEGERS),
        ({}, True, f"{INTEGERS}; floating-point losses that may round otherwise in other company"),
        ({"estimator": PrivateFrechetMean(radius=1.0)}, False, f"{INTEGERS}; {PLAIN}"),
    ],
    ids=["plain", "loss", "groups", "laplace"],
)
def test_a_search_says_what_its_scores_add(settings, groups, said, recording_accountant):
    settings = {"estimator": GAUSSIAN} | settings
    search = PrivateGridSearchCV(
        param_grid={"radius": [0.5, 1.0]}, accountant=recording_accountant, **settings
    )
    ids = np.arange(len(X)) // 2 if groups else None
    assert search.fit(X, groups=ids).privacy_spent_.public["arithmetic"] == said


def test_scores_are_losses():
    """Of a large budget and one candidate: half of the rows lose 0.6."""
    rows = np.zeros((400, 1))
    rows[::2] = 1.0
    model = PrivateFrechetMean(noise="gaussian", epsilon=50.0, radius=2.0)
    search = PrivateGridSearchCV(model, {"radius": [2.0]}, loss=lambda m, X, y: 0.6 * X[:, 0])
    found = search.fit(rows).best_score_
    _, test = search._split(rows, None)
    assert found == pytest.approx(-0.6 * test[0].mean(), abs=0.02)


@pytest.mark.parametrize(
    "grid",
    [
        {"b": [1, 2], "a": ("x", "y", "z")},
        [{"a": [1]}, {"b": np.array([1.0, 2.0]), "a": [None]}],
        {},
    ],
    ids=["dict", "list", "empty"],
)
def test_candidates_are_those_of_a_parameter_grid(grid):
    asked = []
    assert candidates_of(grid, asked.append) == list(ParameterGrid(grid))
    assert asked == [len(ParameterGrid(grid))]


@pytest.mark.parametrize(
    ("grid", "error"),
    [
        ("a", TypeError),
        ([1], TypeError),
        ({"a": 1.0}, TypeError),
        ({"a": "text"}, TypeError),
        ({"a": np.ones((2, 2))}, TypeError),
        ({"a": []}, ValueError),
    ],
    ids=str,
)
def test_what_is_no_grid_is_refused(grid, error):
    with pytest.raises(error, match="param_grid"):
        candidates_of(grid, lambda count: None)


SEARCHED = {
    "mean": (GAUSSIAN, {"radius": [0.3, 1.0]}, None),
    "mean on a sphere": (
        PrivateFrechetMean("sphere", radius=0.5, noise="gaussian"),
        {"radius": [0.3, 0.5]},
        None,
    ),
    "class means": (PrivateMinimumDistanceToMean(), {"radius": [0.3, 1.0]}, np.arange(200) % 2),
    "classifier": (PrivateNoisyAdaGrad(n_steps=2), {"alpha": [0.0, 0.1]}, np.arange(200) % 2),
    "components": (PrivatePrincipalEigenvector(), {"n_components": [1, 2]}, None),
    "ratings": (PrivateMatrixCompletion(signal_test="none"), {"rank": [0, 1]}, None),
    "regression": (PrivateHyperbolicRegressor(n_steps=2), {"radius": [1.0, 2.0]}, 0.1 * X),
}


@pytest.mark.parametrize("target", [{"delta": 10**400}, {"delta": 2.0}, {"epsilon": 10**400}])
def test_a_target_that_no_run_can_have_is_refused(target, recording_accountant):
    grid = {name: [value] for name, value in target.items()}
    base = PrivateFrechetMean(noise="gaussian", radius=1.0)
    search = PrivateGridSearchCV(base, grid, accountant=recording_accountant)
    with pytest.raises(ValueError, match=f"{next(iter(target))} "):
        search.fit(np.random.default_rng(0).normal(size=(60, 2)))
    assert not recording_accountant.spends


@pytest.mark.parametrize(
    "loss",
    [lambda model, X, y: model.nonsense, lambda model, X, y: 1 / 0],
    ids=["of attributes", "of numbers"],
)
@pytest.mark.parametrize("name", SEARCHED)
def test_a_loss_that_fails_is_refused_before_the_charge(name, loss, recording_accountant):
    """Made-up records suit every estimator, whatever its manifold is a manifold of."""
    model, grid, y = SEARCHED[name]
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if "sphere" in name else X
    search = PrivateGridSearchCV(model, grid, loss=loss, accountant=recording_accountant)
    with pytest.raises((TypeError, ValueError), match="loss raised .* on made-up records, and wou"):
        search.fit(rows, y)
    assert recording_accountant.spends == []
    search.set_params(loss=lambda model, X, y: np.zeros(X.shape[0])).fit(rows, y)
    assert len(recording_accountant.spends) == 1
