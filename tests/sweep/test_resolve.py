import json

import pytest
from tiers import others_slow

from marginalia.data.catalogue import catalogue
from marginalia.errors import InputError
from marginalia.papers.registry import experiments
from marginalia.sweep import resolve as sweep

OWN = {
    "name": "mine",
    "files": {"table": "mine.csv", "domain": "mine.json"},
    "tasks": {"logistic": {"target": "y"}},
}


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No mirror, an empty cache, and a proxy that refuses."""
    monkeypatch.setenv("MARGINALIA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MARGINALIA_MIRROR", raising=False)
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", catalogue.names())
def test_no_task_encodes_a_column_that_it_drops(name):
    for task in sweep.tasks_of(catalogue.entry(name)):
        assert not set(task.drop) & set(task.one_hot or ())


def test_own_data_is_planned(offline):
    (offline / "mine.csv").write_text("a,y\n0,1\n")
    (offline / "mine.json").write_text('{"a": 2, "y": 2}')
    ready = sweep.prepare({"datasets": [OWN], "methods": ["logistic"]}, experiments())
    assert list(ready.entries) == ["mine"]
    assert ready.entries["mine"].files["table"].path == str(offline / "mine.csv")
    assert list(ready.figures()) == ["auc"]


def test_a_removed_setting_of_a_study_names_the_alternative():
    with pytest.raises(InputError, match="study 'dd_ssp_t1': the setting 'sets' is called 'datasets'"):
        sweep.prepare({"studies": {"dd_ssp_t1": {"sets": ["adult@dd_ssp"]}}, "methods": []}, experiments())
    with pytest.raises(InputError, match=r"feature_files was removed in 3\.0; call removal_curve"):
        sweep.prepare({"studies": {"adaptive_margin_x1": {"feature_files": ["vit.npz"]}}, "methods": []}, experiments())


@pytest.mark.parametrize(
    ("datasets", "said"),
    [
        (["adult"], "not online"),
        (["adulte"], "did you mean 'adult'?"),
        ([{**OWN, "name": "adult"}], "taken by the catalogue"),
        ([{k: v for k, v in OWN.items() if k != "name"}], "needs a name"),
        ([{**OWN, "taskz": {}}], "taskz"),
        ([{**OWN, "data": "part-*.parquet"}], "removed in 3.0"),
        ([{**OWN, "data": {"path": "part-*.parquet", "shards": 3}}], "give files: table"),
        ([OWN], "there is no file"),
    ],
)
def test_unusable_data_is_one_line(offline, datasets, said):
    with pytest.raises(InputError) as error:
        sweep.prepare({"datasets": datasets}, experiments())
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_removed_budget_file_of_a_sweep_names_the_alternative(offline):
    with pytest.raises(InputError, match=r"the key 'book' was removed in 3\.0: .* `synthesize --budget FILE`"):
        sweep.resolve({"datasets": [OWN | {"book": "t.book"}], "methods": ["ssp"]}, {})


@pytest.mark.slow
def test_stand_ins_take_over_and_the_finding_is_kept(offline, monkeypatch):
    ready = sweep.prepare({"methods": ["ols", "logistic"]}, experiments())
    assert ready.resolution.stand_ins
    assert set(ready.entries) == set(catalogue.STAND_INS)
    assert set(ready.resolution.missing) == set(catalogue.AUTO)
    note = offline / "results" / "data" / "auto.json"
    assert json.loads(note.read_text())["stand_ins"]
    # A cluster job must not look again: it reads what the main process wrote.
    monkeypatch.setattr(sweep, "resolve_auto", lambda: pytest.fail("looked again"))
    assert sweep.prepare({"methods": ["ols", "logistic"]}, experiments(), probe=False).resolution == ready.resolution


def test_figures_of_several_experiments_carry_their_names(offline):
    blocks = {"one": {"datasets": ["diabetes"], "methods": ["ssp"]}, "two": {"datasets": ["breast_cancer"]}}
    ready = sweep.prepare({"experiments": blocks}, experiments())
    names = ready.figures()
    assert list(names) == ["one_mse", "one_certificates", "two_auc", "two_marginal_error", "two_certificates"]
    assert names["one_mse"] == ("one", "mse")


def test_an_experiment_may_leave_its_figures_to_a_comparison(offline):
    blocks = {
        "one": {"datasets": ["diabetes"], "methods": ["ssp"], "figures": False},
        "two": {"datasets": ["diabetes"]},
    }
    names = sweep.prepare({"experiments": blocks}, experiments()).figures()
    assert {experiment for experiment, _ in names.values()} == {"two"}
    assert set(names) >= {"two_mse", "two_certificates"}


def test_rows_are_trained_on_the_tight_fit_in_whatever_order_the_fits_stand():
    chosen = [
        {"id": "reduced_space", "calibration": "published"},
        {"id": "reduced_space", "calibration": "tight"},
    ]
    for methods in (chosen, chosen[::-1]):
        planned = sweep.resolve({"datasets": ["compas_bool13"], "methods": methods}, {}).plan
        jobs = [job for job in planned.jobs.values() if any(arm.source for arm in job.arms)]
        assert jobs
        assert {source.calibration for job in jobs for source in job.sources} == {"tight"}


OWN_METHOD = """
class Mine:
    def __init__(self, epsilon=1.0, delta=1e-5, random_state=None): ...
    def fit(self, table, target): self.ledger_ = None
    def predict(self, table): ...
