"""The verb that attacks a method."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginalia.cli.shared import Answer, DeltaOption, check_out
from marginalia.errors import InputError

if TYPE_CHECKING:
    from marginalia.audit.audit import Report


def audit(
    methods: Annotated[list[str] | None, typer.Argument(help="Method ids, or your own FILE.py[:Class].")] = None,
    every: Annotated[bool, typer.Option("--all", help="Audit every private method.")] = False,
    tables: Annotated[int, typer.Option("--tables", min=3, help="Tables that are fitted for each.")] = 50,
    delta: DeltaOption = 1e-5,
    out: Annotated[Path | None, typer.Option("--out", help="CSV file to write, a row for each audit.")] = None,
    *,
    as_json: bool,
) -> Answer:
    """Attack a method on made-up tables: replays with its releases forced, laws of its noise, what it keeps.

    Under each relation and calibration. Exit 0: nothing was found; for a file of your own that is written down beside
    it (FILE.py.audit.json), and its results no longer read "declared by its author". Exit 1: something was found.

    Example: marginalia audit my_method.py:NaiveBayes
    """
    from marginalia.audit import command

    if bool(methods) == every:
        raise InputError("name a method or a file, or give --all")
    if out is not None:
        check_out(out, (".csv",), map(command.own_file, methods or ()))
    reports: list[Report] = []
    written = []
    names: list[str | None] = [*methods] if methods else [None]
    for name in names:
        begun = len(reports)
        for report in command.audits(name, tables, delta=delta):
            reports.append(report)
            if not as_json:
                print(*command.lines(report), sep="\n", flush=True)
        if (path := command.own_file(name)) is not None:
            written.append(command.record(path, reports[begun:]))
    if out is not None:
        command.write_table(out, reports)
        written.append(out)
    content = command.summary(reports)
    said = "{audits} audits, {tables} tables, {findings} findings, {seconds:.0f} s of processor time".format(**content)
    return Answer(content, [said, *map(os.fspath, written)], exit_code=1 if content["findings"] else 0)
