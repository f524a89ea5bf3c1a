"""What a command line calls data: which of it is streamed, what is said of it, and the same release either way."""

import hashlib
import json
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Column, Domain
from marginalia.data.sources import opening
from marginalia.data.sources.opening import Data
from marginalia.data.sources.stream import Stream
from marginalia.data.table import Table
from marginalia.errors import InputError

DOMAIN = Domain(
    [
        Column("ward", 3, type="string", labels=("A", "B"), missing=()),
        Column("age", 3, "numeric", type="integer", edges=(0, 30, 60, 90)),
        Column("ill", 2),
    ]
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """One table as CSV, as Parquet in three files, and in a database in another order."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"ward": rng.choice(["A", "B", None], 500), "age": rng.integers(0, 90, 500), "ill": rng.integers(0, 2, 500)}
    )
    frame.to_csv("t.csv", index=False)
    frame.to_parquet("t.parquet")
    for i in range(3):
        Path(f"year={i}").mkdir()
        frame[i::3].to_parquet(f"year={i}/part-0.parquet")
        frame[i::3].to_csv(f"year={i}/part-0.csv", index=False)
    mixed = frame.sample(frac=1, random_state=1)
    with duckdb.connect("clinic.db") as connection:
        connection.register("mixed", mixed)
        connection.execute("CREATE TABLE stays AS SELECT * FROM mixed")
    DOMAIN.to_json("d.json")
    return tmp_path


PARTS = "year=*/part-*.parquet"
TEXTS = "year=*/part-*.csv"
STAYS = "duckdb:///clinic.db?table=stays"


def test_a_single_file_is_read_unless_it_is_large(folder, monkeypatch):
    assert isinstance(Data.parse("t.csv").open(DOMAIN), Table)
    assert isinstance(Data.parse("t.parquet").open(DOMAIN), Table)
    assert isinstance(Data.parse(PARTS).open(DOMAIN), Stream)
    Path("year=2/part-0.csv").rename("other.csv")
    assert isinstance(Data.parse("year=2").open(DOMAIN), Stream)
    Path("other.csv").rename("year=2/part-0.csv")
    assert isinstance(Data.parse(TEXTS).open(DOMAIN), Stream)
    monkeypatch.setattr(opening, "LARGEST_PARQUET", 3 * 500 - 1)
    assert isinstance(Data.parse("t.parquet").open(DOMAIN), Stream)
    monkeypatch.setattr(opening, "LARGEST_PARQUET", 3 * 500)
    assert not Data.parse("t.parquet").is_streamed
    monkeypatch.setattr(opening, "LARGEST_TEXT", Path("t.csv").stat().st_size - 1)
    assert isinstance(Data.parse("t.csv").open(DOMAIN), Stream)


def test_a_pattern_without_a_file_is_refused(folder):
    with pytest.raises(InputError, match="no file matches none"):
        Data.parse("none*.parquet").open(DOMAIN)


def test_a_folder_of_two_kinds_of_files_is_refused(folder):
    Path("year=0/NOTES.md").write_text("notes")
    assert Data.parse("year=0").files == [Path("year=0/part-0.csv"), Path("year=0/part-0.parquet")]
    for data in ("year=0", "year=0/part*"):
        with pytest.raises(InputError, match=r"part-0.parquet is Parquet and part-0.csv is not; .* of one kind"):
            Data.parse(data).open(DOMAIN)
    Path("year=0/part-0.csv").unlink()
    assert Data.parse("year=0").open(DOMAIN).n_rows == 167


def test_a_folder_without_tables_is_refused(folder):
    Path("empty").mkdir()
    with pytest.raises(InputError, match="empty: this folder holds neither CSV nor Parquet files"):
        Data.parse("empty").open(DOMAIN)


def test_a_missing_parquet_file_is_said_to_be_missing(folder):
    with pytest.raises(InputError, match=r"cannot read no\.parquet: No such file or directory"):
        Data.parse("no.parquet").open(DOMAIN)


def test_a_url_with_one_slash_is_told_of_the_second(folder):
    with pytest.raises(InputError, match="two slashes"):
        Data.parse("duckdb:/clinic.db?table=stays").open(DOMAIN)


def test_a_pattern_that_the_shell_took_apart_is_to_be_quoted(folder, call):
    code, _, err = call(*SYNTHESIZE, "--data", "year=0/part-0.csv", "year=1/part-0.csv", "--out", "s.csv")
    assert code == 2
    assert err.endswith("a pattern of files stands in quotes, or the shell takes it apart\n")


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(folder):
    Path("t.parquet").rename("t[1].parquet")
    assert not Data.parse("t[1].parquet").is_streamed
    assert Data.parse("t[1].parquet").open(DOMAIN).n_rows == 500


SYNTHESIZE = ["synthesize", "--method", "independent", "--domain", "d.json", "--epsilon", "1", "--seed", "1", "--json"]
FIT = ["fit", "--method", "ada_ssp", "--domain", "d.json", "--epsilon", "1", "--seed", "1", "--target", "age", "--json"]


@pytest.mark.slow
def test_the_command_line_releases_the_same_from_all(folder, call):
    made, models = set(), set()
    for i, data in enumerate(["t.csv", "t.parquet", PARTS, TEXTS, STAYS]):
        code, out, _ = call(*SYNTHESIZE, "--data", data, "--out", f"s{i}.csv")
        assert code == 0
        assert json.loads(out)["data"]["name"] == data
        made.add(Path(f"s{i}.csv").read_bytes() + Path(f"s{i}.csv.certificate.json").read_bytes())
        code, out, _ = call(*FIT, "--data", data, "--out", f"m{i}.json")
        assert code == 0
        models.add(Path(f"m{i}.json").read_bytes())
    assert len(made) == len(models) == 1


def test_rows_that_no_fit_counts_are_said_to_be_read(folder, call):
    logistic = ["fit", "--method", "logistic", "--domain", "d.json", "--target", "ill", "--epsilon", "1"]
    code, out, _ = call(*logistic, "--data", PARTS)
    assert code == 0
    assert f"data: {PARTS}, rows read as they are, none counted" in out


def test_a_file_of_the_pattern_is_not_overwritten(folder, call):
    code, _, err = call(*SYNTHESIZE, "--data", PARTS, "--out", "year=1/part-0.parquet")
    assert code == 2
    assert "which would be overwritten" in err


@pytest.mark.parametrize("data", [PARTS, STAYS])
def test_what_is_learned_needs_a_file(folder, call, data):
    content = json.loads(Path("d.json").read_text())
    content["attributes"][0] = {"name": "ward", "type": "string", "labels": "private"}
    Path("d.json").write_text(json.dumps(content))
    code, _, err = call(*SYNTHESIZE, "--data", data, "--out", "s.csv")
    assert code == 2
    assert "private preprocessing needs the rows in one file" in err
    assert not Path("s.csv").exists()


@pytest.mark.parametrize("data", [PARTS, STAYS])
def test_all_values_of_a_stream_are_checked(folder, call, data):
    assert call("datasets", "check", data, "--domain", "d.json") == (0, f"{data}: ok\n", "")
    narrow = Domain([DOMAIN["ward"], Column("age", 1, type="integer", edges=(0, 60)), Column("ill", 1)])
    narrow.to_json("d.json")
    ages = pd.read_csv("t.csv")["age"]
    code, _, err = call("datasets", "check", data, "--domain", "d.json")
    assert code == 2
    lines = err.splitlines()
    assert len(lines) == 2
    assert f"column 'age': {(ages >= 60).sum()} of 500 rows: " in lines[0]
    assert "column 'ill': " in lines[1]


def test_an_empty_table_has_no_rows(folder, call):
    code, _, err = call(
        *SYNTHESIZE, "--data", "duckdb:///clinic.db?query=SELECT * FROM stays WHERE age > 99", "--out", "s.csv"
    )
    assert code == 2
    assert err.endswith("the table has no rows\n")


def test_files_are_named_by_their_hash(folder):
    whole = hashlib.sha256(Path("t.csv").read_bytes()).hexdigest()
    assert Data.parse("t.csv").fingerprint() == {"name": "t.csv", "sha256": whole}
    each = [hashlib.sha256(path.read_bytes()).digest() for path in Data.parse(PARTS).files]
    assert Data.parse(PARTS).fingerprint() == {
        "name": PARTS,
        "files": 3,
        "sha256": hashlib.sha256(b"".join(each)).hexdigest(),
    }
    assert Data.parse(STAYS).fingerprint()["sha256"] == hashlib.sha256(Path("clinic.db").read_bytes()).hexdigest()
    with pytest.raises(InputError, match=r"cannot read none\.csv"):
        Data.parse("none.csv").fingerprint()
