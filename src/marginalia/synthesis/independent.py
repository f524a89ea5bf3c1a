"""All attributes independent: the smallest model, and the level any other must beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginalia.data import Table
from marginalia.marginals import GraphicalModel, Measurement, estimate
from marginalia.privacy import Ledger, Relation
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.privacy.mechanisms import measure_marginal
from marginalia.synthesis.base import Synthesizer


class Independent(Synthesizer):
    """Release every one-way marginal with Gaussian noise; answer with their product.

    Privacy: one Gaussian event per attribute; exact Gaussian DP.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    relation : {"add_remove", "replace_one"}, default "add_remove"
    calibration : {"tight"}, default "tight"
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : GraphicalModel
        Its marginals are the noisy ones made consistent: no negative count, one total. Declared structural zeros tie
        their attributes together.
    domain_, n_rows_, ledger_
        See `Synthesizer`.
    """

    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight",)

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        relation: str = "add_remove",
        calibration: str = "tight",
        random_state: int | np.random.SeedSequence | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.relation = relation
        self.calibration = calibration
        self.random_state = random_state

    def _release(self, table: Table, ledger: Ledger, rng: np.random.Generator) -> None:
        names = table.domain.names
        sigma = gaussian_sigma(self.epsilon, self.delta, sensitivity=ledger.relation.marginal_l2, releases=len(names))
        measurements = [
            Measurement((a,), measure_marginal(table, (a,), sigma=sigma, ledger=ledger, rng=rng), sigma) for a in names
        ]
        public = ledger.relation is Relation.REPLACE_ONE
        self.model_ = estimate(table.domain, measurements, total=max(1, table.n_rows) if public else None)
        self.n_rows_ = table.n_rows if public else round(self.model_.total)

    def marginal(self, attributes: Sequence[str]) -> NDArray[np.float64]:
        """Return the model's marginal as counts, shape = sizes of `attributes` in the order given."""
        self._check_fitted()
        return self.model_.marginal(attributes)

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        return self.model_.sample(n_rows, rng)

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.model_.state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.model_ = GraphicalModel.from_state(self.domain_, state)
