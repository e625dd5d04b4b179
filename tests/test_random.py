"""Noise is fresh by default, reproducible but never shared with an integer seed."""

import pickle

import numpy as np
import pytest

from skriemdp._random import NoiseStreams, check_random_state, data_digest, public_generator


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
    with pytest.raises(ValueError, match=">= 0"):
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
