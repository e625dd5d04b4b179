"""Rows transformed by their own group's rows; the group is what is protected then."""

import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GroupKFold,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGridSearchCV,
    PrivateMinimumDistanceToMean,
    PrivatePrincipalEigenvector,
    preprocessing,
)
from skriemdp._groups import Groups
from skriemdp._mean.estimator import frechet_mean
from skriemdp.datasets import make_people
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import AffineInvariantSPD, Hyperboloid, Sphere, Stiefel
from skriemdp.preprocessing import PerGroup, Recenter

X, Y, PEOPLE = make_people(30, 12, 3, rng=np.random.default_rng(0))
MDM = PrivateMinimumDistanceToMean(
    "spd-log-euclidean", center=np.eye(3), radius=0.5, classes=[0, 1], epsilon=3.0, random_state=0
)
MODEL = PerGroup(Recenter("spd"), MDM)
SOME = X[PEOPLE < 8], Y[PEOPLE < 8], PEOPLE[PEOPLE < 8]
UNSEEDED = clone(MODEL).set_params(estimator__random_state=None, estimator__epsilon=30.0)


@parametrize_with_checks([Recenter("euclidean")])
def test_recenter_is_a_transformer(estimator, check):
    check(estimator)


class Pairs(PerGroup):
    """The checks of scikit-learn know no groups: two rows belong to each."""

    def fit(self, X, y=None, groups=None, clients=None):
        return super().fit(X, y, self._owners(X, groups), clients)

    def _transformed(self, X, groups):
        return super()._transformed(X, self._owners(X, groups))

    def _owners(self, X, groups):
        return np.arange(_num_samples(X)) // 2 if groups is None else groups


# A transformer of single rows: others answer differently for other companies, as they should.
@parametrize_with_checks(
    [
        Pairs(FunctionTransformer(), estimator)
        for estimator in (
            PrivateFrechetMean(radius=1.0, random_state=0),
            PrivateMinimumDistanceToMean(radius=1.0, random_state=0),
        )
    ]
)
def test_per_group_is_an_estimator(estimator, check):
    check(estimator)


def test_a_manifold_of_frames_or_targets_is_not_that_of_the_rows():
    rows = np.random.default_rng(2).normal(size=(40, 3)) * [3.0, 1.0, 0.3]
    people, scaler = np.arange(40) // 4, StandardScaler(with_mean=False)
    model = PerGroup(scaler, PrivatePrincipalEigenvector(2, 2.0, center="assume"))
    model.fit(rows, groups=people)
    assert model.n_features_in_ == 3 and model.privacy_spent_.unit == "group"
    shown = PerGroup(scaler, FederatedEstimator(model.estimator, 1, local="statistic"))
    shown.fit(rows, groups=people, clients=people % 2)
    assert shown.fit_transform(rows, groups=people, clients=people % 2).shape == (40, 2)


@pytest.mark.parametrize("geometry", [AffineInvariantSPD(3), Sphere(2), Hyperboloid(2)], ids=str)
def test_recentred_points_have_their_mean_at_the_base_point(geometry):
    rng = np.random.default_rng(1)
    center = geometry.exp_coordinates(geometry.base_point, 0.7 * rng.standard_normal(geometry.dim))
    coordinates = 0.2 * rng.standard_normal((40, geometry.dim))
    points = np.asarray(geometry.exp_coordinates(center, coordinates))
    moved = Recenter(geometry).fit_transform(points)
    mean = frechet_mean(moved, geometry)
    assert float(geometry.dist(geometry.base_point, mean)) < 1e-7
    # An isometry: distances between points stay.
    before, after = geometry.dist(points[0], points[1:]), geometry.dist(moved[0], moved[1:])
    if isinstance(geometry, AffineInvariantSPD):
        np.testing.assert_allclose(after, before, atol=1e-7)


def test_recentring_whitens_matrices():
    recentre = Recenter("spd").fit(X[PEOPLE == 3])
    values, vectors = np.linalg.eigh(recentre.mean_)
    root = (vectors / np.sqrt(values)) @ vectors.T
    np.testing.assert_allclose(recentre.transform(X), root @ X @ root, atol=1e-9)


