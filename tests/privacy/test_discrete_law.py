"""The privacy of the discrete Gaussian from its own law, beside the continuous certificate that the ledger gives.

The relative difference falls as 1/s² with the standard deviation s in steps; releases have s of at least 2^29.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from marginalia.privacy.calibration import gdp_epsilon
from marginalia.privacy.mechanisms.noise_grid import FINENESS, NoiseGrid


def _law(s: int, reach: float = 14.0) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(-int(reach * s), int(reach * s) + 1)
    p = np.exp(-((y / s) ** 2) / 2)
    return y, p / p.sum()


def _epsilon(s: int, shifts: tuple[int, ...], delta: float) -> float:
    """Epsilon at `delta` of independent discrete Gaussians, one moved by each shift, by the sum over all outcomes."""
    loss, mass = np.zeros(1), np.ones(1)
    for shift in shifts:
        y, p = _law(s)
        one = (shift * shift - 2 * shift * y) / (2 * s * s)
        loss = np.add.outer(loss, one).ravel()
        mass = np.multiply.outer(mass, p).ravel()
        kept = mass > 1e-30
        loss, mass = loss[kept], mass[kept]

    def excess(epsilon: float) -> float:
        return float((mass * np.maximum(-np.expm1(epsilon - loss), 0)).sum()) - delta

    return brentq(excess, 0, 60, xtol=1e-13)


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("mu", [0.05, 0.25, 1.0, 4.0])
def test_one_coordinate_agrees_to_one_over_s_squared(mu: float, delta: float) -> None:
    for s in (2**8, 2**10, 2**12):
        shift = round(mu * s)
        certified = gdp_epsilon(shift / s, delta)
        if certified:
            # 2^8: at most 1.6e-5; 2^12: at most 6e-8; hence below 1e-17 from 2^29 on.
            assert abs(_epsilon(s, (shift,), delta) / certified - 1) < 30 / s**2 / min(1, certified)


@pytest.mark.slow
def test_a_vector_costs_what_its_length_costs() -> None:
    s = 64
    for shifts in ((40, 30), (50, 1), (35, 35)):
        certified = gdp_epsilon(math.hypot(*shifts) / s, 1e-5)
        assert _epsilon(s, shifts, 1e-5) == pytest.approx(certified, rel=1e-3)


@pytest.mark.parametrize("sigma", [1e-6, 0.3, 1.0, 3.7, 1e4, 1e9])
def test_every_release_is_that_fine(sigma: float) -> None:
    grid = NoiseGrid.of(sigma, quantum=1.0, sensitivity=1.0, norm=1.0)
    assert grid.scale >= 2**FINENESS
    assert grid.scale * grid.step >= sigma
