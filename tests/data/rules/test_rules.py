"""What a domain file says under `rules` and `derived`, from the file to the rows."""

import json

import numpy as np
import pandas as pd
import pytest
from tiers import others_slow

from marginalia.data import Domain, Table
from marginalia.data.checking import check
from marginalia.data.table import RawTable
from marginalia.errors import InputError
from marginalia.synthesis import AIM, Independent, MixtureInference

DAYS = ["2020-01-01", "2020-02-01", "2020-03-01"]
COLUMNS = [
    {"name": "admission", "type": "date", "edges": DAYS, "top": True},
    {"name": "discharge", "type": "date", "edges": DAYS, "top": True, "missing": []},
    {"name": "sex", "type": "string", "labels": ["f", "m"]},
    {"name": "pregnant", "type": "boolean", "labels": ["no", "yes"]},
    {"name": "icd 1", "type": "string", "labels": ["x", "y"], "missing": ["?"]},
    {"name": "icd 2", "type": "string", "labels": ["x", "y"], "missing": []},
    {"name": "price", "type": "number", "edges": [0, 1, 10]},
    {"name": "age", "type": "integer", "edges": [0, 15, 40, 99]},
]
RULES = ["admission <= discharge", "icd 2 needs icd 1", {"never": {"sex": ["m"], "pregnant": ["yes"]}}]
DERIVED = {"los": "discharge - admission", "cost": "round_even(los * price, 2)", "young": "age < 15"}
FILE = {"attributes": COLUMNS, "rules": RULES, "derived": DERIVED}


def raw(n=400, seed=0):
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 59, n)
    sex = rng.choice(["f", "m"], n)
    icd = pd.Series(rng.choice(["x", "y"], n)).mask(rng.random(n) < 0.4, "?")
    frame = pd.DataFrame(
        {
            "admission": pd.to_datetime("2020-01-01") + pd.to_timedelta(start, unit="D"),
            "discharge": pd.to_datetime("2020-01-01") + pd.to_timedelta(start + rng.integers(0, 5, n), unit="D"),
            "sex": sex,
            "pregnant": np.where((sex == "f") & (rng.random(n) < 0.5), "yes", "no"),
            "icd 1": icd,
            "icd 2": pd.Series(rng.choice(["x", "y"], n)).mask((icd == "?") | (rng.random(n) < 0.5)),
            "price": rng.random(n).round(2),
            "age": rng.integers(0, 99, n),
        }
    )
    frame["los"] = (frame["discharge"] - frame["admission"]).dt.days
    return frame.assign(cost=[round(a * b, 2) for a, b in zip(frame["los"], frame["price"], strict=True)])


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("rules", "a <= b", "'rules' must be a list"),
        ("rules", ["admission <= dischrage"], "unknown column 'dischrage'; did you mean 'discharge'?"),
        ("rules", ["admission"], "is no rule; a rule is"),
        ("rules", ["admission + 1 <= discharge"], "derive a column from what is computed"),
        ("rules", ["admission == discharge"], "orders are written by"),
        ("rules", ["admission <= discharge >= admission"], "not both ways"),
        ("rules", ["admission <= discharge", "discharge <= admission"], "go in a circle: "),
        ("rules", ["admission <= age"], "numbers and dates have no order with each other"),
        ("rules", ["sex <= age"], "'sex' is of type string"),
        ("rules", ["sex needs age"], "'sex' is never missing"),
        ("rules", ["age <= age"], "needs two different columns"),
        ("rules", ["icd 1 needs icd 3"], "unknown column 'icd 3'"),
        ("rules", [{"never": {"sex": ["m"]}}], "needs two different columns"),
        ("rules", [{"never": {"sex": ["male"], "age": ["< 15"]}}], "unknown value of 'sex' 'male'"),
        ("rules", [{"never": {"sex": ["m"], "age": ["< 16"]}}], "16 is no edge between bins of 'age'"),
        ("rules", [{"never": {"sex": ["m"], "age": ["15"]}}], "say '< 15' or '>= 15'"),
        ("rules", [{"never": {"sex": ["m"], "pregnant": [None]}}], "are texts"),
        ("rules", [{"sometimes": {}}], "every rule is"),
        ("rules", [{"never": {"sex": ["m"], "pregnant": ["yes"]}}] * 1 + ["los <= age"], "'los' is derived"),
        ("derived", ["los"], "'derived' must name columns"),
        ("derived", {"los": "discharge - admision"}, "did you mean 'admission'?"),
        ("derived", {"los": "total", "total": "los"}, "derived columns go in a circle"),
        ("derived", {"los": 3}, "an expression is a text"),
        ("derived", {"age": "price"}, "stands under 'attributes' and under 'derived'"),
        (
            "derived",
            {"los": "admission + price"},
            "derived column 'los': `admission + price`: No function matches",
        ),
    ],
)
def test_what_is_wrong_is_one_clear_line(key, value, said):
    with pytest.raises(InputError) as error:
        Domain.from_dict({**FILE, key: value}, where="d.yaml")
    assert said in str(error.value)
    assert str(error.value).startswith("d.yaml: ")


