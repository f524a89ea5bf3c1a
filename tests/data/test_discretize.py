import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginalia.data.catalogue.discretize import discretize, top_coded
from marginalia.data.catalogue.entry import Entry, parse_entry
from marginalia.data.coding import bin_codes
from marginalia.data.table import RawTable
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


def test_top_coded_counts_keep_their_text_below_the_last():
    frame = top_coded(pd.DataFrame({"a": ["0", "3", "4", "40"], "b": ["9", "9", "9", "9"]}), a=4)
    assert frame.to_dict("list") == {"a": ["0", "3", "4+", "4+"], "b": ["9", "9", "9", "9"]}


@pytest.mark.parametrize(
    ("column", "raw", "codes"),
    [
        ({"type": "boolean", "labels": ["no", "yes"]}, [1, 0, 1.0], [1, 0, 1]),
        ({"type": "boolean", "labels": ["moved", "same house"]}, [True, False, "1"], [1, 0, 1]),
        ({"type": "boolean", "labels": ["no", "yes"]}, ["FALSE", "TRUE", "no"], [0, 1, 0]),
        ({"type": "string", "labels": [0, 1, "2+"]}, ["1", 0.0, "2+"], [1, 0, 2]),
        ({"type": "string", "labels": ["N/A", 1, 2]}, [2.0, "N/A", 1.0], [2, 0, 1]),
        ({"type": "number", "edges": [0, 1, 10], "labels": ["none", "some"]}, [0, 1, 9], [0, 1, 1]),
    ],
)
def test_prepared_columns_get_the_codes_of_a_domain_file(column, raw, codes):
    entry = Entry(name="toy", source="arff", tasks={"linear": {"target": "c"}}, attributes=[{"name": "c", **column}])
    table = discretize(pd.DataFrame({"c": pd.Series(raw, dtype=object)}), entry)
    assert table.column("c").tolist() == codes
    assert table.domain["c"].type is None


@pytest.mark.parametrize("columns", [{}, {"domain": {"y": 2}}])
def test_an_entry_with_a_reader_lists_its_columns(columns):
    with pytest.raises(InputError, match=r"'toy': attributes: list the columns of source 'arff'"):
        parse_entry("toy", {"source": "arff", "tasks": {"linear": {"target": "y"}}, **columns})


def test_prepared_columns_to_be_learned_stay_raw():
    columns = [{"name": "x", "type": "number", "edges": {"private": "uniform", "bins": 4}}, {"name": "y", "size": 2}]
    entry = Entry(name="toy", source="arff", tasks={"linear": {"target": "y"}}, attributes=columns)
    table = discretize(pd.DataFrame({"left out": [1.0], "x": [0.25], "y": [1]}), entry)
    assert isinstance(table, RawTable)
    assert table.frame.to_dict("list") == {"x": [0.25], "y": [1]}
    assert [column.name for column in table.domain.open_columns] == ["x"]


def test_keys_of_raw_columns_are_unknown():
    column = {"name": "y", "type": "string", "labels": ["a"], "values": [1]}
    with pytest.raises(InputError, match="unknown key of column 'y' 'values'"):
        parse_entry("toy", {"source": "arff", "tasks": {"linear": {"target": "y"}}, "attributes": [column]})


def test_tables_take_only_listed_columns_in_the_listed_order():
    entry = Entry(
        name="toy",
        source="arff",
        tasks={"logistic": {"target": "y"}},
        attributes=[
            {"name": "y", "type": "string", "labels": ["n", "p"]},
            {"name": "a", "kind": "numeric", "type": "number", "edges": [0, 1, 6]},
        ],
        domain_source="documented",
    )
    frame = pd.DataFrame({"a": [0, 5], "y": ["p", "n"], "other": [1, 2]})
    table = discretize(frame, entry)
    assert table.domain.names == ("y", "a")
    assert table.domain.source == "documented"
    assert table.codes.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(InputError, match="toy: column 'y' of the domain is missing"):
        discretize(frame.drop(columns="y"), entry)
    with pytest.raises(InputError, match="toy: column 'y', row 0: 'q'"):
        discretize(frame.assign(y="q"), entry)
