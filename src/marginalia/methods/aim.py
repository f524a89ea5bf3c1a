"""AIM: adaptive and iterative mechanism for synthetic data (McKenna, Mullins, Sheldon & Miklau 2022).

In the order of the algorithm: the constants and parameters, the loop (`AdaptiveRun.run`), the model that it fits
(`_GraphicalRun`), the budget of the rounds (`AdaptiveBudget`), and the scores by which a round selects
(`CandidateScores`). The loop does not depend on the model: variants of AIM with other models use it too.

Line numbers in comments are those of Algorithms 2, 3 and 4 as Ferrando & Sheldon print them (appendix A).
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource
from marginalia.errors import InputError
from marginalia.marginals.all_pairs import Arena
from marginalia.marginals.elimination import Clique, megabytes_with
from marginalia.marginals.estimation import (
    FINAL,
    ROUND_QUICK,
    ROUND_TIGHT,
    FitSettings,
    estimate,
    zero_cliques,
)
from marginalia.marginals.model import GraphicalModel
from marginalia.marginals.plan import Plan, seconds_per_pass
from marginalia.marginals.workload import Workload, WorkloadLike
from marginalia.privacy import checks
from marginalia.privacy.costs import CompositionBudget, best_measure
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.session import Session
from marginalia.progress import bar
from marginalia.subsets import subsets
from marginalia.synthesis.base import Array, ModelSynthesizer, State, check_model_size
from marginalia.synthesis.measuring import measure_all, number_of_records
from marginalia.synthesis.noisy_marginals import NoisyMarginal


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The numbers that Algorithm 2 fixes; the defaults are the paper's. docs/aim-constants.md compares others.

    None of them enters the privacy proof: each round is charged for what it does, and the last takes what is left.

    Attributes
    ----------
    rounds_per_attribute : float
        The cost of the first round is one over this and the number of attributes, of the budget.
    sharpness : float
        Epsilon of a selection over sensitivity/sigma of its measurement; 2/3: a tenth of the cost in zCDP.
    one_way : float
        Sensitivity/sigma of the one-way marginals over that of a round.
    anneal_at : float
        The noise falls if the model moved by at most this many times the expected absolute noise.
    anneal_by : float
        The noise is then divided by this number.
    model_growth : float
        A model may have this power of the used share of the budget, times the largest size.

    >>> Constants(rounds_per_attribute=4).anneal_by
    2.0
    """

    rounds_per_attribute: float = 16
    sharpness: float = 2 / 3
    one_way: float = 1.0
    anneal_at: float = 1.0
    anneal_by: float = 2.0
    model_growth: float = 1.0


CONSTANTS: Mapping[str, Constants] = {
    "paper": Constants(),
    "tuned": Constants(rounds_per_attribute=8, anneal_by=1.2),  # chosen by the study of docs/aim-constants.md
}


