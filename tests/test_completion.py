"""Matrix completion: gradients, sensitivities to a user's whole row, budget, and the estimator."""

import math
import pickle
import warnings
import zipfile

import numpy as np
import pandas
import pytest
from scipy import sparse

from skriemdp import PrivateMatrixCompletion
from skriemdp._completion import problem as completion_problem
from skriemdp._completion import releases as completion_release
from skriemdp._completion.item_releases import (
    DEVIATION_BOUND,
    ItemEffects,
    _deviations,
    _entries,
    effect_strength,
    overall_level,
    posterior_counts,
    typical_count,
    user_deviations,
)
from skriemdp._completion.local_factors import local_coordinates, log_evidence
from skriemdp._completion.problem import CompletionProblem, Users, normalized_rows, with_data
from skriemdp._completion.releases import CompletionPlan, release_model
from skriemdp._completion.signal_releases import SignalTest, _hollow_integers, ballots
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.bounded_sets import Moment, Outer, labelled
from skriemdp._mechanisms.noise import NOISE_SCALE
from skriemdp._mechanisms.sum import PLAIN_STEPS, integer_total, private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._random import NoiseStreams
from skriemdp.auditing import audit_scores
from skriemdp.datasets import from_frame, load_movielens, observed_matrix


def random_ratings(rng, n=60, d=12, observed=0.4, low=-1.0, high=1.0):
    mask = rng.random((n, d)) < observed
    mask[[0, -1]] = False  # somebody rated nothing
    users, items = np.nonzero(mask)
    values = rng.uniform(low, high, len(users))
    return sparse.csr_array((values, (users, items)), shape=(n, d))


def low_rank_ratings(rng, n=3000, d=40, observed=0.3, noise=0.2):
    values = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) * 0.5
    values = 3.0 + values + rng.normal(0, noise, size=(n, d))
    return np.clip(values, 1, 5), rng.random((n, d)) < observed


def with_row(matrix, row, values):
    """The same ratings, but a user's whole row replaced by `values` (NaN: unobserved)."""
    dense = np.full(matrix.shape, np.nan)
    users = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    dense[users, matrix.indices] = matrix.data
    dense[row] = values
    return observed_matrix(dense)


def swaps(rng, d):
    """Rows that a user may bring: nothing, everything at an end, one item, anything."""
    single = np.full(d, np.nan)
    single[0] = 1.0
    yield np.full(d, np.nan)
    yield np.ones(d)
    yield -np.ones(d)
    yield np.where(np.arange(d) % 2, 1.0, -1.0)
    yield np.where(np.arange(d) % 2, -1.0, 1.0)
    yield single
    yield np.where(rng.random(d) < 0.5, rng.uniform(-1, 1, d), np.nan)


# ---- the problem ---------------------------------------------------------------------------------


def cost_by_loop(matrix, point, ridge):
    total = 0.0
    for i in range(matrix.shape[0]):
        part = slice(matrix.indptr[i], matrix.indptr[i + 1])
        rows, x = point[matrix.indices[part]], matrix.data[part]
        v = np.linalg.solve(rows.T @ rows + ridge * np.eye(point.shape[1]), rows.T @ x)
        total += 0.5 * (np.sum((x - rows @ v) ** 2) + ridge * v @ v)
    return total


def gradient_sum(problem, point, clip=math.inf, indices=None):
    """Sum of gradients in floats, clipped to norm `clip` before they are made tangent."""
    matrix = problem.matrix if indices is None else problem.matrix[indices]
    residuals, factors = problem.products(point)(matrix)
    rows = residuals.toarray()
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(factors, axis=1)
    total = rows.T @ (factors * np.minimum(1.0, clip / np.maximum(lengths, 1e-300))[:, None])
    return problem.geometry.projection(point, total)


def without_noise(units, give, bounded_set):
    return bounded_set.value(integer_total(units, give, bounded_set, PLAIN_STEPS), PLAIN_STEPS)


def item_totals(items, matrix, level):
    """Exact sums, in units of the bound, and counts; in one vector."""
    bounded_set = items.bounded_set(matrix.shape[1])
    return without_noise(user_deviations(matrix, level), _entries, bounded_set).T.ravel()


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_gradient_is_the_derivative_of_the_cost(rng, rank):
    problem = CompletionProblem(random_ratings(rng), rank, 0.3)
    point = problem.geometry.random_point(rng)
    direction = problem.geometry.projection(point, rng.normal(size=point.shape))
    step = 1e-5
    ends = [problem.geometry.exp(point, s * direction) for s in (step, -step)]
    slope = (
        cost_by_loop(problem.matrix, ends[0], 0.3) - cost_by_loop(problem.matrix, ends[1], 0.3)
    ) / (2 * step)
    gradient = gradient_sum(problem, point)
    assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-6)
    assert point.T @ gradient == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("clip", [1e3, 0.1, 1e-4])
@pytest.mark.parametrize("indices", [None, np.array([0, 3, 4, 40])])
def test_a_step_adds_the_bounded_gradients(rng, monkeypatch, clip, indices):
    problem = CompletionProblem(random_ratings(rng), 3, 0.2)
    cut = completion_problem.row_blocks
    monkeypatch.setattr(completion_problem, "row_blocks", lambda m, entries=0: cut(m, 17))
    assert indices is not None or len(list(problem.units().arrays[0])) > 5
    point = problem.geometry.random_point(rng)
    lengths = [np.linalg.norm(gradient_sum(problem, point, indices=[i])) for i in range(60)]
    assert (np.array(lengths) <= problem.norms(point) * (1 + 1e-9)).all()
    bounded_set, mu = Outer(clip, 12, 3), 100.0
    units, give = problem.units(indices), problem.products(point)
    noisy = private_sum(units, give, bounded_set, mu, NoiseStreams(0)("x"))
    assert noisy.sigma == pytest.approx(2 * clip / mu, rel=1e-6)
    exact = without_noise(units, give, bounded_set)
    assert np.abs(noisy.value - exact).max() < 6 * noisy.sigma
    tangent = problem.geometry.projection(point, exact)
    wanted = gradient_sum(problem, point, clip, indices)
    assert tangent == pytest.approx(wanted, abs=1e-4 * clip)
    coordinates = problem.geometry.coordinates_from_tangent(point, wanted)
    assert problem.leave(point, exact) == pytest.approx(coordinates, abs=1e-4 * clip)


