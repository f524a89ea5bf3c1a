"""List what the review of a drafted domain file accepts, and the codes of no value that a domain takes for values.

Every line holds exact facts of the private rows: it is for their owner, and no part of a release.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data import sentinels, values
from marginalia.data.cells import Cells, cells_of
from marginalia.data.coding import Coder
from marginalia.data.column import NUMBERS, Column, PrivateBins
from marginalia.data.domain import Domain

if TYPE_CHECKING:
    import pandas as pd

MOST_NUMBERS = 1_000_000  # different ones of a column of streamed rows
# Keys of a column that are no facts of its type.
_OTHER_KEYS = ("name", "kind", "labels", "edges", "points", "size", "inferred", "reviewed", "missing", "special")


def accepted_columns(content: Any) -> dict[str, Mapping[str, Any]]:
    """Return the columns of a domain file of which `reviewed: true` accepts what is inferred, by their names.

    >>> age = {"name": "age", "type": "integer", "edges": [0, 99], "inferred": ["type"]}
    >>> list(accepted_columns({"attributes": [age], "defaults": {"reviewed": True}}))
    ['age']
    """
    if not isinstance(content, Mapping) or not isinstance(content.get("attributes"), list):
        return {}
    all_are = (content.get("defaults") or {}).get("reviewed")
    columns = (item for item in content["attributes"] if item.get("inferred"))
    return {str(item["name"]): item for item in columns if item.get("reviewed", all_are) is True}


def accepted_lines(content: Any, domain: Domain, frame: pd.DataFrame | None) -> Iterator[str]:
    """Yield one line for each column with what `reviewed: true` accepts, and one for the privacy unit.

    Parameters
    ----------
    content : Any
        Of a domain file.
    domain : Domain
        Of this content.
    frame : DataFrame or None
        The private rows; without them nothing is counted.

    Examples
    --------
    >>> import pandas as pd
    >>> age = {"name": "age", "type": "integer", "edges": [0, 99], "missing": ["?"], "inferred": ["type", "missing"]}
    >>> content = {"attributes": [age], "defaults": {"reviewed": True}}
    >>> for line in accepted_lines(content, Domain.from_dict(content), pd.DataFrame({"age": ["3", "?", "?"]})):
    ...     print(line)
    private note: `reviewed: true` accepts for 'age': type: integer; missing: ? (2 rows)
    """
    accepted = accepted_columns(content)
    for name, item in accepted.items():
        facts = []
        if "type" in item["inferred"]:
            labels = ("labels",) if item.get("type") == "boolean" else ()
            facts = [f"{key}: {_shown(item[key])}" for key in item if key not in _OTHER_KEYS or key in labels]
        facts += [f"{fact}: {_shown(item.get(fact))}" for fact in ("labels", "edges") if fact in item["inferred"]]
        column = domain[name]
        rows = rows_of_marks(frame[name], column) if frame is not None and name in frame.columns else None
        for fact, texts in (("special", column.special), ("missing", (*(column.missing or ()), ""))):
            marks = (
                [text for text in texts if text] if rows is None else [_rows(t, rows[t]) for t in texts if t in rows]
            )
            if fact in item["inferred"] and marks:
                facts.append(f"{fact}: {', '.join(marks)}")
        yield f"private note: `reviewed: true` accepts for '{name}': {'; '.join(facts)}"
    if accepted and domain.unit is not None and (content.get("defaults") or {}).get("reviewed") is True:
        yield f"private note: `reviewed: true` accepts the privacy unit: {domain.unit}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _rows(text: str, n: int) -> str:
    return f"{text or 'empty cells'} ({n:,} row{'' if n == 1 else 's'})"


def rows_of_marks(raw: pd.Series[Any], column: Column) -> dict[str, int]:
    """Return the number of rows of each special text and each mark of missing values, and of empty cells if any.

    >>> import pandas as pd
    >>> age = Column("age", 3, edges=(0, 18, 65), type="integer", missing=("-9",))
    >>> rows_of_marks(pd.Series(["-9", "-9.0", "7", ""]), age)
    {'-9': 2, '': 1}
    """
    known = column.placeholder()
    marks = (*known.special, *(known.missing or ()))
    missing = None if known.missing is None else ()
    size = known.size + len(marks) - len(known.special)
    coder = Coder(known.replace(special=marks, missing=missing, size=size))  # each mark has a code of its own
    cells = cells_of(raw, column.name, lenient=True)
    codes = coder.apart_codes(cells, _numbers(coder, cells))
    counts = cells.counts
    rows = {
        mark: int(counts[codes == code].sum()) for mark, code in zip(marks, coder.column.special_codes, strict=True)
    }
    empty = int((cells.which < 0).sum())
    return rows | ({"": empty} if empty else {})


def _numbers(coder: Coder, cells: Cells) -> NDArray[np.float64]:
    if coder.column.type not in NUMBERS:
        return np.full(len(cells.distinct), np.nan)
    return coder.numbers(cells)[0]


def overlooked_codes(domain: Domain, frame: pd.DataFrame) -> Iterator[str]:
    """Yield one line for each column whose ordinary values hold a code of no value, alone at an end of the range.

    A code is known to the domain if it is a special value, a mark of missing values, or the lower edge of a bin.

    >>> import pandas as pd
    >>> pay = {"name": "pay", "type": "integer", "edges": [0, 500], "top": True}
    >>> rows = pd.DataFrame({"pay": [*range(100), 99999, 99999]})
    >>> for line in overlooked_codes(Domain.from_dict({"attributes": [pay]}), rows):
    ...     print(line)
    private note: column 'pay': 99999 in 2 of 102 rows stands alone at an end of the range; a mean with it is 2009.29, \
