"""What codes do not keep of a table is said in one line each, to its owner alone."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml

from marginalia.data.checking import check
from marginalia.data.domain import Domain
from marginalia.data.drafting import draft
from marginalia.data.encode import losses_of
from marginalia.data.table import Table

N = 240
DOMAIN = {
    "attributes": [
        {
            "name": "day",
            "type": "date",
            "edges": ["2024-01-01", "2024-06-01", "2025-01-01"],
            "missing": ["2024-12-31 23:59"],
        },
        {
            "name": "hour",
            "type": "timestamp",
            "unit": "hour",
            "zone": "Europe/Berlin",
            "missing": [],
            "edges": ["2024-01-01", "2024-06-01", "2025-01-01"],
        },
        {"name": "ward", "type": "string", "labels": ["w0", "w1"], "other": True},
        {
            "name": "stay",
            "type": "integer",
            "edges": [0, 5, 99],
            "bottom": True,
            "top": True,
            "missing": [],
            "lenient": True,
        },
        {"name": "whole", "type": "timestamp", "unit": "second", "edges": ["2024-01-01", "2025-01-01"]},
    ]
}


@pytest.fixture
def frame():
    at = pd.Series(pd.date_range("2024-01-01", periods=N, freq="31h", tz="UTC"))
    i = np.arange(N)
    return pd.DataFrame(
        {
            "day": [str(t.date()) if k % 4 else t.strftime("%Y-%m-%d %H:%M") for k, t in enumerate(at)],
            "hour": [
                None if k % 12 == 5 else t.isoformat() if k % 3 else t.strftime("%Y-%m-%d 10:30")
                for k, t in enumerate(at)
            ],
            "ward": [f"w{k % 5}" for k in i],
            "stay": [f"{k}.5" if k % 10 == 0 else "x" if k % 10 == 1 else k for k in i],
            "whole": at.dt.tz_localize(None).dt.strftime("%Y-%m-%d %H:%M:%S"),
        }
    )


def line(column, rows, what):
    return f"private note: column '{column}': {rows} of {N} rows ({100 * rows / N:.3g} %) {what}"


@pytest.fixture
def expected(frame):
    midnights = sum(text.endswith("00:00") for text in frame["day"])
    gone = sum("23:59" in text for text in frame["day"])
    return [
        line("day", N // 4 - midnights - gone, "have a time of day: `type: date` drops it, `type: timestamp` keeps it"),
        line("hour", sum("+" in str(t) for t in frame["hour"]), "have an offset: shown on the clocks of Europe/Berlin"),
        line("hour", sum("10:30" in str(t) for t in frame["hour"]), "are no whole hours: `unit: hour` drops the rest"),
        line("ward", 3 * N // 5, "are not among the 2 labels and are recoded as 'other'"),
        line("stay", N // 10, "have decimals: `type: integer` drops them"),
    ]


def test_each_folding_is_counted(frame, expected):
    assert losses_of(frame, Domain.from_dict(DOMAIN)) == expected


def test_check_says_it_of_a_file_and_of_files_that_are_streamed(frame, expected, tmp_path):
    (tmp_path / "d.json").write_text(json.dumps(DOMAIN))
    (tmp_path / "parts").mkdir()
    frame.to_csv(tmp_path / "t.csv", index=False)
    for part in range(3):
        frame.iloc[part::3].to_csv(tmp_path / "parts" / f"{part}.csv", index=False)
    alone, streamed = [], []
    assert check(tmp_path / "t.csv", tmp_path / "d.json", notes=alone) == []
    assert check(tmp_path / "parts", Domain.from_dict(DOMAIN), notes=streamed) == []
    assert alone[-5:] == streamed == expected


def test_a_table_that_is_kept_whole_folds_nothing(frame):
    whole = Domain.from_dict({"attributes": [DOMAIN["attributes"][-1]]})
    assert losses_of(frame[["whole"]], whole) == []
    assert losses_of(Table(np.zeros((5, 1)), whole).to_frame(original=True, random_state=0), whole) == []


@pytest.mark.parametrize("verb", ["synthesize", "fit"])
def test_a_fit_says_it_to_the_owner_and_writes_it_nowhere(frame, expected, tmp_path, call, verb):
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "d.json").write_text(json.dumps(DOMAIN))
    words = {
        "synthesize": ["--method", "independent", "--out", str(tmp_path / "s.csv")],
        "fit": ["--method", "ssp", "--target", "whole2", "--out", str(tmp_path / "m.json")],
    }[verb]
    if verb == "fit":
        content = {"attributes": [*DOMAIN["attributes"], {"name": "whole2", "type": "boolean"}]}
        (tmp_path / "d.json").write_text(json.dumps(content))
        frame.assign(whole2=np.arange(N) % 2 == 0).to_csv(tmp_path / "t.csv", index=False)
    data = ["--data", str(tmp_path / "t.csv"), "--domain", str(tmp_path / "d.json"), "--epsilon", "1", "--seed", "0"]
    code, out, err = call(verb, *words, *data, "--json")
    assert code == 0, err
    assert [said.removeprefix("marginalia: ") for said in err.splitlines()] == expected
    assert "private note: column" not in out
    assert not any(b"private note: column" in path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.slow
def test_a_draft_proposes_timestamps_with_their_unit_and_zone(tmp_path, call):
    rng = np.random.default_rng(0)
    at = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9000, 300), unit="h"))
    minutes = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 45_000, 300), unit="min")
    frame = pd.DataFrame(
        {
            "hours": at.dt.strftime("%Y-%m-%d %H:%M"),
            "minutes": minutes.strftime("%d/%m/%Y %H:%M"),
            "instants": at.dt.tz_localize("UTC").dt.tz_convert("Asia/Kathmandu").astype(str),
            "seconds": [None if i == 7 else f"2024-01-01T10:{i % 60:02}:{i % 31:02}" for i in range(300)],
            "dates": at.dt.strftime("%Y-%m-%d 00:00:00"),
        }
    )
    drafted = {column.name: column.keys for column in draft(frame).columns}
    assert {name: (of["type"], of.get("unit"), of.get("zone")) for name, of in drafted.items()} == {
        "hours": ("timestamp", "hour", None),
        "minutes": ("timestamp", "minute", None),
        "instants": ("timestamp", "hour", "UTC"),
        "seconds": ("timestamp", "second", None),
        "dates": ("date", None, None),
    }
    assert drafted["minutes"]["format"] == "%d/%m/%Y %H:%M"
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, out, err = call("domain", "init", tmp_path / "t.csv")
    assert code == 0, err
    assert "private note: column 'instants': 300 of 300 rows (100 %) have an offset" in out
    assert yaml.safe_load((tmp_path / "t.domain.yaml").read_text())["attributes"][1] == {
        "name": "minutes",
        **drafted["minutes"],
    }
