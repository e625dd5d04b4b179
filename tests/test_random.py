"""Noise is fresh by default, reproducible but never shared with an integer seed."""

import multiprocessing
import pickle
import pickletools
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone

from skriemdp import (
    PrivateFrechetMean,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    PrivateTangentClassifier,
)
from skriemdp._descent.releases import PoissonSampler
from skriemdp._mechanisms import noise
from skriemdp._random import NoiseStreams, check_random_state, data_digest, public_generator
from skriemdp.privacy._lattice import NOISE_SCALE


def draw(streams, *label):
    return streams(*label).standard_normal(4)


def test_unseeded_streams_never_repeat():
    first, second = draw(NoiseStreams(), "a"), draw(NoiseStreams(), "a")
    assert not np.any(first == second)


def test_seeded_streams_repeat_only_for_the_same_context_and_label():
    base = draw(NoiseStreams(7, b"context"), "a")
    np.testing.assert_array_equal(base, draw(NoiseStreams(7, b"context"), "a"))
    for other in (
        draw(NoiseStreams(8, b"context"), "a"),
        draw(NoiseStreams(7, b"other"), "a"),
        draw(NoiseStreams(7, b"context"), "b"),
        draw(NoiseStreams(7, b"context"), "a", 1),
    ):
        assert not np.any(base == other)


def key_of(streams, *label):
    """The key of what a stream draws from, before it has drawn."""
    return streams(*label).bit_generator.state["state"]["keysetup"].tobytes()


SEEDLESS = {
    "a fit": lambda: key_of(NoiseStreams(), "a"),
    "queries": lambda: key_of(NoiseStreams().repeatable("queries"), "query", b"x"),
}


@pytest.mark.parametrize("kind", SEEDLESS)
def test_every_bit_of_256_from_the_system_is_in_the_key(kind, monkeypatch):
    pool, asked = np.random.default_rng(0).bytes(32), []

    def flipped(bit):
        number = int.from_bytes(pool, "little") ^ (0 if bit is None else 1 << bit)

        def given(count):
            asked.append(count)
            return number.to_bytes(32, "little")[:count]

        monkeypatch.setattr("skriemdp._random.secrets.token_bytes", given)
        return SEEDLESS[kind]()

    assert len({flipped(bit) for bit in (None, *range(256))}) == 257
    assert flipped(None) == flipped(None) and min(asked) >= 32


@pytest.mark.parametrize("kind", SEEDLESS)
def test_every_bit_of_a_key_is_zero_or_one_by_chance(kind):
    """One fails in 256 * 2^-127 runs."""
    keys = [SEEDLESS[kind]() for _ in range(128)]
    assert len(set(keys)) == 128
    bits = np.unpackbits(np.frombuffer(b"".join(keys), np.uint8).reshape(128, 32), axis=1)
    assert (bits.min(axis=0) == 0).all() and (bits.max(axis=0) == 1).all()


LABELS = [("a",), ("b",), ("a", "a"), ("a", "b"), ("b", "a"), ("a", 1), ("a", "1"), ("a", b"1")]
LABELS += [("a", "a", "a"), ("a", "a", "b"), ("ab",), ("a, b",), (("a", "b"),), ()]


@pytest.mark.parametrize(
    "made", [NoiseStreams().repeatable("q"), NoiseStreams(7, b"data")], ids=["repeatable", "seeded"]
)
def test_every_part_of_a_label_is_in_the_key(made):
    assert len({key_of(made, *label) for label in LABELS}) == len(LABELS)


def test_labels_of_two_fits_and_of_two_purposes_share_no_key():
    streams = NoiseStreams()
    several = [streams.repeatable(*label) for label in (("q",), ("q", 1), ("r",))]
    several += [NoiseStreams().repeatable("q"), NoiseStreams(7).repeatable("q"), NoiseStreams(7)]
    several += [NoiseStreams(7, b"other"), NoiseStreams(8)]
    keys = [key_of(each, "query", b"x") for each in several]
    assert len(set(keys)) == len(keys)
    assert key_of(several[0], "query", b"x") == keys[0]


