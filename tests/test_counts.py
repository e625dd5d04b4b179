"""Counts and numbers with integer noise: claimed and attained bounds, in Python integers."""

import math
import warnings
from statistics import NormalDist

import pytest

from skriemdp._mean.uncertainty import warn_cut
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.counts import (
    _RARELY_PURE,
    RARELY,
    GaussianCount,
    GaussianNumber,
    LaplaceCount,
    noisy_clip_fraction,
)
from skriemdp._mechanisms.noise import NOISE_SCALE
from skriemdp.privacy._lattice import largest_shift
from skriemdp.privacy._sensitivity import interval_sensitivity

MULTIPLIERS = [2.0**-9, 0.3, 7.7, 1000.0]


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_counts_and_numbers_move_by_the_bound_and_no_more(monkeypatch, multiplier):
    totals = []
    monkeypatch.setattr(noise, "draw", lambda exact, *a, **b: totals.append(int(exact)) or exact)
    bound = largest_shift(NOISE_SCALE, multiplier)
    for count in (0, 1):
        GaussianCount(multiplier).release(count, None)
    assert totals[1] - totals[0] == bound
    for size in (2.0**-1000, 1.0, 2.0**1000):
        number = GaussianNumber(interval_sensitivity(size), 1.0 / multiplier)
        for place in (0.0, 0.25, -4096.0):  # so that floats are exactly so far apart
            del totals[:]
            for value in (place * size, (place + 1.0) * size):
                number.release(value, None)
            assert 0.98 * bound < totals[1] - totals[0] <= bound


def test_noise_alone_does_not_tell_of_clipped_records():
    """As many as were meant are told of in one of 1e6 fits, under the law of the noise."""
    assert NormalDist().cdf(-5.0) < NormalDist().cdf(-RARELY) < 1e-6
    sigma = LaplaceCount(1.0).sigma
    beyond = 0.5 * math.exp(-_RARELY_PURE * sigma / LaplaceCount(1.0).scale)
    assert 0.99e-6 < beyond < 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            noisy_clip_fraction(0.1 + 0.999 * _RARELY_PURE * 0.1, 0.1, 0.1, "were cut", pure=True)
            == 1.0
        )
        warn_cut(0.02 + 0.999 * RARELY * 0.1, 0.1, 1.0, None, "private")
    with pytest.warns(UserWarning, match="were cut"):
        noisy_clip_fraction(0.1 + 1.001 * _RARELY_PURE * 0.1, 0.1, 0.1, "were cut", pure=True)
    with pytest.warns(UserWarning, match="region covers"):
        warn_cut(0.02 + 1.001 * RARELY * 0.1, 0.1, 1.0, None, "private")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert noisy_clip_fraction(1.19 + 0.1, 0.2, 0.1, "were cut") == 1.0
    with pytest.warns(UserWarning, match=r"about 100% of the rows \(a private estimate\) were cut"):
        noisy_clip_fraction(1.21 + 0.1, 0.2, 0.1, "were cut")
