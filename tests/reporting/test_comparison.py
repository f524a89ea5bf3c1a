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


def test_an_epsilon_a_set_and_a_split_that_the_paper_lacks_keep_their_rows():
    ours_more = ours(
        ("adult", "auc", 3.0, 0.9, 0.002), ("adult", "auc", 1.0, 0.8, 0.001), ("mine", "auc", np.inf, 0.7, 0.001)
    )
    table = compare(ours_more, theirs(("adult", "auc", "1", 0.8)), KEYS)
    assert table[list(KEYS)].to_numpy().tolist() == [
        ["adult", "auc", "1"], ["adult", "auc", "3"], ["mine", "auc", "real"],
    ]  # fmt: skip
    assert table["mean"].tolist() == [0.8, 0.9, 0.7]
    assert table[["reported", "z"]].notna().all(axis=1).tolist() == [True, False, False]
    split = [frame.assign(split=name) for frame, name in ((ours_more, "random"), (ours_more, "released"))]
    published = theirs(("adult", "auc", 1.0, 0.8)).assign(split="released")
    both = compare(pd.concat(split), published, [*KEYS, "split"])
    assert both["split"].tolist() == ["released", *["random"] * 3, *["released"] * 2]
    assert both["epsilon"].tolist() == [1.0, 3.0, 1.0, np.inf, 3.0, np.inf]


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
