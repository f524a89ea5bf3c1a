"""Tables whose first lines are no header: values, or a second line of names."""

import pandas as pd
import pytest

from marginalia.data.domain import Domain
from marginalia.data.headers import second_header, value_in_header
from marginalia.data.reading import read_raw
from marginalia.data.table import Table
from marginalia.errors import InputError

AGES = [str(age) for age in range(20, 40)]


@pytest.mark.parametrize(
    ("names", "value"),
    [
        (["39", "State-gov", "77516", "13"], "39"),
        (["Anna", "1980-02-01", "F"], "1980-02-01"),
        (["Anna", "01.02.80", "F"], "01.02.80"),
        (["7", "7"], "7"),
        (["a", "2,5", "1,5"], "2,5"),
        (["id", "2019", "2020", "2021"], ""),
        (["0", "1", "2"], ""),
        (["2024-01-31", "2024-02-29"], ""),
        (["q1", "q2", "age at 30"], ""),
        (["7"], ""),
    ],
)
def test_values_in_a_header(names, value):
    assert value_in_header(names) == value


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"a": ["years", *AGES], "b": ["kg", *AGES], "c": ["", *"xy" * 10]}, "'years', 'kg'"),
        ({"a": ["Age of the person", *AGES], "b": ["Day", *(f"2024-01-{age}" for age in range(10, 30))]}, "'Age"),
        ({"a": ["years", *AGES], "b": ["x", *"xy" * 10]}, ""),  # one odd cell: the draft names it
        ({"a": ["NA", *AGES], "b": ["NA", "NA", *AGES[1:]]}, ""),  # marks of missing values, which come again
        ({"a": ["30", *AGES], "b": ["31", *AGES]}, ""),
        ({"a": ["x", "1", "2"], "b": ["y", "1", "2"]}, ""),  # too few values to tell
    ],
)
def test_a_second_header_line(columns, found):
    assert second_header(pd.DataFrame(columns)).startswith(found)
    assert bool(second_header(pd.DataFrame(columns))) == bool(found)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("39,State-gov,77516,13\n50,Self,83311,13\n", "the first line holds a value ('39') and no names; add a header"),
        ("a;b\nyears;kg\n3;4\n5;6\n7;8\n", "row 0 holds no values ('years', 'kg'); remove the second header line"),
    ],
)
def test_a_draft_is_refused_in_one_line(tmp_path, call, text, line):
    (tmp_path / "t.csv").write_text(text)
    code, out, err = call("domain", "init", tmp_path / "t.csv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert line in err
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_fit_of_a_file_without_a_header_is_told_so(tmp_path):
    (tmp_path / "t.csv").write_text("1,0,1\n0,1,2\n0,0,1\n".replace("1,0,1", "1,0,2"))
    with pytest.raises(InputError, match=r"column 'a' of the domain is missing.*; the first line has to be a header"):
        Table.read(tmp_path / "t.csv", domain=Domain.from_sizes({"a": 2, "b": 2, "c": 3}))
    assert list(read_raw(tmp_path / "t.csv").columns) == ["1", "0", "2"]
