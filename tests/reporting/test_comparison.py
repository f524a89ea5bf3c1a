import math

import numpy as np
import pandas as pd
import pytest

from marginalia.errors import InputError
from marginalia.reporting.comparison import compare

KEYS = ("dataset", "metric", "epsilon")


def ours(*rows):
    return pd.DataFrame(rows, columns=["dataset", "metric", "epsilon", "mean", "stderr"])


def theirs(*rows):
    return pd.DataFrame(rows, columns=["dataset", "metric", "epsilon", "value"])


def test_z_by_hand():
    table = compare(ours(("adult", "auc", 0.25, 0.85, 0.002)), theirs(("adult", "auc", "0.25", 0.845)), KEYS)
    assert list(table.columns) == ["dataset", "metric", "epsilon", "mean", "stderr", "reported", "z"]
    assert table["z"].item() == pytest.approx(0.005 / math.sqrt(2 * 0.002**2 + 0.0003**2), rel=1e-5)


def test_keys_keep_the_spelling_of_the_published_file():
    table = compare(
        ours(("adult", "auc", np.inf, 0.9, 0.001), ("adult", "auc", 1.0, 0.8, 0.001)),
        theirs(("adult", "auc", "1", 0.8), ("adult", "auc", "real", 0.9)),
        KEYS,
    )
    assert list(table["epsilon"]) == ["1", "real"]
    assert list(table["z"]) == [0.0, 0.0]


def test_a_published_value_we_lack_keeps_its_row():
    table = compare(
        ours(("adult", "auc", 1.0, 0.8, 0.001)), theirs(("adult", "auc", 1, 0.8), ("law", "auc", 1, 0.7)), KEYS
    )
    assert list(table["reported"]) == [0.8, 0.7]
    assert table[["mean", "z"]].iloc[1].isna().all()


def test_the_papers_own_standard_error_replaces_ours():
    reported = theirs(("adult", "auc", 1, 0.81)).assign(stderr=0.004)
    table = compare(ours(("adult", "auc", 1.0, 0.8, 0.003)), reported, KEYS, rounding=0.0)
    assert table["z"].item() == pytest.approx(-0.01 / 0.005)
    assert table["stderr"].item() == 0.003


def test_ambiguous_keys_are_refused():
    double = ours(("adult", "auc", 1.0, 0.8, 0.001), ("adult", "auc", 1, 0.7, 0.001))
    with pytest.raises(InputError, match="our table has two rows for adult / auc / 1"):
        compare(double, theirs(("adult", "auc", 1, 0.8)), KEYS)
    with pytest.raises(InputError, match="has no column 'task'"):
        compare(ours(), theirs(), ["task"])
