"""Data whose labels and edges each run of a sweep learns: one budget, comparable errors, nothing new for other data."""

import numpy as np
import pandas as pd
import pytest

from marginalia.data import Domain
from marginalia.data.catalogue.entry import parse_entry
from marginalia.data.cell_files import cell_texts
from marginalia.data.cells import cells_of
from marginalia.data.datasets import load
from marginalia.data.table import RawTable
from marginalia.errors import InputError
from marginalia.methods.fit import Budget, fit
from marginalia.methods.record import Arm, Method
from marginalia.methods.registry import BUILT_IN, arms_of
from marginalia.methods.task import Task
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.preprocessing.preprocess import preprocess
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.sweep import metrics
from marginalia.sweep.cells import Cell
from marginalia.sweep.config import parse
from marginalia.sweep.plan import plan
from marginalia.sweep.prepare import prepare_dataset
from marginalia.sweep.protocols import Prepared, tasks_of
from marginalia.sweep.records import read_certificates, read_records
from marginalia.sweep.run import Runner, run_job

ATTRIBUTES = [
    {"name": "age", "type": "integer", "edges": {"private": "adaptive", "bins": 6}},
    {"name": "ward", "type": "string", "labels": "private", "missing": ["?"]},
    {"name": "ill", "type": "boolean", "labels": ["no", "yes"]},
    {"name": "cost", "type": "number", "edges": [0, 20, 40, 80], "top": True},
]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    n = 4000
    age = rng.integers(18, 90, n)
    frame = pd.DataFrame(
        {
            "age": age.astype(str),
            "ward": rng.choice(["surgery", "medicine", "?"], n, p=[0.6, 0.35, 0.05]),
            "ill": np.where(age > 55, "yes", "no"),
            "cost": np.round(age * 0.8, 1),
        }
    )
    frame.loc[:2, "age"] = ["inf", "old", ""]
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame[:300].to_csv(tmp_path / "test.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    return tmp_path


def entry(folder, files=None, **changes):
    content = {
        "files": files or {"table": "t.csv"},
        "attributes": ATTRIBUTES,
        "preprocessing_share": 0.3,
        "tasks": {"logistic": {"target": "ill", "drop": ["cost"]}, "linear": {"target": "cost"}},
        **changes,
    }
    return parse_entry("clinic", content, folder=folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "files", [{"table": "t.csv"}, {"table": "t.parquet"}, {"train": "t.csv", "test": "test.csv"}], ids=len
)
def test_a_sweep_learns_in_each_run_within_the_budget(folder, files):
    """The noise is the system's, as for all own data; at epsilon 5 and 3,000 rows what is compared is far apart."""
    own = entry(folder, files)
    prepare_dataset(own.model_dump(mode="json"), folder / "data")
    config = parse(
        {
            "datasets": ["adult"],
            "methods": ["ols", "trivial", "ssp", "mst", "independent", {"id": "dd_ssp", "source": "independent"}],
            "epsilons": [5],
            "trials": 2,
        }
    )
    jobs = plan(config, {"sweep": {"clinic": tasks_of(own)}}).jobs.values()
    rows, proofs = [], []
    for number, job in enumerate(jobs):
        out = folder / f"{number}.parquet"
        run_job(job.settings(), data=folder / "data", seed=0, out=out)
        rows.append(read_records([out]))
        proofs += read_certificates([out])
    found = pd.concat(rows)
    assert set(found["status"]) == {"ok"}, found["message"].tolist()
    assert found.loc[found["calibration"] != "none", "epsilon_spent"].between(4.5, 5).all()
    assert len(proofs) >= 2 * 8
    for proof in proofs:
        labels = [event["label"] for event in proof.content["events"]]
        assert {"age: bounds", "ward: labels"} <= set(labels)
        assert {"released"} == {p["source"] for p in proof.content["public_inputs"] if p["name"] == "domain"}
    of = found.groupby(["method", "task", "metric"])["value"].mean()
    best, worst = of["ols", "linear", "mse"], of["trivial", "linear", "mse"]
    assert of["ssp", "linear", "mse"] < (best + worst) / 2
    assert of["ssp", "logistic", "auc"] > 0.9
    assert of["mst", "", "marginal_error"] < of["independent", "", "marginal_error"]


def texts_of(raw):
    """Return the cells of raw rows as text, by column."""
    return {name: cell_texts(cells_of(raw.frame[name], name, lenient=True)).tolist() for name in raw.frame}


def test_prepared_rows_are_those_that_were_read(folder):
    own = entry(folder)
    prepare_dataset(own.model_dump(mode="json"), folder / "data")
    data, raw = Prepared.load(folder / "data"), load(own).table
    assert isinstance(raw, RawTable)
    assert texts_of(data.raw) == texts_of(raw)
    assert data.raw.share == 0.3
    assert data.table.names == ("ill", "cost")


def test_data_without_private_facts_keep_their_seeds():
    """Computed before sweeps could learn anything."""
    task = Task("linear", "c")
    cell = Cell("e", "strict", "own", Arm("ssp", tasks=("linear",)), task, "add_remove", 1.0, 1e-5, 0, 0.2, 3)
    assert cell.seed == 8174877192754700034


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tasks": {"linear": {"target": "age"}}}, "the edges of target 'age' are to be learned, but errors are"),
        ({"tasks": {"logistic": {"target": "cost"}}}, "target 'cost' of the logistic task has 3 codes"),
        ({"tasks": {"logistic": {"target": "il"}}}, "'il'; did you mean 'ill'?"),
        ({"one_hot": ["wards"]}, "'wards'; did you mean 'ward'?"),
        ({"preprocessing_share": 1}, "preprocessing_share: input should be less than 1"),
        ({"domain": {"attributes": []}}, "give the domain once"),
        (
            {"attributes": [*ATTRIBUTES, {"name": "pay", "type": "boolean"}]},
            "column 'pay' of the domain",
        ),
        (
            {"attributes": [{"name": "age", "type": "integer", "edges": {"privat": 1}}]},
            "unknown key of the edges 'privat'",
        ),
    ],
)
def test_what_is_wrong_is_said_before_a_job_runs(folder, changes, said):
    with pytest.raises(InputError) as caught:
        load(entry(folder, **changes))
    assert said in str(caught.value).replace("Input should", "input should")


