"""MST: a maximum spanning tree of two-way marginals, chosen and measured privately.

Rare values are merged before, and drawn apart again after.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import DisjointSet

from marginalia.data.domain import Column, Domain
from marginalia.data.table import CountSource, Table
from marginalia.marginals.estimation import Measurement, estimate
from marginalia.marginals.model import GraphicalModel
from marginalia.privacy.costs import CompositionBudget, best_measure
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.session import Session
from marginalia.synthesis.base import Array, ModelSynthesizer, State
from marginalia.synthesis.measuring import measure_all, number_of_records
from marginalia.synthesis.noisy_marginals import NoisyMarginal


@dataclass(frozen=True)
class Scales:
    """Sensitivity/sigma of the measurements and the epsilon of a selection, in the authors' proportions.

    In zCDP each kind costs a third of the budget, shared evenly among its releases.

    >>> scales, zcdp = Scales.of(5, 0.3), CompositionBudget("zcdp", 1.0)
    >>> [round(c, 6) for c in (5 * zcdp.gaussian(scales.one_way), 4 * zcdp.gaussian(scales.pair))]
    [0.045, 0.045]
    >>> round(4 * zcdp.selection(scales.selection), 6), round(scales.cost(5, zcdp), 6)
    (0.045, 0.135)
    """

    one_way: float
    pair: float = 0.0
    selection: float = 0.0

    @classmethod
    def of(cls, d: int, size: float) -> Scales:
        """Return the scales of d attributes that go with one number."""
        if d == 1:
            return cls(size)
        return cls(size / math.sqrt(d), size / math.sqrt(d - 1), 2 * size / math.sqrt(d - 1))

    def cost(self, d: int, budget: CompositionBudget) -> float:
        """Return what d one-way marginals, and d - 1 selected edges and their measurements, cost."""
        edge = budget.gaussian(self.pair) + budget.selection(self.selection)
        return d * budget.gaussian(self.one_way) + (d - 1) * edge


RARE = 3.0  # values below this many standard deviations of their noise are merged


class MST(ModelSynthesizer):
    """Model a table by the tree of attribute pairs that independence explains worst.

    McKenna, Miklau and Sheldon (2021), "Winning the NIST contest", the general form of their mechanism: one third of
    the budget measures all one-way marginals, one third chooses a spanning tree by the exponential mechanism, one
    third measures its edges; a graphical model is fitted to all of it. Values whose noisy count is below 3 sigma are
    merged before the tree is chosen; samples get one of the merged values at random.

    Privacy: (epsilon, delta)-DP by zCDP (Canonne, Kamath and Steinke 2020) or by Gaussian DP, whichever leaves less
    noise at the authors' ratio of the three parts (`privacy.costs`); ``published``: by zCDP.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    relation : {"replace_one", "add_remove"}, default "replace_one"
    calibration : {"tight", "published"}, default "tight"
        ``published``: the authors' scales, which are those of ``add_remove`` in zCDP whatever `relation` says.
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : GraphicalModel
        On the compressed domain.
    tree_ : list of (str, str)
        Edges in the order they were chosen.

    Notes
    -----
    Differences from the authors' code: our engine fits the model. The count of merged values carries the noise of
    all of them; the authors weight it accordingly in the fit, we adjust each one-way marginal to the common total by
    inverse variance first. Attributes with declared structural zeros are not compressed.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> table = Table([[0, 0, 1], [1, 2, 0], [1, 1, 0]] * 500, Domain.from_sizes({"a": 2, "b": 3, "c": 2}))
    >>> sorted(MST(epsilon=5.0, random_state=0).fit(table).tree_)
    [('a', 'b'), ('a', 'c')]
    """

    UNITS: ClassVar[bool] = True

    def _release(self, table: CountSource, session: Session) -> None:
        charged = Neighbours(Relation.ADD_REMOVE) if self.calibration == "published" else session.neighbours
        names = table.domain.names
        d = len(names)
        scales = self._scales(d, session.ledger)
        sigma = charged.marginal_sensitivity_l2 / scales.one_way
        measured = measure_all(table, [(a,) for a in names], sigma, session)
        noisy = {m.attributes[0]: np.asarray(m.values) for m in measured}
        total = number_of_records(table, session.ledger, measured)

        self._compression = Compression.of_rare_values(noisy, threshold=RARE * sigma, domain=table.domain)
        compressed = self._compression.compress(table)
        one_ways = [Measurement((a,), self._adjusted(a, y, total), sigma) for a, y in noisy.items()]
        self.tree_: list[tuple[str, str]] = []
        pairs: list[NoisyMarginal] = []
        if d > 1:
            # The mechanism's law depends on e / sensitivity: with another sensitivity than the true one it costs more.
            e = scales.selection * session.neighbours.marginal_sensitivity_l1 / charged.marginal_sensitivity_l1
            independent = estimate(compressed.domain, one_ways, total=total)
            self.tree_ = _select_tree(compressed, independent, e, session)
            sigma = charged.marginal_sensitivity_l2 / scales.pair
            pairs = measure_all(compressed, self.tree_, sigma, session, round=1)
        self.model_ = estimate(compressed.domain, [*one_ways, *pairs], total=total)
        self.measurements_ = [*measured, *(replace(y, codes=self._compression.merged(y.attributes)) for y in pairs)]
        self.n_rows_ = table.n_rows if session.neighbours.n_rows_public else round(total)

    def _scales(self, d: int, ledger: Ledger) -> Scales:
        """Return the scales of d attributes, in the measure that needs less noise; the published ones in zCDP."""

        def scales(budget: CompositionBudget) -> Scales:
            return Scales.of(d, budget.largest(lambda x: Scales.of(d, x).cost(d, budget), budget.total))

        if self.calibration == "published":
            return scales(CompositionBudget.of(*ledger.remaining_budget(), "zcdp"))
        return scales(best_measure(*ledger.remaining_budget(), lambda budget: scales(budget).one_way, ledger.measures))

    def _adjusted(self, name: str, y: Array, total: float) -> Array:
        """Return the compressed counts with sum `total`: what is missing is shared in proportion to the variances."""
        small = self._compression.compress_one_way(name, y)
        share = self._compression.multiplicity(name) / y.size
        return small + share * (total - small.sum())

    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return the model's marginal as counts, shape = sizes of `attributes` in the order given.

        Merged values share their count evenly.
        """
        self._check_fitted()
        return self._compression.expand_marginal(attributes, self.model_.marginal(attributes))

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        return self._compression.expand(self.model_.sample(n_rows, rng), rng)

    def _batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        return (self._compression.expand(rows, rng) for rows in self.model_.batches(n_rows, rng))

    def _state(self) -> State:
        positions = [[self.domain_.index(a) for a in edge] for edge in self.tree_]
        codes = {f"codes_{j}": self._compression.codes[a] for j, a in enumerate(self.domain_.names)}
        return {**self.model_.state(), "tree": np.array(positions, dtype=np.int64).reshape(-1, 2), **codes}

    def _restore(self, state: State) -> None:
        names = self.domain_.names
        self._compression = Compression(self.domain_, {a: state[f"codes_{j}"] for j, a in enumerate(names)})
        self.model_ = GraphicalModel.from_state(self._compression.compressed_domain, state)
        self.tree_ = [(names[j], names[k]) for j, k in state["tree"]]


