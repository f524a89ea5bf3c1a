"""Make synthetic rows obey all rules: codes that can hold, values inside their bins that do, derived columns.

All of it is post-processing: rules and domain are public, and rows are drawn anew from rows that a method has drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.attribute import Attribute
from marginalia.data.coding import original_values
from marginalia.data.rules.expressions import Expression
from marginalia.data.rules.ranges import SECONDS, Floats, Ranges, n_ranges, unit_of
from marginalia.data.rules.rules import Needs, Never, Order, Rule, Rules, chosen, has_value

if TYPE_CHECKING:
    import pandas as pd

Codes = NDArray[np.integer]
Columns = Mapping[str, Codes]
SWAPS = 40  # rounds in which rows exchange codes
ROUNDS = 8  # of drawing values anew before they are drawn one after the other
_TRIED = 100_000  # codes, before a search for one possible row gives up


def possible(codes: Columns, attributes: Mapping[str, Attribute], rules: Rules) -> NDArray[np.bool_]:
    """Return which rows can hold: some values of their bins obey all rules together.

    Parameters
    ----------
    codes : dict of name to ndarray of shape (n,)
    attributes : dict of name to Attribute
    rules : Rules

    Notes
    -----
    Orders hold together exactly where each column's smallest possible number, that of its bin or the smallest that
    those below leave, is no larger than its bin's largest; it is computed column by column, from the lowest up.

    Examples
    --------
    >>> a, b = (Attribute(name, 2, edges=(0, 10, 20), type="integer") for name in "ab")
    >>> codes = {"a": np.array([0, 1, 1]), "b": np.array([1, 1, 0])}
    >>> possible(codes, {"a": a, "b": b}, Rules.parse(["a <= b"], {}))
    array([ True,  True, False])
    """
    fine = np.ones(len(next(iter(codes.values()))), dtype=bool)
    for rule in rules.rules:
        if isinstance(rule, Needs):
            fine &= ~has_value(attributes[rule.column])[codes[rule.column]] | np.logical_and.reduce(
                [has_value(attributes[name])[codes[name]] for name in rule.others]
            )
        elif isinstance(rule, Never):
            fine &= ~np.logical_and.reduce([chosen(attributes[n], texts)[codes[n]] for n, texts in rule.sets])
    if rules.edges:
        with np.errstate(invalid="ignore"):
            for name, least in _least(codes, attributes, rules).items():
                fine &= ~(least > Ranges.of(attributes[name]).widest_high[codes[name]])
    return fine


def _least(codes: Columns, attributes: Mapping[str, Attribute], rules: Rules) -> dict[str, Floats]:
    """Return the smallest number that each column can have in each row, NaN where it has none."""
    least: dict[str, Floats] = {}
    for name in rules.sequence:
        ranges = Ranges.of(attributes[name])
        found = ranges.widest_low[codes[name]]
        for below, above, strict in rules.edges:
            if above == name:
                needed = ranges.at_least(np.where(np.isnan(found), np.nan, least[below]), strict=strict)
                found = np.where(np.isnan(needed), found, np.maximum(found, needed))
        least[name] = found
    return least


def _most(codes: Columns, attributes: Mapping[str, Attribute], rules: Rules) -> dict[str, Floats]:
    most: dict[str, Floats] = {}
    for name in reversed(rules.sequence):
        ranges = Ranges.of(attributes[name])
        found = ranges.widest_high[codes[name]]
        for below, above, strict in rules.edges:
            if below == name:
                needed = ranges.at_most(np.where(np.isnan(found), np.nan, most[above]), strict=strict)
                found = np.where(np.isnan(needed), found, np.minimum(found, needed))
        most[name] = found
    return most


def _parts(rules: Rules) -> Iterator[tuple[tuple[str, ...], Rules]]:
    """Yield the columns that rules tie together, and these rules."""
    parts: list[tuple[set[str], list[Rule]]] = []
    for rule in rules.rules:
        names, tied = set(rule.columns), [rule]
        for part in [part for part in parts if part[0] & names]:
            names, tied = names | part[0], [*part[1], *tied]
            parts.remove(part)
        parts.append((names, tied))
    for names, tied in parts:
        yield tuple(sorted(names)), Rules(tuple(tied))


def with_possible_codes(codes: Codes, attributes: Sequence[Attribute], rules: Rules, rng: np.random.Generator) -> Codes:
    """Return codes, shape (n, d), with rows that cannot hold changed until they can.

    First such a row and one that holds change places in one column, where both can hold then: all one-way marginals
    stay as they were drawn. What is left after `SWAPS` rounds has one column drawn anew, from the rows that hold and
    agree with it in the others that its rules name; where there are none, all of these from a row that holds.

    Examples
    --------
    >>> a, b = (Attribute(name, 2, edges=(0, 10, 20), type="integer") for name in "ab")
    >>> drawn = with_possible_codes(np.array([[1, 0], [1, 1]]), [a, b], Rules.parse(["a <= b"], {}),
    ...     np.random.default_rng(0))
    >>> drawn.tolist()
    [[1, 1], [1, 1]]
    """
    named = {attribute.name: attribute for attribute in attributes}
    at = {attribute.name: j for j, attribute in enumerate(attributes)}
    out = codes
    for names, tied in _parts(rules):
        where = np.array([at[name] for name in names])
        fine = possible({n: out[:, j] for n, j in zip(names, where, strict=True)}, named, tied)
        if fine.all():
            continue
        out = np.array(out, order="F") if out is codes else out
        _swap(out, where, [named[name] for name in names], tied, fine, rng)
        good, bad = np.flatnonzero(fine), np.flatnonzero(~fine)
        donors = out[np.ix_(good, where)]
        changed = rng.integers(len(names), size=bad.size)
        left = np.ones(bad.size, dtype=bool)
        for step in range(len(names)):
            for j in range(len(names)):
                rows = np.flatnonzero(left & ((changed + step) % len(names) == j))
                kept = [k for k in range(len(names)) if k != j]
                found = _like(out[np.ix_(bad[rows], where)][:, kept], donors[:, kept], rng)
                rows, found = rows[found >= 0], found[found >= 0]
                out[bad[rows], where[j]] = donors[found, j]
                left[rows] = False
        bad = bad[left]
        if bad.size and not good.size:
            donors = some_possible([named[name] for name in names], tied, rng)
        if bad.size and len(donors):
            out[np.ix_(bad, where)] = donors[rng.integers(len(donors), size=bad.size)]
    return out


def _swap(
    codes: Codes,
    where: NDArray[np.int64],
    attributes: Sequence[Attribute],
    rules: Rules,
    fine: NDArray[np.bool_],
    rng: np.random.Generator,
) -> None:
    """Let rows that cannot hold and rows that can exchange the code of a column, while both can then, in place."""
    named = {attribute.name: attribute for attribute in attributes}

    def holds(rows: Codes) -> NDArray[np.bool_]:
        return possible(dict(zip(named, rows.T, strict=True)), named, rules)

    for _ in range(SWAPS):
        bad, good = np.flatnonzero(~fine), np.flatnonzero(fine)
        pairs = min(bad.size, good.size)
        if not pairs:
            return
        bad, good = (rng.choice(rows, pairs, replace=False) for rows in (bad, good))
        one, other = codes[np.ix_(bad, where)], codes[np.ix_(good, where)]
        at = np.arange(pairs), rng.integers(where.size, size=pairs)
        one[at], other[at] = other[at], one[at]
        done = holds(one) & holds(other)
        codes[np.ix_(bad[done], where)], codes[np.ix_(good[done], where)] = one[done], other[done]
        fine[bad[done]] = True


def _like(rows: Codes, donors: Codes, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return, for each row, the number of a donor that has the same codes, at random; -1 where none has."""
    if not len(rows) or not len(donors):
        return np.full(len(rows), -1, dtype=np.int64)
    both = np.concatenate([donors, rows])
    which, kinds = np.zeros(len(both), dtype=np.int64), 1
    for column in both.T:  # one number for each combination of codes
        size = int(column.max()) + 1
        if kinds * size > 2**62:
            known, which = np.unique(which, return_inverse=True)
            kinds = len(known)
        which, kinds = which * size + column, kinds * size
    theirs, ours = which[: len(donors)], which[len(donors) :]
    order = np.argsort(theirs, kind="stable")
    first, last = (np.searchsorted(theirs[order], ours, side=side) for side in ("left", "right"))
    found = order[np.minimum(first + (rng.random(len(rows)) * (last - first)).astype(np.int64), len(donors) - 1)]
    return np.where(last > first, found, -1)


