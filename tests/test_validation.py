"""What is no object of the class that a call asks for is refused by name, type and cure."""

import functools
import math
import os
import time

import matplotlib.pyplot as plt
import numpy as np
import pytest
from pymanopt import manifolds

import skriemdp
from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateMinimumDistanceToMean,
    PrivateTangentClassifier,
    PrivateTangentPCA,
)
from skriemdp._groups import read_groups
from skriemdp._quiet import quiet, quietly
from skriemdp.auditing import audit_estimator
from skriemdp.datasets import fetch_eeg, load_closure, make_cloud, make_people
from skriemdp.federated import (
    Agent,
    AnswerBook,
    Checkpoint,
    Cohort,
    FederatedEstimator,
    Identity,
    InProcessTransport,
    Participation,
    ServerLoop,
    SumsLoop,
    learn_from_sums,
    sums_agent,
    sums_agreement,
    theory_settings,
)
from skriemdp.geometry import (
    Euclidean,
    Grassmann,
    PymanoptGeometry,
    Sphere,
    Stiefel,
    as_geometry,
    geometry_from_name,
)
from skriemdp.ledger import active_accountant_token
from skriemdp.page import gather, to_data, to_html, to_text
from skriemdp.plotting import CompletionDisplay, NoiseBallDisplay, SpectrumDisplay
from skriemdp.preprocessing import own_means
from skriemdp.privacy import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledGaussianEvent,
    ProfileEvent,
    PureEvent,
    SelectionEvent,
    Sensitivity,
    ball_logarithms_sensitivity,
    calibrate,
    class_moments_sensitivity,
    compose,
    exact_total_sensitivity,
    frame_product_sensitivity,
    laplace_law,
    log_gaussian_delta,
    mean_sensitivity,
    second_moment_sensitivity,
    trace_part_sensitivity,
)
from skriemdp.riemannian_laws import (
    RiemannianGaussian,
    RiemannianLaplace,
    RiemannianLaplaceMechanism,
)
from skriemdp.schedules import schedule

# A number that a message about it would show: records may be passed in the place of anything.
SECRET = 0.314159265
ROWS = np.full((4, 3), SECRET)
WRONG = [None, SECRET, ROWS, ROWS.tolist(), {"a": SECRET}, str(SECRET), object, lambda: SECRET]
SPACE = Euclidean(3)
LOOP = ServerLoop(SPACE, (("a",),), {"a": 1})


def of_run(**given):
    arguments = {"transport": InProcessTransport({}), "start": np.zeros(3), "fit_id": "a"} | given
    return lambda: LOOP.run(**arguments)


OBJECTS = {
    "facts": [to_html, to_text, to_data],
    "total": [lambda x: mean_sensitivity(x, 5.0)],
    "bound": [lambda x: exact_total_sensitivity(x, 1.0, 5.0)],
    "event": [
        lambda x: compose([x]),
        lambda x: SelectionEvent(x, 2.0),
        Participation(4, 2, 1).record_event,
    ],
    "function_class": [lambda x: schedule(x, 100, 0.5)],
    "groups": [lambda x: own_means(SPACE, ROWS, x)],
    "geometry": [
        lambda x: theory_settings(x, None, local="rsgd", local_steps=1, n_clients=2),
        lambda x: RiemannianLaplaceMechanism.calibrated(x, Sensitivity(1.0, "none"), epsilon=1.0),
        lambda x: own_means(x, ROWS, None),
        lambda x: make_cloud(x, 5),
        lambda x: RiemannianLaplace(x, 1.0),
    ],
    "transport": [
        lambda x: of_run(transport=x)(),
        lambda x: SumsLoop(("a",), 3).run(x, None, "spring"),
    ],
    "uploads": [lambda x: learn_from_sums(PrivateFrechetMean(), x, None, ROWS)],
    "task": [
        lambda x: AnswerBook("nowhere").finish(x, ROWS),
        lambda x: InProcessTransport({}).run([x]),
    ],
    "messages": [lambda x: InProcessTransport({}).relay({1: x} if isinstance(x, dict) else x)],
    "estimator": [
        audit_estimator,
        lambda x: sums_agreement(x, ROWS),
        lambda x: sums_agent(
            x, ROWS, client="a", accountant=PrivacyAccountant(), book=AnswerBook("nowhere")
        ),
    ],
    "problem": [lambda x: Agent("a", x, None, 5.0)],
    "make_event(noise)": [lambda x: calibrate(lambda noise: x, 1.0, 1e-5, (0.1, 9.0))],
}
OBJECTS_BUT_DICTS = [x for x in WRONG if not isinstance(x, dict)]
CALLS = [(name, call) for name, calls in OBJECTS.items() for call in calls]


