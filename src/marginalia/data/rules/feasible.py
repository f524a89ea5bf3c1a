"""Rules as a predicate on codes: structural zeros of models, and rows that are drawn again until they can obey."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from marginalia.data.column import Column, StructuralZeros
from marginalia.data.rules.ranges import Floats, Ranges
from marginalia.data.rules.rules import Needs, Never, Order, Rule, Rules, chosen, has_value
from marginalia.errors import InputError

Codes = NDArray[np.integer]
MOST_CELLS = 2**18  # of a table of structural zeros (2 MB) that rules add to a graphical model
TRIES = 32  # samples that are drawn in search of feasible rows
_FEWEST = 1024  # rows of such a sample
_NODES = 100_000  # of the search for one feasible row


def is_feasible(codes: Mapping[str, Codes], columns: Mapping[str, Column], rules: Rules) -> NDArray[np.bool_]:
    """Return which rows are feasible: some values of their codes obey all rules together.

    Parameters
    ----------
    codes : dict of name to ndarray of shape (n,)
        A column that is left out may have any code.
    columns : dict of name to Column
    rules : Rules

    Notes
    -----
    Orders hold together exactly where the smallest number that they leave to each column is in reach of its code. That
    number is computed column by column, from the lowest up.

    Examples
    --------
    >>> a, b = (Column(name, 2, edges=(0, 10, 20), type="integer") for name in "ab")
    >>> codes = {"a": np.array([0, 1, 1]), "b": np.array([1, 1, 0])}
    >>> is_feasible(codes, {"a": a, "b": b}, Rules.parse(["a <= b"], {}))
    array([ True,  True, False])
    """
    feasible = np.ones(len(next(iter(codes.values()))), dtype=bool)
    for rule in rules.rules:
        if not set(rule.columns) <= set(codes):
            continue
        if isinstance(rule, Needs):
            there = {name: has_value(columns[name])[codes[name]] for name in rule.columns}
            feasible &= ~there[rule.column] | np.logical_and.reduce([there[name] for name in rule.others])
        elif isinstance(rule, Never):
            feasible &= ~np.logical_and.reduce([chosen(columns[n], texts)[codes[n]] for n, texts in rule.sets])
    if rules.edges:
        for name, smallest in limits(codes, columns, rules).items():
            feasible &= ~(smallest > _ends(columns[name], codes.get(name), len(feasible), upper=True))
    return feasible


def limits(
    codes: Mapping[str, Codes], columns: Mapping[str, Column], rules: Rules, *, upper: bool = False
) -> dict[str, Floats]:
    """Return the smallest number that the orders leave each column in each row, or the largest; NaN: no number.

    >>> a, b = (Column(name, 2, edges=(0, 10, 20), type="integer") for name in "ab")
    >>> codes = {"a": np.array([0, 1]), "b": np.array([0, 0])}
    >>> limits(codes, {"a": a, "b": b}, Rules.parse(["a <= b"], {}))["b"]
    array([ 0., 10.])
    """
    n_rows = len(next(iter(codes.values())))
    found: dict[str, Floats] = {}
    for name in rules.sequence[:: -1 if upper else 1]:
        ranges = Ranges.of(columns[name])
        limit = _ends(columns[name], codes.get(name), n_rows, upper=upper)
        for below, above, strict in rules.edges:
            if upper and below == name:
                limit = _where_known(np.fmin, limit, ranges.at_most(found[above], strict=strict))
            elif not upper and above == name:
                limit = _where_known(np.fmax, limit, ranges.at_least(found[below], strict=strict))
        found[name] = limit
    return found


def _ends(column: Column, codes: Codes | None, n_rows: int, *, upper: bool) -> Floats:
    ranges = Ranges.of(column)
    ends = ranges.widest_high if upper else ranges.widest_low
    if codes is not None:
        return ends[codes]
    free = np.nan if _may_be_free(column) else (max if upper else min)(ends)
    return np.full(n_rows, free)


def _may_be_free(column: Column) -> bool:
    """Return whether a code of the column stands for no number, so that orders do not bind it."""
    return column.size > column.n_values


def _where_known(tighter: Callable[[Floats, Floats], Floats], limit: Floats, needed: Floats) -> Floats:
    return np.where(np.isnan(limit), limit, tighter(limit, needed))


def zeros_of_rules(columns: Mapping[str, Column], rules: Rules) -> tuple[StructuralZeros, ...]:
    """Return the cells of two columns, or of a set of `Never`, that cannot hold a row, as far as a model can bear them.

    A table that closes a circle with those before it is left out if all columns of the circle have more than
    `MOST_CELLS` cells.

    >>> a, b = (Column(name, 2, edges=(0, 10, 20), type="integer") for name in "ab")
    >>> zeros_of_rules({"a": a, "b": b}, Rules.parse(["a <= b"], {}))
    (StructuralZeros(attributes=('a', 'b'), cells=((1, 0),)),)
    """

    def cells_of(names: Iterable[str]) -> int:
        return math.prod(columns[name].size for name in names)

    tables: dict[tuple[str, ...], list[Rule]] = {}
    for part in (part for rule in rules.rules for part in _parts(rule, columns)):
        tables.setdefault(tuple(sorted(part.columns)), []).append(part)
    found = []
    tied: list[set[str]] = []  # columns of tables that share columns
    for names, parts in tables.items():
        if cells_of(names) > MOST_CELLS:
            continue
        cells = np.indices([columns[name].size for name in names]).reshape(len(names), -1)
        codes = dict(zip(names, cells, strict=True))
        infeasible = cells[:, ~is_feasible(codes, columns, Rules(tuple(parts)))]
        touched = [group for group in tied if group & set(names)]
        whole = set(names).union(*touched)
        circle = any(len(group & set(names)) > 1 for group in touched)
        if infeasible.size and not (circle and cells_of(whole) > MOST_CELLS):
            tied = [group for group in tied if group not in touched] + [whole]
            found.append(StructuralZeros(names, tuple(map(tuple, infeasible.T.tolist()))))
    return tuple(found)


def _parts(rule: Rule, columns: Mapping[str, Column]) -> Iterator[Rule]:
    """Yield the rules of two columns in a rule; orders of columns that are no neighbours last."""
    if isinstance(rule, Never):
        yield rule
    elif isinstance(rule, Needs):
        yield from (Needs(rule.column, (other,)) for other in rule.others)
    else:
        n = len(rule.columns)
        for low, high in ((low, low + step) for step in range(1, n) for low in range(n - step)):
            if all(_may_be_free(columns[name]) for name in rule.columns[low + 1 : high]):  # else implied
                yield Order((rule.columns[low], rule.columns[high]), (any(rule.strict[low:high]),))


def feasible_row(columns: Mapping[str, Column], rules: Rules) -> dict[str, int] | None:
    """Return the codes of a feasible row in the columns that rules name; None if the search takes too long.

    One column after the other, with a step back where no code of a column is feasible next to those before it.

    Raises
    ------
    InputError
        No row is feasible.

    Examples
    --------
    >>> named = {name: Column(name, 2, edges=(0, 10, 20), type="integer") for name in "ab"}
    >>> feasible_row(named, Rules.parse(["a < b", {"never": {"a": ["< 10"], "b": ["< 10"]}}], {}))
    {'a': 0, 'b': 1}
    """
    found: dict[str, int] = {}
    for tied in rules.components:
        names = [*tied.sequence, *sorted({name for rule in tied.rules for name in rule.columns} - {*tied.sequence})]
        row: list[int] = []
        choices = [_choices(row, names, columns, tied)]  # for each column of the row and the next one
        for _ in range(_NODES):
            if len(row) == len(names):
                break
            if choices[-1]:
                row.append(choices[-1].pop(0))
                choices.append(_choices(row, names, columns, tied))
            elif row:
                row.pop()
                choices.pop()
            else:
                raise InputError("the rules leave no possible row; take one of them out, or change the bins")
        else:
            return None
        found |= zip(names, row, strict=True)
    return found


def _choices(row: list[int], names: list[str], columns: Mapping[str, Column], rules: Rules) -> list[int]:
    """Return the codes of the next column that are feasible next to the codes of the columns before it."""
    if len(row) == len(names):
        return []
    size = columns[names[len(row)]].size
    codes = {name: np.full(size, code) for name, code in zip(names, row, strict=False)}
    feasible = is_feasible(codes | {names[len(row)]: np.arange(size)}, columns, rules)
    return np.flatnonzero(feasible).tolist()


def with_feasible_rows(
    codes: Codes,
    columns: Sequence[Column],
    rules: Rules,
    rng: np.random.Generator,
    draw: Callable[[int], Codes] | None = None,
) -> Codes:
    """Return codes, shape (n, d), with every infeasible row replaced by a feasible row of `draw`.

    Rejection: `draw` draws samples of the same size, `TRIES` at most, until they hold enough feasible rows. Further
    rows repeat feasible ones. If there are none, the columns that rules name get the codes of `feasible_row`.

    Raises
    ------
    InputError
        No row is feasible, or none was found.

    Examples
    --------
    >>> a, b = (Column(name, 2, edges=(0, 10, 20), type="integer") for name in "ab")
    >>> drawn = with_feasible_rows(np.array([[1, 0], [1, 1]]), [a, b], Rules.parse(["a <= b"], {}),
    ...     np.random.default_rng(0))
    >>> drawn.tolist()
    [[1, 1], [1, 1]]
    """
    named = {column.name: column for column in columns}

    def feasible(rows: Codes) -> NDArray[np.bool_]:
        return is_feasible(dict(zip(named, rows.T, strict=True)), named, rules)

    kept = feasible(codes)
    if kept.all():
        return codes
    out, replaced = np.array(codes, order="F"), np.flatnonzero(~kept)
    more: Codes = out[:0]
    for _ in range(TRIES if draw else 0):
        if len(more) >= len(replaced):
            break
        assert draw is not None
        drawn = draw(max(len(codes), _FEWEST))
        more = np.concatenate([more, drawn[feasible(drawn)]])
    fresh = rng.permutation(more)[: len(replaced)]
    out[replaced[: len(fresh)]] = fresh
    if len(left := replaced[len(fresh) :]):
        known = np.concatenate([codes[kept], fresh])
        if len(known):
            out[left] = known[rng.integers(len(known), size=len(left))]
        elif row := feasible_row(named, rules):
            out[:, [j for j, name in enumerate(named) if name in row]] = [row[name] for name in named if name in row]
        else:
            raise InputError("no row that obeys all rules was found; take one of them out, or change the bins")
    return out
