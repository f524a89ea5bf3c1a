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
from functools import cached_property
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg.lapack import dpotrf, dpotrs

from marginalia.inference.noise import Noise
from marginalia.progress import bar

Array = NDArray[np.float64]
NEARLY_LINEAR = 100  # distance at infinity from which the equations are nearly linear near their solution
_FAR = 1e4  # standard errors: a set that reaches this far is unbounded
_SAME_FORM = 1e-9  # of the length of V
_POINTS = 4  # at which the form of V is compared
_WHOLE = 2  # steps of the search for the distance at infinity with all singular values
_SETTLED = 1e-6  # of a distance, and of a standard error
_FEW = 20  # steps of a search where no set is finite
_LEAST_GAIN = 1e-8  # of a distance, by one step of a search


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
    def corrected_jacobian(self, b: Array, x: Array) -> Array:
        """Return the derivative of r̂ less the noise that explains r̂(b) best, for x = V(b)⁻¹ r̂(b): shape (p, p).

        The distance is the squared length of that noise, and its derivative is 2 J' x for this J.
        """

    def distance(self, b: Array) -> float:
        """Return r̂(b)' V(b)⁻¹ r̂(b), the statistic that the sets bound.

        >>> noise = Noise(np.eye(2)[1:], np.eye(2), np.ones((2, 2)))
        >>> round(Linear(np.array([[2.0, 4.0]]), noise).distance(np.array([1.0])), 9)
        2.0
        """
        r, V = self.residuals(b), self.variance(b)
        if not (np.isfinite(r).all() and np.isfinite(V).all()):
            return math.inf  # overflow
        return float(r @ self._over(V, r))

    def local(self, b: Array) -> tuple[float, Array, Array]:
        """Return the distance, its derivative by b, and its second derivative (of Gauss and Newton)."""
        r, V = self.residuals(b), self.variance(b)
        if not (np.isfinite(r).all() and np.isfinite(V).all()):
            return math.inf, np.zeros(self.p), np.eye(self.p)  # overflow
        x = self._over(V, r)
        J = self.corrected_jacobian(b, x)
        return float(r @ x), 2 * J.T @ x, 2 * J.T @ self._over(V, J)

    @staticmethod
    def _over(V: Array, x: Array) -> Array:
        factor, failed = dpotrf(V)
        return np.asarray(np.linalg.pinv(V) @ x if failed else dpotrs(factor, x)[0])

    def guaranteed(self, solution: Solution, j: int, confidence: float, *, at_infinity: float) -> tuple[float, float]:
        """Return an interval of coefficient j around a solution; all p intervals hold together, certified."""
        q = float(stats.chi2.ppf(confidence, self.p))
        return solution.interval(j, q, unbounded=at_infinity < q)

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
    noise : Noise
        Of the entries of H.
    extra : ndarray of shape (p, p), optional
        Added to V(b): the sampling error, where b is a population's.
    """

    def __init__(self, H: Array, noise: Noise, extra: Array | None = None) -> None:
        self.p = len(H)
        self.H, self.noise, self.extra = H, noise, extra

    @staticmethod
    def _c(b: Array) -> Array:
        return np.concatenate([[1.0], -b])

    def residuals(self, b: Array) -> Array:
        """Return r̂(b) = H (1, -b)."""
        return np.asarray(self.H @ self._c(b))

    def variance(self, b: Array) -> Array:
        """Return V(b), quadratic in (1, -b)."""
        V = self.noise.variance(self._c(b))
        return V if self.extra is None else V + self.extra

    def jacobian(self, b: Array) -> Array:
        """Return -G."""
        return -self.H[:, 1:]

    def corrected_jacobian(self, b: Array, x: Array) -> Array:
        """Return E - G, E the noise with (H - E) (1, -b) = 0."""
        return (self.noise.covariance(x[None], self._c(b)[None])[0] - self.H)[:, 1:]

    def solve(self, start: Array | None = None) -> Array | None:
        """Return G⁻¹ h; None where G is singular."""
        try:
            return np.asarray(np.linalg.solve(self.H[:, 1:], self.H[:, 0]))
        except np.linalg.LinAlgError:
            return None

    def one_form(self) -> bool:
        """Return whether V(b) = (c' Ω c) W. Then the profile sets at one degree of freedom are exact.

        V is quadratic in c. If it is proportional to the same W at points in general position, it is everywhere.

        >>> Linear(np.array([[2.0, 4.0]]), Noise(np.eye(2)[1:], np.eye(2), np.eye(2))).one_form()
        True
        """
        if self.extra is not None:
            return False
        V = self.noise.variance(np.random.default_rng(0).normal(size=(_POINTS, self.p + 1)))
        V = V / np.maximum(np.linalg.norm(V, axis=(1, 2), keepdims=True), 1e-300)
        return bool(np.abs(V - V[0]).max() <= _SAME_FORM)

    def distance_at_infinity(self) -> float:
        """Return the least distance at infinity: above the quantile of a set, no set is unbounded; below it, all are.

        It is the least noise E, in standard deviations squared, that makes G - E singular. From u' (G - E) v = 0, with
        the singular vectors u, v of the last G - E, the next E follows (the iteration of Hasofer & Lind, 1974). This
        is a local search, from every feature and the smallest singular values, and its result is never too small. If
        a search does not converge, its result is the least noise that makes (G - E) v = 0 for one of its v.

        >>> noise = Noise(np.eye(2)[1:], np.eye(2), np.diag([0.0, 0.25]))
        >>> round(Linear(np.array([[2.0, 4.0]]), noise).distance_at_infinity(), 6)
        64.0
        """
        G, p = self.H[:, 1:], self.p
        units = np.eye(p)
        spread = np.einsum("kjj->j", self._at_infinity(units))
        scale = 1.0 / np.sqrt(np.maximum(spread, 1e-300))
        u = np.array([*units, *(np.linalg.svd(scale[:, None] * G * scale)[0].T * scale)[::-1][: min(4, p)]])
        v = np.linalg.lstsq(G, u.T, rcond=None)[0].T
        start, before, visited = np.arange(len(u)), np.full(len(u), math.inf), [(np.arange(len(u)), v)]
        found = np.full(len(u), math.inf)
        for step in range(60):
            shared = self.noise.covariance(u, self._towards(v))[:, :, 1:]
            variance, off = np.einsum("nj,njk,nk->n", u, shared, v), np.einsum("nj,jk,nk->n", u, G, v)
            some = variance > 0.0
            start, before, v, variance, off = start[some], before[some], v[some], variance[some], off[some]
            if not len(start):
                break
            M = G - shared[some] * (off / variance)[:, None, None]
            u, v = _smallest(M) if step < _WHOLE else _smallest_near(M, v)
            distance = off**2 / variance
            settled = np.abs(distance - before) <= _LEAST_GAIN * distance
            rest, of_G = np.einsum("nj,njk,nk->n", u, M, v), np.einsum("nj,jk,nk->n", u, G, v)
            singular = settled & (np.abs(rest) <= 1e-4 * np.abs(of_G))
            found[start[singular]] = distance[singular]
            start, before, u, v = start[~settled], distance[~settled], u[~settled], v[~settled]
            visited.append((start, v))
        rest = [w for at, all_v in visited for k, w in zip(at, all_v, strict=True) if math.isinf(found[k])]
        return min([float(found.min()), *self._each_at_infinity(np.array(rest).reshape(-1, p))])

    @staticmethod
    def _towards(v: Array) -> Array:
        """Return (1, -b) over t for b = -t v, as t grows to infinity."""
        return np.column_stack([np.zeros(len(v)), v])

    def _at_infinity(self, v: Array) -> Array:
        """Return V(b) over t² for b = t v, as t grows to infinity: one for each row of v."""
        return self.noise.variance(self._towards(v))

    def _each_at_infinity(self, v: Array) -> list[float]:
        """Return the distance of b = t v as t grows to infinity, for each row of v."""
        distances = []
        for r, V in zip(v @ self.H[:, 1:].T, self._at_infinity(v), strict=True):
            x = self._over(V, r)
            within = np.linalg.norm(V @ x - r) <= 1e-6 * np.linalg.norm(r)  # otherwise no noise explains r
            distances.append(float(r @ x) if within else math.inf)
        return distances


def _smallest(M: Array) -> tuple[Array, Array]:
    """Return left and right vectors of the smallest singular value of each matrix."""
    U, _, Vt = np.linalg.svd(M)
    return U[:, :, -1], Vt[:, -1]


def _smallest_near(M: Array, v: Array) -> tuple[Array, Array]:
    """Return the same by inverse iteration from v, for matrices that are nearly singular."""
    try:
        inverse = np.linalg.inv(M)
    except np.linalg.LinAlgError:
        return _smallest(M)
    for _ in range(4):
        u = np.einsum("njk,nj->nk", inverse, v)
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        v = np.einsum("njk,nk->nj", inverse, u)
        v /= np.linalg.norm(v, axis=1, keepdims=True)
    return u, v


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


class Solution:
    """A solution b of noisy equations, and the profile sets of its coefficients.

    Attributes
    ----------
    covariance : ndarray of shape (p, p)
        By linearisation: of J⁻¹ e, e of covariance V(b).
    errors : ndarray of shape (p,)
        Standard errors, from `covariance`.
    """

    def __init__(self, equations: Equations, b: Array) -> None:
        self.equations, self.b = equations, b
        inverse = np.linalg.pinv(equations.jacobian(b))
        self.covariance = inverse @ equations.variance(b) @ inverse.T
        self.errors = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def along(self, j: int, value: float) -> Array:
        """Return where the linearised equations have their least distance with b_j = `value`."""
        variance = self.covariance[j, j]
        return self.b if variance <= 0.0 else self.b + (value - self.b[j]) / variance * self.covariance[j]

    def profile(self, j: int, value: float, start: Array) -> tuple[float, Array]:
        """Return the least distance with b_j = `value`, and the point of that distance, searched from `start`."""
        least, at, _ = self._descend(j, value, start)
        return least, at

    def _descend(self, j: int, value: float, start: Array, steps: int = 200) -> tuple[float, Array, float]:
        """Return the least distance with b_j = `value`, its point, and its derivative by `value`.

        Gauss-Newton steps along the exact slope, shortened where the distance does not fall (Levenberg and Marquardt).
        """
        others = np.arange(self.equations.p) != j
        at = start.copy()
        at[j] = value
        best, slope, curvature = self.equations.local(at)
        damping = 0.0
        for _ in range(steps if others.any() else 0):
            A = curvature[np.ix_(others, others)]
            step = np.zeros(len(at))
            step[others] = _solved(A + damping * np.diag(np.diag(A)), -slope[others])
            trial = self.equations.local(at + step) if np.isfinite(step).all() else (math.inf, slope, curvature)
            if trial[0] < best:
                gained, at = best - trial[0], at + step
                best, slope, curvature = trial
                if gained <= _LEAST_GAIN * max(1.0, best) and damping <= 1e-2:
                    break
                damping = damping / 10 if damping > 1e-6 else 0.0
            elif damping >= 1e4 or abs(slope[others] @ step[others]) <= _LEAST_GAIN * max(1.0, best):
                break
            else:
                damping = max(10 * damping, 1e-3)
        return best, at, float(slope[j])

    def interval(self, j: int, quantile: float, *, unbounded: bool = False) -> tuple[float, float]:
        """Return the ends of {b_j : the least distance is at most `quantile`} around the solution b.

        `unbounded`: if this is known already (`Equations.distance_at_infinity`), nothing is searched.
        """
        if unbounded:
            return -math.inf, math.inf
        error = float(self.errors[j])
        if error == 0.0:
            return float(self.b[j]), float(self.b[j])
        return self._end(j, quantile, -error), self._end(j, quantile, error)

    def _end(self, j: int, quantile: float, error: float) -> float:
        """Return where the least distance reaches the quantile, going from b_j by multiples of `error`."""
        near = self._end_nearby(j, quantile, error)
        if near is not None:
            return near
        # The root of the least distance is nearly linear in b_j, so Newton's method on it converges fast.
        root, middle = math.sqrt(quantile), float(self.b[j])
        inner, outer, t, at = 0.0, math.inf, 1.2 * root, self.b
        while t < _FAR:
            starts = at, self.along(j, middle + t * error)
            least, at, slope = min((self._descend(j, middle + t * error, start) for start in starts), key=itemgetter(0))
            inner, outer = (t, outer) if least <= quantile else (inner, min(outer, t))
            if abs(least - quantile) <= _SETTLED * quantile or outer - inner <= 1e-9 * inner:
                return middle + t * error
            rise = slope * error / (2 * math.sqrt(max(least, 1e-300)))
            step = (root - math.sqrt(max(least, 0.0))) / rise if rise > 0 else math.inf
            if inner < t + step < min(outer, 2.5 * t):
                t += step
            else:
                t = 2.5 * t if outer == math.inf else (inner + outer) / 2
        return math.copysign(math.inf, error)

    def _end_nearby(self, j: int, quantile: float, error: float) -> float | None:
        """Return the same by Newton's method from the end of the linearisation; None if it does not converge."""
        others = np.arange(self.equations.p) != j
        at = self.b + math.sqrt(quantile) / error * self.covariance[j]
        for _ in range(12):
            distance, slope, curvature = self.equations.local(at)
            tight = np.sqrt(quantile * np.maximum(np.diag(curvature), 0.0))
            gap = distance - quantile
            curvature = curvature.copy()
            curvature[j] = slope  # the distance is the quantile, and least over the others
            aim = -slope
            aim[j] = -gap
            step = _solved(curvature, aim)
            if not np.isfinite(step).all() or np.abs(step[j]) > abs(error) * math.sqrt(quantile):
                return None
            at = at + step
            if abs(step[j]) <= _SETTLED * abs(error):
                settled = (np.abs(slope[others]) <= 1e-2 * tight[others]).all()
                return float(at[j]) if settled and (at[j] - self.b[j]) * error > 0 else None
        return None

    def p_value(self, j: int, degrees: int, at_infinity: float, *, unbounded: bool = False) -> float:
        """Return the p-value of b_j = 0: the level at which its set with these degrees of freedom just contains 0.

        The least distance is searched from the minimum of the linearised equations, and near a singular design also
        from b: if the search missed the least distance, the p-value would be too small. `unbounded`: no set is finite,
        so the least distance may lie at infinity; the search is short, and its result at most the distance there.

        >>> one = Linear(np.array([[1.96, 1.0]]), Noise(np.eye(2)[1:], np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])))
        >>> round(Solution(one, np.array([1.96])).p_value(0, 1, np.inf), 2)
        0.05
        """
        if unbounded:
            least = min(self._descend(j, 0.0, self.along(j, 0.0), _FEW)[0], at_infinity)
            return float(stats.chi2.sf(least, degrees))
        starts = [self.along(j, 0.0), *([self.b] if at_infinity < NEARLY_LINEAR else [])]
        least = min(self.profile(j, 0.0, start)[0] for start in starts)
        return float(stats.chi2.sf(least, degrees))

    def coefficient(self, name: str, j: int, *, confidence: float, guaranteed: bool, at_infinity: float) -> Coefficient:
        """Return one coefficient with its profile set at one degree of freedom, exact where V's form proves it.

        `guaranteed`: with the interval of `Equations.guaranteed` instead.
        """
        equations = self.equations
        exact = self.one_form
        sampling = equations.extra is not None
        # At p > 1 degrees, or with a bound on its curvature, it covers more often than stated, whatever form V has.
        certified = guaranteed and (equations.p > 1 or equations.approximate)
        label = "asymptotic" if sampling else "certified" if certified else "exact" if exact else "asymptotic"
        degrees = equations.p if guaranteed else 1
        q = float(stats.chi2.ppf(confidence, degrees))
        if guaranteed:
            low, high = equations.guaranteed(self, j, confidence, at_infinity=at_infinity)
        else:
            low, high = self.interval(j, q, unbounded=at_infinity < q)
        # The interval of approximate equations does not follow from a distance.
        has_p = not (guaranteed and equations.approximate)
        p = self.p_value(j, degrees, at_infinity, unbounded=at_infinity < q) if has_p else math.nan
        return Coefficient(name, float(self.b[j]), float(self.errors[j]), low, high, p, label)

    @cached_property
    def one_form(self) -> bool:
        """Whether the noise has the form that proves sets at one degree of freedom."""
        return isinstance(self.equations, Linear) and self.equations.one_form()


def _solved(A: Array, x: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(A, x))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(A, x, rcond=None)[0])


def coefficients(
    equations: Equations, names: Sequence[str], b: Array, *, confidence: float, guaranteed: bool
) -> tuple[list[Coefficient], float, float]:
    """Return all coefficients with their sets, the least distance at infinity, and the quantile of the sets."""
    at_infinity, solution = equations.distance_at_infinity(), Solution(equations, b)
    sets = []
    with bar("coefficients", len(names)) as advance:
        for j, name in enumerate(names):
            one = solution.coefficient(name, j, confidence=confidence, guaranteed=guaranteed, at_infinity=at_infinity)
            sets.append(one)
            advance(1)
    return sets, at_infinity, float(stats.chi2.ppf(confidence, equations.p if guaranteed else 1))
