"""AIM's selection with a mixture of products in place of the graphical model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from marginalia.data.table import CountSource
from marginalia.marginals.elimination import Clique
from marginalia.methods.aim import AdaptiveRun, AdaptiveSynthesizer
from marginalia.papers.dd_ssp.methods.product_mixture import ProductMixture, fit
from marginalia.privacy import checks
from marginalia.privacy.session import Session
from marginalia.synthesis.base import Array, State

FIRST_AND_LAST = 1000  # iterations of the fits before the first and after the last round
EACH_ROUND = 100
TOLERANCE = 0.005


@dataclass(eq=False, repr=False, kw_only=True)
class MixtureInference(AdaptiveSynthesizer):
    """Measure the marginals on which a mixture of product distributions is worst, one after the other.

    AIM (McKenna, Mullins, Sheldon and Miklau 2022) with relaxed projection (Aydore et al. 2021; Liu et al. 2021) as
    the inference: the variant "AIM with mixture inference" of the DD-SSP paper, appendix H. A mixture has no junction
    tree, so no limit on its size: every candidate of at most `max_cells` cells may be measured. But its fit is not a
    convex problem, and marginals that no measurement constrains are not those of maximum entropy.

    Privacy: as `AIM`: (epsilon, delta)-DP by zCDP or Gaussian DP, whichever leaves less noise.

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
    relation : {"replace_one", "add_remove"}, default "replace_one"
    calibration : {"tight", "published"}, default "tight"
        As for `AIM`.
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : ProductMixture
    selected_ : list of tuple of str
        The marginal of each round.

    Notes
    -----
    Declared structural zeros are not enforced: a mixture gives every cell some mass. The start of the first fit and
    all noise come from `random_state`.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 0], [1, 2], [1, 1]] * 50, Domain.from_sizes({"a": 2, "b": 3}))
    >>> model = MixtureInference(components=4, rounds=2, random_state=0).fit(table)
    >>> model.ledger_.certified, model.marginal(["a", "b"]).shape
    (True, (2, 3))
    """

    UNITS: ClassVar[bool] = True

    components: int = 100

    def _release(self, table: CountSource, session: Session) -> None:
        run = _MixtureRun(self, table, session)
        run.run()
        self.model_ = run.model
        self.selected_ = [run.names(r.marginal) for r in run.history]
        self.n_rows_ = table.n_rows if session.neighbours.n_rows_public else round(self.model_.total)

    def _state(self) -> State:
        selected = np.array([",".join(str(self.domain_.index(a)) for a in q) for q in self.selected_])
        return {"logits": self.model_.logits, "total": np.array(self.model_.total), "selected": selected}

    def _restore(self, state: State) -> None:
        self.model_ = ProductMixture(self.domain_, float(state["total"]), state["logits"])
        self.selected_ = [tuple(self.domain_.names[int(a)] for a in str(q).split(",")) for q in state["selected"]]


class _MixtureRun(AdaptiveRun):
    """A mixture of products, fitted on from the one before; any candidate may be measured."""

    model: ProductMixture

    def __init__(self, method: MixtureInference, table: CountSource, session: Session) -> None:
        super().__init__(method, table, session)
        self._components = checks.count("components", method.components)

    def start(self) -> None:
        # Counts near or below zero start at one standard deviation of the noise.
        one_ways = {m.attributes[0]: np.maximum(m.values, m.sigma) for m in self.measured}
        domain, K = self.table.domain, self._components
        start = ProductMixture.start(
            domain, self.total, components=K, rng=self.session.randomness.generator, one_ways=one_ways
        )
        self.model = fit(start, self.measured, iterations=FIRST_AND_LAST, tolerance=TOLERANCE)
        self.scores = _MixtureScores(self)

    def candidates(self) -> list[Clique]:
        return list(self.weights)

    def expected(self, q: Clique) -> Array:
        return self.model.marginal(self.names(q))

    def refit(self, q: Clique) -> None:
        start = replace(self.model, total=self.total)
        self.model = fit(start, self.measured, iterations=EACH_ROUND, tolerance=TOLERANCE)
        if self.budget.last:
            self.model = fit(self.model, self.measured, iterations=FIRST_AND_LAST, tolerance=TOLERANCE)


class _MixtureScores:
    """Scores as those of `CandidateScores`; the private counts are kept, so that rows are counted once."""

    _LARGEST = 2**14  # cells of a marginal that is kept

    def __init__(self, run: _MixtureRun) -> None:
        self._run = run
        self._kept: dict[Clique, Array] = {}

    def begin_round(self, model: ProductMixture, noise: float) -> None:
        self._noise = noise
        self._largest = self._run.table.n_rows + model.total  # no L1 distance is larger

    def bounds(self, candidates: Sequence[Clique]) -> list[float]:
        run, domain, top = self._run, self._run.table.domain, 1.000001 * self._largest
        return [run.weights[q] * (top - self._noise * domain.n_cells(run.names(q))) for q in candidates]

    def score(self, q: Clique) -> float:
        expected = self._run.expected(q)
        distance = float(np.abs(self._counts(q) - expected).sum())
        return self._run.weights[q] * (distance - self._noise * expected.size)

    def _counts(self, q: Clique) -> Array:
        counts = self._kept.get(q)
        if counts is None:
            counts = self._run.table.counts(self._run.names(q)).astype(np.float64)
            if counts.size <= self._LARGEST:
                self._kept[q] = counts
        return counts