@pytest.mark.parametrize(("name", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_objects_of_another_class_are_refused_by_their_type_alone(
    name, call, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # books are written where they are named
    for wrong in OBJECTS_BUT_DICTS if name == "messages" else WRONG:
        with pytest.raises(TypeError) as refusal:
            call(wrong)
        text = str(refusal.value)
        assert text.startswith(f"{name} must be ") and f"got {type(wrong).__name__}" in text
        assert "314159" not in text


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: make_people(4, 4, 3, rng=rng),
        lambda rng: make_cloud(SPACE, 5, rng=rng),
        Sphere(2).random_point,
        Grassmann(4, 2).random_point,
        Stiefel(4, 2).random_point,
        Participation(4, 2, 1).draw,
        SelectionEvent(GaussianEvent(3.0), 2.0).draw_count,
        lambda rng: RiemannianGaussian(SPACE, 1.0).sample(np.zeros(3), 4, rng),
        lambda rng: RiemannianLaplace(Sphere(2), 1.0).sample_coordinates((2, 2), rng),
    ],
)
def test_what_is_no_generator_is_refused_and_the_cure_works(draw):
    for wrong in (0, "auto", np.random, np.random.RandomState(0), np.random.default_rng, ROWS):
        with pytest.raises(TypeError, match=r"rng must be a Generator, got .*default_rng\(\)\."):
            draw(wrong)
    draw(np.random.default_rng(0))


@pytest.mark.parametrize(
    "display",
    [
        SpectrumDisplay(np.ones(3), 1.0),
        NoiseBallDisplay(Sphere(2), np.eye(3)[0], 0.1),
        CompletionDisplay(np.ones(3), epsilons=np.ones(2), errors={"a": np.ones((2, 3))}),
    ],
)
def test_what_is_no_axes_is_refused(display):
    for wrong in (0, "ax", plt, ROWS, len, [None, None]):
        with pytest.raises(TypeError, match=r"ax(es)? must be an Axes, got .*subplots\(\)"):
            display.plot(wrong)
    plt.close("all")


# -- withheld words -------------------------------------------------------------------------------


class Unlikely(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (AttributeError, TypeError),
        (TypeError, TypeError),
        (KeyError, ValueError),
        (IndexError, ValueError),
        (ZeroDivisionError, ValueError),
        (OverflowError, ValueError),
        (AssertionError, ValueError),
        (NotImplementedError, ValueError),
        (UnicodeError, ValueError),
        (Unlikely, ValueError),
        (MemoryError, MemoryError),
        (RecursionError, RuntimeError),
        (PermissionError, OSError),
    ],
)
def test_an_error_whose_words_are_withheld_is_of_an_argument(error, kind):
    def fails(X):
        if X.any():
            raise error(f"bad {X.max()}")

    for call in (lambda: quiet(fails)(ROWS), lambda: quietly(fails, ROWS)):
        with pytest.raises(kind, match="^X could not be read") as refusal:
            call()
        assert "314159" not in repr(refusal.value)


# -- numbers, names and tokens ---------------------------------------------------------------------

