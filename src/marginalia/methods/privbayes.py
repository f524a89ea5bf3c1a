"""PrivBayes: a Bayesian network chosen privately, and noisy marginals of every column with its parents.

**Sensitivity of the score.** With n records, shares p of a column and q of its parents, the score is half the L1 norm
of D = n (P - p qᵀ), P the joint shares: n times the function R of Zhang et al. (2017). One record more, in row x and
column y of the joint table, makes n P into n P + e_x e_yᵀ and

    n p qᵀ into (n p + e_x)(n q + e_y)ᵀ / (n + 1) = n p qᵀ + e_x e_yᵀ - n/(n + 1) (p - e_x)(q - e_y)ᵀ.

D moves by n/(n + 1) (p - e_x)(q - e_y)ᵀ, of L1 norm below 2·2: the score by less than 2 (``add_remove``). Replacing one
of n + 1 records is two such moves from the n others, back and forth: D moves by n/(n + 1) times
p (e_y' - e_y)ᵀ + (e_x' - e_x) qᵀ + e_x e_yᵀ - e_x' e_y'ᵀ, of L1 norm at most 2 + 2 + 2: the score by less than 3
(``replace_one``; the paper has 3 + 2/n). ∎
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource
from marginalia.marginals.elimination import Clique, megabytes_with
from marginalia.marginals.estimation import estimate, zero_cliques
from marginalia.memory import check_cost, short
from marginalia.privacy import checks
from marginalia.privacy.costs import CompositionBudget, best_measure
from marginalia.privacy.relation import Relation
from marginalia.privacy.session import Session
from marginalia.synthesis.base import ModelSynthesizer, State, check_model_size
from marginalia.synthesis.measuring import measure_all, number_of_records

SENSITIVITY = {Relation.ADD_REMOVE: 2.0, Relation.REPLACE_ONE: 3.0}  # of `dependence`, to one record
# Epsilon of a selection over sensitivity/sigma of a measurement: the paper's (beta = .3), by its noise's deviation.
_SHARPNESS = 2 * 0.3 / (1 - 0.3)
_BYTES_A_CANDIDATE, _SECONDS_A_CANDIDATE = 1500, 2e-5  # measured on 100 columns

Choice = tuple[int, Clique]  # an attribute and its parents, by position


@dataclass(eq=False, repr=False, kw_only=True)
class PrivBayes(ModelSynthesizer):
    """Choose each column's parents by the exponential mechanism, then measure every column with its parents.

    Zhang, Cormode, Procopiuc, Srivastava & Xiao (2017), for general domains. The network starts with the column of the
    fewest codes. Each step chooses, among all columns that are left, with all maximal sets of at most `degree` columns
    that are in, the pair with the largest `dependence`; a set is admitted if the noisy marginal of column and parents
    would be useful. All these marginals are measured, with the same noise each.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    degree : int, default 2
        Most parents that a column gets. The search looks at about columns^(degree + 2) pairs.
    usefulness : float, default 4.0
        The paper's theta: how many times the expected absolute noise of a cell the mean count of a marginal must be.
    max_model_mb : float, default 8
        Largest junction tree, counted as for `AIM`.
    relation : {"replace_one", "add_remove"}, default "replace_one"
    calibration : {"tight"}, default "tight"
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : GraphicalModel
    network_ : list of (str, tuple of str)
        Columns and their parents, in the order they were chosen.

    Notes
    -----
    Privacy: (epsilon, delta)-DP by zCDP or Gaussian DP (`privacy.costs`), whichever leaves less noise; the
    score's sensitivities are proven in this module. The paper's noise is Laplace's and pure. It draws rows column by
    column by conditional laws; ours come from a graphical model fitted to all marginals at once, which uses what
    overlapping marginals say of one another and negative counts as they are, and answers any other marginal. The first
    column's noisy counts say how many records there are, for the usefulness. No taxonomies.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 0, 1], [1, 2, 0], [1, 1, 0]] * 500, Domain.from_sizes({"a": 2, "b": 3, "c": 2}))
    >>> model = PrivBayes(epsilon=5.0, random_state=0).fit(table)
    >>> model.ledger_.certified, model.network_
    (True, [('a', ()), ('b', ('a',)), ('c', ('a', 'b'))])
    """

    UNITS: ClassVar[bool] = True
    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight",)

    degree: int = 2
    usefulness: float = 4.0
    max_model_mb: float = 8
    network_: list[tuple[str, tuple[str, ...]]] = field(init=False)

    def _check_cost(self, domain: Domain) -> None:
        super()._check_cost(domain)
        checks.count("degree", self.degree)
        checks.positive("usefulness", self.usefulness)
        check_model_size("PrivBayes", self.max_model_mb, domain)
        d = len(domain)
        steps = [(d - i) * sum(math.comb(i, k) for k in range(min(self.degree, i) + 1)) for i in range(1, d)]
        n_bytes, seconds = _BYTES_A_CANDIDATE * max(steps, default=0), _SECONDS_A_CANDIDATE * sum(steps)
        what = f"PrivBayes with degree={self.degree} on {d} columns ({short(sum(steps))} candidates)"
        check_cost(what, n_bytes, seconds, mend="lower degree")

    def _release(self, table: CountSource, session: Session) -> None:
        domain, names, d = table.domain, table.domain.names, len(table.domain)

        def affordable(budget: CompositionBudget) -> float:  # sensitivity/sigma
            return budget.largest(
                lambda x: d * budget.gaussian(x) + (d - 1) * budget.selection(_SHARPNESS * x), budget.total
            )

        ratio = affordable(best_measure(*session.ledger.remaining_budget(), affordable, session.ledger.measures))
        sigma, epsilon = session.neighbours.marginal_sensitivity_l2 / ratio, _SHARPNESS * ratio

        root = min(range(d), key=domain.sizes.__getitem__)
        self.measurements_ = measured = measure_all(table, [(names[root],)], sigma, session)
        total = number_of_records(table, session.ledger, measured)
        most_cells = total / (self.usefulness * math.sqrt(2 / math.pi) * sigma)
        scores = _Scores(table)
        chosen: list[Choice] = [(root, ())]
        while len(chosen) < d:
            candidates = self._candidates(chosen, domain, most_cells)
            winner = session.select(
                scores.of(candidates),
                epsilon=epsilon,
                sensitivity=session.neighbours.contributions * SENSITIVITY[session.ledger.relation],
                label=f"parents {len(chosen)}",
            )
            chosen.append(candidates[winner])
        self.network_ = [(names[a], tuple(names[b] for b in p)) for a, p in chosen]
        measured += measure_all(table, [(a, *p) for a, p in self.network_[1:]], sigma, session, round=1)
        self.model_ = estimate(domain, measured, total=number_of_records(table, session.ledger, measured))
        self.n_rows_ = table.n_rows if session.neighbours.n_rows_public else round(self.model_.total)

    def _candidates(self, chosen: list[Choice], domain: Domain, most_cells: float) -> list[Choice]:
        """Return every attribute that is left with its maximal sets of parents; the empty set is always admitted."""
        sizes, placed = domain.sizes, sorted(a for a, _ in chosen)
        left = [a for a in range(len(sizes)) if a not in placed]
        subsets = (p for k in range(min(self.degree, len(placed)) + 1) for p in itertools.combinations(placed, k))
        cells = {p: math.prod(sizes[b] for b in p) for p in subsets}
        useful = [(a, p) for a in left for p, n in cells.items() if not p or n * sizes[a] <= most_cells]
        families = sorted({_family(c) for c in useful})
        megabytes = megabytes_with([*zero_cliques(domain), *map(_family, chosen)], families, sizes)
        fitting = {u for u, mb in zip(families, megabytes, strict=True) if mb <= self.max_model_mb}
        admitted = [(a, p) for a, p in useful if not p or _family((a, p)) in fitting]
        inner = {(a, p[:i] + p[i + 1 :]) for a, p in admitted for i in range(len(p))}
        return [c for c in admitted if c not in inner]

    def _state(self) -> State:
        return {**super()._state(), "network": np.frombuffer(json.dumps(self.network_).encode(), np.uint8)}

    def _restore(self, state: State) -> None:
        super()._restore({k: v for k, v in state.items() if k != "network"})
        self.network_ = [(a, tuple(parents)) for a, parents in json.loads(state["network"].tobytes())]


class _Scores:
    """Scores of candidates, each family of attributes counted once; private: they may go into a mechanism only."""

    def __init__(self, table: CountSource) -> None:
        self._table = table
        self._known: dict[Clique, list[float]] = {}  # of every member, with the others as its parents

    def of(self, candidates: list[Choice]) -> list[float]:
        families = list(map(_family, candidates))
        new = {u: [self._table.domain.names[a] for a in u] for u in families if u not in self._known}
        self._table.expect(new.values())
        for u, names in new.items():
            counts = self._table.counts(names)
            self._known[u] = [dependence(np.moveaxis(counts, i, 0)) for i in range(len(u))]
        return [self._known[u][u.index(a)] for u, (a, _) in zip(families, candidates, strict=True)]


def dependence(counts: ArrayLike) -> float:
    """Return half the L1 distance, in records, of counts from the product of those of axis 0 and of all other axes.

    >>> dependence([[5, 0], [0, 5]]), dependence([[4, 2], [2, 1]])
    (5.0, 0.0)
    """
    joint = np.asarray(counts, np.float64)
    joint = joint.reshape(len(joint), -1)
    expected = np.outer(joint.sum(axis=1), joint.sum(axis=0)) / max(1.0, joint.sum())
    return 0.5 * float(np.abs(joint - expected).sum())


def _family(choice: Choice) -> Clique:
    return tuple(sorted((choice[0], *choice[1])))
