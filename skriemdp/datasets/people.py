"""Covariance matrices of made-up recordings: many people, many trials each."""

from __future__ import annotations

import numpy as np

from skriemdp._validation import check_count, check_nonnegative

# Standard deviations, in logarithms, of what differs between people, electrodes and trials.
_PERSON, _GAIN, _ELECTRODE, _TRIAL, _EFFECT = 0.4, 0.5, 0.2, 0.25, 0.3
# How far one source is seen by neighbouring channels, in channels; what each channel sees alone;
# and how much a person's own anatomy changes that.
_WIDTH, _ALONE, _ANATOMY = 1.5, 0.15, 0.35
# Samples of a trial.
_SAMPLES = 90
# Made so many trials at a time: a bound of memory.
_BLOCK = 4096


def make_people(
    n_people: int = 109,
    n_trials: int = 40,
    n_channels: int = 6,
    *,
    effect: float = 0.35,
    rng: np.random.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariances of two kinds of trial, recorded from many people.

    The powers of the sources fall like 1/k; in trials of kind 1 one lateral source is stronger and
    the opposite one weaker.  People differ in source powers, in anatomy, in the gain of every
    electrode and in the size of the effect, which some do not show at all.  These differences are
    larger than the effect: a decoder for new people must know each person's mean
    (:class:`skriemdp.preprocessing.Recenter`).  Plausible, but fitted to no cohort.

    Parameters
    ----------
    n_people, n_trials, n_channels : int
        Trials are per person, half of each kind.
    effect : float, default=0.35
        Typical change of the two sources' log-powers; 0.22 is a weak effect.
    rng : numpy.random.Generator, optional

    Returns
    -------
    X : ndarray of shape (n_people * n_trials, n_channels, n_channels)
    y : ndarray of shape (n_people * n_trials,)
        Kind of trial, 0 or 1.
    groups : ndarray of shape (n_people * n_trials,)
        Who was recorded.

    Raises
    ------
    ValueError
        For fewer than two channels, or more than a trial has samples: covariances would be
        singular.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.datasets import make_people
    >>> X, y, groups = make_people(20, 10, 4, rng=np.random.default_rng(0))
    >>> X.shape, int(y.sum()), len(set(groups))
    ((200, 4, 4), 100, 20)
    """
    check_count(n_people=n_people, n_trials=n_trials)
    check_count(minimum=2, n_channels=n_channels)
    check_count(minimum=n_channels, samples_of_a_trial=_SAMPLES)
    check_nonnegative(effect=effect)
    rng = np.random.default_rng() if rng is None else rng
    p = n_channels
    groups = np.repeat(np.arange(n_people), n_trials)
    y = np.tile(np.arange(n_trials) % 2, n_people)
    places = np.arange(p)
    shape = np.exp(-((places[:, None] - places) ** 2) / (2.0 * _WIDTH**2)) + _ALONE * np.eye(p)
    anatomy = np.eye(p) + _ANATOMY / np.sqrt(p) * rng.standard_normal((n_people, p, p))
    gain = _GAIN * rng.standard_normal((n_people, 1)) + _ELECTRODE * rng.standard_normal(
        (n_people, p)
    )
    mixing = np.exp(gain)[:, :, None] * (shape @ anatomy)
    power = -np.log1p(places) + _PERSON * rng.standard_normal((n_people, p))
    shown = effect * np.exp(_EFFECT * rng.standard_normal(n_people))
    # Share of people whose two kinds of trial do not differ.
    shown[rng.random(n_people) < 0.2] = 0.0
    lateral = np.zeros(p)
    lateral[p // 4], lateral[-1 - p // 4] = 1.0, -1.0
    X = np.empty((len(groups), p, p))
    for begin in range(0, len(groups), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        who, sign = groups[rows], 2 * y[rows] - 1
        log_power = power[who] + _TRIAL * rng.standard_normal((len(who), p))
        log_power += (sign * shown[who])[:, None] * lateral
        noise = rng.standard_normal((len(who), p, _SAMPLES))
        signals = mixing[who] @ (np.exp(0.5 * log_power)[:, :, None] * noise)
        X[rows] = signals @ np.swapaxes(signals, 1, 2) / _SAMPLES
    return 0.5 * (X + np.swapaxes(X, 1, 2)), y, groups
