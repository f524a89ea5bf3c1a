import numpy as np
import pandas as pd
import pytest
from paired import gaps, put, splits


def test_a_split_is_of_all_rows_and_another_one_for_each_number_and_stream():
    (_, task, train, test), (_, _, again, _) = splits("breast_cancer", "logistic", 2, stream=1)
    assert (train.n_rows, test.n_rows) == (456, 113)
    assert task.target in train.domain.names
    ((_, _, other, _),) = splits("breast_cancer", "logistic", 1, stream=2)
    ((_, _, same, _),) = splits("breast_cancer", "logistic", 1, stream=1)
    assert np.array_equal(train.codes, same.codes)
    assert not np.array_equal(train.codes, again.codes)
    assert not np.array_equal(train.codes, other.codes)


@pytest.mark.parametrize("sign", [1, -1])
def test_gaps_are_those_of_the_same_split(sign):
    values = {"ours": (3.0, 5.0, 10.0), "limit": (1.0, 4.0, 4.0)}  # in this order, not that of the alphabet
    rows = [(epsilon, arm, split, values[arm][split]) for split in range(3) for epsilon in (8.0, 0.1) for arm in values]
    found = gaps(pd.DataFrame(rows, columns=["epsilon", "arm", "split", "value"]), "limit", name="better_by", sign=sign)
    assert found[["epsilon", "arm", "mean", "better_by"]].to_numpy().tolist() == [
        [epsilon, *line] for epsilon in (0.1, 8.0) for line in (["ours", 6.0, 3.0 * sign], ["limit", 3.0, 0.0])
    ]
    assert found["stderr"].tolist() == pytest.approx([np.std([2, 1, 6], ddof=1) / 3**0.5, 0] * 2)


def test_lines_come_where_those_of_their_key_stood(tmp_path):
    path = tmp_path / "lines.csv"
    for name, value in (("b", 1), ("a", 2), ("c", 3)):
        whole = put(path, pd.DataFrame({"dataset": [name] * 2, "value": [value, value]}), ("dataset",))
    assert whole["dataset"].tolist() == list("bbaacc")
    before = path.read_bytes()
    put(path, pd.DataFrame({"dataset": ["a"] * 2, "value": [2, 2]}), ("dataset",))
    assert path.read_bytes() == before
    put(path, pd.DataFrame({"dataset": ["a"], "value": [7]}), ("dataset",))
    assert pd.read_csv(path)["value"].tolist() == [1, 1, 7, 3, 3]
