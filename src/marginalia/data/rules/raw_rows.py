"""How many raw rows obey the rules of a domain: read off the private rows, for the eyes of their owner."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.coding import codes_of, numbers_of
from marginalia.data.column import Column
from marginalia.data.rules.decoding import in_order
from marginalia.data.rules.expressions import DAYS, Expression
from marginalia.data.rules.ranges import seconds_of
from marginalia.data.rules.rules import Needs, Order, Rule, Rules, chosen, has_value, type_of

if TYPE_CHECKING:
    import pandas as pd

_NEAR = 1e-9  # relative: what two programs may differ by in the last digits


def obeyed(frame: pd.DataFrame, columns: Sequence[Column], rules: Rules) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield each rule and derived column, as text, and which rows of a raw table obey it.

    Rules about columns that the table does not have are left out, as derived columns that it does not have are.

    Parameters
    ----------
    frame : DataFrame
        In original values.
    columns : sequence of Column
        Whatever stands in an open column is read as far as it can be.
    rules : Rules

    Examples
    --------
    >>> import pandas as pd
    >>> columns = [Column(name, 1, edges=(0, 9), type="integer") for name in "ab"]
    >>> rules = Rules.parse(["a <= b"], {"c": "a + b"})
    >>> frame = pd.DataFrame({"a": [1, 2], "b": [1, 1], "c": [2, 9]})
    >>> [(text, rows.tolist()) for text, rows in obeyed(frame, columns, rules)]
    [('a <= b', [True, False]), ('c = a + b', [True, False])]
    """
    raw = {c.name: _RawColumn(frame[c.name], c) for c in columns if c.name in frame.columns}
    known = rules.among(raw)
    for rule in known.rules:
        yield str(rule), _obeys(rule, raw, len(frame))
    computed: dict[str, NDArray[Any]] = {}
    of = known.compiled([c for c in columns if c.name in raw])
    for name, text in known.derived:
        inputs = {n: computed[n] if n in computed else raw[n].values for n in Expression(text).names}
        computed[name] = np.broadcast_to(of[name].of(inputs), (len(frame),))
        if name in frame.columns:
            yield f"{name} = {text}", _same(_read(frame[name], of[name].type), computed[name], of[name].type)


def line(text: str, rows: NDArray[np.bool_]) -> str:
    """Say in one line which share of the rows obeys, and the first that does not.

    >>> line("a <= b", np.array([True, False, True]))
    'a <= b: 66.66 % of 3 rows obey, not row 1 (rows count from 0)'
    """
    if rows.all():
        return f"{text}: all {len(rows)} rows obey"
    share = math.floor(rows.mean() * 10_000) / 100  # never 100 %
    return f"{text}: {share:g} % of {len(rows)} rows obey, not row {np.flatnonzero(~rows)[0]} (rows count from 0)"


class _RawColumn:
    def __init__(self, raw: pd.Series[Any], column: Column) -> None:
        self.raw, self.column = raw, column
        self.closed = column.placeholder()

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        return codes_of(self.raw, self.closed)[0]

    @property
    def present(self) -> NDArray[np.bool_]:
        return has_value(self.closed)[self.codes] | (self.codes < 0)

    @cached_property
    def values(self) -> NDArray[Any]:
        if self.closed.type == "boolean":
            return np.where(self.present & (self.codes >= 0), self.codes == 1, np.nan)
        return _read(self.raw, type_of(self.column), self.closed)

    def is_one_of(self, texts: tuple[str, ...]) -> NDArray[np.bool_]:
        if self.column.private == "labels":
            return np.isin(self.values.astype(str), texts) | (~self.present & ("missing" in texts))
        return chosen(self.closed, texts)[self.codes] & (self.codes >= 0)


def _read(raw: pd.Series[Any], kind: str, column: Column | None = None) -> NDArray[Any]:
    """Return raw values as expressions have them; what cannot be read is missing."""
    marks = () if column is None else column.missing or ()
    if kind == "boolean":
        codes = codes_of(raw, Column("derived", 3, type="boolean", missing=(), lenient=False))[0]
        return np.where((codes >= 0) & (codes < 2), codes, np.nan)
    if kind == "string":
        cells = [None if gone else values.text(v) for v, gone in zip(raw.tolist(), raw.isna().tolist(), strict=True)]
        return np.array([None if not v or v in marks else v for v in cells] + [None], dtype=object)[:-1]
    wide: dict[str, Any] = {"edges": (-(2.0**53), 2.0**53), "type": "number"}
    if kind == "date":
        wide = {"edges": tuple(map(float, DAYS)), "type": "date"}
        wide |= {} if column is None else {"format": column.format, "pivot": column.pivot}
    elif column is not None and (column.type == "timestamp" or column.format is not None):
        return numbers_of(raw, column)
    return numbers_of(raw, Column("any", 2, bottom=True, top=True, missing=marks, lenient=True, **wide))


def _same(stored: NDArray[Any], computed: NDArray[Any], kind: str) -> NDArray[np.bool_]:
    if kind == "string":
        return np.array(stored == computed, dtype=bool)
    gone = np.isnan(stored)
    near = np.abs(stored - computed) <= _NEAR * np.maximum(1.0, np.abs(computed))
    return np.where(gone | np.isnan(computed), gone & np.isnan(computed), near)


def _obeys(rule: Rule, raw: Mapping[str, _RawColumn], n: int) -> NDArray[np.bool_]:
    if not n:
        return np.ones(0, dtype=bool)
    if isinstance(rule, Order):
        return in_order(
            {name: raw[name].values * seconds_of(raw[name].closed) for name in rule.columns}, Rules((rule,))
        )
    if isinstance(rule, Needs):
        return ~raw[rule.column].present | np.logical_and.reduce([raw[name].present for name in rule.others])
    return ~np.logical_and.reduce([raw[name].is_one_of(texts) for name, texts in rule.sets])