EVENTS = [
    PureEvent(0.5),
    LaplaceEvent(2, 1.0),
    ProfileEvent((0.0, 1.0), (0.1, 0.0)),
    PoissonSampledGaussianEvent(0.1, 2.0),
    SelectionEvent(GaussianEvent(3.0), 2.0),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_orders_of_divergences_are_above_one(event):
    for order in (1.0, True, 0.5, 0, -3.0, -math.inf, math.nan, "2", None, ROWS):
        with pytest.raises((ValueError, TypeError), match="^order must be a number above 1"):
            event.renyi(order)
    assert 0.0 < event.renyi(2.0) <= event.renyi(math.inf)


@pytest.mark.parametrize(
    "event", [GaussianEvent(2.0), ApproximateEvent(1.0, 0.1), EVENTS[3]], ids=lambda e: e.kind
)
def test_intervals_of_losses_are_positive(event):
    for interval in (0.0, 0, -1e-4, math.nan, math.inf, "1", None, 10**400):
        with pytest.raises((ValueError, TypeError), match="^interval must be a positive"):
            event.privacy_loss_distribution(interval)


def test_numbers_too_large_for_floats_are_refused_like_others():
    huge = 10**5000
    for call in (
        lambda: ball_logarithms_sensitivity(1.0, huge),
        lambda: skriemdp.set_config(most_steps=huge) or skriemdp.get_config() and 1 / 0,
        lambda: log_gaussian_delta(huge, 1.0),
        lambda: log_gaussian_delta(0.0, 1.0),
        lambda: laplace_law(huge, 1.0, 1e-5),
        lambda: Sensitivity(huge, "none"),
    ):
        with pytest.raises((ValueError, TypeError, ZeroDivisionError)):
            call()
    skriemdp.set_config(most_steps=10**6)


def test_calibration_ends_whatever_is_asked():
    begun = time.process_time()
    for epsilon in (1e-30, 1e-9, 1e6, 1e9, 1e10, 1e12):
        for mu in (0.0, 1e-100):
            law = laplace_law(3, epsilon, 1e-5, mu=mu)
            assert law.delta(epsilon) <= 1e-5
    for dim in (10**8, 10**18):
        with pytest.raises(ValueError, match=r"dim must be at most 1e\+07.*delta=0"):
            laplace_law(dim, 1.0, 1e-5)
        laplace_law(dim, 1.0, 0.0)
    for name in ("x" * 10**6, "sphere" * 10**5, "a b " * 10**4):
        with pytest.raises(ValueError, match="is not one of") as refusal:
            geometry_from_name(name, (3,))
        assert len(str(refusal.value)) < 500
    for name, meant in (("sphre", "sphere"), ("riemann", "spd"), ("euclid", "euclidean")):
        with pytest.raises(ValueError, match=f"Perhaps you mean '{meant}'"):
            as_geometry(name, (3,))
    assert time.process_time() - begun < 5.0


def test_a_token_is_what_its_function_returns():
    wrong = ({"a": 1}, {"process": [1, 2]}, {"handle": None}, {"refused": "no"}, "x", 5, [ROWS])
    for token in wrong:
        for asked in (skriemdp.current_accountant, active_accountant_token):
            with pytest.raises(TypeError, match=r"token must be what active_accountant_token\(\)"):
                asked(token)
    assert skriemdp.current_accountant({}) == skriemdp.current_accountant(active_accountant_token())


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, True, "all", 10**4, 10**400, np.float64(2)])
def test_workers_are_few_wherever_they_are_asked_for(n_jobs):
    mean = PrivateFrechetMean(radius=1.0)
    budget = PrivacyAccountant()
    run = FederatedEstimator(mean.set_params(accountant=budget), 2, n_jobs=n_jobs)
    for call in (
        lambda: InProcessTransport({}, n_jobs=n_jobs),
        lambda: audit_estimator(PrivateFrechetMean(radius=1.0), n_jobs=n_jobs),
        lambda: run.fit(ROWS.repeat(5, axis=0), clients=np.arange(20) % 2),
    ):
        with pytest.raises((ValueError, TypeError), match="^n_jobs must be "):
            call()
    assert budget.history == []


