"""Whole-number noise in place of real noise: the grid on which it is drawn, and what rounding onto it costs.

Noise of floating-point arithmetic has gaps that give the exact value away (Mironov 2012). Here the values to release
are whole numbers of a public quantum, the noise is a whole number of steps of a dyadic grid, drawn exactly (Canonne,
Kamath and Steinke 2020), and only the sum of both, which is private, is turned into a float.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import InputError
from marginalia.privacy import checks

FINENESS = 29  # the noise has between 2^29 and 2^30 steps: its law is the continuous one up to a factor 1 ± 2^-58
_MOST_STEPS = 2**31 - 1  # of the samplers
_LOW = 30  # bits of a value that are added to the noise first
_ROOM = 53 - _LOW


@dataclass(frozen=True)
class NoiseGrid:
    """Where one vector is released: noise of `scale` steps of length `step` on whole numbers of `quantum`.

    >>> NoiseGrid.of(4.0, quantum=1.0, sensitivity=1.0, norm=math.sqrt(5))
    NoiseGrid(step=7.450580596923828e-09, scale=536870913, quantum=1.0)
    """

    step: float  # a power of two
    scale: int  # of the noise, in steps
    quantum: float  # of the value, a power of two

    @classmethod
    @lru_cache(maxsize=256, typed=True)  # the steps of a run share one
    def of(cls, scale: float, *, quantum: float, sensitivity: float, norm: float) -> NoiseGrid:
        """Return the grid on which noise of standard deviation or Laplace scale `scale` is released.

        Where the value's quantum is finer than the step, rounding to the step moves two neighbours apart by at most
        ``norm`` steps more (sqrt(k) in the 2-norm and k in the 1-norm for k entries); the noise is widened as much, so
        that its ratio to the sensitivity is the one in the ledger.
        """
        if math.frexp(checks.positive("quantum", quantum))[0] != 0.5:
            raise InputError(f"quantum is {quantum}: need a power of two")
        step = math.ldexp(1.0, math.frexp(scale)[1] - 1 - FINENESS)
        widened = scale / step
        if quantum < step:
            widened *= 1 + norm * step / sensitivity
        steps = math.ceil(widened * (1 + 2.0**-50))  # the factor: rounding of the products above
        if steps > _MOST_STEPS:
            beyond = f"the noise scale {scale:g} is more than 2^29 times the sensitivity {sensitivity:g}"
            raise InputError(f"{beyond}; take a larger epsilon or delta")
        return cls(step, steps, quantum)

    def noisy(self, value: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return value·quantum + noise·step, rounded to a float once: a function of the exact sum alone.

        >>> NoiseGrid(step=0.25, scale=8, quantum=1.0).noisy(np.array([3]), np.array([-5]))
        array([1.75])
        """
        finer = math.frexp(self.step)[1] - math.frexp(self.quantum)[1]
        quantum = max(self.quantum, self.step)
        if finer > 0:  # round to the step: the noise has paid for it
            value = (value + (1 << (finer - 1))) >> finer if finer < 62 else np.zeros_like(value)
        if quantum / self.step >= 2.0**_ROOM:  # noise of less than 128 units: the value itself is an exact float
            return np.asarray(value * quantum + noise * self.step)
        # All terms are exact floats but the last sum, which is rounded correctly whatever it is made of.
        high = (value >> _LOW) << _LOW
        return np.asarray(high * quantum + ((value - high) * quantum + noise * self.step))


def whole_numbers(value: object, label: str) -> NDArray[np.int64]:
    """Return what is to be released as int64; refuse what is not made of whole numbers.

    >>> whole_numbers([1, 2], "counts")
    array([1, 2])
    """
    exact = np.asarray(value)
    if exact.dtype.kind not in "iub":
        of = f" for {label}" if label else ""
        raise InputError(f"the value to release{of} is not made of whole numbers: round it to a public quantum first")
    return exact.astype(np.int64)
