"""A folder is the set of its data files once; what is not read is said."""

import gzip
import os
import shutil

import pytest

from marginalia.data.checking import check
from marginalia.data.domain import Domain
from marginalia.data.sources.files import stream_files
from marginalia.data.sources.folder import data_files
from marginalia.data.sources.opening import Data
from marginalia.data.table import Table
from marginalia.errors import InputError

DOMAIN = Domain.from_sizes({"x": 2})
TEXT = "x\n" + "0\n1\n" * 50


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "t.csv").write_text(TEXT)
    return tmp_path / "f"


def symbolic(folder):
    (folder / "again.csv").symlink_to(folder / "t.csv")


def hard(folder):
    os.link(folder / "t.csv", folder / "again.csv")


def packed(folder):
    (folder / "t.csv.gz").write_bytes(gzip.compress(TEXT.encode()))


def outside(folder):
    """A link to a link, by another way."""
    (folder.parent / "way.csv").symlink_to(folder / "t.csv")
    (folder / "sub").mkdir()
    (folder / "sub" / "u.csv").symlink_to(folder.parent / "way.csv")


@pytest.mark.parametrize("twice", [symbolic, hard, packed, outside])
@pytest.mark.parametrize("form", ["folder", "pattern", "list"])
def test_one_file_under_two_names_is_refused(folder, twice, form):
    twice(folder)
    listed = sorted(map(str, [*folder.rglob("*.csv"), *folder.rglob("*.csv.gz")]))
    given = {"folder": str(folder), "pattern": f"{folder}/**/*.csv*", "list": listed}[form]
    with pytest.raises(InputError, match="rows would be counted twice"):
        stream_files(given, domain=DOMAIN)
    if form != "list":
        with pytest.raises(InputError, match="rows would be counted twice"):
            Data.parse(given).open(DOMAIN)
        assert "rows would be counted twice" in check(given, DOMAIN)[0]
        with pytest.raises(InputError, match="rows would be counted twice"):
            Data.parse(given).fingerprint()


def test_a_file_that_a_list_names_twice_is_refused(folder):
    path = str(folder / "t.csv")
    for given in ([path, path], [path, os.path.relpath(path)], [path, f"{folder}/./t.csv"]):
        with pytest.raises(InputError, match="rows would be counted twice"):
            stream_files(given, domain=DOMAIN)


def test_a_list_of_two_kinds_of_files_is_refused(folder):
    Table.read(folder / "t.csv", domain=DOMAIN).to_parquet(folder / "u.parquet")
    with pytest.raises(InputError, match=r"u\.parquet is Parquet and t\.csv is not"):
        stream_files([folder / "t.csv", folder / "u.parquet"], domain=DOMAIN)


@pytest.mark.parametrize(
    "left",
    [".ipynb_checkpoints/t-checkpoint.csv", "_temporary/0/part.csv", "_tmp.csv", "._t.csv", ".t.csv.swp.csv"],
)
@pytest.mark.parametrize("form", ["folder", "pattern"])
def test_hidden_files_are_skipped_and_said(folder, left, form):
    (folder / left).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / "t.csv", folder / left)
    (folder / "_SUCCESS").touch()
    given = str(folder) if form == "folder" else f"{folder}/**/*.csv"
    assert Data.parse(given).open(DOMAIN).n_rows == 100
    assert [path.name for path in Data.parse(given).files] == ["t.csv"]
    notes = []
    assert check(given, DOMAIN, notes=notes) == []
    if form == "folder":
        assert notes == [data_files(given, [".csv"]).line()]
        assert left.split("/")[0] in notes[0]
        assert "_SUCCESS" in notes[0]


def test_a_pattern_that_asks_for_hidden_files_gets_them(folder):
    shutil.copy(folder / "t.csv", folder / "_u.csv")
    assert Data.parse(f"{folder}/_*.csv").open(DOMAIN).n_rows == 100
    (folder / "t.csv").rename(folder / ".h.csv")
    assert Data.parse(f"{folder}/.*.csv").open(DOMAIN).n_rows == 100


def test_a_column_in_a_folders_name_is_no_hidden_folder(folder):
    (folder / "_year=2024").mkdir()
    shutil.move(folder / "t.csv", folder / "_year=2024" / "t.csv")
    assert Data.parse(str(folder)).open(DOMAIN).n_rows == 100


def test_what_is_no_table_and_links_to_folders_are_said(folder, tmp_path):
    (folder / "README.md").write_text("rows of 2024")
    (tmp_path / "elsewhere").mkdir()
    (folder / "more").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (folder / "round").symlink_to(folder, target_is_directory=True)
    found = data_files(folder, [".csv"])
    assert len(found.paths) == 1
    assert found.line() == "skipped: more/, round/ (a link to a folder); README.md (no table)"


def test_many_skipped_files_are_one_short_line(folder):
    for k in range(40):
        (folder / f".{k:02d}.csv").touch()
    assert data_files(folder, [".csv"]).line() == "skipped: .00.csv, .01.csv, .02.csv and 37 more (hidden)"


def test_a_link_that_leads_nowhere_is_not_left_out_in_silence(folder):
    (folder / "gone.csv").symlink_to(folder / "nowhere.csv")
    with pytest.raises(InputError, match=r"cannot read .*gone\.csv"):
        Data.parse(str(folder)).open(DOMAIN)


def test_a_folder_of_hidden_files_alone_says_so(folder):
    (folder / "t.csv").rename(folder / "_t.csv")
    with pytest.raises(InputError, match=r"neither CSV nor Parquet files; skipped: _t\.csv \(hidden\)"):
        Data.parse(str(folder)).open(DOMAIN)


def test_a_fit_says_what_it_skipped(folder, call, tmp_path):
    (folder / "_SUCCESS").touch()
    DOMAIN.to_json(tmp_path / "d.json")
    code, out, err = call(
        *("synthesize", "--method", "independent", "--data", folder, "--domain", tmp_path / "d.json"),
        *("--epsilon", 1, "--out", tmp_path / "s.csv"),
    )
    assert code == 0, err
    assert "skipped: _SUCCESS (hidden)" in out
