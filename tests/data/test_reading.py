"""Files as people have them: separators, encodings, quotes, gaps; and what no table is."""

import contextlib
import gzip
import io
import threading
import zipfile

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from marginalia.data import csv_files, reading, values
from marginalia.data.csv_files import CSVFile, quotes_are_plain
from marginalia.data.domain import Domain
from marginalia.data.reading import read_raw
from marginalia.data.sources.opening import Data
from marginalia.errors import InputError


def read(folder, content, name="t.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    frame = read_raw(path)
    return list(frame.columns), frame.astype(object).to_numpy().tolist()


TABLE = (["a", "b c"], [["1", "x"], ["2", ""]])


@pytest.mark.parametrize(
    "content",
    [
        "a,b c\n1,x\n2,\n",
        "a;b c\n1;x\n2;\n",
        "a\tb c\n1\tx\n2\t\n",
        "a|b c\n1|x\n2|\n",
        "a , b c\n 1, x \n2,  \n",
        '"a","b c"\n"1","x"\n"2",""',
        'a, "b c"\n1, "x"\n2, ""\n',
        "\ufeffa,b c\n1,x\n2,\n",
        "a,b c\r\n1,x\r\n2,\r\n",
        "sep=;\r\na;b c\r\n1;x\r\n2;\r\n",
        "a,b c\n\n1,x\n\n\n2,\n\n",
    ],
)
def test_one_table_in_many_spellings(tmp_path, content):
    assert read(tmp_path, content) == TABLE


def test_separators_quotes_and_line_breaks_in_cells(tmp_path):
    names, rows = read(tmp_path, 'id;text\n1;"a;b"\n2;"c\nd"\n3;"say ""x"""\n4;5,5\n')
    assert names == ["id", "text"]
    assert [r[1] for r in rows] == ["a;b", "c\nd", 'say "x"', "5,5"]


def test_packed_files(tmp_path, monkeypatch):
    content = b"a,b c\n1,x\n2,\n"
    assert read(tmp_path, gzip.compress(content), "t.csv.gz") == TABLE
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.writestr("t.csv", content)
    assert read(tmp_path, (tmp_path / "one.zip").read_bytes(), "t.zip") == TABLE
    monkeypatch.setattr(reading, "LARGEST", 5)
    for name in ("t.csv.gz", "t.zip"):
        with pytest.raises(InputError, match="unpacks to more than"):
            read_raw(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "t.zip", "a") as archive:
        archive.writestr("u.csv", content)
    with pytest.raises(InputError, match=r"a zip with 2 files \(t\.csv, u\.csv\); unpack it and name the table"):
        read_raw(tmp_path / "t.zip")


def test_of_a_zip_what_a_system_adds_is_not_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        for name, content in (("data/", ""), ("data/t.csv", "a,b c\n1,x\n2,\n"), ("__MACOSX/data/._t.csv", "?")):
            archive.writestr(name, content)
    assert read(tmp_path, (tmp_path / "one.zip").read_bytes(), "t.zip") == TABLE
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.write(tmp_path / "one.zip", "t.csv.zip")
    with pytest.raises(InputError, match="a packed file inside a packed one"):
        read_raw(tmp_path / "two.zip")


def test_a_zip_is_streamed_and_a_protected_one_is_one_line(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("folder/t.csv", 'a\n"0"\n1\n1\n')
    domain = Domain.from_sizes({"a": 2})
    assert Data.parse(tmp_path / "t.zip").stream(domain).counts(["a"]).tolist() == [1, 2]
    content = bytearray((tmp_path / "t.zip").read_bytes())
    content[content.rfind(b"PK\x01\x02") + 8] |= 1  # "encrypted"
    (tmp_path / "t.zip").write_bytes(content)
    for read in (read_raw, lambda path: Data.parse(path).stream(domain)):
        with pytest.raises(InputError, match=r"t\.zip: the packed file is damaged or protected; unpack it first"):
            read(tmp_path / "t.zip")


def test_workbooks_are_called_so(tmp_path):
    with zipfile.ZipFile(tmp_path / "new.xlsx", "w") as archive:
        for name in ("[Content_Types].xml", "xl/workbook.xml"):
            archive.writestr(name, "<x/>")
    (tmp_path / "old.xls").write_bytes(b"\xd0\xcf\x11\xe0" + bytes(100))
    (tmp_path / "new.xlsx").rename(tmp_path / "new.csv")
    for name, fix in (("new.csv", "let its name end in .xlsx"), ("old.xls", "save it as .xlsx")):
        with pytest.raises(InputError, match=f"{name}: an Excel workbook.*; {fix}"):
            read_raw(tmp_path / name)


def test_one_column_and_many_columns(tmp_path):
    assert read(tmp_path, 'a\nx\n""\ny\n') == (["a"], [["x"], [""], ["y"]])
    names = [f"c{j}" for j in range(200)]
    assert read(tmp_path, ",".join(names) + "\n" + ",".join("1" * 200) + "\n") == (names, [["1"] * 200])


def test_cells_stay_text(tmp_path):
    _, rows = read(tmp_path, "a,b,c,d\nNA,null,007,1e5\nTrue,None,-,nan\n")
    assert rows == [["NA", "null", "007", "1e5"], ["True", "None", "-", "nan"]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"\n \n", "the file is empty"),
        (b"a,b\n1,2\n3\n", r"row 1: 1 cell, the header has 2 \(rows count from 0"),
        (b"a,b\n1,2\n\n3,4,5\n", "row 1: 3 cells, the header has 2"),
        (b'a,b\n1,"2"\n\n3,4,5\n', "row 1: 3 cells, the header has 2"),
        pytest.param(  # 32 MiB
            *(b"a,b\n1," + b"x" * 2**25 + b"\n", "not a CSV table .*a line of more than"), marks=pytest.mark.slow
        ),
        (b"a,b\n1,2\n3,\x00\n", "line 3: a NUL byte"),
        ("a,b\n1,\n2,caf\xe9\n".encode("latin-1"), r"line 3: byte 0xe9 is not UTF-8 \(Latin-1: '\xe9'\)"),
        ("a,b\n1,2\n".encode("utf-16"), "the file is UTF-16; save it as UTF-8"),
        ("a,b\n1,2\n".encode("utf-16-le"), "the file is UTF-16; save it as UTF-8"),
        (b"# by SAP\na;b\n1;2\n", "line 1 is a comment; remove it, so that the first line names the columns"),
        (b"# by SAP, 2024\n#\na,b\n1,2\n", "lines 1 to 2 are comments; remove them"),
        (b"// by SAP\n\na,b\n1,2\n", "line 1 is a comment"),
        (b"Stays, 2024\na;b;c\n1;2;3\n", "row 0: 1 cell, the header has 2 .*; remove lines above the header"),
        (b"a,b\n1,2,3\n4,5,6\n", "row 0: 3 cells, the header has 2 .*, give each column a name in it"),
        (b"39,x,13\n50,y,13\n13,x,9\n".replace(b"39", b"13"), "'13' stands twice.*, or add a header line"),
        (b"PAR1" + bytes(9), "a Parquet file; let its name end in .parquet"),
        (b"<stata_dta><header>" + bytes(9), "a Stata file; let its name end in .dta"),
        (b"$FL2@(#) SPSS" + bytes(9), "an SPSS file; let its name end in .sav"),
        (gzip.compress(b"RDX3\nX\n" + bytes(9), mtime=0), "a file of R"),
        (b"\x1f\x8b\x08", "the packed file is damaged"),
        (b"PK\x03\x04", "the packed file is damaged"),
        (b"a,b,a\n1,2,3\n", "column 'a' stands twice in the header"),
        (b"a,b, a\n1,2,3\n", "column 'a' stands twice in the header"),
        (b",a,b\n0,1,2\n", "column 1 of 3 has no name in the header"),
        (b'a,b\n1,"2\n3,4\n', "not a CSV table"),
        (b'a,b\n1,"2"x\n', "not a CSV table"),
        (b'a,b\n1, "' + b"x" * 200_000 + b'"\n', "not a CSV table .*field"),
        ("Stays of 2024\n\na,b\n1,2\n", "row 0: 2 cells, the header has 1 .*; remove lines above the header"),
    ],
)
def test_what_is_no_table_is_one_clear_line(tmp_path, content, said):
    with pytest.raises(InputError, match=f"t.csv.*{said}") as error:
        read(tmp_path, content)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("rows", [b"1,2\n" * 40, b"1,2\n" * 10 + b"3\n" + b"1,2\n" * 29])
