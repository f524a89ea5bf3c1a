import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from marginalia.data import Column, Domain, Table
from marginalia.data.catalogue import catalogue
from marginalia.data.catalogue.entry import parse_entry
from marginalia.errors import InputError
from marginalia.methods.fit import fit
from marginalia.methods.registry import BUILT_IN
from marginalia.methods.task import Task
from marginalia.sweep.config import parse
from marginalia.sweep.plan import Job, plan
from marginalia.sweep.prepare import prepare_dataset
from marginalia.sweep.protocols import Prepared, split_rows
from marginalia.sweep.run import Runner, run_job

TASKS = (Task("linear", "c"), Task("logistic", "y", drop=("b",)))


def prepared(n=400, test=None, train_limit=None, n_public=None, n_public_test=None):
    rng = np.random.default_rng(0)
    domain = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("c", 5, "numeric"), Column("y", 2)])
    a, b = rng.integers(0, 3, n), rng.integers(0, 4, n)
    c = np.clip(a + b // 2 + rng.integers(0, 2, n), 0, 4)
    y = (rng.random(n) < 0.2 + 0.6 * (c > 2)).astype(int)
    table = Table(np.column_stack([a, b, c, y]), domain)
    unseen = None if test is None else table.take(slice(test))
    return Prepared("toy", table, TASKS, unseen, train_limit, n_public=n_public, n_public_test=n_public_test)


def jobs_of(**content):
    tasks = {"toy": TASKS}
    config = parse({"relation": "add_remove", "datasets": ["toy"], "trials": 2, "epsilons": [1], **content})
    return list(plan(config, {b.name: tasks for b in config.blocks()}).jobs.values())


def run(job, tmp_path, data=None, seed=3):
    folder = tmp_path / "data"
    (data or prepared()).save(folder)
    out = tmp_path / "records.parquet"
    run_job(job.settings(), data=folder, seed=seed, out=out)
    return pd.read_parquet(out)


def test_every_cell_becomes_one_row_for_each_metric(tmp_path):
    (job,) = jobs_of(methods=["ols", "logistic", "ssp", "ada_ssp"])
    frame = run(job, tmp_path)
    assert (frame["status"] == "ok").all(), frame["message"].tolist()
    counts = frame.groupby(["method", "variant", "metric"]).size()
    assert counts.to_dict() == {
        ("ada_ssp", "", "mse"): 2,
        ("ada_ssp", "code_constants", "mse"): 2,
        ("ada_ssp", "paper_constants", "mse"): 2,
        ("logistic", "", "accuracy"): 2,
        ("logistic", "", "auc"): 2,
        ("logistic", "", "risk"): 2,
        ("ols", "", "mse"): 2,
        ("ssp", "", "accuracy"): 2,
        ("ssp", "", "auc"): 2,
        ("ssp", "", "mse"): 2,
        ("ssp", "", "risk"): 2,
    }
    private = frame[frame["calibration"] == "tight"]
    assert np.allclose(private["epsilon_spent"], 1, rtol=1e-5)
    assert np.isinf(frame[frame["calibration"] == "none"]["epsilon"]).all()


def test_records_repeat_and_follow_the_seed(tmp_path):
    """Of a data set of the catalogue: what is noised with a seed anyone can work out is public."""
    (job,) = jobs_of(methods=["ssp"])
    data = replace(prepared(), name="adult")
    values = [run(job, tmp_path / str(i), data, seed=s)["value"].tolist() for i, s in enumerate((3, 3, 4))]
    assert values[0] == values[1]
    assert values[0] != values[2]


def test_a_dropped_column_is_no_feature(tmp_path):
    data = prepared()
    domain = data.table.domain
    copied = Table(np.column_stack([data.table.codes, data.table.column("y")]), Domain([*domain, Column("copy", 2)]))
    leaking = Prepared("toy", copied, (Task("logistic", "y"),))
    mended = Prepared("toy", copied, (Task("logistic", "y", drop=("copy",)),))
    (job,) = jobs_of(methods=["logistic"])
    auc = [
        run(job, tmp_path / name, data=d).query("metric == 'auc'")["value"].min()
        for name, d in (("leaking", leaking), ("mended", mended))
    ]
    assert auc[0] > 0.999
    assert auc[1] < 0.99


FAILING = """
class Failing:
    ledger_ = None
    def __init__(self, *, epsilon=1.0, delta=1e-5, random_state=None, how="raise"):
        self.how = how
    def fit(self, table, target):
        if self.how == "raise": raise ValueError("first line\\nsecond line")
        raise MemoryError
    def predict(self, table): ...
"""


@pytest.mark.parametrize(
    ("how", "status", "message"),
    [
        ("raise", "failed", "ValueError: first line"),
        ("memory", "memory", "out of memory"),
    ],
)
def test_a_failing_fit_becomes_rows_that_say_so(tmp_path, how, status, message):
    path = tmp_path / "failing.py"
    path.write_text(FAILING)
    own = {"id": "failing", "file": str(path), "class": "Failing", "tasks": ["linear"], "parameters": {"how": how}}
    (job,) = jobs_of(methods=[own], trials=1)
    frame = run(job, tmp_path)
    assert frame["status"].tolist() == [status]
    assert frame["message"].tolist() == [message]
    assert frame["value"].isna().all()


NO_SYNTHESIZER = """
class Broken:
    ledger_ = None
    def __init__(self, *, epsilon=1.0, delta=1e-5, random_state=None, told=""):
        self.told = told
    def fit(self, table):
        open(self.told, "a").write("x")
        raise ValueError("no synthesizer")
    def sample(self, n_rows=None): ...
    def marginal(self, attributes): ...
"""


def test_a_failed_source_is_tried_once_and_fails_what_post_processes_it(tmp_path):
    (tmp_path / "broken.py").write_text(NO_SYNTHESIZER)
    told = tmp_path / "told"
    own = {"id": "broken", "file": str(tmp_path / "broken.py"), "class": "Broken", "parameters": {"told": str(told)}}
    (job,) = jobs_of(methods=[own, {"id": "dd_ssp", "source": "broken"}], trials=2)
    frame = run(job, tmp_path)
    messages = frame.groupby("method")["message"].unique()
    assert messages["broken"].tolist() == ["ValueError: no synthesizer"]
    assert messages["dd_ssp"].tolist() == ["source broken: failed: ValueError: no synthesizer"]
    assert frame["value"].isna().all()
    assert told.read_text() == "xx"  # two trials


def test_what_post_processes_a_synthesizer_shares_its_fit(tmp_path, capsys):
    (job,) = jobs_of(methods=[{"id": "dd_ssp", "variant": "mst"}, "mst"], trials=1)
    frame = run(job, tmp_path)
    assert (frame["status"] == "ok").all(), frame["message"].tolist()
    assert (frame["epsilon_spent"] <= 1 + 1e-6).all()
    said = [line.split()[1:3] for line in capsys.readouterr().out.splitlines() if line.startswith("[")]
    assert said.count(["mst", "tight"]) == 1


def test_what_post_processes_a_synthesizer_is_in_its_job():
    many = {"epsilons": [0.5, 1], "trials": 20}  # more fits than a job of a slow method takes
    jobs = jobs_of(methods=["dd_ssp", "aim_synth"], **many)
    assert {(job.group, job.batch) for job in jobs} == {("aim", "0.5"), ("aim", "1"), ("synthesizers", "all")}
    for job in jobs:
        assert {arm.source for arm in job.arms if arm.source} == {arm.method for arm in job.sources}


def test_few_fits_of_a_slow_method_run_with_the_others():
    jobs = jobs_of(methods=["aim_synth", "mst", "ols"], trials=5)
    assert [(job.group, job.batch) for job in jobs] == [("synthesizers", "all"), ("learners", "all")]


def test_a_method_can_be_kept_to_some_data_sets():
    config = parse({"datasets": ["adult", "compas"], "methods": ["ols", {"id": "mst", "datasets": ["compas"]}]})
    planned = plan(config, {"sweep": {"adult": TASKS, "compas": TASKS}})
    assert {dataset for _, dataset, group, _ in planned.jobs if group == "synthesizers"} == {"compas"}
    assert {dataset for _, dataset, group, _ in planned.jobs if group == "learners"} == {"adult", "compas"}
    wrong = parse({"datasets": ["adult"], "methods": [{"id": "mst", "datasets": ["compass"]}]})
    with pytest.raises(InputError, match="data set of method 'mst' 'compass'; did you mean 'compas'"):
        plan(wrong, {"sweep": {"adult": TASKS}})


def test_settings_survive_json():
    small = {"id": "aim", "parameters": {"max_model_mb": 1, "workload": [["a", "b"], ["b", "c"]]}}
    for job in jobs_of(methods=["dd_ssp", small], timeout_seconds=5):
        again = Job.from_settings(json.loads(json.dumps(job.settings())))
        assert again.settings() == job.settings()
        assert again.cells(TASKS, 1) == job.cells(TASKS, 1)


def test_label_colour_and_highlight_change_neither_settings_nor_seeds(tmp_path):
    """Jobs rerun where their settings change; records name arms."""
    (tmp_path / "mine.py").write_text(
        "from marginalia.methods.independent import Independent\n\n\nclass Mine(Independent):\n    pass\n"
    )
    plain = [{"id": "ssp"}, {"id": "mine", "file": str(tmp_path / "mine.py"), "class": "Mine"}]
    look = {"label": "Shown", "colour": "crimson", "highlight": True}
    jobs, shown = (
        [*jobs_of(methods=entries)]
        for entries in (plain, [{**entry, **look, "label": f"L {i}"} for i, entry in enumerate(plain)])
    )
    assert [job.settings() for job in shown] == [job.settings() for job in jobs]
    assert [job.versions() for job in shown] == [job.versions() for job in jobs]
    seeds, of_shown = ([cell.seed for job in one for cell in job.cells(TASKS, 0)] for one in (jobs, shown))
    assert of_shown == seeds
    assert len(seeds) > 1


def test_strict_splits_differ_and_published_ones_do_not():
    data = prepared(test=50, train_limit=100)
    strict = [split_rows(data, "strict", "e", t, 0.2, 1) for t in (0, 1)]
    assert len(strict[0][0]) == 100
    assert len(strict[0][1]) == 90
    assert strict[0][1] != strict[1][1]
    published = [split_rows(data, "as_published", "e", t, 0.2, 1) for t in (0, 1)]
    assert published[0] == published[1]
    assert len(published[0][1]) == 50


@pytest.mark.parametrize("test", [None, 50])
@pytest.mark.parametrize("limit", [None, 100])
@pytest.mark.parametrize("protocol", ["strict", "as_published"])
def test_the_documented_number_of_training_rows_is_that_of_the_split(test, limit, protocol):
    data = prepared(test=test, train_limit=limit, n_public=400, n_public_test=test)
    train, _ = split_rows(data, protocol, "e", 0, 0.3, 1)
    assert data.public_training_rows(protocol, 0.3) == train.n_rows
    other = prepared(n=390, test=test, train_limit=limit, n_public=400, n_public_test=test)
    assert other.public_training_rows(protocol, 0.3) == train.n_rows
    assert prepared(test=test, train_limit=limit).public_training_rows(protocol, 0.3) is None


def test_test_rows_of_unknown_number_make_the_joined_number_unknown():
    assert prepared(test=50, n_public=400).public_training_rows("strict", 0.2) is None
    assert prepared(test=50, n_public=400).public_training_rows("as_published", 0.2) == 400


def test_documented_rows_come_from_the_entry(tmp_path):
    prepare_dataset(catalogue.entry("diabetes").model_dump(), tmp_path / "diabetes")
    assert Prepared.load(tmp_path / "diabetes").n_public == 442
    (tmp_path / "t.csv").write_text("y,x\n0,2\n1,0\n1,1\n")
    (tmp_path / "d.json").write_text('{"x": 3, "y": 2}')
    own = {"files": {"table": "t.csv", "domain": "d.json"}, "tasks": {"logistic": {"target": "y"}}}
    for more, expected in (({}, None), ({"n_public": 5}, 5), ({"rows": 3}, 3)):
        entry = parse_entry("mine", {**own, **more}, folder=tmp_path)
        prepare_dataset(entry.model_dump(), tmp_path / "mine")
        assert Prepared.load(tmp_path / "mine").n_public == expected


@pytest.mark.slow
def test_dp_sgd_under_add_remove_trains_by_the_documented_number(tmp_path):
    """Its cells fail for a data set that documents none, and never look at how many rows there are."""
    (job,) = jobs_of(methods=[{"id": "dp_sgd", "calibration": "tight"}], trials=1)
    failed = run(job, tmp_path / "private")
    assert set(failed["status"]) == {"failed"}
    assert failed["message"].str.contains("add_remove needs n_public").all()
    (job,) = jobs_of(methods=[{"id": "dp_sgd", "calibration": "tight"}], trials=1, relation="replace_one")
    assert set(run(job, tmp_path / "public")["status"]) == {"ok"}
    for variant, rate in (("", 1.0), ("fixed", 256 / 400)):  # the rule takes all rows; 80 % of 500
        fits = []
        for n in (400, 380):
            data = prepared(n=n, n_public=500)
            chosen = {"id": "dp_sgd", "calibration": "tight", "variant": variant}
            cell = jobs_of(methods=[chosen], trials=1)[0].cells(TASKS, 3)[0]
            runner = Runner(data, BUILT_IN)
            model = fit(cell.arm, BUILT_IN, runner._budget(cell), runner._split(cell)[0], cell.task)
            assert model.n_public == 400
            fits.append(model.ledger_.events)
        assert fits[0] == fits[1]
        assert fits[0][0].rate == rate


def test_a_prepared_set_survives_a_round_trip(tmp_path):
    data = prepared(test=20, train_limit=7, n_public=400, n_public_test=20)
    data.save(tmp_path)
    again = Prepared.load(tmp_path)
    assert again == data


def test_every_built_in_method_has_a_job():
    jobs = jobs_of(methods=list(BUILT_IN), relation="replace_one")
    assert {a.method for j in jobs for a in j.arms} == set(BUILT_IN)
