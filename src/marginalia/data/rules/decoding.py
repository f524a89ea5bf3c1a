"""Values behind codes that obey the orders of a domain, and its derived columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.coding import drawn_numbers, original_values, with_types
from marginalia.data.column import Column
from marginalia.data.rules.expressions import Expression, seconds_of_type
from marginalia.data.rules.feasible import Codes, is_feasible, limits
from marginalia.data.rules.ranges import Floats, Ranges, seconds_of
from marginalia.data.rules.rules import Order, Rules, has_value

if TYPE_CHECKING:
    import pandas as pd

ROUNDS = 8  # of drawing the values of a row again before they are sorted


def values_under_rules(
    codes: Mapping[str, Codes], columns: Mapping[str, Column], rules: Rules, rng: np.random.Generator
) -> dict[str, pd.Series[Any]]:
    """Return the values behind codes (see `original_values`) that obey all orders, and the derived columns.

    Parameters
    ----------
    codes : dict of name to ndarray of shape (n,)
    columns : dict of name to Column
    rules : Rules
    rng : Generator

    Notes
    -----
    The values of a row that break an order are drawn again inside their bins, all columns that orders tie together.
    That is the law of the bins given the order. After `ROUNDS` tries they are sorted, and then moved as little as the
    bins demand, from the lowest column up. An open outer bin is left through its open end where no value between its
    edges obeys. Rows that are not feasible stay as they are.

    Examples
    --------
    >>> named = {name: Column(name, 1, edges=(0, 10), type="integer") for name in "ab"}
    >>> codes = {"a": np.zeros(1, int), "b": np.zeros(1, int)}
    >>> drawn = values_under_rules(codes, named, Rules.parse(["a < b"], {"c": "b - a"}), np.random.default_rng(0))
    >>> {name: column.tolist() for name, column in drawn.items()}
    {'a': [1], 'b': [8], 'c': [7]}
    """
    orders = Rules(tuple(rule for rule in rules.rules if isinstance(rule, Order)))
    tied = {*orders.sequence, *(name for _, text in rules.derived for name in Expression(text).names)}
    series: dict[str, pd.Series[Any]] = {}
    numbers: dict[str, Floats] = {}
    for name, column in columns.items():
        if name in tied and column.type not in ("string", "boolean"):
            numbers[name] = drawn_numbers(codes[name], column, rng) * seconds_of(column)
        else:
            series[name] = original_values(codes[name], column, rng)
    for component in orders.components:
        _order(numbers, codes, columns, component, rng)
    numbers = {name: array / seconds_of(columns[name]) for name, array in numbers.items()}
    series |= {name: with_types(array, codes[name], columns[name]) for name, array in numbers.items()}
    series = {name: series[name] for name in columns}
    return series | _derived(series, numbers, codes, columns, rules)


def _order(
    numbers: dict[str, Floats],
    codes: Mapping[str, Codes],
    columns: Mapping[str, Column],
    rules: Rules,
    rng: np.random.Generator,
) -> None:
    """Make the numbers of columns that orders tie together obey, in place."""
    codes = {name: codes[name] for name in rules.sequence}
    rows = np.flatnonzero(~in_order(numbers, rules) & is_feasible(codes, columns, rules))
    for _ in range(ROUNDS):
        if not rows.size:
            return
        for name in rules.sequence:
            numbers[name][rows] = drawn_numbers(codes[name][rows], columns[name], rng) * seconds_of(columns[name])
        rows = rows[~in_order({name: numbers[name][rows] for name in rules.sequence}, rules)]
    codes = {name: column[rows] for name, column in codes.items()}
    drawn = np.column_stack([numbers[name][rows] for name in rules.sequence])
    in_turn = np.sort(drawn, axis=1)  # NaN last
    drawn[~np.isnan(drawn)] = in_turn[~np.isnan(in_turn)]
    largest = limits(codes, columns, rules, upper=True)
    for name, column in zip(rules.sequence, drawn.T, strict=True):
        ranges = Ranges.of(columns[name])
        found = np.clip(ranges.at_least(column), ranges.low[codes[name]], ranges.high[codes[name]])
        found = np.minimum(found, largest[name])
        for below, above, strict in rules.edges:
            if above == name:
                smallest = ranges.at_least(numbers[below][rows], strict=strict)
                found = np.where(np.isnan(smallest), found, np.maximum(found, smallest))
        numbers[name][rows] = found


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


def _derived(
    series: Mapping[str, pd.Series[Any]],
    numbers: Mapping[str, Floats],
    codes: Mapping[str, Codes],
    columns: Mapping[str, Column],
    rules: Rules,
) -> dict[str, pd.Series[Any]]:
    known: dict[str, NDArray[Any]] = dict(numbers)
    for name in {name for _, text in rules.derived for name in Expression(text).names} & set(columns) - set(numbers):
        present = has_value(columns[name])[codes[name]]
        if columns[name].type == "string":
            known[name] = series[name].astype(object).where(present, None).to_numpy()
        else:
            known[name] = np.where(present, codes[name] == 1, np.nan)
    found = {}
    for name, compiled in rules.compiled(columns.values()).items():
        known[name] = np.broadcast_to(compiled.of(known), (len(next(iter(codes.values()))),))
        found[name] = _series(known[name], compiled.type)
    return found


def _series(found: NDArray[Any], kind: str) -> pd.Series[Any]:
    """Return the values of an expression as a column of a data frame."""
    import pandas as pd

    if kind in ("string", "number"):
        return pd.Series(np.array(found))
    gone = np.isnan(found)
    whole = np.where(gone, 0, found).astype(np.int64)
    if kind == "integer":
        return pd.Series(whole, dtype="Int64").mask(gone)
    if kind == "boolean":
        return pd.Series(whole == 1, dtype="boolean").mask(gone)
    times = (whole * seconds_of_type(kind)).astype("datetime64[s]")
    times[gone] = np.datetime64("NaT", "s")
    return pd.Series(times)
