"""Confidence sets for the solution b of noisy estimating equations r(b) = 0, whose noise is known.

With r̂(b) = r(b) + e(b), e Gaussian of covariance V(b), the set {b : r̂(b)' V(b)⁻¹ r̂(b) <= q} covers each solution with
the probability that a chi-squared variable of p degrees of freedom stays below q: at every number of rows, and also
where the equations are nearly singular, where intervals from a linearisation (Wald's) fail (Fieller 1954; Dufour 1997).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, stats

Array = NDArray[np.float64]
NEARLY_LINEAR = 100  # distance at infinity from which the equations are nearly linear near their solution
_FAR = 1e4  # standard errors: a set that reaches this far is unbounded
_SAME_FORM = 1e-9  # of the largest singular value
_HUGE = 1e30
_SETTLED = 1e-6  # of a distance, and of a standard error


class Equations(ABC):
    """Noisy estimating equations; see the module."""

    p: int  # unknowns, and equations
    approximate = False  # whether they leave out a term of second order
    extra: Array | None = None  # added to V(b), shape (p, p): the sampling error, where b is a population's

    @abstractmethod
    def residuals(self, b: Array) -> Array:
        """Return r̂(b), shape (p,)."""

    @abstractmethod
    def variance(self, b: Array) -> Array:
        """Return V(b), shape (p, p)."""

    @abstractmethod
    def jacobian(self, b: Array) -> Array:
        """Return the derivative of r̂ by b, shape (p, p)."""

    @abstractmethod
    def distance_at_infinity(self) -> float:
        """Return the least distance at infinity (kappa): a set whose quantile is larger is unbounded."""

    @abstractmethod
    def slope_of_variance(self, b: Array, x: Array) -> Array:
        """Return the derivative of x' V(b) x by b, shape (p,)."""

    def distance(self, b: Array) -> float:
        """Return r̂(b)' V(b)⁻¹ r̂(b), the statistic that the sets bound.

        >>> Linear(np.array([[2.0, 4.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])).distance(np.array([1.0])).__round__(9)
        2.0
        """
        r, V = self.residuals(b), self.variance(b)
        if not (np.isfinite(r).all() and np.isfinite(V).all()):
            return math.inf  # overflow
        return float(r @ self._over(V, r))

    def slope(self, b: Array) -> Array:
        """Return the derivative of the distance by b, shape (p,)."""
        x = self._over(self.variance(b), self.residuals(b))
        return 2 * self.jacobian(b).T @ x - self.slope_of_variance(b, x)

    def curvature(self, b: Array) -> Array:
        """Return the second derivative of the distance with V held, shape (p, p)."""
        J = self.jacobian(b)
        return np.asarray(2 * J.T @ self._over(self.variance(b), J))

    @staticmethod
    def _over(V: Array, x: Array) -> Array:
        try:
            return np.asarray(linalg.cho_solve(linalg.cho_factor(V), x))
        except linalg.LinAlgError:
            return np.asarray(np.linalg.pinv(V) @ x)

    def guaranteed(self, b: Array, j: int, confidence: float, *, at_infinity: float) -> tuple[float, float]:
        """Return an interval of coefficient j around the solution b; all p intervals hold together, certified."""
        q = float(stats.chi2.ppf(confidence, self.p))
        return interval(self, b, j, q, unbounded=at_infinity < q)

    def solve(self, start: Array | None = None) -> Array | None:
        """Return b with r̂(b) = 0, by Newton's method with halved steps; None if it does not converge."""
        b = np.zeros(self.p) if start is None else start.copy()
        for _ in range(100):
            r = self.residuals(b)
            try:
                step = np.linalg.solve(self.jacobian(b), -r)
            except np.linalg.LinAlgError:
                return None
            length, best = 1.0, float(np.abs(r).max())
            while length > 1e-6 and not float(np.abs(self.residuals(b + length * step)).max()) < best:
                length /= 2
            if length <= 1e-6:
                break
            b = b + length * step
            if np.abs(length * step).max() <= 1e-12 * max(1.0, np.abs(b).max()):
                break
        rounding = 1e-10 * np.abs(self.jacobian(b)) @ (1.0 + np.abs(b))
        near = 1e-6 * np.sqrt(np.diag(self.variance(b))) + rounding
        return b if np.isfinite(b).all() and (np.abs(self.residuals(b)) <= near).all() else None


