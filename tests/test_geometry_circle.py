"""The circle: coordinates that wrap."""

import numpy as np
from numpy.testing import assert_allclose

from skriemdp.geometry import Circle


def test_circle_wraps():
    day = Circle(24.0)
    hour = np.array([[23.0], [1.0], [-1.0], [12.0], [36.0]])
    assert_allclose(day.log(np.array([0.0]), hour)[:3, 0], [-1, 1, -1])
    assert_allclose(day.dist(np.array([0.0]), hour[3:]), 12.0)
    assert_allclose(day.dist(hour[0], hour[1]), 2.0)
    assert day.exp(np.array([0.0]), np.array([-1e-20])) == 0.0
    assert_allclose(day.exp(hour, np.array([25.0]))[:, 0], [0, 2, 0, 13, 13])
    assert day.radius_limit == 6.0
