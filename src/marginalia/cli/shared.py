"""What the verbs of the command line share: options, how they read, and the answer that they return."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from marginalia.errors import InputError, one_line, printable

if TYPE_CHECKING:
    from marginalia.data.domain import Domain
    from marginalia.data.table import CountSource, PrivateRows, RawTable, Table
    from marginalia.quality.raw_rows import Sample

_R = TypeVar("_R", bound="PrivateRows")
DATA_HELP = "File of CSV, Parquet, Excel, Stata, SPSS or SAS, pattern of files, or URL of a database's table."
Data = Annotated[str, typer.Option("--data", help=DATA_HELP)]
DomainFile = Annotated[Path, typer.Option("--domain", help="Domain JSON or YAML.")]
EpsilonOption = Annotated[float, typer.Option("--epsilon", help="Privacy budget, > 0.")]
DeltaOption = Annotated[float, typer.Option("--delta", help="At most 0.01; far less than 1 in the number of records.")]
SEED_HELP = "Noise seed. Leave it out for a real release: who knows it can undo the noise."
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help=SEED_HELP)]
RELATION_HELP = "replace_one: the number of rows is public. add_remove: it is private; `methods list` says where."
RelationOption = Annotated[str, typer.Option("--relation", help=RELATION_HELP)]


@dataclass(frozen=True)
class Answer:
    """What a verb returns: `content` for ``--json``, and the same as lines of text.

    Parameters
    ----------
    content : object
        Of JSON types.
    lines : iterable of str
    exit_code : int
        1: a check found something; 2: bad input.
    """

    content: object
    lines: Iterable[str]
    exit_code: int = 0


def check_out(out: Path, endings: Collection[str], inputs: Iterable[Path | None], *, option: str = "--out") -> None:
    """Refuse, before anything is read, a file to write that cannot be written or is one of the inputs.

    Parameters
    ----------
    out : Path
    endings : collection of str
        What its name may end in, ``".csv"``.
    inputs : iterable of Path or None
        The files of this call; one of them by another name (a link, another way to it) is one of them too.
    option : str
        Where it was given.

    Raises
    ------
    InputError
        One line: what is in the way.
    """
    if out.suffix not in endings:
        raise InputError(f"{option} {out}: the ending must be {' or '.join(endings)}")
    if len(out.name) > 200:  # a temporary file beside it has a longer name
        raise InputError(f"{option}: a file name of {len(out.name)} letters is too long; choose a shorter one")
    if out.is_dir():
        raise InputError(f"{option} {out} is a folder; name a file in it")
    for path in filter(None, inputs):
        if os.path.realpath(out) == os.path.realpath(path) or (out.exists() and path.exists() and out.samefile(path)):
            raise InputError(f"{option} {out} is the input {path}, which would be overwritten; choose another name")
    folder = next(parent for parent in out.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise InputError(f"cannot write {out}: {folder} is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {out}: no permission to write in {folder}; choose a folder you can write to")
    try:
        TemporaryFile(dir=folder).close()  # permissions do not say all: nobody can make a file in /proc
    except OSError:
        raise InputError(f"cannot write {out}: {folder} takes no new files; choose a folder you can write to") from None


def read_domain_of_unit(path: Path, column: str | None, rows: int | None) -> Domain:
    """Read a domain with its privacy unit: that of the options, where the file names none."""
    from marginalia.data.domain import Domain

    domain = Domain.from_yaml(path).of_unit(column, rows)
    _warn_of_inferred(path, domain)
    return domain


def _warn_of_inferred(path: Path, domain: Domain) -> None:
    if domain.source == "inferred":
        facts = [f"{' and '.join(a.inferred)} of '{a.name}'" for a in domain if a.inferred]
        some = "; ".join(facts[:3]) + (f"; and {len(facts) - 3} more" if len(facts) > 3 else "")
        what = f"read off the private rows ({some or 'source: inferred'})"
        print(one_line(f"marginalia: warning: {path}: {what}; no certificate covers that"), file=sys.stderr)


def read_rows(
    data: str,
    domain: Path,
    share: float | None,
    *,
    unit: tuple[str | None, int | None] = (None, None),
    notes: list[str] | None = None,
) -> CountSource | RawTable:
    """Open a table that has rows by its domain file, which may leave facts to be learned with a share of the budget.

    `unit` is what the options say: a column, where the file names none, and a number of rows, in place of the file's.
    """
    from marginalia.data.domain import Domain
    from marginalia.data.files import read_content
    from marginalia.data.review import accepted_columns
    from marginalia.data.sources.opening import Data

    public = Domain.from_yaml(domain).of_unit(*unit)
    _warn_of_inferred(domain, public)
    rows = _with_rows(Data.parse(data).open(public, share=share, where=str(domain), notes=notes), data)
    if notes is not None and (n := len(accepted_columns(read_content(domain, "domain file")))):
        columns = f"{n} column{'' if n == 1 else 's'}"
        notes.append(
            f"private note: `reviewed: true` accepts what was read off the rows for {columns}; `marginalia datasets "
            "check` lists it, with the rows of each mark and special value"
        )
    return rows


def read_compared(
    real: str, synthetic: str, domain: Path, unit_column: str | None = None
) -> tuple[tuple[Table, Table], tuple[Sample, Sample]]:
    """Read two tables that are compared: the same number of random rows of large ones, as codes and as raw cells.

    Labels and edges that a fit would learn privately are read off the real rows: the comparison is private anyway, and
    privately learned bins would favour coarse ones.
    """
    from marginalia.data.domain import Domain
    from marginalia.data.table import RawTable
    from marginalia.quality.raw_rows import Sample
    from marginalia.sweep.metrics import reference_domain

    public = Domain.from_yaml(domain).of_unit(unit_column, None)
    unit, public = public.unit, public.project(public.names)  # of all rows, whatever their units
    _warn_of_inferred(domain, public)
    ours, theirs = Sample.read(real, public, unit=unit), Sample.read(synthetic, public)
    whole = public
    if public.is_open:
        whole = reference_domain(RawTable.of(ours.frame[list(public.names)], public, where=real))
    return (ours.coded(whole, real), theirs.coded(whole, synthetic)), (ours, theirs)


def units_line(data: str, domain: Path, column: str | None = None) -> str:
    """Return one line on how many rows of a table its units keep; of a table without a unit, whether one is missing."""
    from marginalia.data.domain import Domain
    from marginalia.data.keys import note_on_names
    from marginalia.data.sources.bounded import sizes_of_units
    from marginalia.data.sources.opening import Data
    from marginalia.data.units import kept_line

    public = Domain.from_yaml(domain).of_unit(column, None)
    source = Data.parse(data).stream(public.project(public.names).placeholder())
    if (unit := public.unit) is None:
        return "".join(note_on_names(source.columns))
    if unit.column not in source.columns:
        return f"units: the file has no column '{unit.column}'; all figures are of its rows"
    return kept_line(unit, sizes_of_units(source, unit))


def _with_rows(rows: _R, data: str) -> _R:
    """Return rows of which there are some."""
    from marginalia.data.sources.stream import Stream

    if not isinstance(rows, Stream) or rows.only_counts:
        some = bool(rows.n_rows)
    else:
        some = any(batch.n_rows for batch in rows.batches())  # the first: to count all of a CSV file is a pass
    if not some:
        raise InputError(f"{getattr(rows, 'name', data)}: the table has no rows")
    return rows


def show(answer: Answer, *, as_json: bool) -> None:
    """Print an answer."""
    for line in [json.dumps(answer.content, indent=1, default=str)] if as_json else answer.lines:
        print(line if as_json else printable(line))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, its cells under each other.

    >>> aligned([["a", "1"], ["bcd", "2"]])
    ['a    1', 'bcd  2']
    """
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    return ["  ".join([*map(str.ljust, cells, widths), last]) for *cells, last in rows]
