"""Files of Stata, SPSS and SAS: labels, codes of missing answers, dates, and cells that no other cell changes."""

import datetime
import sys

import numpy as np
import pandas as pd
import pytest
import yaml

from marginalia.data.cells import cells_of
from marginalia.data.domain import Domain
from marginalia.data.drafting import draft
from marginalia.data.labelled_drafts import no_answers
from marginalia.data.labelled_files import ValueLabels, read_labelled, with_labels
from marginalia.data.reading import read_declared, read_raw
from marginalia.data.sources.opening import Data
from marginalia.data.table import Table
from marginalia.errors import InputError

N = 200
LABELS = {
    "sex": {1: "male", 2: "female", 3: "diverse", 9: "refused"},
    "answer": {0: "never", 10: "always", 98: "don't know"},
    "income": {-99: "refused", 999999: "not asked"},
    "region": {"N": "north", "S": "south", "E": "east"},
}


def rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "sex": rng.choice([1.0, 2.0, 9.0], N),
            "answer": rng.integers(0, 11, N).astype(float),
            "income": np.round(rng.lognormal(8, 0.5, N)),
            "region": rng.choice(["N", "S"], N),
            "day": [datetime.date(2024, 1, 1) + datetime.timedelta(int(i)) for i in rng.integers(0, 300, N)],
        }
    )
    frame.loc[:9, "income"], frame.loc[10:14, "income"], frame.loc[15:17, "answer"] = -99, 999999, 98
    frame.loc[20:22, "sex"] = np.nan
    return frame


