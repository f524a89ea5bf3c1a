"""AIM: adaptive and iterative mechanism for synthetic data (McKenna, Mullins, Sheldon & Miklau 2022, Algorithm 2)."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data import Table
from marginalia.errors import InputError
from marginalia.marginals import (
    FINAL,
    ROUND_QUICK,
    ROUND_TIGHT,
    FitSettings,
    GraphicalModel,
    Measurement,
    Workload,
    estimate,
    estimate_total,
    megabytes_with,
)
from marginalia.marginals.cost import seconds_per_pass
from marginalia.marginals.elimination import Clique
from marginalia.marginals.workload import WorkloadLike
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import measure_marginal
from marginalia.privacy.mechanisms.selection import lazy_exponential
from marginalia.privacy.relation import Relation
from marginalia.synthesis.aim_budget import AdaptiveBudget
from marginalia.synthesis.aim_scores import CandidateScores
from marginalia.synthesis.base import Synthesizer

_TIGHT_SECONDS = 0.05  # a round's tight fit may take this long, predicted; beyond, quick fits lose nothing
_FINAL_SECONDS = 4.0  # the same for the last fit


class AIM(Synthesizer):
    """Measure the marginals on which the model is worst, one after the other, within a model size.

    Start from all one-way marginals. Each round selects, by the exponential mechanism, the candidate q (a subset of a
    workload marginal whose measurement keeps the model small enough) with score
    w_q (||M_q(D) - M_q(P)||_1 - sqrt(2/pi) sigma n_q), measures it with Gaussian noise and fits the model again. When
    the model moved no more than the noise would explain, sigma halves and the selection gets sharper (annealing).

    Parameters
    ----------
    epsilon, delta, relation, calibration, random_state
        See `Synthesizer`. The two calibrations differ under ``replace_one`` only: ``published`` keeps the paper's
        constants, which are those of ``add_remove``, and is not certified there.
    workload : int, iterable or mapping, default 2
        All marginals of this order, or attribute tuples with optional weights (`Workload.parse`).
    max_model_mb : float, default 80
        Largest junction tree, counted as in the paper (the engine itself needs less); a share of it is allowed as the
        budget is spent.
    max_cells : float, default 1e6
        Larger marginals of a workload given by its order are left out; named ones are refused.
    rounds : int, optional
        T: the starting price of a round is 1/T of the budget. Default 16 per attribute. The number of rounds run
        depends on the annealing and never exceeds T.
    verbose : bool, default False
        Show a progress bar of the budget.

    Attributes
    ----------
    model_ : GraphicalModel
    rounds_ : int
        Selected marginals.
    history_ : list of Round
    workload_ : Workload

    Notes
    -----
    Privacy: rho-zCDP with the largest rho that gives (epsilon, delta)-DP. A Gaussian marginal costs s²/(2 sigma²) with
    s = 1 (``add_remove``) or sqrt(2), a selection e²/8; score sensitivity max w, doubled under ``replace_one``. Under
    ``add_remove`` the number of records is estimated from the noisy marginals. Selection is lazy: only candidates that
    can still win are evaluated. The law is the same, but the *time* of a fit depends on private rows.

    Deviations from the paper: errors are weighted by 1/sigma² in the fit; where T is so small that the one-way
    marginals would cost more than half of the budget, they get half.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 1e-5,
        workload: WorkloadLike = 2,
        max_model_mb: float = 80,
        max_cells: float = 1e6,
        rounds: int | None = None,
        relation: str = "add_remove",
        calibration: str = "tight",
        verbose: bool = False,
        random_state: int | np.random.SeedSequence | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.workload = workload
        self.max_model_mb = max_model_mb
        self.max_cells = max_cells
        self.rounds = rounds
        self.relation = relation
        self.calibration = calibration
        self.verbose = verbose
        self.random_state = random_state

    def marginal(self, attributes: Sequence[str]) -> NDArray[np.float64]:
        """Return the model's marginal as counts."""
        self._check_fitted()
        return self.model_.marginal(attributes)

    def workload_error(self, table: Table) -> float:
        """Return the mean over the workload of half the L1 distance between the model's and the table's marginals."""
        self._check_fitted()
        errors = []
        for names in self.workload_.names(self.domain_):
            counts = table.counts(names) / max(1, table.n_rows)
            errors.append(0.5 * float(np.abs(counts - self.model_.marginal(names) / self.model_.total).sum()))
        return float(np.mean(errors))

    def confidence_bound(self, attributes: Sequence[str], *, confidence: float = 0.95) -> float:
        """Bound the L1 distance (in records) between the true marginal and the model's, from the release alone.

        Parameters
        ----------
        attributes : sequence of str
            A subset of a workload marginal.
        confidence : float
            Probability of the bound, over the mechanism's randomness.

        Raises
        ------
        InputError
            The marginal was neither measured nor a candidate of the last round: nothing is known of it.
        """
        self._check_fitted()
        if not 0 < confidence < 1:
            raise InputError(f"confidence must lie strictly between 0 and 1, not {confidence!r}")
        clique = tuple(sorted(self.domain_.index(a) for a in attributes))
        last = self.history_[-1]
        if clique not in last.candidates:
            raise InputError(f"no bound is known for {tuple(attributes)}: not a candidate of the last round")
        cells = self.domain_.n_cells(attributes)
        alpha = 1.0 - confidence
        spread = math.sqrt(2 * math.log(2 / alpha)) * last.sigma * math.sqrt(last.cells)
        gumbel = 2 * last.sensitivity / last.epsilon
        weight = last.candidates[clique]
        slack = (
            last.weight * last.misfit
            + math.sqrt(2 / math.pi) * last.sigma * (weight * cells - last.weight * last.cells)
            + gumbel * math.log(len(last.candidates))
        )
        before = (slack + last.weight * spread + math.log(2 / alpha) * gumbel) / weight
        moved = np.abs(self._previous.marginal(attributes) - self.model_.marginal(attributes)).sum()
        return float(before + moved)

    def _release(self, table: Table, ledger: Ledger, rng: np.random.Generator) -> None:
        domain = table.domain
        self._check_own_parameters()
        self.workload_ = Workload.parse(self.workload, domain, max_cells=self.max_cells)
        candidates = self.workload_.closure()
        singles = [q for q in candidates if len(q) == 1]
        budget = AdaptiveBudget.start(self, len(domain), len(singles))
        public_n = table.n_rows if ledger.relation is Relation.REPLACE_ONE else None

        def measure(q: Clique, sigma: float) -> Measurement:
            names = tuple(domain.names[a] for a in q)
            return Measurement(names, measure_marginal(table, names, sigma=sigma, ledger=ledger, rng=rng), sigma)

        def fit(settings: FitSettings, start: GraphicalModel | None) -> GraphicalModel:
            total = max(1.0, float(public_n)) if public_n is not None else estimate_total(measured)
            return estimate(domain, measured, total=total, warm_start=start, settings=settings)

        measured = [measure(q, budget.initial_sigma) for q in singles]
        model = fit(ROUND_TIGHT, None)
        scores = CandidateScores(table, candidates)
        zeros = [tuple(sorted(domain.index(a) for a in z.attributes)) for z in domain.structural_zeros]
        cliques = [*singles, *zeros]
        free = {q for c in cliques for q in _subsets(c)}  # inside a model clique: always allowed
        names = list(candidates)
        self.history_: list[Round] = []
        with _progress(self.verbose, budget) as show:
            while not budget.spent:
                budget.next_round()
                limit = self.max_model_mb * budget.used_share
                megabytes = megabytes_with(cliques, names, domain.sizes)
                allowed = [q for q, mb in zip(names, megabytes, strict=True) if mb <= limit or q in free]
                weights = np.array([candidates[q] for q in allowed])
                sensitivity = float(weights.max()) * ledger.relation.marginal_l1
                # Under the published constants the score is divided by the add/remove sensitivity.
                scale = ledger.relation.marginal_l1 if self.calibration == "published" else 1.0
                noise = math.sqrt(2 / math.pi) * budget.sigma
                scores.begin_round(model, noise)
                chosen = allowed[
                    lazy_exponential(
                        scores.bounds(allowed),
                        lambda i, allowed=allowed: scores.score(allowed[i]),  # type: ignore[misc]
                        epsilon=budget.epsilon * scale,
                        sensitivity=sensitivity,
                        ledger=ledger,
                        rng=rng,
                        label="select",
                    )
                ]
                measured.append(measure(chosen, budget.sigma))
                before = model.probabilities(chosen) * model.total
                cells = before.size
                misfit = float(np.abs(before - np.asarray(measured[-1].values)).sum())
                self.history_.append(
                    Round(chosen, candidates[chosen], cells, budget.sigma, budget.epsilon * scale, sensitivity, misfit)
                )
                if budget.last:
                    self.history_[-1].candidates = dict(zip(allowed, weights.tolist(), strict=True))
                    break
                cliques.append(chosen)
                free.update(_subsets(chosen))
                previous, model = model, fit(self._settings(model, ROUND_TIGHT, _TIGHT_SECONDS), model)
                previous.release_memory()
                moved = np.abs(model.probabilities(chosen) * model.total - before).sum()
                if moved <= noise * cells:
                    budget.anneal()
                show()
        self._previous = model
        self.model_ = fit(self._settings(model, FINAL, _FINAL_SECONDS), model)
        model.release_memory()
        self.rounds_ = len(self.history_)
        self.n_rows_ = int(public_n if public_n is not None else self.model_.total)

    def _settings(self, model: GraphicalModel, tight: FitSettings, seconds: float) -> FitSettings:
        """Fit tightly where passes are cheap; the choice depends on the model's structure only, which is public."""
        return tight if seconds_per_pass(model.plan) * tight.passes < seconds else ROUND_QUICK

    def _check_own_parameters(self) -> None:
        if self.rounds is not None and (
            isinstance(self.rounds, bool) or not isinstance(self.rounds, int | np.integer) or self.rounds < 1
        ):
            raise InputError(f"rounds must be a positive integer or None, not {self.rounds!r}")
        for name in ("max_model_mb", "max_cells"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value > 0:
                raise InputError(f"{name} must be a positive number, not {value!r}")

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        return self.model_.sample(n_rows, rng)

    def _state(self) -> dict[str, NDArray[Any]]:
        history = [{**asdict(r), "candidates": [[list(q), w] for q, w in r.candidates.items()]} for r in self.history_]
        return {
            **{f"model_{k}": v for k, v in self.model_.state().items()},
            **{f"previous_{k}": v for k, v in self._previous.state().items()},
            "history": np.frombuffer(json.dumps(history).encode(), np.uint8),
        }

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        def model(prefix: str) -> GraphicalModel:
            parts = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            return GraphicalModel.from_state(self.domain_, parts)

        self.workload_ = Workload.parse(self.workload, self.domain_, max_cells=self.max_cells)
        self.model_ = model("model_")
        self._previous = model("previous_")
        rounds = json.loads(state["history"].tobytes())
        self.history_ = [
            Round(**{**r, "marginal": tuple(r["marginal"]), "candidates": {tuple(q): w for q, w in r["candidates"]}})
            for r in rounds
        ]
        self.rounds_ = len(self.history_)


@dataclass
class Round:
    """What one round chose and how; all of it is part of the release.

    Attributes
    ----------
    marginal : tuple of int
        Attribute positions.
    weight : float
    cells : int
    sigma, epsilon : float
        Noise of the measurement, parameter of the selection.
    sensitivity : float
        Of the scores.
    misfit : float
        L1 distance of the noisy marginal from the model before it.
    candidates : dict
        Candidate -> weight; kept for the last round.
    """

    marginal: Clique
    weight: float
    cells: int
    sigma: float
    epsilon: float
    sensitivity: float
    misfit: float
    candidates: dict[Clique, float] = field(default_factory=dict)


def _subsets(clique: Clique) -> Iterator[Clique]:
    for k in range(1, len(clique) + 1):
        yield from itertools.combinations(clique, k)


class _progress:  # noqa: N801 - used as a function
    """A bar over the share of the budget used; nothing at all unless asked for."""

    def __init__(self, show: bool, budget: AdaptiveBudget) -> None:
        self._show, self._budget = show, budget

    def __enter__(self) -> Any:
        if not self._show:
            return lambda: None
        from tqdm import tqdm

        self._bar = tqdm(total=100, desc="AIM", unit="% of budget")
        return lambda: self._bar.update(round(100 * self._budget.used_share) - self._bar.n)

    def __exit__(self, *_: object) -> None:
        if self._show:
            self._bar.update(100 - self._bar.n)
            self._bar.close()
