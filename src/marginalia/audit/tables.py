"""Made-up data for audits: public frames, rows at the extremes of their domain, neighbours and unrelated tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.audit.findings import Finding
from marginalia.data.domain import Column, Domain, StructuralZeros
from marginalia.data.sources.files import stream_files
from marginalia.data.sources.stream import BATCH
from marginalia.data.table import CountSource, PrivateRows, RawTable, Table
from marginalia.data.units import Unit, hashes_of

Generator = np.random.Generator
SHARE = 0.5  # of the budget, for private labels and edges: on a hundred rows less would find none


@dataclass(frozen=True)
class Frame:
    """What is public of made-up data: a domain, or the shape and bounds of arrays.

    Attributes
    ----------
    name : str
    domain : Domain or None
        None for arrays.
    targets : dict of task to attribute
    one_hot : tuple of str or None
    n_features : int
        Arrays only.
    target_bound : float
        Arrays only; the bound of rows' norms is 1.
    open_domain : Domain or None
        What fits are told in place of `domain`, whose labels are the raw values; they learn the rest privately.
    source : {"", "parquet"}
        Rows in memory, or a file that is streamed.
    unit : Unit or None
        Whose rows are protected together.
    wide : bool
        Whether it has many attributes or features. Records that replace one row are then as long, and as far apart,
        as they can be.
    """

    name: str
    domain: Domain | None = None
    targets: tuple[tuple[str, str], ...] = ()
    one_hot: tuple[str, ...] | None = None
    n_features: int = 0
    target_bound: float = 1.0
    open_domain: Domain | None = None
    source: str = ""
    unit: Unit | None = None
    wide: bool = False

    def target(self, task: str) -> str:
        """Return the target of a task; empty for a synthesizer, and for arrays."""
        return dict(self.targets).get(task, "")


@dataclass(frozen=True)
class SyntheticTable:
    """A made-up data set: a table, or arrays; rows that two of them share have the same number in `ids`.

    Where rows are of units, those of one unit have the same number.

    Attributes
    ----------
    as_read : bool
        Rows of units are read from a data frame that names them by odd keys, as a user's are: numbers of units, and the
        rows that are kept, then follow from its rows. Otherwise the table is given the numbers in `ids`.
    """

    frame: Frame
    task: str  # empty for a synthesizer
    codes: NDArray[Any]  # (n, d) of a table; (n, p + 1) of arrays, the target last
    ids: NDArray[np.int64]
    as_read: bool = False

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def who(self) -> NDArray[np.int64]:
        """The numbers of its rows, or of its units, in the order in which a fit meets them."""
        ids = np.unique(self.ids)
        return ids[np.argsort(hashes_of(np.array([_key(i) or "" for i in ids], dtype=object)))] if self.as_read else ids

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes of the table."""
        return self.frame.domain.names if self.frame.domain is not None else ()

    @cached_property
    def coded(self) -> Table:
        """The table as codes."""
        assert self.frame.domain is not None
        domain, unit = self.frame.domain, self.frame.unit
        rows = Table(self.codes.reshape(-1, len(domain)), domain)
        if unit is None or not self.as_read:
            return rows if unit is None else rows.of_units(unit, self.ids)
        named = rows.to_frame(original=True)
        named[unit.column] = [_key(i) for i in self.ids]
        of_units = Domain(domain.columns, structural_zeros=domain.declared_zeros, unit=unit)
        return Table.from_frame(named, of_units)

    @cached_property
    def table(self) -> PrivateRows:
        """The table, as fits get it."""
        if self.frame.source:
            return self._streamed
        if self.frame.open_domain is None:
            return self.coded
        return RawTable(self.coded.to_frame(original=True), self.frame.open_domain, SHARE)

    @cached_property
    def _folder(self) -> TemporaryDirectory[str]:
        """Where a streamed table lies, as long as there is this object."""
        return TemporaryDirectory(prefix="marginalia-audit-")

    @property
    def _streamed(self) -> CountSource:
        folder = Path(self._folder.name)
        rows = self.coded.to_frame(original=True)
        # Several short row groups; but a full batch in one.
        length = self.n if self.n > BATCH else max(7, self.n // 5 + 3)
        rows.to_parquet(folder / "rows.parquet", index=False, row_group_size=length)
        return stream_files(folder / "rows.parquet", domain=self.coded.domain)

    @cached_property
    def arrays(self) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Features and targets."""
        y = self.codes[:, -1]
        return self.codes[:, :-1], np.where(y > 0, 1, -1) if self.task == "logistic" else y

    def fit_arguments(self) -> tuple[Any, ...]:
        """Return what ``fit`` takes: the table and the target's name, if there is one; or features and targets."""
        if self.frame.domain is None:
            return self.arrays
        return (self.table, self.frame.target(self.task)) if self.task else (self.table,)

    def fixed_rows(self) -> Any:
        """Return rows to predict that depend on the frame alone."""
        return of_frame(self.frame, self.task, 12, np.random.default_rng(0)).rows()

    def rows(self) -> Any:
        """Return the rows without the target of arrays, as `predict` takes them."""
        if self.frame.domain is None:
            return self.arrays[0]
        return self.coded if self.frame.source else self.table

    def without(self, at: int) -> SyntheticTable:
        """Return it without one row, or without all rows of its unit."""
        kept = self.ids != self.ids[at]
        return replace(self, codes=self.codes[kept], ids=self.ids[kept])

    def replaced(
        self, at: int, record: NDArray[Any], *, place: int | None = None, of: int | None = None
    ) -> SyntheticTable:
        """Return it with another record in place of one row, or with others in place of the rows of its unit.

        These stand at `place` among the rows of other units (default: where its first row stood), and are those of unit
        number `of` (default: the same).
        """
        codes, mine = self.codes.copy(), np.flatnonzero(self.ids == self.ids[at])
        if self.frame.unit is None:
            codes[at] = record
            return replace(self, codes=codes)
        place, of = mine[0] if place is None else place, self.ids[at] if of is None else of
        codes = np.insert(np.delete(codes, mine, axis=0), [place] * len(record), record, axis=0)
        ids = np.insert(np.delete(self.ids, mine), [place] * len(record), of)
        return replace(self, codes=codes, ids=ids)

    def reordered(self, rng: Generator) -> SyntheticTable:
        """Return the same rows in another order."""
        order = rng.permutation(self.n)
        return replace(self, codes=self.codes[order], ids=self.ids[order])


def _key(number: int) -> str | None:
    """Return the key of a unit: five times one name that differs in case, a space or its Unicode form; one is missing.

    >>> [_key(i) for i in (0, 1, 2, 5)], _key(3) == _key(4)
    (['p0', 'P0', 'p 0', 'p1'], False)
    """
    name, form = divmod(number, 5)
    return None if number == 8 else ("p{}", "P{}", "p {}", "\u00e9{}", "e\u0301{}")[form].format(name)


def _numeric(name: str, size: int) -> Column:
    return Column(name, size, "numeric")


_TARGETS = (("linear", "b"), ("logistic", "y"))
LEARNED = Frame(
    "bought",  # as saved audits name it
    Domain(
        [
            Column("a", 6, "ordinal", labels=("-40", "0", "3", "7", "30", "500"), type="integer"),
            Column("c", 13, labels=tuple("szyxwvutqpor"), type="string", missing=()),  # many are near the threshold
            Column("d", 5, "ordinal", labels=("-1.5", "0.25", "2", "90.75"), type="number", missing=()),
            Column("b", 4, "ordinal", labels=("1", "2", "3", "4"), type="integer"),
            Column("y", 2, labels=("no", "yes"), type="string"),
        ]
    ),
    _TARGETS,
    open_domain=Domain.from_dict(
        {
            "attributes": [
                {"name": "a", "type": "integer", "edges": {"private": "quantile", "bins": 4}},
                {"name": "c", "type": "string", "labels": "private"},
                {"name": "d", "type": "number", "edges": {"private": "uniform", "bins": 3}},
                {"name": "b", "type": "integer", "kind": "ordinal", "labels": [1, 2, 3, 4]},
                {"name": "y", "type": "string", "labels": ["no", "yes"]},
            ]
        }
    ),
)
STREAMED = Frame(
    "streamed",
    Domain(
        [
            Column("a", 3, labels=("p", "q"), type="string", missing=()),
            _numeric("b", 4),
            Column("c", 3),
            Column("y", 2),
        ]
    ),
    _TARGETS,
    source="parquet",
)
PATIENTS = Unit("patient", 3)
MIXED = Frame(
    "mixed",
    Domain([Column("a", 2), _numeric("b", 4), Column("c", 3), Column("y", 2)]),
    _TARGETS,
)
MANY = Frame(
    "many values",
    Domain([_numeric("a", 17), _numeric("b", 2), Column("c", 6), Column("y", 2)]),
    (("linear", "a"), ("logistic", "y")),
    one_hot=("c",),
)
ZEROS = Frame(
    "structural zeros",
    Domain(
        [Column("a", 3), _numeric("b", 5), Column("c", 2)],
        structural_zeros=[StructuralZeros(("a", "c"), ((0, 1), (2, 0)))],
    ),
)
BOOLEAN = Frame("Boolean", Domain.from_sizes({"a": 2, "b": 2, "c": 2, "y": 2}), _TARGETS)
BOOLEAN_6 = Frame("six Boolean", Domain.from_sizes({**dict.fromkeys("abcdf", 2), "y": 2}), _TARGETS)
ORDERED = Frame("ordered", Domain([_numeric("a", 9), _numeric("b", 4), Column("y", 2)]), _TARGETS)
LINE = Frame("one column", Domain([_numeric("a", 40)]))
ARRAYS = Frame("arrays", n_features=3)
ARRAYS_3 = Frame("arrays, |y| <= 3", n_features=2, target_bound=3.0)
WIDE = Frame(
    "16 attributes",
    Domain(
        [
            Column("c", 40),
            *(_numeric(f"n{size}", size) for size in (7, 5, 3)),
            *(Column(f"s{i}", 3) for i in range(2)),
            Column("m", 4, labels=("p", "q", "r"), type="string", missing=()),
            Column("o", 4, "ordinal", labels=("1", "2", "3"), type="integer", missing=()),
            *(Column(f"t{i}", 2) for i in range(6)),
            _numeric("b", 4),
            Column("y", 2),
        ]
    ),
    _TARGETS,
    wide=True,
)
WIDE_ARRAYS = Frame("arrays, 16 features", n_features=16, wide=True)


def of_frame(frame: Frame, task: str, n: int, rng: Generator, style: str = "mixed") -> SyntheticTable:
    """Return `n` rows, or all rows of `n` units.

    Parameters
    ----------
    style : {"mixed", "rare", "constant", "one class", "duplicates", "first", "last"}
        Each attribute by a law of its own; all but a few rows alike; one column constant; one target only; a few
        records many times; all rows the first record of the domain, or the last. Of arrays the last two mean that all
        rows are far shorter than their bound.
    """
    ids = np.arange(n)
    if frame.unit is not None:
        ids = rng.permutation(np.repeat(ids, rng.integers(1, frame.unit.rows + 1, n)))
        n = len(ids)
    if frame.domain is None:
        return SyntheticTable(frame, task, _array_rows(frame, n, rng, short=style in ("first", "last")), ids)
    domain = frame.domain
    peaked = 0.15 if style == "rare" else 0.8
    columns = [rng.choice(a.size, n, p=rng.dirichlet(np.full(a.size, peaked))) for a in domain]
    if style == "constant":
        at = int(rng.integers(len(domain)))
        columns[at] = np.full(n, int(rng.integers(domain.sizes[at])))
    codes = np.column_stack(columns)
    if style == "duplicates":
        codes = codes[rng.integers(0, 1 + n // 8, n)]
    codes = np.array([possible(domain, row) for row in codes]).reshape(n, len(domain))
    if style in ("first", "last"):
        codes[:] = possible(domain, (np.array(domain.sizes) - 1) * (style == "last"))
    if style == "one class" and frame.target(task):
        codes[:, domain.index(frame.target(task))] = 1
    return SyntheticTable(frame, task, codes, ids)


def _array_rows(frame: Frame, n: int, rng: Generator, *, short: bool) -> NDArray[np.float64]:
    """Return rows some of which are longer than their bound, or all much shorter; and both classes."""
    X = rng.standard_normal((n, frame.n_features))
    X *= ((0.2 if short else rng.choice([0.3, 1.0, 2.5], n)) / np.linalg.norm(X, axis=1))[:, None]
    y = frame.target_bound * rng.uniform(-1.2, 1.2, n)
    y[:2] = frame.target_bound, -frame.target_bound
    if short:
        y *= 0.1
        X[n // 2] = 0.0  # a row without features is a row as others are
    return np.column_stack([X, y])


def source_findings(made: SyntheticTable) -> Iterator[Finding]:
    """Yield where a streamed table counts other than its rows do: a row counts once, in one batch."""
    if made.frame.source and isinstance(made.table, CountSource):
        if made.table.n_rows != made.n:
            yield Finding("sensitivity", "streamed rows", f"{made.table.n_rows} are counted of {made.n}")
        for q in itertools.chain(*(itertools.combinations(made.names, k) for k in (1, 2))):
            if not np.array_equal(made.table.counts(q), made.coded.counts(q)):
                yield Finding("sensitivity", f"streamed counts of {', '.join(q)}", "they are not those of the rows")
                return


def possible(domain: Domain, row: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the row, changed where it has a combination that the domain declares impossible."""
    row = np.array(row)
    for zeros in domain.structural_zeros:
        at = [domain.index(name) for name in zeros.attributes]
        while tuple(int(c) for c in row[at]) in zeros.cells:
            row[at[0]] = (row[at[0]] + 1) % domain.sizes[at[0]]
    return row


def records(made: SyntheticTable, count: int, rng: Generator) -> list[NDArray[Any]]:
    """Return records with which to replace one row: extremes, the row with its target flipped, duplicates, any.

    Records of a wide frame are as far apart as they can be. For the rows of a unit: each as often as a unit can have
    it, the next ones once, and then some of each.
    """
    frame = made.frame
    if frame.wide:
        return _farthest(made, count)
    if frame.domain is None:
        return list(_array_records(frame, count))
    sizes = np.array(frame.domain.sizes)
    first = np.zeros(len(sizes), dtype=int)
    last = sizes - 1
    chosen = [first, last]
    if (target := frame.target(made.task)) and len(sizes) > 1:
        at = frame.domain.index(target)
        chosen += [np.where(np.arange(len(sizes)) == at, last - first, row) for row in (first,)]
        chosen += [np.where(np.arange(len(sizes)) == at, 0, last)]
    while len(chosen) < count:
        extreme = np.where(rng.random(len(sizes)) < 0.5, 0, last)
        chosen.append(extreme if rng.random() < 0.6 else np.array([rng.integers(s) for s in sizes]))
    start = int(rng.integers(2)) if count < 4 else 0
    pairs = [*chosen[2 * start :], *chosen[: 2 * start]]
    rows = [possible(frame.domain, row) for row in pairs[: max(2, count)]]
    if frame.unit is None:
        return rows
    k = frame.unit.rows
    alike = [np.tile(row, (k if i < 2 or i % 3 else 1, 1)) for i, row in enumerate(rows)]
    mixed = [np.vstack([a[:1], b[: k - 1]]) for a, b in zip(alike, alike[::-1], strict=True)]
    return [mixed[i] if i % 4 == 3 else alike[i] for i in range(len(rows))]


def _farthest(made: SyntheticTable, count: int) -> list[NDArray[Any]]:
    """Return the longest record, then those in which the most moves: the target, all attributes, all to missing values.

    Of a row whose categories are one-hot the longest has no code 0, and another without one is farthest from it.
    """
    frame, Y = made.frame, made.frame.target_bound
    if frame.domain is None:
        x = np.full(frame.n_features, 3.0)  # shrunk to the bound: the largest 1-norm that there is
        signs = np.where(np.arange(frame.n_features) % 2, 1.0, -1.0)
        axis = np.where(np.arange(frame.n_features) == 0, 3.0, 0.0)  # the largest coordinate
        return [np.append(*of) for of in ((x, Y), (x, -Y), (-x, -Y), (signs * x, Y), (axis, Y), (-axis, Y))][:count]
    longest = np.array([a.n_values - 1 for a in frame.domain])
    opposite = np.array([int(a.kind == "categorical" and a.size > 2) for a in frame.domain])
    missing, first = np.array(frame.domain.sizes) - 1, np.zeros_like(longest)
    if not (target := frame.target(made.task)):
        return [longest, opposite, missing, first][:count]
    at = frame.domain.index(target)
    same, flipped = (np.where(np.arange(len(longest)) == at, value, longest) for value in (longest, 0))
    return [same, flipped, np.where(np.arange(len(longest)) == at, longest, opposite), opposite, missing, first][:count]


def _array_records(frame: Frame, count: int) -> Iterator[NDArray[np.float64]]:
    """Yield records on the sphere of the bound: opposite, orthogonal, and as far as one angle goes in between."""
    Y, p = frame.target_bound, frame.n_features
    first = np.zeros(p)
    first[0] = 3.0  # longer than the bound
    second = np.zeros(p)
    second[-1] = 1.0
    slanted = 0.28 * first / 3 + 0.96 * second  # of 16 bits each entry, rounded up, would make it longer than 1
    equal = np.full(p, p**-0.5)
    all_of = [(first, Y), (slanted, -Y), (equal, 5 * Y), (first, -Y), (second, Y), (-equal, -Y), (-second, -Y)]
    for x, y in all_of[: max(2, count)]:
        yield np.append(x, y)