without it 49.5; if it stands for no value, add `special: ["99999"]` to the column
    """
    names = [column.name for column in domain if _has_bins(column) and column.name in frame.columns]
    return overlooked_in_batches(domain, [{name: cells_of(frame[name], lenient=True) for name in names}])


def overlooked_in_batches(domain: Domain, batches: Iterable[Mapping[str, Cells]]) -> Iterator[str]:
    """Yield what `overlooked_codes` does, of rows that come in batches: the raw cells of each column.

    A column with more than `MOST_NUMBERS` different numbers is left out: memory holds the numbers of the others.

    >>> pay = Column("pay", 1, edges=(0, 500), top=True, type="integer")
    >>> import pandas as pd
    >>> batches = [{"pay": cells_of(pd.Series([i, 99999]))} for i in range(100)]
    >>> [line.partition(" stands")[0] for line in overlooked_in_batches(Domain([pay]), batches)]
    ["private note: column 'pay': 99999 in 100 of 200 rows"]
    """
    coders = {column.name: Coder(column.placeholder(), lenient=True) for column in domain if _has_bins(column)}
    found = {name: (np.empty(0), np.empty(0, np.int64)) for name in coders}
    n = 0
    for batch in batches:
        n += max((len(cells.which) for cells in batch.values()), default=0)
        for name in found.keys() & batch.keys():
            found[name] = _merged(found[name], _ordinary(coders[name], batch[name]))
        found = {name: numbers for name, numbers in found.items() if len(numbers[0]) <= MOST_NUMBERS}
    for name, (distinct, rows) in found.items():
        column, unit = domain[name], domain[name].counted_in
        codes = sentinels.of_numbers(distinct, rows) if unit is None else sentinels.of_times(distinct, rows, unit)
        known = {*(column.edges or ()), *(column.private.points if isinstance(column.private, PrivateBins) else ())}
        if codes := [code for code in codes if code.value not in known]:
            yield _line(column, distinct, rows, codes, n)


def _has_bins(column: Column) -> bool:
    return column.type in NUMBERS and (column.edges is not None or isinstance(column.private, PrivateBins))


def _ordinary(coder: Coder, cells: Cells) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the numbers among some cells that are no special values and no marks, and the rows of each."""
    numbers, counts = coder.numbers(cells)[0], cells.counts
    ordinary = np.isfinite(numbers) & (coder.apart_codes(cells, numbers) < 0) & (counts > 0)
    return numbers[ordinary], counts[ordinary]


def _merged(
    first: tuple[NDArray[np.float64], NDArray[np.int64]], second: tuple[NDArray[np.float64], NDArray[np.int64]]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct numbers of both, ascending, and the rows of each."""
    numbers, rows = (np.concatenate(both) for both in zip(first, second, strict=True))
    distinct, which = np.unique(numbers, return_inverse=True)
    return distinct, np.bincount(which, rows, minlength=len(distinct)).astype(np.int64)


def _line(
    column: Column,
    distinct: NDArray[np.float64],
    rows: NDArray[np.int64],
    codes: list[sentinels.Sentinel],
    n: int,
) -> str:
    """Return what the codes do to the mean of a column, and the key that sets them apart."""
    unit, texts = column.counted_in, [_text(code.value, column) for code in codes]
    others = ~np.isin(distinct, [code.value for code in codes])

    def shown(among: NDArray[np.bool_]) -> str:
        mean = float(np.average(distinct[among], weights=rows[among]))
        return f"{mean:.6g}" if unit is None else values.iso(mean, unit)

    one = len(codes) == 1
    return (
        f"private note: column '{column.name}': {' and '.join(texts)} in {sum(code.rows for code in codes):,} of {n:,} "
        f"rows {'stands' if one else 'stand'} alone at an end of the range; a mean with {'it' if one else 'them'} is "
        f"{shown(np.ones_like(others))}, without {'it' if one else 'them'} {shown(others)}; if "
        f"{'it stands' if one else 'they stand'} for no value, add `special: {json.dumps(texts)}` to the column"
    )


def _text(value: float, column: Column) -> str:
    unit = column.counted_in
    return values.text(value) if unit is None else values.written_time(value, unit, column.format)