def test_errors_of_rows_are_measured_alike_whatever_was_learned(folder):
    raw = load(entry(folder)).table
    domain = metrics.reference_domain(raw)
    assert domain.source == "inferred"
    assert metrics.table_error(raw.coded(domain), raw) == 0
    two = {**ATTRIBUTES[0], "edges": {"private": "uniform", "bins": 2}}
    coarse = Domain.from_dict({"attributes": [two, *ATTRIBUTES[1:]]})

    def error(schema):
        _, table = preprocess(
            raw.frame, schema, session=Session(Ledger("add_remove", epsilon=2, delta=1e-5, planned=True), Randomness(0))
        )
        return metrics.table_error(table, raw)

    assert 0 < error(raw.domain) < error(coarse)  # in their own bins both are 0


class Codes:
    """An own method that wants a `Table`."""

    def __init__(self, epsilon=1.0, delta=1e-5, random_state=None):
        self.epsilon = epsilon

    def fit(self, table):
        raise AssertionError


def test_methods_that_cannot_learn_are_refused_in_one_line(folder):
    raw = load(entry(folder)).table
    record = Method("codes", "synthesizer", {"": f"{__name__}:Codes"}, (Arm("codes"),))
    with pytest.raises(
        InputError, match="method 'codes' takes codes, and its data leave labels or edges to be learned"
    ):
        fit(record.arms[0], {"codes": record}, Budget(1.0, 1e-5, "add_remove", 0), raw)
    prepare_dataset(entry(folder).model_dump(mode="json"), folder / "data")
    data = Prepared.load(folder / "data")
    (arm,) = arms_of("dp_sgd", variant="grid_on_test")
    cell = Cell("e", "as_published", "clinic", arm, data.tasks[0], "add_remove", 1.0, 1e-5, 0, 0.2, 0)
    runner = Runner(data, BUILT_IN)
    (row, *_) = runner.rows(cell, runner.outcome(cell))
    assert row.status == "failed"
    assert "chooses its settings on test rows" in row.message
