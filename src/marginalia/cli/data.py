"""The verbs about tables: the catalogue, a check of one's own, a draft of its domain."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia.cli.shared import DATA_HELP, Answer, DomainFile, aligned, check_out
from marginalia.errors import InputError, one_line

if TYPE_CHECKING:
    from marginalia.data.catalogue.entry import Entry


ConfigFile = Annotated[
    Path | None, typer.Option("--configfile", help="Configuration whose own data sets are known, too.")
]


def _own_entries(configfile: Path | None) -> Mapping[str, Entry]:
    """Return the data sets that a configuration describes."""
    if configfile is None:
        return {}
    from marginalia.sweep import config
    from marginalia.sweep.resolve import own_entries

    return own_entries(config.read(configfile))


def list_datasets(
    name: Annotated[str | None, typer.Argument(help="Data-set id; default: all.")] = None,
    configfile: ConfigFile = None,
) -> Answer:
    """List the catalogue: ids, tasks, and whether the files are at hand; of one data set all that is publicly known.

    That is its source and licence, its files, its tasks, and its columns with their kinds and sizes.

    Example: marginalia datasets list compas
    """
    from marginalia.data.catalogue import catalogue
    from marginalia.data.download import find_local

    own = _own_entries(configfile)
    if name is not None:
        import yaml

        facts = catalogue.describe(own.get(name, name))
        return Answer(facts, yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=100).splitlines())
    rows: list[dict[str, Any]] = []
    for known in (*own, *catalogue.names()):
        entry = own[known] if known in own else catalogue.entry(known)
        tasks = {task: spec.target for task, spec in entry.tasks.items()}
        here = all(find_local(file) is not None for file in entry.files.values())
        rows.append({"name": known, "at_hand": here, "tasks": tasks, "description": entry.description})
    lines = []
    for row in rows:
        listed = ", ".join(f"{task} {target}" for task, target in row["tasks"].items())
        lines.append((row["name"], "here" if row["at_hand"] else "remote", listed))
    return Answer(rows, aligned(lines))


def fetch(
    name: Annotated[str, typer.Argument(help="Data-set id.")],
    configfile: ConfigFile = None,
) -> Answer:
    """Download a data set's files (cache, mirror, then URL); check their hashes.

    Example: marginalia datasets fetch adult
    """
    from marginalia.data import download
    from marginalia.data.catalogue import catalogue

    own = _own_entries(configfile)
    entry = own[name] if name in own else catalogue.entry(name)
    paths = [str(download.fetch(file)) for file in entry.files.values()]
    return Answer({"name": name, "files": paths}, paths)


def check(
    file: Annotated[str, typer.Argument(help=DATA_HELP)],
    domain: DomainFile,
) -> Answer:
    """Check a table of your own against its domain; every problem is one line, exit 2 if there is any.

    Of a domain that leaves labels or edges to be learned it says which, and what of their columns cannot be read.

    Example: marginalia datasets check mine.csv --domain mine.yaml
    """
    from marginalia.data.checking import check as find_problems
    from marginalia.data.sources.opening import Data

    notes: list[str] = []
    problems = find_problems(file, domain, notes=notes)
    name = Data.parse(file).name
    content = {"file": name, "ok": not problems, "problems": problems, "notes": notes}
    for problem in problems:
        print(f"marginalia: {one_line(problem)}", file=sys.stderr)
    return Answer(content, [*notes, *([] if problems else [f"{name}: ok"])], exit_code=2 if problems else 0)


def init(
    file: Annotated[Path, typer.Argument(help="File of CSV, Parquet, Excel, Stata, SPSS or SAS.")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write; default: FILE.domain.yaml.")] = None,
    missing: Annotated[
        list[str] | None, typer.Option("--missing", help="Mark of missing values in all columns; repeatable.")
    ] = None,
) -> Answer:
    """Draft the domain of a raw table: what each column holds, and which labels and bins each fit learns privately.

    The draft is read off the private rows. Read through it before you use it: it says what it took from them.

    Example: marginalia domain init clinic.csv
    """
    from marginalia.data.domain import Domain
    from marginalia.data.drafting import as_yaml, draft, questions
    from marginalia.data.encode import known_labels, losses_of
    from marginalia.data.files import write_text
    from marginalia.data.headers import second_header, value_in_header
    from marginalia.data.labelled_files import with_labels
    from marginalia.data.reading import read_declared
    from marginalia.data.values import shown

    target = _new_domain_file(file, out)
    frame, labels = read_declared(file)
    if frame.empty:
        raise InputError(f"{file}: the table has no rows")
    if value := value_in_header(list(frame.columns)):
        raise InputError(f"{file}: the first line holds a value ({shown(value)}) and no names; add a header line")
    if units := second_header(frame):
        raise InputError(f"{file}: row 0 holds no values ({units}); remove the second header line")
    try:
        found = draft(frame, missing=tuple(dict.fromkeys(mark.strip() for mark in missing or ())), labels=labels)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    domain = found.content()
    if not domain["attributes"]:
        raise InputError(f"{file}: no column can be used ({found.columns[0].name}: {found.columns[0].note})")
    public = Domain.from_dict(domain, where=str(file))
    write_text(target, as_yaml(found, file.name))
    ignored = {column.name: column.note for column in found.columns if column.keys is None}
    notes = {column.name: column.note for column in found.columns if column.keys is not None and column.remark}
    asked = list(questions(found))
    if numbers := [name for name in frame.columns if name.replace(".", "", 1).isdecimal()]:
        notes["the header"] = f"'{numbers[0]}' is a number: without a header line the first row would be taken for it"
        asked.append(f"look at: the header ({notes['the header']})")
    folds = losses_of(with_labels(frame, labels, public), known_labels(public))
    special = {column.name: dict(column.special) for column in found.columns if column.special}
    alike = {column.name: [dict(group) for group in column.alike] for column in found.columns if column.merge}
    content = {**domain, "out": str(target), "rows": len(frame), "ignored": ignored, "notes": notes, "folded": folds}
    content |= {"special_values": special, "similar_labels": alike}
    lines = [
        f"{target}: {len(public)} columns; each fit learns labels or bins of {len(public.open_columns)}",
        *asked,
        *folds,
        f"then: read {target}, and take away the # before `defaults: {{reviewed: true}}`",
        f"then: marginalia datasets check {file} --domain {target}",
    ]
    return Answer(content, lines)


def _new_domain_file(file: Path, out: Path | None) -> Path:
    """Return the domain file to write for a table or a description; raise if it is there or cannot be written."""
    target = out or file.with_suffix(".domain.yaml")
    if target.exists():
        raise InputError(f"{target} is there already; name another file by --out, or remove it")
    if out is not None:
        check_out(out, (".yaml", ".yml"), (file,))
    return target


def import_domain(
    file: Annotated[Path, typer.Argument(help="Description of columns: JSON or YAML.")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write; default: FILE.domain.yaml.")] = None,
    format: Annotated[
        str | None, typer.Option("--format", help="dpsynth, mbi, sdv, nist or frictionless; default: recognized.")
    ] = None,
    table: Annotated[str | None, typer.Option("--table", help="Table of a description of several.")] = None,
) -> Answer:
    """Write the domain of a table from a description of its columns that you have for another program.

    Domains of dpsynth (YAML) and mbi, metadata of SDV, schemas and dictionaries of SDNist and the NIST challenges, and
    Table Schemas of Frictionless are read. No row is. The command says what the description lacks.

    Example: marginalia domain import metadata.json
    """
    from marginalia.data.domain import Domain
    from marginalia.data.files import write_text
    from marginalia.data.importing import as_yaml, read_description

    target = _new_domain_file(file, out)
    found = read_description(file, format, table)
    public = Domain.from_dict(found.content(), where=str(file))
    write_text(target, as_yaml(found, file.name))
    lines = found.lines()
    learned = len(public.open_columns)
    content = {**found.content(), "out": str(target), "format": found.format, "notes": lines}
    public_line = (
        f"then: make sure that {file} is public: what a program read off the rows (`detect_from_dataframe` of SDV,"
    )
    said = [
        f"{target}: {len(public)} columns of {found.format}; each fit learns labels or bins of {learned}",
        *lines,
        f"{public_line} `derive_domain` of dpsynth) is not",
        f"then: marginalia datasets check TABLE --domain {target}",
    ]
    return Answer(content, said)
