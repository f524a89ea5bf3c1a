"""How many sentences of each paper held: ``python -m marginalia.reporting.verification.claims results/paper``.

Writes ``claims.csv`` there, from the tables ``*_verdicts.csv`` of the results folders below.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from marginalia.reporting.formats import write_csv
from marginalia.reporting.verdicts import WORDS, sentence_verdicts

FILE = "claims.csv"
COUNTED = ("paper", "ours")  # apart; what another line judges already is not counted
VERDICTS = {word: word.replace(" ", "_") for word in WORDS}  # and their columns


def summary(verdicts: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a row a block, and one for all: its papers' sentences and how many have each verdict; then what is ours.

    A sentence that is judged in several lines (``parts``) has one verdict, by the cells of all of them.

    Examples
    --------
    >>> table = pd.DataFrame(
    ...     {
    ...         "sentence": ["a", "a", "b", "b"],
    ...         "whose": ["paper", "paper", "repeat", "ours"],
    ...         "held": [3, 0, 1, 1],
    ...         "tested": [4, 4, 1, 1],
    ...         "level": [None, None, None, None],
    ...     }
    ... )
    >>> summary({"toy": table})[["block", "whose", "sentences", "parts", "held_in_some_cells"]].to_numpy().tolist()
    [['toy', 'paper', 1, 2, 1], ['all', 'paper', 1, 2, 1], ['toy', 'ours', 1, 1, 0], ['all', 'ours', 1, 1, 0]]
    """
    columns = ["block", "whose", "sentences", "parts", *VERDICTS.values()]
    tables = []
    for whose in COUNTED:
        rows = [_counted(name, table[table["whose"] == whose], whose) for name, table in verdicts.items()]
        frame = pd.DataFrame([row for row in rows if row["parts"]], columns=columns)
        total = frame[columns[2:]].sum().to_frame().T.assign(block="all", whose=whose)
        tables.append(pd.concat([frame, total[columns]], ignore_index=True))
    return pd.concat(tables, ignore_index=True)


def _counted(block: str, lines: pd.DataFrame, whose: str) -> dict[str, object]:
    found = sentence_verdicts(lines)
    counts = {column: found.count(name) for name, column in VERDICTS.items()}
    return {"block": block, "whose": whose, "sentences": len(found), "parts": len(lines)} | counts


def main(root: Path) -> None:
    """Write the summary of all results folders below `root`."""
    tables = {path.parents[1].name: pd.read_csv(path) for path in sorted(root.glob("*/tables/*_verdicts.csv"))}
    write_csv(summary(tables), root / FILE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
