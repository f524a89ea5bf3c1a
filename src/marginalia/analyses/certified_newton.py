"""Certified intervals of a declared logistic regression, from its score and Hessian at one public point.

With s(b) = Σ x (y - m(x'b)), m the logistic function, H(b) = Σ x x' m'(x'b), b* the table's solution, b_1 a public
point, d = b* - b_1 and H̄ the mean of H over the way from b_1 to b*,

    s(b_1) = H̄ d,   g H <= H̄ <= h H,   g = (1 - e^-R)/R,   h = (e^R - 1)/R,   R = max |x'd| over the domain,

H being H(b_1): as |m''| <= m', m'(t + u) lies between m'(t) e^-|u| and m'(t) e^|u| (self-concordance; Bach 2010). So
ŝ - Ĥ (b - b_1) = 0 is a linear equation of known noise but for curvature, of second order, and the sets of `sets` are
``asymptotic``.

**The certificate.** Let d_0 = H⁻¹ s(b_1), what d would be without curvature. H^½ H̄⁻¹ H^½ has its spectrum between 1/h
and 1/g; their distance is R, their middle c = (R/2) coth(R/2). So, exactly,

    d = c d_0 + (R/2) w   with   w'H w <= d_0'H d_0.                                                                (1)

Given b_1, d_0 and w are *fixed* vectors. So the noise drawn after b_1 needs no bound over all directions: along them
it is Gaussian of known variance. Only n_1, the noise of the main score, from which b_1 follows, needs its ellipsoid.
Let ŝ = s(b_1) + n_1 + n_2 and Ĥ = H + E, |.| the norm of Ĥ (|ŝ| that of its inverse), σ² the largest eigenvalue of
the covariance of n_1 + n_2 in it, and s a number with sd(u'E u) <= s |u|² for every u. The error allowed is split
over three events (`SHARES`):

*Distance.* |y - d_0'ŝ/y|, y = |d_0|, is the noise of d_0'n_1, d_0'n_2 and d_0'E d_0 over y: a standard normal vector
of p + 2 coordinates (n_1; given b_1, n_2 and E along d_0), at most q long. Hence y <= |ŝ| + q √(σ² + s² y²), and
d_0'H d_0 = d_0's(b_1) <= y (|ŝ| + q σ).

*Bending.* w'H w = w'Ĥ w - w'E w >= (1 - z s) |w|², z a normal quantile. With (1), X the largest |x| of the domain (in
the norm of Ĥ⁻¹), A = X y and B = X |w|: R <= c A + (R/2) B, that is tanh(R/2) <= A / (2 - B). Where A + B >= 2 nothing
is excluded. (Separated classes have no solution. The d that solves for t s(b_1) then goes to infinity as t grows to
some t <= 1, and (1), over R/2, has the limit t d_0 + w with max |x'(t d_0 + w)| = 2: so A + B >= 2.)

*Coefficients.* For a coefficient a'b let v = J⁻¹ a, J the noisy Hessian at the point of the main score: known
without n_1. Then

    a'd_0 = v'ŝ + (a - Ĥ v)'d_0 - v'n_1 - (v'n_2 - v'E d_0):

the second term is at most |a - Ĥ v| y (the norm of Ĥ⁻¹). The noise is that of two independent standard normals, each
times its standard deviation; whatever the second deviation owes to n_1, it is at most q' times the root of the sum of
their squares where the two have length at most q' (Cauchy and Schwarz): a chi-squared variable of two degrees, whose
tail is e^(-q'²/2), at a p-th of its share for each coefficient. With (1), a'd follows, for all coefficients at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import stats

from marginalia.inference.estimates import Array
from marginalia.inference.noise import Noise
from marginalia.inference.sets import Linear

SHARES = (0.45, 0.1, 0.45)  # of the error allowed: distance, bending, coefficients


class DistanceBound(NamedTuple):
    """Bounds of the distance of the solution from b_1, in the norm of Ĥ."""

    linear: float  # y, of d_0
    bent: float  # of w
    R: float  # infinite: nothing is excluded


@dataclass(frozen=True)
class NewtonPoint:
    """Score and Hessian of a logistic likelihood at b_1, with their noise, in columns of the basis.

    Attributes
    ----------
    b : ndarray of shape (p,)
        b_1.
    score : ndarray of shape (p,)
        ŝ.
    main, after : ndarray of shape (p,)
        Variances of n_1, and of n_2.
    hessian, prior : ndarray of shape (p, p)
        Ĥ and J.
    places : ndarray of shape (sums, p, p)
        Γ_t with Ĥ = Σ Γ_t times a noisy sum.
    variances : ndarray of shape (sums,)
        Of the noise of these sums.
    reach : ndarray of shape (points, p)
        The convex hull of these points holds all records x of the domain.
    """

    b: Array
    score: Array
    main: Array
    after: Array
    hessian: Array
    prior: Array
    places: Array
    variances: Array
    reach: Array

    @cached_property
    def _root(self) -> Array | None:
        """A matrix C with C C' = Ĥ⁻¹; None where Ĥ is not positive definite."""
        spectrum, vectors = np.linalg.eigh((self.hessian + self.hessian.T) / 2)
        return vectors / np.sqrt(spectrum) if spectrum[0] > 0 else None

    @cached_property
    def _noise(self) -> Array:
        """Standard deviation times C'Γ_t C, of each sum: shape (sums, p, p)."""
        root = self._root
        assert root is not None
        return np.asarray(np.sqrt(self.variances)[:, None, None] * (root.T @ self.places @ root))

    @cached_property
    def _spread(self) -> float:
        """The number s: u'E u = Σ ε_t <noise_t, u u'> in the columns of C, and u u' is as long as u'u."""
        return float(np.linalg.norm(self._noise.reshape(len(self._noise), -1), 2))

    def distance_bound(self, confidence: float) -> DistanceBound:
        """Return bounds of the distance of the solution from b_1.

        >>> one = np.eye(1)
        >>> curvature = {"hessian": 1e3 * one, "prior": 1e3 * one, "places": one[None], "variances": np.ones(1)}
        >>> point = NewtonPoint(*np.zeros((2, 1)), *np.ones((2, 1)), **curvature, reach=one)
        >>> round(point.distance_bound(0.95).R, 4)
        0.0044
        """
        a, p, root = 1.0 - confidence, len(self.score), self._root
        if root is None:
            return DistanceBound(math.inf, math.inf, math.inf)
        q = math.sqrt(float(stats.chi2.isf(SHARES[0] * a, p + 2)))
        z, s = float(stats.norm.isf(SHARES[1] * a)), self._spread
        if max(q, z) * s >= 1:
            return DistanceBound(math.inf, math.inf, math.inf)
        t = float(np.linalg.norm(root.T @ self.score))
        sigma = math.sqrt(float(np.linalg.norm((root.T * (self.main + self.after)) @ root, 2)))
        rest = 1 - (q * s) ** 2
        y = (t + q * math.sqrt(sigma**2 * rest + (s * t) ** 2)) / rest
        w = math.sqrt(y * (t + q * sigma) / (1 - z * s))
        X = float(np.sqrt(((self.reach @ root) ** 2).sum(axis=1)).max())
        A, B = X * y, X * w
        return DistanceBound(y, w, math.inf if A + B >= 2 else 2 * math.atanh(A / (2 - B)))

    def within(self, a: Array, confidence: float) -> tuple[float, float]:
        """Return the ends of an interval for a'b*, of p coefficients whose intervals hold together."""
        bound, root = self.distance_bound(confidence), self._root
        if root is None or math.isinf(bound.R):
            return -math.inf, math.inf
        q = math.sqrt(2 * math.log(len(a) / (SHARES[2] * (1.0 - confidence))))
        v = np.linalg.solve(self.prior, a)
        off = float(np.linalg.norm(root.T @ (a - self.hessian @ v))) * bound.linear
        of_hessian = float(np.linalg.norm(self._noise @ np.linalg.solve(root, v), 2)) * bound.linear
        noise = q * math.sqrt(float(v**2 @ (self.main + self.after)) + of_hessian**2)
        middle, c = float(v @ self.score), max(bound.R / 2 / math.tanh(bound.R / 2), 1.0) if bound.R else 1.0
        half = (c - 1) * abs(middle) + c * (off + noise) + bound.R / 2 * bound.bent * float(np.linalg.norm(root.T @ a))
        return float(a @ self.b) + middle - half, float(a @ self.b) + middle + half