def test_recentring_by_person_helps_new_people():
    new, truth, who = make_people(30, 12, 3, rng=np.random.default_rng(1))
    recentred = clone(MODEL).fit(X, Y, groups=PEOPLE).score(new, truth, groups=who)
    raw = clone(MDM).fit(X, Y, groups=PEOPLE).score(new, truth)
    assert recentred > raw + 0.1  # seeded: .84 and .64


def test_clients_may_add_up_what_recentred_people_show():
    sums = FederatedEstimator(MDM, 1, local="statistic")
    model = PerGroup(Recenter("spd"), sums).fit(X, Y, groups=PEOPLE, clients=PEOPLE % 3)
    assert model.privacy_spent_.unit == "group"
    alone = clone(MODEL).fit(X, Y, groups=PEOPLE)
    noise = model.estimator_.estimator_.noise_scale_
    assert noise == pytest.approx(3**0.5 * alone.estimator_.noise_scale_)
    with pytest.raises(ValueError, match="clients is required"):
        PerGroup(Recenter("spd"), sums).fit(X, Y, groups=PEOPLE)
    # Rows at one client would be moved by rows at another.
    wandering = np.arange(len(PEOPLE)) % 2
    with pytest.raises(ValueError, match="somebody in two clients"):
        PerGroup(Recenter("spd"), sums).fit(X, Y, groups=PEOPLE, clients=wandering)


def test_a_changed_person_changes_own_transformed_rows_only():
    seen = []

    class Watching(PrivateMinimumDistanceToMean):
        def fit(self, X, y, groups=None):
            seen.append(X)
            return super().fit(X, y, groups)

    model = PerGroup(Recenter("spd"), Watching(**MDM.get_params()))
    model.fit(X, Y, groups=PEOPLE)
    changed = X.copy()
    changed[np.flatnonzero(PEOPLE == 4)[0]] *= 1e6
    model.fit(changed, Y, groups=PEOPLE)
    moved = (seen[0] != seen[1]).any(axis=(1, 2))
    assert moved[PEOPLE == 4].sum() > 1 and not moved[PEOPLE != 4].any()


@pytest.mark.parametrize(
    "geometry", [AffineInvariantSPD(3), Sphere(2), Hyperboloid(2), Stiefel(3, 2)], ids=str
)
def test_people_are_recentred_together_as_one_by_one(geometry, monkeypatch):
    monkeypatch.setattr(preprocessing, "_TOGETHER", 4)
    rng = np.random.default_rng(3)

    def points(count):
        steps = 0.5 * rng.standard_normal((count, geometry.dim))
        return np.asarray(geometry.exp_coordinates(geometry.base_point, steps))

    ids = rng.permutation(np.repeat(np.arange(6), [1, 2, 3, 4, 7, 12]))
    rows, recenter = points(len(ids)), Recenter(geometry)
    together = recenter._of_each(rows, Groups.from_ids(ids))
    for k in range(6):
        alone = recenter.fit_transform(rows[ids == k])
        np.testing.assert_allclose(together[k], alone, rtol=0, atol=1e-9)
    # Others have other rows, and other numbers of them, at other places; some are no points.
    others = rng.permutation(np.repeat([0, 1, 2, 4, 5], [9, 1, 30, 2, 1]))
    new_ids = np.insert(others, [0, 5, 5, 20], 3)
    new_rows = points(len(new_ids))
    new_rows[new_ids == 3] = rows[ids == 3]
    new_rows[np.flatnonzero(new_ids == 2)[0]] = -7.0
    found = recenter._of_each(new_rows, Groups.from_ids(new_ids))
    np.testing.assert_array_equal(found[3], together[3])
    assert [k for k in range(6) if found[k] is None] == [2]