@pytest.fixture
def spss(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    missing = {"sex": [9], "answer": [{"lo": 97, "hi": 99}], "income": [-99], "region": ["E"]}
    facts = {"variable_value_labels": LABELS, "missing_ranges": missing, "variable_measure": {"sex": "ordinal"}}
    pyreadstat.write_sav(rows(), str(tmp_path / "s.sav"), **facts)
    return tmp_path / "s.sav"


@pytest.fixture
def stata(tmp_path):
    frame = rows()
    for name in ("sex", "answer", "income"):
        frame[name] = frame[name].astype("float32" if name == "sex" else "int32")
    labels = {name: labels for name, labels in LABELS.items() if name != "region"}
    frame["day"] = pd.to_datetime(frame["day"])
    frame.to_stata(tmp_path / "s.dta", write_index=False, value_labels=labels, convert_dates={"day": "td"})
    return tmp_path / "s.dta"


def drafted(path):
    frame, labels = read_declared(path)
    return {column.name: column.keys for column in draft(frame, labels=labels).columns}


def test_a_draft_of_spss_keeps_labels_and_missing_answers(spss):
    found = drafted(spss)
    assert found["sex"] == {
        "type": "string",
        "labels": ["male", "female", "diverse"],
        "kind": "ordinal",
        "special": ["refused"],
        "missing": [],
        "inferred": ["type", "labels", "missing", "special"],
    }
    assert found["answer"]["special"] == ["don't know", "97", "99"]
    assert found["income"]["special"] == ["refused", "not asked"]
    assert found["income"]["inferred"] == ["type", "special"]
    assert found["region"]["labels"] == ["north", "south"]
    assert found["region"]["special"] == ["east"]
    assert found["day"]["type"] == "date"


def test_a_draft_of_stata_keeps_labels_that_no_row_has(stata):
    found = drafted(stata)
    assert found["sex"]["labels"] == ["male", "female", "diverse", "refused"]
    assert found["sex"]["inferred"] == ["type", "labels", "missing"]  # 9 is not far above 3
    assert (found["answer"]["type"], found["answer"]["special"]) == ("integer", ["don't know"])
    assert found["income"]["special"] == ["refused", "not asked"]


@pytest.mark.parametrize(
    ("codes", "texts", "far"),
    [
        ([1, 2, 3, 4, 97, 99], "abcdef", "ef"),
        ([1, 2, 8, 9], "abcd", ""),
        ([-9, 0, 1], "abc", "a"),
        ([-2, -1, 0, 1, 2], "abcde", ""),
        ([-2, -1, 1, 2], "abcd", "ab"),
        ([1, 99], "ab", ""),
        ([1, 2, 3, 90], "abcd", ""),
        ([1, 2, 3, 88], "abcd", "d"),
        ([1110, 1120, 2110, 9510], "abcd", ""),
        ([0, 1, 2, 3], ["1. a", "2. b", "98. c", "99: d"], ["98. c", "99: d"]),
        ([0, 1, 2], ["[1] a", "b", "[99] c"], []),
        ([1], "a", ""),
    ],
)
def test_codes_far_above_the_others_stand_for_no_answer(codes, texts, far):
    assert no_answers(ValueLabels({str(c): t for c, t in zip(codes, texts, strict=True)})) == list(far)


@pytest.mark.parametrize("kind", ["spss", "stata"])
def test_the_domain_decides_whether_a_code_or_its_label_is_read(kind, request):
    path, answers = request.getfixturevalue(kind), list(range(11))
    by_label = [{"name": "sex", "type": "string", "labels": ["female", "male"], "special": ["refused"], "missing": []}]
    by_code = [{"name": "sex", "type": "integer", "labels": [2, 1], "special": ["9"], "missing": []}]
    of_answer = [{"name": "answer", "type": "integer", "labels": answers, "special": ["don't know"]}]
    by_number = [{"name": "answer", "type": "integer", "labels": answers, "special": ["98"]}]
    ignored = ["income", "region", "day"]
    tables = [
        Table.read(path, domain=Domain.from_dict({"attributes": columns, "ignored": ignored}))
        for columns in (by_label + of_answer, by_code + by_number)
    ]
    assert (tables[0].codes == tables[1].codes).all()
    expected = rows()
    assert (tables[0].column("answer")[18:] == expected["answer"][18:]).all()
    assert (tables[0].column("answer")[15:18] == 11).all()
    assert (tables[0].column("sex")[20:23] == 3).all()
    assert ((tables[0].column("sex") == 0) == (expected["sex"] == 2)).all()


def test_the_file_its_frame_and_its_csv_file_have_the_same_codes(tmp_path):
    """What `pd.read_stata` makes of a file, and what most people write as CSV from that."""
    frame = pd.DataFrame(
        {
            "sex": pd.Categorical.from_codes([0, 1, 1, 0], ["[1] Male", "[2] Female"]),
            "weight": np.array([0.1, 2.5, np.nan, 1 / 3], "float32"),
            "seen": pd.to_datetime(["2025-03-01 10:30", "2025-03-02 00:00", "2025-04-01 23:59", None]),
        }
    )
    frame.to_stata(tmp_path / "t.dta", write_index=False, convert_dates={"seen": "tc"})
    pd.read_stata(tmp_path / "t.dta").to_csv(tmp_path / "t.csv", index=False)
    weight = {"name": "weight", "type": "number", "edges": [0, 0.1, 1, 3], "missing": []}
    seen = {"name": "seen", "type": "timestamp", "unit": "hour", "edges": ["2025-03-01", "2025-03-02", "2025-05-01"]}
    sex = {"name": "sex", "type": "string", "labels": ["[1] Male", "[2] Female"]}
    domain = Domain.from_dict({"attributes": [sex, weight, seen | {"missing": []}]})
    tables = [Table.read(tmp_path / name, domain=domain) for name in ("t.dta", "t.csv")]
    tables.append(Table.from_frame(pd.read_stata(tmp_path / "t.dta"), domain))
    tables.append(Data.parse(tmp_path / "t.dta").stream(domain).in_memory())
    # With a gap pandas hands out objects, in double precision: 0.1 would be 0.10000000149.
    assert [cell.text for cell in cells_of(read_raw(tmp_path / "t.dta")["weight"]).listed] == [
        "0.1",
        "2.5",
        "0.33333334",
    ]
    assert tables[0].codes.tolist() == [[0, 1, 0], [1, 2, 1], [1, 3, 1], [0, 1, 2]]
    assert all((table.codes == tables[0].codes).all() for table in tables)


@pytest.mark.parametrize("kind", ["spss", "stata"])
def test_a_cell_is_read_the_same_whatever_the_other_rows_hold(kind, request, tmp_path):
    path = request.getfixturevalue(kind)
    whole, labels = read_declared(path)
    domain = Domain.from_dict(
        {
            "attributes": [
                {"name": "sex", "type": "string", "labels": "private"},
                {"name": "income", "type": "integer", "edges": {"private": "adaptive"}, "special": ["refused"]},
            ],
            "ignored": ["answer", "region", "day"],
        }
    )
    read = with_labels(whole, labels, domain)
    for part in (slice(0, 1), slice(20, 23), slice(12, 60)):
        some = with_labels(whole.iloc[part].reset_index(drop=True), labels, domain)
        for name in ("sex", "income"):
            assert cells_of(some[name]).rows().tolist() == cells_of(read[name]).rows()[part].tolist()


def test_extended_missing_values_of_stata_are_apart(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pd.DataFrame(
        {"income": [*map(float, range(900, 915)), *map(float, range(900, 915)), "a", "a", "b", None]}, dtype=object
    )
    more = {"missing_user_values": {"income": ["a", "b"]}, "variable_value_labels": {"income": {"a": "refused"}}}
    pyreadstat.write_dta(frame, str(tmp_path / "t.dta"), **more)
    codes, labels = read_labelled(tmp_path / "t.dta")
    assert labels == {"income": ValueLabels({".a": "refused"}, (".a", ".b"))}
    assert [None if cell is None else cell.text for cell in cells_of(codes["income"]).rows()[29:]] == [
        "914",
        ".a",
        ".a",
        ".b",
        None,
    ]
    assert drafted(tmp_path / "t.dta")["income"]["special"] == ["refused", ".b"]


@pytest.mark.parametrize(
    ("form", "number", "text"),
    [
        ("td", "2024-02-29", "2024-02-29"),
        ("tm", "2024-02-29", "2024-02-01"),
        ("tq", "2024-05-31", "2024-04-01"),
        ("th", "2024-08-31", "2024-07-01"),
        ("tc", "2024-02-29 10:30:01", "2024-02-29 10:30:01"),
    ],
)
def test_dates_of_stata(tmp_path, form, number, text):
    frame = pd.DataFrame({"day": pd.to_datetime([number, None])})
    frame.to_stata(tmp_path / "t.dta", write_index=False, convert_dates={"day": form})
    assert [cell.text for cell in cells_of(read_raw(tmp_path / "t.dta")["day"]).listed] == [text]


def test_files_of_sas(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    pyreadstat.write_xport(rows()[["sex", "region", "day"]], str(tmp_path / "t.xpt"))
    found = drafted(tmp_path / "t.xpt")
    assert [found[name]["type"] for name in ("sex", "region", "day")] == ["integer", "string", "date"]


@pytest.mark.parametrize(("name", "program"), [("t.sav", "SPSS"), ("t.sas7bdat", "SAS"), ("t.XPT", "SAS")])
def test_a_library_that_is_not_there_is_one_line(tmp_path, monkeypatch, name, program):
    (tmp_path / name).write_bytes(b"$FL2")
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    line = f"{name}: files of {program} are read by pyreadstat, which is not installed: pip install 'marginalia"
    with pytest.raises(InputError, match=line):
        read_raw(tmp_path / name)


@pytest.mark.parametrize("kind", ["spss", "stata"])
def test_a_damaged_file_is_one_line(kind, request):
    path = request.getfixturevalue(kind)
    content = path.read_bytes()
    for length in (0, 3, 100, len(content) // 2):
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match=f"{path.name}") as error:
            read_raw(path)
        assert "\n" not in str(error.value)
    path.unlink()
    with pytest.raises(InputError, match=r"cannot read .*: No such file"):
        read_raw(path)


def test_several_files_are_read_as_csv_or_parquet_only(tmp_path, stata):
    with pytest.raises(InputError, match=r"s\.dta: a file of this kind is read alone; write several as Parquet or CSV"):
        Data.parse(f"{tmp_path}/*.dta").stream(Domain.from_sizes({"sex": 2}))


@pytest.mark.slow
def test_from_a_survey_to_a_certified_synthetic_one(stata, call, tmp_path):
    target = tmp_path / "s.domain.yaml"
    assert call("domain", "init", stata)[0] == 0
    text = target.read_text()
    assert "the value labels that the\n# file declares" in text
    target.write_text(text.replace("# defaults: {reviewed: true}", "defaults: {reviewed: true}"))
    assert {one["name"] for one in yaml.safe_load(text)["attributes"]} == set(rows().columns)
    used = ("--data", stata, "--domain", target)
    code, out, err = call("synthesize", "--method", "mst", *used, "--epsilon", 5, "--out", tmp_path / "o.csv")
    assert code == 0, err
    assert "certificate: (5, 1e-05)-DP" in out
    made = pd.read_csv(tmp_path / "o.csv", dtype=str)
    assert set(made["sex"].dropna()) <= {"male", "female", "diverse", "refused"}
    code, out, err = call("quality", stata, tmp_path / "o.csv", "--domain", target, "--out", tmp_path / "q.html")
    assert code == 0, err
    assert call("recommend", stata, "--domain", target, "--epsilon", 1)[0] == 0


def test_labels_of_codes_that_are_missing_bytes_in_stata(tmp_path):
    """101 to 127 are codes of missing values in a column of bytes, and of labels they are codes as any other."""
    frame = pd.DataFrame({"job": np.array([100, 101, 102] * 9, "int16")})
    labels = {100: "nurse", 101: "doctor", 102: "cook"}
    frame.to_stata(tmp_path / "t.dta", write_index=False, value_labels={"job": labels})
    assert read_labelled(tmp_path / "t.dta")[1] == {"job": ValueLabels({str(k): v for k, v in labels.items()})}
