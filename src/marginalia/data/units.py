"""Persons instead of rows: whose rows are protected together, and which of them are kept.

Of each unit at most k rows are kept, chosen by a hash of the unit's own rows: what another unit has changes nothing.
Units are numbered and rows are ordered by hashes, so that nothing follows from the order of a file. What is decided
for a unit at random, as its teacher or its side of a split, follows from a keyed hash of its own key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.cells import Cell, Cells, cells_of
from marginalia.data.coding import Problem
from marginalia.data.number_formats import read_number
from marginalia.errors import InputError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

    from marginalia.data.column import Column

Numbers = NDArray[np.int64]  # of the unit of each row: 0, 1, ...
Hashes = NDArray[np.uint64]

KeyType = Literal["string", "integer", "number", "date", "timestamp"]

MOST_ROWS = 10**6  # of a unit
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MAY_BE_TIME = re.compile(r"[0-9]{4}[-/.W0-9]|[0-9]{1,2}[-/. ]|[A-Za-z]{3,9}\.? [0-9]")  # begins like one
_STEP = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Unit:
    """All rows with the same value of one column, of which at most so many are kept.

    Parameters
    ----------
    column : str
        Names the person or household of each row; it is never a column. Rows without a value are one unit together.
    rows : int
        k, the most rows of a unit that are kept.
    type : {"string", "integer", "number", "date", "timestamp"}, optional
        What the values of the column are: two rows are of one unit where these are equal, however they are written.
        Default: texts, of which no two may be one number or one time.

    Raises
    ------
    InputError
        `rows` is no whole number from 1 to 10^6, `column` no name, or `type` none of these.

    Examples
    --------
    >>> print(Unit("patient_id", 3))
    one `patient_id`, at most 3 rows each
    """

    column: str
    rows: int = 1
    type: KeyType | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column.strip():
            raise InputError(f"a unit is the name of a column, not {values.shown(self.column)}")
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or not 1 <= self.rows <= MOST_ROWS:
            raise InputError(f"rows_per_unit is a whole number from 1 to {MOST_ROWS}, not {values.shown(self.rows)}")
        if self.type is not None and self.type not in get_args(KeyType):
            raise unknown_name("unit_type", str(self.type), get_args(KeyType))

    def summary(self) -> dict[str, Any]:
        """Return what is set, in plain JSON types.

        >>> Unit("patient_id", 3).summary()
        {'column': 'patient_id', 'rows': 3}
        """
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        return f"one `{self.column}`, at most {self.rows} row{'s' * (self.rows > 1)} each"


@dataclass(frozen=True, slots=True)
class UnitOfLearnedRows(Unit):
    """A unit whose number of kept rows each fit learns first: a private quantile of the rows per unit.

    Parameters
    ----------
    column : str
    rows : int
        The most that may be learned, which is public.
    share : float
        Of the units, about which keep all their rows.

    >>> UnitOfLearnedRows("patient_id", 64, 0.95).share
    0.95
    """

    share: float = 0.95

    def __post_init__(self) -> None:
        Unit.__post_init__(self)
        if not 0 < self.share < 1:
            raise InputError(f"rows_per_unit: private is a share of the units between 0 and 1, not {self.share:g}")


def keys_of(raw: pd.Series[Any] | Cells, unit: Unit) -> tuple[NDArray[Any], Numbers]:
    """Return the different keys of a column in the order they are met, "" where there is no value, and which is whose.

    A key follows from its own cell and from the declared type: the same value has the same key from every source,
    however it is written. Without a type it is the text of the cell; see `check_spellings`, which a caller with all
    keys has to call.

    Raises
    ------
    InputError
        A cell is no value of the declared type.

    >>> import pandas as pd
    >>> keys_of(pd.Series([7.0, None, "7", "007"]), Unit("id", type="integer"))
    (array(['7', ''], dtype=object), array([0, 1, 0, 0]))
    >>> keys_of(pd.Series([7.0, None, "7", "007"]), Unit("id", type="string"))[0]
    array(['7', '', '007'], dtype=object)
    """
    column = raw if isinstance(raw, Cells) else cells_of(raw, unit.column, lenient=True)
    read, mend = _READ[unit.type], _MEND_TEXT if unit.type == "string" else _MEND
    texts, wide = [], _wide_doubles(raw, column) if unit.type == "integer" else set()
    for i, cell in enumerate(column.listed):
        try:
            text = read(cell)
            if i in wide:
                raise ValueError("is a double beyond 2^53, where neighbouring whole numbers are one")
            texts.append(text)
        except ValueError as error:
            rows = np.flatnonzero(column.which == i)
            if rows.size:  # a category may be in no row
                what = f"{str(error).partition(':')[0]} (unit_type: {unit.type})"
                first = Problem(unit.column, what, rows.size, int(rows[0]), mend, cell=values.shown(cell))
                raise InputError(first.line) from None
            texts.append("")
    return _numbered(texts, column)


def _wide_doubles(raw: pd.Series[Any] | Cells, column: Cells) -> set[int]:
    """Return the positions of distinct cells that doubles beyond 2^53 stand for."""
    if isinstance(column.distinct, np.ndarray) and column.distinct.dtype.kind == "f":
        return set(np.flatnonzero(np.abs(column.distinct) > values.WIDE).tolist())
    objects = () if isinstance(raw, Cells) or raw.dtype != object else raw.tolist()
    return {
        int(column.which[row])
        for row, value in enumerate(objects)
        if isinstance(value, float | np.floating) and abs(float(value)) > values.WIDE
    }


def _text(value: Cell) -> str:
    if value.kind != "text" and not (value.kind == "number" and values.WHOLE.fullmatch(value.text)):
        raise ValueError("is no text")  # each writer has its own for it
    return value.text


def _whole(value: Cell) -> str:
    written = values.exact_text(value)
    if not values.WHOLE.fullmatch(written):
        raise ValueError("is not a whole number")
    return written


def _day(value: Cell) -> str:
    written = values.time_text(value)
    if " " in written:
        raise ValueError("has a time of day")
    return written


_READ: dict[KeyType | None, Callable[[Any], str]] = {
    None: values.text,
    "string": _text,
    "integer": _whole,
    "number": values.exact_text,
    "date": _day,
    "timestamp": values.time_text,
}
_MEND = "correct the cell (dates: year-month-day), or declare `unit_type: string`, which takes texts as they are"
_MEND_TEXT = "declare the type that the column has"


def check_spellings(keys: Collection[str], unit: Unit) -> None:
    """Raise where two keys of a column without a declared type are one number or one time.

    Whether they are one unit cannot be seen: 7 and 7.0 are two texts and one number. A date that is not in ISO form is
    an error by itself: two texts that are one date would be two units, and one person would count twice.

    >>> check_spellings(["7", "8.0"], Unit("id"))
    >>> check_spellings(["7", "8", "7.0"], Unit("id"))
    Traceback (most recent call last):
    marginalia.errors.InputError: unit `id`: '7' and '7.0' are one number and two texts; declare ...
    """
    if unit.type is not None:
        return
    known = keys if isinstance(keys, dict | set) else set(keys)
    met: dict[str, str] = {}  # the first key of each number or time
    for key in keys:
        if values.WHOLE.fullmatch(key):
            continue  # the only such text of its number; what another one is, is looked up
        if (reading := _reading(key, unit)) is None:
            continue
        same = [reading, *([reading.replace("-", "")] if _DAY.fullmatch(reading) else [])]  # 2020-01-31, 20200131
        for other in (*(text for text in same if text in known), met.setdefault(reading, key)):
            if other != key:
                raise _ambiguous(unit, other, key)


def _reading(key: str, unit: Unit) -> str | None:
    """Return the number or time that a text is, as its plainest text; None for any other text."""
    if values.exact(key) is not None:
        return values.exact_text(key)
    if not _MAY_BE_TIME.match(key):
        return None
    try:
        return values.time_text(key)
    except ValueError:
        if not any(map(values.formats_of, (key, key.partition(" ")[0]))):
            return None
    raise InputError(
        f"unit `{unit.column}`: {values.shown(key)} looks like a date that is not in ISO form; write dates as "
        "2024-01-31, or declare `unit_type: string` in the domain if each text is a unit"
    )


def _ambiguous(unit: Unit, one: str, other: str) -> InputError:
    number = values.exact(other) is not None
    what, types = ("number", ("integer", "number")) if number else ("time", ("date", "timestamp"))
    return InputError(
        f"unit `{unit.column}`: {values.shown(one)} and {values.shown(other)} are one {what} and two texts; declare "
        f"`unit_type: {types[0]}` (or {types[1]}) in the domain if they are one unit, `unit_type: string` if two"
    )


def key_hashes(raw: pd.Series[Any], unit: Unit) -> tuple[Hashes, Numbers]:
    """Return a hash of the key of each row of a whole table, and the number of its unit; see `keys_of`.

    Units are told apart by their whole keys, not by these hashes.

    >>> import pandas as pd
    >>> key_hashes(pd.Series([7.0, None, 7.0]), Unit("id"))[1]
    array([0, 1, 0])
    """
    keys, number = _all_keys(raw, unit)
    return hashes_of(keys)[number], number


def unit_sizes(raw: pd.Series[Any], unit: Unit) -> NDArray[np.int64]:
    """Return how many rows each unit of a whole table has.

    >>> import pandas as pd
    >>> unit_sizes(pd.Series([7.0, None, 7.0]), Unit("id"))
    array([2, 1])
    """
    return np.bincount(_all_keys(raw, unit)[1])


def _all_keys(raw: pd.Series[Any], unit: Unit) -> tuple[NDArray[Any], Numbers]:
    keys, number = keys_of(raw, unit)
    check_spellings(keys.tolist(), unit)
    return keys, number


def _numbered(texts: Sequence[str], column: Cells) -> tuple[NDArray[Any], Numbers]:
    """Return the different texts in the order of their first rows, and which is whose; "" where there is no cell."""
    import pandas as pd

    same, distinct = pd.factorize(np.array([*texts, ""], dtype=object))  # the last: no value
    number, met = pd.factorize(same[column.which])
    return np.asarray(distinct, dtype=object)[met], number.astype(np.int64)


def hashes_of(texts: NDArray[Any]) -> Hashes:
    """Return a hash of each text.

    >>> hashes_of(np.array(["7"], dtype=object)).dtype
    dtype('uint64')
    """
    import pandas as pd

    try:
        return pd.util.hash_array(texts, hash_key="marginalia units", categorize=False)
    except UnicodeEncodeError:  # half of a surrogate pair, which Python lets stand in a text
        return hashes_of(np.array([text.encode(errors="surrogatepass") for text in texts.tolist()], dtype=object))


def content_hashes(raw: pd.Series[Any], column: Column) -> Hashes:
    """Return a hash of each raw cell of a column: of its number or time, where the column has such a type.

    What cannot be read has a hash of its text.

    >>> import pandas as pd
    >>> from marginalia.data.column import Column
    >>> age = Column("age", 1, edges=(0, 9), type="number")
    >>> len(set(content_hashes(pd.Series(["7.50", 7.5, "?"]), age).tolist()))
    2
    """
    read: Callable[[Any], str] = values.text
    if column.type in ("integer", "number"):
        read = values.exact_text
        if column.format is not None:
            read = partial(_number_text, format=column.format)
    elif column.counted_in is not None:
        read = partial(values.time_text, format=column.format, zone=column.zone, pivot=column.pivot)
    cells = cells_of(raw, column.name, lenient=True)
    texts, number = _numbered(list(_read_or_text(read, cells)), cells)
    return hashes_of(texts)[number]


def _number_text(cell: Any, format: str) -> str:
    """Return the number that a cell is by a format, the same however it is written."""
    return values.exact_text(read_number(cell, format))


def _read_or_text(read: Callable[[Any], str], column: Cells) -> Iterator[str]:
    for cell in column.listed:
        try:
            yield read(cell)
        except ValueError:
            yield values.text(cell)


def by_key(units: Numbers, keys: Hashes) -> Numbers:
    """Return the numbers 0, 1, ... of units in the order of their keys' hashes, whatever the order they were met in.

    >>> by_key(np.array([0, 1, 0]), np.array([9, 4, 9], np.uint64))
    array([1, 0, 1])
    """
    first, number = np.unique(units, return_index=True, return_inverse=True)[1:]
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(keys[first], kind="stable")] = np.arange(len(first))
    return rank[number]


def keyed_hashes(keys: Hashes, secret: bytes) -> Hashes:
    """Return BLAKE2b under a secret key of each unit's key: uniform numbers, each a function of its own key alone.

    >>> seven, eight = keyed_hashes(np.array([7, 8], np.uint64), b"secret")
    >>> bool(eight == keyed_hashes(np.array([8], np.uint64), b"secret")[0])
    True
    """
    plain = keys.astype("<u8").tobytes()
    each = (hashlib.blake2b(plain[i : i + 8], key=secret, digest_size=8).digest() for i in range(0, len(plain), 8))
    return np.frombuffer(b"".join(each), "<u8").astype(np.uint64)


def row_hashes(keys: Hashes, contents: Sequence[NDArray[Any]]) -> Hashes:
    """Return a hash of each row and its unit's key; `contents` are columns of whole numbers or hashes.

    >>> len(set(row_hashes(np.zeros(3, np.uint64), [np.array([1, 1, 2])]).tolist()))
    2
    """
    mixed = keys.copy()
    for column in contents:
        mixed = _mixed(mixed ^ column.astype(np.uint64))
    return mixed


def ranks(units: Numbers, hashes: Hashes) -> NDArray[np.int64]:
    """Return the rank of each row in its unit, from 0 on: the rows with the least ranks are kept.

    Ranks follow the hashes. Equal rows of a unit are told apart by their number, so that which rows are kept depends on
    the multiset of the unit's own rows alone; of equal ones the first have the least ranks.

    >>> ranks(np.array([0, 0, 1, 0]), np.array([3, 3, 5, 4], np.uint64))
    array([0, 2, 0, 1])
    """
    order = np.lexsort((hashes, units))
    units, hashes = units[order], hashes[order]
    number = _place_in_run(units, hashes)
    apart = _mixed(hashes + number.astype(np.uint64) * _STEP)
    by_hash = np.lexsort((apart, units))
    rank = np.empty_like(units)
    rank[by_hash] = _place_in_run(units[by_hash])
    same = np.cumsum(number == 0)
    found = np.empty_like(units)
    found[order] = rank[np.lexsort((rank, same))]
    return found


def kept_rows(units: Numbers, hashes: Hashes, unit: Unit) -> NDArray[np.intp]:
    """Return the positions of the `unit.rows` rows of each unit with the least ranks, unit after unit; see `ranks`.

    What a unit keeps is a function of its own rows and of keys that are fixed beforehand: another unit with other rows
    changes nothing of it. Those of a unit come by hash, so that nothing follows from the order of the file; where fewer
    may be kept later (`UnitOfLearnedRows`), by rank: see `first_rows`.

    >>> kept_rows(np.array([1, 1, 0, 1]), np.array([3, 3, 5, 4], np.uint64), Unit("id"))
    array([2, 0])
    """
    rank = ranks(units, hashes)
    kept = np.flatnonzero(rank < unit.rows)
    return kept[np.lexsort(((rank if isinstance(unit, UnitOfLearnedRows) else hashes)[kept], units[kept]))]


def first_rows(units: Numbers, most: int) -> NDArray[np.intp]:
    """Return the positions of the first `most` rows of each unit: those of the least ranks, where rows come by rank.

    >>> first_rows(np.array([0, 1, 0, 0]), 2)
    array([0, 1, 2])
    """
    order = np.argsort(units, kind="stable")
    return np.sort(order[_place_in_run(units[order]) < most])


def kept_line(unit: Unit, sizes: NDArray[np.int64]) -> str:
    """Return one line, for the owner of the rows, on how many are kept of units that have `sizes` rows.

    >>> kept_line(Unit("patient", 2), np.array([1, 5, 2]))
    'units, off the private rows: 3 different `patient`, 1 to 5 rows each; at most 2 of each are kept, 5 of 8 (62 %)'
    """
    kept, n = int(np.minimum(sizes, unit.rows).sum()), int(sizes.sum())
    many = f"{len(sizes):,} different `{unit.column}`, {sizes.min(initial=n)} to {sizes.max(initial=0)} rows each"
    share = f"{kept:,} of {n:,} ({kept / max(n, 1):.0%})".replace("%", " %")
    return f"units, off the private rows: {many}; at most {unit.rows} of each are kept, {share}"


def _place_in_run(*sorted_by: NDArray[Any]) -> NDArray[np.int64]:
    """Return the place of each entry in its run of equal ones."""
    n = len(sorted_by[0])
    begins = np.ones(n, bool)
    begins[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in sorted_by])
    starts = np.flatnonzero(begins)
    return np.arange(n) - np.repeat(starts, np.diff(np.append(starts, n)))


def _mixed(numbers: Hashes) -> Hashes:
    """Return the output function of SplitMix64 (Steele, Lea & Flood 2014) of each number."""
    z = numbers + _STEP
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))
