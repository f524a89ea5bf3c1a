"""Raw values: cells, distances, causes; good, bad and mislabelled tables; large ones are bounded."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from marginalia.data import values
from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.quality import raw_rows
from marginalia.quality.cells import Cells, Values, distance, shares
from marginalia.quality.quality import measure
from marginalia.quality.raw_rows import Sample, sampled

DOMAIN = {
    "attributes": [
        {"name": "time", "type": "date", "edges": {"bins": 12, "bounds": ["2024-01-01", "2024-12-26"]}},
        {"name": "price", "type": "number", "edges": {"bins": 16, "bounds": [0, 10_000]}, "top": True},
        {"name": "total", "type": "number", "edges": {"bins": 16, "bounds": [0, 100_000]}, "top": True},
        {"name": "shipping", "type": "number", "edges": {"bins": 16, "bounds": [0, 32]}},
        {"name": "icd_1", "type": "string", "labels": ["A", "B", "C"], "missing": []},
        {"name": "icd_2", "type": "string", "labels": ["A", "B", "C"], "missing": []},
    ]
}


def orders(n, seed):
    rng = np.random.default_rng(seed)
    price = np.round(rng.lognormal(2.5, 1.2, n), 2).clip(0.1, 9000)
    first = rng.choice(["A", "B", "C", ""], n, p=[0.5, 0.2, 0.1, 0.2])
    minutes = rng.integers(0, 350 * 1440, n)
    return pd.DataFrame(
        {
            "time": np.datetime_as_string(np.datetime64("2024-01-01T00:00") + minutes),
            "price": np.char.mod("%.2f", price),
            "total": np.char.mod("%.2f", price * rng.geometric(0.6, n)),
            "shipping": np.char.mod("%.2f", rng.choice([0, 4.9, 9.99], n, p=[0.24, 0.6, 0.16])),
            "icd_1": first,
            "icd_2": np.where(first == "", "", rng.choice(["A", "B", ""], n)),
        }
    )


def compared(real, made, tmp_path):
    schema = Domain.from_dict(DOMAIN)
    samples = []
    for name, frame in (("real", real), ("made", made)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        samples.append(Sample.read(tmp_path / f"{name}.csv", schema))
    tables = [sample.coded(schema, "t") for sample in samples]
    return measure(*tables, samples=tuple(samples))


def through_bins(frame, seed=0):
    """Write a table from its codes alone: what a perfect synthesizer would make of the domain's bins."""
    domain = Domain.from_dict(DOMAIN)
    table = Table.from_frame(frame, domain)
    made = table.to_frame(original=True, random_state=seed)
    made["time"] = made["time"].dt.strftime("%Y-%m-%d")
    return made.astype(object).where(made.notna(), "").astype(str)


@pytest.mark.parametrize("k", [1, 4, 10, 100])
def test_every_value_has_one_cell_and_shared_values_are_alone(k):
    rng = np.random.default_rng(k)
    cells_of = [*map(str, rng.integers(0, 60, 400)), *["4.9"] * 90, *["?"] * 70, *["n/a"] * 2]
    real = Values.of(pd.Series(cells_of), numeric=True)
    cells = Cells.of(real, k)
    codes = cells.codes(real)
    assert codes.min() >= 0
    assert codes.max() < cells.size - 1  # the last is of texts that no real row has
    by_value = dict(zip(cells_of, codes.tolist(), strict=True))
    counts = Counter(cells_of)
    assert [by_value[value] for value in cells_of] == codes.tolist()  # a function of the value
    for value, count in counts.items():
        if count * k >= len(cells_of):
            assert sum(other == by_value[value] for other in by_value.values()) == 1
    assert Counter(codes.tolist()).most_common(1)[0][1] <= max(max(counts.values()), 3 * len(cells_of) / k + 1)
    assert cells.codes(Values.of(pd.Series(["4.90", "refused"]), numeric=True)).tolist() == [
        by_value["4.9"],
        cells.size - 1,
    ]


def test_the_distance_is_that_of_brute_force():
    real, made = (
        Values.of(pd.Series(list("aaabbc")), numeric=False),
        Values.of(pd.Series(list("aabz")), numeric=False),
    )
    cells = Cells.of(real, 100)
    assert distance(*(shares(cells.codes(v), cells.size) for v in (real, made))) == pytest.approx(
        (abs(3 / 6 - 2 / 4) + abs(2 / 6 - 1 / 4) + 1 / 6 + 1 / 4) / 2
    )