@pytest.mark.slow
def test_no_thread_of_another_library_runs_python(rows, monkeypatch):
    # It may be at it when the interpreter ends after an error, and then the process hangs or aborts.
    class File(io.BytesIO):
        def read(self, size=-1):
            readers.append(threading.get_ident())
            return super().read(size)

    readers = []
    monkeypatch.setattr(csv_files, "_PART", 16)
    monkeypatch.setattr(csv_files, "_opened", lambda path: File(b"a,b\n" + rows))
    with contextlib.suppress(InputError):
        assert sum(batch.num_rows for batch in CSVFile("t.csv", ("a", "b"), ",", 0, True).batches()) == 40
    assert set(readers) == {threading.get_ident()}


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("part", [1, 3, 8, 64])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rows_do_not_depend_on_the_parts_they_are_read_in(tmp_path, monkeypatch, part, end, plain):
    cells = [f'{i}", ""{end}' * (i % 3) for i in range(30)]
    lines = [f"{i},{quoted(cell)}" if i % 2 or plain else f"{i}, {quoted(cell)}" for i, cell in enumerate(cells)]
    (tmp_path / "t.csv").write_bytes(end.join(["a,b", *lines, "", "7"]).encode())
    file = CSVFile.scan(tmp_path / "t.csv")
    assert file.plain == plain
    monkeypatch.setattr(csv_files, "_PART", part)
    monkeypatch.setattr(csv_files, "_ROWS", part)
    found = []
    with pytest.raises(InputError, match=r"t.csv, row 30: 1 cell, the header has 2"):
        found.extend(cell for batch in file.batches() for cell in batch.column("b").to_pylist())
    assert found == [cell.strip() for cell in cells[: len(found)]]
    assert len(found) > 20 or part == 64


