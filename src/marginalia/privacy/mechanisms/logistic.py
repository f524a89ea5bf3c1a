"""The slope of the logistic loss in whole numbers, with a proved bound on its error: 1/(1 + e^z).

In 62 bits by a compiled kernel, in more by Python's whole numbers. Nothing is rounded by a float.

**Error of the kernel**, at most 2^-56 (2^-57.2 by the sum below). z is rounded down to 2^-56, and the slope moves by at
most a quarter of that: 2^-58. e^-|z| = 2^-k e^-(j/256) e^-f, 0 <= f < 1/256, in units of 2^-62: ln 2 is half a unit
off, k times, and k 2^-k <= 1/2; the table is half a unit off; the series stops 2^-68 from its limit, and each of its
six steps loses at most two units and multiplies what was lost before by f, 2.1 units; the last product and the shift
lose one each. That makes 5 units; 1/(1 + E) moves by no more than E, and its own error, one Newton step from a float's
reciprocal, is 3 units. Beyond |z| = 64 the answer is 0 or 1, less than 2^-92 away.

**Error in w > 62 bits**, at most 2^(4 - w): z is exact; 32 bits more than w are carried, and beyond |z| = w, e^-|z| is
below 2^-w.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numba import njit

KERNEL_BITS = 62  # of the kernel's slopes
_GUARD = 32
_ONE = np.uint64(2**KERNEL_BITS)
_HALF_WORD, _LOW_31 = np.uint64(31), np.uint64(2**31 - 1)
_TWO, _THREE, _FOUR, _FIVE, _SIX = (np.uint64(k) for k in (2, 3, 4, 5, 6))
_J, _F = np.uint64(54), np.uint64(2**54 - 1)
_INVERSE_LN_2 = 1 / (math.log(2) * 2.0**56)


def slope_error(bits: int) -> Fraction:
    """Return how far a slope in so many bits is at most from the true one.

    >>> slope_error(62) == Fraction(1, 2**56), slope_error(128) == Fraction(1, 2**122)
    (True, True)
    """
    return Fraction(1, 2 ** (bits - 6))


def slope(z: int, places: int, bits: int) -> int:
    """Return 2^bits/(1 + exp(z/2^places)), rounded to a whole number: at most 16 away.

    >>> slope(0, 75, 128) == 2**127
    True
    >>> round(slope(3 << 75, 75, 128) / 2**128, 12)  # 1/(1 + e^3)
    0.047425873178
    """
    size = abs(z)
    if size >> places >= bits:
        return 0 if z > 0 else 1 << bits
    halvings = 8 + (size >> places).bit_length()  # so that the series is one of x < 2^-8
    w = bits + _GUARD + halvings  # each squaring doubles an error
    x = (size << w >> places) >> halvings
    power = term = 1 << w
    k = 0
    while term:
        k += 1
        term = (term * x >> w) // k
        power += -term if k & 1 else term
    for _ in range(halvings):
        power = power * power >> w
    lesser = (power << w) // ((1 << w) + power)  # the slope at |z|
    return (lesser if z > 0 else (1 << w) - lesser) >> (w - bits)


@lru_cache(maxsize=1)
def constants() -> tuple[np.uint64, np.ndarray]:
    """Return ln 2 and e^-(j/256) for j < 180, in units of 2^-62, rounded to the nearest.

    >>> ln_2, table = constants()
    >>> round(int(ln_2) / 2**62, 6), round(int(table[128]) / 2**62, 6)
    (0.693147, 0.606531)
    """
    from decimal import Decimal, localcontext

    with localcontext(prec=60):
        one = Decimal(2**KERNEL_BITS)
        table = [int((one * (Decimal(-j) / 256).exp()).to_integral_value()) for j in range(180)]
        return np.uint64(int((one * Decimal(2).ln()).to_integral_value())), np.array(table, np.uint64)


@njit(cache=True)
def _times(a, b):
    """Return floor(a b/2^62), a <= 2^63 and b <= 2^62."""
    a1, a0, b1, b0 = a >> _HALF_WORD, a & _LOW_31, b >> _HALF_WORD, b & _LOW_31
    return a1 * b1 + ((a1 * b0 + a0 * b1 + ((a0 * b0) >> _HALF_WORD)) >> _HALF_WORD)


@njit(cache=True)
def _slope(z, ln_2, table):
    """Return 2^62/(1 + exp(z/2^56)), int64 |z| <= 2^62, as uint64."""
    size = np.uint64(-z if z < 0 else z)
    k = np.uint64(np.float64(size) * _INVERSE_LN_2)
    r = (size << _SIX) - k * ln_2  # modulo 2^64; in (-1, 2) times ln 2
    if np.int64(r) < 0:
        k -= np.uint64(1)
        r += ln_2
    f = r & _F
    h = _ONE - _times(f, _ONE) // _SIX
    h = _ONE - _times(f, h) // _FIVE
    h = _ONE - _times(f, h) // _FOUR
    h = _ONE - _times(f, h) // _THREE
    h = _ONE - _times(f, h) // _TWO
    h = _ONE - _times(f, h)
    E = _times(table[r >> _J], h) >> min(k, np.uint64(63))  # a shift by 64 has no meaning
    D = _ONE + E
    q = np.uint64(2.0**124 / np.float64(D))  # 2^62/D to 52 bits
    off = np.int64(_ONE - _times(D, q))
    q = np.uint64(np.int64(q) + ((off * (np.int64(q) >> 20)) >> 42))
    q = min(q, _ONE)
    return q if z < 0 else _ONE - q


@njit(cache=True)
def slopes(parts, limb, margin, ln_2, table, out):
    """Put 2^62/(1 + exp(z - margin)) of each row into `out`, uint64 of shape (n,).

    z = Σ_k parts[:, k]·2^(k·limb - 75): whole numbers below 2^53, as floats; limb >= 19. `margin`, in [0, 64), is a
    multiple of 2^-20.

    >>> out = np.empty(1, np.uint64)
    >>> slopes(np.zeros((1, 1)), 40, 0.0, *constants(), out)
    >>> int(out[0]) == 2**61
    True
    """
    shift = np.uint64(margin * 2.0**56)
    for i in range(parts.shape[0]):
        about = -margin
        z = np.uint64(0) - shift  # modulo 2^64, which is exact wherever |z| < 64
        for k in range(parts.shape[1]):
            about += parts[i, k] * 2.0 ** (k * limb - 75)
            part, places = np.int64(parts[i, k]), k * limb - 19
            if places < 0:
                z += np.uint64(part >> 19)
            elif places < 64:
                z += np.uint64(part) << np.uint64(places)
        if about >= 64.0:
            out[i] = np.uint64(0)
        elif about <= -64.0:
            out[i] = _ONE
        else:
            out[i] = _slope(np.int64(z), ln_2, table)
