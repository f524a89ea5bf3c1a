"""AIM's selection with a mixture of products in place of the graphical model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data import Table
from marginalia.errors import InputError
from marginalia.marginals import Measurement, Workload, estimate_total
from marginalia.marginals.workload import WorkloadLike
from marginalia.privacy import Ledger, Relation
from marginalia.privacy.mechanisms.additive import measure_marginal
from marginalia.privacy.mechanisms.selection import lazy_exponential
from marginalia.synthesis.aim_budget import AdaptiveBudget
from marginalia.synthesis.base import Synthesizer
from marginalia.synthesis.product_mixture import ProductMixture, fit

FIRST_AND_LAST = 1000  # iterations of the fits before the first and after the last round
EACH_ROUND = 100
TOLERANCE = 0.005


class MixtureInference(Synthesizer):
    """Measure the marginals on which a mixture of product distributions is worst, one after the other.

    AIM (McKenna, Mullins, Sheldon and Miklau 2022) with relaxed projection (Aydore et al. 2021; Liu et al. 2021) as
    the inference: the variant "AIM with mixture inference" of the DD-SSP paper, appendix H. A mixture has no junction
    tree, so no limit on its size: every candidate of at most `max_cells` cells may be measured. But its fit is not a
    convex problem, and marginals that no measurement constrains are not those of maximum entropy.

    Privacy: as `AIM`: rho-zCDP with the largest rho that implies (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    workload : int, iterable or mapping, default 2
        All marginals of this order, or attribute tuples with optional weights.
    components : int, default 100
        Number of products (the default of the reference implementation).
    max_cells : float, default 1e6
        Larger marginals of the workload are left out.
    rounds : int, optional
        The starting price of a round is 1/rounds of the budget; default 16 per attribute.
    relation : {"add_remove", "replace_one"}, default "add_remove"
    calibration : {"tight", "published"}, default "tight"
        They differ under ``replace_one`` only, as for `AIM`.
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : ProductMixture
    selected_ : list of tuple of str
        The marginal of each round.
    domain_, n_rows_, ledger_
        See `Synthesizer`.

    Notes
    -----
    Declared structural zeros are not enforced: a mixture gives every cell some mass. The start of the first fit and
    all noise come from `random_state`.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        workload: WorkloadLike = 2,
        components: int = 100,
        max_cells: float = 1e6,
        rounds: int | None = None,
        relation: str = "add_remove",
        calibration: str = "tight",
        random_state: int | np.random.SeedSequence | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.workload = workload
        self.components = components
        self.max_cells = max_cells
        self.rounds = rounds
        self.relation = relation
        self.calibration = calibration
        self.random_state = random_state

    def _release(self, table: Table, ledger: Ledger, rng: np.random.Generator) -> None:
        self._check_own_parameters()
        domain = table.domain
        workload = Workload.parse(self.workload, domain, max_cells=self.max_cells)
        weights = {tuple(domain.names[a] for a in q): w for q, w in workload.closure().items()}
        candidates = list(weights)
        singles = [q for q in candidates if len(q) == 1]
        budget = AdaptiveBudget.start(self, len(domain), len(singles))
        sensitivity = max(weights.values()) * ledger.relation.marginal_l1
        # Under the published constants the score is divided by the add/remove sensitivity.
        scale = ledger.relation.marginal_l1 if self.calibration == "published" else 1.0
        counts = _Counts(table)
        public = ledger.relation is Relation.REPLACE_ONE  # of the number of rows

        def measure(q: tuple[str, ...], sigma: float) -> Measurement:
            return Measurement(q, measure_marginal(table, q, sigma=sigma, ledger=ledger, rng=rng), sigma)

        def total() -> float:
            return max(1.0, float(table.n_rows)) if public else estimate_total(measured)

        measured = [measure(q, budget.initial_sigma) for q in singles]
        # Counts near or below zero start at one standard deviation of the noise.
        one_ways = {m.attributes[0]: np.maximum(m.values, m.sigma) for m in measured}
        start = ProductMixture.start(domain, total(), components=self.components, rng=rng, one_ways=one_ways)
        model = fit(start, measured, iterations=FIRST_AND_LAST, tolerance=TOLERANCE)
        self.selected_: list[tuple[str, ...]] = []
        while not budget.spent:
            budget.next_round()
            noise = math.sqrt(2 / math.pi) * budget.sigma
            largest = table.n_rows + model.total  # no L1 distance is larger
            bounds = [weights[q] * (1.000001 * largest - noise * domain.n_cells(q)) for q in candidates]

            def score(i: int, model: ProductMixture = model, noise: float = noise) -> float:
                q = candidates[i]
                expected = model.marginal(q)
                return weights[q] * (counts.distance(q, expected) - noise * expected.size)

            chosen = candidates[
                lazy_exponential(
                    bounds,
                    score,
                    epsilon=budget.epsilon * scale,
                    sensitivity=sensitivity,
                    ledger=ledger,
                    rng=rng,
                    label="select",
                )
            ]
            self.selected_.append(chosen)
            measured.append(measure(chosen, budget.sigma))
            before = model.marginal(chosen)
            model = fit(replace(model, total=total()), measured, iterations=EACH_ROUND, tolerance=TOLERANCE)
            if np.abs(model.marginal(chosen) - before).sum() <= noise * before.size:
                budget.anneal()
        self.model_ = fit(model, measured, iterations=FIRST_AND_LAST, tolerance=TOLERANCE)
        self.n_rows_ = table.n_rows if public else round(self.model_.total)

    def _check_own_parameters(self) -> None:
        for name, value in (("components", self.components), ("rounds", 1 if self.rounds is None else self.rounds)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise InputError(f"{name} must be a positive integer, not {value!r}")
        if isinstance(self.max_cells, bool) or not isinstance(self.max_cells, int | float) or not self.max_cells > 0:
            raise InputError(f"max_cells must be a positive number, not {self.max_cells!r}")

    def marginal(self, attributes: Sequence[str]) -> NDArray[np.float64]:
        """Return the model's marginal as counts, shape = sizes of `attributes` in the order given."""
        self._check_fitted()
        if len({self.domain_.index(a) for a in attributes}) != len(attributes):
            raise InputError(f"marginal({list(attributes)}): an attribute stands twice")
        return self.model_.marginal(attributes)

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        return self.model_.sample(n_rows, rng)

    def _state(self) -> dict[str, NDArray[Any]]:
        selected = np.array([",".join(str(self.domain_.index(a)) for a in q) for q in self.selected_])
        return {"logits": self.model_.logits, "total": np.array(self.model_.total), "selected": selected}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.model_ = ProductMixture(self.domain_, float(state["total"]), state["logits"])
        self.selected_ = [tuple(self.domain_.names[int(a)] for a in str(q).split(",")) for q in state["selected"]]


class _Counts:
    """The private counts of a table's marginals, kept so that rows are counted once; scores only may see them."""

    _LARGEST = 2**14  # cells of a marginal that is kept

    def __init__(self, table: Table) -> None:
        self._table = table
        self._kept: dict[tuple[str, ...], NDArray[np.float64]] = {}

    def distance(self, q: tuple[str, ...], expected: NDArray[np.float64]) -> float:
        """Return the L1 distance of the counts on `q` from `expected`."""
        counts = self._kept.get(q)
        if counts is None:
            counts = self._table.counts(q).astype(np.float64)
            if counts.size <= self._LARGEST:
                self._kept[q] = counts
        return float(np.abs(counts - expected).sum())
