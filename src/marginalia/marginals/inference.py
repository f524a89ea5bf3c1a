"""Marginals and log Z of a graphical model: one pass in the linear domain, with a certificate and two fallbacks.

1. Linear domain. Products below 1e-308 are flushed to zero. With every factor at most 1, a component of |Omega|
   cells and partition function e^margin loses at most |Omega|^2 * cells * e^(-708 - margin) of its mass, so
   margin > -671 + 2 ln|Omega| + ln(cells) certifies a loss below 1e-16.
2. Balancing (max-sum diffusion, Kovalevsky & Koval; Werner 2007): equalise the maxima of all factors over each value
   of each attribute. The same distribution, a far larger margin; then again 1.
3. The same program on logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from marginalia.errors import InputError
from marginalia.marginals import kernels
from marginalia.marginals.plan import Plan

_SWEEPS = 4


class Inference:
    """A calibrated model: all tables of the last pass, in one preallocated workspace.

    Parameters
    ----------
    plan : Plan
    scratch_bytes : int
        Room behind the pass's tables for computing further marginals.

    Attributes
    ----------
    workspace : ndarray
        Probabilities (their logarithms after a log-domain pass, except the marginals `mu`).
    domain : {"linear", "balanced", "log"}
        How the last pass was computed.
    log_z : float
    """

    def __init__(self, plan: Plan, *, scratch_bytes: int = 2**28) -> None:
        self.plan = plan
        # Pages of fresh zeros cost nothing until they are touched: the scratch behind the pass's own tables is free.
        self._memory = np.zeros(plan.n_workspace + scratch_bytes // 8)
        self.workspace = self._memory[: plan.n_workspace]
        self.domain = "linear"
        self.log_z = 0.0
        self._scales = np.ones(plan.n_scales)
        self._starts = np.array(plan.theta_at, np.int64)
        self._tops = np.zeros(len(plan.cliques))
        cells = sum(t.cells for t in plan.nodes)
        self._floor = [
            -671.0 + 2.0 * sum(math.log(plan.sizes[a]) for a in attributes) + math.log(cells)
            for attributes, _, _ in plan.components
        ]

    @property
    def theta(self) -> NDArray[np.float64]:
        """Potentials, one table after the other in the order of `plan.cliques`."""
        return self.workspace[self.plan.theta]

    @property
    def mu(self) -> NDArray[np.float64]:
        """Clique marginals (probabilities) of the last pass, laid out as `theta`."""
        return self.workspace[self.plan.mu]

    @property
    def block_mu(self) -> NDArray[np.float64]:
        """Block marginals (probabilities) after `evaluate`."""
        return self.workspace[self.plan.block_mu]

    def evaluate(self, theta: NDArray[np.float64], dual: NDArray[np.float64]) -> float:
        """Run a pass at the potentials `theta` plus the broadcast duals; fill `block_mu`; return log Z."""
        w = self.workspace
        w[self.plan.theta] = theta
        w[self.plan.dual] = dual
        kernels.run(self.plan.expand, w, self._scales)
        self.calibrate()
        kernels.run(self.plan.project, w, self._scales)
        return self.log_z

    def with_scratch(self, end: int) -> NDArray[np.float64]:
        """Return the workspace and the scratch behind it, up to position `end`."""
        return self._memory[:end]

    @property
    def scratch_bytes(self) -> int:
        """Room for further tables."""
        return 8 * (self._memory.size - self.workspace.size)

    def calibrate(self) -> float:
        """Compute `log_z`, `mu` and all messages from `theta`; return log Z."""
        if self._linear(self.theta):
            self.domain = "linear"
            return self.log_z
        balanced = balance(self.theta, self.plan)
        if self._linear(balanced):
            self.domain = "balanced"
            return self.log_z
        self.domain = "log"
        self._log(balanced)
        return self.log_z

    def _linear(self, theta: NDArray[np.float64]) -> bool:
        plan, w = self.plan, self.workspace
        values = w[plan.values]
        if not _shift(theta, self._starts, values, self._tops):
            return False
        np.exp(values, out=values)
        if not kernels.run(plan.forward, w, self._scales):
            return False
        # SCALE left ln(factor) of every message; a component's log Z is the sum over its attributes.
        logs = np.log(self._scales)
        self.log_z = float(self._tops.sum() + logs.sum())
        step = {v: i for i, v in enumerate(plan.order)}
        for (attributes, _, _), floor in zip(plan.components, self._floor, strict=True):
            if not logs[[step[v] for v in attributes]].sum() > floor:
                return False
        kernels.run(plan.backward, w, self._scales)
        return bool(np.isfinite(self.mu.sum()))

    def _log(self, theta: NDArray[np.float64]) -> None:
        plan, w = self.plan, self.workspace
        w[plan.values] = theta
        kernels.run_log(plan.forward, w)
        self.log_z = float(sum(w[root.value] for _, _, root in plan.components))
        if not math.isfinite(self.log_z):
            raise InputError("the structural zeros leave no possible record; check them against the domain")
        kernels.run_log(plan.backward, w)
        w[plan.mu] = np.exp(w[plan.mu])


def balance(theta: NDArray[np.float64], plan: Plan) -> NDArray[np.float64]:
    """Return potentials of the same distribution whose factors have (nearly) equal maxima over every attribute value."""
    theta = theta.copy()
    tables = [
        theta[plan.theta_at[i] : plan.theta_at[i + 1]].reshape([plan.sizes[a] for a in c])
        for i, c in enumerate(plan.cliques)
    ]
    holders: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in plan.sizes]
    for i, c in enumerate(plan.cliques):
        for position, a in enumerate(c):
            holders[a].append((i, tuple(p for p in range(len(c)) if p != position)))
    for _ in range(_SWEEPS):
        for held in holders:
            _equalise([tables[i] for i, _ in held], [others for _, others in held])
    return theta


def _equalise(tables: Sequence[NDArray[np.float64]], others: Sequence[tuple[int, ...]]) -> None:
    tops = np.array([t.max(axis=o) for t, o in zip(tables, others, strict=True)])
    mean = tops.mean(axis=0)
    possible = np.isfinite(mean)  # a value that a structural zero excludes stays excluded
    for t, o, top in zip(tables, others, tops, strict=True):
        step = np.where(possible, mean - np.where(possible, top, 0.0), 0.0)
        t += np.expand_dims(step, o)


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
