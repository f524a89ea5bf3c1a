"""How many claims of each paper held: ``python -m marginalia.reporting.verification.claims results/paper``.

Writes ``claims.csv`` there, from the tables ``*_verdicts.csv`` of the results folders below.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from marginalia.reporting.formats import write_csv

FILE = "claims.csv"
OURS = "our addition"  # in the place of the paper where a claim stands
VERDICTS = {
    "held": "held", "held in most cells": "held_in_most_cells", "held in some cells": "held_in_some_cells",
    "not held": "not_held", "not tested": "not_tested",
}  # fmt: skip


def summary(verdicts: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a row a block: its claims, and how many have each verdict; and one for all.

    Claims are those of papers; what we say of our own additions has a verdict on the page, and is not counted here.

    Examples
    --------
    >>> table = pd.DataFrame({"place": ["Section 1", "Theorem 2", OURS], "verdict": ["held", "not held", "held"]})
    >>> summary({"toy": table}).iloc[0].to_dict()["held"]
    1
    """
    papers = {name: table[table["place"] != OURS] for name, table in verdicts.items()}
    rows = [
        {"block": name, "claims": len(table)} | {c: int((table["verdict"] == v).sum()) for v, c in VERDICTS.items()}
        for name, table in papers.items()
        if len(table)
    ]
    frame = pd.DataFrame(rows, columns=["block", "claims", *VERDICTS.values()])
    return pd.concat([frame, frame.drop(columns="block").sum().to_frame().T.assign(block="all")], ignore_index=True)


def main(root: Path) -> None:
    """Write the summary of all results folders below `root`."""
    tables = {path.parents[1].name: pd.read_csv(path) for path in sorted(root.glob("*/tables/*_verdicts.csv"))}
    write_csv(summary(tables), root / FILE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