@pytest.mark.parametrize("checkpoint", [0, "run", {"load": 1}, Checkpoint, ROWS])
def test_a_run_stores_its_progress_in_a_checkpoint(checkpoint):
    with pytest.raises(TypeError, match=r"^checkpoint must be Checkpoint\(path\), or None, got"):
        of_run(checkpoint=checkpoint)()


def test_a_point_that_is_not_regular_is_not_described():
    space, said = PymanoptGeometry(manifolds.Oblique(3, 2)), set()
    for size in (-5.0, 7.0, 1e9, 2.0, 3.0):
        point = np.full((3, 2), size)
        with pytest.raises(ValueError, match="not a regular point") as refusal:
            space.log_coordinates(point, space.base_point)
        said.add(str(refusal.value))
    assert len(said) == 1


@pytest.mark.parametrize("mechanism", ["mean", "class means", "classifier", "components"])
@pytest.mark.parametrize("huge", [10**400, -(10**309), 10**5000], ids=range(3))
def test_a_center_of_huge_integers_is_refused_before_the_charge(mechanism, huge):
    budget, rows = PrivacyAccountant(), np.random.default_rng(0).normal(size=(40, 3))
    for center in ([huge] * 3, (huge, 0, 0), [[huge, 1, 2]], np.array([huge, 0, 0], dtype=object)):
        model = {
            "mean": PrivateFrechetMean,
            "class means": PrivateMinimumDistanceToMean,
            "classifier": PrivateTangentClassifier,
            "components": functools.partial(PrivateTangentPCA, 1),
        }[mechanism](center=center, radius=1.0, accountant=budget)
        with pytest.raises((ValueError, TypeError), match="center"):
            model.fit(rows, np.arange(40) % 2)
    assert budget.history == []


@pytest.mark.parametrize(
    "bound",
    [
        second_moment_sensitivity,
        class_moments_sensitivity,
        lambda norm: frame_product_sensitivity(norm, 2),
        lambda norm: trace_part_sensitivity(norm, 100),
    ],
)
def test_bounds_whose_squares_are_no_floats_are_refused(bound):
    for norm in (10**200, 1e200, 10**308, 1e-200, 10**5000):
        with pytest.raises(ValueError, match="norm must (lie between|be a positive real)"):
            bound(norm)
    assert bound(10**20) == bound(1e20)


@pytest.mark.parametrize("event", EVENTS + [GaussianEvent(2.0), ApproximateEvent(1.0, 0.1)])
def test_loss_distributions_have_a_size_that_fits(event):
    for interval in (1e-320, 5e-324, 1e-200, 1e-12):
        with pytest.raises(ValueError, match="points was asked for; use a larger interval"):
            event.privacy_loss_distribution(interval)


def test_own_means_are_of_rows_of_the_geometry():
    groups = read_groups(np.arange(6) % 2, 6)
    for rows in (5, ROWS, np.zeros((6, 2)), np.zeros(6), np.zeros((6, 3, 1)), [], "rows"):
        with pytest.raises(ValueError, match="^points must be rows of Euclidean"):
            own_means(SPACE, rows, groups)
    assert own_means(SPACE, np.zeros((6, 3)), groups).shape == (2, 3)


@pytest.mark.parametrize(
    "call",
    [
        load_closure,
        Identity.make,
        Identity.read,
        Cohort.read,
        Cohort({name: Identity(name.encode() * 32).public for name in "ab"}).write,
        Checkpoint,
        AnswerBook,
        fetch_eeg,
        lambda path: PrivacyAccountant(path=path),
        lambda path: gather(path),
    ],
)
def test_a_number_is_no_path_and_closes_no_file(call):
    reading, writing = os.pipe()
    try:
        for wrong in (
            reading,
            writing,
            np.int64(writing),
            True,
            float(writing),
            [writing],
            object(),
        ):
            with pytest.raises((TypeError, ValueError)):
                call(wrong)
            os.fstat(reading), os.fstat(writing)
    finally:
        os.close(reading), os.close(writing)
