"""Places and compositions as unit vectors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from skriemdp._errors import PublicValueError
from skriemdp._quiet import quiet, read_numbers


@quiet
def from_lat_lon(lat: Any, lon: Any, degrees: bool = True) -> np.ndarray:
    """Places on the globe as points of ``Sphere(2)``.

    Parameters
    ----------
    lat, lon : array-like of the same shape
        Latitude, north positive, from -90 to 90 degrees; longitude, east positive, any number.
    degrees : bool, default=True
        False: both are in radians.

    Returns
    -------
    ndarray of shape (..., 3)
        Unit vectors: the first axis points to latitude and longitude zero, the last one north.

    Raises
    ------
    ValueError
        If the shapes differ, a number is not finite or a latitude lies beyond a pole.

    Notes
    -----
    Each place is mapped by itself, so this costs no privacy.  On the sphere, distances are angles:
    one radian is 6371 km on the Earth.

    Examples
    --------
    >>> from skriemdp.geometry import from_lat_lon
    >>> from_lat_lon([0.0, 90.0], [90.0, 12.0]).round(6).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    latitude, longitude = read_numbers(lat, "lat"), read_numbers(lon, "lon")
    if latitude.shape != longitude.shape:
        raise PublicValueError(
            f"lat and lon must have the same shape, got {latitude.shape} and {longitude.shape}."
        )
    if degrees:
        latitude, longitude = np.deg2rad(latitude), np.deg2rad(longitude)
    if (np.abs(latitude) > np.pi / 2 * (1 + 1e-12)).any():
        unit = "degrees" if degrees else "radians"
        raise PublicValueError(
            f"some latitudes lie beyond a pole; lat comes first, and both are in {unit} "
            f"(degrees={degrees})."
        )
    across = np.cos(latitude)
    return np.stack(
        [across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)], axis=-1
    )


@quiet
def to_lat_lon(points: Any, degrees: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Latitudes and longitudes of points of a sphere in three dimensions.

    Parameters
    ----------
    points : array-like of shape (..., 3)
        Of any length but zero.
    degrees : bool, default=True
        False: in radians.

    Returns
    -------
    lat, lon : ndarray of shape (...)
        Longitudes from -180 to 180 degrees; 0 at the poles of :func:`from_lat_lon`'s axis.

    Examples
    --------
    >>> from skriemdp.geometry import from_lat_lon, to_lat_lon
    >>> lat, lon = to_lat_lon(from_lat_lon(48.2, 16.4))
    >>> round(float(lat), 6), round(float(lon), 6)
    (48.2, 16.4)
    """
    points = read_numbers(points, "points")
    if points.ndim == 0 or points.shape[-1] != 3:
        raise PublicValueError(f"points must have shape (..., 3), got {points.shape}.")
    x, y, z = points[..., 0], points[..., 1], points[..., 2]
    lat, lon = np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x)
    return (np.rad2deg(lat), np.rad2deg(lon)) if degrees else (lat, lon)


@quiet
def from_compositions(parts: Any) -> np.ndarray:
    """Compositions, rows of parts of a whole, as points of a sphere: the square roots of shares.

    Half the Fisher-Rao distance of two compositions is their distance on ``Sphere``.  Parts may be
    zero, and all points lie within a quarter of the sphere, where means are unique.

    Parameters
    ----------
    parts : array-like of shape (..., k)
        Counts, amounts or shares, not negative, with a positive sum; rows need not add up to one.

    Returns
    -------
    ndarray of shape (..., k)
        Unit vectors, each from its own row alone.

    Examples
    --------
    >>> from skriemdp.geometry import from_compositions, to_compositions
    >>> to_compositions(from_compositions([1.0, 2.0, 1.0])).round(6).tolist()
    [0.25, 0.5, 0.25]
    """
    parts = read_numbers(parts, "parts")
    if parts.ndim == 0 or parts.shape[-1] < 2:
        raise PublicValueError(f"parts must have shape (..., k) with k >= 2, got {parts.shape}.")
    whole = parts.sum(axis=-1, keepdims=True)
    if (parts < 0).any() or not (whole > 0).all():
        raise PublicValueError("parts must not be negative, and every row needs a positive sum.")
    return np.sqrt(parts / whole)


@quiet
def to_compositions(points: Any) -> np.ndarray:
    """Shares, rows that add up to one, of points of a sphere; from :func:`from_compositions`."""
    squares = read_numbers(points, "points") ** 2
    return squares / squares.sum(axis=-1, keepdims=True)
