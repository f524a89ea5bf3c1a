"""What the synthesizers share whose release are residuals: answers, rows, files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.marginals.elimination import Clique
from marginalia.marginals.estimation import Measurement, estimate
from marginalia.marginals.model import GraphicalModel
from marginalia.marginals.workload import WorkloadLike
from marginalia.memory import check_cost, short
from marginalia.synthesis.base import Array, State, Synthesizer
from marginalia.synthesis.residual.model import ResidualModel

NOISE_KEPT = 0.3  # of the noise, by estimates
_BYTES_A_MARGINAL = 6000  # of a workload: its subsets, their events and arrays, measured


@dataclass(eq=False, repr=False, kw_only=True)
class ResidualSynthesizer(Synthesizer):
    """Answers and rows come from `model_`, the residuals that `_release` measures.

    >>> from marginalia.data import Domain, Table
    >>> from marginalia.synthesis import ResidualPlanner
    >>> table = Table([[0, 1], [1, 0], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> made = ResidualPlanner(epsilon=1.0, workload=1).fit(table)
    >>> made.marginal(["b", "a"]).shape, round(made.noise_sigma_, 3)
    ((2, 2), 0.851)
    """

    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight",)

    workload: WorkloadLike = 2
    model_: ResidualModel = field(init=False)
    _tree: GraphicalModel | None = field(init=False)

    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return the estimated marginal as counts, shape = sizes of `attributes` in the order given."""
        self._check_fitted()
        clique, order = self.model_.clique(attributes)
        return np.transpose(self.model_.estimate(clique), order)

    @property
    def noise_sigma_(self) -> float:
        """Noise of a cell of a pair (root of the mean variance) as far as estimates keep it.

        It tells DD-SSP that no one table has these pairs, and sets its ridge. Three tenths of the noise are kept, which
        was chosen on four public tables (docs/residual.md).
        """
        pairs = list(itertools.combinations(range(len(self.domain_)), 2))
        return NOISE_KEPT * math.sqrt(math.fsum(self.model_.variance(pair) for pair in pairs) / max(1, len(pairs)))

    def _check_cost(self, domain: Domain) -> None:
        if isinstance(self.workload, int):  # before they are listed
            count = math.comb(len(domain), min(max(1, self.workload), len(domain)))
            check_cost(
                f"{type(self).__name__} on {short(count)} marginals", _BYTES_A_MARGINAL * count,
                mend="name the marginals that matter, or take a lower order",
            )  # fmt: skip
        super()._check_cost(domain)

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        return self._sampled().sample(n_rows, rng)

    def _batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        return self._sampled().batches(n_rows, rng)

    def _sampled(self) -> GraphicalModel:
        if self._tree is None:
            self._tree = self._fit_tree()
        return self._tree

    def _fit_tree(self) -> GraphicalModel:
        """Fit the engine to the measured pairs that depend most on each other, as many as form a tree."""
        model, d = self.model_, len(self.domain_)
        ones = [model.estimate((a,)) for a in range(d)]

        def dependence(pair: Clique) -> float:
            return float(np.abs(model.estimate(pair) - np.outer(*(ones[a] for a in pair)) / model.total).sum())

        pairs = [pair for pair in itertools.combinations(range(d), 2) if pair in model.residuals]
        parts = DisjointSet(range(d))
        chosen = [pair for pair in sorted(pairs, key=lambda pair: -dependence(pair)) if parts.merge(*pair)]
        names = self.domain_.names
        measured = [
            Measurement([names[a] for a in q], model.estimate(q), math.sqrt(max(model.variance(q), 1e-6)))
            for q in [*((a,) for a in range(d)), *chosen]
        ]
        return estimate(self.domain_, measured, total=model.total)

    def _fitted(self, model: ResidualModel) -> None:
        self.model_, self._tree = model, None

    def _state(self) -> State:
        return self.model_.state()

    def _restore(self, state: State) -> None:
        self._fitted(ResidualModel.from_state(self.domain_, state))
