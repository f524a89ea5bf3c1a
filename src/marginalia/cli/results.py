"""The verbs about the results of a run: its report, a check of every number."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from marginalia.cli.removed import VERIFY_RERUN
from marginalia.cli.shared import Answer
from marginalia.errors import InputError


def report(
    results: Annotated[Path, typer.Argument(help="Folder of a run's results, or the one above several.")],
) -> Answer:
    """Write report.html and the figures (PNG) of results again from their rows and tables; nothing is run or fetched.

    Example: marginalia report results/paper
    """
    from marginalia.papers import registry
    from marginalia.reporting.html.folder import write_folder_report
    from marginalia.reporting.verification.verify import folders

    pages = [write_folder_report(folder, registry.experiments()) for folder in folders(results)]
    sizes = {str(page): page.stat().st_size for page in pages}
    return Answer(sizes, [f"{page}: {size / 1e6:.2f} MB" for page, size in sizes.items()])


def verify(
    results: Annotated[Path, typer.Argument(help="Folder of a run's results, or the one above several.")],
    rerun: Annotated[str | None, typer.Option("--rerun", hidden=True)] = None,
) -> Answer:
    """Make every published table, verdict, figure and certificate again from the rows; exit 1 on a difference.

    A line for each claim.

    Example: marginalia verify results/paper
    """
    if rerun is not None:
        raise InputError(VERIFY_RERUN)
    from marginalia.papers import registry
    from marginalia.reporting.verification import drawn
    from marginalia.reporting.verification.rows_file import FILE, read
    from marginalia.reporting.verification.verify import (
        folders,
        page_differences,
        summary_differences,
        verify,
        without_rows,
    )

    found, redrawn = [], []
    for folder in folders(results):
        rows = read(folder / FILE)
        one = verify(folder, rows, registry.experiments())
        said = drawn.differences(folder, rows, registry.experiments(), one.studies)
        redrawn += [f"{folder.name}: {what}" for what in said]
        found.append(one)
    others = [*without_rows(results), *summary_differences(results, found), *page_differences(Path(), results)]
    others += redrawn
    lines = []
    for one in found:
        for claim in one.claims.itertuples():
            lines.append(
                f"{one.folder.name} {claim.id}: {claim.verdict} ({claim.held} of {claim.tested}): {claim.claim}"
            )
        lines += [f"{one.folder.name}: DIFFERENT: {difference}" for difference in one.differences]
        proofs = f", {one.certificates} of {one.runs} private runs certified" if one.runs else ""
        lines.append(f"{one.folder.name}: {one.tables} tables made again{proofs}, {len(one.differences)} differences")
    lines += [f"DIFFERENT: {other}" for other in others]
    good = not (others or any(one.differences for one in found))
    lines.append("all as published" if good else "not as published")
    facts: dict[str, Any] = {
        one.folder.name: {
            "tables": one.tables,
            "private_runs": one.runs,
            "certified_runs": one.certificates,
            "claims": one.claims.to_dict("records"),
            "differences": one.differences,
        }
        for one in found
    }
    return Answer({"verified": good, "folders": facts, "others": others}, lines, exit_code=0 if good else 1)
