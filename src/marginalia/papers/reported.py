"""Published values: one CSV file for each table or list that a paper prints, in its folder ``reported``."""

from __future__ import annotations

from pathlib import Path

from marginalia.errors import unknown_name
from marginalia.experiment import Frame


def reported(stem: str) -> Frame:
    """Return the published values in the file with this stem (``excess_risk_table2``).

    Raises
    ------
    InputError
        No paper has such a file.
    """
    import pandas as pd

    files = {path.stem: path for path in Path(__file__).parent.glob("*/reported/*.csv")}
    if stem not in files:
        raise unknown_name("file of published values", stem, files)
    return pd.read_csv(files[stem])
