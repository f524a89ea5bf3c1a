"""SWIFT, the one-shot relative of AIM, after the description and the open source of google/dpsynth (2026)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource
from marginalia.marginals.elimination import Clique
from marginalia.marginals.estimation import estimate, zero_cliques
from marginalia.marginals.fitting import FitSettings
from marginalia.marginals.model import GraphicalModel
from marginalia.marginals.workload import Workload, WorkloadLike
from marginalia.methods.swift.allocation import Allocation, allocate
from marginalia.methods.swift.tree import CliqueTree, grow_trees
from marginalia.privacy import checks
from marginalia.privacy.accountants.prices import Prices
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import gaussian
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Relation
from marginalia.synthesis.base import State
from marginalia.synthesis.measuring import measure_all, number_of_records
from marginalia.synthesis.modelled import ModelSynthesizer, check_model_size

_SELECTION = 0.1  # share of the budget
_ONE_WAYS = 1 / 16  # the same, for all one-way marginals together: AIM's share at its 16 rounds an attribute
# A fit that is stopped so early errs up to 8 % less than a tight one, which follows the noise, and takes a tenth.
_FIT = FitSettings(t=10.0, gap=0.01, decrease=1e-3, passes=400)
_UNIT = 2.0**-16  # records: expected counts are rounded to it


@dataclass(eq=False, repr=False, kw_only=True)
class SWIFT(ModelSynthesizer):
    """Look at the errors of all candidates once, choose a tree of cliques, measure what pays in it, fit once.

    The one-way marginals are measured; the L1 distance of every larger candidate from their product is released with
    Gaussian noise; a junction tree is grown around the pairs of large errors (`grow_trees`); the candidates inside its
    cliques that reduce the expected error most are measured, each with the noise that serves all best, and one-way
    marginals again where much relies on them (`allocate`). Of several trees the one that is worth most is taken.

    Privacy: Gaussian releases alone, exact in Gaussian DP. The distances are sums of whole numbers: the model's counts,
    which are public, are rounded to a public unit, so that one record moves each by 1 (``add_remove``) or 2 at most.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    workload : int, iterable or mapping, default 2
        As for `AIM`.
    max_model_mb : float, default 80
        Largest junction tree, counted as for `AIM`.
    max_cells : float, default 1e6
        Larger marginals of a workload given by its order are left out; named ones are refused.
    relation : {"add_remove", "replace_one"}, default "add_remove"
    calibration : {"tight"}, default "tight"
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : GraphicalModel
    tree_ : list of tuple of str
        Cliques of the junction tree.
    measured_ : dict of tuple of str to float
        Chosen marginals and the standard deviation of their noise.

    Notes
    -----
    Differences from google/dpsynth: the size of the whole junction tree is bounded, as AIM's is, and not that of each
    clique; and a pair of one component that no two neighbouring cliques hold widens all cliques between them. On a
    table of 40 columns (`benchmarks/wide.py`) that took the error from .0098 to .0058 (one seed).

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 0, 1], [1, 2, 0], [1, 1, 0]] * 500, Domain.from_sizes({"a": 2, "b": 3, "c": 2}))
    >>> swift = SWIFT(epsilon=1.0, random_state=0).fit(table)
    >>> swift.ledger_.certified, swift.tree_, sorted(swift.measured_)
    (True, [('a', 'b', 'c')], [('a', 'b'), ('a', 'c'), ('b', 'c')])
    """

    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight",)

    workload: WorkloadLike = 2
    max_model_mb: float = 80
    max_cells: float = 1e6
    tree_: list[tuple[str, ...]] = field(init=False)
    measured_: dict[tuple[str, ...], float] = field(init=False)

    def _check_cost(self, domain: Domain) -> None:
        super()._check_cost(domain)
        if self.max_cells != math.inf:
            checks.positive("max_cells", self.max_cells)
        check_model_size("SWIFT", self.max_model_mb, domain)

    def _release(self, table: CountSource, ledger: Ledger, randomness: Randomness) -> None:
        domain, names = table.domain, table.domain.names
        weights = Workload.parse(self.workload, domain, max_cells=self.max_cells).closure()
        larger = {q: tuple(names[a] for a in q) for q in weights if len(q) > 1}
        singles = [(names[q[0]],) for q in weights if len(q) == 1]
        budget, sensitivity = Prices.of(*ledger.left(), "gdp").total, ledger.relation.marginal_l2
        price = (_ONE_WAYS if larger else 1.0) * budget / len(singles)
        measured = measure_all(table, singles, sensitivity / math.sqrt(price), ledger, randomness)
        total = number_of_records(table, ledger, measured)
        self.tree_, self.measured_ = [(name,) for name in names], {}
        if larger:
            model = estimate(domain, measured, total=total)
            errors = _released_errors(table, model, larger, _SELECTION * budget, ledger, randomness)
            tree, parts = self._plan(domain, weights, errors, (1 - _SELECTION - _ONE_WAYS) * budget, price, sensitivity)
            self.tree_ = [tuple(names[a] for a in c) for c in tree.cliques]
            for q, part in parts.items():
                marginal, sigma = tuple(names[a] for a in q), sensitivity / math.sqrt(part)
                measured += measure_all(table, [marginal], sigma, ledger, randomness)
                self.measured_[marginal] = sigma
            total = number_of_records(table, ledger, measured)
        self.model_ = estimate(domain, measured, total=total, settings=_FIT)
        self.n_rows_ = table.n_rows if ledger.relation is Relation.REPLACE_ONE else round(total)

    def _plan(
        self,
        domain: Domain,
        weights: Mapping[Clique, float],
        errors: Mapping[Clique, float],
        budget: float,
        paid: float,
        sensitivity: float,
    ) -> tuple[CliqueTree, dict[Clique, float]]:
        """Return the tree that is worth most, and what is bought in it; all of it follows from released numbers."""
        top = max(weights[q] for q in errors)  # weights of at most 1: penalties on cells are in records
        weights = {q: weight / top for q, weight in weights.items()}
        cells = {q: domain.n_cells([domain.names[a] for a in q]) for q in weights}
        unit = math.sqrt(2 / math.pi) * sensitivity
        best: tuple[CliqueTree, Allocation] | None = None
        gains = {q: weights[q] * error for q, error in errors.items()}
        for tree in grow_trees(gains, domain.sizes, max_cells=self.max_model_mb * 2**17, start=zero_cliques(domain)):
            held = {q: error for q, error in errors.items() if tree.holds(q)}
            bought = allocate(held, weights, cells, budget=budget, paid=paid, unit=unit)
            if best is None or bought.value > best[1].value:
                best = tree, bought
        assert best is not None
        return best[0], best[1].parts

    def _state(self) -> State:
        chosen = {"tree": self.tree_, "measured": list(self.measured_.items())}
        return {**super()._state(), "chosen": np.frombuffer(json.dumps(chosen).encode(), np.uint8)}

    def _restore(self, state: State) -> None:
        super()._restore({k: v for k, v in state.items() if k != "chosen"})
        chosen = json.loads(state["chosen"].tobytes())
        self.tree_ = [tuple(c) for c in chosen["tree"]]
        self.measured_ = {tuple(q): sigma for q, sigma in chosen["measured"]}


def _released_errors(
    table: CountSource,
    model: GraphicalModel,
    marginals: Mapping[Clique, tuple[str, ...]],
    price: float,
    ledger: Ledger,
    randomness: Randomness,
) -> dict[Clique, float]:
    """Release the L1 distances of `marginals` from the model, all at once."""
    model.expect(marginals)
    table.expect(marginals.values())

    def distances() -> NDArray[np.int64]:
        out = np.empty(len(marginals), np.int64)
        for i, (q, names) in enumerate(marginals.items()):
            expected = np.rint(model.probabilities(q) * (model.total / _UNIT)).astype(np.int64)
            out[i] = np.abs(round(1 / _UNIT) * np.asarray(table.counts(names), np.int64) - expected).sum()
        return out

    sensitivity = ledger.relation.marginal_l1 * math.sqrt(len(marginals))
    noisy = gaussian(
        distances, sensitivity=sensitivity, sigma=sensitivity / math.sqrt(price), ledger=ledger,
        randomness=randomness, unit=_UNIT, label="errors of the one-way model",
    )  # fmt: skip
    return dict(zip(marginals, noisy.tolist(), strict=True))