def test_a_contradiction_is_refused():
    file = {
        "attributes": [
            {"name": "a", "type": "integer", "edges": [5, 9]},
            {"name": "b", "type": "integer", "edges": [0, 5]},
        ],
        "rules": ["a <= b"],
    }
    with pytest.raises(InputError, match="the rules leave no possible row"):
        Domain.from_dict(file)


def test_the_words_yes_and_no_of_yaml_are_those_of_a_boolean():
    one, other = (
        Domain.from_dict({"attributes": COLUMNS, "rules": [{"never": {"sex": "m", "pregnant": [yes]}}]})
        for yes in (True, "yes")
    )
    assert one.structural_zeros == other.structural_zeros


def test_a_domain_with_rules_is_written_and_read_again(tmp_path):
    domain = Domain.from_dict(FILE)
    domain.to_json(tmp_path / "d.json")
    again = Domain.from_json(tmp_path / "d.json")
    assert again == domain
    assert hash(again) == hash(domain)
    assert again.to_dict() == domain.to_dict()
    assert again != Domain.from_dict({**FILE, "rules": RULES[:1]})
    assert "structural_zeros" not in json.loads((tmp_path / "d.json").read_text())
    part = domain.project(["admission", "price", "sex"])
    assert not part.rules
    assert "los" in part.ignored  # what a file holds of it is still not read
    assert Domain.from_dict(part.to_dict()) == part


@pytest.mark.parametrize(
    "make", others_slow([Independent, AIM, MixtureInference])
)  # without zeros in the model, and with
def test_rows_of_a_fit_obey_and_a_saved_model_knows_its_rules(make, tmp_path):
    model = make(epsilon=1.0, random_state=0).fit(raw(), domain=FILE)
    model.save(tmp_path / "m.npz")
    for fitted in (model, make.load(tmp_path / "m.npz")):
        fitted.random_state = 1
        fitted.write_sample(tmp_path / "rows.csv", 700)
        for drawn in (fitted.sample(700), pd.concat(fitted.sample_batches(700)), pd.read_csv(tmp_path / "rows.csv")):
            start, end = pd.to_datetime(drawn["admission"]), pd.to_datetime(drawn["discharge"])
            there = end.notna()
            assert (start <= end)[there].all()
            assert there.any()
            assert (drawn["icd 2"].isna() | (drawn["icd 1"] != "?")).all()
            assert not ((drawn["sex"] == "m") & drawn["pregnant"].isin([True, "yes"])).any()
            assert (drawn["los"].astype(float)[there] == (end - start).dt.days[there]).all()
            assert drawn["los"].isna().equals(~there)
            assert np.allclose(drawn["cost"][there], (drawn["los"].astype(float) * drawn["price"])[there], atol=0.00501)
            assert (drawn["young"].astype(bool) == (drawn["age"] < 15)).all()


