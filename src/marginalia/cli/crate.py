"""The verb that describes published results for archives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from marginalia.cli.app import Json, app, show


@app.command()
def crate(
    results: Annotated[Path, typer.Argument(help="Folder of a run's results, or the one above several.")],
    as_json: Json = False,
) -> None:
    """Write ro-crate-metadata.json into results: inputs, code, outputs, each with its hash, for an archive.

    Authors and licence are those of the nearest CITATION.cff. `verify` then holds the files against it.

    Example: marginalia crate results/paper/dd_ssp
    """
    from marginalia.papers import registry
    from marginalia.reporting.crate import write
    from marginalia.reporting.verification.verify import folders

    written = [str(write(folder, registry.cards())) for folder in folders(results)]
    show(as_json, {"written": written}, written)
