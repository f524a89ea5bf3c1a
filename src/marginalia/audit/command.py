"""`marginalia audit`: which methods are audited, the table of all, and the record beside an audited file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from marginalia.audit.audit import Report, audit
from marginalia.audit.findings import page
from marginalia.audit.subject import Subject, own_subjects, subjects
from marginalia.data.files import write_text
from marginalia.errors import InputError, unknown_name
from marginalia.methods.registry import EVERY
from marginalia.sweep.version import AUDIT_ENDING, version_of


def chosen(name: str | None) -> Iterator[Subject]:
    """Yield what a method id, a user's file ``FILE.py[:Class]``, or None (all private methods) stands for.

    Raises
    ------
    InputError
        Unknown id, a method without privacy, or a file that cannot be used.

    >>> [s.title for s in chosen("chebyshev")][:1]
    ['chebyshev replace_one tight']
    """
    if name is None:
        for known in EVERY:
            yield from subjects(known)
        return
    if (path := own_file(name)) is not None:
        yield from own_subjects(path, name.partition(".py:")[2] or None)
        return
    if name not in EVERY:
        raise unknown_name("method", name, EVERY)
    found = list(subjects(name))
    if not found:
        raise InputError(f"method '{name}' is not private: there is nothing to audit")
    yield from found


def audits(name: str | None, tables: int, *, delta: float = 1e-5) -> Iterator[Report]:
    """Yield the audits of what `name` stands for (`chosen`); of a user's class without the relations that it refuses.

    Pure methods have a budget of delta 0 whatever `delta` is.

    >>> next(audits("independent", 9)).findings
    ()
    """
    unfit: list[Report] = []
    fitted = False
    for subject in chosen(name):
        report = audit(replace(subject, delta=delta) if subject.delta else subject, tables)
        if subject.own is not None and report.releases == 0 and {f.check for f in report.findings} == {"unfit"}:
            unfit.append(report)
        else:
            fitted = True
            yield report
    yield from [] if fitted else unfit


def own_file(name: str | None) -> Path | None:
    """Return the user's file that `name` stands for, if it does.

    >>> own_file("my_method.py:Mine").name
    'my_method.py'
    """
    file, dot, _ = (name or "").partition(".py")
    return Path(file + dot) if dot else None


def record(path: Path, reports: list[Report]) -> Path:
    """Write the record of an audit beside the file of a user's method and return its path."""
    target = Path(f"{path}{AUDIT_ENDING}")
    content = {
        "version": version_of(str(path)),
        "findings": sum(len(r.findings) for r in reports),
        "audits": [_facts(r) for r in reports],
    }
    write_text(target, json.dumps(content, indent=1) + "\n")
    return target


def lines(report: Report) -> list[str]:
    """Return one report as text: a line of figures, then the page of findings.

    >>> from marginalia.audit.findings import Finding
    >>> report = Report("m", "", "", "add_remove", "tight", 9, 4, 1.0, 0.9, 0.9, 0.2, 1.0, "exact", (), 0.1)
    >>> lines(replace(report, widest=16))[0].partition(";")[0]
    'm add_remove tight: nothing found on 9 tables of at most 16 columns'
    """
    title = " ".join(filter(None, (report.method, report.variant, report.task, report.relation, report.calibration)))
    count = len(report.findings)
    verdict = "nothing found" if not count else f"{count} finding{'s' if count > 1 else ''}"
    figures = f"certified epsilon {report.certified:.4g}, attained {report.audited:.4g} ({report.share:.0%})".replace(
        "%", " %"
    )
    most = f" of at most {report.widest} columns" if report.widest else ""
    head = f"{title}: {verdict} on {report.tables} tables{most}; {figures}, {report.arithmetic or 'no'} arithmetic"
    refused = [f"  not fitted to the made-up data '{why}" for why in (w.replace(":", "':", 1) for w in report.refused)]
    return [head, *refused, *(f"  {line}" if line else "" for line in page(report.findings))]


def summary(reports: Sequence[Report]) -> dict[str, Any]:
    """Return all reports as plain JSON types, with their sums."""
    return {
        "audits": len(reports),
        "tables": sum(report.tables for report in reports),
        "findings": sum(len(report.findings) for report in reports),
        "seconds": sum(report.seconds for report in reports),
        "reports": [_facts(report) for report in reports],
    }


def _facts(report: Report) -> dict[str, Any]:
    row = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in report.row().items()}
    return row | {"findings": [asdict(f) for f in report.findings], "refused": report.refused, "widest": report.widest}


def write_table(path: Path, reports: Sequence[Report]) -> None:
    """Write a row for each report as CSV, atomically; what is not certified has no number."""
    frame = pd.DataFrame([report.row() for report in reports])
    frame["certified"] = frame["certified"].where(np.isfinite(frame["certified"]))
    write_text(path, frame.to_csv(index=False, lineterminator="\n"))
