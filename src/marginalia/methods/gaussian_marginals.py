"""Every marginal of a workload with Gaussian noise, and nothing between the noise and the answers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource, Table
from marginalia.errors import InputError
from marginalia.marginals.estimation import Measurement, estimate
from marginalia.marginals.model import GraphicalModel
from marginalia.memory import check_cost, short
from marginalia.privacy.session import Session
from marginalia.synthesis.base import Array, State
from marginalia.synthesis.measuring import WorkloadSynthesizer, number_of_records
from marginalia.synthesis.noisy_marginals import NoisyMarginal

_BYTES_A_CELL = 190  # of the tree that rows are drawn from, measured


class GaussianMarginals(WorkloadSynthesizer):
    """Release all marginals of a workload with Gaussian noise of one scale.

    `marginal` answers with the raw noisy tables (negative counts and disagreeing margins included): what an unbiased
    learner wants, and a model of all pairs would be one clique of all attributes. `sample` draws from a spanning tree
    of the noisy pairs that depend most on each other.

    Privacy: one Gaussian event per marginal, adaptively composed; exact Gaussian DP.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    workload : int or sequence of tuple of str, default 2
        An order (all marginals of so many attributes) or the marginals themselves.
    relation : {"replace_one", "add_remove"}, default "replace_one"
    calibration : {"tight", "published"}, default "tight"
        ``published``: the classical formula, sigma² = 2 S² K ln(1.25/delta) / epsilon² for K marginals of sensitivity
        S (plain Private-PGM as Zhou et al. state it, Algorithm 3, with S² = 2).
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    measurements_ : list of NoisyMarginal
        The noisy tables.

    Notes
    -----
    With all pairs this is the reference "Gauss-marginals" of the DD-SSP replication. The tree is fitted on the first
    `sample`: it maximises the sum, over its edges, of ‖y_jk - y_j y_k'/N‖₁ minus its mean under pure noise, about
    sqrt(2/pi) sigma times the cells.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> table = Table([[0, 0], [1, 2], [1, 1]] * 50, Domain.from_sizes({"a": 2, "b": 3}))
    >>> model = GaussianMarginals(epsilon=5.0, random_state=0).fit(table)
    >>> model.marginal(["a"]).shape, model.sample(10).n_rows
    ((2,), 10)
    """

    UNITS: ClassVar[bool] = True

    _tree: GraphicalModel | None

    def _release(self, table: CountSource, session: Session) -> None:
        self._tree = None
        self.measurements_ = self._measure_workload(table, session)
        public = session.neighbours.n_rows_public
        self.n_rows_ = table.n_rows if public else round(number_of_records(table, session.ledger, self.measurements_))

    def _check_cost(self, domain: Domain) -> None:
        largest = max(domain.sizes)
        cells = largest * (sum(domain.sizes) - largest)  # at most, of any tree
        check_cost(
            f"{type(self).__name__} with a tree of pairs of {short(cells)} cells",
            _BYTES_A_CELL * cells,
            mend="give columns with many codes fewer of them",
        )
        super()._check_cost(domain)

    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return noisy counts: the table measured on these attributes, or the best mean of sums of measured tables.

        Shape: sizes of `attributes` in the order given. Where no table was measured on exactly these, the sums of all
        larger ones that hold them are averaged by inverse variance.

        Raises
        ------
        InputError
            No measured marginal holds the attributes.
        """
        self._check_fitted()
        names, table, _ = self._answer(attributes)
        return np.transpose(table, [names.index(a) for a in attributes])

    def _answer(self, attributes: Sequence[str]) -> tuple[tuple[str, ...], Array, float]:
        """Return the attributes in domain order, `marginal` on them, and the standard deviation of its noise."""
        wanted = tuple(sorted(attributes, key=self.domain_.index))
        if len(set(wanted)) != len(wanted):
            raise InputError(f"marginal({list(attributes)}): a column stands twice")
        holding = [m for m in self.measurements_ if set(wanted) <= set(m.attributes)]
        if not holding:
            text = ", ".join(wanted)
            raise InputError(f"the marginal on {text} was not released; add one that holds it to the workload")
        exact = next((m for m in holding if len(m.attributes) == len(wanted)), None)
        if exact is not None:
            return wanted, np.asarray(exact.values), exact.sigma
        mean, precision = np.zeros([self.domain_[a].size for a in wanted]), 0.0
        for m in holding:
            values = np.asarray(m.values)
            summed = tuple(i for i, a in enumerate(m.attributes) if a not in wanted)
            weight = mean.size / (m.sigma**2 * values.size)
            mean += weight * values.sum(axis=summed)
            precision += weight
        return wanted, mean / precision, precision**-0.5

    @property
    def noise_sigma_(self) -> float:
        """Standard deviation of each cell of the noisiest pair table: what tells DD-SSP that these tables are raw."""
        return max(self._answer(pair)[2] for pair in itertools.combinations(self.domain_.names, 2))

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        if self._tree is None:
            self._tree = self._fit_tree()
        return self._tree.sample(n_rows, rng)

    def _batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        if self._tree is None:
            self._tree = self._fit_tree()
        return self._tree.batches(n_rows, rng)

    def _fit_tree(self) -> GraphicalModel:
        """Fit the engine to the maximum spanning tree (forest, if pairs are missing) and all one-way marginals."""
        total = max(1.0, float(self.n_rows_))
        released = {a for m in self.measurements_ for a in m.attributes}
        one_way = {a: self._answer((a,)) for a in self.domain_.names if a in released}
        edges = []
        for j, k in itertools.combinations(one_way, 2):
            if any({j, k} <= set(m.attributes) for m in self.measurements_):
                pair, y, sigma = self._answer((j, k))
                noise = math.sqrt(2 / math.pi) * sigma * y.size
                weight = float(np.abs(y - np.outer(one_way[j][1], one_way[k][1]) / total).sum()) - noise
                edges.append((weight, Measurement(pair, y, sigma)))
        parts = DisjointSet(one_way)
        ordered = sorted(edges, key=lambda edge: -edge[0])  # stable: ties in domain order
        tree = [y_jk for _, y_jk in ordered if parts.merge(*y_jk.attributes)]
        return estimate(self.domain_, [*(Measurement(*y) for y in one_way.values()), *tree], total=total)

    def _state(self) -> State:
        return {}  # the answers are all

    def _restore(self, state: State) -> None:
        self._tree = None
        if "cliques" not in state:
            return
        # As versions before 2.0 wrote it.
        names = [tuple(self.domain_.names[int(a)] for a in str(q).split(",")) for q in state["cliques"]]
        sigmas = [float(sigma) for sigma in state["sigma"]]
        self.measurements_ = [NoisyMarginal(q, state[f"values_{i}"], sigmas[i], sigmas[i]) for i, q in enumerate(names)]
