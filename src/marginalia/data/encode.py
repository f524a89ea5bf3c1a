"""Encode raw rows by a public domain, batch by batch, and report the cells that have no code or lose something.

What a cell loses (a time of day, decimals, a label of its own) is a fact of the private rows, counted without noise: it
is for the owner of the table, and no part of a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.cells import Cell, Cells, cells_of
from marginalia.data.coding import CORRECT, ROWS, Coder, Problem, check_not_ambiguous
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.headers import value_in_header
from marginalia.data.number_formats import read_number
from marginalia.data.reading import check_header
from marginalia.errors import InputError

Loss = tuple[Callable[[Cell], bool], str]  # whether a cell loses something, and what

_UNKNOWN = "is not in the domain; declare it there, under attributes or ignored, or drop it from the file"


class Batch(NamedTuple):
    """Some rows of a table: a data frame of pandas or an Arrow record batch, and where they come from.

    >>> import pyarrow as pa
    >>> Batch("t.csv", 0, pa.record_batch({"a": [1]})).column("a").to_pylist()
    [1]
    """

    where: str
    first: int | None  # the number of the first row there; None: these are all rows
    rows: Any

    def column(self, name: str) -> Any:
        """Return a column by its name."""
        if not hasattr(self.rows, "iloc"):
            return self.rows.column(name)
        return self.rows.iloc[:, [str(c) for c in self.rows.columns].index(name)]

    def __len__(self) -> int:
        return len(self.rows) if hasattr(self.rows, "iloc") else self.rows.num_rows


class Encoded(NamedTuple):
    """The codes of a batch, shape (columns, rows), and its problems.

    >>> import pandas as pd
    >>> [encoded] = encode([Batch("t.csv", None, pd.DataFrame({"a": [1, 0]}))], Domain.from_sizes({"a": 2}))
    >>> encoded.codes, encoded.problems
    (array([[1, 0]], dtype=uint8), [])
    """

    batch: Batch
    codes: NDArray[np.integer]
    problems: list[Problem]


def match_columns(columns: Sequence[str], domain: Domain) -> tuple[list[str], dict[str, str]]:
    """Return the columns of the domain that are absent, and the columns that it does not know, each with a message.

    >>> domain = Domain.from_sizes({"age": 8, "ward": 2})
    >>> match_columns(["age", "id"], domain)[0], list(match_columns(["age", "id"], domain)[1])
    (['ward'], ['id'])
    """
    unit = () if domain.unit is None else (domain.unit.column,)
    known = {*domain.names, *domain.ignored, *unit}
    absent = [name for name in (*domain.names, *unit) if name not in columns]
    return absent, {name: f"column '{name}' {_UNKNOWN}" for name in columns if name not in known}


def check_columns(columns: Sequence[str], domain: Domain, where: str, there: str) -> list[str]:
    """Return the columns that are encoded; raise where they are not those of the domain, and list the ones there.

    >>> check_columns(["id", "age"], Domain(Domain.from_sizes({"age": 8}), ignored=["id"]), "t.csv", "there are")
    ['age']
    """
    check_header(list(columns), where)
    unit = None if domain.unit is None else domain.unit.column
    kept = [name for name in columns if name not in domain.ignored and name != unit]
    absent, unknown = match_columns(columns, domain)
    if absent:
        hint = "; the first line has to be a header with the names of the columns" if value_in_header(columns) else ""
        found = f"{there} {', '.join(kept)[:300]}{hint}"
        raise InputError(f"{where}: column '{absent[0]}' of the domain is missing; {found}")
    for message in unknown.values():
        raise InputError(f"{where}: {message}")
    return kept


def encode(
    batches: Iterable[Batch], domain: Domain, *, on_error: Literal["raise", "collect"] = "raise", original: bool = True
) -> Iterator[Encoded]:
    """Yield the codes of batches of rows, in the order of the domain's columns.

    The code of a cell is a function of this cell and the domain, the same from every source.

    Parameters
    ----------
    batches : iterable of Batch
    domain : Domain
    on_error : {"raise", "collect"}
        Whether the first cell without a code is an InputError; or else all problems are collected, also of cells that
        count as missing because they cannot be read, and of cells that lose something.
    original : bool
        False: every column holds codes, whatever the domain says.

    Examples
    --------
    >>> import pandas as pd
    >>> domain = Domain([Column("age", 2, edges=(0, 18, 65), type="integer")])
    >>> rows = Batch("t.csv", None, pd.DataFrame({"age": [70, 17, "x"]}))
    >>> [found] = encode([rows], domain, on_error="collect")
    >>> found.codes.tolist(), [problem.rows for problem in found.problems]
    ([[-1, 0, -1]], [1, 1])
    >>> next(encode([rows], domain))
    Traceback (most recent call last):
    marginalia.errors.InputError: t.csv: column 'age', row 0: '70' is outside the bins from 0 to 65 ...
    """
    collect = on_error == "collect"
    coders = [Coder(a if original else Column(a.name, a.size)) for a in domain]
    losses = [list(_losses(coder.column)) if collect else [] for coder in coders]
    kind = np.dtype(np.int32) if collect else smallest(domain.sizes)
    for batch in batches:
        codes, problems = np.zeros((len(coders), len(batch)), kind), []
        for line, coder, some in zip(codes, coders, losses, strict=True):
            column = coder.column
            raw = batch.column(column.name)
            if (own := _own_codes(raw, column)) is not None:
                line[:] = own
                continue
            try:
                if collect:
                    check_not_ambiguous(column, batch.where)
                cells = cells_of(raw, column.name, lenient=column.lenient)
            except InputError as error:
                if not collect:
                    rows = "" if batch.first is None else f", rows from {batch.first} {ROWS}"
                    raise InputError(f"{batch.where}{rows}: {error}") from None
                problems.append(Problem(column.name, str(error)))
                continue
            found, wrong = coder.encode(cells)
            if collect:
                problems += [*wrong, *_unread(cells, found, column), *_lost(cells, found, column, some)]
            elif wrong:
                raise _error(batch, min(wrong, key=lambda problem: problem.first_row))
            line[:] = found
        for problem in zero_problems(codes, domain):
            if not collect:
                raise _error(batch, problem)
            problems.append(problem)
        yield Encoded(batch, codes, [_placed(batch, problem) for problem in problems])


def zero_problems(codes: NDArray[np.integer], domain: Domain) -> Iterator[Problem]:
    """Yield, for each set of declared structural zeros of a domain, the rows that lie in them.

    A row that breaks a rule is none: it has its codes as any other, and no synthetic row is like it.

    Parameters
    ----------
    codes : ndarray of shape (columns, rows)
    domain : Domain

    >>> from marginalia.data.column import StructuralZeros
    >>> zeros = [StructuralZeros(("age", "ward"), ((0, 2),))]
    >>> domain = Domain(Domain.from_sizes({"age": 2, "ward": 3}), structural_zeros=zeros)
    >>> next(zero_problems(np.array([[1, 0], [2, 2]]), domain)).line
    "column 'age', row 1: age=0 with ward=2 is a structural zero of the domain; correct the file, or ..."
    """
    for names, rows in zero_rows(codes, domain):
        cell = " with ".join(f"{name}={domain[name].texts[codes[domain.index(name), rows[0]]]}" for name in names)
        yield Problem(names[0], "is a structural zero of the domain", rows.size, int(rows[0]), CORRECT, cell=cell)


def zero_rows(codes: NDArray[np.integer], domain: Domain) -> Iterator[tuple[tuple[str, ...], NDArray[np.int64]]]:
    """Yield the columns of each set of declared structural zeros, and the rows that lie in them, if there are any.

    >>> from marginalia.data.column import StructuralZeros
    >>> domain = Domain(Domain.from_sizes({"a": 2}), structural_zeros=[StructuralZeros(("a",), ((1,),))])
    >>> list(zero_rows(np.array([[0, 1, 1]]), domain))
    [(('a',), array([1, 2]))]
    """
    for zeros in domain.declared_zeros:
        if not zeros.cells or not codes.shape[1]:
            continue
        import pandas as pd  # here, since it is slow to load

        columns = [codes[domain.index(name)] for name in zeros.attributes]
        rows = np.flatnonzero(pd.MultiIndex.from_arrays(columns).isin(zeros.cells))
        if rows.size:
            yield zeros.attributes, rows


def merged(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems of several batches, those of one column and reason as one.

    >>> parts = [Problem("a", "is odd", 1, row, "correct it", where="t.csv") for row in (3, 9)]
    >>> [(problem.rows, problem.first_row) for problem in merged(parts)]
    [(2, 3)]
    """
    found: dict[tuple[str, ...], Problem] = {}
    for one in problems:
        key = one.severity, one.column, one.reason, one.fix
        first = found.get(key)
        if first is None or not first.rows:
            found[key] = one
        else:
            found[key] = replace(first, rows=first.rows + one.rows)
    return list(found.values())


