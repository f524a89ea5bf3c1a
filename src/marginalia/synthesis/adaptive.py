"""Select, measure, refit: the loop of AIM (McKenna, Mullins, Sheldon & Miklau 2022, Algorithm 2), whatever it fits."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.table import CountSource
from marginalia.marginals.elimination import Clique
from marginalia.marginals.estimation import FINAL, ROUND_QUICK, ROUND_TIGHT, FitSettings
from marginalia.marginals.plan import Plan, seconds_per_pass
from marginalia.marginals.workload import Workload, WorkloadLike
from marginalia.privacy import checks
from marginalia.privacy.costs import CompositionBudget, best_measure
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.selection import lazy_exponential
from marginalia.privacy.randomness import Randomness
from marginalia.progress import bar
from marginalia.synthesis.answers import Answer
from marginalia.synthesis.base import ModelSynthesizer
from marginalia.synthesis.measuring import measure_all, number_of_records

_TIGHT_SECONDS = 0.05  # a round's tight fit may take this long, predicted; beyond, quick fits lose nothing
_FINAL_SECONDS = 1.0  # the same for the last fit
_MOST, _LAST_MOST = 60, 300  # passes of a quick fit, and of a last fit that is quick
_NEAR = 0.2  # share of the round's misfit by which a quick fit may miss any marginal


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The numbers that Algorithm 2 fixes; the defaults are the paper's. `benchmarks/aim_constants.py` varies them.

    None of them enters the privacy proof: each round is charged for what it does, and the last takes what is left.

    Attributes
    ----------
    rounds_per_attribute : float
        The starting price of a round is one over this and the number of attributes, of the budget.
    sharpness : float
        Epsilon of a selection over sensitivity/sigma of its measurement; 2/3: in zCDP, a tenth of the price.
    one_way : float
        Sensitivity/sigma of the one-way marginals over that of a round.
    anneal_at : float
        The noise falls when the model moved no more than so many times the noise would explain.
    anneal_by : float
        What the noise is divided by then.
    model_growth : float
        The share of the largest model that is allowed is the used share of the budget to this power.

    >>> Constants(rounds_per_attribute=4).anneal_by
    2.0
    """

    rounds_per_attribute: float = 16
    sharpness: float = 2 / 3
    one_way: float = 1.0
    anneal_at: float = 1.0
    anneal_by: float = 2.0
    model_growth: float = 1.0


@dataclass(eq=False, repr=False, kw_only=True)
class AdaptiveSynthesizer(ModelSynthesizer):
    """The parameters of a mechanism that runs in rounds: AIM, whatever it fits.

    >>> from marginalia.data import Domain, Table
    >>> from marginalia.synthesis import AIM
    >>> table = Table([[0, 1], [1, 0], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> made = AIM(epsilon=1.0, workload=[("a", "b")], rounds=2).fit(table)
    >>> made.rounds_ <= 2, made.marginal(["a", "b"]).shape
    (True, (2, 2))
    """

    workload: WorkloadLike = 2
    max_cells: float = 1e6
    rounds: int | None = None

    @property
    def _loop(self) -> Constants:
        return Constants()


