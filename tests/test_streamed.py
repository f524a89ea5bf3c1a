"""A data set that is streamed: from shards to records."""

import json

import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Domain
from marginalia.data.sources.parquet import ParquetSource
from marginalia.data.sources.parts import HashSplit
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.methods.logistic import LogisticClassifier
from marginalia.methods.ols import OLSRegressor
from marginalia.reporting.provenance import datasets_info
from marginalia.streamed import CountedData, shards_of
from marginalia.sweep import metrics
from marginalia.sweep.config import parse
from marginalia.sweep.jobs import count_shard, prepare_counts, run_method
from marginalia.sweep.plan import plan
from marginalia.sweep.protocols import hash_split, load_prepared, split_counts, tasks_of
from marginalia.sweep.records import read_certificates, read_records
from marginalia.sweep.resolve import resolve

SEED = 3
ATTRIBUTES = [
    {"name": "age", "size": 6, "kind": "numeric"},
    {"name": "ward", "size": 3},
    {"name": "ill", "size": 2},
]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    age = rng.integers(0, 6, 4000)
    ill = (rng.random(4000) < 0.1 + 0.14 * age).astype(int)
    return pd.DataFrame({"age": age, "ward": (age + rng.integers(0, 2, 4000)) % 3, "ill": ill})


def content_of(folder, **config):
    entry = {
        "name": "clinic",
        "data": {"path": f"{folder}/part-*.parquet", "shards": 3},
        "attributes": ATTRIBUTES,
        "tasks": {"linear": {"target": "age"}, "logistic": {"target": "ill"}},
    }
    entry["data"] |= config.pop("data", {})
    return {"datasets": [entry], "epsilons": [1], "trials": 2, "relation": "replace_one", "seed": SEED, **config}


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    for i, part in enumerate((rows[:100], rows[100:])):
        part.to_parquet(folder / f"part-{i}.parquet", row_group_size=500, index=False)
    return folder


def prepared(folder, out, **config):
    """Do what the rules `count_shard` and `counts` do."""
    sweep = resolve(content_of(folder, **config), {})
    entry = sweep.entries["clinic"]
    for shard in shards_of(entry):
        splits = sweep.config.splits_of("clinic")
        count_shard(entry.model_dump(mode="json"), shard, splits=splits, seed=SEED, out=out / f"{shard}.npz")
    prepare_counts(entry.model_dump(mode="json"), [out / f"{s}.npz" for s in shards_of(entry)], out)
    return sweep


