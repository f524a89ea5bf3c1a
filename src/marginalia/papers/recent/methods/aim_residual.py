"""AIM's loop on residuals: select a marginal, measure what is new in it, and answer without a graphical model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marginalia.data.table import CountSource
from marginalia.marginals.elimination import Clique
from marginalia.methods.aim import AdaptiveRun, AdaptiveSynthesizer
from marginalia.privacy.relation import Neighbours
from marginalia.privacy.session import Session
from marginalia.subsets import subsets
from marginalia.synthesis.base import Array, State
from marginalia.synthesis.noisy_marginals import NoisyMarginal
from marginalia.synthesis.residual import (
    Kept,
    ResidualModel,
    ResidualSynthesizer,
    cell_variance,
    cost,
    residual_marginals,
    share,
)

_KEPT_BYTES = 2**28  # of private counts; beyond, they are counted again
_NOTHING = np.zeros(0)
_MEAN = math.sqrt(2 / math.pi)  # of the absolute value of a standard normal


@dataclass(eq=False, repr=False, kw_only=True)
class ResidualAIM(ResidualSynthesizer, AdaptiveSynthesizer):
    """Measure the marginals on which the residuals known so far are worst, one after the other.

    The loop is AIM's (McKenna, Mullins, Sheldon and Miklau 2022); the model of all columns is left out: answers are
    put together from residuals, as in "AIM+GReM" (Fuentes et al. 2026), so that no junction tree limits what may be
    measured, nor the number of columns. A round spends what AIM's would; its budget goes to those residuals of the
    chosen marginal that are not known well yet (`allocation`), where the noise on whole marginals pays for all again.

    Privacy: (epsilon, delta)-DP by zCDP or Gaussian DP, whichever leaves less noise, as `AIM`; the noise is that of
    `ResidualPlanner`.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    workload : int, iterable or mapping, default 2
        All marginals of this order, or attribute tuples with optional weights.
    max_cells : float, default 1e6
        Larger marginals of a workload given by its order are left out; named ones are refused.
    rounds : int, optional
        The starting price of a round is 1/rounds of the budget; default 16 per attribute.
    relation : {"replace_one", "add_remove"}, default "replace_one"
    calibration : {"tight"}, default "tight"
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : ResidualModel
    selected_ : list of tuple of str
        The marginal of each round.

    Notes
    -----
    What AIM's model infers along paths of measured marginals (a with b, b with c, hence a with c) is not inferred here.
    Candidates are scored anew only where their estimate has changed, and only those that can still win, so that the
    *time* of a fit depends on private rows. Declared structural zeros are not enforced.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 0, 1], [1, 2, 0], [1, 1, 0]] * 50, Domain.from_sizes({"a": 2, "b": 3, "c": 2}))
    >>> model = ResidualAIM(epsilon=1.0, rounds=4, random_state=0).fit(table)
    >>> model.ledger_.certified, model.marginal(["a", "c"]).shape
    (True, (2, 2))
    """

    UNITS: ClassVar[bool] = True

    def _release(self, table: CountSource, session: Session) -> None:
        run = _ResidualRun(self, table, session)
        run.run()
        run.model.forget_estimates()
        self.measurements_ = run.answers
        self._fitted(run.model)
        self.selected_ = [run.names(r.marginal) for r in run.history]
        self.n_rows_ = table.n_rows if session.neighbours.n_rows_public else round(run.model.total)

    def _state(self) -> State:
        selected = np.array([",".join(str(self.domain_.index(a)) for a in q) for q in self.selected_])
        return {**super()._state(), "selected": selected}

    def _restore(self, state: State) -> None:
        super()._restore(state)
        self.selected_ = [tuple(self.domain_.names[int(a)] for a in str(q).split(",")) for q in state["selected"]]


def allocation(
    whole: Clique, sizes: Sequence[int], neighbours: Neighbours, known: Mapping[Clique, float], mu: float
) -> dict[Clique, float]:
    """Return the noise variances of the residuals of `whole` that make its total variance least at the cost mu².

    `known` are variances from before. With precisions x_A to be measured, the least sum of s_A/(1/known_A + x_A) at the
    cost sum c_A x_A = mu² fills every precision up to one multiple of sqrt(s_A/c_A).

    >>> from marginalia.privacy.relation import Relation
    >>> rows = Neighbours(Relation.ADD_REMOVE)
    >>> allocated = allocation((0, 1), [2, 2], rows, {(): 0.0, (0,): 1.0, (1,): 9.0}, mu=1.0)
    >>> {part: round(v, 2) for part, v in allocated.items()}
    {(0,): 27.0, (1,): 1.08, (0, 1): 0.48}
    """
    costs = {part: cost(part, sizes, neighbours) for part in subsets(whole)}
    parts = [part for part, c in costs.items() if c > 0 and known.get(part, math.inf) > 0]
    have = {part: 1.0 / known[part] if part in known else 0.0 for part in parts}
    root = {part: math.sqrt(share(part, whole, sizes) / costs[part]) for part in parts}
    parts.sort(key=lambda part: have[part] / root[part])
    level, spent, slope = 0.0, mu**2, 0.0
    for i, part in enumerate(parts):  # the level rises past the parts that are known best
        spent += costs[part] * have[part]
        slope += costs[part] * root[part]
        level = spent / slope
        if i + 1 == len(parts) or level <= have[parts[i + 1]] / root[parts[i + 1]]:
            break
    added = {part: level * root[part] - have[part] for part in parts}
    return {part: 1.0 / added[part] for part in costs if costs[part] * added.get(part, 0.0) > 1e-9 * mu**2}


class _ResidualRun(AdaptiveRun):
    """Residuals, each known as well as all its measurements say; any candidate may be measured."""

    model: ResidualModel

    def __init__(self, method: ResidualAIM, table: CountSource, session: Session) -> None:
        super().__init__(method, table, session)
        sizes = table.domain.sizes
        # A marginal with a column of one code tells what the one without it does: it has no residual of its own.
        self.weights = {q: w for q, w in self.weights.items() if all(sizes[a] > 1 for a in q)} or self.weights
        self._public = session.neighbours.n_rows_public
        self.answers: list[NoisyMarginal] = []
        self._exact: dict[Clique, float] = {}
        self.model = ResidualModel(table.domain, max(1.0, float(table.n_rows)) if self._public else 1.0)
        # Variance of a cell of each candidate from its own residual, if that took all of a measurement of sigma 1.
        self.own = {q: cell_variance(q, sizes, {q: cost(q, sizes, session.neighbours)}) for q in self.weights}

    def start(self) -> None:
        self._exact = {(): 0.0}  # the number of records is known well enough, and stays
        self.scores = _ResidualScores(self)

    def candidates(self) -> list[Clique]:
        return list(self.weights)

    def expected(self, q: Clique) -> Array:
        return self.model.estimate(q)

    def refit(self, q: Clique) -> None:
        """Measurements have changed the model already."""

    @property
    def unit(self) -> float:
        """Standard deviation of the noise of a round's measurement for a sensitivity of 1."""
        return self.budget.sigma / self.budget.sensitivity

    @property
    def noise(self) -> float:
        """Expected absolute noise of a count of the marginal measured last, as far as its own residual goes."""
        return _MEAN * self.unit * math.sqrt(self.own[self.history[-1].marginal]) if self.history else math.inf

    def measure(self, q: Clique, sigma: float) -> NDArray[np.float64]:
        """Release the residuals of `q` for what its counts would cost; return the unbiased counts."""
        known = {**self.model.variances, **self._exact}
        mu = self.budget.sensitivity / sigma
        allocated = allocation(q, self.table.domain.sizes, self.session.neighbours, known, mu)
        if not allocated:  # the only column has one code: nothing is released, and nothing spent
            self.budget.used -= self.budget.composition.gaussian(mu)
        sigmas = {self.names(part): math.sqrt(v) for part, v in allocated.items()}
        noisy = self.session.residuals(self.table, sigmas)
        self.answers += residual_marginals(self.table.domain, sigmas, noisy, self.session.neighbours, round=self.round)
        for (part, variance), values in zip(allocated.items(), noisy, strict=True):
            self.model.add(part, values, variance)
            if hasattr(self, "scores"):
                self.scores.forget(part)
        if () in allocated:
            self.model.total = max(1.0, float(self.model.residuals[()]))
        counts = self.model.unbiased(q)
        self.measured.append(NoisyMarginal(self.names(q), counts, sigma, sigma, self.round))
        return counts


