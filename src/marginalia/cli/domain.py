"""``marginalia domain``: draft the domain of a raw table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from marginalia.cli.app import Json, domain, show
from marginalia.errors import InputError


@domain.command()
def init(
    file: Annotated[Path, typer.Argument(help="CSV or Parquet file with a header.")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write; default: FILE.domain.yaml.")] = None,
    as_json: Json = False,
) -> None:
    """Draft the domain of a raw table: types, labels, bins, missing values, columns to leave out.

    The draft is read off the private rows. Look through it: every such fact is marked, with what it means for privacy.

    Example: marginalia domain init clinic.csv
    """
    from marginalia.data.domain import as_dict
    from marginalia.data.drafting import as_yaml, draft
    from marginalia.data.files import write_text
    from marginalia.data.reading import read_raw

    target = out or file.with_suffix(".domain.yaml")
    if target.exists():
        raise InputError(f"{target} is there already; name another file by --out, or remove it")
    if target.suffix not in (".yaml", ".yml"):
        raise InputError(f"--out {target}: the ending must be .yaml or .yml")
    frame = read_raw(file)
    if frame.empty:
        raise InputError(f"{file}: the table has no rows")
    try:
        columns = draft(frame)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    if all(column.attribute is None for column in columns):
        raise InputError(f"{file}: no column can be used ({columns[0].name}: {columns[0].note})")
    write_text(target, as_yaml(columns, file.name, len(frame)))
    known = [column.attribute for column in columns if column.attribute is not None]
    ignored = {column.name: column.note for column in columns if column.attribute is None}
    notes = {column.name: column.note for column in columns if column.attribute is not None and column.note}
    if numbers := [name for name in frame.columns if name.replace(".", "", 1).isdecimal()]:
        notes["the header"] = f"'{numbers[0]}' is a number: without a header line the first row would be taken for it"
    facts = sum(len(attribute.inferred) for attribute in known)
    content = {"out": str(target), "rows": len(frame), "attributes": [as_dict(attribute) for attribute in known]}
    lines = [
        f"{target}: {len(known)} attributes, {facts} facts read off the rows: confirm, edit or buy them",
        *(f"ignored: {name} ({note})" for name, note in ignored.items()),
        *(f"look at: {name} ({note})" for name, note in notes.items()),
        f"then: marginalia datasets check {file} --domain {target}",
    ]
    show(as_json, {**content, "ignored": ignored, "notes": notes}, lines)
