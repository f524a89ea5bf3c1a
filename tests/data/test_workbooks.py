"""Excel workbooks: cells by their own types, the choice of a sheet, and what is no table."""

import datetime
import sys

import pytest

from marginalia.data import datasets
from marginalia.data.catalogue.entry import parse_entry
from marginalia.data.cells import cells_of
from marginalia.data.domain import Domain
from marginalia.data.reading import read_raw
from marginalia.data.sources.opening import Data
from marginalia.data.workbooks import read_sheet
from marginalia.errors import InputError

openpyxl = pytest.importorskip("openpyxl")
DAY = datetime.datetime(2024, 1, 31)


def book(path, **sheets):
    made = openpyxl.Workbook()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    made.save(path)
    return path


def test_each_cell_has_its_own_type(tmp_path):
    rows = [["a", "b"], [1, "x"], [1.5, True], ["1", DAY], ["#N/A", None], [], ["007", datetime.time(10, 30)]]
    path = book(tmp_path / "t.xlsx", data=rows)
    cells = [[None if c is None else tuple(c) for c in cells_of(read_raw(path)[name]).rows()] for name in "ab"]
    assert cells[0] == [("number", "1"), ("number", "1.5"), ("text", "1"), ("text", "#N/A"), ("text", "007")]
    assert cells[1] == [
        ("text", "x"),
        ("boolean", "True"),
        ("time", "2024-01-31 00:00:00"),
        None,
        ("text", "10:30:00"),
    ]


def test_the_sheet_with_cells_is_read_and_of_several_one_has_to_be_named(tmp_path):
    path = book(tmp_path / "t.xlsx", empty=[], data=[["a"], [1], [0]])
    assert read_raw(path)["a"].tolist() == [1, 0]
    path = book(tmp_path / "t.xlsx", data=[["a"], [1], [0]], codes=[["a", "label"], [1, "yes"]])
    with pytest.raises(InputError, match=r"2 sheets have cells \(data, codes\); name one: '.*t\.xlsx\?sheet=data'"):
        read_raw(path)
    named = Data.parse(f"{path}?sheet=data")
    assert (named.is_streamed, named.files) == (False, [path])
    assert named.open(Domain.from_sizes({"a": 2})).column("a").tolist() == [1, 0]
    assert named.fingerprint()["name"] == f"{path}?sheet=data"
    with pytest.raises(InputError, match=r"unknown sheet of .* 'dat'; did you mean 'data'"):
        read_raw(f"{path}?sheet=dat")
    made = openpyxl.load_workbook(path)
    made["codes"].sheet_state = "hidden"
    made.save(path)
    assert len(read_raw(path)) == 2


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([], "the sheet is empty"),
        ([["Stays of 2024"], ["a", "b"], [1, 2]], "row 0: 2 cells, the header has 1 .*; remove rows above the header"),
        ([["a", None, "b"], [1, 2, 3]], "column 2 of 3 has no name in the header"),
        ([["a", "a"], [1, 2]], "column 'a' stands twice"),
    ],
)
def test_what_is_no_table_is_one_line(tmp_path, rows, line):
    with pytest.raises(InputError, match=line):
        read_raw(book(tmp_path / "t.xlsx", data=rows))


def test_columns_without_name_and_cells_are_not_there(tmp_path):
    path = book(tmp_path / "t.xlsx", data=[["a", None, None], [1, None, ""], [2, None, None]])
    assert list(read_raw(path).columns) == ["a"]


def test_a_library_or_file_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "t.xlsx").write_bytes(b"no workbook")
    with pytest.raises(InputError, match=r"t\.xlsx: not an Excel workbook that can be read"):
        read_raw(tmp_path / "t.xlsx")
    with pytest.raises(InputError, match=r"cannot read .*: No such file"):
        read_sheet(f"{tmp_path}/u.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(InputError, match="workbooks are read by openpyxl, which is not installed: pip install"):
        read_raw(tmp_path / "t.xlsx")


def test_a_data_set_of_a_sweep_may_name_a_sheet(tmp_path):
    path = book(tmp_path / "stays.xlsx", first=[["age"], [7]], second=[["age"], [8], [9]])
    own = {"files": {"table": "stays.xlsx?sheet=second"}, "tasks": {"linear": {"target": "age"}}}
    age = {"name": "age", "type": "integer", "labels": list(range(10))}
    entry = parse_entry("own", own | {"domain": {"attributes": [age]}}, folder=tmp_path)
    assert datasets.load(entry).table.column("age").tolist() == [8, 9]
    path.unlink()
    with pytest.raises(InputError, match=r"there is no file .*stays.xlsx; correct its path"):
        datasets.load(entry)
