"""Marginals and log Z of a graphical model: one pass in the linear domain, with a certificate and two fallbacks.

1. Linear domain. Products below 1e-308 are flushed to zero. With every factor at most 1, a component of |Omega|
   cells and partition function e^margin loses at most |Omega|^2 * cells * e^(-708 - margin) of its mass, so
   margin > -671 + 2 ln|Omega| + ln(cells) certifies a loss below 1e-16.
2. Balancing (max-sum diffusion, Kovalevsky & Koval; Werner 2007): equalise the maxima of all factors over each value
   of each attribute. The same distribution, a far larger margin; then again 1.
3. The same program on logarithms.

Wide models need both fallbacks. With normal potentials of standard deviation 20, a chain of 40 attributes of 10 values
passes in the linear domain, a chain of 60 needs balancing, and a chain of 200 needs logarithms.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from marginalia.errors import InputError
from marginalia.marginals import interpreter
from marginalia.marginals.plan import Plan

_SWEEPS = 4


class Inference:
    """A calibrated model: all tables of the last pass, in one preallocated workspace.

    It holds probabilities (their logarithms after a log-domain pass, except the marginals `mu`). The workspace has room
    behind the tables of the pass for computing further marginals.

    >>> inference = Inference(Plan([(0, 1)], (2, 2)))
    >>> inference.theta[:] = np.log([1.0, 2.0, 3.0, 4.0])
    >>> round(math.exp(inference.calibrate()), 9), inference.mu
    (10.0, array([0.1, 0.2, 0.3, 0.4]))
    """

    def __init__(self, plan: Plan, *, scratch_bytes: int = 2**28) -> None:
        self.plan = plan
        # Pages of fresh zeros cost nothing until they are touched: the scratch behind the pass's own tables is free.
        self.memory = np.zeros(plan.n_workspace + scratch_bytes // 8)
        self.scratch_bytes = scratch_bytes
        self.workspace = self.memory[: plan.n_workspace]
        self.theta = self.workspace[plan.theta]  # potentials, one table after the other in the order of `plan.cliques`
        self.mu = self.workspace[plan.mu]  # clique marginals (probabilities) of the last pass, laid out as `theta`
        self._values, self._dual = self.workspace[plan.values], self.workspace[plan.dual]
        self.block_mu = self.workspace[plan.block_mu]  # block marginals (probabilities) after `evaluate`
        self.domain: Literal["linear", "balanced", "log"] = "linear"  # how the last pass was computed
        self.log_z = 0.0
        self._scales = np.ones(plan.n_scales)
        self._starts = np.array(plan.theta_at, np.int64)
        self._tops = np.zeros(len(plan.cliques))
        cells = sum(t.cells for t in plan.nodes)
        step = {v: i for i, v in enumerate(plan.order)}
        self._component = np.zeros(plan.n_scales, np.int64)  # of each factor that SCALE takes out
        for i, (attributes, _, _) in enumerate(plan.components):
            self._component[[step[v] for v in attributes]] = i
        self._floors = np.array(
            [
                -671.0 + 2.0 * sum(math.log(plan.sizes[a]) for a in attributes) + math.log(cells)
                for attributes, _, _ in plan.components
            ]
        )

    def evaluate(self, theta: NDArray[np.float64], dual: NDArray[np.float64]) -> float:
        """Run a pass at the potentials `theta` plus the broadcast duals; fill `block_mu`; return log Z."""
        w = self.workspace
        self.theta[:] = theta
        self._dual[:] = dual
        interpreter.run(self.plan.expand, w, self._scales)
        self.calibrate()
        interpreter.run(self.plan.project, w, self._scales)
        return self.log_z

    def calibrate(self) -> float:
        """Compute `log_z`, `mu` and all messages from `theta`; return log Z."""
        self.domain = "linear"
        if not self._linear(self.theta):
            balanced = balance(self.theta, self.plan)
            self.domain = "balanced"
            if not self._linear(balanced):
                self.domain = "log"
                self._log(balanced)
        return self.log_z

    def _linear(self, theta: NDArray[np.float64]) -> bool:
        plan, w, values = self.plan, self.workspace, self._values
        if not _shift(theta, self._starts, values, self._tops):
            return False
        np.exp(values, out=values)
        if not interpreter.run(plan.forward, w, self._scales):
            return False
        # A component's log Z is the sum of the logarithms of the factors that SCALE took out of its messages.
        logs = np.log(self._scales)
        self.log_z = float(self._tops.sum() + logs.sum())
        if not (np.bincount(self._component, logs) > self._floors).all():
            return False
        interpreter.run(plan.backward, w, self._scales)
        return math.isfinite(self.mu.sum())

    def _log(self, theta: NDArray[np.float64]) -> None:
        plan, w = self.plan, self.workspace
        w[plan.values] = theta
        interpreter.run_log(plan.forward, w)
        self.log_z = float(sum(w[root.value] for _, _, root in plan.components))
        if not math.isfinite(self.log_z):
            raise InputError("the structural zeros leave no possible record; check them against the domain")
        interpreter.run_log(plan.backward, w)
        w[plan.mu] = np.exp(w[plan.mu])


def balance(theta: NDArray[np.float64], plan: Plan) -> NDArray[np.float64]:
    """Return potentials of the same distribution whose maxima over each attribute value (nearly) agree among factors.

    >>> balance(np.array([8.0, 8.0, 0.0, 0.0]), Plan([(0, 1), (1, 2)], (1, 2, 1)))
    array([4., 4., 4., 4.])
    """
    theta = theta.copy()
    for _ in range(_SWEEPS):
        _equalise(theta, plan.lines, plan.holders)
    return theta


@njit(cache=True)
def _equalise(theta, lines, holders):  # type: ignore[no-untyped-def]
    """Give the factors that hold an attribute equal maxima over each of its values, attribute after attribute."""
    for v in range(holders.size - 1):
        first, last = holders[v], holders[v + 1]
        if last - first < 2:
            continue
        size = lines[first, 2]
        tops = np.full((last - first, size), -np.inf)
        for h in range(first, last):
            at, outer, inner = lines[h, 0], lines[h, 1], lines[h, 3]
            for _ in range(outer):
                for x in range(size):
                    top = tops[h - first, x]
                    for _ in range(inner):
                        top = max(top, theta[at])
                        at += 1
                    tops[h - first, x] = top
        for x in range(size):
            mean = 0.0
            for h in range(last - first):
                mean += tops[h, x] / (last - first)
            for h in range(last - first):
                # A value that a structural zero excludes stays excluded.
                tops[h, x] = mean - tops[h, x] if np.isfinite(mean) else 0.0
        for h in range(first, last):
            at, outer, inner = lines[h, 0], lines[h, 1], lines[h, 3]
            for _ in range(outer):
                for x in range(size):
                    step = tops[h - first, x]
                    for _ in range(inner):
                        theta[at] += step
                        at += 1


@njit(cache=True)
def _shift(theta, starts, values, tops):  # type: ignore[no-untyped-def]
    """Write every clique's potentials minus their maximum into `values`; return False unless all maxima are finite."""
    for i in range(starts.size - 1):
        top = -np.inf
        for j in range(starts[i], starts[i + 1]):
            if theta[j] > top:
                top = theta[j]
        if not np.isfinite(top):
            return False
        tops[i] = top
        for j in range(starts[i], starts[i + 1]):
            values[j] = theta[j] - top
    return True