class Linear(Equations):
    """Equations h - G b = 0 with noisy h and G: r̂(b) = H (1, -b), H = [h, G].

    Parameters
    ----------
    H : ndarray of shape (p, p + 1)
    K : ndarray of shape (p (p + 1), p (p + 1))
        Covariance of the entries of H in C order.
    extra : ndarray of shape (p, p), optional
        Added to V(b): the sampling error, where b is a population's.
    """

    def __init__(self, H: Array, K: Array, extra: Array | None = None) -> None:
        self.p = len(H)
        self.H, self.extra = H, extra
        K = K.reshape(self.p, self.p + 1, self.p, self.p + 1).transpose(0, 2, 1, 3)
        self._noise = K.transpose(0, 2, 1, 3)[:, 1:, :, 1:]  # (j, k, l, m), of G
        self._K = (K + K.transpose(0, 1, 3, 2)) / 2  # (j, l, k, m), symmetric in k and m

    @staticmethod
    def _c(b: Array) -> Array:
        return np.concatenate([[1.0], -b])

    def residuals(self, b: Array) -> Array:
        """Return r̂(b) = H (1, -b)."""
        return np.asarray(self.H @ self._c(b))

    def variance(self, b: Array) -> Array:
        """Return V(b), quadratic in (1, -b)."""
        V = self._of(self._c(b))
        return V if self.extra is None else V + self.extra

    def jacobian(self, b: Array) -> Array:
        """Return -G."""
        return -self.H[:, 1:]

    def slope_of_variance(self, b: Array, x: Array) -> Array:
        """Return the derivative of x' V(b) x by b."""
        return -2 * (np.tensordot(np.outer(x, x), self._K, axes=([0, 1], [0, 1])) @ self._c(b))[1:]

    def solve(self, start: Array | None = None) -> Array | None:
        """Return G⁻¹ h; None where G is singular."""
        try:
            return np.asarray(np.linalg.solve(self.H[:, 1:], self.H[:, 0]))
        except np.linalg.LinAlgError:
            return None

    def _of(self, c: Array) -> Array:
        V = np.asarray(self._K @ c @ c)
        return (V + V.T) / 2

    def one_form(self) -> bool:
        """Return whether V(b) = (c' Ω c) W. Then the profile sets at one degree of freedom are exact.

        >>> Linear(np.array([[2.0, 4.0]]), np.eye(2)).one_form()
        True
        """
        if self.extra is not None:
            return False
        flat = self._K.reshape(self.p**2, -1)
        singular = np.linalg.svd(flat, compute_uv=False)
        return bool(len(singular) < 2 or singular[1] <= _SAME_FORM * singular[0])

    def distance_at_infinity(self) -> float:
        """Return the least distance at infinity: above the quantile of a set, no set is unbounded; below it, all are.

        It is the least noise E, in standard deviations squared, that makes G - E singular. From u' (G - E) v = 0, with
        the singular vectors u, v of the last G - E, the next E follows (the iteration of Hasofer & Lind, 1974). This
        is a local search, from every feature and the smallest singular values, and its result is never too small. If
        a search does not converge, its result is the least noise that makes (G - E) v = 0 for one of its v.

        >>> round(Linear(np.array([[2.0, 4.0]]), np.diag([1.0, 0.25])).distance_at_infinity(), 6)
        64.0
        """
        G, p = self.H[:, 1:], self.p
        scale = 1.0 / np.sqrt(np.maximum(np.einsum("jkjk->j", self._noise), 1e-300))
        starts = [*np.eye(p), *(np.linalg.svd(scale[:, None] * G * scale)[0].T * scale)[::-1][: min(4, p)]]
        return min(self._to_singular(G, u, np.linalg.lstsq(G, u, rcond=None)[0]) for u in starts)

    def _to_singular(self, G: Array, u: Array, v: Array) -> float:
        """Return the least noise, found from u and v, that makes G singular."""
        before, visited = math.inf, [v]
        for _ in range(60):
            spread = np.tensordot(np.outer(u, v), self._noise, axes=2)
            variance, off = float(u @ spread @ v), float(u @ G @ v)
            if variance <= 0.0:
                break
            distance = off * off / variance
            U, singular, Vt = np.linalg.svd(G - spread * (off / variance))
            if abs(distance - before) <= 1e-6 * distance:
                if singular[-1] > 1e-4 * abs(U[:, -1] @ G @ Vt[-1]):
                    break
                return distance
            u, v, before = U[:, -1], Vt[-1], distance
            visited.append(v)
        return min(self._at_infinity(G, v) for v in visited)

    def _at_infinity(self, G: Array, v: Array) -> float:
        """Return the distance of b = t v as t grows to infinity."""
        variance = np.einsum("jklm,k,m->jl", self._noise, v, v)
        return float(G @ v @ self._over((variance + variance.T) / 2, G @ v))