def test_a_row_that_breaks_a_rule_is_read_as_any_other(tmp_path):
    """Whether a row obeys shows nowhere: its codes are those of the domain without rules, and no fit is refused."""
    frame, plain = raw(), Domain.from_dict({"attributes": COLUMNS, "ignored": list(DERIVED)})
    breaking = frame.assign(discharge=pd.to_datetime("2020-01-01"), sex="m", pregnant="yes")
    table = Table.from_frame(breaking, Domain.from_dict(FILE))
    assert np.array_equal(table.codes, Table.from_frame(breaking, plain).codes)
    drawn = AIM(epsilon=1.0, random_state=0).fit(breaking, domain=FILE).sample(500)
    assert not ((drawn["sex"] == "m") & drawn["pregnant"]).any()
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        write = breaking.to_parquet if path.suffix == ".parquet" else breaking.to_csv
        write(path, index=False)
        assert check(path, Domain.from_dict(FILE)) == []


def test_the_cells_of_a_derived_column_are_not_read():
    frame = raw()
    odd = frame.assign(cost="nobody reads this", los=None)
    domain = Domain.from_dict(FILE)
    assert Table.from_frame(frame, domain) == Table.from_frame(odd, domain)
    assert Table.from_frame(frame.drop(columns=["los", "cost"]), domain) == Table.from_frame(odd, domain)


def test_a_declared_structural_zero_refuses_its_rows_still():
    zeros = [{"attributes": ["sex", "pregnant"], "cells": [[1, 1]]}]
    domain = Domain.from_dict({"attributes": COLUMNS, "structural_zeros": zeros, "ignored": list(DERIVED)})
    assert domain.structural_zeros == domain.declared_zeros
    with pytest.raises(InputError, match="is a structural zero"):
        Table.from_frame(raw().assign(sex="m", pregnant="yes"), domain)


def test_the_owner_is_told_which_share_of_the_rows_obeys(tmp_path):
    frame = raw()
    frame.loc[3, "discharge"] = pd.to_datetime("2019-12-31")  # in no bin: a problem, besides
    frame.loc[5, ["icd 1", "icd 2"]] = ["?", "x"]
    frame.loc[[6, 7], "sex"], frame.loc[[6, 7], "pregnant"] = "m", "yes"
    frame.loc[8, "cost"] += 0.01
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "d.json").write_text(json.dumps(FILE, default=str))
    notes = []
    problems = check(tmp_path / "t.csv", tmp_path / "d.json", notes=notes)
    assert len(problems) == 1
    assert notes == [
        f"rule, off the private rows: {said}"
        for said in (
            "admission <= discharge: 99.75 % of 400 rows obey, not row 3 (rows count from 0)",
            "icd 2 needs icd 1: 99.75 % of 400 rows obey, not row 5 (rows count from 0)",
            "never sex: m with pregnant: yes: 99.5 % of 400 rows obey, not row 6 (rows count from 0)",
            "los = discharge - admission: 99.75 % of 400 rows obey, not row 3 (rows count from 0)",
            "cost = round_even(los * price, 2): 99.5 % of 400 rows obey, not row 3 (rows count from 0)",
        )
    ]


LEARNED = [
    {"name": "admission", "type": "date", "edges": {"private": "quantile", "bins": 4}},
    {"name": "discharge", "type": "date", "edges": {"private": "quantile", "bins": 4}, "missing": []},
    {"name": "sex", "type": "string", "labels": "private"},
    {"name": "icd 1", "type": "string", "labels": "private", "missing": ["?"]},
    {"name": "icd 2", "type": "string", "labels": "private"},
    *(c for c in COLUMNS if c["name"] in ("pregnant", "price", "age")),
]