def test_a_label_is_used_once():
    streams = NoiseStreams()
    streams("a")
    with pytest.raises(RuntimeError, match="already used"):
        streams("a")


def test_streams_are_never_pickled():
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(NoiseStreams())


@pytest.mark.parametrize(
    "bad", [np.random.default_rng(0), np.random.RandomState(0), True, 1.5, "1"]
)
def test_generators_are_refused(bad):
    with pytest.raises(TypeError, match="random_state must be None or an int"):
        check_random_state(bad)


def test_negative_seed_is_refused():
    with pytest.raises(ValueError, match=r"random_state must lie in \[0, "):
        check_random_state(-1)


def test_digest_sees_values_shape_and_dtype():
    x = np.arange(6.0)
    digests = {
        data_digest(x),
        data_digest(x + 1e-16 + 1e-12),
        data_digest(x.reshape(2, 3)),
        data_digest(x.astype(np.float32)),
        data_digest(x, None),
        data_digest(np.empty((0, 3))),
    }
    assert len(digests) == 6
    assert data_digest(np.asfortranarray(x.reshape(2, 3))) == data_digest(x.reshape(2, 3))


def test_public_generator_is_public():
    a, b = public_generator(0, "features").random(3), public_generator(0, "features").random(3)
    np.testing.assert_array_equal(a, b)
    assert not np.any(a == public_generator(0, "start").random(3))
    with pytest.raises(TypeError, match="public_seed"):
        public_generator(None)


# -- processes, threads and pickles ---------------------------------------------------------------


def _outcome_of(draw):
    try:
        return f"drew {draw()}"
    except RuntimeError as error:
        return str(error)