@dataclass
class AdaptiveBudget:
    """The budget and the prices of the next round, in the currency that buys less noise.

    A round's selection is as sharp, beside the noise of its measurement, as the paper's: in zCDP the measurement has
    nine tenths of its price, hence epsilon² = 4/9 (sensitivity/sigma)².

    >>> from marginalia.synthesis import AIM
    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    >>> budget = AdaptiveBudget.start(AIM(epsilon=1.0, rounds=3), ledger, n_attributes=2, n_singles=2)
    >>> budget.next_round()
    >>> f"{budget.used_share:.0%} used, last round: {budget.last}"
    '100% used, last round: True'
    """

    prices: CompositionBudget
    used: float
    sigma: float  # noise of the next measurement
    epsilon: float  # parameter of the next selection
    initial_sigma: float  # noise of the one-way marginals
    sensitivity: float  # that a marginal is charged at
    constants: Constants
    last: bool = False  # this round spends all that is left

    @classmethod
    def start(cls, aim: AdaptiveSynthesizer, ledger: Ledger, n_attributes: int, n_singles: int) -> AdaptiveBudget:
        """Return the budget after the one-way marginals, of what is left in the ledger."""
        epsilon, delta = ledger.left()
        constants = aim._loop
        rounds = aim.rounds if aim.rounds is not None else constants.rounds_per_attribute * n_attributes

        def ratio_of(prices: CompositionBudget) -> float:
            return round_ratio(prices, prices.total / rounds, constants.sharpness)

        if aim.calibration == "published":
            prices, sensitivity = CompositionBudget.of(epsilon, delta, "zcdp"), 1.0
        else:
            prices = best_measure(epsilon, delta, ratio_of, ledger.measures)
            sensitivity = ledger.neighbours.marginal_l2
        ratio, sharpness = ratio_of(prices), constants.sharpness
        half = prices.largest(prices.gaussian, 0.5 * prices.total / n_singles)  # one-way marginals get no more
        initial = min(constants.one_way * ratio, half)
        used = n_singles * prices.gaussian(initial)
        return cls(prices, used, sensitivity / ratio, sharpness * ratio, sensitivity / initial, sensitivity, constants)

    @property
    def used_share(self) -> float:
        """Share of the budget that is charged."""
        return self.used / self.prices.total

    def next_round(self) -> None:
        """Charge a round; the last one takes all that is left."""
        left = self.prices.total - self.used
        if left < 2 * self._price():
            self.last = True
            sharpness = self.constants.sharpness
            ratio = round_ratio(self.prices, left, sharpness)
            self.sigma, self.epsilon = self.sensitivity / ratio, sharpness * ratio
        self.used += self._price()

    def anneal(self) -> None:
        """Lower the noise and sharpen the selection: halved noise makes rounds cost up to four times as much."""
        self.sigma /= self.constants.anneal_by
        self.epsilon *= self.constants.anneal_by

    def _price(self) -> float:
        return self.prices.gaussian(self.sensitivity / self.sigma) + self.prices.selection(self.epsilon)


def round_ratio(prices: CompositionBudget, price: float, sharpness: float = Constants.sharpness) -> float:
    """Return the sensitivity/sigma of a round's measurement, such that it and its selection cost `price`.

    >>> round(round_ratio(CompositionBudget("zcdp", 1.0), 0.005 / 0.9), 9)
    0.1
    """
    return prices.largest(lambda x: prices.gaussian(x) + prices.selection(sharpness * x), price)


def fit_settings(plan: Plan, *, last: bool, misfit: float | None = None) -> FitSettings:
    """Return how closely to fit after a round: tightly where passes are cheap, by the model's structure alone.

    `misfit` is the released L1 distance of the round's noisy marginal from the model before it. Where it is given, a
    quick fit begins at the new marginal and need not come nearer to any than a share of it, unless it is the last. One
    without the other would not do: a model that hardly moves has its noise lowered too soon. Tight fits take no such
    leave: with few rows the noise is as large as the misfit (2,200 rows of Adult: 5 % more error).

    >>> fit_settings(Plan([(0, 1)], (2, 3)), last=False) == ROUND_TIGHT
    True
    """
    tight, limit = (FINAL, _FINAL_SECONDS) if last else (ROUND_TIGHT, _TIGHT_SECONDS)
    if seconds_per_pass(plan) * tight.passes < limit:
        return tight
    if misfit is None:
        return ROUND_QUICK
    if last:
        return replace(ROUND_QUICK, passes=_LAST_MOST, most=_LAST_MOST, proportional=True)
    return replace(ROUND_QUICK, passes=_MOST, most=_MOST, near=_NEAR * misfit, proportional=True)


@dataclass
class Round:
    """What one round chose and how; all of it is part of the release.

    >>> Round((0, 2), weight=2.0, cells=6, sigma=5.0, epsilon=0.1, sensitivity=2.0, misfit=40.0).marginal
    (0, 2)
    """

    marginal: Clique  # attribute positions
    weight: float
    cells: int
    sigma: float  # noise of the measurement
    epsilon: float  # parameter of the selection
    sensitivity: float  # of the scores
    misfit: float  # L1 distance of the noisy marginal from the model before it
    candidates: dict[Clique, float] = field(default_factory=dict)  # with their weights; kept for the last round


