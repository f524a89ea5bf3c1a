"""Put committed tables into the documentation, so that no number there is typed.

A page names a table between two markers, and ``python -m marginalia.reporting.pages`` fills in what lies between::

    <!-- table: results/paper/dd_ssp/tables/dd_ssp_verdicts.csv columns=id,claim,verdict -->
    <!-- end -->

Optional: ``columns=a,b`` (in this order), ``where=column:value`` (repeatable), ``digits=4`` (significant).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from marginalia.data.files import write_text
from marginalia.errors import InputError
from marginalia.reporting.formats import read_csv


def fill(text: str, root: Path) -> str:
    """Return a page with every marked table filled in.

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

    def filled(marked: re.Match[str]) -> str:
        head, *rows = MARKED[marked["kind"]](marked["options"].split(), root)
        lines = [head, ["---"] * len(head), *rows]
        body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return f"{marked['marker']}\n{body}\n<!-- end -->"

    return _MARKER.sub(filled, text)


def _csv_table(options: Sequence[str], root: Path) -> Iterator[list[str]]:
    """Yield the column names and the rows of a CSV file, as text."""
    name, *choices = options
    if not (root / name).is_file():
        raise InputError(f"a page shows {name}, which does not exist; run the workflow that writes it")
    frame, digits = read_csv(root / name), 4
    columns = list(frame.columns)
    for choice in choices:
        key, _, value = choice.partition("=")
        if key == "columns":
            columns = value.split(",")
        elif key == "where":
            column, _, wanted = value.partition(":")
            frame = frame[frame[column].map(_shown).eq(wanted)]
        elif key == "digits":
            digits = int(value)
        else:
            raise InputError(f"a page shows {name} with the unknown option '{choice}'")
    if missing := [c for c in columns if c not in frame.columns]:
        raise InputError(f"a page shows column '{missing[0]}' of {name}, which has {', '.join(frame.columns)}")
    yield columns
    for row in frame[columns].itertuples(index=False):
        yield [_shown(value, digits) for value in row]


def _shown(value: object, digits: int = 6) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return f"{value:.{digits}g}" if isinstance(value, float | np.floating) else str(value)


# What a marker may name: from its options and the root, the column names and then the rows.
MARKED: dict[str, Callable[[Sequence[str], Path], Iterator[list[str]]]] = {"table": _csv_table}
_MARKER = re.compile(
    rf"(?P<marker><!-- (?P<kind>{'|'.join(MARKED)}):(?P<options>[^>]*?) -->)\n.*?<!-- end -->", flags=re.S
)


def main(root: Path = Path()) -> None:
    """Fill every page under ``docs/`` and the README."""
    for page in [*sorted((root / "docs").rglob("*.md")), root / "README.md"]:
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text, root)) != text:
            write_text(page, filled)


if __name__ == "__main__":
    main()
