"""A data frame in, a data frame of original values out."""

import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError, PrivacyError
from marginalia.methods.aim import AIM
from marginalia.methods.independent import Independent
from marginalia.methods.mst import MST

ATTRIBUTES = [
    {"name": "age", "type": "integer", "edges": [0, 30, 60, 90], "top": True, "missing": []},
    {"name": "ward", "type": "string", "labels": ["a", "b", "c"], "other": True},
    {"name": "born", "type": "date", "edges": ["1950-01-01", "1980-01-01", "2010-01-01"]},
    {"name": "smoker", "type": "boolean"},
    {"name": "pay", "type": "number", "edges": [0, 10, 20, 60]},
]
DOMAIN = Domain.from_dict({"attributes": ATTRIBUTES, "ignored": ["id"]})
LEARNED = {
    "attributes": [
        {"name": "age", "type": "integer", "edges": {"private": "uniform", "bins": 4}},
        {"name": "ward", "type": "string", "labels": "private"},
        *ATTRIBUTES[2:],
    ],
    "ignored": ["id"],
}


def frame_of(n=500):
    rng = np.random.default_rng(0)
    age = pd.array(rng.integers(0, 100, n), dtype="Int64")
    age[3] = pd.NA
    return pd.DataFrame(
        {
            "pay": rng.uniform(0, 59, n),
            "ward": pd.Categorical(rng.choice(list("abcd"), n)),
            "born": pd.Timestamp("1950-01-01", tz="Asia/Tokyo") + pd.to_timedelta(rng.integers(0, 20000, n), "D"),
            "age": age,
            "smoker": rng.random(n) < 0.3,
            "id": range(n),
        },
        index=pd.Index(rng.permutation(n), name="row"),
    )


@pytest.mark.parametrize("cls", [AIM, MST, Independent])
def test_rows_come_back_as_they_were_given(cls, tmp_path):
    frame = frame_of()
    model = cls(epsilon=1.0, random_state=0).fit(frame, domain=DOMAIN)
    made = model.sample(40)
    assert isinstance(made, pd.DataFrame)
    assert list(made.columns) == ["pay", "ward", "born", "age", "smoker"]
    assert made["pay"].between(0, 60).all()
    assert set(made["ward"]) <= {"a", "b", "c", "other"}
    assert made["born"].dtype.kind == "M"
    assert made["smoker"].dtype == bool
    assert Table.from_frame(made, DOMAIN).n_rows == 40
    of_table = cls(epsilon=1.0, random_state=0).fit(Table.from_frame(frame, DOMAIN))
    rows = of_table.sample(40)
    assert isinstance(rows, Table)
    assert Table.from_frame(made, rows.domain) == rows
    model.save(tmp_path / "m.npz")
    assert isinstance(cls.load(tmp_path / "m.npz").sample(5), pd.DataFrame)
    of_table.save(tmp_path / "t.npz")
    assert isinstance(cls.load(tmp_path / "t.npz").sample(5), Table)
    assert b'"frame"' not in (tmp_path / "t.npz").read_bytes()


def test_the_seed_makes_the_same_values():
    first, again = (Independent(random_state=3).fit(frame_of(), domain=DOMAIN).sample(20) for _ in range(2))
    assert first.equals(again)


def test_what_a_schema_leaves_open_is_learned_in_the_same_ledger():
    frame = pd.concat([frame_of()] * 5)
    model = Independent(random_state=0).fit(frame, domain=LEARNED)
    assert model.domain_.source == "released"
    assert model.ledger_.certified
    assert 0.9 < model.ledger_.epsilon_spent <= 1.0
    assert [p.source for p in model.ledger_.public_inputs if p.name == "domain"] == ["released"]
    assert set(model.sample(200)["ward"].dropna()) <= {*"abcd", "other"}
    cheap = Independent(random_state=0).fit(frame, domain=LEARNED, preprocessing_share=0.5)
    assert cheap.ledger_.events != model.ledger_.events


def test_nothing_is_learned_without_delta():
    with pytest.raises((PrivacyError, InputError), match="delta"):
        Independent(delta=0.0).fit(frame_of(), domain=LEARNED)


def test_a_domain_file_will_do(tmp_path):
    DOMAIN.to_json(tmp_path / "d.json")
    for domain in (tmp_path / "d.json", str(tmp_path / "d.json"), DOMAIN.to_dict()):
        assert Independent(random_state=0).fit(frame_of(), domain=domain).domain_["age"].size == 4


def test_numbers_as_column_names():
    frame = pd.DataFrame({0: [0, 1] * 50, 1: [1, 1] * 50})
    made = Independent(random_state=0).fit(frame, domain={"0": 2, "1": 2}).sample(4)
    assert list(made.columns) == ["0", "1"]


@pytest.mark.parametrize(
    ("change", "domain", "said"),
    [
        (lambda f: f, None, "needs its public domain"),
        (lambda f: Table.from_frame(f, DOMAIN), DOMAIN, "a Table has its domain"),
        (lambda f: f.to_dict(), DOMAIN, "not dict"),
        (lambda f: pd.concat([f, f[["age"]]], axis=1), LEARNED, "'age'"),
        (lambda f: f.drop(columns="ward"), LEARNED, "'ward'"),
        (lambda f: f.drop(columns="ward"), DOMAIN, "'ward'"),
        (lambda f: f.assign(pay=-1.0), DOMAIN, "column 'pay', row 0"),
        (lambda f: f.assign(pay="x"), LEARNED, "column 'pay', row 0"),
    ],
)
def test_what_is_refused_is_one_line(change, domain, said):
    with pytest.raises(InputError) as error:
        Independent(random_state=0).fit(change(frame_of()), domain=domain)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_frame_without_rows_is_a_table_without_rows():
    frame = frame_of().head(0)
    made = Independent(relation="add_remove", random_state=0).fit(frame, domain=DOMAIN).sample(3)
    assert len(made) == 3


def test_bins_are_learned_of_columns_with_gaps_as_files_have_them():
    """An empty text is no value, and a category that does not occur is none either."""
    frame = frame_of()
    text = [" " if value is pd.NA else str(value) for value in frame["age"]]
    frame["age"] = pd.Categorical(text, categories=[*sorted(set(text)), "x"])
    model = Independent(epsilon=5.0, random_state=0).fit(frame, domain=LEARNED)
    assert model.domain_["age"].edges is not None