def test_rows_that_lapack_gives_up_on_change_nobody_else(monkeypatch):
    """Bitwise: the others, and a person who is alone, are computed as in company."""
    geometry, rng = AffineInvariantSPD(3), np.random.default_rng(4)
    steps = 0.5 * rng.standard_normal((24, geometry.dim))
    rows = np.asarray(geometry.exp_coordinates(geometry.base_point, steps))
    groups, recenter = Groups.from_ids(np.arange(24) % 6), Recenter(geometry)
    expected, means = recenter._of_each(rows, groups), preprocessing.own_means

    def gives_up(geometry, points, some):
        if 2 in some.order:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        return means(geometry, points, some)

    monkeypatch.setattr(preprocessing, "own_means", gives_up)
    found = recenter._of_each(rows, groups)
    assert found[2] is None
    for k in (0, 1, 3, 4, 5):
        np.testing.assert_array_equal(found[k], expected[k])
    (alone,) = recenter._of_each(rows, groups.select(np.array([4])))
    np.testing.assert_array_equal(alone, expected[4])


def test_a_fit_requires_groups_and_the_cure_works():
    with pytest.raises(ValueError, match=r"fit\(X, y, groups=person\).*metadata routing"):
        clone(MODEL).fit(X, Y)
    model = clone(MODEL).fit(X, Y, groups=PEOPLE)
    assert model.predict(X[:12], groups=np.zeros(12)).shape == (12,)
    assert model.predict_proba(X[:12], groups=np.zeros(12)).shape == (12, 2)
    assert model.privacy_spent_.unit == "group"
    assert "n" not in model.privacy_spent_.public
    assert model.privacy_spent_.public["n_groups"] == 30


