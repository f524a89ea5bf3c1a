import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginalia.learning.statistics import log_sigmoid_coefficients, logistic_scale


def phi(s):
    return -np.logaddexp(0, -s)


def test_coefficients_on_six():
    b0, b1, b2 = log_sigmoid_coefficients()
    assert b0 == pytest.approx(-math.log(2), abs=1e-13)
    assert b1 == pytest.approx(0.5, abs=1e-13)
    assert b2 == pytest.approx(-0.0707574661, abs=1e-10)
    s = np.linspace(-6, 6, 2001)
    error = np.abs(phi(s) - (b0 + b1 * s + b2 * s**2))
    assert error.max() == pytest.approx(0.23794, abs=1e-5)
    assert error.argmax() in (0, 2000)


@given(st.floats(0.1, 40))
def test_the_quadratic_meets_the_nodes_whatever_the_radius(radius):
    b0, b1, b2 = log_sigmoid_coefficients(radius)
    nodes = radius * np.array([-math.cos(math.pi / 6), 0.0, math.cos(math.pi / 6)])
    assert np.allclose(b0 + b1 * nodes + b2 * nodes**2, phi(nodes), atol=1e-10)
    assert b1 == pytest.approx(0.5, abs=1e-10)
    assert b0 == pytest.approx(-math.log(2), abs=1e-10)
    assert b2 < 0


def test_scale_of_least_squares():
    assert logistic_scale() == pytest.approx(3.5331960549, abs=1e-9)
    assert logistic_scale(code_scale=True) == pytest.approx(1.1777320183, abs=1e-9)
