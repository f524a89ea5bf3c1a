"""Texts with codes of their own: several spellings of missing that stay apart, a measurement below what is measured."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tiers import others_slow

from marginalia.data.coding import as_text, codes_of, numbers_of, original_values
from marginalia.data.domain import Domain
from marginalia.data.encoding import Encoder, widths
from marginalia.data.sources.opening import Data
from marginalia.data.table import Table, write_batches
from marginalia.errors import InputError
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.preprocessing.preprocess import preprocess
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

CRP = {"name": "crp", "type": "number", "edges": [0, 1, 10], "special": ["<0.1", "refused"], "missing": ["?"]}
TYPES = {
    "number": {"edges": [0, 1.5, 10]},
    "integer": {"labels": ["1", "2"]},
    "date": {"edges": ["2024-01-01", "2024-02-01", "2024-03-01"]},
    "timestamp": {"unit": "minute", "edges": ["2024-01-01", "2024-02-01", "2024-03-01"]},
    "boolean": {"labels": ["no", "yes"]},
    "string": {"labels": ["a", "b"]},
}


def attribute(**facts):
    return Domain.from_dict({"attributes": [facts]})[facts["name"]]


def test_a_censored_measurement_and_three_spellings_of_missing_are_four_codes():
    crp = attribute(**CRP)
    cells = ["0.05", "<0.1", " refused ", "?", "", None, 5, "5.0"]
    assert codes_of(pd.Series(cells, dtype=object), crp)[0].tolist() == [0, 2, 3, 4, 4, 4, 1, 1]
    assert crp.texts == ("0", "1", "<0.1", "refused", "missing")
    assert (crp.n_values, list(crp.special_codes), crp.missing_code) == (2, [2, 3], 4)
    with pytest.raises(InputError, match=r"'<0.2' is not a number"):
        Table.from_frame(pd.DataFrame({"crp": ["<0.2"]}), Domain([crp]))
    numbers = numbers_of(pd.Series(cells, dtype=object), crp)
    assert np.isnan(numbers).tolist() == [False, True, True, True, True, True, False, False]


def test_each_special_code_of_a_number_has_its_indicator():
    domain = Domain([attribute(**CRP), attribute(name="ill", type="boolean")])
    encoder = Encoder(domain, "ill")
    assert encoder.feature_names == ("crp", "crp=<0.1", "crp=refused", "crp=missing")
    rows = [[-1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert encoder.matrices["crp"].T.tolist() == rows
    assert widths(domain)["crp"] == 4
    assert encoder.norm_bound == 1.0


@pytest.mark.parametrize("missing", others_slow([None, [], ["?"]], ["?"]))
@pytest.mark.parametrize("kind", TYPES)
def test_special_texts_of_every_type_are_written_as_they_are_and_read_back(tmp_path, kind, missing):
    facts = {"name": "x", "type": kind, **TYPES[kind], "special": ["<0.1", "refused"]}
    if kind == "string":
        facts["other"] = "else"
    x = attribute(**facts) if missing is None else attribute(**facts, missing=missing)
    domain = Domain([x])
    assert Domain.from_dict(domain.to_dict()) == domain
    table = Table(np.arange(x.size).repeat(3)[:, None], domain)
    batches = [table, table.take(slice(0, 3)), table]  # the second has no special cell
    table.to_csv(tmp_path / "t.csv", random_state=0)
    table.to_parquet(tmp_path / "t.parquet", random_state=0)
    write_batches(batches, domain, tmp_path / "b.csv", random_state=0)
    write_batches(batches, domain, tmp_path / "b.parquet", random_state=0)
    frame = table.to_frame(original=True, random_state=0)
    for again in (
        Table.read(tmp_path / "t.csv", domain=domain),
        Table.read(tmp_path / "t.parquet", domain=domain),
        Table.from_frame(frame, domain),
        Data.parse(tmp_path / "t.parquet").stream(domain).in_memory(),
    ):
        assert again == table
    for name in ("b.csv", "b.parquet"):
        assert Table.read(tmp_path / name, domain=domain) == table.append(batches[1]).append(table)
    held = pd.read_csv(tmp_path / "t.csv", dtype=str, keep_default_na=False)["x"].tolist()
    assert {code: held[3 * code] for code in x.special_codes} == dict(zip(x.special_codes, x.special, strict=True))
    assert set(x.special) <= set(pq.read_table(tmp_path / "t.parquet")["x"].to_pylist())


def test_a_special_number_is_that_number_and_no_value_of_its_bin():
    facts = {"name": "x", "type": "number", "edges": [-10, 0, 10], "special": ["-9", "-8.5"], "missing": ["-7"]}
    x = attribute(**facts)
    assert codes_of(pd.Series([-9, -8.5, -7.0, -6, 3]), x)[0].tolist() == [2, 3, 4, 0, 1]
    assert codes_of(pd.Series(["-9.0", "-8.50", "-7"]), x)[0].tolist() == [2, 3, 4]
    column = original_values(np.array([2, 3, 4, 1]), x, np.random.default_rng(0))
    assert column.dtype == float  # and no column of objects
    assert column[:3].tolist() == [-9, -8.5, -7]
    assert as_text(column, x)[:2].tolist() == ["-9", "-8.5"]
    small = attribute(name="x", type="integer", edges=[-9, -7, 0], special=["-9"])
    drawn = original_values(np.zeros(500, dtype=int), small, np.random.default_rng(0))
    assert set(drawn) == {-8}
    with pytest.raises(InputError, match="holds no whole number"):
        attribute(name="x", type="integer", edges=[-9, -7, 0], special=["-9"], missing=["-8"])


def test_one_odd_cell_moves_no_other():
    # Marks were once compared as text in columns of objects only.
    x = attribute(name="x", type="number", edges=[0, 10], bottom=True, top=True, missing=["inf", "-9"])
    plain = [np.inf, 3.0, -9.0, -np.inf, 1.5]
    lenient = attribute(
        name="x", type="number", edges=[0, 10], bottom=True, top=True, missing=["inf", "-9"], lenient=True
    )
    alone = [int(codes_of(pd.Series([cell], dtype=object), lenient)[0][0]) for cell in plain]
    assert codes_of(pd.Series(plain), lenient)[0].tolist() == alone == [1, 0, 1, 0, 0]
    assert codes_of(pd.Series([*plain, "x"], dtype=object), lenient)[0].tolist() == [*alone, 1]
    assert codes_of(pd.Series(plain[:3]), x)[0].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"type": "string", "labels": ["a"], "special": ["a"]}, "a special text is a label too"),
        ({"type": "integer", "labels": ["1"], "special": ["1.0"]}, "a special text is a label too"),
        ({"type": "boolean", "special": ["True"]}, "a special text is a label too"),
        ({"type": "code", "size": 3, "special": ["1"]}, "a special text is a label too"),
        ({"type": "string", "labels": ["a"], "special": ["b"], "missing": ["b"]}, "special text 'b' is the same as"),
        ({"type": "integer", "labels": ["1"], "special": ["-9"], "missing": ["-9.0"]}, "special text '-9' is the same"),
        ({"type": "integer", "labels": ["1"], "special": ["-9", "-9.0"]}, "special text '-9' is the same"),
        ({"type": "string", "labels": ["a"], "special": ["z"], "other": "z"}, "special text 'z' is the same"),
        ({"type": "string", "labels": ["a"], "special": ["b", "b"]}, "special text 'b' stands twice"),
        ({"type": "string", "labels": ["a"], "special": [" b"]}, "has a space at its ends"),
        ({"type": "string", "labels": ["a"], "special": "b"}, "special: must be a list"),
        ({"size": 3, "special": ["b"]}, "needs a type"),
        ({"type": "string", "labels": ["a"], "size": 1, "special": ["b"]}, "codes leave none for a value"),
    ],
)
def test_special_texts_that_are_something_else_too_are_refused(facts, why):
    with pytest.raises(InputError, match=why):
        attribute(name="x", **facts)


def test_special_cells_are_neither_learned_as_labels_nor_counted_in_bins():
    schema = Domain.from_dict(
        {
            "attributes": [
                {"name": "ward", "type": "string", "labels": "private", "special": ["refused"], "missing": ["?"]},
                {**CRP, "edges": {"private": "uniform", "bins": 4}},
            ]
        }
    )
    assert Domain.from_dict(schema.to_dict()).to_dict() == schema.to_dict()
    # Were the special cells read as numbers, or as categories, they would be most of what is learned.
    frame = pd.DataFrame({"ward": ["a"] * 300 + ["refused"] * 900 + ["?"] * 10, "crp": ["5"] * 300 + ["<0.1"] * 910})
    ledger = Ledger("add_remove", epsilon=60.0, delta=1e-5, planned=True)
    domain, table = preprocess(frame, schema, session=Session(ledger, Randomness(0)))
    assert domain["ward"].texts == ("a", "other", "refused", "missing")
    assert table.counts(["ward"]).tolist() == [300, 0, 900, 10]
    assert domain["crp"].special == ("<0.1", "refused")
    assert table.counts(["crp"])[-3:].tolist() == [910, 0, 0]
    assert Table.from_frame(table.to_frame(original=True, random_state=0), domain) == table
