"""Fit a graphical model to noisy marginals: Bregman proximal steps, each solved in its dual.

The objective is L(mu) = 1/2 sum_i ||M_i(mu) - y_i||^2 / sigma_i^2 over the marginals mu of distributions with N
records (Private-PGM, McKenna et al. 2019, which takes mirror-descent steps instead). One outer step minimises
L(mu) + T KL(mu || mu_k), whose dual is smooth and well conditioned in one vector u per measured marginal:

    minimise over u   N log Z(theta_k + u) - <u, y> + T/2 sum_i sigma_i^2 |u_i|^2
    gradient          r = mu - y + T sigma^2 u                (one inference pass)
    duality gap       1/2 sum_i |r_i|^2 / sigma_i^2           (exact, in units of L)

and theta_{k+1} = theta_k + u. The bias of the entropy term vanishes over outer steps, along which L decreases.
The inner problem is solved by L-BFGS, whose curvature pairs stay valid across outer steps (the Hessian at a point
does not depend on k).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from marginalia.data.domain import Domain
from marginalia.errors import InputError
from marginalia.marginals.elimination import Clique
from marginalia.marginals.inference import Inference, balance
from marginalia.marginals.model import FitReport, GraphicalModel
from marginalia.marginals.plan import Plan, check_memory
from marginalia.threads import one_blas_thread


@dataclass(frozen=True)
class FitSettings:
    """Stopping rules of a fit, and the length of its proximal steps.

    Parameters
    ----------
    t : float
        T = t / min sigma: small values make long steps of hard subproblems.
    gap : float
        A subproblem ends when its duality gap is at most this share of L.
    decrease : float
        The fit ends when an outer step lowers L by at most this share of it ...
    passes : int
        ... or at the first outer step that ends after this many inference passes.
    min_outer : int
        Outer steps made before either ends the fit.
    most : int, optional
        A fit also ends inside a subproblem, once L is below what that started at: after this many passes ...
    near : float, optional
        ... or when each measurement is met within this L1 distance.
    proportional : bool
        Start with a step of iterative proportional fitting on the last measurement, if it lowers L. A warm start fits
        all measurements except the last.

    Examples
    --------
    >>> FINAL.decrease < ROUND_TIGHT.decrease, ROUND_TIGHT.passes > ROUND_QUICK.passes
    (True, True)
    """

    t: float = 1.0
    gap: float = 0.003
    decrease: float = 1e-5
    passes: int = 4000
    min_outer: int = 2
    most: int | None = None
    near: float | None = None
    proportional: bool = False


FINAL = FitSettings()
ROUND_TIGHT = FitSettings(t=3.0, gap=0.01, decrease=1e-3, passes=400)
ROUND_QUICK = FitSettings(t=10.0, gap=0.1, decrease=1e-3, passes=40)


_MEMORY = 10  # curvature pairs of L-BFGS
_FIRST_STEP = 2.0  # largest change of a dual variable before any curvature is known
_LONGEST_STEP = 6.0  # of proportional fitting
_STEP_LENGTHS = (1.0, 0.5, 0.25)  # tried, as shares of its full step
_MAX_INNER = 500  # passes of one subproblem; it normally stops on its gap


@dataclass(frozen=True)
class Measurement:
    """A noisy marginal.

    Parameters
    ----------
    attributes : sequence of str
    values : array-like of shape (size of each attribute, in the order given)
        Noisy counts.
    sigma : float
        Standard deviation of the noise of each count, positive.

    Examples
    --------
    >>> Measurement(("sex", "age"), [[10.2, 5.1], [7.9, 6.4]], sigma=1.0).attributes
    ('sex', 'age')
    """

    attributes: Sequence[str]
    values: ArrayLike
    sigma: float


def estimate(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    total: float | None = None,
    warm_start: GraphicalModel | None = None,
    settings: FitSettings = FINAL,
) -> GraphicalModel:
    """Return the graphical model that fits the measurements.

    Parameters
    ----------
    domain : Domain
        Domain, whose structural zeros get no mass.
    measurements : sequence of Measurement
        They may repeat, nest and overlap. Attributes in none of them are uniform in the model.
    total : float, optional
        Number of records; default: `estimate_total`.
    warm_start : GraphicalModel, optional
        Start here; each of its cliques must lie in a clique of the new model.
    settings : FitSettings

    Returns
    -------
    GraphicalModel
        With a `report` (`FitReport`).

    Raises
    ------
    InputError
        A measurement does not fit the domain, or the model does not fit in memory.

    Examples
    --------
    >>> from marginalia.data.domain import Column
    >>> domain = Domain([Column("a", 2), Column("b", 2)])
    >>> model = estimate(domain, [Measurement(("a",), [30.0, 10.0], 1.0), Measurement(("b",), [20.0, 20.0], 1.0)])
    >>> model.marginal(("a", "b")).round(3)
    array([[15., 15.],
           [ 5.,  5.]])
    """
    targets = _merge(domain, measurements)
    total = estimate_total(measurements) if total is None else float(total)
    if not 0 < total < math.inf:
        raise InputError(f"total must be a positive number of records, not {total!r}")
    plan = _plan([t.clique for t in targets], domain, warm_start)
    check_memory(plan)
    with one_blas_thread():
        fit = _Fit(plan, targets, total)
        theta = _initial(plan, domain, warm_start)
        if settings.proportional and measurements:
            theta = fit.towards(tuple(sorted(map(domain.index, measurements[-1].attributes))), theta)
        theta = fit.run(theta, settings)
    model = GraphicalModel(domain, plan, theta, total)
    model.inference = fit.inference  # calibrated at theta
    model.log_z = fit.inference.log_z
    model.report = fit.report
    return model


def estimate_total(measurements: Sequence[Measurement]) -> float:
    """Return the inverse-variance weighted mean of the measurements' sums (variance sigma^2 * cells), at least 1.

    >>> estimate_total([Measurement(("a",), [30.0, 10.0], 1.0), Measurement(("b",), [22.0, 22.0], 1.0)])
    42.0
    """
    weights = [1.0 / (m.sigma**2 * np.size(m.values)) for m in measurements]
    if not weights:
        raise InputError("without measurements the total must be given")
    sums = [float(np.sum(m.values)) for m in measurements]
    return max(1.0, sum(w * s for w, s in zip(weights, sums, strict=True)) / sum(weights))


@dataclass
class _Target:
    clique: Clique
    values: NDArray[np.float64]
    precision: float


def _merge(domain: Domain, measurements: Sequence[Measurement]) -> list[_Target]:
    """Average repeated measurements of a marginal by precision; order by clique."""
    targets: dict[Clique, _Target] = {}
    sizes = domain.sizes
    for m in measurements:
        positions = [domain.index(a) for a in m.attributes]
        values, shape = np.asarray(m.values, np.float64), tuple(sizes[a] for a in positions)
        if not positions or len(set(positions)) != len(positions):
            raise InputError(f"{_name(m)}: name at least one attribute, each once")
        if values.shape != shape:
            raise InputError(f"{_name(m)} has shape {values.shape}; the domain says {shape}")
        if not np.isfinite(values).all():
            raise InputError(f"{_name(m)} holds a value that is not finite")
        if not 0 < m.sigma < math.inf:
            raise InputError(f"{_name(m)}: sigma must be positive and finite, not {m.sigma!r}")
        order = sorted(range(len(positions)), key=positions.__getitem__)
        clique = tuple(positions[i] for i in order)
        flat, weight = np.transpose(values, order).ravel(), 1.0 / m.sigma**2
        if (old := targets.get(clique)) is not None:
            flat, weight = old.precision * old.values + weight * flat, old.precision + weight
            flat = flat / weight
        targets[clique] = _Target(clique, flat, weight)
    return [targets[c] for c in sorted(targets)]


def _name(m: Measurement) -> str:
    return f"measurement of {tuple(m.attributes)}"


def zero_cliques(domain: Domain) -> list[Clique]:
    """Return the cliques that every model of a domain contains: the attributes of each of its structural zeros.

    >>> zero_cliques(Domain.from_sizes({"a": 2, "b": 3}))
    []
    """
    return [tuple(sorted(domain.index(a) for a in z.attributes)) for z in domain.structural_zeros if z.cells]


def _plan(blocks: list[Clique], domain: Domain, warm_start: GraphicalModel | None) -> Plan:
    """Return the plan of these blocks: that of `warm_start` where it has the same ones."""
    zeros = zero_cliques(domain)
    if warm_start is not None:
        known = warm_start.plan
        if (known.blocks, known.extra, known.sizes) == (blocks, zeros, domain.sizes):
            return known
    return Plan(blocks, domain.sizes, extra=zeros)


def _initial(plan: Plan, domain: Domain, warm_start: GraphicalModel | None) -> NDArray[np.float64]:
    """Return the potentials to start from: those of `warm_start`, or uniform over the possible cells."""
    theta = np.zeros(plan.theta_at[-1])
    if warm_start is not None:
        same = plan is warm_start.plan
        theta = warm_start.theta.copy() if same else plan.embed(warm_start.plan, warm_start.theta)
    for zeros, clique in zip((z for z in domain.structural_zeros if z.cells), zero_cliques(domain), strict=True):
        host = next(i for i, c in enumerate(plan.cliques) if set(clique) <= set(c))
        axes = plan.cliques[host]
        table = theta[plan.theta_at[host] : plan.theta_at[host + 1]].reshape([plan.sizes[a] for a in axes])
        cells = dict(zip(map(domain.index, zeros.attributes), np.array(zeros.cells).T, strict=True))
        impossible = np.zeros([plan.sizes[a] if a in cells else 1 for a in axes], dtype=bool)
        impossible[tuple(cells.get(a, 0) for a in axes)] = True
        np.copyto(table, -np.inf, where=impossible)
    return theta


class _Fit:
    """One estimation problem: N, the targets y and their weights, on a plan."""

    def __init__(self, plan: Plan, targets: list[_Target], total: float) -> None:
        self.inference = Inference(plan)
        self.total = total
        self.y = np.concatenate([np.zeros(0), *(t.values for t in targets)])
        self.weights = np.concatenate([np.zeros(0), *(np.full(t.values.size, t.precision) for t in targets)])
        self.report = FitReport()
        self._pairs = _Curvature(self.y.size)
        self._starts = np.array(plan.block_at[:-1], np.int64)  # of each target in y

    def towards(self, clique: Clique, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `theta` after a step of iterative proportional fitting on a target, or as it is where L would rise.

        Margins of single attributes that other targets contain stay as they are: with those of one noisy target L would
        rise. The step is halved while L falls. The noise's standard deviation, added to both counts, keeps it finite.
        """
        plan = self.inference.plan
        at = plan.blocks.index(clique)
        part = slice(*plan.block_at[at : at + 2])
        step = np.zeros_like(self.y)
        mu, _ = self._evaluate(theta, step)
        best, loss = theta, self._loss(mu)
        old = mu[part]
        floor = 1.0 / math.sqrt(self.weights[part.start])
        others = {a for b in plan.blocks if b != clique for a in b}
        new = np.maximum(old + self._without_margins(clique, others, self.y[part] - old), 0.0)
        full = np.clip(np.log((new + floor) / (old + floor)), -_LONGEST_STEP, _LONGEST_STEP)
        for length in _STEP_LENGTHS:
            step[part] = length * full
            mu, _ = self._evaluate(theta, step)
            if (reached := self._loss(mu)) < loss:
                best, loss = self.inference.theta.copy(), reached
            elif best is not theta:
                break
        return best

    def _without_margins(self, clique: Clique, measured: set[int], change: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a change of a marginal without the change of the margins on the `measured` attributes."""
        table = change.reshape([self.inference.plan.sizes[a] for a in clique])
        mean, kept, removed = table.mean(), table.copy(), 0
        for i, a in enumerate(clique):
            if a in measured and len(clique) > 1:
                kept -= table.mean(axis=tuple(j for j in range(len(clique)) if j != i), keepdims=True)
                removed += 1
        return (kept + max(0, removed - 1) * mean).ravel()

    def run(self, theta: NDArray[np.float64], settings: FitSettings) -> NDArray[np.float64]:
        report = self.report
        zero = np.zeros_like(self.y)
        mu, log_z = self._evaluate(theta, zero)
        loss = self._loss(mu)
        if not self.y.size:
            report.loss = report.gap = report.decrease = 0.0
            return theta
        ridge = settings.t * math.sqrt(self.weights.max()) / self.weights  # T sigma^2
        while True:
            mu, log_z = self._subproblem(theta, mu, log_z, ridge, settings)
            if self._loss(mu) > loss:  # within the precision of the subproblem there is nothing left to gain
                self._evaluate(theta, zero)
                report.loss, report.decrease = loss, 0.0
                return theta
            theta = self.inference.theta.copy()
            if self.inference.domain != "linear":  # the same distribution in a form that needs no rescue
                theta = balance(theta, self.inference.plan)
            previous, loss = loss, self._loss(mu)
            report.outer += 1
            report.losses.append(loss)
            report.decrease = (previous - loss) / loss if loss > 0 else 0.0
            done = report.decrease <= settings.decrease or report.passes >= settings.passes
            if (report.outer >= settings.min_outer and done) or self._is_enough(mu, settings):
                report.loss = loss
                return theta

    def _is_enough(self, mu: NDArray[np.float64], settings: FitSettings) -> bool:
        """Return whether the passes are used up, or all targets are near enough."""
        if settings.most is not None and self.report.passes >= settings.most:
            return True
        if settings.near is None:
            return False
        distances = np.add.reduceat(np.abs(mu - self.y), self._starts)
        return bool((distances <= settings.near).all())

    def _subproblem(
        self,
        theta: NDArray[np.float64],
        mu: NDArray[np.float64],
        log_z: float,
        ridge: NDArray[np.float64],
        settings: FitSettings,
    ) -> tuple[NDArray[np.float64], float]:
        """Minimise the dual from u = 0, where mu and log Z are known; leave the pass at its solution."""
        u = np.zeros_like(self.y)
        trial, direction = np.empty_like(u), np.empty_like(u)
        value = self.total * log_z
        r = mu - self.y
        start = self._loss(mu)
        for _ in range(_MAX_INNER):
            self.report.gap = 0.5 * _weighted_square(self.weights, r)
            loss = self._loss(mu)
            # The exact solution lowers L; an inexact one may not, and is then made a thousand times more exact.
            if self.report.gap <= settings.gap * loss * (1.0 if loss < start else 1e-3):
                break
            if loss < start and self._is_enough(mu, settings):
                break
            slope = self._pairs.direction(r, mu, self.total, ridge, direction)
            step = 1.0
            if not self._pairs.count:
                step = min(1.0, _FIRST_STEP / float(np.abs(direction).max()))
            while True:
                _move(u, step, direction, trial)
                mu, log_z = self._evaluate(theta, trial)
                new = self.total * log_z - float(trial @ self.y) + 0.5 * _weighted_square(ridge, trial)
                # Beyond the precision of N log Z a decrease cannot be seen; the gap decides then.
                if new <= value + 1e-4 * step * slope + 1e-13 * abs(self.total * log_z):
                    break
                # Minimum of the parabola through value, slope and the trial, kept inside [0.1, 0.5] of the step.
                curve = new - value - step * slope
                step *= min(0.5, max(0.1, -0.5 * step * slope / curve)) if math.isfinite(curve) else 0.1
                if step < 1e-10:
                    return self._evaluate(theta, u)
            new_r = _gradient(mu, self.y, ridge, trial)
            self._pairs.push(u, trial, r, new_r)
            u, trial, r, value = trial, u, new_r, new
        return mu, log_z

    def _evaluate(self, theta: NDArray[np.float64], u: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        log_z = self.inference.evaluate(theta, u)
        self.report.passes += 1
        domains = self.report.domains
        domains[self.inference.domain] = domains.get(self.inference.domain, 0) + 1
        return self.total * self.inference.block_mu, log_z

    def _loss(self, mu: NDArray[np.float64]) -> float:
        return 0.5 * _weighted_square(self.weights, mu, self.y)


class _Curvature:
    """The last pairs (change of u, change of gradient) of L-BFGS (Nocedal & Wright 2006, Algorithm 7.4)."""

    def __init__(self, size: int) -> None:
        self._s = np.zeros((_MEMORY, size))
        self._y = np.zeros((_MEMORY, size))
        self._sy = np.ones(_MEMORY)
        self._change, self._bend = np.empty(size), np.empty(size)
        self._next = 0
        self.count = 0

    def push(
        self,
        u: NDArray[np.float64],
        new_u: NDArray[np.float64],
        r: NDArray[np.float64],
        new_r: NDArray[np.float64],
    ) -> None:
        """Keep the pair of a step from `u` to `new_u`, unless rounding hides its curvature."""
        s, y = self._change, self._bend
        sy = _differences(u, new_u, r, new_r, s, y)
        if not sy > 1e-12 * math.sqrt(float(s @ s) * float(y @ y)):
            return
        self._s[self._next], self._y[self._next], self._sy[self._next] = s, y, sy
        self._next = (self._next + 1) % _MEMORY
        self.count = min(self.count + 1, _MEMORY)

    def direction(
        self,
        gradient: NDArray[np.float64],
        mu: NDArray[np.float64],
        total: float,
        ridge: NDArray[np.float64],
        out: NDArray[np.float64],
    ) -> float:
        """Set `out` to minus the approximate inverse Hessian times `gradient`; return its product with `gradient`.

        The initial diagonal of the Hessian is mu (1 - mu / total) + ridge.
        """
        return float(_two_loops(gradient, mu, total, ridge, self._s, self._y, self._sy, self._next, self.count, out))


# One loop each in place of several expressions of arrays. Every number is the one that those give, to the last bit:
# elements round alike, and sums are left to BLAS.


@njit(cache=True)
def _weighted_square(weights, a, b=None):  # type: ignore[no-untyped-def]
    """Return the sum of weights * (a - b)^2; b is 0 where it is not given."""
    square = np.empty(a.size)
    for j in range(a.size):
        x = a[j] if b is None else a[j] - b[j]
        square[j] = x * x
    return np.dot(weights, square)


@njit(cache=True)
def _move(u, step, direction, out):  # type: ignore[no-untyped-def]
    for j in range(u.size):
        out[j] = u[j] + step * direction[j]


@njit(cache=True)
def _gradient(mu, y, ridge, u):  # type: ignore[no-untyped-def]
    out = np.empty(u.size)
    for j in range(u.size):
        out[j] = mu[j] - y[j] + ridge[j] * u[j]
    return out


@njit(cache=True)
def _differences(u, new_u, r, new_r, s, y):  # type: ignore[no-untyped-def]
    """Set `s` and `y` to the changes of u and r; return their product."""
    for j in range(u.size):
        s[j] = new_u[j] - u[j]
        y[j] = new_r[j] - r[j]
    return np.dot(s, y)


@njit(cache=True)
def _two_loops(gradient, mu, total, ridge, s, y, sy, after_newest, count, out):  # type: ignore[no-untyped-def]
    q = out
    for j in range(q.size):
        q[j] = gradient[j]
    memory = sy.size
    alpha = np.empty(count)
    for i in range(count):
        k = (after_newest - 1 - i) % memory
        a = alpha[i] = np.dot(s[k], q) / sy[k]
        for j in range(q.size):
            q[j] -= a * y[k, j]
    for j in range(q.size):
        q[j] *= 1.0 / (mu[j] * (1.0 - mu[j] / total) + ridge[j])
    for i in range(count - 1, -1, -1):
        k = (after_newest - 1 - i) % memory
        change = alpha[i] - np.dot(y[k], q) / sy[k]
        for j in range(q.size):
            q[j] += change * s[k, j]
    for j in range(q.size):
        q[j] = -q[j]
    return np.dot(q, gradient)
