"""What `reviewed: true` accepts is listed with its rows; codes that a domain takes for values are named."""

import numpy as np
import pandas as pd
import pytest
import yaml

from marginalia.data import review
from marginalia.data.checking import check
from marginalia.data.domain import Domain
from marginalia.data.drafting import as_yaml, draft
from marginalia.data.review import overlooked_codes, rows_of_marks

N = 200
TABLE = pd.DataFrame(
    {
        "patient_id": np.arange(2 * N) % 90,
        "age": ["999", "?", "", "-", *map(str, np.arange(2 * N - 4) % 60 + 18)],
        "left": ["31.12.9999"] * 150 + [f"{k % 28 + 1:02d}.0{k % 9 + 1}.2023" for k in range(250)],
        "ill": ["yes", "no"] * N,
        "ward": ["?", "a", "b", "c"] * (N // 2),
    }
)


@pytest.fixture
def drafted(tmp_path):
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    return as_yaml(draft(pd.read_csv(tmp_path / "t.csv", dtype=str, keep_default_na=False)), "t.csv")


def notes_of(folder, text, word):
    (folder / "d.yaml").write_text(text)
    notes = []
    assert check(folder / "t.csv", folder / "d.yaml", notes=notes) == []
    return [note for note in notes if word in note]


def test_a_review_lists_what_it_accepts_column_by_column_with_the_rows_behind_each_mark(tmp_path, drafted):
    assert notes_of(tmp_path, drafted, "accepts") == []
    start = "private note: `reviewed: true` accepts "
    assert notes_of(tmp_path, drafted.replace("# defaults", "defaults"), "accepts") == [
        f"{start}for 'age': type: integer; special: 999 (1 row); missing: ? (1 row), - (1 row), empty cells (1 row)",
        f"{start}for 'left': type: date; format: %d.%m.%Y; special: 31.12.9999 (150 rows)",
        f'{start}for \'ill\': type: boolean; labels: ["no", "yes"]',
        f"{start}for 'ward': type: string; missing: ? (100 rows)",
        f"{start}the privacy unit: one `patient_id`, at most 64 rows each",
    ]


def test_a_review_of_one_column_lists_this_column(tmp_path, drafted):
    content = yaml.safe_load(drafted)
    content["attributes"][0]["reviewed"] = True
    assert len(notes_of(tmp_path, yaml.safe_dump(content), "accepts")) == 1
    content["defaults"] = {"reviewed": True}
    content["attributes"][0]["reviewed"] = False
    assert [note.split("'")[1] for note in notes_of(tmp_path, yaml.safe_dump(content), "accepts for")] == [
        "left",
        "ill",
        "ward",
    ]


def test_of_rows_that_are_streamed_nothing_is_counted(tmp_path):
    TABLE[["ill", "ward"]].to_parquet(tmp_path / "part-0.parquet")
    ward = {
        "name": "ward",
        "type": "string",
        "labels": ["a", "b", "c"],
        "missing": ["?"],
        "inferred": ["type", "missing"],
    }
    ill = {"name": "ill", "type": "boolean", "labels": ["no", "yes"]}
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({"attributes": [ward | {"reviewed": True}, ill]}))
    notes = []
    assert check(tmp_path / "part-*.parquet", tmp_path / "d.yaml", notes=notes) == []
    assert notes == ["private note: `reviewed: true` accepts for 'ward': type: string; missing: ?"]


def test_codes_are_counted_as_they_are_encoded():
    x = Domain.from_dict(
        {
            "attributes": [
                {"name": "x", "type": "number", "edges": [0, 9], "special": ["<1", "-9"], "missing": ["?", "-8"]},
                {"name": "y", "type": "string", "labels": "private", "special": ["9"]},
            ]
        }
    )
    cells = pd.Series(["<1", "-9", "-9.0", "?", "-8", "", "3", "9"])
    assert rows_of_marks(cells, x["x"]) == {"<1": 1, "-9": 2, "?": 1, "-8": 1, "": 1}
    assert rows_of_marks(cells, x["y"]) == {"9": 1, "": 1}


PAY = [*range(100, 200)] * 3 + [9999999] * 30


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"edges": [0, 1000], "top": True}, True),
        ({"edges": [0, 1000, 10**8]}, True),
        ({"edges": {"private": "adaptive", "bins": 4}}, True),
        ({"edges": [0, 1000], "top": True, "special": ["9999999"]}, False),
        ({"edges": [0, 1000], "top": True, "missing": ["9999999"]}, False),
        ({"edges": [0, 1000, 9999999, 10000000]}, False),  # the domain knows it as a value
        ({"edges": {"private": "adaptive", "bins": 4}, "points": [9999999]}, False),
    ],
)
def test_a_mean_that_depends_on_a_code_is_named(tmp_path, keys, named):
    pd.DataFrame({"pay": PAY}).to_csv(tmp_path / "t.csv", index=False)
    notes = notes_of(tmp_path, yaml.safe_dump({"attributes": [{"name": "pay", "type": "integer", **keys}]}), "mean")
    assert notes == named * [
        "private note: column 'pay': 9999999 in 30 of 330 rows stands alone at an end of the range; a mean with it is "
        '909227, without it 149.5; if it stands for no value, add `special: ["9999999"]` to the column'
    ]


def test_a_code_among_streamed_rows_is_named_as_in_memory(tmp_path):
    """In batches with many or few different numbers; a column with too many of them is left out."""
    rows = pd.DataFrame({"pay": PAY, "patient_id": 1}).astype({"pay": int})
    for i in range(3):
        rows[110 * i : 110 * (i + 1)].to_parquet(tmp_path / f"part-{i}.parquet")
    rows.to_parquet(tmp_path / "t.parquet")
    pay = {"name": "pay", "type": "integer", "edges": [0, 1000], "top": True}
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({"attributes": [pay], "ignored": ["patient_id"]}))
    found = []
    for name in ("t.parquet", "part-*.parquet"):
        notes = []
        assert check(tmp_path / name, tmp_path / "d.yaml", notes=notes) == []
        found.append([note for note in notes if "a mean with" in note])
    assert len(found[0]) == 1
    assert found[0] == found[1]


def test_a_column_of_many_numbers_is_left_out(monkeypatch):
    pay = Domain.from_dict({"attributes": [{"name": "pay", "type": "integer", "edges": [0, 1000], "top": True}]})
    assert len(list(overlooked_codes(pay, pd.DataFrame({"pay": PAY})))) == 1
    monkeypatch.setattr(review, "MOST_NUMBERS", 9)
    assert list(overlooked_codes(pay, pd.DataFrame({"pay": PAY}))) == []


def test_means_of_dates_are_dates():
    days = pd.DataFrame({"left": ["01.01.2024", "03.01.2024", "02.01.2024", "31.12.9999"]})
    left = {"name": "left", "type": "date", "format": "%d.%m.%Y", "edges": {"private": "adaptive", "bins": 4}}
    (line,) = overlooked_codes(Domain.from_dict({"attributes": [left]}), days)
    assert "without it 2024-01-02;" in line
    assert 'add `special: ["31.12.9999"]`' in line
