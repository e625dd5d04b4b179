"""Real and synthetic manifold-valued data for examples, tests and benchmarks."""

from __future__ import annotations

import numpy as np
from scipy.fft import fft2, ifft2

from skriemdp._errors import PublicValueError
from skriemdp._quiet import quiet, read_numbers
from skriemdp._validation import (
    check_count,
    check_generator,
    check_nonnegative,
    check_option,
    check_positive,
)
from skriemdp.geometry._base import Geometry, check_geometry

FEATURES = ("position", "intensity", "gradient", "curvature", "gabor")
# Bytes of features in memory at a time.
_BLOCK = 2**23


@quiet
def region_covariance(
    images: np.ndarray,
    features: str | tuple[str, ...] = ("position", "intensity", "gradient"),
    *,
    n_orientations: int = 8,
    n_scales: int = 5,
    channel_axis: int | None = None,
    regularization: float | None = None,
) -> np.ndarray:
    """Region covariance descriptors of images or clips: one SPD matrix for each.

    Every pixel gives a vector of features, each scaled to [0, 1] by its known range; the descriptor
    is the covariance of these vectors over the image plus `regularization` times the identity.  A
    record is an image: no number is computed from two of them, so changing one image changes one
    descriptor.

    Parameters
    ----------
    images : array-like of shape (n, height, width) or (n, frames, height, width)
        Intensities in [0, 1]; with `channel_axis`, one axis more, of colours.
    features : sequence of str
        Groups of features, in the order of the rows of the matrices:

        - "position": row and column (and frame), in [0, 1];
        - "intensity": of every colour;
        - "gradient": absolute central difference along every axis;
        - "curvature": half the absolute second difference along every axis;
        - "gabor": magnitudes of ``n_orientations * n_scales`` Gabor responses, frame by frame.

        Derivatives and Gabor responses of colour images are those of the mean of the colours.
    n_orientations, n_scales : int, default=8, 5
        Of the Gabor filters: wave numbers ``pi/2, pi/2 / sqrt(2), ...`` per pixel, Gaussian windows
        with standard deviation 2 pi over the wave number.  Images are mirrored at their borders.
    channel_axis : int, optional
        Axis of the colours; grey without it.
    regularization : float, optional
        A public floor of the eigenvalues; by default 1e-5 with "gabor", else 1e-3.  Gabor responses
        of photographs are small, because filters are scaled to the largest possible answer: their
        variances are 1e-8 to 1e-4 for 32 x 32 pieces of scikit-learn's sample photographs.

    Returns
    -------
    ndarray of shape (n, d, d)
        The default features of images give d = 5; ``("gabor",)`` 40; ``("position", "intensity",
        "gabor")`` 43; ``("position", "intensity", "gradient", "curvature")`` of colours 9.

    Raises
    ------
    ValueError
        For intensities outside [0, 1], unknown features or images of a wrong shape.

    Notes
    -----
    *A public ball for private means.*  A feature in [0, 1] has a variance of at most 1/4, so every
    eigenvalue lies in ``[r, r + d/4]`` with ``r = regularization``.  Hence, in the
    affine-invariant and in the log-Euclidean metric, descriptors of any images lie within

        radius = sqrt(d)/2 * log(1 + d / (4 r))   of   center = sqrt(r (r + d/4)) I,

    and nothing is ever projected.  A smaller ball around a centre that is known for such images
    (a uniform position has variance 1/12) gives much smaller errors; far rows are then projected.

    References
    ----------
    Tuzel, Porikli and Meer (2006); with Gabor features: Pang, Yuan and Li (2008).  The filters are
    those of Liu and Wechsler (2002), with a mean of exactly 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.datasets import region_covariance
    >>> images = np.random.default_rng(0).random((3, 32, 32))
    >>> region_covariance(images).shape
    (3, 5, 5)
    >>> region_covariance(images, ("gabor",), n_scales=1).shape
    (3, 8, 8)
    """
    check_count(n_orientations=n_orientations, n_scales=n_scales)
    features = (features,) if isinstance(features, str) else tuple(features)
    if not features:
        raise PublicValueError("features must name at least one group of features.")
    for name in features:
        check_option(FEATURES, features=name)
    if regularization is None:
        regularization = 1e-5 if "gabor" in features else 1e-3
    check_positive(regularization=regularization)
    images = _checked_images(images, channel_axis)
    n, *space, _ = images.shape
    filters = _gabor_filters(space[-2:], n_orientations, n_scales) if "gabor" in features else None
    widths = {"intensity": images.shape[-1], "gabor": n_orientations * n_scales}
    d = sum(widths.get(name, len(space)) for name in features)
    covariances = np.empty((n, d, d))
    # Mirrored complex responses are the largest arrays: eight times a real feature.
    block = max(1, _BLOCK // (8 * d * int(np.prod(space)) * (8 if filters is not None else 1)))
    for start in range(0, n, block):
        part = images[start : start + block]
        grey = part.mean(axis=-1)
        groups = [_pixel_features(name, part, grey, filters) for name in features]
        pixels = np.concatenate(groups, axis=1).reshape(len(part), d, -1)
        pixels -= pixels.mean(axis=2, keepdims=True)
        covariances[start : start + block] = pixels @ pixels.transpose(0, 2, 1) / pixels.shape[2]
    return covariances + regularization * np.eye(d)


def _checked_images(images: np.ndarray, channel_axis: int | None) -> np.ndarray:
    """Images with the colours on the last axis."""
    images = read_numbers(images, "images", ensure_all_finite=False)
    given = images.shape
    if channel_axis is None:
        images = images[..., np.newaxis]
    elif -images.ndim <= channel_axis < images.ndim:
        images = np.moveaxis(images, channel_axis, -1)
    if images.ndim not in (4, 5) or 0 in images.shape or min(images.shape[1:-1]) < 2:
        raise PublicValueError(
            "images must have shape (n, height, width) or (n, frames, height, width), with at "
            f"least 2 pixels along every axis, and one axis more with channel_axis; got {given} "
            f"with channel_axis={channel_axis!r}."
        )
    if not (images.min() >= 0.0 and images.max() <= 1.0):
        raise PublicValueError(
            "images must have intensities in [0, 1] (no NaN); divide by the format's largest "
            "value, such as 255, not by the largest value of the data."
        )
    return images


def _pixel_features(
    name: str, images: np.ndarray, grey: np.ndarray, filters: np.ndarray | None
) -> np.ndarray:
    """One group of features, on the axis after that of the images."""
    axes = range(1, grey.ndim)
    if name == "position":
        ticks = [np.linspace(0.0, 1.0, size) for size in grey.shape[1:]]
        grid = np.stack(np.meshgrid(*ticks, indexing="ij"))
        return np.broadcast_to(grid, (len(grey), *grid.shape))
    if name == "intensity":
        return np.moveaxis(images, -1, 1)
    if name == "gradient":
        return np.stack([np.abs(np.gradient(grey, axis=axis)) for axis in axes], axis=1)
    if name == "curvature":
        return np.stack([0.5 * np.abs(_second_difference(grey, axis)) for axis in axes], axis=1)
    assert filters is not None  # the group that is left
    return _gabor_magnitudes(grey, filters)


def _second_difference(values: np.ndarray, axis: int) -> np.ndarray:
    width = [(1, 1) if k == axis else (0, 0) for k in range(values.ndim)]
    return np.diff(np.pad(values, width, mode="edge"), n=2, axis=axis)


def _gabor_filters(
    size: list[int] | tuple[int, ...], n_orientations: int, n_scales: int
) -> np.ndarray:
    """Transforms of the filters on the grid of a mirrored image, shape (filters, rows, columns)."""
    rows, columns = (np.fft.fftfreq(2 * length, 1.0 / (2 * length)) for length in size)
    wave = 0.5 * np.pi * 2.0 ** (-0.5 * np.arange(n_scales))[:, None, None, None]
    angle = np.pi * np.arange(n_orientations)[:, None, None] / n_orientations
    along = rows[:, None] * np.sin(angle) + columns * np.cos(angle)
    window = np.exp(-0.5 * (rows[:, None] ** 2 + columns**2) * (wave / (2.0 * np.pi)) ** 2)
    carrier = np.exp(1j * wave * along)
    axes = (-2, -1)
    offset = (window * carrier).sum(axes, keepdims=True) / window.sum(axes, keepdims=True)
    filters = window * (carrier - offset)
    # A filter of mean 0 answers at most half its absolute sum to intensities in [0, 1].
    filters /= 0.5 * np.abs(filters).sum(axes, keepdims=True)
    return fft2(filters.reshape(-1, 2 * size[0], 2 * size[1]))


def _gabor_magnitudes(grey: np.ndarray, filters: np.ndarray) -> np.ndarray:
    height, width = grey.shape[-2:]
    mirrored = np.concatenate([grey, grey[..., ::-1, :]], axis=-2)
    mirrored = np.concatenate([mirrored, mirrored[..., ::-1]], axis=-1)
    spectrum = fft2(mirrored)[..., np.newaxis, :, :]
    responses = ifft2(spectrum * filters, overwrite_x=True)
    return np.moveaxis(np.abs(responses[..., :height, :width]), -3, 1)


def digits_covariances() -> tuple[np.ndarray, np.ndarray]:
    """Region covariances of scikit-learn's bundled handwritten digits.

    Returns
    -------
    X : ndarray of shape (1797, 5, 5)
    y : ndarray of shape (1797,)
        The digit.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    return region_covariance(digits.images / 16.0), digits.target


def make_cloud(
    geometry: Geometry,
    n: int,
    *,
    center: np.ndarray | None = None,
    radius: float = 1.0,
    offset: float = 0.0,
    spread: float | None = None,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Synthetic cloud of points in a ball, for benchmarks.

    Parameters
    ----------
    geometry : Geometry
    n : int
    center : ndarray of shape ``geometry.shape``, optional
        Centre of the ball; the geometry's base point by default.
    radius : float
    offset : float, default=0
        Distance from `center` to the tangent centre of the cloud, as a fraction of `radius`.
    spread : float, optional
        Root mean square distance of the cloud from its centre, as a fraction of `radius`; by
        default the points are uniform in the tangent ball.
    rng : numpy.random.Generator, optional

    Returns
    -------
    ndarray of shape (n, *geometry.shape)
        Every point lies in the ball.
    """
    check_geometry(geometry)
    check_count(n=n)
    check_positive(radius=radius)
    check_nonnegative(offset=offset, **({} if spread is None else {"spread": spread}))
    rng = np.random.default_rng() if rng is None else rng
    check_generator(rng)
    center = geometry.base_point if center is None else np.asarray(center, dtype=float)
    direction = rng.standard_normal(geometry.dim)
    shift = offset * radius * direction / np.linalg.norm(direction)
    steps = rng.standard_normal((n, geometry.dim))
    if spread is None:
        lengths = radius * (1.0 - offset) * rng.random((n, 1)) ** (1.0 / geometry.dim)
        steps *= lengths / np.linalg.norm(steps, axis=1, keepdims=True)
    else:
        steps *= spread * radius / np.sqrt(geometry.dim)
    coordinates = shift + steps
    norms = np.linalg.norm(coordinates, axis=1, keepdims=True)
    coordinates *= np.minimum(1.0, radius / np.maximum(norms, 1e-300))
    return geometry.exp(center, geometry.tangent_from_coordinates(center, coordinates))


# Standard deviations, in logarithms, of what differs between people, electrodes and trials.
_PERSON, _GAIN, _ELECTRODE, _TRIAL, _EFFECT = 0.4, 0.5, 0.2, 0.25, 0.3
# Width of a source's footprint, in channels; weight of each channel's own signal; and relative
# variation of these between people.
_WIDTH, _ALONE, _ANATOMY = 1.5, 0.15, 0.35
# Samples of a trial.
_SAMPLES = 90


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
    check_generator(rng)
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
    for begin in range(0, len(groups), 4096):  # a bound of memory
        rows = slice(begin, begin + 4096)
        who, sign = groups[rows], 2 * y[rows] - 1
        log_power = power[who] + _TRIAL * rng.standard_normal((len(who), p))
        log_power += (sign * shown[who])[:, None] * lateral
        noise = rng.standard_normal((len(who), p, _SAMPLES))
        signals = mixing[who] @ (np.exp(0.5 * log_power)[:, :, None] * noise)
        X[rows] = signals @ np.swapaxes(signals, 1, 2) / _SAMPLES
    return 0.5 * (X + np.swapaxes(X, 1, 2)), y, groups
