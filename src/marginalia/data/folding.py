"""Say what the codes of a table do not keep of its cells, before anybody misses it in what is made of the codes.

These are facts of the private rows, counted without noise: for the owner of the table, and no part of a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from marginalia.data import values
from marginalia.data.attribute import Attribute
from marginalia.data.cells import Cell, Cells, cells_of
from marginalia.data.coding import codes_of
from marginalia.data.domain import Domain

if TYPE_CHECKING:
    import pandas as pd

Fold = tuple[Callable[[Cell], bool], str]  # whether something of a cell is dropped, and what


class Folds:
    r"""Counts of the rows in whose cells something is folded, of a table that may come in parts.

    Parameters
    ----------
    domain : Domain

    Examples
    --------
    >>> import pandas as pd
    >>> seen = Attribute("seen", 1, "numeric", edges=(0, 31), type="date")
    >>> folds = Folds(Domain([seen]))
    >>> folds.add(seen, cells_of(pd.Series(["1970-01-03 10:15", "1970-01-04 10:15Z", "1970-01-05"])))
    >>> print(*folds.lines(), sep="\n")
    folded, for your eyes only: column 'seen': 1 of 3 rows (33.3 %) have an offset: shown on the clocks of UTC (`zone...
    folded, for your eyes only: column 'seen': 2 of 3 rows (66.7 %) have a time of day: `type: date` drops it, ...
    """

    def __init__(self, domain: Domain) -> None:
        self._of = {attribute.name: found for attribute in domain if (found := list(_folds(attribute)))}
        self._rows = {name: np.zeros(len(found), np.int64) for name, found in self._of.items()}
        self._n = dict.fromkeys(self._of, 0)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns in which something may be folded."""
        return tuple(self._of)

    def add(self, attribute: Attribute, column: Cells) -> None:
        """Count the rows of one column, of all or of a part of them."""
        if attribute.name not in self._of:
            return
        each = column.counts
        codes, _ = codes_of(Cells(np.arange(len(column.distinct)), column.distinct), attribute)
        known = (codes >= 0) & (codes < attribute.n_values + (attribute.other is not None)) & (each > 0)
        cells = [cell for cell, is_known in zip(column.listed, known.tolist(), strict=True) if is_known]
        for i, (is_folded, _) in enumerate(self._of[attribute.name]):
            folded = np.fromiter(map(is_folded, cells), dtype=bool, count=len(cells))
            self._rows[attribute.name][i] += each[known][folded].sum()
        self._n[attribute.name] += column.which.size

    def lines(self) -> Iterator[str]:
        """Yield a line for each way of folding, with the columns and the number and share of rows."""
        by_way: dict[str, dict[str, int]] = {}
        for name, found in self._of.items():
            for (_, what), count in zip(found, self._rows[name].tolist(), strict=True):
                if count:
                    by_way.setdefault(what, {})[name] = count
        for what, counts in by_way.items():
            names = list(counts)
            worst = max(names, key=lambda name: counts[name] / self._n[name])
            rows = f"{counts[worst]:,} of {self._n[worst]:,} rows ({100 * counts[worst] / self._n[worst]:.3g} %)"
            columns = f"column '{names[0]}': {rows}"
            if len(names) > 1:
                more = f" and {len(names) - 3} more" if len(names) > 3 else ""
                columns = f"columns {', '.join(names[:3])}{more}: up to {rows}"
            yield f"folded, for your eyes only: {columns} {what}"


def known_labels(domain: Domain) -> Domain:
    """Return the domain of the columns of which it is known what may be folded: labels that are to be learned are not.

    >>> known_labels(Domain.from_dict({"attributes": [{"name": "ward", "type": "string", "labels": "private"}]})).names
    ()
    """
    return domain.project([a.name for a in domain if a.private != "labels"]).placeholder()


def folds_of(frame: pd.DataFrame, domain: Domain) -> list[str]:
    """Return the lines on what is folded in the rows of a data frame, which has the columns of the domain.

    >>> import pandas as pd
    >>> ward = Attribute("ward", 2, labels=("A",), type="string", other="other")
    >>> folds_of(pd.DataFrame({"ward": ["A", "B", "C", "other"]}), Domain([ward]))
    ["folded, for your eyes only: column 'ward': 2 of 4 rows (50 %) are none of the 1 labels: all become 'other'"]
    """
    folds = Folds(domain)
    for name in folds.names:
        folds.add(domain[name], cells_of(frame[name], name, lenient=True))
    return list(folds.lines())


def _folds(attribute: Attribute) -> Iterator[Fold]:
    unit, form, zone = attribute.counted_in, attribute.format, attribute.zone
    if unit is not None:
        clocks = zone or "UTC (`zone: Europe/Berlin` names others)"
        yield values.is_instant, f"have an offset: shown on the clocks of {clocks}"
        what = "have a time of day: `type: date` drops it, `type: timestamp` keeps it"
        if attribute.type == "timestamp":
            what = f"are no whole {unit}s: `unit: {unit}` drops the rest"
        yield lambda cell: values.is_shortened(cell, unit, form, zone=zone), what
    if attribute.type == "integer" and attribute.lenient:  # else they are refused
        yield lambda cell: values.number(cell, infinite=True) % 1 > 0, "have decimals: `type: integer` drops them"
    if (decimals := attribute.decimals) is not None:
        yield (
            lambda cell: bool(values.decimals_of(values.number(cell, infinite=True)) > decimals),
            f"have more than {decimals} decimals: `decimals: {decimals}` rounds them",
        )
    if attribute.other is not None:
        texts = {*(attribute.labels or ()), attribute.other}
        n = attribute.n_values
        yield (
            lambda cell: cell.text not in texts,
            f"are none of the {n} labels: all become '{attribute.other}'",
        )
