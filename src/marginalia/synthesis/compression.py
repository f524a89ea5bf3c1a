"""Merge the rare values of attributes, and undo it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Attribute, Domain
from marginalia.data.table import CountSource, Table

Array = NDArray[np.float64]


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
        attributes = [Attribute(n, int(self.codes[n].max()) + 1) for n in self.domain.names]
        return Domain(attributes, source=self.domain.source, structural_zeros=self.domain.structural_zeros)

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