class AdaptiveRun(ABC):
    """One run of Algorithm 2 on a private table; a subclass says what is fitted.

    `start` sets the model and its scores (a `methods.aim.CandidateScores`, or what answers like one).

    >>> sorted(AdaptiveRun.__abstractmethods__)
    ['candidates', 'expected', 'refit', 'start']
    """

    model: Any
    scores: Any

    def __init__(self, method: AdaptiveSynthesizer, table: CountSource, ledger: Ledger, randomness: Randomness) -> None:
        if method.rounds is not None:
            checks.count("rounds", method.rounds)
        if method.max_cells != math.inf:
            checks.positive("max_cells", method.max_cells)
        self.table, self.ledger, self.randomness = table, ledger, randomness
        self.workload = Workload.parse(method.workload, table.domain, max_cells=method.max_cells)
        self.weights = self.workload.closure()  # of every candidate's score
        self.one_ways = [q for q in self.weights if len(q) == 1]
        table.expect(map(self.names, self.weights))
        self.budget = AdaptiveBudget.start(method, ledger, len(table.domain), len(self.one_ways))
        # Under the published constants the score is divided by the add/remove sensitivity.
        self._sharpening = ledger.neighbours.marginal_l1 if method.calibration == "published" else 1.0
        self.measured: list[Answer] = []
        self.round = 0
        self.history: list[Round] = []

    @abstractmethod
    def start(self) -> None:
        """Fit the first model to the one-way marginals."""

    @abstractmethod
    def candidates(self) -> list[Clique]:
        """Return the marginals that may be measured in this round, in the order of `weights`."""

    @abstractmethod
    def expected(self, q: Clique) -> NDArray[np.float64]:
        """Return the model's counts on `q`, whose bits depend on the model and `q` alone: they are released."""

    @abstractmethod
    def refit(self, q: Clique) -> None:
        """Fit the model to all that is measured, `q` having come last."""

    def run(self, *, verbose: bool = False) -> None:
        """Measure the one-way marginals, then in each round the candidate on which the model is worst."""
        for one_way in self.one_ways:
            self.measure(one_way, self.budget.initial_sigma)
        self.start()
        with bar("budget spent", 100, verbose=verbose) as advance:
            shown = 0.0
            while not self.budget.last:
                self.budget.next_round()
                self.round += 1
                candidates = self.candidates()
                q = self.select(candidates)
                before = self.expected(q)
                noisy = self.measure(q, self.budget.sigma)
                self.record(q, candidates, float(np.abs(before - noisy).sum()))
                self.refit(q)
                still = self.budget.constants.anneal_at * self.noise * before.size
                if not self.budget.last and np.abs(self.expected(q) - before).sum() <= still:
                    self.budget.anneal()  # the model moved no more than noise would explain
                advance(100 * self.budget.used_share - shown)
                shown = 100 * self.budget.used_share

    @property
    def noise(self) -> float:
        """Expected absolute noise of one count of this round: sqrt(2/pi) sigma."""
        return math.sqrt(2 / math.pi) * self.budget.sigma

    @property
    def total(self) -> float:
        """Number of records to fit."""
        return number_of_records(self.table, self.ledger, self.measured)

    def names(self, q: Clique) -> tuple[str, ...]:
        """Return the attributes of `q`."""
        return tuple(self.table.domain.names[a] for a in q)

    def measure(self, q: Clique, sigma: float) -> NDArray[np.float64]:
        """Release the counts on `q` with Gaussian noise."""
        marginals = [self.names(q)]
        self.measured += measure_all(self.table, marginals, sigma, self.ledger, self.randomness, round=self.round)
        return np.asarray(self.measured[-1].values)

    def select(self, candidates: Sequence[Clique]) -> Clique:
        """Choose a marginal by the exponential mechanism; as a rule only those that can still win are scored."""
        self.scores.begin_round(self.model, self.noise)
        winner = lazy_exponential(
            self.scores.bounds(candidates),
            lambda i: self.scores.score(candidates[i]),
            epsilon=self.budget.epsilon * self._sharpening,
            sensitivity=self._sensitivity(candidates),
            ledger=self.ledger,
            randomness=self.randomness,
            label="select",
        )
        return candidates[winner]

    def record(self, q: Clique, candidates: Sequence[Clique], misfit: float) -> None:
        """Add the round to the history; the candidates are kept for the last one."""
        kept = {c: self.weights[c] for c in candidates} if self.budget.last else {}
        cells = self.table.domain.n_cells(self.names(q))
        epsilon, sensitivity = self.budget.epsilon * self._sharpening, self._sensitivity(candidates)
        self.history.append(Round(q, self.weights[q], cells, self.budget.sigma, epsilon, sensitivity, misfit, kept))

    def _sensitivity(self, candidates: Sequence[Clique]) -> float:
        """How much one record can change the score of any candidate."""
        return max(map(self.weights.__getitem__, candidates)) * self.ledger.neighbours.marginal_l1
