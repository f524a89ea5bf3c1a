"""Notebooks read a finished block of results with `Block`; the workflow executes them with `execute`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from marginalia.card import Card
from marginalia.data.files import write_text
from marginalia.errors import InputError
from marginalia.reporting.formats import read_csv

RESULTS = "MARGINALIA_RESULTS"  # folder of one run, named by the workflow; else a block is sought under results/paper/
_SECONDS = 600


class Block:
    """The tables and figures of one finished run, as a notebook shows them.

    Its name is that of its folder under ``results/paper/``, and of the configuration that makes it. A block that has
    not been run is no error: what asks for its parts then says so and shows nothing else.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.config = f"workflow/configs/{name}.yaml"

    @property
    def folder(self) -> Path:
        """Where the block's results are, or would be."""
        if given := os.environ.get(RESULTS):
            return Path(given)
        here = Path.cwd()
        places = [root / "results" / "paper" / self.name for root in (here, *here.parents)]
        return next((place for place in places if place.is_dir()), places[0])

    @property
    def message(self) -> str:
        """What to say where there is no result."""
        return f"{self.name} has not been run. To run it: snakemake --configfile {self.config}"

    def table(self, name: str) -> pd.DataFrame | None:
        """Return a table, or None after saying that it is not there."""
        path = self.folder / "tables" / f"{name}.csv"
        if path.is_file():
            return read_csv(path)
        print(f"No table {name}: {self.message}")
        return None

    def show(self, name: str, columns: Sequence[str] = (), *, rows: int = 40, **where: Any) -> Any:
        """Return a table for display: some columns of the first rows where columns have the given values."""
        frame = self.table(name)
        return None if frame is None else shown(frame, columns, rows=rows, **where)

    def figure(self, name: str) -> Any:
        """Return a figure for display: SVG where the block was run, PNG as committed."""
        if (picture := self._picture(name)) is None:
            print(f"No figure {name}: {self.message}")
        return picture

    def studies(self, cards: Mapping[str, Card]) -> Any:
        """Display the figure of each card (by id), with its title and caption."""
        from IPython.display import HTML, display

        pictures = {name: picture for name in cards if (picture := self._picture(name))}
        if not pictures:
            print(f"No studies: {self.message}")
        for name, picture in pictures.items():
            display(HTML(f"<h3>{cards[name].title}</h3>"), picture, HTML(f"<p>{cards[name].caption}</p>"))

    def _picture(self, name: str) -> Any:
        from IPython.display import SVG, Image

        path = self.folder / "figures" / f"{name}.svg"
        if path.is_file():
            return SVG(filename=str(path))
        path = path.with_suffix(".png")
        return Image(filename=str(path), width=700) if path.is_file() else None

    def provenance(self) -> dict[str, Any]:
        """Return when, with what code and on what machine the block was run; empty while it is running."""
        path = self.folder / "provenance.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def shown(frame: pd.DataFrame, columns: Sequence[str] = (), *, rows: int = 40, **where: Any) -> Any:
    """Return a table for display: some columns of the first rows where columns have the given values."""
    from IPython.display import HTML

    for column, value in where.items():
        frame = frame[frame[column] == value]
    missing = f"<p>and {len(frame) - rows} more rows</p>" if len(frame) > rows else ""
    text = frame[list(columns) or list(frame.columns)].head(rows)
    return HTML(text.to_html(index=False, border=0, na_rep="", float_format=lambda v: f"{v:.4g}") + missing)


def execute(notebook: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
    """Run a notebook in a new kernel, on the results that the environment names; write it as one HTML page."""
    import papermill
    from nbconvert import HTMLExporter
    from nbconvert.preprocessors import CoalesceStreamsPreprocessor

    try:
        content = papermill.execute_notebook(
            notebook, None, kernel_name="python3", language="python", progress_bar=False, execution_timeout=_SECONDS
        )
    except papermill.PapermillExecutionError as error:
        raise InputError(f"{notebook}: a cell failed: {error.ename}: {error.evalue}".splitlines()[0]) from None
    # What a cell prints comes in one piece or in several, by the speed of the machine.
    joined = CoalesceStreamsPreprocessor(enabled=True)
    page, _ = HTMLExporter(embed_images=True, preprocessors=[joined]).from_notebook_node(content)
    write_text(out, page)