@pytest.fixture(scope="module")
def data(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("data")
    prepared(folder, out)
    return out


def test_both_sides_of_a_split_are_those_of_the_rows_in_memory(data, rows):
    counted = load_prepared(data)
    assert isinstance(counted, CountedData)
    table = Table.from_frame(rows, Domain.from_dict({"attributes": ATTRIBUTES}))
    masks = []
    for trial in range(2):
        train, test = split_counts(counted, "strict", "any", trial, 0.2, SEED)
        rule = hash_split("clinic", "row", trial, 0.2, SEED)
        masks.append(rule.of_rows(0, 4000))
        for side, expected in ((train, table.take(~masks[-1])), (test, table.take(masks[-1]))):
            assert side.n_rows == expected.n_rows
            np.testing.assert_array_equal(side.counts(["ill", "age"]), expected.counts(["ill", "age"]))
            assert side.in_memory().codes.tobytes() == expected.codes.tobytes()
    assert (masks[0] != masks[1]).any()
    _, test = split_counts(counted, "as_published", "any", 1, 0.2, SEED)
    assert test.n_rows == masks[0].sum()  # one split for all trials
    with pytest.raises(InputError, match="count it again"):
        split_counts(counted, "strict", "any", 0, 0.3, SEED)


def test_a_file_that_changes_after_or_while_it_is_counted_is_refused(rows, tmp_path):
    """Its counts and its rows, or those of two shards, would be of different people."""
    folder, out = tmp_path / "parts", tmp_path / "data"
    folder.mkdir()
    rows.to_parquet(folder / "part-0.parquet", row_group_size=500, index=False)
    sweep = prepared(folder, out)
    entry = sweep.entries["clinic"]
    rows[::-1].to_parquet(folder / "part-0.parquet", row_group_size=500, index=False)
    with pytest.raises(InputError, match="'clinic': a file has changed since it was counted"):
        split_counts(load_prepared(out), "strict", "any", 0, 0.2, SEED)
    first, *others = shards_of(entry)
    content, splits = entry.model_dump(mode="json"), sweep.config.splits_of("clinic")
    count_shard(content, first, splits=splits, seed=SEED, out=out / f"{first}.npz")
    with pytest.raises(InputError, match="a file has changed since its other shards were counted"):
        prepare_counts(content, [out / f"{s}.npz" for s in (first, *others)], out)


def test_what_is_streamed_is_scored_as_what_is_in_memory(data, monkeypatch):
    monkeypatch.setattr("marginalia.data.sources.parts.MOST_KEPT", 0)
    train, test = split_counts(load_prepared(data), "strict", "any", 0, 0.2, SEED)
    table = train.in_memory()
    for model, task, target in ((OLSRegressor(), "linear", "age"), (LogisticClassifier(), "logistic", "ill")):
        model.fit(table, target)
        ours = metrics.scores(model, test, target=target, task=task, one_hot=None)
        theirs = metrics.scores(model, test.in_memory(), target=target, task=task, one_hot=None)
        assert ours == pytest.approx(theirs, rel=1e-13)
        assert len(list(test.batches())) > 1


def test_few_rows_are_read_once_a_trial(data, monkeypatch):
    _, test = split_counts(load_prepared(data), "strict", "any", 0, 0.2, SEED)
    reads, opened = [], ParquetSource._batches
    monkeypatch.setattr(ParquetSource, "_batches", lambda *given: reads.append(1) or opened(*given))
    for names in (["age"], ["ill", "ward"], ["age"]):
        assert sum(len(batch) for batch in test.project(names).batches()) == test.n_rows
    assert len(reads) == 2  # files


@pytest.mark.slow
def test_records_of_methods_that_count_and_of_some_that_read_rows(data, folder, tmp_path, monkeypatch):
    """What needs rows gets those of its side; where they do not fit, one row a cell says how much memory they need."""
    sweep = resolve(
        content_of(folder, methods=["logistic", "ssp", {"id": "dd_ssp", "source": "gaussian_marginals"}]), {}
    )
    tasks = {"sweep": {"clinic": tasks_of(sweep.entries["clinic"])}}
    jobs = plan(sweep.config, tasks).jobs.values()

    def run(store):
        for job in jobs:
            out = tmp_path / store / f"{job.group}.parquet"
            run_method(job.settings(), data=data, seed=SEED, store=tmp_path / store / "cells", out=out)
        files = [tmp_path / store / f"{job.group}.parquet" for job in jobs]
        return read_records(files), read_certificates(files)

    frame, certificates = run("one")
    assert (frame["status"] == "ok").all(), frame["message"].tolist()
    assert set(frame["method"]) == {"logistic", "ssp", "dd_ssp", "gaussian_marginals"}
    assert set(frame["split"]) == {"random"}
    private = frame[frame["method"] != "logistic"]
    assert len(certificates) == private.groupby(["method", "variant", "calibration", "task", "trial"]).ngroups

    monkeypatch.setattr("marginalia.data.sources.counted.allowed_bytes", lambda: 2**10)
    frame, _ = run("two")
    failed = frame[frame["status"] != "ok"]
    assert set(failed["method"]) == {"logistic"}
    assert failed["message"].str.contains("rows and 3 columns in memory need").all()
    assert failed.groupby("trial").ngroups == 2


def test_a_split_by_a_key_keeps_its_rows_together(rows, tmp_path):
    frame = rows.assign(person=np.random.default_rng(4).integers(0, 900, 4000))
    frame.to_parquet(tmp_path / "part-0.parquet", row_group_size=700, index=False)
    content = content_of(tmp_path, data={"split_by": "person"})
    entry = content["datasets"][0]
    entry["domain"] = {"attributes": entry.pop("attributes"), "ignored": ["person"]}
    entry["files"] = {}
    out = tmp_path / "data"
    sweep = resolve(content, {})
    entry = sweep.entries["clinic"]
    for shard in shards_of(entry):
        splits = sweep.config.splits_of("clinic")
        count_shard(entry.model_dump(mode="json"), shard, splits=splits, seed=SEED, out=out / f"{shard}.npz")
    prepare_counts(entry.model_dump(mode="json"), [out / f"{s}.npz" for s in shards_of(entry)], out)
    train, test = split_counts(load_prepared(out), "strict", "any", 0, 0.2, SEED)
    import pyarrow as pa

    mask = HashSplit(hash_split("clinic", "row", 0, 0.2, SEED).seed, 0.2, "person").of_keys(pa.array(frame["person"]))
    assert test.n_rows == mask.sum() == test.in_memory().n_rows
    assert train.in_memory().n_rows == 4000 - mask.sum()
    assert not set(frame["person"][mask]) & set(frame["person"][~mask])
    facts = json.loads((out / "dataset.json").read_text())["facts"]
    assert facts["split"].startswith("random, by SplitMix64 of the value of column 'person'; seeds of the trials: ")
    assert (facts["rows"], facts["data_files"]) == (4000, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {"path": "nowhere-*.parquet"}}, r"no file matches .*nowhere"),
        ({"files": {"table": "t.csv"}}, "give either data or files: table"),
        ({"tasks": {"linear": {"target": "agee"}}}, "'agee'; did you mean 'age'"),
        ({"data": {"path": "part-*.parquet", "split": "row"}}, "data.split"),
        ({"data": {"path": "part-*.parquet", "order": 1}}, "data.order"),
        ({"data": {"path": "part-*.parquet", "split_by": "person"}}, "split_by.* 'person'"),
        ({"attributes": ATTRIBUTES[:2]}, "column 'ill' is not in the domain"),
        (
            {"attributes": [{"name": "ward", "type": "string", "labels": "private"}, ATTRIBUTES[0], ATTRIBUTES[2]]},
            "leaves labels or edges to be bought",
        ),
        ({"rows": 5}, None),
    ],
)
def test_mistakes_are_one_line(folder, tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(folder)
    content = content_of(folder)
    content["datasets"][0] |= change
    if message is None:  # known when the rows are counted
        with pytest.raises(InputError, match="4000 rows, its entry says 5"):
            prepared(folder, tmp_path, datasets=content["datasets"])
        return
    with pytest.raises(InputError, match=message) as error:
        resolve(content, {})
    assert "\n" not in str(error.value)


def test_every_split_that_some_experiment_makes_is_counted(folder):
    content = content_of(
        folder, experiments={"a": {"trials": 3}, "b": {"protocol": "as_published"}, "c": {"test_fraction": 0.5}}
    )
    assert parse(content).splits_of("clinic") == [
        (0, 0.2),
        (1, 0.2),
        (2, 0.2),
        (0, 0.5),
        (1, 0.5),
    ]


def test_the_report_says_how_rows_are_split_and_no_hash_of_private_counts(data):
    (row,) = datasets_info(
        [data / "dataset.json"], splits={"clinic": "random"}, counted={"clinic"}, missing={}, stand_ins=False
    )
    assert row["split"].startswith("random, by SplitMix64 of the row's number; seeds of the trials: ")
    assert (row["rows"], row["data_files"], row["targets"]) == (4000, 2, ["age (linear)", "ill (logistic)"])
    assert row["source"].split(", ")[0] == row["data"]
    assert row["data"].endswith("part-*.parquet")
    assert "sha256" not in json.dumps(row)
