"""The jobs of a sweep and their schedule."""

from pathlib import Path

import pytest

from marginalia.advice.costs import Costs, Estimate, Measured
from marginalia.advice.forecast import START_SECONDS, Forecast, PlannedJob, forecast
from marginalia.errors import InputError
from marginalia.papers.registry import experiments
from marginalia.sweep import resolve as sweep

ROOT = Path(__file__).parents[2]
CONFIG = {
    "datasets": ["diabetes", "breast_cancer"],
    "epsilons": [0.5, 2],
    "trials": 3,
    "methods": ["ols", "logistic", "aim", "dd_ssp"],
}


@pytest.fixture
def repository(monkeypatch):
    """Snakemake reads the workflow of the current folder."""
    monkeypatch.chdir(ROOT)


def job(name, seconds, *needs, peak=100.0, basis="measured"):
    return PlannedJob("r", name, (Estimate(seconds, peak, basis),), needs)


def test_wall_time_is_the_work_on_one_core_and_the_longest_chain_on_many():
    plan = Forecast((job("a", 4), job("b", 3), job("c", 2, "a"), job("d", 1, "b", "c")))
    assert plan.wall_seconds(1) == START_SECONDS + 10
    assert plan.wall_seconds(2) == START_SECONDS + 7
    assert plan.wall_seconds(9) == START_SECONDS + 7


def test_longer_jobs_start_first():
    plan = Forecast((job("short", 1), job("other", 1), job("long", 5)))
    assert plan.wall_seconds(2) == START_SECONDS + 5


def test_shares_follow_what_estimates_stand_on():
    plan = Forecast((job("a", 30, basis="measured"), job("b", 10, basis="guess", peak=900.0)))
    assert plan.seconds == 40
    assert plan.shares() == {"measured": 0.75, "other data": 0.0, "guess": 0.25}
    assert plan.summary(4)["peak_mb"] == 1800


@pytest.mark.slow
def test_fits_are_counted_by_task_budget_and_trial(repository):
    costs = Costs(
        [
            Measured("fit", "aim", "", "tight", "", "diabetes", 442, 11, 7.0, 300.0, ""),
            Measured("rule", "run_methods", "", "", "", "", 0, 0, 1.0, 200.0, ""),
        ]
    )
    alone = {**CONFIG, "methods": ["aim"], "trials": 20}
    plan = forecast([sweep.resolve(alone, experiments())], costs)
    aim = next(j for j in plan.jobs if j.name == "results/run_methods/sweep/diabetes/aim/0.5")
    assert aim.seconds == pytest.approx(1.0 + 20 * 7.0)
    assert aim.needs == ("results/prepare_dataset/diabetes",)
    limited = forecast([sweep.resolve({**alone, "timeout_seconds": 3}, experiments())], costs)
    assert next(j for j in limited.jobs if j.name == aim.name).seconds == pytest.approx(1.0 + 20 * 3.0)
    both = forecast(
        [sweep.resolve({**alone, "methods": ["aim", {"id": "dd_ssp", "variant": "aim"}]}, experiments())], costs
    )
    assert next(j for j in both.jobs if j.name == aim.name).seconds > aim.seconds  # it holds what post-processes AIM


@pytest.mark.slow
def test_every_need_is_a_job(repository):
    more = {"studies": {"chebyshev_x1": {}}, "comparisons": ["cross_paper"]}
    plan = forecast([sweep.resolve({**CONFIG, **more}, experiments())])
    names = {j.name for j in plan.jobs}
    assert len(names) == len(plan.jobs)
    assert all(need in names for j in plan.jobs for need in j.needs)


@pytest.mark.slow
def test_studies_with_other_settings_are_not_called_measured(repository):
    costs = Costs([Measured("study", "chebyshev_x1", "", "", "", "", 0, 0, 2.0, 200.0, "")])
    as_they_are = sweep.resolve({"methods": [], "datasets": [], "studies": {"chebyshev_x1": {}}}, experiments())
    changed = sweep.resolve({"methods": [], "datasets": [], "studies": {"chebyshev_x1": {"trials": 1}}}, experiments())
    assert {p.basis for j in forecast([as_they_are], costs).jobs if j.rule == "run_part" for p in j.parts} == {
        "measured"
    }
    assert {p.basis for j in forecast([changed], costs).jobs if j.rule == "run_part" for p in j.parts} == {"other data"}


def test_without_the_workflow_there_is_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no Snakefile here"):
        forecast([sweep.resolve(CONFIG, experiments())])
