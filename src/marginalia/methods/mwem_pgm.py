"""MWEM+PGM: a few rounds, each of which measures the marginal of the workload that the model has worst."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource
from marginalia.errors import InputError
from marginalia.marginals.elimination import Clique, eliminate, megabytes_with
from marginalia.marginals.estimation import estimate, zero_cliques
from marginalia.marginals.workload import Workload
from marginalia.methods.aim import AdaptiveSynthesizer, CandidateScores, Constants, fit_settings, round_ratio
from marginalia.privacy import checks
from marginalia.privacy.costs import best_measure
from marginalia.privacy.session import Session
from marginalia.synthesis.base import State, check_model_size
from marginalia.synthesis.measuring import measure_all, number_of_records
from marginalia.synthesis.noisy_marginals import NoisyMarginal

_COUNT = 0.01  # share of the budget for the number of records, where it is private


@dataclass(eq=False, repr=False, kw_only=True)
class MWEM(AdaptiveSynthesizer):
    """Measure the workload's worst marginal, fit again, `rounds` times: the ancestor of AIM.

    MWEM (Hardt, Ligett & McSherry 2012) with whole marginals and a graphical model (McKenna, Sheldon & Miklau 2019), in
    the form that the AIM paper compares with (McKenna et al. 2022): start from the uniform model; each round selects,
    by the exponential mechanism, the marginal q with score w_q (||M_q(D) - M_q(P)||_1 - n_q), n_q its number of cells,
    among those that keep the model small enough, measures it with Gaussian noise and fits the model again.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    workload : int, iterable or mapping, default 2
        As for `AIM`; only members are measured, not what lies inside them.
    max_model_mb : float, default 25
        Largest junction tree, counted as for `AIM`; round t of T may use t/T of it.
    max_cells : float, default 1e6
        Larger marginals of a workload given by its order are left out; named ones are refused.
    rounds : int, optional
        T, at equal price each. Default: the number of attributes.
    relation : {"replace_one", "add_remove"}, default "replace_one"
    calibration : {"tight"}, default "tight"
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : GraphicalModel
    measured_ : list of tuple of str
        Selected marginals, one a round; one may come again.

    Notes
    -----
    Privacy: (epsilon, delta)-DP by zCDP or Gaussian DP (`privacy.costs`), whichever leaves less noise; in
    zCDP a round spends a tenth on its selection, as in the authors' code. Score sensitivity max w, doubled under
    ``replace_one``. Under ``add_remove`` a hundredth of the budget counts the records before the first round, to which
    the authors' code is blind. Weights are not in the papers. Selection is lazy, as for `AIM`.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 0, 1], [1, 2, 0], [1, 1, 0]] * 500, Domain.from_sizes({"a": 2, "b": 3, "c": 2}))
    >>> mwem = MWEM(epsilon=1.0, random_state=0).fit(table)
    >>> mwem.ledger_.certified, mwem.measured_
    (True, [('a', 'c'), ('a', 'b'), ('a', 'b')])
    """

    UNITS: ClassVar[bool] = True
    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight",)

    max_model_mb: float = 25
    measured_: list[tuple[str, ...]] = field(init=False)

    def _check_cost(self, domain: Domain) -> None:
        super()._check_cost(domain)
        if self.rounds is not None:
            checks.count("rounds", self.rounds)
        if self.max_cells != math.inf:
            checks.positive("max_cells", self.max_cells)
        check_model_size("MWEM", self.max_model_mb, domain)

    def _release(self, table: CountSource, session: Session) -> None:
        domain, names = table.domain, table.domain.names
        workload = Workload.parse(self.workload, domain, max_cells=self.max_cells)
        top = max(workload.weights)
        weights = {q: w / top for q, w in sorted(zip(workload.cliques, workload.weights, strict=True))}
        members = list(weights)
        cliques = zero_cliques(domain)
        rounds = len(domain) if self.rounds is None else self.rounds
        self._candidates(cliques, members, domain, 1 / rounds)  # before anything is released
        table.expect(workload.names(domain))

        adds = not session.neighbours.n_rows_public
        share = (1 - (_COUNT if adds else 0.0)) / rounds
        budget = best_measure(
            *session.ledger.remaining_budget(),
            lambda budget: round_ratio(budget, share * budget.total),
            session.ledger.measures,
        )
        ratio = round_ratio(budget, share * budget.total)
        sigma, sensitivity = (
            session.neighbours.marginal_sensitivity_l2 / ratio,
            session.neighbours.marginal_sensitivity_l1,
        )  # weights up to 1
        count: list[NoisyMarginal] = []
        if adds:
            scale = budget.largest(budget.gaussian, _COUNT * budget.total)
            count = measure_all(table, [()], session.neighbours.marginal_sensitivity_l2 / scale, session)

        measured: list[NoisyMarginal] = []
        model = estimate(domain, measured, total=number_of_records(table, session.ledger, count))
        scores = CandidateScores(table, weights)
        for t in range(1, rounds + 1):
            candidates = self._candidates(cliques, members, domain, t / rounds)
            scores.begin_round(model, 1.0)
            score = partial(_score_of, scores, candidates)
            winner = session.select(
                scores.bounds(candidates),
                score,
                epsilon=Constants.sharpness * ratio,
                sensitivity=sensitivity,
                label=f"round {t}",
            )
            q = candidates[winner]
            measured += measure_all(table, [tuple(names[a] for a in q)], sigma, session, round=t)
            cliques.append(q)
            model.release_memory()
            model = estimate(
                domain,
                measured,
                total=number_of_records(table, session.ledger, [*count, *measured]),
                warm_start=model,
                settings=fit_settings(model.plan, last=t == rounds),
            )
        self.measurements_ = [*count, *measured]
        self.model_, self.measured_ = model, [tuple(m.attributes) for m in measured]
        self.n_rows_ = table.n_rows if session.neighbours.n_rows_public else round(model.total)

    def _candidates(self, cliques: list[Clique], members: list[Clique], domain: Domain, share: float) -> list[Clique]:
        """Return what may be measured within a share of the largest model; within all of it, if else nothing may."""
        megabytes = megabytes_with(cliques, members, domain.sizes)
        now = eliminate(cliques, domain.sizes).megabytes
        for limit in (max(share * self.max_model_mb, now), self.max_model_mb):
            if found := [q for q, mb in zip(members, megabytes, strict=True) if mb <= limit]:
                return found
        raise InputError(
            f"every marginal of the workload makes the model larger than max_model_mb={self.max_model_mb:g}: raise it"
        )

    def _state(self) -> State:
        return {**super()._state(), "measured": np.frombuffer(json.dumps(self.measured_).encode(), np.uint8)}

    def _restore(self, state: State) -> None:
        super()._restore({k: v for k, v in state.items() if k != "measured"})
        self.measured_ = [tuple(q) for q in json.loads(state["measured"].tobytes())]


def _score_of(scores: CandidateScores, candidates: list[Clique], i: int) -> float:
    return scores.score(candidates[i])
