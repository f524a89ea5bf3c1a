"""Plain Private-PGM: noisy marginals chosen beforehand, one graphical model (McKenna, Sheldon and Miklau 2019)."""

from __future__ import annotations

import numpy as np

from marginalia.data import Table
from marginalia.marginals import estimate, estimate_total
from marginalia.marginals.workload import WorkloadLike
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.relation import Relation
from marginalia.synthesis.gaussian_marginals import noisy_marginals
from marginalia.synthesis.modelled import ModelSynthesizer


class PrivatePGM(ModelSynthesizer):
    """Measure the marginals of a fixed workload with Gaussian noise, fit a graphical model to all, draw from it.

    Algorithm 3 of Zhou et al.; what AIM adds is choosing the marginals. The model is one clique where all pairs are
    measured: name a sparse workload (a tree, the pairs with the label) instead.

    Parameters
    ----------
    epsilon, delta, workload, relation, calibration, random_state
        See `GaussianMarginals`, which releases the same. ``published`` under ``replace_one`` is the paper's
        sigma² = 2 (2|Q|) ln(1.25/delta)/epsilon².

    Attributes
    ----------
    model_ : GraphicalModel

    Raises
    ------
    InputError
        The model does not fit in memory.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        workload: WorkloadLike = 2,
        relation: str = "add_remove",
        calibration: str = "tight",
        random_state: int | np.random.SeedSequence | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.workload = workload
        self.relation = relation
        self.calibration = calibration
        self.random_state = random_state

    def _release(self, table: Table, ledger: Ledger, rng: np.random.Generator) -> None:
        measured = noisy_marginals(
            table, self.workload, self.epsilon, self.delta, calibration=self.calibration, ledger=ledger, rng=rng
        )
        public = ledger.relation is Relation.REPLACE_ONE
        total = max(1.0, float(table.n_rows)) if public else estimate_total(measured)
        self.model_ = estimate(table.domain, measured, total=total)
        self.n_rows_ = table.n_rows if public else int(total)