def quoted(cell):
    return '"' + cell.replace('"', '""') + '"'


@pytest.mark.parametrize("part", [1, 2, 5, 100])
@pytest.mark.parametrize(
    ("content", "plain"),
    [
        (b'a,b\n"x","y"\n', True),
        (b'"a",b\n"x ""1""","\n"\n""""\r\n"",""', True),
        (b'a,b\n"x",y"\n', False),
        (b'a,b\n"x"y,1\n', False),
        (b'a,b\n"x" ,1\n', False),
        (b'a,b\n1, "x"\n', False),
        (b'a,b\n1,"x\n2,3\n', False),
        (b'a,b\n5",6"\n', False),
    ],
)
def test_plain_quotes(content, plain, part):
    assert quotes_are_plain([content[i : i + part] for i in range(0, len(content), part)], ",") == plain


def test_a_last_row_of_empty_cells_is_a_row(tmp_path):
    assert read(tmp_path, "a\tb\n1\t2\n\t") == (["a", "b"], [["1", "2"], ["", ""]])


def test_parquet_as_it_is(tmp_path):
    frame = pd.DataFrame({"n": [1, None], "s": ["x", None]})
    frame.to_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(read_raw(tmp_path / "t.parquet"), frame)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(InputError, match="not a Parquet file") as error:
        read_raw(tmp_path / "bad.parquet")
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_flipped_bit_in_a_parquet_file_is_one_line(tmp_path):
    """Of 12,424 flips 390 ended in a traceback: KeyError, TypeError or ArrowNotImplementedError. Here some of each."""
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1, 2]}, dtype="int32").to_parquet(path)
    whole = path.read_bytes()
    flips = [(at, bit) for at in range(len(whole) - 100, len(whole) - 60) for bit in range(8)]  # the types
    flips += [(at, 2) for at in range(700, len(whole) - 100, 5)]  # what pandas has noted
    for at, bit in flips:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
        with contextlib.suppress(InputError):
            read_raw(path)
    for at in range(0, len(whole), 2):  # what a file says of its rows
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with contextlib.suppress(InputError):
            Data.parse(path).stream(Domain.from_sizes({"a": 3})).in_memory()


def test_a_parquet_date_that_python_has_none_for_is_read(tmp_path):
    pq.write_table(pa.table({"born": pa.array([0, -800_000], pa.date32())}), tmp_path / "t.parquet")
    assert read_raw(tmp_path / "t.parquet")["born"].map(values.text).tolist() == ["1970-01-01", "-0221-09-04"]