class Failing(TransformerMixin, BaseEstimator):
    """Cannot transform rows that hold a large number, and says so."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        if (X > 100.0).any():
            raise ValueError(f"{X}")
        return X


class Shortening(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[1:]


def test_a_group_that_cannot_be_transformed_is_not_told_of():
    eye = np.tile(np.eye(3), (len(X), 1, 1))
    model = PerGroup(Failing(), MDM)
    eye[PEOPLE == 3] = 1e3 * np.eye(3)
    assert np.isfinite(model.fit(eye, Y, groups=PEOPLE).estimator_.means_).all()


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (PerGroup(Recenter("spd"), LogisticRegression()), ValueError, "takes no groups"),
        (PerGroup(Shortening(), MDM), ValueError, "number of rows"),
        (PerGroup(FunctionTransformer(lambda A, held=Y[:30]: A), MDM), TypeError, "carries"),
    ],
    ids=["no groups", "fewer rows", "carries data"],
)
def test_what_has_no_guarantee_is_refused_for_free(model, error, words):
    budget = PrivacyAccountant(epsilon=1.0)
    if hasattr(model.estimator, "accountant"):
        model = clone(model).set_params(estimator__accountant=budget)
    with pytest.raises(error, match=words):
        model.fit(X, Y, groups=PEOPLE)
    assert len(budget.history) == 0


@pytest.mark.parametrize("routing", [False, True])
def test_people_stay_together_in_cross_validation(routing):
    folds = GroupKFold(3, shuffle=True, random_state=0)
    with config_context(enable_metadata_routing=routing):
        if routing:
            given = {"params": {"groups": PEOPLE}}
            found = cross_validate(clone(MODEL), X, Y, cv=folds, **given, return_estimator=True)
            assert found["test_score"].mean() > 0.6
            assert all(m.privacy_spent_.unit == "group" for m in found["estimator"])
        else:
            # Without routing scikit-learn keeps the groups for the splitter: a refusal, not a fit
            # that protects rows.
            with pytest.raises(ValueError, match="enable metadata routing"):
                cross_validate(clone(MODEL), X, Y, cv=folds, groups=PEOPLE, error_score="raise")


def test_in_a_pipeline():
    with config_context(enable_metadata_routing=True):
        pipe = make_pipeline(FunctionTransformer(), clone(MODEL))
        pipe.fit(X, Y, groups=PEOPLE)
        assert pipe.score(X, Y, groups=PEOPLE) > 0.6


def test_a_score_by_name_predicts_without_groups_and_warns():
    # The scorer of scoring="accuracy" calls predict without them; the default one does not.
    folds = GroupKFold(3, shuffle=True, random_state=0)
    with config_context(enable_metadata_routing=True):
        given = {"params": {"groups": PEOPLE}, "cv": folds, "error_score": "raise"}
        with pytest.warns(UserWarning, match="count as one person's"):
            cross_validate(clone(MODEL), X, Y, scoring="accuracy", **given)


@pytest.mark.parametrize("spoiled", ["all", "one"])
def test_matrices_below_full_rank_are_refused_and_the_cure_works(spoiled, recording_accountant):
    """As after an average reference: not filled in silently, and nothing is spent."""
    reference = np.eye(X.shape[1]) - 1.0 / X.shape[1]
    singular = X.copy()
    of = slice(None) if spoiled == "all" else slice(0, 1)
    singular[of] = reference @ X[of] @ reference
    model = clone(MODEL).set_params(estimator__accountant=recording_accountant)
    with pytest.raises(ValueError, match="average reference.*shrink each by itself"):
        model.fit(singular, Y, groups=PEOPLE)
    assert recording_accountant.spends == []
    shrunk = 0.99 * singular + 0.01 * np.eye(X.shape[1])
    model.fit(shrunk, Y, groups=PEOPLE)
    with pytest.raises(ValueError, match="average reference"):
        model.predict(singular, groups=PEOPLE)


def test_rows_of_one_person_need_no_groups():
    model = clone(MODEL).fit(X, Y, groups=PEOPLE)
    own = X[PEOPLE == PEOPLE[0]]
    with pytest.warns(UserWarning, match=r"np\.zeros\(len\(X\)\)"):
        found = model.predict(own)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the cure is silent
        assert np.array_equal(model.predict(own, groups=np.zeros(len(own))), found)
    with pytest.warns(UserWarning, match="several rows of each person"):
        model.predict(X[:3], groups=["a", "a", "b"])
    with pytest.raises(ValueError, match="groups says who owns each row"):
        clone(MODEL).fit(X, Y)


@pytest.mark.parametrize(
    ("splitter", "fixed"),
    [
        (GroupKFold(5, shuffle=True, random_state=0), True),
        (LeaveOneGroupOut(), True),
        (GroupKFold(5), False),
        (StratifiedGroupKFold(5), False),
    ],
    ids=str,
)
def test_which_folds_depend_on_ids_alone(splitter, fixed):
    def tested(groups, labels):
        found = {}
        for fold, (_, test) in enumerate(splitter.split(groups, labels, groups)):
            found |= {int(group): fold for group in groups[test]}
        return found

    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(40), rng.integers(1, 9, 40))
    labels = rng.integers(0, 3, len(groups))
    before, moved = tested(groups, labels), 0
    for group in range(0, 40, 4):
        keep = groups != group
        others = np.concatenate([groups[keep], np.full(25, group)])
        after = tested(others, np.concatenate([labels[keep], rng.integers(0, 3, 25)]))
        moved = max(moved, sum(before[k] != after[k] for k in range(40) if k != group))
    assert (moved == 0) if fixed else (moved > 20)


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("piped", [False, True])
def test_a_private_search_over_transformed_people(routing, piped):
    searched = make_pipeline(FunctionTransformer(), clone(UNSEEDED)) if piped else clone(UNSEEDED)
    grid = {("pergroup__" if piped else "") + "estimator__radius": [0.5]}
    with config_context(enable_metadata_routing=routing):
        search = PrivateGridSearchCV(searched, grid, delta=1e-3, mean_runs=1.5)
        with pytest.raises(ValueError, match="says who owns"):
            clone(search).fit(*SOME[:2])
        search.fit(*SOME)
        assert search.privacy_spent_.unit == "group"
        known = {"n_groups": 8, "n_validation": 2}
        assert search.privacy_spent_.public.items() >= known.items()
        assert "in other company" in search.privacy_spent_.public["arithmetic"]
        assert search.score(*SOME[:2], groups=SOME[2]) > 0.6
        assert search.predict(X[:12], groups=np.zeros(12)).shape == (12,)
        with pytest.warns(UserWarning, match="count as one person's"):
            search.predict(X[:12])
    inside = search.best_estimator_[-1] if piped else search.best_estimator_
    # What the winner alone would have cost is nowhere, and no accountant of the search is left.
    assert inside.estimator_.privacy_spent_ is inside.privacy_spent_ is search.privacy_spent_
    assert inside.estimator_.accountant is None


def test_a_loss_of_a_search_sees_transformed_rows():
    seen = []

    def loss(model, X, y):
        seen.append(type(model).__name__)
        return (model.predict(X) != y).astype(float)

    search = PrivateGridSearchCV(
        clone(UNSEEDED), {"estimator__radius": [0.3]}, loss=loss, mean_runs=1.5
    )
    search.fit(*SOME)
    assert set(seen) == {"PrivateMinimumDistanceToMean"} and search.best_score_ < 0.0


def test_a_search_refuses_groups_that_its_fits_do_not_take():
    class Deaf(PrivateMinimumDistanceToMean):
        def fit(self, X, y):
            return super().fit(X, y)

    model = Deaf("spd", center=np.eye(3), radius=0.3, classes=[0, 1])
    with pytest.raises(ValueError, match="takes no groups"):
        PrivateGridSearchCV(model, {"radius": [0.3]}).fit(X, Y, groups=PEOPLE)


class Counting(Recenter):
    """Counts how often it is fitted."""

    fits = 0

    def fit(self, X, y=None):
        Counting.fits += 1
        return super().fit(X, y)


class Forgotten(Counting):
    """Cannot be told from others, so nothing is kept of what it made."""

    def __reduce__(self):
        raise TypeError("not to be pickled")


def test_a_search_transforms_everybody_once():
    found, fits = [], []
    for kind in (Counting, Forgotten):
        Counting.fits = 0
        model = clone(UNSEEDED).set_params(transformer=kind("spd"))
        grid = {"estimator__radius": [0.3, 0.5, 1.0]}
        search = PrivateGridSearchCV(model, grid, mean_runs=3.0, random_state=4).fit(*SOME)
        fits.append(Counting.fits)
        found.append((search.best_score_, search.best_estimator_.estimator_.means_))
    # Eight people, and made-up rows for each of six fits and scores and more.
    assert fits[0] < 8 + 20 < 6 * 8 < fits[1]
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])
    # Nothing is kept after the search.
    Counting.fits = 0
    clone(UNSEEDED).set_params(transformer=Counting("spd")).fit(*SOME)
    assert Counting.fits == 8 + 1


def test_people_are_transformed_anew_by_other_parameters():
    grid = {"transformer__manifold": ["spd", "spd-log-euclidean"]}
    Counting.fits = 0
    model = clone(UNSEEDED).set_params(transformer=Counting("spd"))
    PrivateGridSearchCV(model, grid, mean_runs=1.5).fit(*SOME)
    assert Counting.fits > 2 * 8


def test_recentred_people_lie_about_a_public_center():
    rng = np.random.default_rng(0)
    X = np.exp(rng.normal(size=(400, 1, 1)))
    y, people = rng.integers(0, 2, size=400), np.arange(400) // 4
    private = PrivateMinimumDistanceToMean("spd", classes=[0, 1], random_state=0)
    near = {"center": 2.0 * np.eye(1)}
    for estimator, center in (
        (private, np.eye(1)),
        (clone(private).set_params(**near), near["center"]),
        (clone(private).set_params(manifold="spd-log-euclidean"), None),
        (clone(private).set_params(center="private"), "private"),
    ):
        model = PerGroup(Recenter("spd"), estimator).fit(X, y, groups=people)
        found = model.estimator_.center
        assert np.array_equal(found, center) if center is not None else found is None
        assert estimator.get_params()["center"] is not found or isinstance(found, str | None)
    assert PerGroup(StandardScaler(), private)._informed(X).center is None
