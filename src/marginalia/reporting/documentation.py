"""Put committed tables into the documentation, so that no number there is typed.

A page names a table between two markers, and ``python -m marginalia.reporting.documentation`` fills in what lies
between::

    <!-- table: results/paper/dd_ssp/tables/dd_ssp_verdicts.csv columns=id,claim,verdict -->
    <!-- end -->

Headings have spaces for underscores. Optional: ``columns=a,b`` (in this order), ``where=column:value`` (repeatable;
``_`` for a space), ``digits=4`` (significant).
Inside a sentence ``<!-- value: results/paper/dd_ssp/tables/dd_ssp_t1.csv columns=mean where=method:aim digits=2 -->``,
some number and ``<!-- end -->`` hold the one cell that is chosen so.
``<!-- methods -->`` stands for the table of all methods, from their records and the default sweep ``config.yaml``;
``<!-- artifact: results/paper -->`` for what to run for the claims of each block, and what comes out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from marginalia.data.files import write_text
from marginalia.errors import InputError
from marginalia.methods.registry import BUILT_IN
from marginalia.reporting.formats import markdown_table, read_csv
from marginalia.reporting.style import RELATION_NAMES
from marginalia.sweep.config import read


def fill(text: str, root: Path) -> str:
    """Return a page (Markdown) with every marked table filled in; the paths of the markers start from `root`."""

    def filled(marked: re.Match[str]) -> str:
        columns, *rows = MARKED[marked["kind"]]((marked["options"] or "").split(), root)
        return f"{marked['marker']}\n{markdown_table(columns, rows)}\n<!-- end -->"

    def valued(marked: re.Match[str]) -> str:
        _, *rows = _csv_table(marked["options"].split(), root)
        if len(rows) != 1 or len(rows[0]) != 1:
            cells = sum(map(len, rows))
            raise InputError(f"a page shows one value, and chooses {cells}: {' '.join(marked['options'].split())}")
        return f"{marked['marker']}{rows[0][0]}<!-- end -->"

    return _VALUE.sub(valued, _MARKER.sub(filled, text))


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
            if frame[column].dtype == bool and wanted not in ("yes", "no"):
                raise InputError(f"a page chooses rows of {name} by {value}; of a truth it shows yes or no")
            frame = frame[np.array([_text(shown).replace(" ", "_") == wanted for shown in frame[column]], dtype=bool)]
        elif key == "digits":
            digits = int(value)
        else:
            raise InputError(f"a page shows {name} with the unknown option '{choice}'")
    if missing := [c for c in columns if c not in frame.columns]:
        raise InputError(f"a page shows column '{missing[0]}' of {name}, which has {', '.join(frame.columns)}")
    yield [column.replace("_", " ") for column in columns]
    for row in frame[columns].itertuples(index=False):
        yield [_text(value, digits) for value in row]


def _text(value: object, digits: int = 6) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return f"{value:.{digits}g}" if isinstance(value, float | np.floating) else str(value)


def _methods(options: Sequence[str], root: Path) -> Iterator[list[str]]:
    """Yield the column names and a row for each method."""
    if options:
        raise InputError(f"a page shows the methods with the unknown option '{options[0]}'")
    sweep = read(root / "config.yaml")
    swept = {choice.id for block in sweep.blocks() for choice in block.methods}
    yield ["id", "what", "calibrations", "relations", "in the default sweep"]
    for method in BUILT_IN.values():
        facts = method.facts()
        private = any(arm.is_private for arm in method.arms)
        calibrations = ", ".join(f"`{c}`" for c in facts["calibrations"]) if private else "not private"
        relations = ", ".join(RELATION_NAMES[r] for r in facts["relations"]) if private else ""
        yield [f"`{facts['id']}`", facts["about"], calibrations, relations, "yes" if facts["id"] in swept else "no"]


def _artifact(options: Sequence[str], root: Path) -> Iterator[list[str]]:
    """Yield the column names and a row for each block of published results, from claims and costs."""
    (place,) = options
    claims, costs = (read_csv(root / place / name).set_index("block") for name in ("claims.csv", "costs.csv"))
    claims = claims[claims["whose"] == "paper"].drop(columns="whose")
    yield ["sentences", "command", "minutes", "core minutes", "largest job, MB", "expected verdicts", "where"]
    for block, row in claims.iterrows():
        verdicts = [
            f"{int(n)} {str(name).replace('_', ' ')}" for name, n in row.drop(["sentences", "parts"]).items() if n
        ]
        cost, whole = costs.loc[str(block)], block == "all"
        yield [
            f"{int(row['sentences'])} of {'all papers' if whole else block}",
            f"`snakemake --configfile workflow/configs/{'paper' if whole else block}.yaml`",
            # a block ran among the others, so its own span says little: its jobs, on two cores
            f"{60 * (cost['elapsed_hours'] if whole else cost['wall_hours_of_all_jobs'] / 2):.0f}",
            f"{60 * cost['cpu_hours_of_all_jobs']:.0f}",
            f"{cost['largest_peak_mb']:.0f}",
            ", ".join(verdicts),
            f"`{place}/claims.csv`" if whole else f"`{place}/{block}/tables/*_verdicts.csv`",
        ]


# What a marker may name: from its options and the root, the column names and then the rows.
MARKED: dict[str, Callable[[Sequence[str], Path], Iterator[list[str]]]] = {
    "table": _csv_table,
    "methods": _methods,
    "artifact": _artifact,
}
_MARKER = re.compile(
    rf"(?P<marker><!-- (?P<kind>{'|'.join(MARKED)})(:(?P<options>[^>]*?))? -->)\n.*?<!-- end -->", flags=re.S
)
_VALUE = re.compile(r"(?P<marker><!-- value:(?P<options>[^>]*?) -->)[^\n<]*<!-- end -->")


def main(root: Path = Path()) -> None:
    """Fill every page under ``docs/`` and the README."""
    for page in [*sorted((root / "docs").rglob("*.md")), root / "README.md"]:
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text, root)) != text:
            write_text(page, filled)


if __name__ == "__main__":
    main()
