"""AIM: adaptive and iterative mechanism for synthetic data (McKenna, Mullins, Sheldon & Miklau 2022, Algorithm 2).

The rounds and their budget are `synthesis.adaptive`; here are the candidates of a round and their scores, evaluated as
seldom as the lazy selection allows.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource
from marginalia.errors import InputError
from marginalia.marginals.elimination import Clique, megabytes_with
from marginalia.marginals.estimation import ROUND_TIGHT, FitSettings, estimate, zero_cliques
from marginalia.marginals.model import GraphicalModel
from marginalia.marginals.workload import Workload
from marginalia.privacy import checks
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.synthesis.adaptive import AdaptiveRun, AdaptiveSynthesizer, Constants, Round, fit_settings
from marginalia.synthesis.base import Array, State, check_model_size

CONSTANTS: Mapping[str, Constants] = {
    "paper": Constants(),
    "tuned": Constants(rounds_per_attribute=8, anneal_by=1.2),  # chosen by benchmarks/aim_constants.py
}


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
        T: the starting price of a round is 1/T of the budget. Default 16 per attribute. The number of rounds run
        depends on the annealing and never exceeds T.
    constants : {"paper", "tuned"}, default "paper"
        Of the loop. ``tuned``, with tight calibration only: 8 rounds per attribute to start with, and the noise falls
        by a factor of 1.2 where the paper halves it: less error on most tables, in more rounds.
    relation : {"add_remove", "replace_one"}, default "add_remove"
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
    structure), the fit of a round begins with a step of proportional fitting on the new marginal, and ends when every
    measured one is met within a fifth of the round's misfit, which is released: how long a *fit* takes tells nothing
    more.

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

    def _release(self, table: CountSource, ledger: Ledger, randomness: Randomness) -> None:
        run = _GraphicalRun(self, table, ledger, randomness)
        run.run(verbose=self.verbose)
        self.workload_, self.history_ = run.workload, run.history
        self.model_, self.previous_ = run.model, run.previous
        self.rounds_, self.measurements_ = len(self.history_), run.measured
        self.n_rows_ = table.n_rows if ledger.neighbours.n_rows_public else int(self.model_.total)

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


class _GraphicalRun(AdaptiveRun):
    """A graphical model, refitted from the one before; the size of its junction tree limits the candidates."""

    model: GraphicalModel
    previous: GraphicalModel

    def __init__(self, aim: AIM, table: CountSource, ledger: Ledger, randomness: Randomness) -> None:
        super().__init__(aim, table, ledger, randomness)
        self._max_model_mb = aim.max_model_mb
        self._cliques = [*self.one_ways, *zero_cliques(table.domain)]
        self._free = {q for c in self._cliques for q in _subsets(c)}  # inside a model clique: always allowed
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
        self.previous.release_memory()
        if q not in self._free:
            self._cliques.append(q)
            self._free.update(_subsets(q))
            self._megabytes = None

    def _fit(self, settings: FitSettings, start: GraphicalModel | None) -> GraphicalModel:
        return estimate(self.table.domain, self.measured, total=self.total, warm_start=start, settings=settings)


def _subsets(clique: Clique) -> Iterator[Clique]:
    for k in range(1, len(clique) + 1):
        yield from itertools.combinations(clique, k)


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
        expected = self._model.pair_matrix()
        if expected is None:
            return False
        starts = np.cumsum([0, *self._table.domain.sizes[:-1]])
        if self._pairs is None:
            self._pairs = self._count_pairs(starts)
        expected *= self._model.total
        single = np.add.reduceat(np.abs(self._pairs.diagonal() - expected.diagonal()), starts)
        np.abs(np.subtract(expected, self._pairs, out=expected), out=expected)
        both = np.add.reduceat(np.add.reduceat(expected, starts, axis=0), starts, axis=1)
        first, last = np.array([(q[0], q[-1]) for q in self._at]).T
        self._known[:] = np.where(first == last, single[first], both[first, last])
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
