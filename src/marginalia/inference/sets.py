"""Confidence sets for the solution b of noisy estimating equations r(b) = 0, whose noise is known.

With r̂(b) = r(b) + e(b), e Gaussian of covariance V(b), the set {b : r̂(b)' V(b)⁻¹ r̂(b) <= q} covers each solution with
the probability that a chi-squared variable of p degrees of freedom stays below q: at every number of rows, and also
where the equations are nearly singular, where intervals from a linearisation (Wald's) fail (Fieller 1954; Dufour 1997).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from marginalia.inference.noise import Noise
from marginalia.progress import bar

Array = NDArray[np.float64]
T = TypeVar("T")
NEARLY_LINEAR = 100  # distance at infinity from which the equations are nearly linear near their solution
_FAR = 1e4  # standard errors: a set that reaches this far is unbounded
_SAME_FORM = 1e-9  # of the length of V
_POINTS = 4  # at which the form of V is compared
_WHOLE = 2  # steps of the search for the distance at infinity with all singular values
_FROM_ALL = 3  # steps of this search from all starts
_FOLLOWED = 6  # starts from which this search goes on
_TURNS = 5  # changes of the coordinate that is fixed in a search at infinity
_CHUNK = 32  # directions whose distances are computed at once
_SAME = 1 - 1e-6  # cosine of two directions of one search
_WELL = 1e6  # condition of equations that are solved for a part of their noise
_SETTLED = 1e-6  # of a distance, and of a standard error
_FEW = 20  # steps of a search where no set is finite, or of a second one
_MOST = 200  # steps of a search
_LEAST_GAIN = 1e-8  # of a distance, by one step of a search
_IN_STEP = 32  # coefficients whose sets are searched side by side


class Local(NamedTuple):
    """A distance and its derivatives at a point; `above` is at least as large as the second one, and never negative."""

    distance: float
    slope: Array
    hessian: Array
    above: Array


Search = Generator[Array, Local, T]  # yields points, is sent the distance and its derivatives there, and returns a T


def in_step(local: Callable[[Array], Sequence[Local]], searches: Sequence[Search[T]]) -> list[T]:
    """Return the results of some searches that go on side by side: the points of all are computed at once.

    Parameters
    ----------
    local : callable
        From points, shape (n, p), to the distance at each, and its derivatives.
    searches : sequence of Search
    """
    found: dict[int, T] = {}
    sent: dict[int, Local | None] = dict.fromkeys(range(len(searches)))
    while sent:
        points: dict[int, Array] = {}
        for k, at in sent.items():
            try:
                points[k] = next(searches[k]) if at is None else searches[k].send(at)
            except StopIteration as end:
                found[k] = end.value
        sent = dict(zip(points, local(np.array([*points.values()])), strict=True)) if points else {}
    return [found[k] for k in range(len(searches))]


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

    def each_local(self, points: Array) -> list[Local]:
        """Return `local` of each of some points, shape (n, p)."""
        return [self.local(b) for b in points]

    @abstractmethod
    def local(self, b: Array) -> Local:
        """Return the distance and its derivatives by b, the second exact or as Gauss and Newton have it."""

    def _overflown(self) -> Local:
        return Local(math.inf, np.zeros(self.p), np.eye(self.p), np.eye(self.p))

    @staticmethod
    def _over(V: Array, x: Array) -> Array:
        factor, failed = dpotrf(V)
        return np.asarray(np.linalg.pinv(V) @ x if failed else dpotrs(factor, x)[0])

    def guaranteed(self, j: int, confidence: float) -> tuple[float, float] | None:
        """Return an interval of coefficient j; all p intervals hold together. None: that of p degrees of freedom."""
        del j, confidence
        return None

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

    @cached_property
    def _solved_for_noise(self) -> tuple[Array, Noise]:
        """H and its noise, both times a matrix from the left so that the noise needs none; no distance changes."""
        left = self.noise.left
        used = np.flatnonzero(left.any(axis=0))
        if len(used) != self.p or np.linalg.cond(left[:, used]) > _WELL:
            return self.H, self.noise
        choice = np.zeros_like(left)
        choice[np.arange(self.p), used] = 1.0
        noise = Noise(choice, self.noise.right, self.noise.pairs, self.noise.terms)
        return np.asarray(np.linalg.solve(left[:, used], self.H)), noise

    def local(self, b: Array) -> Local:
        """Return the distance and its derivatives by b, the second one exact."""
        at = self._local(self._c(b), self.extra)
        return at._replace(slope=-at.slope)

    def _local(self, c: Array, extra: Array | None = None) -> Local:
        """Return the distance for H c, and its derivatives by all entries of c but the first."""
        H, noise = self._solved_for_noise if extra is None else (self.H, self.noise)
        r, V = H @ c, noise.variance(c)
        V = V if extra is None else V + extra
        if not (np.isfinite(r).all() and np.isfinite(V).all()):
            return self._overflown()
        factor, failed = dpotrf(V)
        x = np.asarray(np.linalg.pinv(V) @ r if failed else dpotrs(factor, r)[0])
        of_entries, of_rows, of_columns = noise.second(x, c)
        Q = (H - of_rows)[:, 1:]
        if failed:
            above = 2 * Q.T @ np.linalg.pinv(V) @ Q
        else:
            Z = dtrtrs(factor, Q, trans=1)[0]
            above = 2 * Z.T @ Z
        return Local(float(r @ x), 2 * (x @ H - of_entries)[1:], above - 2 * of_columns[1:, 1:], above)

    def _local_at_infinity(self, v: Array) -> Local:
        """Return the same for b = t v as t grows to infinity, by v."""
        if not math.isfinite(self._each_at_infinity(v[None])[0]):
            return self._overflown()
        return self._local(np.concatenate([[0.0], v]))

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
        the singular vectors u, v of the last G - E, the next E follows (the iteration of Hasofer & Lind, 1974): from
        every feature and the smallest singular values, and after some steps from the nearest directions only. Newton's
        method goes on from the nearest directions, too. Both are local searches, and the result is never too small: it
        is the least noise that makes (G - E) v = 0 for one of the directions v.

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
        before, visited, least = np.full(len(u), math.inf), [], math.inf  # with a bound of the distance of each
        for step in range(60):
            shared = self.noise.covariance(u, self._towards(v))[:, :, 1:]
            variance, off = np.einsum("nj,njk,nk->n", u, shared, v), np.einsum("nj,jk,nk->n", u, G, v)
            distance = np.divide(off**2, variance, out=np.zeros(len(off)), where=variance > 0.0)
            visited.append((distance, v))
            some = (variance > 0.0) & (np.abs(distance - before) > _LEAST_GAIN * distance)
            if step == _FROM_ALL:
                least = self._nearest_at_infinity(v)
                some &= distance <= np.sort(np.where(some, distance, math.inf))[min(_FOLLOWED, len(u)) - 1]
            if not some.any():
                break
            M = G - shared[some] * (off / variance)[some, None, None]
            before = distance[some]
            u, v = _smallest(M) if step < _WHOLE else _smallest_near(M, v[some])
        else:
            visited.append((np.zeros(len(v)), v))
        bounds, directions = (np.concatenate(part) for part in zip(*visited, strict=True))
        order = np.argsort(bounds, kind="stable")
        for chunk in (order[k : k + _CHUNK] for k in range(0, len(order), _CHUNK)):
            if bounds[chunk[0]] >= least:
                break
            least = min(least, *self._each_at_infinity(directions[chunk]))
        return least

    def _nearest_at_infinity(self, v: Array) -> float:
        """Return the least distance at infinity that Newton's method finds from the nearest of some directions."""
        distances, least, followed = self._each_at_infinity(v), math.inf, np.zeros((0, self.p))
        scale = np.sqrt(np.maximum(np.abs(np.diag(self.H[:, 1:])), 1e-300))  # the features in like units

        def at_infinity(points: Array) -> list[Local]:
            return [self._local_at_infinity(v) for v in points]

        for k in np.argsort(distances, kind="stable").tolist():
            at = v[k]
            direction = at * scale / np.linalg.norm(at * scale)
            if not math.isfinite(distances[k]) or len(followed) == _FOLLOWED:
                break
            if (np.abs(followed @ direction) < _SAME).all():
                followed = np.vstack([followed, direction])
                before = math.inf
                for _ in range(_TURNS):
                    at = at / np.linalg.norm(at * scale)
                    others = np.arange(self.p) != np.argmax(np.abs(at * scale))  # the length of v does not matter
                    [(near, at)] = in_step(at_infinity, [_descend(at, others, _FEW)])
                    settled = near.distance > before * (1 - _SETTLED)
                    before = near.distance
                    least = min(least, before)
                    if settled or not math.isfinite(before):
                        break
        return least

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

    def profile(self, j: int, value: float, start: Array, steps: int = _MOST) -> Search[tuple[Local, Array]]:
        """Return the least distance with b_j = `value`, and its point, searched from `start`."""
        at = start.copy()
        at[j] = value
        return (yield from _descend(at, np.arange(len(at)) != j, steps))

    def interval(self, j: int, quantile: float, *, unbounded: bool = False) -> Search[tuple[float, float]]:
        """Return the ends of {b_j : the least distance is at most `quantile`} around the solution b.

        `unbounded`: if this is known already (`Equations.distance_at_infinity`), nothing is searched.
        """
        if unbounded:
            return -math.inf, math.inf
        error = float(self.errors[j])
        if error == 0.0:
            return float(self.b[j]), float(self.b[j])
        low = yield from self._end(j, quantile, -error)
        return low, (yield from self._end(j, quantile, error))

    def _end(self, j: int, quantile: float, error: float) -> Search[float]:
        """Return where the least distance reaches the quantile, going from b_j by multiples of `error`."""
        near = yield from self._end_nearby(j, quantile, error, self.along(j, self.b[j] + math.sqrt(quantile) * error))
        if near is not None:
            return near
        # The root of the least distance is nearly linear in b_j, so Newton's method on it converges fast.
        root, middle = math.sqrt(quantile), float(self.b[j])
        inner, outer, t, at, ahead = 0.0, math.inf, 1.2 * root, self.b, None
        while t < _FAR:
            value = middle + t * error
            found = [(yield from self.profile(j, value, self.along(j, value)))]
            if ahead is not None:  # on from the last point, along the least distances
                found.append((yield from self.profile(j, value, at + (value - at[j]) * ahead, _FEW)))
            here, at = min(found, key=lambda one: one[0].distance)
            least = here.distance
            inner, outer = (t, outer) if least <= quantile else (inner, min(outer, t))
            if abs(least - quantile) <= _SETTLED * quantile or outer - inner <= 1e-9 * inner:
                return value
            near = yield from self._end_nearby(j, quantile, error, at)
            if near is not None and inner <= (near - middle) / error <= outer:
                return near
            ahead = self._ahead(j, here)
            rise = float(here.slope[j]) * error / (2 * math.sqrt(max(least, 1e-300)))
            step = (root - math.sqrt(max(least, 0.0))) / rise if rise > 0 else math.inf
            if inner < t + step < min(outer, 2.5 * t):
                t += step
            else:
                t = 2.5 * t if outer == math.inf else (inner + outer) / 2
        return math.copysign(math.inf, error)

    def _ahead(self, j: int, here: Local) -> Array:
        """Return the derivative by b_j of the point of the least distance."""
        others = np.arange(self.equations.p) != j
        ahead = np.ones(self.equations.p)
        square = np.ix_(others, others)
        ahead[others] = _newton_step(here.hessian[square], here.above[square], here.hessian[others, j])
        return ahead

    def _end_nearby(self, j: int, quantile: float, error: float, at: Array) -> Search[float | None]:
        """Return the same by Newton's method from a point; None if it does not converge."""
        others = np.arange(self.equations.p) != j
        for _ in range(12):
            distance, slope, hessian, above = yield at
            tight = np.sqrt(quantile * np.maximum(np.diag(above), 0.0))
            gap = distance - quantile
            curvature = hessian.copy()
            curvature[j] = slope  # the distance is the quantile, and least over the others
            aim = -slope
            aim[j] = -gap
            step = _solved(curvature, aim)
            if not np.isfinite(step).all() or abs(step[j]) > 2 * abs(at[j] - self.b[j]):
                return None
            at = at + step
            if abs(step[j]) <= _SETTLED * abs(error):
                settled = (np.abs(slope[others]) <= 1e-2 * tight[others]).all()
                settled &= not others.any() or dpotrf(hessian[np.ix_(others, others)])[1] == 0  # no saddle
                return float(at[j]) if settled and (at[j] - self.b[j]) * error > 0 else None
        return None

    def p_value(self, j: int, degrees: int, at_infinity: float, *, unbounded: bool = False) -> Search[float]:
        """Return the p-value of b_j = 0: the level at which its set with these degrees of freedom just contains 0.

        The least distance is searched from the minimum of the linearised equations, and near a singular design also
        from b: if the search missed the least distance, the p-value would be too small. `unbounded`: no set is finite,
        so the least distance may lie at infinity; the search is short, and its result at most the distance there.

        >>> one = Linear(np.array([[1.96, 1.0]]), Noise(np.eye(2)[1:], np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])))
        >>> search = Solution(one, np.array([1.96])).p_value(0, 1, np.inf)
        >>> round(in_step(one.each_local, [search])[0], 2)
        0.05
        """
        if unbounded:
            near, _ = yield from self.profile(j, 0.0, self.along(j, 0.0), _FEW)
            return float(stats.chi2.sf(min(near.distance, at_infinity), degrees))
        least = math.inf
        for start in [self.along(j, 0.0), *([self.b] if at_infinity < NEARLY_LINEAR else [])]:
            near, _ = yield from self.profile(j, 0.0, start)
            least = min(least, near.distance)
        return float(stats.chi2.sf(least, degrees))

    def coefficient(
        self, name: str, j: int, *, confidence: float, guaranteed: bool, at_infinity: float
    ) -> Search[Coefficient]:
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
        own = equations.guaranteed(j, confidence) if guaranteed else None
        low, high = own or (yield from self.interval(j, q, unbounded=at_infinity < q))
        # The interval of approximate equations does not follow from a distance.
        has_p = not (guaranteed and equations.approximate)
        p = (yield from self.p_value(j, degrees, at_infinity, unbounded=at_infinity < q)) if has_p else math.nan
        return Coefficient(name, float(self.b[j]), float(self.errors[j]), low, high, p, label)

    @cached_property
    def one_form(self) -> bool:
        """Whether the noise has the form that proves sets at one degree of freedom."""
        return isinstance(self.equations, Linear) and self.equations.one_form()


