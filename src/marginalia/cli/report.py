"""The verb that makes the report of published results again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from marginalia.cli.app import Json, app, show


@app.command()
def report(
    results: Annotated[Path, typer.Argument(help="Folder of a run's results, or the one above several.")],
    as_json: Json = False,
) -> None:
    """Write the page report.html of results again from their rows and tables; nothing is run or fetched.

    Example: marginalia report results/paper
    """
    from marginalia.papers import registry
    from marginalia.reporting.html.folder import write_folder_report
    from marginalia.reporting.verification.verify import folders

    pages = [write_folder_report(folder, registry.cards(), registry.comparisons) for folder in folders(results)]
    sizes = {str(page): page.stat().st_size for page in pages}
    show(as_json, sizes, [f"{page}: {size / 1e6:.2f} MB" for page, size in sizes.items()])