def loss_lines(problems: Iterable[Problem], n_rows: int) -> list[str]:
    """Return a line for each kind of loss, with its columns and the number and share of rows.

    >>> lost = [Problem("ward", "are not among the 1 labels", 2, severity="info")]
    >>> loss_lines(lost, 4)
    ["private note: column 'ward': 2 of 4 rows (50 %) are not among the 1 labels"]
    """
    by_loss: dict[str, dict[str, int]] = {}
    for one in problems:
        if one.severity == "info" and one.rows:
            by_loss.setdefault(one.reason, {})[one.column] = one.rows
    lines = []
    for what, counts in by_loss.items():
        names, worst = list(counts), max(counts.values())
        rows = f"{worst:,} of {n_rows:,} rows ({100 * worst / n_rows:.3g} %)"
        columns = f"column '{names[0]}': {rows}"
        if len(names) > 1:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            columns = f"columns {', '.join(names[:3])}{more}: up to {rows}"
        lines.append(f"private note: {columns} {what}")
    return lines


def losses_of(rows: Any, domain: Domain) -> list[str]:
    """Return the lines on what the cells of a data frame lose when they are encoded by a domain.

    >>> import pandas as pd
    >>> ward = Column("ward", 2, labels=("A",), type="string", other="other")
    >>> losses_of(pd.DataFrame({"ward": ["A", "B", "C", "other"]}), Domain([ward]))
    ["private note: column 'ward': 2 of 4 rows (50 %) are not among the 1 labels and are recoded as 'other'"]
    """
    losing = domain.project([a.name for a in domain if any(_losses(a))])
    encoded = encode([Batch("rows", None, rows)], losing, on_error="collect")
    return loss_lines((problem for found in encoded for problem in found.problems), len(rows))