@dataclass(frozen=True)
class Coefficient:
    """A coefficient and its confidence set.

    Attributes
    ----------
    name : str
    estimate : float
    standard_error : float
        By linearisation, at the estimate.
    low, high : float
        Ends of the set; infinite where it is unbounded.
    p_value : float
        For the hypothesis that the coefficient is 0.
    label : str
        ``exact``, ``certified`` or ``asymptotic``.
    """

    name: str
    estimate: float
    standard_error: float
    low: float
    high: float
    p_value: float
    label: str

    @property
    def bounded(self) -> bool:
        """Whether both ends are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)


def wald_errors(equations: Equations, b: Array) -> Array:
    """Return standard errors by linearisation: of J⁻¹ e, e of covariance V(b)."""
    inverse = np.linalg.pinv(equations.jacobian(b))
    return np.sqrt(np.maximum(np.diag(inverse @ equations.variance(b) @ inverse.T), 0.0))


def profile(equations: Equations, b: Array, j: int, value: float, start: Array) -> tuple[float, Array]:
    """Return the least distance with b_j = `value`, and the point of that distance, searched from `start`."""
    others = [i for i in range(equations.p) if i != j]
    at = start.copy()
    at[j] = value
    if not others:
        return equations.distance(at), at
    # Gauss-Newton steps along the exact slope: a few suffice near the minimum. Otherwise BFGS finishes.
    best = equations.distance(at)
    for _ in range(30):
        step = np.zeros(equations.p)
        step[others] = _solved(equations.curvature(at)[np.ix_(others, others)], -equations.slope(at)[others])
        trial = equations.distance(at + step) if np.isfinite(step).all() else math.inf
        if not trial < best + _SETTLED * max(1.0, best):
            break
        at, gained, best = at + step, best - trial, trial
        if abs(gained) <= _SETTLED * max(1.0, best):
            return best, at
    scale, origin = np.maximum(wald_errors(equations, b)[others], 1e-12), at.copy()

    def distance(x: Array) -> tuple[float, Array]:
        full = origin.copy()
        full[others] += scale * x
        value = equations.distance(full)
        if value == math.inf:
            return _HUGE, np.zeros(len(others))
        return value, equations.slope(full)[others] * scale

    minimum = optimize.minimize(distance, np.zeros(len(others)), jac=True, method="BFGS", options={"gtol": 1e-4})
    at[others] = origin[others] + scale * minimum.x
    return float(minimum.fun), at


def _along(equations: Equations, b: Array, j: int, value: float) -> Array:
    """Return where the linearised equations have their least distance with b_j = `value`: a start for `profile`."""
    inverse = np.linalg.pinv(equations.jacobian(b))
    covariance = inverse @ equations.variance(b) @ inverse[j]
    return b if covariance[j] <= 0.0 else b + (value - b[j]) / covariance[j] * covariance


def interval(
    equations: Equations, b: Array, j: int, quantile: float, *, unbounded: bool = False
) -> tuple[float, float]:
    """Return the ends of {b_j : the least distance is at most `quantile`} around the solution b.

    `unbounded`: if this is known already (`Equations.distance_at_infinity`), nothing is searched.
    """
    if unbounded:
        return -math.inf, math.inf
    error = float(wald_errors(equations, b)[j])
    if error == 0.0:
        return float(b[j]), float(b[j])
    low, high = (_end(equations, b, j, quantile, sign * error) for sign in (-1.0, 1.0))
    return low, high


def _end(equations: Equations, b: Array, j: int, quantile: float, error: float) -> float:
    """Return where the least distance reaches the quantile, going from b_j by multiples of `error`."""
    near = _end_nearby(equations, b, j, quantile, error)
    if near is not None:
        return near
    inner, outer, start = 0.0, 1.2 * math.sqrt(quantile), b
    value, where = profile(equations, b, j, b[j] + outer * error, start)
    while value <= quantile:
        inner, start, outer = outer, where, 2.5 * outer
        if outer >= _FAR:
            return math.copysign(math.inf, error)
        value, where = profile(equations, b, j, b[j] + outer * error, start)

    def excess(t: float) -> float:
        return profile(equations, b, j, b[j] + t * error, start)[0] - quantile

    return float(
        b[j]
        + error * (optimize.brentq(excess, inner, outer, xtol=1e-4, rtol=1e-6) if inner or excess(0.0) < 0 else inner)
    )


def _end_nearby(equations: Equations, b: Array, j: int, quantile: float, error: float) -> float | None:
    """Return the same by Newton's method from the end of the linearisation; None if it does not converge at once."""
    others = [i for i in range(equations.p) if i != j]
    inverse = np.linalg.pinv(equations.jacobian(b))
    at = b + math.sqrt(quantile) / error * (inverse @ equations.variance(b) @ inverse[j])
    for _ in range(12):
        gap, slope, curvature = equations.distance(at) - quantile, equations.slope(at), equations.curvature(at)
        curvature[j] = slope  # the distance is the quantile, and least over the others
        aim = -slope
        aim[j] = -gap
        step = _solved(curvature, aim)
        if not np.isfinite(step).all() or np.abs(step[j]) > abs(error) * math.sqrt(quantile):
            return None
        at = at + step
        if abs(step[j]) <= _SETTLED * abs(error):
            tight = (np.abs(slope[others]) <= 1e-2 * np.sqrt(quantile * np.diag(curvature)[others])).all()
            return float(at[j]) if tight and (at[j] - b[j]) * error > 0 else None
    return None