@pytest.mark.slow
@pytest.mark.parametrize("make", [AIM, MixtureInference])
def test_rules_about_columns_that_are_learned_hold(make):
    file = {**FILE, "attributes": LEARNED}
    frame = pd.concat([raw(4000)])
    model = make(epsilon=2.0, random_state=0).fit(frame, domain=file)
    drawn = model.sample(3000)
    there = drawn["admission"].notna() & drawn["discharge"].notna()
    assert there.mean() > 0.5
    assert (drawn["admission"] <= drawn["discharge"])[there].all()
    assert (drawn["los"][there] == (drawn["discharge"] - drawn["admission"]).dt.days[there]).all()
    assert not ((drawn["sex"] == "m") & drawn["pregnant"]).any()
    assert set(drawn["sex"]) >= {"f", "m"}
    assert (drawn["icd 2"].isna() | (drawn["icd 1"] != "?")).all()
    zeros = {z.attributes for z in model.domain_.structural_zeros}
    assert ("admission", "discharge") in zeros


def test_private_preprocessing_is_refused_for_no_row_that_breaks_a_rule():
    schema = Domain.from_dict({**FILE, "attributes": LEARNED})
    assert "los" in schema.ignored
    assert Domain.from_dict(schema.to_dict()).to_dict() == schema.to_dict()
    frame = raw().assign(discharge=pd.to_datetime("1999-01-01"), sex="m", pregnant="yes")
    table = RawTable.of(frame, schema)
    assert "los" not in table.names
    drawn = Independent(epsilon=1.0, random_state=0).fit(frame, domain=schema).sample(300)
    there = drawn["admission"].notna() & drawn["discharge"].notna()
    assert (drawn["admission"] <= drawn["discharge"])[there].all()


def test_a_rule_on_a_label_that_was_not_learned_refuses_nothing():
    """An error would tell which labels the rows have."""
    domain = Domain.from_dict({**FILE, "attributes": LEARNED})
    model = Independent(epsilon=1.0, random_state=0).fit(raw().assign(sex="f", pregnant="no"), domain=domain)
    assert "m" not in (model.domain_["sex"].labels or ())


def test_thresholds_of_learned_edges_are_refused():
    file = {"attributes": LEARNED, "rules": [{"never": {"admission": ["< 2020-02-01"], "sex": ["m"]}}]}
    with pytest.raises(InputError, match="the edges of 'admission' are learned privately"):
        Domain.from_dict(file)


def test_a_model_is_not_blown_up_by_rules():
    """Tables that are too large are left to the rows; of orders in a circle the last is."""
    edges = list(range(0, 10_001, 10))
    columns = [{"name": name, "type": "integer", "edges": edges} for name in "abc"]
    assert Domain.from_dict({"attributes": columns, "rules": ["a <= b"]}).structural_zeros == ()
    few = [{"name": name, "type": "integer", "edges": list(range(0, 1001, 10))} for name in "abc"]
    domain = Domain.from_dict({"attributes": few, "rules": ["a <= b", "b <= c", "a <= c"]})
    assert [z.attributes for z in domain.structural_zeros] == [("a", "b"), ("b", "c")]
    codes = np.random.default_rng(0).integers(100, size=(2000, 3))
    frame = Table(codes, domain).obeying(np.random.default_rng(1)).to_frame(original=True)
    assert ((frame["a"] <= frame["b"]) & (frame["b"] <= frame["c"])).all()


def test_parquet_in_batches_has_the_derived_columns(tmp_path):
    from marginalia.data.table import write_batches

    domain = Domain.from_dict(FILE)
    rows = Table.from_frame(raw(), domain)
    write_batches([rows, rows], domain, tmp_path / "t.parquet")
    frame = pd.read_parquet(tmp_path / "t.parquet")
    assert list(frame.columns[-3:]) == ["los", "cost", "young"]
    assert len(frame) == 800
    write_batches([rows, rows], domain, tmp_path / "t.csv")
    assert list(pd.read_csv(tmp_path / "t.csv").columns) == list(frame.columns)