class _ResidualScores:
    """Scores as those of `CandidateScores`, kept as long as the residuals that they are about.

    A candidate's noise is what a measurement would leave: that of its own residual, and of those known before.
    """

    def __init__(self, run: _ResidualRun) -> None:
        self._run = run
        self._at = {q: i for i, q in enumerate(run.weights)}
        self._weights = np.array(list(run.weights.values()))
        self._cells = np.array([run.table.domain.n_cells(run.names(q)) for q in run.weights], np.float64)
        self._own = np.array(list(run.own.values()))
        self._largest = 1.000001 * (run.table.n_rows + run.model.total)  # no L1 distance is larger
        self._distance = np.full(len(self._at), self._largest)
        self._below = np.zeros(len(self._at))  # variance of a cell from the residuals of proper subsets
        self._scored = Kept()
        self._counts: dict[Clique, NDArray[np.int64]] = {}
        self._bytes = 0

    def begin_round(self, model: ResidualModel, noise: float) -> None:
        self._model = model
        spread = _MEAN * np.sqrt(self._run.unit**2 * self._own + self._below)
        self._bounds = self._weights * (self._distance - spread * self._cells)

    def bounds(self, candidates: Sequence[Clique]) -> NDArray[np.float64]:
        return self._bounds

    def score(self, q: Clique) -> float:
        i, known = self._at[q], self._model.variances
        if q not in self._scored.tables:
            self._distance[i] = float(np.abs(self._exact(q) - self._model.estimate(q)).sum())
            proper = {part: known[part] for part in subsets(q) if part != q and part in known}
            self._below[i] = cell_variance(q, self._run.table.domain.sizes, proper)
            self._scored.put(q, _NOTHING)
        noise = _MEAN * math.sqrt(self._run.unit**2 * self._own[i] + self._below[i])
        return float(self._weights[i] * (self._distance[i] - noise * self._cells[i]))

    def forget(self, part: Clique) -> None:
        for q in self._scored.forget(part):
            self._distance[self._at[q]], self._below[self._at[q]] = self._largest, 0.0

    def _exact(self, q: Clique) -> NDArray[np.int64]:
        counts = self._counts.get(q)
        if counts is None:
            counts = self._run.table.counts(self._run.names(q))
            if self._bytes + counts.nbytes <= _KEPT_BYTES:
                self._counts[q] = counts
                self._bytes += counts.nbytes
        return counts
