"""The answer of a release next to that of the private rows: for the owner of the rows, who compares them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource
from marginalia.inference.estimates import Array, Clique, ResidualEstimates
from marginalia.inference.marginals import Interval
from marginalia.inference.regressions import Regression, design_of, equations_of
from marginalia.inference.release import Release, Source
from marginalia.inference.sets import Coefficient
from marginalia.privacy.mechanisms.residuals import residual


@dataclass(frozen=True)
class Compared:
    """A released answer and the private one, which is not for release.

    >>> Compared(Interval("mean of pay", 50.4, 49.8, 51.0), 50.1).line
    'mean of pay: released 50.4, private 50.1; inside of its interval'
    """

    released: Interval | Coefficient
    private: float

    @property
    def covered(self) -> bool:
        """Whether the interval holds the private answer."""
        if isinstance(self.released, Interval):
            return self.released.contains(self.private)
        return self.released.low <= self.private <= self.released.high

    @property
    def line(self) -> str:
        """Both answers, in the units of the column."""
        one = self.released
        ours, theirs = f"{one.estimate:.5g}", f"{self.private:.5g}"
        if isinstance(one, Interval):
            ours, theirs = one.shown()[0], replace(one, estimate=self.private).shown()[0]
        where = "inside of its interval" if self.covered else "OUTSIDE of its interval"
        return f"{one.name}: released {ours}, private {theirs}; {where}"


def exact_release(table: CountSource, domain: Domain) -> Release:
    """Return the marginals of private rows without noise as a release: for their owner only.

    Examples
    --------
    >>> from marginalia.data import Domain, Table
    >>> from marginalia.inference import mean
    >>> table = Table([[0], [1], [1]], Domain.from_sizes({"a": 2}))
    >>> round(mean(exact_release(table, table.domain), "a").estimate, 3)
    0.667
    """
    estimates = ResidualEstimates(domain, (), table.n_rows)
    estimates.residuals = _Exact(table, domain)
    return Release(domain, (estimates,), table.n_rows)


class _Exact(dict[Clique, tuple[Array, float]]):
    """Residuals that are counted when they are looked up."""

    def __init__(self, table: CountSource, domain: Domain) -> None:
        self._table, self._names = table, domain.names

    def __contains__(self, part: object) -> bool:
        return True

    def __missing__(self, part: Clique) -> tuple[Array, float]:
        counts = self._table.counts([self._names[a] for a in part]) if part else np.array(self._table.n_rows)
        self[part] = residual(np.asarray(counts, np.float64)), 0.0
        return self[part]


def compare_regression(found: Regression, release: Source, table: CountSource, *, ridge: float = 0.0) -> list[Compared]:
    """Return the coefficients of a regression next to those of the private rows."""
    released = Release.of(release)
    of = design_of(released, found.formula, found.family, ridge=ridge)
    solution = equations_of(exact_release(table, released.domain), of, found.family, ridge=ridge).solve()
    values = np.full(len(found.coefficients), np.nan) if solution is None else solution
    return [Compared(one, float(value)) for one, value in zip(found.coefficients, values, strict=True)]


def compare(found: Sequence[Interval], private: Iterable[Interval]) -> list[Compared]:
    """Return answers next to the same answers of `exact_release`."""
    return [Compared(one, other.estimate) for one, other in zip(found, private, strict=True)]