def in_a_fork(*draws):
    """What each of `draws` comes to in a forked process: "drew ...", or its refusal."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    worker = context.Process(target=lambda: sender.send([_outcome_of(draw) for draw in draws]))
    worker.start()
    assert receiver.poll(60)
    found = receiver.recv()
    worker.join()
    return found


LAWS = {
    "gaussian": (np.zeros(3), 1.0, {}),
    "symmetric": (np.zeros((2, 2)), 1.0, {}),
    "laplace": (np.zeros(3), 1.0, {}),
    "radial": (np.zeros(3), 1.0, {}),
    "exponential": (np.zeros(3), 1.0, {}),
    "discrete-gaussian": (np.zeros(3, dtype=object), NOISE_SCALE, {}),
    "wrapped": (0.0, 1.0, {"sampler": lambda exact, rng, size: rng.vonmises(exact, 1.0, size)}),
}


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("law", LAWS)
def test_a_generator_that_came_through_a_fork_draws_no_release(law):
    exact, scale, more = LAWS[law]
    rng = NoiseStreams()(law)

    def draw():
        return noise.draw(exact, scale, law, rng, sensitivity=1.0, **more)

    draw()
    (found,) = in_a_fork(draw)
    assert "carried into a forked process" in found
    assert _outcome_of(draw).startswith("drew")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_batches_that_were_drawn_ahead_stay_in_their_process():
    rng, sampler = NoiseStreams()("batches"), PoissonSampler(5)
    drawn = [sampler.draw(100, rng) for _ in range(4)]  # the fourth of seven
    (found,) = in_a_fork(lambda: sampler.draw(100, rng))
    assert "carried into a forked process" in found
    assert len(drawn) == 4 and _outcome_of(lambda: sampler.draw(100, rng)).startswith("drew")


METHODS = [
    name
    for name in dir(np.random.Generator)
    if not name.startswith("_") and name != "bit_generator"
]
ARGUMENTS = {
    "beta": (1, 1), "binomial": (5, 0.5), "bytes": (4,), "chisquare": (2,), "choice": (5,),
    "dirichlet": ([1, 1],), "f": (2, 2), "gamma": (2,), "geometric": (0.5,),
    "hypergeometric": (3, 4, 2), "integers": (5,), "logseries": (0.5,),
    "multinomial": (3, [0.5, 0.5]), "multivariate_hypergeometric": ([3, 4], 2),
    "multivariate_normal": ([0.0], [[1.0]]), "negative_binomial": (2, 0.5),
    "noncentral_chisquare": (2, 1), "noncentral_f": (2, 2, 1), "pareto": (2,),
    "permutation": (5,), "permuted": ([1, 2],), "power": (2,), "shuffle": ([1, 2],),
    "spawn": (1,), "standard_gamma": (2,), "standard_t": (2,), "triangular": (0, 1, 2),
    "vonmises": (0, 1), "wald": (1, 1), "weibull": (2,), "zipf": (2,),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_no_method_of_a_generator_draws_after_a_fork():
    """Also who is in a batch, how many runs a search makes, and whatever numpy adds."""
    rng = NoiseStreams()("methods")

    def draw(name):
        return lambda: getattr(rng, name)(*ARGUMENTS.get(name, ()))

    def rewrap():
        return np.random.Generator(rng.bit_generator).random()

    found = in_a_fork(*map(draw, METHODS), rewrap)
    for name, text in zip([*METHODS, "bit_generator"], found, strict=True):
        assert "carried into a forked process" in text, name
    for name in set(METHODS) - {"spawn"}:  # the generators of numpy's newer versions may have more
        assert _outcome_of(draw(name)).startswith("drew")


def test_threads_share_no_noise():
    draws = []
    threads = [
        threading.Thread(target=lambda: draws.append(draw(NoiseStreams(), "a"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(np.concatenate(draws))) == 32


class Slow(np.ndarray):
    """Lets other threads run while it is read."""

    def __getitem__(self, key):
        time.sleep(1e-3)
        return super().__getitem__(key)


def test_threads_of_one_fit_share_no_stock():
    rng, found = NoiseStreams()("a"), []
    rng._ahead = np.arange(80).view(Slow)

    def take():
        for _ in range(20):
            found.append(int(rng.take_ahead(1, noise._usual).view(np.ndarray)[0]))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(80))


FITTED = [
    PrivateFrechetMean(radius=1.0),
    PrivateFrechetMean(mechanism="gradient", radius=1.0),
    PrivateMinimumDistanceToMean(),
    PrivateHyperbolicRegressor(),
    PrivateMatrixCompletion(),
    PrivateNoisyAdaGrad(),
    PrivatePrincipalEigenvector(),
    PrivateRiemannianERM(),
    PrivateTangentClassifier(),
]


def _generators(blob):
    """Names in a pickle that belong to a module of random numbers."""
    strings = [value for _, value, _ in pickletools.genops(blob) if isinstance(value, str)]
    return [s for s in strings if s.startswith(("randomgen", "numpy.random", "skriemdp._random"))]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("estimator", FITTED, ids=str)
@pytest.mark.parametrize("random_state", [None, 5])
def test_fitted_estimators_carry_no_generator(estimator, random_state):
    X = np.random.default_rng(0).normal(size=(60, 4)) * 0.2
    y = X[:, :2] if isinstance(estimator, PrivateHyperbolicRegressor) else (X[:, 0] > 0) * 1
    model = clone(estimator).set_params(random_state=random_state).fit(X, y)
    assert _generators(pickle.dumps(model)) == []


def test_the_search_for_generators_finds_one():
    assert _generators(pickle.dumps(np.random.default_rng(0)))


def test_digests_are_of_any_kind_of_entry():
    days = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")
    things = np.array(["a", 1.5, None], dtype=object)
    kinds = (days, days + 1, days - days[0], things, things[::-1], np.array(["a", "b"]))
    assert len({data_digest(kind) for kind in kinds}) == len(kinds)
    assert data_digest(things) == data_digest(things.copy())