def _descend(at: Array, others: NDArray[np.bool_], steps: int = _MOST) -> Search[tuple[Local, Array]]:
    """Return the least distance over some unknowns, and its point.

    Newton steps, shortened where the distance does not fall (Levenberg and Marquardt).
    """
    best, damping, square = (yield at), 0.0, np.ix_(others, others)
    for _ in range(steps if others.any() and math.isfinite(best.distance) else 0):
        scale = damping * np.diag(np.diag(best.above)[others])
        step, slope = np.zeros(len(at)), best.slope[others]
        step[others] = _newton_step(best.hessian[square] + scale, best.above[square] + scale, slope)
        trial = (yield at + step) if np.isfinite(step).all() else best
        least_gain = _LEAST_GAIN * max(1.0, best.distance)
        if trial.distance < best.distance:
            gained, at, best = best.distance - trial.distance, at + step, trial
            if gained <= least_gain and damping <= 1e-2:
                break
            damping = damping / 10 if damping > 1e-6 else 0.0
        elif damping >= 1e4 or abs(slope @ step[others]) <= least_gain:
            break
        else:
            damping = max(10 * damping, 1e-3)
    return best, at


def _newton_step(hessian: Array, above: Array, slope: Array) -> Array:
    factor, failed = dpotrf(hessian)
    return _solved(above, -slope) if failed else np.asarray(dpotrs(factor, -slope)[0])


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
    sets: list[Coefficient] = []
    with bar("coefficients", len(names)) as advance:
        for first in range(0, len(names), _IN_STEP):
            searches = [
                solution.coefficient(name, j, confidence=confidence, guaranteed=guaranteed, at_infinity=at_infinity)
                for j, name in enumerate(names[first : first + _IN_STEP], first)
            ]
            sets += in_step(equations.each_local, searches)
            advance(len(searches))
    return sets, at_infinity, float(stats.chi2.ppf(confidence, equations.p if guaranteed else 1))