def test_local_coordinates_are_ridge_regressions(rng):
    matrix, subspace = random_ratings(rng), np.linalg.qr(rng.normal(size=(12, 2)))[0]
    result = local_coordinates(matrix, subspace, 0.7)
    design, penalties = np.hstack([np.ones((12, 1)), subspace]), np.diag([4.0, 0.7, 0.7])
    for i in range(matrix.shape[0]):
        part = slice(matrix.indptr[i], matrix.indptr[i + 1])
        rows, x = design[matrix.indices[part]], matrix.data[part]
        assert result[i] == pytest.approx(np.linalg.solve(rows.T @ rows + penalties, rows.T @ x))
    assert not local_coordinates(matrix, subspace, math.inf)[:, 1:].any()


def test_evidence_is_the_marginal_likelihood(rng):
    from scipy.stats import multivariate_t

    matrix, subspace = random_ratings(rng, n=8), np.linalg.qr(rng.normal(size=(12, 2)))[0]
    evidence = log_evidence(matrix, subspace, [0.7, math.inf])
    for i in range(1, 8):
        part = slice(matrix.indptr[i], matrix.indptr[i + 1])
        rows, x = subspace[matrix.indices[part]], matrix.data[part]
        kernels = [rows @ rows.T / 0.7, 0.0]
        exact = []
        for kernel in kernels:
            shape = 0.2 * (np.eye(len(x)) + 0.25 + kernel)
            exact.append(multivariate_t(shape=shape, df=4).logpdf(x) if len(x) else 0.0)
        assert evidence[i, 0] - evidence[i, 1] == pytest.approx(exact[0] - exact[1], abs=1e-9)


# ---- sensitivity to one user's whole row ---------------------------------------------------------


def test_sensitivities_hold_for_whole_rows(rng):
    d = 12
    matrix = random_ratings(rng, n=30, d=d)
    problem = CompletionProblem(matrix, 3, 0.2)
    point = problem.geometry.random_point(rng)
    items, signal = ItemEffects(float(d), 1.0), SignalTest(3, 30, 1.0)
    clip, tau = 0.3, items.tau

    def statistics(ratings):
        asked = CompletionProblem(ratings, 3, 0.2)
        products, votes = Outer(clip, d, 3), log_evidence(ratings, point, [0.1, 1.0, math.inf])
        vote = ballots(2), Units((votes[:, :-1] - votes[:, -1:],))
        moment = without_noise(
            Units((ratings,)), lambda rows: normalized_rows(rows).toarray(), Moment(1.0, d)
        )
        np.fill_diagonal(moment, 0.0)
        return {
            "gradient": (gradient_sum(asked, point, clip), 2 * clip),
            "ambient": (without_noise(asked.units(), asked.products(point), products), 2 * clip),
            "items": (item_totals(items, ratings, 0.1), 2 * tau),
            "moment": (moment, math.sqrt(2)),
            "signal": (signal.value(Units((ratings,))), signal.sensitivity.value),
            "vote": (without_noise(vote[1], lambda rows: rows, vote[0]), 4.0),
        }

    largest = dict.fromkeys(statistics(matrix), 0.0)
    rows = list(swaps(rng, d))
    for old in rows:
        before = statistics(with_row(matrix, 5, old))
        for new in rows:
            after = statistics(with_row(matrix, 5, new))
            for name, (value, bound) in after.items():
                change = np.linalg.norm(value - before[name][0])
                assert change <= bound * (1 + 1e-6), name
                largest[name] = max(largest[name], change / bound)
    # Alternating rows against their negatives nearly attain the items' bound; none is vacuous.
    assert largest["items"] > 0.9 and largest["moment"] > 0.65
    assert min(largest.values()) > 0.15, largest


def test_typical_count_is_a_private_median(rng):
    ratings = random_ratings(rng, n=4000, d=300, observed=0.1)
    true = float(np.median(np.diff(ratings.indptr)))
    for mu, within in ((1e6, 0.2), (0.1, 0.4)):
        assert typical_count(ratings, mu, rng) == pytest.approx(true, rel=within)
    # Without an answer to speak of it is the prior's median, 50.
    assert 10 <= typical_count(ratings, 1e-4, NoiseStreams(0)("count")) <= 250
    assert typical_count(random_ratings(rng, observed=0.0), 1.0, rng) == 1.0


def test_posterior_counts_are_the_posterior_mean(rng):
    from scipy.integrate import quad

    counts, sigma = np.array([-8.0, 1.0, 3.0, 20.0]), 4.0
    mean = counts.mean()
    for seen, value in zip(counts, posterior_counts(counts, sigma), strict=True):

        def density(c, seen=seen):
            return math.exp(-c / mean - 0.5 * ((seen - c) / sigma) ** 2)

        top, mass = quad(lambda c: c * density(c), 0, 60)[0], quad(density, 0, 60)[0]
        assert value == pytest.approx(top / mass, rel=1e-6)
    assert np.isfinite(posterior_counts(np.array([-1e4, 1e4]), 1.0)).all()


# ---- the budget ----------------------------------------------------------------------------------


@pytest.fixture
def spent(monkeypatch):
    """Squared mu of every release of a fit, and what holds the records of its sums."""
    log, sets = [], []
    draw, add = noise.draw, completion_release.private_sum

    def noted(exact, scale, law, rng, size=(), **facts):
        assert law == "discrete-gaussian"
        log.append((facts["sensitivity"] / scale) ** 2)
        return draw(exact, scale, law, rng, size, **facts)

    def summed(units, give, bounded_set, mu, rng):
        sets.append(type(bounded_set).__name__)
        return add(units, give, bounded_set, mu, rng)

    monkeypatch.setattr(noise, "draw", noted)
    monkeypatch.setattr(completion_release, "private_sum", summed)
    return log, sets


