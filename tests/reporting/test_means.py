"""Means over trials: as pandas computes them one by one, and paired with the real rows."""

import numpy as np
import pandas as pd
import pytest

from marginalia.reporting.means import beside_real, mean_table


def test_mean_table_counts_trials_and_skips_what_is_missing():
    rows = pd.DataFrame({"arm": ["x", "x", "x", "y"], "error": [1.0, 2.0, np.nan, 4.0]})
    table = mean_table(rows, ["arm"], ["error"])
    assert list(table) == ["arm", "error", "error_stderr", "n_trials"]
    assert table["error"].tolist() == [1.5, 4.0]
    assert table["error_stderr"].iloc[0] == pytest.approx(0.5)
    assert np.isnan(table["error_stderr"].iloc[1])
    assert table["n_trials"].tolist() == [3, 1]
    assert mean_table(rows, ["arm"], ["error"], "std")["error_std"].iloc[0] == pytest.approx(0.5**0.5)


def test_auc_beside_the_real_rows_is_paired():
    rows = pd.DataFrame(
        {
            "set": "a",
            "arm": ["real", "real", "x", "x"],
            "trial": [0, 1, 0, 1],
            "epsilon": [np.inf, np.inf, 1, 1],
            "auc": [0.9, 0.8, 0.85, 0.79],
        }
    )
    (line,) = beside_real(rows, "set", "arm").to_dict("records")
    assert line["lost"] == pytest.approx(0.03)
    assert line["worst_auc"] == 0.79
    assert line["auc_real"] == pytest.approx(0.85)
    assert line["n_trials"] == 2
