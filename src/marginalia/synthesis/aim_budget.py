"""How AIM spends a zCDP budget over rounds that it does not know in advance."""

from __future__ import annotations

import math
from dataclasses import dataclass

from marginalia.marginals.workload import WorkloadLike
from marginalia.privacy.calibration import zcdp_rho
from marginalia.privacy.relation import Relation
from marginalia.synthesis.modelled import ModelSynthesizer

_MEASURE_SHARE = 0.9  # of the budget; the rest selects
_ROUNDS_PER_ATTRIBUTE = 16


@dataclass(eq=False, repr=False, kw_only=True)
class AdaptiveSynthesizer(ModelSynthesizer):
    """The parameters of a mechanism that runs in rounds: AIM, whatever it fits.

    >>> from marginalia.synthesis.aim import AIM
    >>> isinstance(AIM(epsilon=1.0, rounds=20), AdaptiveSynthesizer)
    True
    """

    workload: WorkloadLike = 2
    max_cells: float = 1e6
    rounds: int | None = None


@dataclass
class AdaptiveBudget:
    """The zCDP budget and the prices of the next round.

    >>> from marginalia.synthesis.aim import AIM
    >>> budget = AdaptiveBudget.start(AIM(epsilon=1.0, rounds=3), n_attributes=2, n_singles=2)
    >>> budget.next_round()
    >>> f"{budget.used_share:.0%} used, last round: {budget.last}"
    '100% used, last round: True'
    """

    rho: float
    used: float
    sigma: float  # noise of the next measurement
    epsilon: float  # parameter of the next selection
    initial_sigma: float  # noise of the one-way marginals
    half_square: float  # cost of a Gaussian marginal of sigma 1: half its squared L2 sensitivity
    last: bool = False  # this round spends all that is left

    @classmethod
    def start(cls, aim: AdaptiveSynthesizer, n_attributes: int, n_singles: int) -> AdaptiveBudget:
        """Return the budget after the one-way marginals."""
        relation = Relation(aim.relation)
        rho = zcdp_rho(aim.epsilon, aim.delta) * (1 - 1e-12)  # rounding in the sums below must not overspend
        half_square = 0.5 if aim.calibration == "published" else 0.5 * relation.marginal_l2**2
        rounds = aim.rounds if aim.rounds is not None else _ROUNDS_PER_ATTRIBUTE * n_attributes
        price = min(_MEASURE_SHARE * rho / rounds, 0.5 * rho / n_singles)
        return cls(
            rho=rho,
            used=n_singles * price,
            sigma=math.sqrt(half_square * rounds / (_MEASURE_SHARE * rho)),
            epsilon=math.sqrt(8 * (1 - _MEASURE_SHARE) * rho / rounds),
            initial_sigma=math.sqrt(half_square / price),
            half_square=half_square,
        )

    @property
    def used_share(self) -> float:
        """Share of rho that is charged."""
        return self.used / self.rho

    def next_round(self) -> None:
        """Charge a round; the last one takes all that is left."""
        left = self.rho - self.used
        if left < 2 * self._price():
            self.last = True
            self.sigma = math.sqrt(self.half_square / (_MEASURE_SHARE * left))
            self.epsilon = math.sqrt(8 * (1 - _MEASURE_SHARE) * left)
        self.used += self._price()

    def anneal(self) -> None:
        """Halve the noise and sharpen the selection: a round costs four times as much from now on."""
        self.sigma /= 2
        self.epsilon *= 2

    def _price(self) -> float:
        return self.half_square / self.sigma**2 + self.epsilon**2 / 8