class CertifiedNewton(Linear):
    """Equations ŝ - Ĥ (b - b_1) = 0, which leave out a term of second order.

    Parameters
    ----------
    H : ndarray of shape (p, p + 1)
        [ŝ + Ĥ b_1, Ĥ].
    noise : Noise
        Of the entries of H.
    point : NewtonPoint
    columns : ndarray of shape (p, p)
        Coefficient j is row j times b in columns of the basis.
    """

    approximate = True

    def __init__(self, H: Array, noise: Noise, point: NewtonPoint, columns: Array) -> None:
        super().__init__(H, noise)
        self.point, self._columns = point, columns

    def one_form(self) -> bool:
        """Return False: the equations are approximate."""
        return False

    def guaranteed(self, j: int, confidence: float) -> tuple[float, float]:
        """Return the certified interval of coefficient j; see the module."""
        low, high = self.point.within(self._columns[j], confidence)
        if self.extra is None or not math.isfinite(high):
            return low, high
        to_b = np.linalg.inv(self.H[:, 1:])[j]
        sampling = math.sqrt(float(stats.chi2.ppf(confidence, self.p)) * max(float(to_b @ self.extra @ to_b), 0.0))
        middle, half = (low + high) / 2, math.hypot((high - low) / 2, sampling)
        return middle - half, middle + half
