"""The published codings, re-derived from the raw files: what the papers' files contain, row by row.

Source: the excess-risk paper's files (Zhou et al.), whose recipes are documented nowhere; these reproduce them exactly,
up to a relabelling of categories (`tests/data/test_recipes.py`). The codes are dense ranks, so the domain depends on
which values occur: for comparison with published numbers only, never for a private release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from marginalia.data.discretize import bin_codes, dense_rank

if TYPE_CHECKING:
    import pandas as pd

ADULT_RANGES = {"fnlwgt": (10_000, 1_500_000), "capital-gain": (0, 100_000), "capital-loss": (0, 5_000)}
COMPAS_COLUMNS = (
    "race",
    "age",
    "sex",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "c_charge_degree",
    "two_year_recid",
)


def dpml_adult(raw: pd.DataFrame) -> pd.DataFrame:
    """Code raw Adult as the excess-risk paper did.

    Three columns in 100 equal right-closed bins, `education` dropped, then every column the dense rank of what occurs.
    """
    codes = raw.drop(columns="education")
    for name, (low, high) in ADULT_RANGES.items():
        codes[name] = bin_codes(codes[name], np.linspace(low, high, 101).tolist(), closed="right", name=name)
    return codes.apply(dense_rank)


def dpml_compas(raw: pd.DataFrame) -> pd.DataFrame:
    """Code raw COMPAS as the excess-risk paper did: dense ranks of nine raw columns, numbers by size."""
    return raw[list(COMPAS_COLUMNS)].apply(_numbers_if_possible).apply(dense_rank)


def dpml_dutch(raw: pd.DataFrame) -> pd.DataFrame:
    """Code the raw Dutch census as the excess-risk paper did: a relabelling of every column."""
    return raw.rename(columns={"Marital_status": "marital_status"}).apply(dense_rank)


def dpml_law(raw: pd.DataFrame) -> pd.DataFrame:
    """Code raw Law school by the excess-risk paper's manner (its file holds 2,106 more rows, so ranks differ)."""
    return raw.rename(columns={"male": "sex", "racetxt": "race"}).apply(dense_rank)


def _numbers_if_possible(column: pd.Series) -> pd.Series:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    return column if numbers.isna().any() else numbers