@pytest.mark.slow
def test_bins_that_swallow_a_column_are_a_bad_mark_with_the_cause(tmp_path):
    real = orders(6000, 0)
    found = compared(real, through_bins(real), tmp_path)
    assert found.pairs.score == pytest.approx(1000)  # what the codes say: nothing is wrong
    assert found.raw.mark == "bad"
    assert found.raw.pairs.score < 800
    said = "\n".join(found.raw.causes)
    assert "of rows lie in the first bin of `total` (0 to 6250)" in said
    assert "`shipping` is 4.9 in" in said
    assert "`time` has lost its time of day" in said
    total = next(one for one in found.raw.columns if one.name == "total")
    assert total.bin_share > 0.97
    assert total.error > 0.7
    assert total.w1 > total.scale
    lines = json.loads(json.dumps(found.to_dict()))["raw"]
    assert lines["mark"] == "bad"
    assert lines["causes"] == found.raw.causes


@pytest.mark.slow
def test_rows_of_the_same_source_are_a_good_mark(tmp_path):
    found = compared(orders(20_000, 1), orders(20_000, 2), tmp_path).raw
    assert (found.mark, found.causes) == ("good", [])
    assert found.pairs.score == pytest.approx(1000 * (1 - found.halves), abs=10)


@pytest.mark.slow
def test_a_mislabelled_table_is_a_bad_mark(tmp_path):
    real = orders(6000, 3)
    made = orders(6000, 4).rename(columns={"icd_1": "icd_2", "icd_2": "icd_1", "price": "total", "total": "price"})
    found = compared(real, made[list(real)], tmp_path).raw
    assert found.mark != "good"
    assert "where `icd_1` is empty, `icd_2` is" in found.nested
    shuffled = real.assign(total=np.random.default_rng(0).permutation(real["total"]))
    torn = compared(real, shuffled, tmp_path).raw
    assert torn.columns[0].error < 0.01  # every column is right
    assert torn.mark == "bad"
    assert "`price` and `total` do not go together" in torn.causes[0]


def test_large_tables_are_compared_by_some_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(raw_rows, "MOST_ROWS", 500)
    monkeypatch.setattr(sampled, "__kwdefaults__", {"most": 500})
    found = compared(orders(3000, 5), orders(2000, 6), tmp_path)
    assert found.n_rows == (3000, 2000)
    assert found.is_sampled
    assert (len(found.real), len(found.synthetic)) == found.raw.rows == (500, 500)
    assert found.raw.mark != "bad"


def test_the_sample_is_the_same_whatever_the_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(sampled, "__kwdefaults__", {"most": 500})
    frame = orders(3000, 5)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=70, index=False)
    samples = [
        Sample.read(tmp_path / f"rows.{ending}", Domain.from_dict(DOMAIN), seed=3) for ending in ("csv", "parquet")
    ]
    for sample in samples:
        assert sample.n_rows == 3000
        assert sample.frame["shipping"].map(values.text).tolist() == frame["shipping"][sampled(3000, seed=3)].tolist()


@pytest.mark.slow
def test_the_command_says_the_raw_score_first(tmp_path, call):
    real = orders(2000, 7)
    real.to_csv(tmp_path / "real.csv", index=False)
    through_bins(real).to_csv(tmp_path / "made.csv", index=False)
    (tmp_path / "d.json").write_text(json.dumps(DOMAIN))
    files = tmp_path / "real.csv", tmp_path / "made.csv", "--domain", tmp_path / "d.json"
    code, out, _ = call("quality", *files, "--out", tmp_path / "q.html")
    assert code == 0
    assert out.index("raw score") < out.index("k-marginal score")
    assert "mark             BAD" in out
    page = (tmp_path / "q.html").read_text(encoding="utf-8")
    head = page.partition("<nav")[0]
    assert "lie in the first bin of `total`" in head
    assert page.index("raw score") < page.index("k-marginal score")
    code, out, _ = call("quality", *files, "--json")
    assert json.loads(out)["raw"]["mark"] == "bad"


def test_instants_are_read_on_one_clock():
    cells = np.array(["2024-07-01T23:30:00+00:00", "2024-07-02T01:30:00+02:00", "2024-07-02 01:30", "?"], dtype=object)
    found = raw_rows._seconds(cells, None, "Europe/Berlin")
    assert len(set(found[:3])) == 1
    assert np.isnan(found[3])