def _select_tree(table: CountSource, model: GraphicalModel, epsilon: float, session: Session) -> list[tuple[str, str]]:
    """Choose a spanning tree edge by edge, as Kruskal does, each with the exponential mechanism.

    The score of a pair is the L1 distance between its counts and the model's; one record moves it by the L1
    sensitivity of a marginal.
    """
    names = table.domain.names
    table.expect(itertools.combinations(names, 2))
    score = {
        (names[j], names[k]): float(
            np.abs(table.counts((names[j], names[k])) - model.probabilities((j, k)) * model.total).sum()
        )
        for j, k in itertools.combinations(range(len(names)), 2)
    }
    parts, joining = DisjointSet(names), list(score)
    tree: list[tuple[str, str]] = []
    while joining:
        scores, label = [score[q] for q in joining], f"edge {len(tree) + 1}"
        sensitivity = session.neighbours.marginal_sensitivity_l1
        at = session.select(scores, epsilon=epsilon, sensitivity=sensitivity, label=label)
        tree.append(joining[at])
        parts.merge(*joining[at])
        part = {name: parts[name] for name in names}
        joining = [(a, b) for a, b in joining if part[a] != part[b]]
    return tree


@dataclass(frozen=True)
class Compression:
    """A map from every value of a domain to a code of a smaller one.

    Rare values of an attribute share its last code; every other code stands for one value.

    >>> domain = Domain.from_sizes({"a": 4})
    >>> small = Compression.of_rare_values({"a": np.array([50.0, 2, 1, 40])}, threshold=10.0, domain=domain)
    >>> small.codes["a"], small.expand_marginal(["a"], np.array([50.0, 40, 3]))
    (array([0, 2, 2, 1]), array([50. ,  1.5,  1.5, 40. ]))
    """

    domain: Domain  # the original one
    codes: Mapping[str, NDArray[np.int64]]  # the compressed code of each value, shape (size,)

    @classmethod
    def of_rare_values(cls, one_ways: Mapping[str, Array], *, threshold: float, domain: Domain) -> Compression:
        """Merge the values whose noisy count is below `threshold`, within each attribute.

        An attribute with declared structural zeros keeps all its values: a merged cell would be possible for some of
        its values and impossible for others.
        """
        whole = {name for zeros in domain.structural_zeros for name in zeros.attributes}
        codes = {}
        for name, y in one_ways.items():
            kept = y >= threshold
            if name in whole or np.count_nonzero(~kept) <= 1:
                codes[name] = np.arange(y.size)
            else:
                codes[name] = np.where(kept, np.cumsum(kept) - 1, np.count_nonzero(kept))
        return cls(domain, codes)

    @property
    def compressed_domain(self) -> Domain:
        """The smaller domain; values keep no labels there."""
        attributes = [Column(n, int(self.codes[n].max()) + 1) for n in self.domain.names]
        return Domain(attributes, source=self.domain.source, structural_zeros=self.domain.structural_zeros)

    def merged(self, names: Sequence[str]) -> dict[str, NDArray[np.int64]]:
        """Return the codes of those of `names` whose values are not all apart."""
        return {name: self.codes[name] for name in names if self.codes[name].max() + 1 < self.codes[name].size}

    def multiplicity(self, name: str) -> NDArray[np.int64]:
        """Return how many values each compressed code of `name` stands for."""
        return np.bincount(self.codes[name])

    def compress(self, table: CountSource) -> CountSource:
        """Return the table with every value replaced by its compressed code."""
        return table.recoded(self.codes, self.compressed_domain)

    def compress_one_way(self, name: str, y: Array) -> Array:
        """Return the counts `y` of the values of `name`, summed by compressed code."""
        return np.bincount(self.codes[name], weights=y).astype(np.float64, copy=False)

    def expand_marginal(self, attributes: Sequence[str], counts: Array) -> Array:
        """Return a marginal of the original domain: the count of merged values is spread evenly over them."""
        shares = counts
        for axis, name in enumerate(attributes):
            share = 1.0 / self.multiplicity(name)
            shares = shares * share.reshape([-1 if i == axis else 1 for i in range(len(attributes))])
        return shares[np.ix_(*(self.codes[name] for name in attributes))]

    def expand(self, table: Table, rng: np.random.Generator) -> Table:
        """Return rows of the original domain: a merged value becomes one of its values, uniformly at random."""
        columns = []
        for name in self.domain.names:
            column, count = table.column(name), self.multiplicity(name)
            values = np.argsort(self.codes[name], kind="stable")
            at = (np.cumsum(count) - count)[column]  # the first value of each row's code
            merged = count[column] > 1
            at[merged] += rng.integers(count[column[merged]])
            columns.append(values[at])
        return Table(np.column_stack(columns), self.domain)
