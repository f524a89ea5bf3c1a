"""Rows without a target are left out by a function of one row, from every source alike."""

import json

import numpy as np
import pandas as pd
import pytest

from marginalia.data.column import StructuralZeros
from marginalia.data.domain import Domain
from marginalia.data.sources.complete import complete
from marginalia.data.sources.files import stream_files
from marginalia.data.table import RawTable, Table
from marginalia.errors import InputError
from marginalia.methods.fit import Budget, fit_learner

CONTENT = {
    "attributes": [
        {"name": "age", "type": "integer", "edges": [0, 18, 65, 120]},
        {"name": "ill", "type": "string", "labels": ["no", "yes"], "missing": ["?", "NA"]},
        {"name": "ward", "type": "string", "labels": ["a", "b"], "missing": []},
    ]
}
DOMAIN = Domain.from_dict(CONTENT)


def frame_of(rng, n=200):
    return pd.DataFrame(
        {
            "age": rng.integers(0, 120, n),
            "ill": rng.choice(["no", "yes", "?", "NA", None], n),
            "ward": rng.choice(["a", "b", None], n),
        }
    )


@pytest.fixture
def frame():
    return frame_of(np.random.default_rng(0))


def test_all_sources_keep_the_same_rows(frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    found = [
        complete(source, "ill")
        for source in (
            Table.from_frame(frame, DOMAIN),
            stream_files(tmp_path / "t.csv", domain=DOMAIN),
            stream_files(tmp_path / "t.parquet", domain=DOMAIN),
        )
    ]
    kept = frame[frame["ill"].isin(["no", "yes"])]
    for rows in found:
        assert rows.n_rows == len(kept)
        assert rows.domain["ill"].size == 2
        assert rows.domain["ill"].missing is None
        table = rows.in_memory()
        assert np.array_equal(table.column("ill"), (kept["ill"] == "yes").astype(int))
        assert np.array_equal(rows.counts(["ill", "ward"]), found[0].counts(["ill", "ward"]))
        assert sum(batch.n_rows for batch in rows.batches()) == len(kept)


def test_rows_of_a_stream_that_are_left_out_are_encoded_as_those_of_a_table(frame, tmp_path):
    """A cell without a code is an error in whatever row, and the passes are those over the rows."""
    frame.to_parquet(tmp_path / "t.parquet")
    source = stream_files(tmp_path / "t.parquet", domain=DOMAIN)
    rows = complete(source, "ill")
    assert rows.recoded({"ward": np.array([0, 0, 1])}, Domain.from_sizes({"ward": 2})).counts(["ward"]).sum() < 200
    assert (rows.passes, source.passes) == (1, 1)
    row = int(np.flatnonzero(~frame["ill"].isin(["no", "yes"]))[0])
    frame.loc[row, "age"] = 121
    frame.to_parquet(tmp_path / "u.parquet")
    for read in (Table.read, stream_files):
        with pytest.raises(InputError, match=rf"u\.parquet: column 'age', row {row}: '121'"):
            complete(read(tmp_path / "u.parquet", domain=DOMAIN), "ill").counts(["age"])


def test_raw_rows_keep_what_is_to_be_learned(frame):
    learned = {"name": "ward", "type": "string", "labels": "private", "missing": []}
    schema = Domain.from_dict({"attributes": [*CONTENT["attributes"][:2], learned]})
    rows = complete(RawTable.of(frame, schema), "ill")
    assert rows.n_rows == frame["ill"].isin(["no", "yes"]).sum()
    assert rows.domain.open_columns == schema.open_columns
    assert rows.domain["ill"].missing is None
    model = fit_learner(
        "ssp", RawTable.of(frame, schema), "ill", Budget(1.0, 1e-5, "add_remove", 0), on_missing_target="drop"
    )
    assert model.ledger_.certified


@pytest.mark.slow
def test_whether_a_row_stays_is_a_function_of_that_row():
    """Neighbouring tables give neighbouring tables: what add_remove protects in one it protects in the other."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        frame = frame_of(rng, 12)
        at = int(rng.integers(12))
        whole = complete(Table.from_frame(frame, DOMAIN), "ill").codes.tolist()
        rest = complete(Table.from_frame(frame.drop(index=at), DOMAIN), "ill").codes.tolist()
        row = complete(Table.from_frame(frame.iloc[[at]], DOMAIN), "ill").codes.tolist()
        place = int(frame["ill"][:at].isin(["no", "yes"]).sum())
        assert whole == [*rest[:place], *row, *rest[place:]]


def test_structural_zeros_of_a_missing_target_go_with_it():
    zeros = [StructuralZeros(("ill", "ward"), ((2, 0), (1, 1))), StructuralZeros(("age", "ill"), ((0, 2),))]
    domain = Domain(DOMAIN, structural_zeros=zeros)
    table = complete(Table([[0, 0, 0], [1, 2, 1]], domain), "ill")
    assert table.domain.structural_zeros == (StructuralZeros(("ill", "ward"), ((1, 1),)),)
    assert table.codes.tolist() == [[0, 0, 0]]


def test_the_number_of_rows_that_are_left_is_never_public(frame):
    """Replacing a row may take one away: replace_one would take its number for known."""
    table = Table.from_frame(frame, DOMAIN)
    with pytest.raises(InputError, match=r"add_remove with epsilon 0\.5 and delta 3\.7754\de-06 protects as much"):
        fit_learner("ssp", table, "ill", Budget(1.0, 1e-5, "replace_one", 0), on_missing_target="drop")
    model = fit_learner("ssp", table, "ill", Budget(1.0, 1e-5, "add_remove", 0), on_missing_target="drop")
    assert "number of rows" not in {p.name for p in model.ledger_.public_inputs}
    whole = Table.from_frame(frame[frame["ill"].isin(["no", "yes"])], Domain([*complete(table, "ill").domain]))
    again = fit_learner("ssp", whole, "ill", Budget(1.0, 1e-5, "add_remove", 0))
    assert np.array_equal(model.coef_, again.coef_)


def test_a_target_that_is_never_missing_is_left_alone(frame):
    table = Table.from_frame(frame, DOMAIN)
    assert complete(table, "age") is table
    budget = Budget(1.0, 1e-5, "replace_one", 0)
    assert fit_learner("ssp", table, "age", budget, on_missing_target="drop").ledger_.certified


@pytest.mark.slow
def test_the_command_line_drops_on_request(frame, tmp_path, call):
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "d.json").write_text(json.dumps(CONTENT))
    fit = ("fit", "--method", "ssp", "--data", tmp_path / "t.csv", "--domain", tmp_path / "d.json", "--target", "ill")
    code, _, err = call(*fit, "--epsilon", 1)
    assert (code, "--on-missing-target drop" in err) == (2, True)
    code, _, err = call(*fit, "--epsilon", 1, "--on-missing-target", "drop")
    assert (code, "drop leaves a private number of rows, and replace_one takes it as public" in err) == (2, True)
    drop = ("--on-missing-target", "drop", "--relation", "add_remove")
    code, out, err = call(*fit, "--epsilon", 1, *drop, "--out", tmp_path / "m.json")
    assert code == 0, err
    assert "certificate: (1, 1e-05)-DP, add_remove: the number of rows is private" in out
    assert call("predict", "--model", tmp_path / "m.json", "--data", tmp_path / "t.csv")[0] == 0
    code, _, err = call(*fit, "--epsilon", 1, "--on-missing-target", "dorp")
    assert (code, "did you mean 'drop'" in err) == (2, True)
