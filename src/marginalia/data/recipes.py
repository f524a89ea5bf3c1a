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

_ADULT_RANGES = {"fnlwgt": (10_000, 1_500_000), "capital-gain": (0, 100_000), "capital-loss": (0, 5_000)}
_JUVENILE = ["juv_fel_count", "juv_misd_count", "juv_other_count"]
_COMPAS_COLUMNS = ["race", "age", "sex", *_JUVENILE, "priors_count", "c_charge_degree", "two_year_recid"]


def dpml_adult(raw: pd.DataFrame) -> pd.DataFrame:
    """Code raw Adult as the excess-risk paper did.

    Three columns in 100 equal right-closed bins, `education` dropped, then every column the dense rank of what occurs.

    >>> import pandas as pd
    >>> columns = ["age", "education", "fnlwgt", "capital-gain", "capital-loss"]
    >>> dpml_adult(pd.DataFrame([[39, "HS-grad", 77516, 2174, 0], [28, "HS-grad", 338409, 0, 0]], columns=columns))
       age  fnlwgt  capital-gain  capital-loss
    0    1       0             1             0
    1    0       1             0             0
    """
    codes = raw.drop(columns="education")
    for name, (low, high) in _ADULT_RANGES.items():
        codes[name] = bin_codes(codes[name], np.linspace(low, high, 101).tolist(), closed="right", name=name)
    return codes.apply(dense_rank)


def dpml_compas(raw: pd.DataFrame) -> pd.DataFrame:
    """Code raw COMPAS as the excess-risk paper did: dense ranks of nine raw columns, numbers by size.

    >>> import pandas as pd
    >>> raw = pd.DataFrame({name: ["9", "10", "9"] for name in _COMPAS_COLUMNS})
    >>> dpml_compas(raw)["age"].tolist()
    [0, 1, 0]
    """
    return raw[_COMPAS_COLUMNS].apply(_numbers_if_possible).apply(dense_rank)


def dpml_dutch(raw: pd.DataFrame) -> pd.DataFrame:
    """Code the raw Dutch census as the excess-risk paper did: a relabelling of every column.

    >>> import pandas as pd
    >>> dpml_dutch(pd.DataFrame({"Marital_status": [4, 1]}))["marital_status"].tolist()
    [1, 0]
    """
    return raw.rename(columns={"Marital_status": "marital_status"}).apply(dense_rank)


def _numbers_if_possible(column: pd.Series) -> pd.Series:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    return column if numbers.isna().any() else numbers
