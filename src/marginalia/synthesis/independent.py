"""All attributes independent: the smallest model, and the level any other must beat."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from marginalia.data import Table
from marginalia.marginals import Measurement, estimate
from marginalia.privacy import Ledger, Relation
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.privacy.mechanisms.additive import measure_marginal
from marginalia.synthesis.modelled import ModelSynthesizer


class Independent(ModelSynthesizer):
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
