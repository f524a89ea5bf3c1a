"""The minimiser of a logistic objective with a linear term, to within a bound that an exact gradient proves.

J(θ) = Σ ln(1 + exp(margin - <x_i, θ>)) + regulariser/2·‖θ‖² + <b, θ>, labels folded into the rows. It is regulariser-
strongly convex, so ‖θ - θ*‖ ≤ ‖∇J(θ)‖/regulariser wherever θ comes from: steps are taken in floats, and need no proof;
the gradient is computed in whole numbers, and has one.

**The gradient.** Rows are whole numbers below 2^15 of a public unit, θ of 2^-q/unit, so margins are whole numbers of
2^-q: sums of products of 16-bit pieces, below 2^53, are exact in floats in any order of summation. The slopes of n rows
are each off by at most `slope_error`, so the gradient by n·slope_error·bound; the rest of it is exact.

**It always ends.** A precision is left when it no longer helps: when neither Newton's step nor a gradient step of
1/(n·bound²/4 + regulariser), which shrinks the gradient by 1 - regulariser/(n·bound²/4 + regulariser) but for rounding,
shrinks it by half as much. With growing precision the rounding goes to 0, so every bound above 0 is met for all rows:
what depends on them is time, and nothing is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy.mechanisms import logistic

Array = NDArray[np.float64]
BLOCK = 2**17  # rows whose products of 15 and 16 bits are summed in one go
_SHRINKS = 32  # times at least, by a Newton step after which its Hessian is kept for the next one
_LENGTHS = tuple(Fraction(1, 2**k) for k in range(7))  # of Newton's step


def precisions() -> Iterator[int]:
    """Yield bits of the slopes: those of the kernel, then 128, 256 and so on.

    >>> [bits for bits, _ in zip(precisions(), range(3))]
    [62, 128, 256]
    """
    yield logistic.KERNEL_BITS
    bits = 128
    while True:
        yield bits
        bits *= 2


@dataclass(frozen=True)
class _Point:
    """A point θ = theta/(2^q·unit), and the gradient that its slopes give, over 2^scale."""

    theta: list[int]
    slopes: list[Array]  # of each block of rows, as floats: for Hessians
    gradient: list[int]
    scale: int
    norm: int  # 2-norm of the gradient, rounded up


@dataclass(frozen=True)
class Objective:
    """A logistic objective with a ridge and a linear term.

    Attributes
    ----------
    rows : ndarray of float64, shape (n, p)
        Whole numbers below 2^15: label times features, in units of `unit`.
    unit : float
        A power of two.
    bound : float
        Of the 2-norm of every row.
    regulariser : float
    linear_term : list of Fraction, length p
        Dyadic.
    margin : float

    Examples
    --------
    >>> rows = np.array([[2.0**14], [-(2.0**14)], [2.0**14]])
    >>> objective = Objective(rows, 2.0**-14, 1.0, 0.001, [Fraction(0)])
    >>> theta, q = objective.minimiser(np.zeros(1), Fraction(1, 10**6))
    >>> round(theta[0] / 2**q / objective.unit, 3)  # ln 2, but for the ridge
    0.692
    """

    rows: Array
    unit: float
    bound: float
    regulariser: float
    linear_term: list[Fraction]
    margin: float = 0.0

    def minimiser(self, start: Array, most: Fraction) -> tuple[list[int], int]:
        """Return whole numbers t and q such that the gradient at t/(2^q·unit) has a norm of at most `most` > 0.

        `start`, shape (p,): a guess, which may be anything.
        """
        n, p = self.rows.shape
        steepest = Fraction(self.bound) ** 2 * n / 4 + Fraction(self.regulariser)
        least_shrinking = 1 - Fraction(self.regulariser) / steepest / 2
        theta, q = [0] * p, 0
        for bits in precisions():
            theta, q, before = [t << (_q(bits) - q) for t in theta], _q(bits), q
            if not before and np.isfinite(start).all():
                theta = _multiples(start * self.unit, q)
            at = self.gradient_at(theta, bits)
            hessian: Array | None = None
            while Fraction(at.norm, 2**at.scale) + n * logistic.slope_error(bits) * Fraction(self.bound) > most:
                further, hessian = self._newton(at, bits, hessian)
                further = further or self._descend(at, bits, steepest, least_shrinking)
                if further is None:
                    break
                at = further
            else:
                return at.theta, q
            theta = at.theta
        raise AssertionError  # precisions never end

    def gradient_at(self, theta: list[int], bits: int) -> _Point:
        """Return the gradient at θ, computed exactly from slopes of `bits` bits."""
        n, p = self.rows.shape
        limb = 38 - (p - 1).bit_length()
        pieces = _pieces(theta, limb)
        total, slopes = [0] * p, []
        for start in range(0, n, BLOCK):
            rows = self.rows[start : start + BLOCK]
            margins = rows @ pieces  # whole numbers below 2^53
            digits, floats = self._slopes(margins, limb, bits)
            slopes.append(floats)
            sums = digits.T @ rows
            for k, row in enumerate(sums.tolist()):
                total = [s + (int(x) << 16 * k) for s, x in zip(total, row, strict=True)]
        e = math.frexp(self.unit)[1] - 1  # unit = 2^e
        ridge, ridge_scale = _dyadic(Fraction(self.regulariser))
        linear_term = [_dyadic(b) for b in self.linear_term]
        scale = max(0, bits - e, ridge_scale + _q(bits) + e, *(s for _, s in linear_term))
        gradient = [
            (ridge * t << (scale - ridge_scale - _q(bits) - e)) + (b << (scale - s)) - (g << (scale - bits + e))
            for t, g, (b, s) in zip(theta, total, linear_term, strict=True)
        ]
        return _Point(theta, slopes, gradient, scale, math.isqrt(sum(g * g for g in gradient)) + 1)

    def _slopes(self, margins: Array, limb: int, bits: int) -> tuple[Array, Array]:
        """Return the slope of each row in digits of 16 bits, the lowest first, and as a float."""
        if bits == logistic.KERNEL_BITS:
            out = np.empty(len(margins), np.dtype("<u8"))
            logistic.slopes(margins, limb, self.margin, *logistic.constants(), out)
            return out.view("<u2").reshape(len(out), -1).astype(np.float64), out.astype(np.float64) * 2.0**-bits
        shift = int(Fraction(self.margin) * 2 ** _q(bits))
        exact = [sum(int(part) << limb * k for k, part in enumerate(row)) - shift for row in margins.tolist()]
        whole = [logistic.slope(z, _q(bits), bits) for z in exact]
        size = bits // 8 + 2  # bytes, an even number: a slope of 1 needs one bit more
        digits = np.frombuffer(b"".join(a.to_bytes(size, "little") for a in whole), "<u2")
        return digits.reshape(len(whole), -1).astype(np.float64), np.array([a / 2**bits for a in whole])

    def _newton(self, at: _Point, bits: int, hessian: Array | None) -> tuple[_Point | None, Array | None]:
        """Return a point with a gradient smaller by at least half of what the length of the step promises, or None.

        And the Hessian for the next step, where this one went so well that an old one does.
        """
        fresh = hessian is None
        hessian = self._hessian(at) if hessian is None else hessian
        for length in _LENGTHS if fresh else _LENGTHS[:1]:
            further = self._step(at, bits, hessian, length)
            if further is None:
                break
            if further.norm <= (1 - length / 2) * at.norm:
                return further, hessian if further.norm * _SHRINKS <= at.norm else None
        return (None, None) if fresh else self._newton(at, bits, None)

    def _step(self, at: _Point, bits: int, hessian: Array, length: Fraction) -> _Point | None:
        try:
            gradient = np.array([g / 2**at.scale for g in at.gradient])
            step = np.linalg.solve(hessian, gradient / self.unit)
        except (np.linalg.LinAlgError, OverflowError):
            return None
        if not np.isfinite(step).all():
            return None
        moved = _multiples(np.asarray(step * float(length)), _q(bits))
        return self.gradient_at([t - m for t, m in zip(at.theta, moved, strict=True)], bits)

    def _hessian(self, at: _Point) -> Array:
        """Return that of unit·θ, in floats."""
        total = np.zeros((self.rows.shape[1],) * 2)
        for k, a in enumerate(at.slopes):
            scaled = self.rows[k * BLOCK : (k + 1) * BLOCK] * np.sqrt(a * (1 - a))[:, None]
            total += scaled.T @ scaled
        with np.errstate(over="ignore"):
            total[np.diag_indices_from(total)] += np.float64(self.regulariser) / self.unit / self.unit
        return total

    def _descend(self, at: _Point, bits: int, steepest: Fraction, least_shrinking: Fraction) -> _Point | None:
        """Take the gradient step that needs no floats; None where rounding stands in its way."""
        factor = Fraction(self.unit) * 2 ** _q(bits) / (2**at.scale * steepest)
        further = self.gradient_at([t - round(g * factor) for t, g in zip(at.theta, at.gradient, strict=True)], bits)
        return further if further.norm <= least_shrinking * at.norm else None


def _q(bits: int) -> int:
    """Return the places of margins that go with slopes of so many bits: 75 of the kernel's."""
    return bits + 13


def _multiples(values: Array, places: int) -> list[int]:
    """Return floats in whole numbers of 2^-places, rounded down."""
    return [(over << places) // under for over, under in (v.as_integer_ratio() for v in values.tolist())]


def _dyadic(value: Fraction) -> tuple[int, int]:
    """Return a and s with value = a/2^s."""
    return value.numerator, value.denominator.bit_length() - 1


def _pieces(theta: list[int], limb: int) -> Array:
    """Return each whole number in a row of pieces of `limb` bits, with its sign, the lowest first.

    >>> _pieces([5, -(2**20)], 10)
    array([[ 5.,  0.,  0.],
           [-0., -0., -1.]])
    """
    count = max(1, max(-(-abs(t).bit_length() // limb) for t in theta))
    low = (1 << limb) - 1
    digits = [[(abs(t) >> limb * k) & low for k in range(count)] for t in theta]
    return np.array(digits, np.float64) * np.array([[-1.0 if t < 0 else 1.0] for t in theta])
