"""`marginalia predict` on raw files: units, files, refusals."""

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Domain

DOMAIN = Domain.from_dict(
    {
        "attributes": [
            {"name": "age", "type": "integer", "edges": [0, 30, 60, 90], "top": True, "missing": ["?"]},
            {"name": "ward", "type": "string", "labels": ["a", "b", "c"]},
            {"name": "left", "type": "date", "edges": ["2020-01-01", "2020-07-01", "2021-01-01", "2022-01-01"]},
            {"name": "pay", "type": "number", "edges": [0, 10, 20, 60]},
            {"name": "ill", "type": "string", "labels": ["no", "yes"]},
        ],
        "ignored": ["id"],
    }
)


@pytest.fixture
def folder(call, tmp_path, monkeypatch):
    """A raw table and its domain, with two models that the command line has fitted."""
    monkeypatch.chdir(tmp_path)
    DOMAIN.to_json("d.json")
    rng = np.random.default_rng(0)
    age = rng.integers(0, 95, 3000)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, 3000), "D")
    frame = pd.DataFrame(
        {
            "id": range(3000),
            "age": age.astype(str),
            "ward": rng.choice(list("abc"), 3000),
            "left": days.strftime("%Y-%m-%d"),
            "pay": np.minimum(age * 0.6, 59).round(2),
            "ill": np.where(age > 50, "yes", "no"),
        }
    )
    frame.loc[5, "age"] = "?"
    frame.to_csv("t.csv", index=False)
    for target in ("pay", "ill", "left"):
        options = ("--target", target, "--epsilon", 5, "--seed", 0, "--out", f"{target}.json")
        assert call("fit", "--method", "ssp", "--data", "t.csv", "--domain", "d.json", *options)[0] == 0
    return frame


@pytest.mark.slow
def test_predictions_are_in_the_units_of_the_target(folder, call):
    folder.drop(columns=["ill"]).to_csv("new.csv", index=False)
    code, out, err = call("predict", "--model", "ill.json", "--data", "new.csv")
    assert (code, err) == (0, "")
    found = pd.read_csv(StringIO(out))
    assert list(found.columns) == ["ill", "probability of no", "probability of yes"]
    assert (found["ill"] == folder["ill"]).mean() > 0.8
    assert np.allclose(found["probability of no"] + found["probability of yes"], 1)
    assert ((found["probability of yes"] > 0.5) == (found["ill"] == "yes")).all()
    code, out, _ = call("predict", "--model", "pay.json", "--data", "t.csv", "--out", "p.csv")
    assert (code, out) == (0, "p.csv: 3000 rows\n")
    pay = pd.read_csv("p.csv")["pay"]
    assert pay.between(5, 40).all()
    assert np.corrcoef(pay, folder["pay"])[0, 1] > 0.7
    assert call("predict", "--model", "pay.json", "--data", "t.csv", "--out", "p.parquet")[0] == 0
    assert np.allclose(pd.read_parquet("p.parquet")["pay"], pay)
    cells = set(Path("p.csv").read_text().split()[1:])
    assert max(map(len, cells)) <= 7  # six digits mean something, sixteen do not


def test_dates_and_json(folder, call):
    code, out, _ = call("predict", "--model", "left.json", "--data", "t.csv", "--json")
    found = json.loads(out)
    assert (code, found["target"], found["rows"]) == (0, "left", 3000)
    assert found["predictions"][0]["left"].startswith("202")
    assert call("predict", "--model", "left.json", "--data", "t.csv")[1].splitlines()[1].startswith("202")


@pytest.mark.slow
def test_refusals_are_one_line_and_write_nothing(folder, call, tmp_path, each):
    def check(options, said):
        folder.head(3).assign(ward=["a", "z", "b"]).to_csv("bad.csv", index=False)
        folder.head(3).drop(columns="ward").to_csv("less.csv", index=False)
        before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
        given = {"--model": "pay.json", "--data": "t.csv", **dict(zip(options[::2], options[1::2], strict=True))}
        code, out, err = call("predict", *(word for pair in given.items() for word in pair))
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before

    cases = [
        (("--out", "t.csv"), "would be overwritten"),
        (("--out", "pay.json"), "the ending must be"),
        (("--out", "p.txt"), "the ending must be"),
        (("--data", "none.csv"), "none.csv"),
        (("--data", "bad.csv", "--out", "p.csv"), "bad.csv: column 'ward', row 1: 'z' is not among the labels"),
        (("--data", "less.csv"), "less.csv: column 'ward' of the domain is missing"),
        (("--model", "d.json"), "d.json is not a model file"),
    ]
    each(check, cases)
