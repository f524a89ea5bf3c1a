"""A declared logistic regression: its score and Hessian at one public point, with known noise, and what follows.

With s(b) = Σ x (y - m(x'b)), m the logistic function, H(b) = Σ x x' m'(x'b), b* the table's solution, b_1 a public
point and d = b* - b_1:

    s(b_1) = H(b_1) d + ρ,   |ρ| <= ε(R) |d| in the norms of H⁻¹ and H,   ε(R) = (e^R - 1 - R)/R,   R = max |x'd|

as |m''| <= m', so that m'(t + u) <= m'(t) e^|u| (self-concordance; Bach 2010). So ŝ - Ĥ (b - b_1) = 0 is a linear
equation of known noise but for ρ, of second order, and the sets of `sets` are ``asymptotic``.

**The certificate.** b_1 was chosen after noise of the main score was seen. So the error allowed, a, is split
(`SHARES`): the noise e_1 of the main score lies in its ellipsoid; so does, given b_1, the noise e_2 - E d of what was
drawn afterwards (the difference of scores, and the Hessian's E); so does e_2 alone; and Ĥ - s J <= H <= Ĥ + s J, J
public before E was drawn (a matrix Gaussian series: Tropp 2012, Theorem 4.1). Let D bound |s(b_1)| in the norm of H⁻¹,
and X |x| over the domain. Along a ray from b_1 the slope of the likelihood at distance r in the norm of H is at most
D - (1 - e^(-X r))/X (self-concordance again). So where X D < 1, there is one solution, and it lies within
r = -ln(1 - X D)/X; there R <= X r. The sum of the first two ellipsoids lies in the one of
W = (1 + t) q_1 V_1 + (1 + 1/t) q_2 V_2(d), in whose norm ρ is no more than a constant c: {b : |r̂(b)| <= 1 + c in the
norm of W⁻¹} holds b*. Where X D >= 1, nothing is excluded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from marginalia.inference.known import Array
from marginalia.inference.sets import Equations, Linear

SHARES = (0.4, 0.4, 0.1, 0.1)  # of the error allowed: e_1; e_2 - E d; e_2; the Hessian


class Blown(NamedTuple):
    """By how much the covariances of both noises are blown up, and the quantile of the distance then."""

    first: float
    second: float
    quantile: float  # infinite: nothing is excluded


@dataclass(frozen=True)
class Point:
    """What is known of a logistic likelihood at b_1, in columns of the basis.

    Attributes
    ----------
    score : ndarray of shape (p,)
    main, after : ndarray of shape (p,)
        Variances of the noise of the main score, and of the difference that was added.
    hessian, prior : ndarray of shape (p, p)
        Ĥ and J.
    series : float
        Norm of Σ v_t (J^-½ Γ_t J^-½)², v_t the variances of the noise in Ĥ.
    reach : ndarray of shape (points, p)
        The convex hull of these points holds all records x of the domain.
    """

    score: Array
    main: Array
    after: Array
    hessian: Array
    prior: Array
    series: float
    reach: Array

    def blown(self, confidence: float) -> Blown:
        """Return what certifies a set at this confidence.

        >>> one = np.eye(1)
        >>> point = Point(np.zeros(1), np.ones(1), np.ones(1), 1e3 * one, 1e3 * one, 1e-6, one)
        >>> round(point.blown(0.95).quantile, 3), point.blown(0.95).first > 0
        (1.006, True)
        """
        a, p = 1.0 - confidence, len(self.score)
        q_1, q_2, q_3 = (float(stats.chi2.isf(share * a, p)) for share in SHARES[:3])
        V_1, V_2 = np.diag(self.main), np.diag(self.after)

        def around(first: float, second: float) -> tuple[float, float]:
            t = math.sqrt(second * self.after.sum() / (first * self.main.sum()))
            return (1 + t) * first, (1 + 1 / t) * second

        f_1, f_2 = around(q_1, q_2)
        s = math.sqrt(2 * self.series * math.log(2 * p / (SHARES[3] * a)))
        low, high = self.hessian - s * self.prior, self.hessian + s * self.prior
        spectrum, vectors = np.linalg.eigh((low + low.T) / 2)
        if spectrum[0] <= 0:
            return Blown(f_1, f_2, math.inf)
        root = vectors / np.sqrt(spectrum)  # root root' is the inverse of `low`
        X = float(np.sqrt(((self.reach @ root) ** 2).sum(axis=1)).max())
        g_1, g_3 = around(q_1, q_3)
        noise = math.sqrt(float(np.linalg.norm(root.T @ (g_1 * V_1 + g_3 * V_2) @ root, 2)))
        D = float(np.linalg.norm(root.T @ self.score)) + noise
        if X * D >= 1:
            return Blown(f_1, f_2, math.inf)
        r = -math.log1p(-X * D) / X
        R = X * r
        # Noise of the Hessian only adds to V_2(d): the norm without it is the larger one.
        over = 1.0 / np.sqrt(f_1 * self.main + f_2 * self.after)
        c = math.sqrt(float(np.linalg.norm(over[:, None] * high * over, 2))) * (math.expm1(R) - R) / R * r
        return Blown(f_1, f_2, (1 + c) ** 2)


class Linearised(Linear):
    """Equations ŝ - Ĥ (b - b_1) = 0, which hold but for a term of second order.

    Parameters
    ----------
    H : ndarray of shape (p, p + 1)
        [ŝ + Ĥ b_1, Ĥ].
    first, second : ndarray of shape (p (p + 1), p (p + 1))
        Covariance of the entries of H: of the main score's noise, and of what was drawn after b_1.
    point : Point

    >>> Linearised.__mro__[1].__name__
    'Linear'
    """

    def __init__(self, H: Array, first: Array, second: Array, point: Point) -> None:
        super().__init__(H, first + second)
        self._first, self._second, self._point = first, second, point

    def one_form(self) -> bool:
        """Return False: the equations hold approximately."""
        return False

    def guarantee(self, confidence: float) -> tuple[Equations, float]:
        """Return the equations and the quantile of a certified set; see the module."""
        blown = self._point.blown(confidence)
        within = Linear(self.H, blown.first * self._first + blown.second * self._second, self.extra)
        return within, blown.quantile
