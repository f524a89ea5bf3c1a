"""Put committed tables into the documentation, so that no number there is typed.

A page names a table between two markers, and ``python -m marginalia.reporting.pages`` fills in what lies between::

    <!-- table: results/paper/dd_ssp/tables/dd_ssp_verdicts.csv columns=id,claim,verdict -->
    <!-- end -->

Optional: ``columns=a,b`` (in this order), ``where=column:value`` (repeatable), ``digits=4`` (significant).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from marginalia.data.files import write_text
from marginalia.errors import InputError
from marginalia.reporting.formats import read_csv

MARKER = re.compile(r"<!-- table: (?P<path>\S+)(?P<options>[^>]*?) -->\n.*?<!-- end -->", flags=re.S)


def fill(text: str, root: Path) -> str:
    """Return a page with every marked table filled in from its file.

    Parameters
    ----------
    text : str
        Markdown.
    root : Path
        Folder that the paths of the markers start from.

    Raises
    ------
    InputError
        A table is missing, or an option or column is unknown.
    """
    return MARKER.sub(lambda found: _filled(found, root), text)


def _filled(found: re.Match[str], root: Path) -> str:
    path, options = root / found["path"], found["options"].split()
    if not path.is_file():
        raise InputError(f"a page shows {found['path']}, which does not exist; run the workflow that writes it")
    frame, digits = read_csv(path), 4
    columns = list(frame.columns)
    for option in options:
        key, _, value = option.partition("=")
        if key == "columns":
            columns = value.split(",")
        elif key == "where":
            column, _, wanted = value.partition(":")
            frame = frame[frame[column].map(_shown).eq(wanted)]
        elif key == "digits":
            digits = int(value)
        else:
            raise InputError(f"a page shows {found['path']} with the unknown option '{option}'")
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise InputError(f"a page shows column '{missing[0]}' of {found['path']}, which has {', '.join(frame.columns)}")
    lines = [columns, ["---"] * len(columns)]
    lines += [[_shown(v, digits) for v in row] for row in frame[columns].itertuples(index=False)]
    body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    head = found[0].split("\n", 1)[0]
    return f"{head}\n{body}\n<!-- end -->"


def _shown(value: object, digits: int = 6) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return f"{value:.{digits}g}" if isinstance(value, float | np.floating) else str(value)


def main(root: Path = Path()) -> None:
    """Fill every page under ``docs/`` and the README."""
    for page in [*sorted((root / "docs").rglob("*.md")), root / "README.md"]:
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text, root)) != text:
            write_text(page, filled)


if __name__ == "__main__":
    main()