def some_possible(
    attributes: Sequence[Attribute], rules: Rules, rng: np.random.Generator | None = None, wanted: int = 64
) -> Codes:
    """Return codes of a few rows that can hold, shape (m, d); none where the rules leave no row.

    One column after the other, with a step back where none of its codes can hold beside those before it.

    >>> a, b = (Attribute(name, 2, edges=(0, 10, 20), type="integer") for name in "ab")
    >>> some_possible([a, b], Rules.parse(["a < b", {"never": {"a": ["< 10"], "b": [">= 10"]}}], {}), wanted=1).tolist()
    [[0, 0]]
    """
    rng = rng or np.random.default_rng(0)
    named = {attribute.name: attribute for attribute in attributes}
    tried, found = 0, []

    def grow(row: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        nonlocal tried
        if len(row) == len(attributes):
            yield row
            return
        known = attributes[: len(row) + 1]
        about = rules.among(a.name for a in known)
        size = known[-1].size
        codes = {a.name: np.full(size, c) for a, c in zip(known, row, strict=False)}
        codes[known[-1].name] = np.arange(size)
        fine = np.flatnonzero(possible(codes, named, about)) if about.rules else np.arange(size)
        tried += size
        for code in rng.permutation(fine).tolist():
            if tried > _TRIED * wanted:
                return
            yield from grow((*row, code))

    for _ in range(wanted):
        if (row := next(grow(()), None)) is None:
            break
        found.append(row)
    return np.array(found, dtype=np.int64).reshape(len(found), len(attributes))


def obey(
    columns: dict[str, pd.Series[Any]],
    codes: Columns,
    attributes: Mapping[str, Attribute],
    rules: Rules,
    rng: np.random.Generator,
) -> None:
    """Change values inside their bins so that all orders hold, and add the derived columns, in place.

    Parameters
    ----------
    columns : dict of name to Series
        Original values of the codes, as `marginalia.data.coding.original_values` drew them.
    codes, attributes : dict by name
    rules : Rules
    rng : Generator

    Notes
    -----
    Rows whose values break an order are drawn anew, all tied columns at once: that is the law of the bins given that
    the order holds. What is left after `ROUNDS` is drawn one column after the other, from the lowest up, between what
    those below demand and what those above leave. Such a value is there: with x_i <= most_i for all columns i below j,
    some number of column j lies between the largest x_i and most_j, for most_i was chosen below most_j, a number of
    column j. An open outer bin is left through its open end where nothing between its edges obeys.

    Rows that cannot hold (of a table that breaks its rules, see `possible`) stay as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> named = {name: Attribute(name, 1, edges=(0, 10), type="integer") for name in "ab"}
    >>> columns = {"a": pd.Series([7]), "b": pd.Series([7])}
    >>> codes = {"a": np.zeros(1, int), "b": np.zeros(1, int)}
    >>> obey(columns, codes, named, Rules.parse(["a <= b"], {"c": "a + b"}), np.random.default_rng(0))
    >>> {name: column.tolist() for name, column in columns.items()}
    {'a': [7], 'b': [7], 'c': [14]}
    """
    tied = Rules(tuple(rule for rule in rules.rules if isinstance(rule, Order)))
    if tied.edges and len(next(iter(codes.values()))):
        _order(columns, codes, {name: attributes[name] for name in tied.sequence}, tied, rng)
    if rules.derived:
        derive(columns, codes, attributes, rules)


def _order(
    columns: dict[str, pd.Series[Any]],
    codes: Columns,
    of: Mapping[str, Attribute],
    tied: Rules,
    rng: np.random.Generator,
) -> None:
    numbers = {name: numbers_in(columns[name], codes[name], attribute) for name, attribute in of.items()}
    changed = left = np.flatnonzero(possible(codes, of, tied) & ~in_order(numbers, tied))
    for _ in range(ROUNDS):
        if not left.size:
            break
        for name, attribute in of.items():
            here = codes[name][left]
            numbers[name][left] = numbers_in(original_values(here, attribute, rng), here, attribute)
        left = left[~in_order({name: drawn[left] for name, drawn in numbers.items()}, tied)]
    if left.size:
        for name, drawn in _in_turn({name: codes[name][left] for name in of}, of, tied, rng).items():
            numbers[name][left] = drawn
    for name, attribute in of.items():
        rows = changed[codes[name][changed] < n_ranges(attribute)]
        drawn = numbers[name][rows]
        if attribute.type in ("date", "timestamp"):
            columns[name].iloc[rows] = drawn.astype(np.int64).astype("datetime64[s]")
        else:
            columns[name].iloc[rows] = drawn if columns[name].dtype.kind == "f" else drawn.astype(np.int64)


def in_order(numbers: Mapping[str, Floats], rules: Rules) -> NDArray[np.bool_]:
    """Return in which rows all orders hold; NaN has no order.

    >>> in_order({"a": np.array([1.0, 2.0, np.nan]), "b": np.ones(3)}, Rules.parse(["a <= b"], {}))
    array([ True, False,  True])
    """
    fine = np.ones(len(next(iter(numbers.values()))), dtype=bool)
    with np.errstate(invalid="ignore"):
        for below, above, strict in rules.edges:
            fine &= ~(np.greater_equal if strict else np.greater)(numbers[below], numbers[above])
    return fine


def _in_turn(
    codes: Columns, attributes: Mapping[str, Attribute], rules: Rules, rng: np.random.Generator
) -> dict[str, Floats]:
    most = _most(codes, attributes, rules)
    drawn: dict[str, Floats] = {}
    for name in rules.sequence:
        ranges = Ranges.of(attributes[name])
        low, high = ranges.low[codes[name]], ranges.high[codes[name]]
        least = ranges.widest_low[codes[name]]
        for below, above, strict in rules.edges:
            if above == name:
                least = np.fmax(least, ranges.at_least(drawn[below], strict=strict))
        least = np.where(np.isnan(low), np.nan, least)
        first, last = np.fmax(low, least), np.fmin(high, most[name])
        first, last = np.where(least > high, least, first), np.where(least > high, least, last)
        below_bin = most[name] < low
        first, last = np.where(below_bin, most[name], first), np.where(below_bin, most[name], last)
        drawn[name] = np.full(low.shape, np.nan)
        known = ~np.isnan(low)
        drawn[name][known] = ranges.between(first[known], last[known], rng)
    return drawn


def numbers_in(column: pd.Series[Any], codes: Codes, attribute: Attribute) -> Floats:
    """Return original values as numbers that can be compared: dates and times in seconds; NaN where there is none.

    >>> import pandas as pd
    >>> age = Attribute("age", 2, edges=(0, 9), type="integer", missing=("-1",))
    >>> numbers_in(pd.Series([3, -1]), np.array([0, 1]), age)
    array([ 3., nan])
    """
    numbers = np.full(len(codes), np.nan)
    known = np.asarray(codes) < n_ranges(attribute)
    values = column[known]
    if attribute.type in ("date", "timestamp"):
        values = values.astype("datetime64[s]").astype(np.int64)
    numbers[known] = values.astype(np.float64)
    return numbers


def derive(
    columns: dict[str, pd.Series[Any]], codes: Columns, attributes: Mapping[str, Attribute], rules: Rules
) -> None:
    """Add the derived columns to original values, in place.

    >>> import pandas as pd
    >>> columns = {"a": pd.Series([7])}
    >>> derive(columns, {"a": np.zeros(1, int)}, {"a": Attribute("a", 1, edges=(0, 10), type="integer")},
    ...     Rules.parse([], {"b": "2 * a"}))
    >>> columns["b"].tolist()
    [14]
    """
    n = len(next(iter(codes.values())))
    known: dict[str, NDArray[Any]] = {}
    for name in {name for _, text in rules.derived for name in Expression(text).names} & set(attributes):
        attribute = attributes[name]
        present = has_value(attribute)[codes[name]]
        if attribute.type == "string":
            known[name] = columns[name].astype(object).where(present, None).to_numpy()
        elif attribute.type == "boolean":
            known[name] = np.where(present, codes[name] == 1, np.nan)
        else:
            known[name] = numbers_in(columns[name], codes[name], attribute) / unit_of(attribute)
    for name, compiled in rules.compiled(attributes.values()).items():
        known[name] = np.broadcast_to(compiled.of(known), (n,))
        columns[name] = as_series(known[name], compiled.type)


def as_series(found: NDArray[Any], kind: str) -> pd.Series[Any]:
    """Return the values of an expression as a column of a data frame.

    >>> as_series(np.array([1.0, np.nan]), "integer").tolist(), str(as_series(np.zeros(1), "date")[0])
    ([1, <NA>], '1970-01-01 00:00:00')
    """
    import pandas as pd

    if kind in ("string", "number"):
        return pd.Series(np.array(found))
    gone = np.isnan(found)
    whole = np.where(gone, 0, found).astype(np.int64)
    if kind == "integer":
        return pd.Series(whole, dtype="Int64").mask(gone)
    if kind == "boolean":
        return pd.Series(whole == 1, dtype="boolean").mask(gone)
    unit = 86400 if kind == "date" else SECONDS[kind.split()[-1].removesuffix("s")]
    times = (whole * unit).astype("datetime64[s]")
    times[gone] = np.datetime64("NaT", "s")
    return pd.Series(times)
