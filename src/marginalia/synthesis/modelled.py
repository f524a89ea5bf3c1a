"""What synthesizers share whose release is one model of all columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.marginals.model import GraphicalModel
from marginalia.memory import check_cost
from marginalia.privacy import checks
from marginalia.synthesis.base import Array, State, Synthesizer


class ModelSynthesizer(Synthesizer):
    """Answers, rows and state come from `model_`, which `_release` sets.

    >>> from marginalia.data import Domain, Table
    >>> from marginalia.synthesis import Independent
    >>> table = Table([[0, 1], [1, 0], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> made = Independent(epsilon=1.0).fit(table)
    >>> made.model_.cliques, made.marginal(["b"]).shape, len(made.sample(5))
    ([('a',), ('b',)], (2,), 5)
    """

    model_: Any  # a GraphicalModel, unless a subclass says otherwise

    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return the model's marginal as counts, shape = sizes of `attributes` in the order given."""
        self._check_fitted()
        return self.model_.marginal(attributes)

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        return self.model_.sample(n_rows, rng)

    def _batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        return self.model_.batches(n_rows, rng)

    def _state(self) -> State:
        return self.model_.state()

    def _restore(self, state: State) -> None:
        self.model_ = GraphicalModel.from_state(self.domain_, state)


def check_model_size(name: str, max_model_mb: float, domain: Domain) -> None:
    """Refuse a `max_model_mb` that is no size, or whose junction tree does not fit in memory.

    >>> check_model_size("AIM", 80, Domain.from_sizes({"a": 2, "b": 3}))
    """
    if max_model_mb != math.inf:
        checks.positive("max_model_mb", max_model_mb)
    largest = min(max_model_mb * 2**20, 8 * domain.n_cells())  # a model of all columns has one table
    check_cost(f"{name} with max_model_mb={max_model_mb:g}", largest, mend="lower max_model_mb")
