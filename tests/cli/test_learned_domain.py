"""`fit` and `synthesize` by a domain file that leaves labels and edges to be learned; targets of many classes."""

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tiers import others_slow

from marginalia.privacy.certificate import Certificate
from marginalia.privacy.verify import verify

DOMAIN = """
ignored: [id]
attributes:
- {name: age, type: integer, edges: {private: adaptive, bins: 6}}
- {name: ward, type: string, labels: private, missing: ["?"]}
- {name: pay, type: number, edges: {private: quantile, bins: 5, bounds: [0, 100]}}
- {name: seen, type: date, edges: {private: uniform, bins: 4}}
- {name: ill, type: boolean, labels: ["no", "yes"]}
- {name: level, type: string, labels: [low, mid, high]}
- {name: cost, type: number, edges: [0, 20, 40, 80], top: true}
"""
LEARNED = ("age", "ward", "pay", "seen")
USED = ("--data", "t.csv", "--domain", "d.yaml")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 3000
    age = rng.integers(18, 90, n)
    frame = pd.DataFrame(
        {
            "id": np.arange(n),
            "age": age.astype(str),
            "ward": rng.choice(["surgery", "medicine", "?"], n, p=[0.6, 0.35, 0.05]),
            "pay": np.round(rng.uniform(0, 90, n), 2).astype(str),
            "seen": (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D")).strftime("%Y-%m-%d"),
            "ill": np.where(age > 55, "yes", "no"),
            "level": np.select([age < 40, age < 66], ["low", "mid"], "high"),
            "cost": np.round(age * 0.8, 1),
        }
    )
    frame.loc[:4, "age"] = ["inf", "old", "", "-inf", "1,5"]
    frame.loc[7, "ward"] = "a village of one"
    frame.to_csv("t.csv", index=False)
    (tmp_path / "d.yaml").write_text(DOMAIN)
    return frame


def proven(path):
    """Return the events of a certificate by label, after both accountants have confirmed it."""
    proof = Certificate.read(path)
    assert verify(proof).confirmed
    assert proof.content["epsilon_spent"] <= proof.content["epsilon"] == 1
    domain = next(known for known in proof.content["public_inputs"] if known["name"] == "domain")
    assert domain["source"] == "released"
    return [event["label"] for event in proof.content["events"]]


@pytest.mark.slow
def test_synthetic_rows_hold_original_values_of_learned_columns(call, folder):
    code, out, err = call("synthesize", "--method", "mst", *USED, "--epsilon", 1, "--seed", 0, "--out", "s.csv")
    assert (code, err) == (0, "")
    assert [line.split(":")[1].strip() for line in out.splitlines() if line.startswith("learned privately")] == [
        *LEARNED
    ]
    made = pd.read_csv("s.csv")
    assert list(made.columns) == list(folder.columns[1:])
    assert set(made["ward"]) <= {"surgery", "medicine", "other", "?"}
    assert made["pay"].dropna().between(0, 100).all()  # noise may make a gap
    assert set(made["ill"]) == {"no", "yes"}
    assert abs(pd.to_numeric(made["age"]).mean() - 54) < 4
    labels = proven("s.csv.certificate.json")
    assert {"age: bounds", "age: parts", "ward: labels", "pay: cells", "seen: bounds"} <= set(labels)
    words = ("--domain", "d.yaml", "--out", "q.html", "--json")  # on bins of the real rows
    code, out, err = call("quality", "t.csv", "s.csv", *words)
    assert (code, err) == (0, "")
    assert json.loads(out)["k_marginal_score"] > 700
    assert labels.index("ward: labels") < labels.index("ill")
    assert "a village of one" not in Path("s.csv").read_text() + Path("s.csv.certificate.json").read_text()


@pytest.mark.parametrize(
    ("method", "target", "accuracy"),
    others_slow(
        [
            (["ssp"], "ill", 0.8),
            (["ssp"], "level", 0.5),
            (["dd_ssp", "--source", "independent"], "cost", None),
            (["dd_ssp", "--source", "mst"], "ill", 0.8),
            (["ada_ssp", "--preprocessing-share", "0.3"], "cost", None),
            (["dp_sgd", "--n-public", "3000"], "ill", 0.7),
        ]
    ),
)
def test_a_model_keeps_the_domain_that_was_learned(call, folder, method, target, accuracy):
    words = ("--target", target, "--epsilon", 1, "--seed", 0, "--out", "m.json")
    code, out, err = call("fit", "--method", *method, *USED, *words)
    assert code == 0, err
    assert "learned privately: age: 6 bins" in out
    assert "age: bounds" in proven("m.json")
    model = json.loads(Path("m.json").read_text())
    assert model["domain"]["source"] == "released"
    code, out, err = call("predict", "--model", "m.json", "--data", "t.csv")  # the odd rows of age, too
    assert code == 0, err
    found = pd.read_csv(StringIO(out))
    assert len(found) == len(folder)
    assert accuracy is None or (found[target] == folder[target]).mean() > accuracy


@pytest.mark.slow
def test_a_larger_share_means_less_noise_on_what_is_learned(call, folder):
    sigmas = []
    for share in (0.1, 0.4):
        words = ("--epsilon", 1, "--out", "s.csv", "--preprocessing-share", share, "--json")
        code, out, err = call("synthesize", "--method", "independent", *USED, *words)
        assert code == 0, err
        events = json.loads(out)["ledger"]["events"]
        sigmas.append([next(e["sigma"] for e in events if e["label"] == label) for label in ("age: bounds", "ill")])
    assert sigmas[0][0] == pytest.approx(2 * sigmas[1][0], rel=0.05)  # delta is shared too
    assert sigmas[0][1] < sigmas[1][1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "--method", "ols", "--target", "cost"], "the edges of 'age' are to be learned, and this fit has no"),
        (["fit", "--method", "ssp", "--target", "pay"], "target 'pay': its edges are to be learned, but what a model"),
        (["fit", "--method", "dd_ssp", "--target", "ward"], "target 'ward': its labels are to be learned"),
        (["fit", "--method", "ssp", "--target", "wards"], "unknown target 'wards'; did you mean 'ward'?"),
        (["fit", "--method", "ssp", "--target", "cost", "--preprocessing-share", 1], "preprocessing_share is 1"),
        (
            ["fit", "--method", "ada_ssp", "--target", "level"],
            "has 3 classes, and method 'ada_ssp' learns no more",
        ),
        (["synthesize", "--method", "reduced_space", "--delta", 0, "--out", "s.csv"], "delta has to be above 0"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(call, folder, tmp_path, words, said):
    before = sorted(p.name for p in tmp_path.iterdir())
    code, out, err = call(*words, *USED, "--epsilon", 1)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_unknown_columns_are_named_before_any_noise(call, folder):
    folder.assign(extra=1).to_csv("t.csv", index=False)
    code, _, err = call("synthesize", "--method", "mst", *USED, "--epsilon", 1, "--out", "s.csv")
    assert (code, "column 'extra' is not in the domain" in err) == (2, True)
    assert call("datasets", "check", "t.csv", "--domain", "d.yaml")[0] == 2


def test_check_says_what_will_be_learned(call, folder):
    code, out, err = call("datasets", "check", "t.csv", "--domain", "d.yaml", "--json")
    assert (code, err) == (0, "")
    notes = json.loads(out)["notes"]
    assert notes[:2] == [
        "to be learned with part of epsilon: the edges of 'age' (adaptive, at most 6 bins, bounds too)",
        "to be learned with part of epsilon: the labels of 'ward'",
    ]
    assert "inside public bounds" in notes[2]
    assert notes[4].startswith("column 'age': 1 of 3000 rows: 'old' in row 1 is not a number; it counts as missing")


def test_labels_without_an_order_are_classes(call, folder):
    """Their codes were regressed on, and a model predicted "1.3"."""
    words = ("--target", "level", "--epsilon", 5, "--seed", 0, "--out", "m.json", "--json")
    code, out, err = call("fit", "--method", "ssp", *USED, *words)
    assert code == 0, err
    found = json.loads(out)
    assert found["task"] == "logistic"
    assert {name.split(": ")[0] for name in found["coefficients"]} == {"low", "mid", "high"}
    _, out, _ = call("predict", "--model", "m.json", "--data", "t.csv")
    predicted = pd.read_csv(StringIO(out))
    assert list(predicted.columns) == ["level", *(f"probability of {label}" for label in ("low", "mid", "high"))]
    assert (predicted["level"] == folder["level"]).mean() > 0.5


def test_codes_that_nothing_is_said_of_are_numbers_with_a_warning(call, tmp_path):
    (tmp_path / "d.json").write_text('{"a": 3, "b": 4}')
    (tmp_path / "t.csv").write_text("a,b\n0,1\n2,3\n1,0\n")
    used = ("--data", tmp_path / "t.csv", "--domain", tmp_path / "d.json", "--epsilon", 1)
    code, out, err = call("fit", "--method", "ssp", *used, "--target", "b", "--json")
    assert (code, json.loads(out)["task"]) == (0, "linear")
    assert "the domain does not say what the 4 codes of target 'b' are" in err