@dataclass(eq=False, repr=False, kw_only=True)
class AdaptiveSynthesizer(ModelSynthesizer):
    """Parameters of AIM and of its variants with other models.

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


@dataclass(eq=False, repr=False, kw_only=True)
class AIM(AdaptiveSynthesizer):
    """Measure the marginals on which the model is worst, one after the other, within a model size.

    Start from all one-way marginals. Each round selects, by the exponential mechanism, the candidate q (a subset of a
    workload marginal whose measurement keeps the model small enough) with score
    w_q (||M_q(D) - M_q(P)||_1 - sqrt(2/pi) sigma n_q), measures it with Gaussian noise and fits the model again. When
    the model moved no more than the noise would explain, sigma halves and the selection gets sharper (annealing).

    Parameters
    ----------
    epsilon : float
    delta : float, default 1e-5
    workload : int, iterable or mapping, default 2
        All marginals of this order, or attribute tuples with optional weights (`Workload.parse`).
    max_model_mb : float, default 80
        Largest junction tree, counted as in the paper (the engine itself needs less); a share of it is allowed as the
        budget is spent.
    max_cells : float, default 1e6
        Larger marginals of a workload given by its order are left out; named ones are refused.
    rounds : int, optional
        T: the cost of the first round is 1/T of the budget. Default 16 per attribute. The number of rounds run
        depends on the annealing and never exceeds T.
    constants : {"paper", "tuned"}, default "paper"
        Of the loop. ``tuned``, with tight calibration only: 8 rounds per attribute to start with, and the noise falls
        by a factor of 1.2 where the paper halves it: less error on most tables, in more rounds.
    relation : {"replace_one", "add_remove"}, default "replace_one"
    calibration : {"tight", "published"}, default "tight"
        ``published`` keeps the paper's constants, which are those of ``add_remove`` in zCDP, and is not certified under
        ``replace_one``; ``tight`` has less noise where Gaussian DP allows it, with selections as sharp beside it.
    verbose : bool, default False
        Show a progress bar of the budget.
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : GraphicalModel
    previous_ : GraphicalModel
        The model before the last round, whose errors the selection bounds (see `confidence_bound`).
    rounds_ : int
        Selected marginals.
    history_ : list of Round
    workload_ : Workload

    Notes
    -----
    Privacy: (epsilon, delta)-DP by zCDP or Gaussian DP (`privacy.costs`), whichever leaves less noise. In
    zCDP a Gaussian marginal costs s²/(2 sigma²) with s = 1 (``add_remove``) or sqrt(2), a selection e²/8; score
    sensitivity max w, doubled under ``replace_one``. Under ``add_remove`` the number of records is estimated from the
    noisy marginals. Selection is lazy: only candidates that can still win are evaluated; of 500 pairs and more all are,
    at once. The law is the same, but the *time* of a lazy selection depends on private rows.

    Deviations from the paper: errors are weighted by 1/sigma² in the fit; where T is so small that the one-way
    marginals would cost more than half of the budget, they get half. Where a pass over the model is dear (by its
    structure), the fit of a round begins with a step of proportional fitting on the new marginal, and ends after 12 to
    40 passes, or when every measured marginal is met within a fifth of the round's misfit. The misfit is released: how
    long a *fit* takes reveals nothing more. Where the model then seems not to have moved, a closer fit decides whether
    sigma halves.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 0, 1], [1, 2, 0], [1, 1, 0]] * 50, Domain.from_sizes({"a": 2, "b": 3, "c": 2}))
    >>> aim = AIM(epsilon=1.0, rounds=4, random_state=0).fit(table)
    >>> aim.ledger_.certified, aim.rounds_ <= 4, aim.sample(5).n_rows
    (True, True, 5)
    """

    UNITS: ClassVar[bool] = True
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {"constants": tuple(CONSTANTS)}

    max_model_mb: float = 80
    constants: str = "paper"
    verbose: bool = False

    @property
    def _loop(self) -> Constants:
        return CONSTANTS[self.constants]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.calibration == "published" and self.constants != "paper":
            raise InputError(f"calibration='published' runs with the paper's constants, not '{self.constants}'")

    def _check_cost(self, domain: Domain) -> None:
        super()._check_cost(domain)
        check_model_size("AIM", self.max_model_mb, domain)

    def workload_error(self, table: CountSource) -> float:
        """Return the mean over the workload of half the L1 distance between the model's and the table's marginals."""
        self._check_fitted()
        marginals, errors = self.workload_.names(self.domain_), []
        table.expect(marginals)
        self.model_.expect(self.workload_.cliques)
        for names in marginals:
            counts = table.counts(names) / max(1, table.n_rows)
            errors.append(0.5 * float(np.abs(counts - self.model_.marginal(names) / self.model_.total).sum()))
        return float(np.mean(errors))

    def confidence_bound(self, attributes: Sequence[str], *, confidence: float = 0.95) -> float:
        """Bound the L1 distance (in records) between the true marginal and the model's, from the release alone.

        `attributes` are a subset of a workload marginal; `confidence` is the probability of the bound, over the
        mechanism's randomness. The last selection bounds the scores of all candidates at once, the noisy marginal
        that it chose bounds the largest (McKenna et al. 2022; Zhou et al., Theorem C.3, whose λ₁ term lacks the weight
        of that marginal), and the model's last move is added.

        Raises
        ------
        InputError
            The marginal was neither measured nor a candidate of the last round: nothing is known of it.
        """
        self._check_fitted()
        alpha = 1.0 - checks.open_unit("confidence", confidence)
        clique = tuple(sorted(self.domain_.index(a) for a in attributes))
        last = self.history_[-1]
        if clique not in last.candidates:
            raise InputError(f"no bound is known for {tuple(attributes)}: not a candidate of the last round")
        cells = self.domain_.n_cells(attributes)
        spread = math.sqrt(2 * math.log(2 / alpha)) * last.sigma * math.sqrt(last.cells)
        gumbel, weight = 2 * last.sensitivity / last.epsilon, last.candidates[clique]
        slack = (
            last.weight * last.misfit
            + math.sqrt(2 / math.pi) * last.sigma * (weight * cells - last.weight * last.cells)
            + gumbel * math.log(len(last.candidates))
        )
        before = (slack + last.weight * spread + math.log(2 / alpha) * gumbel) / weight
        moved = np.abs(self.previous_.marginal(attributes) - self.model_.marginal(attributes)).sum()
        return float(before + moved)

    def _release(self, table: CountSource, session: Session) -> None:
        run = _GraphicalRun(self, table, session)
        run.run(verbose=self.verbose)
        self.workload_, self.history_ = run.workload, run.history
        self.model_, self.previous_ = run.model, run.previous
        self.rounds_, self.measurements_ = len(self.history_), run.measured
        self.n_rows_ = table.n_rows if session.neighbours.n_rows_public else int(self.model_.total)

    def _state(self) -> State:
        history = [{**asdict(r), "candidates": [[list(q), w] for q, w in r.candidates.items()]} for r in self.history_]
        return {
            **{f"model_{k}": v for k, v in self.model_.state().items()},
            **{f"previous_{k}": v for k, v in self.previous_.state().items()},
            "history": np.frombuffer(json.dumps(history).encode(), np.uint8),
        }

    def _restore(self, state: State) -> None:
        def model(prefix: str) -> GraphicalModel:
            parts = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            return GraphicalModel.from_state(self.domain_, parts)

        self.workload_ = Workload.parse(self.workload, self.domain_, max_cells=self.max_cells)
        self.model_ = model("model_")
        self.previous_ = model("previous_")
        self.history_ = [
            Round(**{**r, "marginal": tuple(r["marginal"]), "candidates": {tuple(q): w for q, w in r["candidates"]}})
            for r in json.loads(state["history"].tobytes())
        ]
        self.rounds_ = len(self.history_)


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
    """One run of Algorithm 2 on a private table; a subclass defines the model that is fitted.

    `start` sets the model and its scores, a `CandidateScores` or an object with the same methods.

    >>> sorted(AdaptiveRun.__abstractmethods__)  # what a subclass defines
    ['candidates', 'expected', 'refit', 'start']
    """

    model: Any
    scores: Any

    def __init__(self, method: AdaptiveSynthesizer, table: CountSource, session: Session) -> None:
        if method.rounds is not None:
            checks.count("rounds", method.rounds)
        if method.max_cells != math.inf:
            checks.positive("max_cells", method.max_cells)
        self.table, self.session = table, session
        self.workload = Workload.parse(method.workload, table.domain, max_cells=method.max_cells)
        self.weights = self.workload.closure()  # line 8: w_r, the weight of the score of each candidate
        self.one_ways = [q for q in self.weights if len(q) == 1]
        table.expect(map(self.names, self.weights))
        # Lines 4 to 6 and 9.
        self.budget = AdaptiveBudget.start(method, session.ledger, len(table.domain), len(self.one_ways))
        # Under the published constants the score is divided by the add/remove sensitivity.
        self._sharpening = session.neighbours.marginal_sensitivity_l1 if method.calibration == "published" else 1.0
        self.measured: list[NoisyMarginal] = []
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
        for one_way in self.one_ways:  # line 7, which is Algorithm 3
            self.measure(one_way, self.budget.initial_sigma)
        self.start()
        with bar("budget spent", 100, verbose=verbose) as advance:
            shown = 0.0
            while not self.budget.last:  # line 10
                self.budget.next_round()  # line 12
                self.round += 1  # line 11
                candidates = self.candidates()  # line 13
                q = self.select(candidates)  # line 14
                before = self.expected(q)
                noisy = self.measure(q, self.budget.sigma)  # line 15
                self.record(q, candidates, float(np.abs(before - noisy).sum()))
                self.refit(q)  # line 16
                still = self.budget.constants.anneal_at * self.noise * before.size
                if not self.budget.last and self.moved(q, before) <= still and not self.settle(q, before, still):
                    self.budget.anneal()  # line 17, Algorithm 4: the model moved no more than noise would explain
                advance(100 * self.budget.used_share - shown)
                shown = 100 * self.budget.used_share

    def moved(self, q: Clique, before: NDArray[np.float64]) -> float:
        """Return the L1 distance by which the last fit moved the model's counts on `q`."""
        return float(np.abs(self.expected(q) - before).sum())

    def settle(self, q: Clique, before: NDArray[np.float64], still: float) -> bool:
        """Fit the model closer where the last fit ended early; return whether `q` then moved more than `still`."""
        return False

    @property
    def noise(self) -> float:
        """Expected absolute noise of one count of this round: sqrt(2/pi) sigma."""
        return math.sqrt(2 / math.pi) * self.budget.sigma

    @property
    def total(self) -> float:
        """Number of records to fit."""
        return number_of_records(self.table, self.session.ledger, self.measured)

    def names(self, q: Clique) -> tuple[str, ...]:
        """Return the attributes of `q`."""
        return tuple(self.table.domain.names[a] for a in q)

    def measure(self, q: Clique, sigma: float) -> NDArray[np.float64]:
        """Release the counts on `q` with Gaussian noise."""
        marginals = [self.names(q)]
        self.measured += measure_all(self.table, marginals, sigma, self.session, round=self.round)
        return np.asarray(self.measured[-1].values)

    def select(self, candidates: Sequence[Clique]) -> Clique:
        """Choose a marginal by the exponential mechanism; as a rule only those that can still win are scored."""
        self.scores.begin_round(self.model, self.noise)
        winner = self.session.select(
            self.scores.bounds(candidates),
            lambda i: self.scores.score(candidates[i]),
            epsilon=self.budget.epsilon * self._sharpening,
            sensitivity=self._sensitivity(candidates),
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
        return max(map(self.weights.__getitem__, candidates)) * self.session.neighbours.marginal_sensitivity_l1


class _GraphicalRun(AdaptiveRun):
    """A graphical model, refitted from the one before; the size of its junction tree limits the candidates."""

    model: GraphicalModel
    previous: GraphicalModel

    def __init__(self, aim: AIM, table: CountSource, session: Session) -> None:
        super().__init__(aim, table, session)
        self._max_model_mb = aim.max_model_mb
        self._cliques = [*self.one_ways, *zero_cliques(table.domain)]
        self._free = {q for c in self._cliques for q in subsets(c, smallest=1)}  # inside a model clique: always allowed
        self._megabytes: Array | None = None  # of the model with each candidate, while no clique is new

    def start(self) -> None:
        self.model = self._fit(ROUND_TIGHT, None)
        self.scores = CandidateScores(self.table, self.weights)

    def candidates(self) -> list[Clique]:
        limit = self._max_model_mb * self.budget.used_share**self.budget.constants.model_growth
        if self._megabytes is None:
            self._megabytes = megabytes_with(self._cliques, list(self.weights), self.table.domain.sizes)
        return [q for q, mb in zip(self.weights, self._megabytes, strict=True) if mb <= limit or q in self._free]

    def expected(self, q: Clique) -> Array:
        # Released, so its last bit must not tell which scores the selection evaluated.
        return self.model.lone_probabilities(q) * self.model.total

    def refit(self, q: Clique) -> None:
        settings = fit_settings(self.model.plan, last=self.budget.last, misfit=self.history[-1].misfit)
        self.previous, self.model = self.model, self._fit(settings, self.model)
        self._is_quick = settings.near is not None
        self.previous.release_memory()
        if q not in self._free:
            self._cliques.append(q)
            self._free.update(subsets(q, smallest=1))
            self._megabytes = None

    def settle(self, q: Clique, before: Array, still: float) -> bool:
        # A model that moved little because its fit ended early must not lower the noise.
        if not self._is_quick:
            return False
        self.model = self._fit(_CLOSER, self.model)
        return self.moved(q, before) > still

    def _fit(self, settings: FitSettings, start: GraphicalModel | None) -> GraphicalModel:
        return estimate(self.table.domain, self.measured, total=self.total, warm_start=start, settings=settings)


_TIGHT_SECONDS = 0.05  # a round's tight fit may take this long, predicted; beyond, quick fits lose nothing
_FINAL_SECONDS = 1.0  # the same for the last fit
_QUICK_SECONDS, _QUICK_PASSES = 0.03, (12, 40)  # a quick fit's predicted length, and its passes, at least and at most
_LAST_SECONDS, _LAST_PASSES = 1.0, (80, 150)  # the same for a last fit that is quick
_SHORT_STEPS = 100.0  # `t` of a quick fit: its subproblems are easy, so that each pass lowers the loss
_NEAR = 0.2  # share of the round's misfit by which a quick fit may miss any marginal
# Where the model did not move in a quick fit, a closer one decides whether the noise falls.
_CLOSER = replace(ROUND_QUICK, decrease=3e-4, passes=150, most=150)


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
    seconds = seconds_per_pass(plan)
    if seconds * tight.passes < limit:
        return tight
    if misfit is None:
        return ROUND_QUICK
    if last:
        passes = int(np.clip(_LAST_SECONDS / seconds, *_LAST_PASSES))
        return replace(ROUND_QUICK, t=30.0, passes=passes, most=passes, proportional=True)
    passes = int(np.clip(_QUICK_SECONDS / seconds, *_QUICK_PASSES))
    return replace(ROUND_QUICK, t=_SHORT_STEPS, passes=passes, most=passes, near=_NEAR * misfit, proportional=True)


@dataclass
class AdaptiveBudget:
    """The budget, and the noise and selection of the next round, in the measure that allows less noise.

    A round's selection is as sharp, beside the noise of its measurement, as the paper's: in zCDP the measurement has
    nine tenths of its cost, hence epsilon² = 4/9 (sensitivity/sigma)².

    >>> from marginalia.synthesis import AIM
    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    >>> budget = AdaptiveBudget.start(AIM(epsilon=1.0, rounds=3), ledger, n_attributes=2, n_singles=2)
    >>> budget.next_round()
    >>> f"{budget.used_share:.0%} used, last round: {budget.last}"
    '100% used, last round: True'
    """

    composition: CompositionBudget
    used: float
    sigma: float  # noise of the next measurement
    epsilon: float  # parameter of the next selection
    initial_sigma: float  # noise of the one-way marginals
    sensitivity: float  # of a marginal
    constants: Constants
    last: bool = False  # this round spends all that is left

    @classmethod
    def start(cls, aim: AdaptiveSynthesizer, ledger: Ledger, n_attributes: int, n_singles: int) -> AdaptiveBudget:
        """Return the budget after the one-way marginals, of what is left in the ledger."""
        epsilon, delta = ledger.remaining_budget()
        constants = aim._loop
        rounds = aim.rounds if aim.rounds is not None else constants.rounds_per_attribute * n_attributes

        def ratio_of(composition: CompositionBudget) -> float:
            return round_ratio(composition, composition.total / rounds, constants.sharpness)

        if aim.calibration == "published":
            composition, sensitivity = CompositionBudget.of(epsilon, delta, "zcdp"), 1.0
        else:
            composition = best_measure(epsilon, delta, ratio_of, ledger.measures)
            sensitivity = ledger.neighbours.marginal_sensitivity_l2
        ratio, sharpness = ratio_of(composition), constants.sharpness
        half = composition.largest(composition.gaussian, 0.5 * composition.total / n_singles)  # at most half
        initial = min(constants.one_way * ratio, half)
        used = n_singles * composition.gaussian(initial)
        sigma, epsilon = sensitivity / ratio, sharpness * ratio
        return cls(composition, used, sigma, epsilon, sensitivity / initial, sensitivity, constants)

    @property
    def used_share(self) -> float:
        """Share of the budget that is charged."""
        return self.used / self.composition.total

    def next_round(self) -> None:
        """Charge a round; the last one takes all that is left."""
        left = self.composition.total - self.used
        if left < 2 * self._cost():
            self.last = True
            sharpness = self.constants.sharpness
            ratio = round_ratio(self.composition, left, sharpness)
            self.sigma, self.epsilon = self.sensitivity / ratio, sharpness * ratio
        self.used += self._cost()

    def anneal(self) -> None:
        """Lower the noise and sharpen the selection: halved noise makes rounds cost up to four times as much."""
        self.sigma /= self.constants.anneal_by
        self.epsilon *= self.constants.anneal_by

    def _cost(self) -> float:
        return self.composition.gaussian(self.sensitivity / self.sigma) + self.composition.selection(self.epsilon)


def round_ratio(budget: CompositionBudget, cost: float, sharpness: float = Constants.sharpness) -> float:
    """Return the sensitivity/sigma of a round's measurement, such that it and its selection cost `cost`.

    >>> round(round_ratio(CompositionBudget("zcdp", 1.0), 0.005 / 0.9), 9)
    0.1
    """
    return budget.largest(lambda x: budget.gaussian(x) + budget.selection(sharpness * x), cost)


_CACHE_BYTES = 2**28  # of counts; beyond, they are counted again
_KEPT_MODELS = 12  # earlier rounds whose models still bound scores
# From this many pairs on (32 attributes) all are scored at once, after one sweep over the model. Nearly all would be
# evaluated in any case, and each proposal of the selection takes a time in proportion to their number.
_MANY = 500
_MATRIX_BYTES = 2**28  # of the counts of all pairs


class CandidateScores:
    """Scores w_q (||M_q(D) - M_q(P)||_1 - noise * n_q) of one table's marginals, and upper bounds on them.

    A bound needs no marginal: the distance is at most n + N; and where it was computed for an earlier model P_i, at
    most that distance plus N sqrt(2 KL(P || P_i)) (Pinsker) plus the change of N. The divergence of two graphical
    models is <theta - theta_i, mu> - log Z + log Z_i. The scores of many pairs are all computed at once, and are the
    bounds. Scores and bounds are private: they may go into a mechanism only.

    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> from marginalia.marginals.estimation import estimate
    >>> table = Table([[0, 0], [1, 1]] * 10, Domain.from_sizes({"a": 2, "b": 2}))
    >>> scores = CandidateScores(table, {(0,): 1.0, (0, 1): 2.0})  # the weight of each candidate
    >>> scores.begin_round(estimate(table.domain, [], total=20.0), noise=1.0)
    >>> [round(scores.score(q), 6) for q in [(0,), (0, 1)]]
    [-2.0, 32.0]
    """

    def __init__(self, table: CountSource, candidates: Mapping[Clique, float]) -> None:
        self._table = table
        self._at = {q: i for i, q in enumerate(candidates)}
        self._weights = np.array(list(candidates.values()))
        self._cells = np.array([table.domain.n_cells([table.domain.names[a] for a in q]) for q in candidates], float)
        self._counts: dict[Clique, tuple[NDArray[np.int32], NDArray[np.int32 | np.int64]]] = {}
        self._counts_bytes = 0
        self._models: dict[int, GraphicalModel] = {}
        self._moved: dict[int, float] = {}  # round -> bound on the L1 move from its model to the current one
        self._round = -1
        self._known_at = np.full(len(candidates), -1)  # the round of the last distance ...
        self._known = np.full(len(candidates), math.inf)  # ... and that distance
        many = len(candidates) >= _MANY and max(map(len, candidates)) <= 2
        self._all = many and 8 * sum(table.domain.sizes) ** 2 <= _MATRIX_BYTES
        self._pairs: NDArray[np.float64] | None = None  # the counts of all of them
        self._arena = Arena()
        self._first, self._last = np.array([(q[0], q[-1]) for q in candidates]).T

    def begin_round(self, model: GraphicalModel, noise: float) -> None:
        """Set the model and sqrt(2/pi) sigma of the round."""
        self._model, self._noise = model, noise
        self._round += 1
        if self._all and self._score_all():
            return
        self._models.pop(self._round - _KEPT_MODELS - 1, None)
        self._moved = {i: _distance_bound(model, m) for i, m in self._models.items()}
        self._models[self._round] = model
        model.expect(self._at)

    def bounds(self, candidates: Sequence[Clique]) -> NDArray[np.float64]:
        """Return upper bounds on the scores of `candidates`."""
        trivial = self._table.n_rows + self._model.total
        at = np.fromiter(map(self._at.__getitem__, candidates), np.intp, len(candidates))
        known_at, distances = self._known_at[at], self._known[at]
        moved = np.full(self._round + 2, math.inf)  # the last place, -1, is that of candidates never evaluated
        moved[list(self._moved)] = list(self._moved.values())
        earlier = np.minimum(trivial, distances + moved[known_at])
        distances = np.where(known_at == self._round, distances, earlier)
        # The scores themselves carry rounding errors of this size.
        rounding = 1e-9 * trivial * self._weights.max()
        return np.asarray(self._weights[at] * (distances - self._noise * self._cells[at]) + rounding)

    def score(self, q: Clique) -> float:
        """Return the score of `q`."""
        i = self._at[q]
        if self._known_at[i] != self._round:  # a candidate is often proposed again
            at, counts = self._sparse_counts(q)
            expected = self._model.probabilities(q).ravel()[at] * self._model.total
            # Cells without records add their expected counts.
            empty = max(0.0, self._model.total - float(expected.sum()))
            self._known_at[i], self._known[i] = self._round, float(np.abs(counts - expected).sum()) + empty
        return float(self._weights[i] * (self._known[i] - self._noise * self._cells[i]))

    def _score_all(self) -> bool:
        """Compute the distances of all candidates, unless the model is too large for it; return whether it was done."""
        expected = self._model.pair_matrix(self._arena)
        if expected is None:
            return False
        starts = np.cumsum([0, *self._table.domain.sizes[:-1]])
        if self._pairs is None:
            self._pairs = self._count_pairs(starts)
        distances = _pair_distances(expected, self._pairs, self._model.total, np.append(starts, len(expected)))
        self._known[:] = distances[self._first, self._last]
        self._known_at[:] = self._round
        return True

    def _count_pairs(self, starts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the counts of all pairs as one symmetric matrix, with those of an attribute on its diagonal."""
        domain = self._table.domain
        out = np.zeros((sum(domain.sizes), sum(domain.sizes)))
        at = [slice(start, start + m) for start, m in zip(starts, domain.sizes, strict=True)]
        for q in self._at:
            counts = self._table.counts([domain.names[a] for a in q])
            if len(q) == 1:
                out[at[q[0]], at[q[0]]] = np.diag(counts)
            else:
                out[at[q[0]], at[q[1]]] = counts
                out[at[q[1]], at[q[0]]] = counts.T
        return out

    def _sparse_counts(self, q: Clique) -> tuple[NDArray[np.int32], NDArray[np.int32 | np.int64]]:
        if q in self._counts:
            return self._counts[q]
        dense = self._table.counts([self._table.domain.names[a] for a in q]).ravel()
        at = np.flatnonzero(dense).astype(np.int32)
        counts = dense[at]
        sparse = at, counts if counts.max(initial=0) >= 2**31 else counts.astype(np.int32)
        n_bytes = sum(part.nbytes for part in sparse)
        if self._counts_bytes + n_bytes <= _CACHE_BYTES:
            self._counts[q] = sparse
            self._counts_bytes += n_bytes
        return sparse


def _distance_bound(new: GraphicalModel, old: GraphicalModel) -> float:
    """Bound the L1 distance between any marginal's expected counts under the two models."""
    inference = new.inference
    possible = inference.mu > 0  # structural zeros have potential minus infinity in both
    step = inference.theta[possible] - new.plan.embed(old.plan, old.theta)[possible]
    terms = step * inference.mu[possible]
    divergence = float(terms.sum()) - new.log_z + old.log_z
    rounding = 1e-12 * (float(np.abs(terms).sum()) + abs(new.log_z) + abs(old.log_z))
    distance = math.sqrt(2 * max(0.0, divergence + rounding))
    return min(2.0, distance) * new.total + abs(new.total - old.total)


@njit(cache=True)
def _pair_distances(probabilities, counts, total, starts):  # type: ignore[no-untyped-def]
    """Return the L1 distances between blocks of two matrices, shape (blocks, blocks), zero below the diagonal.

    Off the diagonal of a diagonal block both matrices are zero.
    """
    out = np.zeros((starts.size - 1, starts.size - 1))
    for a in range(starts.size - 1):
        for i in range(starts[a], starts[a + 1]):
            for b in range(a, starts.size - 1):
                distance = 0.0
                for j in range(starts[b], starts[b + 1]):
                    distance += abs(total * probabilities[i, j] - counts[i, j])
                out[a, b] += distance
    return out