def _solved(A: Array, x: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(A, x))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(A, x, rcond=None)[0])


def coefficients(
    equations: Equations, names: Sequence[str], b: Array, *, confidence: float, guaranteed: bool
) -> tuple[list[Coefficient], float, float]:
    """Return all coefficients with their sets, the least distance at infinity, and the quantile of the sets."""
    at_infinity = equations.distance_at_infinity()
    sets = [
        coefficient(equations, name, b, j, confidence=confidence, guaranteed=guaranteed, at_infinity=at_infinity)
        for j, name in enumerate(names)
    ]
    return sets, at_infinity, float(stats.chi2.ppf(confidence, equations.p if guaranteed else 1))


def coefficient(
    equations: Equations,
    name: str,
    b: Array,
    j: int,
    *,
    confidence: float,
    guaranteed: bool,
    at_infinity: float,
) -> Coefficient:
    """Return one coefficient with its profile set at one degree of freedom, exact where V has the form that proves it.

    `guaranteed`: with the interval of `Equations.guaranteed` instead.
    """
    exact = isinstance(equations, Linear) and equations.one_form()
    sampling = equations.extra is not None
    # At p > 1 degrees, or with a bound on its curvature, it covers more often than stated, whatever form V has.
    certified = guaranteed and (equations.p > 1 or equations.approximate)
    label = "asymptotic" if sampling else "certified" if certified else "exact" if exact else "asymptotic"
    if guaranteed:
        low, high = equations.guaranteed(b, j, confidence, at_infinity=at_infinity)
    else:
        q = float(stats.chi2.ppf(confidence, 1))
        low, high = interval(equations, b, j, q, unbounded=at_infinity < q)
    degrees = equations.p if guaranteed else 1
    # The interval of approximate equations does not follow from a distance.
    has_p = not (guaranteed and equations.approximate)
    p = p_value(equations, b, j, degrees, at_infinity) if has_p else math.nan
    return Coefficient(name, float(b[j]), float(wald_errors(equations, b)[j]), low, high, p, label)


def p_value(equations: Equations, b: Array, j: int, degrees: int, at_infinity: float) -> float:
    """Return the p-value of b_j = 0: the level at which its set with these degrees of freedom just contains 0.

    The least distance is searched from the minimum of the linearised equations, and near a singular design also from b:
    if the search missed the least distance, the p-value would be too small.

    >>> one = Linear(np.array([[1.96, 1.0]]), np.diag([1.0, 0.0]))
    >>> round(p_value(one, np.array([1.96]), 0, 1, np.inf), 2)
    0.05
    """
    starts = [_along(equations, b, j, 0.0), *([b] if at_infinity < NEARLY_LINEAR else [])]
    least = min(profile(equations, b, j, 0.0, start)[0] for start in starts)
    return float(stats.chi2.sf(least, degrees))
