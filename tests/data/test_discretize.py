import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginalia.data.catalogue.discretize import column_codes, discretize
from marginalia.data.catalogue.entry import Entry
from marginalia.data.coding import bin_codes
from marginalia.data.domain import parse_derived
from marginalia.errors import InputError

edges_and_values = st.lists(st.integers(-50, 50), min_size=2, max_size=8, unique=True).flatmap(
    lambda edges: st.tuples(st.just(sorted(edges)), st.lists(st.integers(min(edges), max(edges) - 1), min_size=1))
)


@pytest.mark.slow
@given(edges_and_values)
def test_left_closed_bins_hold_their_values_and_keep_order(case):
    edges, values = case
    codes = bin_codes(values, edges)
    for value, code in zip(values, codes, strict=True):
        assert edges[code] <= value < edges[code + 1]
    order = np.argsort(values)
    assert (np.diff(codes[order]) >= 0).all()


def test_values_outside_public_bins_have_no_code_unless_that_end_is_open():
    values = [-1, 3, 10, float("nan")]
    np.testing.assert_array_equal(bin_codes(values, [0, 5, 10]), [-1, 0, -1, -1])
    np.testing.assert_array_equal(bin_codes(values, [0, 5, 10], bottom=True), [0, 0, -1, -1])
    np.testing.assert_array_equal(bin_codes(values, [0, 5, 10], top=True), [-1, 0, 1, -1])


@pytest.mark.parametrize(
    ("spec", "raw", "codes", "size"),
    [
        ({"type": "string", "labels": ["no", "yes"], "values": [0, 1]}, [1, 0, 1.0], [1, 0, 1], 2),
        ({"type": "string", "labels": ["a", "?"]}, ["?", "a", "a"], [1, 0, 0], 2),
        ({"type": "number", "edges": {"bins": 5, "bounds": [0, 10]}}, ["0", "2", "9.9"], [0, 1, 4], 5),
        ({"type": "number", "edges": [0, 1, 10], "labels": ["none", "some"]}, [0, 1, 9], [0, 1, 1], 2),
        ({"top": 3}, [0, 2, 40], [0, 2, 3], 4),
        ({"among": ["x", 2]}, ["x", "y", "2"], [1, 0, 1], 2),
        ({"from": 10}, [9.5, 10, 11], [0, 1, 1], 2),
        ({"type": "string", "labels": ["N/A", 1, 2], "empty": "N/A"}, [2.0, np.nan, 1.0], [2, 0, 1], 3),
        ({"type": "string", "labels": ["N/A", "a"], "empty": "N/A"}, ["a", "", None], [1, 0, 0], 2),
        ({"type": "number", "edges": {"bins": 4, "bounds": [0, 4]}, "empty": 0}, [3.0, np.nan], [3, 0], 4),
    ],
)
def test_every_coding(spec, raw, codes, size):
    [derived] = parse_derived([{"name": "c", **spec}])
    np.testing.assert_array_equal(column_codes(pd.Series(raw), derived), codes)
    assert derived.attribute.size == size


def test_a_wrong_coding_is_one_clear_line():
    wrong = {
        "give one of": {"among": ["x"], "from": 3},
        "or type with labels": {"top": 3, "size": 2},
        "the count that is the last": {"top": "3"},
        "go with labels, one for one": {"type": "string", "labels": ["a", "b"], "values": ["a"]},
        "equal bins need their number": {"type": "number", "edges": {"bins": 5}},
        "bounds are two numbers": {"type": "number", "edges": {"bins": 5, "bounds": {"bins": 5}}},
        "nothing is bought": {"type": "string", "labels": "private"},
        "unknown key of attribute 'c'": {"amnog": ["x"]},
        "needs a size, labels or edges": {"type": "string"},
    }
    for words, spec in wrong.items():
        with pytest.raises(InputError, match=words):
            parse_derived([{"name": "c", **spec}])


def test_missing_values_need_a_rule():
    with pytest.raises(InputError, match="row 1: an empty cell has no code"):
        column_codes(pd.Series([1.0, np.nan]), *parse_derived([{"name": "c", "type": "string", "labels": ["1"]}]))


def test_tables_take_only_listed_columns_in_the_listed_order():
    entry = Entry(
        name="toy",
        source="arff",
        tasks={"logistic": {"target": "y"}},
        attributes=[
            {"name": "y", "column": "Y", "type": "string", "labels": ["n", "p"]},
            {"name": "a", "top": 2, "kind": "numeric"},
        ],
        domain_source="documented",
    )
    frame = pd.DataFrame({"a": [0, 5], "Y": ["p", "n"], "other": [1, 2]})
    table = discretize(frame, entry)
    assert table.domain.names == ("y", "a")
    assert table.domain["a"].labels == ("0", "1", "2+")
    assert table.domain.source == "documented"
    assert table.codes.tolist() == [[1, 0], [0, 2]]
    with pytest.raises(InputError, match="toy: column 'Y' is missing"):
        discretize(frame.drop(columns="Y"), entry)
    with pytest.raises(InputError, match="toy: column 'y', row 0: 'q'"):
        discretize(frame.assign(Y="q"), entry)