SETTINGS = [
    {},
    {"rank": 0},
    {"rank": 2, "signal_test": "none"},
    {"epsilon": 0.02},
    {"rank": 3, "mechanism": "covariance"},
    {"rank": 3, "mechanism": "covariance", "signal_test": "none"},
    {"epsilon": 30.0},
    {"epsilon": 30.0, "mechanism": "gradient"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("strong", [False, True])
def test_releases_add_up_to_the_event(rng, spent, settings, strong):
    values, mask = low_rank_ratings(rng, n=500, d=20, noise=0.1 if strong else 2.0)
    model = PrivateMatrixCompletion(**settings).fit(np.where(mask, values, np.nan))
    squares, sets = spent
    total = math.fsum(squares)
    charged = model.privacy_spent_.mu**2
    assert total <= charged * (1 + 1e-9)
    assert total >= 0.95 * charged  # nothing but a share or two left lying
    assert ("Outer" in sets) == (model.mechanism_ == "gradient")
    assert ("Moment" in sets) == (model.mechanism_ == "covariance")
    assert model.privacy_spent_.unit == "user"
    assert model.subspace_reason_


def test_two_instalments_are_as_good_as_one(rng):
    matrix = random_ratings(rng)
    plan = CompletionPlan(mu=1.0, n=60, d=12, rank=2)
    draws = {"whole": [], "parts": []}
    for trial in range(400):
        for name, shares in (("whole", [0.5]), ("parts", [0.3, 0.2])):
            streams = NoiseStreams(trial, name.encode())
            items = completion_release._Items(matrix, 5.0, 0.0, 0.6, plan, streams)
            for k, share in enumerate(shares):
                items.add(share, k)
            found = np.concatenate([items.sums / DEVIATION_BOUND, items.counts])
            draws[name].append(found - item_totals(ItemEffects(5.0, 1.0), matrix, 0.0))
    scales = {
        name: np.array(noise).reshape(400, 2, 12).std(axis=(0, 2)) for name, noise in draws.items()
    }
    exact = [2 * ItemEffects(5.0, 1.0).tau / math.sqrt(0.5)] * 2
    # 4800 draws each: relative standard error 1 %.
    assert scales["whole"] == pytest.approx(exact, rel=0.06)
    assert scales["parts"] == pytest.approx(exact, rel=0.06)


def test_stochastic_charges_what_its_sampler_names(rng):
    values, mask = low_rank_ratings(rng, n=400, d=15)
    model = PrivateMatrixCompletion(
        2, mechanism="stochastic", signal_test="none", n_steps=20, epsilon=2.0
    ).fit(np.where(mask, values, np.nan))
    event = model.privacy_spent_.event
    assert model.mechanism_ == "stochastic" and model.privacy_spent_.mu is None
    assert 0.5e-5 < event.delta(2.0) <= 1e-5
    with pytest.raises(ValueError, match="delta=0"):
        PrivateMatrixCompletion(2, mechanism="stochastic", delta=0.0).fit(values)


# ---- the estimator -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    values, mask = low_rank_ratings(np.random.default_rng(3))
    train = np.where(mask, values, np.nan)
    model = PrivateMatrixCompletion(3, epsilon=10.0, random_state=0).fit(train)
    return model, train, np.where(mask, np.nan, values)


def test_a_subspace_pays_where_there_is_one(fitted):
    model, train, rest = fitted
    plain = PrivateMatrixCompletion(0, epsilon=10.0, random_state=0).fit(train)
    assert model.rank_ == 3 and model.mechanism_ == "covariance"
    assert "reaches" in model.subspace_reason_
    assert -model.score(train, rest) < 0.6 * -plain.score(train, rest)
    assert plain.mechanism_ == "none" and plain.components_.shape == (0, 40)


def test_no_subspace_where_there_is_none(rng):
    values = np.clip(rng.normal(3, 1, size=(1500, 40)), 1, 5)
    model = PrivateMatrixCompletion(random_state=0).fit(
        np.where(rng.random(values.shape) < 0.2, values, np.nan)
    )
    assert model.rank_ == 0 or math.isinf(model.ridge_)
    assert model.mechanism_ == "none" and "below" in model.subspace_reason_


@pytest.mark.parametrize("mechanism", ["gradient", "covariance"])
def test_both_mechanisms_find_the_subspace(rng, mechanism):
    values, mask = low_rank_ratings(rng)
    train = np.where(mask, values, np.nan)
    model = PrivateMatrixCompletion(3, mechanism=mechanism, epsilon=10.0, random_state=1).fit(train)
    assert model.mechanism_ == mechanism
    assert -model.score(train, np.where(mask, np.nan, values)) < 0.45
    assert model.components_ @ model.components_.T == pytest.approx(np.eye(3), abs=1e-9)


def test_inputs_mean_the_same_dense_or_sparse(rng):
    values = rng.integers(0, 4, size=(50, 8)).astype(float)
    mask = rng.random(values.shape) < 0.5
    dense = np.where(mask, values, np.nan)
    users, items = np.nonzero(mask)
    stored = sparse.coo_array((values[mask], (users, items)), shape=values.shape)  # zeros included
    models = [
        PrivateMatrixCompletion(2, bounds=(0, 3), signal_test="none", random_state=5).fit(X)
        for X in (dense, stored, stored.tocsc(), sparse.csr_matrix(stored))
    ]
    for other in models[1:]:
        assert np.array_equal(other.item_effects_, models[0].item_effects_)
        assert np.array_equal(other.components_, models[0].components_)
    assert models[0].transform(dense) == pytest.approx(models[0].transform(stored))
    assert observed_matrix(stored).nnz == mask.sum()


def test_ratings_outside_the_bounds_are_clipped(rng):
    values, mask = low_rank_ratings(rng, n=100, d=10)
    wild = np.where(mask, values, np.nan)
    wild[3, 0], wild[4, 1] = 1e9, -7.0
    models = [
        PrivateMatrixCompletion(2, random_state=0).fit(X).item_effects_
        for X in (wild, np.clip(wild, 1, 5))
    ]
    # The digest of the data keys seeded noise, so compare what enters the releases.
    clipped = observed_matrix(np.clip(wild, 1, 5))
    from skriemdp._completion.estimator import _clipped

    assert np.array_equal(_clipped(observed_matrix(wild), (1.0, 5.0)).data, clipped.data)
    assert all(np.abs(effects).max() <= 4.0 for effects in models)


def test_local_results_use_the_row_alone(fitted):
    model, train, _ = fitted
    rows = model.predict(train[:20])
    assert rows == pytest.approx(
        np.concatenate([model.predict(train[i : i + 1]) for i in range(20)])
    )
    assert model.inverse_transform(model.transform(train[:20])) == pytest.approx(rows)
    assert rows.min() >= 1.0 and rows.max() <= 5.0
    assert model.transform(train[:5]).shape == (5, 4)
    assert list(model.get_feature_names_out())[0] == "privatematrixcompletion0"


def test_entries_are_entries_of_the_rows(fitted):
    model, train, rest = fitted
    wanted = observed_matrix(rest[:30])
    entries = model.predict_entries(train[:30], wanted)
    rows = model.predict(train[:30])
    users = np.repeat(np.arange(30), np.diff(wanted.indptr))
    assert entries.data == pytest.approx(rows[users, wanted.indices])
    expected = math.sqrt(np.mean((entries.data - wanted.data) ** 2))
    assert model.score(train[:30], rest[:30]) == pytest.approx(-expected)
    with pytest.raises(TypeError, match="sparse"):
        model.predict(observed_matrix(train[:30]))


def test_recommendations_are_unrated_items_in_order(fitted):
    model, train, _ = fitted
    train = train[:50].copy()
    train[0] = 3.0  # rated everything
    best = model.recommend(train, 5)
    assert (best[0] == -1).all()
    rows = model.predict(train)
    for user in range(1, 50):
        assert np.isnan(train[user, best[user]]).all()
        ranked = rows[user, best[user]]
        assert (np.diff(ranked) <= 1e-12).all()
        others = np.setdiff1d(np.flatnonzero(np.isnan(train[user])), best[user])
        assert rows[user, others].max() <= ranked[-1] + 1e-12


def test_score_hides_a_public_fifth(fitted):
    model, train, rest = fitted
    kept, hidden = model._split(observed_matrix(train))
    assert hidden.nnz / (kept.nnz + hidden.nnz) == pytest.approx(0.2, abs=0.02)
    assert (kept + hidden).nnz == observed_matrix(train).nnz
    assert model.score(train) == pytest.approx(model.score(train, rest), abs=0.05)
    assert math.isnan(model.score(np.full((2, 40), np.nan)))


def test_pickles_hold_no_user(fitted):
    model, train, _ = fitted
    blob = pickle.dumps(model)
    local = model.transform(train)
    assert len(blob) < 40_000
    for i in range(0, len(train), 7):
        row = train[i][~np.isnan(train[i])]
        assert row.tobytes() not in blob and local[i].tobytes() not in blob
    assert np.array_equal(pickle.loads(blob).transform(train), local)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"bounds": (5, 1)}, "bounds"),
        ({"bounds": 5}, "bounds"),
        ({"rank": 8}, "rank=8"),
        ({"rank": -1}, "rank"),
        ({"rank": "best"}, "rank"),
        ({"mechanism": "svd"}, "mechanism"),
        ({"signal_test": True}, "signal_test"),
        ({"n_steps": 0}, "n_steps"),
        ({"delta": 0.0}, "delta=0"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_for_free(rng, settings, match, recording_accountant):
    with pytest.raises(ValueError, match=match):
        PrivateMatrixCompletion(accountant=recording_accountant, **settings).fit(
            rng.uniform(1, 5, (40, 8))
        )
    assert recording_accountant.spends == []


# ---- ratings from files and tables ---------------------------------------------------------------


def test_from_frame_keeps_the_last_rating_and_the_catalogue():
    users, items = ["b", "a", "b", "b", "c"], [30, 10, 10, 30, 99]
    X, ids = from_frame(users, items, [1, 2, 0, 4, 5], catalogue=[30, 20, 10])
    assert ids.tolist() == ["a", "b", "c"]
    assert X.shape == (3, 3) and X.nnz == 3  # the zero is a rating, item 99 is unknown
    assert X.toarray().tolist() == [[0, 0, 2], [4, 0, 0], [0, 0, 0]]
    with pytest.raises(ValueError, match="distinct"):
        from_frame(users, items, [1, 2, 3, 4, 5], catalogue=[10, 10])
    with pytest.raises(ValueError, match="columns"):
        from_frame(users, items, [1, 2], catalogue=[10])


def _tables():
    """The same five ratings as a dict of columns, and in every kind of frame that is installed."""
    columns = {"who": ["b", "a", "b", "b", "c"], "film": [30, 10, 10, 30, 99], "n": [1, 2, 0, 4, 5]}
    yield columns
    yield pandas.DataFrame(columns, index=[3, 1, 4, 1, 5])
    yield pandas.DataFrame(columns).convert_dtypes()
    for name in ("polars", "pyarrow"):
        try:
            module = __import__(name)
        except ImportError:
            continue
        yield module.DataFrame(columns) if name == "polars" else module.table(columns)
    try:
        import narwhals
    except ImportError:
        return
    yield narwhals.from_native(pandas.DataFrame(columns))


def test_from_frame_takes_any_table():
    names = {"user": "who", "item": "film", "rating": "n"}
    for table in _tables():
        X, ids = from_frame(table, **names, catalogue=[30, 20, 10])
        assert ids.tolist() == ["a", "b", "c"]
        assert X.toarray().tolist() == [[0, 0, 2], [4, 0, 0], [0, 0, 0]]
        with pytest.raises(ValueError, match="no column"):
            from_frame(table, **names | {"item": "movie"}, catalogue=[30])
        with pytest.raises(TypeError, match="name the columns"):
            from_frame(table, user="who", catalogue=[30])
    with pytest.raises(TypeError, match="not both"):
        from_frame([1], [1], [1], user="who", catalogue=[1])
    with pytest.raises(TypeError, match="data frame"):
        from_frame(np.ones((3, 3)), **names, catalogue=[1])


def test_a_long_table_is_told_what_to_do(recording_accountant):
    for names in (("user", "item", "rating"), ("userId", "movieId", "rating", "timestamp")):
        table = pandas.DataFrame(np.ones((50, len(names))), columns=names)
        with pytest.raises(ValueError, match="from_frame"):
            PrivateMatrixCompletion(accountant=recording_accountant).fit(table)
    assert recording_accountant.spends == []


def test_recommendations_have_the_names_of_the_columns(rng):
    ratings = rng.integers(1, 6, (200, 12)).astype(float)
    ratings[rng.random((200, 12)) < 0.5] = np.nan
    names = [f"film {i}" for i in range(12)]
    frame = pandas.DataFrame(ratings, columns=names)
    model = PrivateMatrixCompletion(epsilon=3.0).fit(frame)
    places = PrivateMatrixCompletion.recommend(model, frame.iloc[:5], 12)
    numbers = model.predict(frame.iloc[:5])
    for row, found, predicted in zip(ratings[:5], places, numbers, strict=True):
        listed = [name for name in found if name is not None]
        assert sorted(listed) == sorted(np.array(names)[np.isnan(row)])
        order = [predicted[names.index(name)] for name in listed]
        assert order == sorted(order, reverse=True)
        assert list(found[len(listed) :]) == [None] * (12 - len(listed))


@pytest.mark.parametrize("packed", [False, True])
def test_movielens_files_are_read(tmp_path, packed, monkeypatch):
    folder = tmp_path / "ml-1m"
    folder.mkdir()
    (folder / "ratings.dat").write_text("1::20::5::0\n1::10::3::0\n2::10::4::0\n")
    (folder / "movies.dat").write_text(
        "10::Gr\xe9ed::Drama\n20::B::X\n30::C::X\n", encoding="latin-1"
    )
    if packed:
        with zipfile.ZipFile(tmp_path / "ml-1m.zip", "w") as archive:
            for name in ("ratings.dat", "movies.dat"):
                archive.write(folder / name, f"ml-1m/{name}")
                (folder / name).unlink()
        folder.rmdir()
    X, users, movies = load_movielens(data_home=tmp_path)
    assert X.toarray().tolist() == [[3, 5, 0], [4, 0, 0]]
    assert users.tolist() == [1, 2] and movies.tolist() == [10, 20, 30]
    monkeypatch.setenv("SKRIEMDP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="grouplens"):
        load_movielens(size="100k")


# ---- audit ---------------------------------------------------------------------------------------


def _scores(units, give, bounded_set, mu, trials, halve):
    """Log likelihood ratio of the noisy sums of both sides; and how far apart these are."""
    steps = bounded_set.check(mu)
    both = zip(units, give, strict=True)
    totals = [integer_total(side, gives, bounded_set, steps) for side, gives in both]
    direction = (totals[1] - totals[0]).ravel().astype(float)
    length, scale = np.linalg.norm(direction), NOISE_SCALE // (2 if halve else 1)
    scores = []
    for side, total in enumerate(totals):
        rng = NoiseStreams(7, b"audit")(side)
        noisy = noise.draw(total, scale, "discrete-gaussian", rng, trials, sensitivity=steps)
        scores.append(noisy.reshape(trials, -1) @ (direction / length))
    return scores, length / steps


@pytest.mark.slow
@pytest.mark.parametrize("halve", [False, True])
def test_audit_of_items_when_a_user_rates_everything(rng, halve):
    """False alarm <= 1e-6 by the confidence of the bound; halved noise must be caught."""
    d, mu = 40, 1.0
    matrix = random_ratings(rng, n=200, d=d, observed=0.2)
    # Rates everything, half high half low, against rating one half of them the other way round.
    rows = [np.where(np.arange(d) % 2, s, -s) for s in (1.0, -1.0)]
    sides = [with_row(matrix, 5, row) for row in rows]
    units = [Units((Users(with_data(side, _deviations(side, 0.0))),)) for side in sides]
    bounded_set = ItemEffects(10.0, mu).bounded_set(d)
    scores, _ = _scores(units, [_entries] * 2, bounded_set, mu, 40_000, halve)
    audit = audit_scores(*scores, confidence=1 - 1e-6)
    assert (audit.mu > mu) == halve
    assert audit.mu > 0.8 * mu * (2 if halve else 1)


@pytest.mark.slow
@pytest.mark.parametrize("halve", [False, True])
def test_audit_of_a_descent_step_when_a_user_rates_everything(rng, halve):
    """As above, for the released gradient; the swap turns the gradient of an extreme user round."""
    d, mu, trials = 12, 1.0, 60_000
    matrix = random_ratings(rng, n=50, d=d, observed=0.3)
    problem = CompletionProblem(matrix, 2, 0.1)
    point = problem.geometry.random_point(rng)
    alternate = np.where(np.arange(d) % 2, 1.0, -1.0)
    sides = [with_row(matrix, 5, row) for row in (alternate, np.where(np.arange(d) < 6, 1.0, -1.0))]
    problems = [CompletionProblem(side, 2, 0.1) for side in sides]
    units, give = [p.units() for p in problems], [p.products(point) for p in problems]
    scores, attained = _scores(units, give, Outer(0.05, d, 2), mu, trials, halve)
    audit = audit_scores(*scores, confidence=1 - 1e-6)
    assert audit.mu <= mu * (2 if halve else 1)
    assert audit.mu > 0.8 * mu * attained * (2 if halve else 1)
    if halve:
        assert audit.mu > mu


@pytest.mark.slow
@pytest.mark.parametrize("faulty", [False, True])
def test_audit_of_a_whole_fit(rng, monkeypatch, faulty):
    """A whole row swapped, item totals read; false alarm <= 1e-6, a quarter of the noise caught."""
    d, n, mu, trials = 6, 40, 2.0, 500
    if faulty:
        draw = noise.draw

        def quarter(exact, scale, *rest, **facts):
            return draw(exact, scale // 4, *rest, **facts)

        monkeypatch.setattr(noise, "draw", quarter)
    matrix = random_ratings(rng, n=n, d=d, observed=0.5)
    plan = CompletionPlan(mu=mu, n=n, d=d, rank=0, mechanism="none")
    monkeypatch.setattr(completion_release, "typical_count", lambda *given: 2.0 * d)
    kept, effects = [], ItemEffects.effects
    monkeypatch.setattr(
        ItemEffects,
        "effects",
        lambda self, sums, *rest: kept.append(sums) or effects(self, sums, *rest),
    )
    sign, outputs = np.where(np.arange(d) % 2, -1.0, 1.0), []
    for side in (0, 1):
        ratings = with_row(matrix, 5, sign if side else -sign)
        for k in range(trials):
            release_model(ratings, plan, NoiseStreams(k, bytes([side])))
        outputs.append([sums @ sign for sums in kept])
        kept.clear()
    audit = audit_scores(*outputs, confidence=1 - 1e-6)
    assert (audit.mu > mu) == faulty
    assert audit.mu > 0.4 * mu


# ---- exact integers ------------------------------------------------------------------------------


def draws_of(matrix, **settings):
    """What a fit in integers asks: exact statistics of all draws, and the model."""
    asked = []

    def noted(exact, scale, law, rng, size=(), **facts):
        assert law == "discrete-gaussian" and scale == noise.NOISE_SCALE
        asked.append(np.array(exact, dtype=object).ravel())
        # The same answers in both fits: seeded noise depends on the order of the rows.
        shift = np.random.default_rng(len(asked)).integers(-(2**36), 2**36, np.shape(exact))
        return exact + shift.astype(object)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "draw", noted)
        model = PrivateMatrixCompletion(**settings).fit(matrix)
    return asked, model


EXACT: list[dict] = [
    {"mechanism": "none", "epsilon": 5.0},
    {"rank": 3, "mechanism": "gradient", "epsilon": 60.0, "n_steps": 4},
    {"rank": 3, "mechanism": "covariance", "signal_test": "none", "epsilon": 20.0},
    {"epsilon": 0.001},
]


@pytest.mark.parametrize("settings", EXACT, ids=str)
def test_integers_do_not_depend_on_the_order_of_the_rows(rng, settings):
    values, mask = low_rank_ratings(rng, n=2000, d=25, noise=0.1)
    values = values + rng.uniform(-0.3, 0.3, values.shape)  # ratings with all their bits
    rows = observed_matrix(np.where(mask, values, np.nan))
    first, model = draws_of(rows, **settings)
    assert model.privacy_spent_.public["arithmetic"] == "exact integers"
    for order in (np.arange(2000)[::-1], rng.permutation(2000)):
        again, other = draws_of(rows[order], **settings)
        assert len(first) == len(again)
        assert all((a == b).all() for a, b in zip(first, again, strict=True))
        assert np.array_equal(model.item_effects_, other.item_effects_)
        assert np.array_equal(model.components_, other.components_)
    assert model.mechanism_ == settings.get("mechanism", "none")


def test_what_a_user_computes_does_not_depend_on_company(rng):
    matrix, ridges = random_ratings(rng, n=1500, d=30), [0.1, 2.0]
    frame = np.linalg.qr(rng.normal(size=(30, 3)))[0]
    order = rng.permutation(1500)[:700]
    whole, part = CompletionProblem(matrix, 3, 0.2), CompletionProblem(matrix[order], 3, 0.2)
    assert np.array_equal(whole.norms(frame)[order], part.norms(frame))
    votes = log_evidence(matrix, frame, ridges)
    assert np.array_equal(votes[order], log_evidence(matrix[order], frame, ridges))
    left, right = whole.products(frame)(whole.matrix)
    some, few = part.products(frame)(part.matrix)
    assert np.array_equal(left[order].toarray(), some.toarray())
    assert np.array_equal(right[order], few)


def test_users_of_several_items_never_exceed_their_distance(rng):
    bounded_set, mu = labelled(0.4, 1, 12, weight=2.0), 0.3
    steps = bounded_set.check(mu)

    def total(values, items):
        units = Units((sparse.csr_array((values, items, [0, len(items)]), shape=(1, 12)),))
        return integer_total(units, _entries, bounded_set, steps)

    def square(a, b):
        return sum(int(x) ** 2 for x in (a - b).ravel())

    for _ in range(50):
        rows = [rng.permutation(12)[: rng.integers(13)] for _ in range(2)]
        wild = [rng.choice([-1e300, -0.4, 0.1, 0.4, np.inf, np.nan], len(row)) for row in rows]
        assert square(*map(total, wild, rows)) <= steps**2
    # The worst pair of the theorem: everything high and low in turns, then the other way round.
    sign = np.where(np.arange(12) % 2, 1.0, -1.0)
    far = square(total(sign, np.arange(12)), total(-sign, np.arange(12)))
    assert 0.999 * steps**2 < far <= steps**2


def test_low_bits_of_an_exact_release_tell_nothing():
    """Both values of a record reach the same floats: integers times one public spacing.

    Integers beyond 2^43 are met with probability below 1e-12 in 6000 draws.
    """
    bounded_set = labelled(1.0, 1, 1)
    for value in (0.3, 1.0):
        rng = NoiseStreams(3)("a level", value)
        units = Units((np.array([[value]]), np.zeros(1, dtype=int)))
        answers = [
            private_sum(units, lambda *rows: rows, bounded_set, 0.25, rng) for _ in range(3000)
        ]
        sums, spacing = (
            np.array([a.value[0, 0] for a in answers]),
            bounded_set.spacing(bounded_set.check(0.25)),
        )
        integers = sums / spacing
        assert np.abs(integers).max() < 2**43
        assert (np.rint(integers) * spacing == sums).all()
        assert np.std(sums) == pytest.approx(answers[0].sigma, rel=0.07)  # five standard errors
        # Odd and even alike: a lattice of its own would be told by the last bit.
        odd = np.mean(np.rint(integers) % 2)
        assert abs(odd - 0.5) < 5 * 0.5 / math.sqrt(len(sums))


# ---- edge cases ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Nothing but")
@pytest.mark.parametrize("epsilon", [0.01, 50.0])
def test_odd_tables_are_fitted(rng, epsilon):
    nothing = np.full((30, 6), np.nan)
    one = nothing.copy()
    one[:, 2] = 4.0
    alone = nothing.copy()
    alone[3] = 5.0
    same = np.full((30, 6), 3.0)
    stored = sparse.csr_array((np.zeros(5), (np.arange(5), np.arange(5))), shape=(30, 6))
    narrow = rng.integers(1, 6, (30, 1)).astype(float)
    huge = np.where(rng.random((30, 6)) < 0.5, 1e300, -1e300)
    for X in (nothing, one, alone, same, stored, narrow, huge):
        model = PrivateMatrixCompletion(epsilon=epsilon).fit(X)
        assert np.isfinite(model.item_effects_).all() and np.isfinite(model.level_)
        assert 1.0 <= model.level_ <= 5.0
        assert np.isfinite(model.transform(X)).all()


def test_where_items_are_noise_the_level_is_all(rng, recording_accountant):
    values = np.clip(rng.normal(4.0, 1.0, size=(600, 300)), 1, 5)
    X = np.where(rng.random(values.shape) < 0.05, values, np.nan)
    assert effect_strength(600, 300, 0.05, 15.0) < completion_release.LEAST_STRENGTH
    with pytest.warns(UserWarning, match="Nothing but the overall level"):
        model = PrivateMatrixCompletion(
            epsilon=0.2, accountant=recording_accountant, random_state=0
        ).fit(X)
    assert len(recording_accountant.spends) == 1
    assert not model.item_effects_.any() and model.rank_ == 0
    assert model.mechanism_ == "none" and "level only" in model.subspace_reason_
    assert abs(model.level_ - 4.0) < 0.5
    assert np.isfinite(model.predict(X[:3])).all()
    assert overall_level(observed_matrix(X) * 0.0, 1e-6, NoiseStreams(0)("x")) == pytest.approx(
        0.0, abs=0.1
    )


def test_effects_follow_the_counts_where_popular_means_good(rng):
    n, d = 20_000, 60
    masses = np.geomspace(5, 2000, d)
    true = 0.1 * (np.log(masses) - np.log(masses).mean())
    items = ItemEffects(20.0, 1.0)
    sigma = items.bounded_set(d).bound.value
    errors = []
    for _ in range(40):
        sums = masses * true + rng.normal(0, DEVIATION_BOUND * sigma, d)
        counts = masses + rng.normal(0, sigma, d)
        found, _ = items.effects(sums, counts, 1.0)
        errors.append(np.mean((found[:20] - true[:20]) ** 2))
    # Shrunk towards zero alone, effects of rare items are wrong by their whole size.
    assert n > d and np.mean(errors) < 0.25 * np.mean(true[:20] ** 2)


def test_hollow_moment_is_that_of_dense_rows():
    rng = np.random.default_rng(5)
    dense = np.where(rng.random((50, 30)) < 0.2, rng.random((50, 30)), 0.0)
    dense[0] = 0.0
    scaled = dense / np.maximum(np.linalg.norm(dense, axis=1), 1e-150)[:, None]
    moment = scaled.T @ scaled
    np.fill_diagonal(moment, 0.0)
    found = _hollow_integers(Units((sparse.csr_array(dense),)))
    np.testing.assert_allclose(found, moment, atol=1e-4)
    assert np.abs(moment).max() > 0.5


# -- what is clipped or matches nothing is told ----------------------------------------------------


def stars(rng, n=1000, d=20, hidden=0.5):
    table = rng.integers(2, 5, (n, d)).astype(float)
    return np.where(rng.random((n, d)) < hidden, np.nan, table)


def table_of(rng, **columns):
    m = 9000
    made = {"user": rng.integers(0, 1000, m), "item": rng.integers(0, 30, m)}
    made["stars"] = rng.integers(2, 5, m)
    return pandas.DataFrame(made | {k: make(rng, m) for k, make in columns.items()})


def told(X, **settings):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = PrivateMatrixCompletion(epsilon=3.0, **settings).fit(X)
    return model, " ".join(str(warning.message) for warning in seen)


# What came instead of stars from 1 to 5, and the cure that the message names.
SCALES = {
    "-1 for nobody": (
        lambda x: np.nan_to_num(x, nan=-1.0),
        lambda x: np.where(x < 0, np.nan, x),
        {},
    ),
    "99 for nobody": (
        lambda x: np.nan_to_num(x, nan=99.0),
        lambda x: np.where(x > 5, np.nan, x),
        {},
    ),
    "percent": (lambda x: 20.0 * x, lambda x: x, {"bounds": (0, 100)}),
    "stars of ten": (lambda x: 2.0 * x, lambda x: x, {"bounds": (1, 10)}),
    "thumbs": (lambda x: np.where(x > 3, 1.0, -1.0) + 0.0 * x, lambda x: x, {"bounds": (-1, 1)}),
    "from zero": (lambda x: (x - 2.0) / 2.0, lambda x: x, {"bounds": (0, 1)}),
    "half stars": (lambda x: np.where(x > 3, 0.5, x), lambda x: x, {"bounds": (0.5, 5)}),
}


@pytest.mark.parametrize("scale", SCALES)
def test_ratings_of_another_scale_are_told_and_the_cure_cures(rng, scale):
    make, cure, settings = SCALES[scale]
    X = make(stars(rng))
    model, words = told(X)
    assert "of the ratings (a private estimate) lie outside bounds=(1, 5)" in words
    assert model.clipped_fraction_ > 0.1 and "(0.5, 5) for half stars" in words
    model, words = told(cure(X), **settings)
    assert "outside bounds" not in words and model.clipped_fraction_ < 0.1


def test_nothing_is_told_of_ratings_within_bounds(rng):
    X = stars(rng)
    X[0, :2] = 1.0, 5.0
    for bounds in ((1, 5), (2, 4), (0.1, 5.7)):
        kept = np.clip(X, *bounds)
        kept[1, :2] = bounds  # the ends of the range, whatever they round to
        _, words = told(kept, bounds=bounds)
        assert "outside bounds" not in words


# Columns of a table whose items match nothing, and what makes them match.
UNMATCHED = {
    "text of numbers": (lambda one: one.astype(str), range(30), lambda one: one.astype(int)),
    "numbers of text": (lambda one: one, [str(k) for k in range(30)], lambda one: one.astype(str)),
    "bytes": (
        lambda one: one.astype("S").astype(object),
        [str(k) for k in range(30)],
        lambda one: one.str.decode("ascii"),
    ),
    "dates": (
        lambda one: pandas.Timestamp("2024") + pandas.to_timedelta(one, "D"),
        range(30),
        lambda one: (one - pandas.Timestamp("2024")).dt.days,
    ),
    "some are text": (
        lambda one: one.astype(object).where(one > 3, one.astype(str)),
        range(30),
        lambda one: one.astype(int),
    ),
    "some numbers": (
        lambda one: one.astype(str).where(one > 3, one),
        [str(k) for k in range(30)],
        lambda one: one.astype(str),
    ),
    "quotes": (
        lambda one: '"b' + one.astype(str) + '"',
        [f"b{k}" for k in range(30)],
        lambda one: one.str.strip('"'),
    ),
    "spaces": (
        lambda one: "b" + one.astype(str) + " ",
        [f"b{k}" for k in range(30)],
        lambda one: one.str.strip(),
    ),
    "capitals": (
        lambda one: "B" + one.astype(str),
        [f"b{k}" for k in range(30)],
        lambda one: one.str.lower(),
    ),
    "zeros in front": (
        lambda one: one.astype(str).str.zfill(5),
        [str(k) for k in range(30)],
        lambda one: one.str.lstrip("0").replace("", "0"),
    ),
    "another numbering": (lambda one: one + 1000, range(30), lambda one: one - 1000),
}


@pytest.mark.parametrize("case", UNMATCHED)
def test_items_that_match_nothing_are_refused_or_told(rng, case):
    change, catalogue, cure = UNMATCHED[case]
    table = table_of(rng)

    def read(items):
        table["item"] = items
        columns = {"user": "user", "item": "item", "rating": "stars", "catalogue": catalogue}
        return from_frame(table, **columns)[0]

    wrong = change(table["item"])
    kinds = ("text of", "numbers of", "bytes", "dates", "some")
    if case.startswith(kinds):
        with pytest.raises(ValueError, match="of a kind that no entry of the catalogue") as caught:
            read(wrong)
        assert "items.astype(int)" in str(caught.value)
    else:
        assert "do not match the catalogue" in told(read(wrong))[1]
    X = read(cure(wrong))
    assert X.nnz > 7000
    assert "do not match" not in told(X)[1]


@pytest.mark.parametrize("column", ["user", "item", "time", "age", "year"])
def test_a_column_that_is_no_rating_is_told(rng, column):
    table = table_of(
        rng,
        time=lambda rng, m: 1.6e9 + 1e7 * rng.random(m),
        age=lambda rng, m: rng.integers(18, 90, m),
        year=lambda rng, m: rng.integers(1950, 2024, m),
    )
    wanted = {"user": "user", "item": "item", "catalogue": range(30)}
    X = from_frame(table, rating=column, **wanted)[0]
    assert "whether rating= names the right column" in told(X)[1]
    X = from_frame(table, rating="stars", **wanted)[0]
    assert "outside bounds" not in told(X)[1]


def test_recommendations_name_items_whatever_their_ids_are(rng):
    X = stars(rng, 200, 12)
    for names in ([10 * k for k in range(12)], [0.5 + k for k in range(12)], list("abcdefghijkl")):
        frame = pandas.DataFrame(X, columns=names)
        model = PrivateMatrixCompletion(epsilon=3.0, random_state=0).fit(frame)
        plain = PrivateMatrixCompletion(epsilon=3.0, random_state=0).fit(observed_matrix(X))
        places = plain.recommend(X[:5], 12)
        found = model.recommend(frame[:5], 12)
        expected = np.append(np.array(names, dtype=object), [None])[places]
        assert found.tolist() == expected.tolist()
        assert plain.recommend(X[:5], 12, catalogue=names).tolist() == expected.tolist()
        turned = frame[names[::-1]]
        with pytest.raises(ValueError, match="order|match"):
            model.recommend(turned[:5], 12)
        assert model.recommend(turned[model.item_names_][:5], 12).tolist() == expected.tolist()
    with pytest.raises(ValueError, match="catalogue lists 3 items, but the model has 12"):
        plain.recommend(X[:5], 12, catalogue=[1, 2, 3])


def test_an_infinite_ridge_means_no_factors(rng):
    ratings = sparse.csr_array(rng.integers(1, 6, (50, 6)).astype(float))
    model = PrivateMatrixCompletion(rank=0).fit(ratings)
    assert model.ridge_ == np.inf and model.rank_ == 0
    assert np.isfinite(model.transform(ratings)).all()