def known_labels(domain: Domain) -> Domain:
    """Return the domain of the columns of which it is known what cells lose: labels that are to be learned are not.

    >>> known_labels(Domain.from_dict({"attributes": [{"name": "ward", "type": "string", "labels": "private"}]})).names
    ()
    """
    return domain.project([a.name for a in domain if a.private != "labels"]).placeholder()


def _own_codes(raw: Any, column: Column) -> NDArray[np.integer] | None:
    """Return an Arrow column of codes as it is; None of any other."""
    import pyarrow as pa

    is_arrow = isinstance(raw, pa.Array)
    if column.type not in (None, "code") or not is_arrow or not pa.types.is_integer(raw.type):
        return None
    codes = None if raw.null_count else raw.to_numpy(zero_copy_only=False)
    return codes if codes is not None and (not codes.size or 0 <= codes.min() <= codes.max() < column.size) else None


def _error(batch: Batch, problem: Problem) -> InputError:
    return InputError(f"{batch.where}: {_placed(batch, problem).line}")


def _placed(batch: Batch, problem: Problem) -> Problem:
    return replace(problem, first_row=problem.first_row + (batch.first or 0), where=batch.where)


def _unread(cells: Cells, codes: NDArray[np.integer], column: Column) -> list[Problem]:
    """Return which cells of a column that takes all count as missing because they cannot be read."""
    if not column.lenient:
        return []
    _, found = Coder(column, lenient=False).encode(cells, codes == column.missing_code)
    return [replace(problem, fix="it counts as missing", severity="warning") for problem in found]


def _lost(cells: Cells, codes: NDArray[np.integer], column: Column, losses: Sequence[Loss]) -> Iterator[Problem]:
    """Yield for each kind of loss in how many rows it is, none included: so their order is that of the domain."""
    if not losses:
        return
    of_rows = np.full(len(cells.distinct) + 1, -1, np.int64)
    of_rows[cells.which] = codes
    known = (of_rows >= 0) & (of_rows < column.n_values + (column.other is not None))
    for is_lost, what in losses:
        lost = [i for i, cell in enumerate(cells.listed) if known[i] and is_lost(cell)]
        rows = np.flatnonzero(np.isin(cells.which, lost))
        yield Problem(column.name, what, rows.size, int(rows[0]) if rows.size else 0, severity="info")


def _losses(column: Column) -> Iterator[Loss]:
    """Yield how cells of a column may lose something when they are encoded: they are clipped, truncated or recoded."""
    unit, form, zone, pivot = column.counted_in, column.format, column.zone, column.pivot
    if unit is not None:
        clocks = zone or "UTC (`zone: Europe/Berlin` names others)"
        yield values.is_instant, f"have an offset: shown on the clocks of {clocks}"
        what = "have a time of day: `type: date` drops it, `type: timestamp` keeps it"
        if column.type == "timestamp":
            what = f"are no whole {unit}s: `unit: {unit}` drops the rest"
        yield lambda cell: values.is_shortened(cell, unit, form, zone=zone, pivot=pivot), what
    if column.type == "integer" and column.lenient:  # else they are refused
        yield lambda cell: read_number(cell, form, infinite=True) % 1 > 0, "have decimals: `type: integer` drops them"
    if (decimals := column.decimals) is not None:
        yield (
            lambda cell: bool(values.decimals_of(read_number(cell, form, infinite=True)) > decimals),
            f"have more than {decimals} decimals: `decimals: {decimals}` rounds them",
        )
    if column.other is not None:
        texts = {*map(column.merged, column.labels or ()), column.merged(column.other)}
        n = column.n_values
        yield (
            lambda cell: column.merged(cell.text) not in texts,
            f"are not among the {n} labels and are recoded as '{column.other}'",
        )


def smallest(sizes: Sequence[int]) -> np.dtype[Any]:
    """Return the type of the codes of columns of some sizes.

    >>> smallest([2, 300])
    dtype('uint16')
    """
    largest = max(sizes, default=1)
    return np.dtype(np.uint8 if largest <= 2**8 else np.uint16 if largest <= 2**16 else np.int32)