"""


@pytest.mark.parametrize(
    ("calibration", "trials", "batches"),
    [("tight", 6, ["all"]), ("tight", 7, ["0.1", "0.2", "0.5", "1", "2"]), ("none", 7, ["0.1"])],
)
def test_many_fits_of_a_slow_method_are_a_job_an_epsilon_each_planned_once(tmp_path, calibration, trials, batches):
    (tmp_path / "mine.py").write_text(OWN_METHOD)
    own = {"id": "mine", "file": str(tmp_path / "mine.py"), "class": "Mine", "tasks": ["linear"]}
    planned = sweep.resolve(
        {
            "datasets": ["diabetes"],
            "epsilons": [0.1, 0.2, 0.5, 1, 2],
            "trials": trials,
            "methods": [own | {"calibration": calibration}],
        },
        {},
    )
    assert [batch for *_, batch in planned.plan.jobs] == batches
    tasks = sweep.tasks_of(planned.entries["diabetes"])
    cells = [cell for job in planned.plan.jobs.values() for cell in job.cells(tasks, 0)]
    assert len(cells) == len(set(cells)) == trials * (5 if calibration == "tight" else 1)


@pytest.mark.parametrize(
    ("first", "message"),
    others_slow(
        [
            ("import os; os._exit(0)", "it ends the process with exit code 0"),
            ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "it ends the process with signal 9"),
            ("class Odd(BaseException): ...\nraise Odd('no')", "Odd: no"),
            ("raise SystemExit(0)", "SystemExit: 0"),
            ("while True: pass", "no end within 0.5 seconds"),
        ]
    ),
)
def test_a_file_that_ends_the_process_that_imports_it_is_one_line(tmp_path, monkeypatch, call, first, message):
    monkeypatch.setenv("MARGINALIA_WAIT_SECONDS", "0.5")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(f"{first}\n{OWN_METHOD}")
    (tmp_path / "c.yaml").write_text(
        "datasets: [diabetes]\nmethods: [{id: mine, file: mine.py, class: Mine, tasks: [linear]}]\n"
    )
    for words in (["plan", "--configfile", "c.yaml"], ["audit", "mine.py"]):
        code, out, err = call(*words)
        assert (code, out) == (2, ""), words
        (line,) = err.splitlines()
        assert "mine.py cannot be imported: " in line
        assert message in line


def test_own_methods_are_a_process_each(tmp_path):
    (tmp_path / "mine.py").write_text(OWN_METHOD)
    own = {"id": "mine", "file": str(tmp_path / "mine.py"), "class": "Mine", "tasks": ["linear"]}
    methods = [own, own | {"variant": "b"}, own | {"id": "other"}, own | {"calibration": "none"}, "ssp"]
    planned = sweep.resolve({"datasets": ["diabetes"], "trials": 1, "methods": methods}, {})
    jobs = {group: job for (_, _, group, _), job in planned.plan.jobs.items()}
    groups = {group: [(arm.method, arm.variant, arm.calibration) for arm in job.arms] for group, job in jobs.items()}
    assert groups.pop("learners")
    assert groups == {
        "mine": [("mine", "", "tight")],
        "mine+2": [("mine", "b", "tight")],
        "other": [("other", "", "tight")],
        "mine+3": [("mine", "", "none")],
    }


OWN_SOURCE = """
class Star:
    def __init__(self, epsilon=1.0, delta=1e-5, random_state=None): self.ledger_ = None
    def fit(self, table): ...
    def sample(self, n_rows=None): ...
    def marginal(self, attributes): ...
"""


@pytest.mark.parametrize("order", [1, -1])
def test_dd_ssp_stands_on_a_synthesizer_of_ones_own(tmp_path, order):
    """In the job of its source."""
    (tmp_path / "star.py").write_text(OWN_SOURCE)
    own = {"id": "star", "file": str(tmp_path / "star.py"), "class": "Star"}
    methods = [own, {"id": "dd_ssp", "source": "star"}, {"id": "dd_ssp", "source": "mst"}][::order]
    planned = sweep.resolve({"datasets": ["diabetes"], "trials": 1, "methods": methods}, {}).plan
    jobs = {group: job for (_, _, group, _), job in planned.jobs.items()}
    groups = {group: [(arm.method, arm.source) for arm in job.arms] for group, job in jobs.items()}
    assert sorted(groups["star"]) == [("dd_ssp", "star"), ("star", "")]
    assert sorted(groups["synthesizers"]) == [("dd_ssp", "mst"), ("mst", "")]
    job = jobs["star"]
    again = sweep.Job.from_settings(job.settings())
    assert again.file == job.file
    assert again.versions()  # reads the code of the source
    assert again.registry["star"].classes == {"": f"{tmp_path / 'star.py'}:Star"}


@pytest.mark.slow
def test_a_class_without_a_method_of_its_base_is_one_line(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from marginalia.learning.base import LinearRegressor\n"
        "from marginalia.learning.private import PrivateLearner\n"
        "class Mine(LinearRegressor, PrivateLearner):\n"
        "    def release(self, rows, session): ...\n"
    )
    own = {"id": "mine", "file": str(tmp_path / "mine.py"), "class": "Mine", "tasks": ["linear"]}
    with pytest.raises(InputError) as error:
        sweep.resolve({"datasets": ["diabetes"], "methods": [own]}, {})
    said = "mine.py: class Mine lacks _release(rows, session); is 'release' meant?"
    assert str(error.value) == f"{tmp_path}/{said}"
