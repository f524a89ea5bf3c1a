"""Rankings, refusals and cautions."""

import itertools
import json
import re
import statistics

import numpy as np
import pytest

from marginalia.advice.attack import of_budget
from marginalia.advice.benchmarks import SMALLEST_LOSS
from marginalia.advice.recommend import predicted_widths, recommend
from marginalia.data.domain import Attribute, Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.inference.marginals import cell_bounds
from marginalia.inference.release import Release
from marginalia.methods.registry import BUILT_IN, arms_of
from marginalia.sweep.choices import MethodChoice, own_method
from marginalia.synthesis import ResidualPlanner

DOMAIN = Domain(
    [Attribute("age", 30, "numeric"), Attribute("ward", 6), Attribute("days", 12, "ordinal"), Attribute("died", 2)]
)
ASKED = {"rows": 20_000, "epsilon": 1.0, "relation": "replace_one"}


@pytest.fixture(scope="module")
def advice():
    return recommend(DOMAIN, "died", **ASKED)


@pytest.mark.slow
def test_methods_are_ranked_in_the_order_of_the_race(advice):
    for ranking in (advice.models, advice.tables):
        order = [option.prediction.behind for option in ranking.options]
        assert order == sorted(order)
        assert len(order) > 3
        assert ranking.within_reach == ranking.options
        for option in ranking.options:
            assert option.prediction.low <= option.prediction.loss <= option.prediction.high
            assert option.measured_on
            assert option.peak_mb > 0
            assert "measured on" in option.why
            assert option.method in option.how


@pytest.mark.slow
def test_every_private_method_is_ranked_or_refused(advice):
    for ranking, kinds in (
        (advice.models, ("learner", "downstream", "synthesizer")),
        (advice.tables, ("synthesizer",)),
    ):
        named = {option.method for option in ranking.options} | set(ranking.refused)
        arms = {m.id: [arm for arm in m.arms if arm.is_private] for m in BUILT_IN.values() if m.kind in kinds}
        able = {
            name for name, found in arms.items() if any(bool(arm.tasks) == bool(ranking.setting.task) for arm in found)
        }
        assert able <= named
        assert not named & {"trivial", "ols", "logistic"}


@pytest.mark.slow
def test_refusals_say_why(advice):
    assert advice.models.refused["ada_ssp"] == "regression only"
    assert "unlike 'age'" in advice.tables.refused["reduced_space"]
    under = recommend(DOMAIN, "died", **{**ASKED, "relation": "add_remove"})
    assert under.models.refused["pate"] == "no proof for add_remove"
    assert "--rows" in under.models.refused["dp_sgd"]


@pytest.mark.slow
def test_a_private_number_of_rows_is_said_first():
    private = {**ASKED, "relation": "add_remove"}
    assert "private under add_remove" in recommend(DOMAIN, "died", **private).cautions[0]
    assert "private" not in recommend(DOMAIN, "died", public_rows=True, **private).cautions[0]
    assert "private" not in recommend(DOMAIN, "died", **ASKED).cautions[0]


@pytest.mark.slow
def test_a_command_states_the_public_rows_that_a_method_needs():
    under = recommend(DOMAIN, "died", public_rows=True, **{**ASKED, "relation": "add_remove"})
    how = {option.method: option.how for option in under.models.options}
    assert how["dp_sgd"] == "marginalia fit --method dp_sgd --n-public 20000"
    assert how["ssp"] == "marginalia fit --method ssp"


@pytest.mark.slow
def test_hopeless_budgets_are_said_to_be():
    text = " ".join(recommend(DOMAIN, "died", rows=50, epsilon=0.01, relation="replace_one").cautions)
    assert "every method may turn out no better than the trivial prediction" in text
    assert "no benchmark of models is near this table and budget" in text
    assert "no benchmark of synthetic tables is near this table and budget: none is said to be first" in text


def test_what_was_not_benchmarked_nearby_stands_behind_what_was(record):
    """mwem_pgm is best by far, but ran on tables of 100 times as many rows only."""
    wide = {"pair_cells": 100.0}
    race = [record(0.1, family=f, method=m, rows=20_000, **wide) for f in "abc" for m in ("aim", "mst")]
    race += [
        record(0.01 if m == "mwem_pgm" else 0.1, family=f, method=m, rows=2_000_000, **wide)
        for f in "def"
        for m in ("mwem_pgm", "mst", "aim")
    ]
    models = [record(0.1, family=f, method="ssp", task="logistic", rows=20_000, width=7) for f in "abc"]
    found = recommend(DOMAIN, "died", records=[*race, *models], **ASKED).tables
    assert found.options[-1].method == "mwem_pgm"
    assert {option.method for option in found.within_reach} == {"aim", "mst"}
    assert found.options[-1].prediction.behind < found.options[0].prediction.behind


def test_methods_that_lose_all_are_said_to_be_no_better_than_trivial(record):
    """The trivial prediction loses 0.4 of the AUC in these records."""
    tables = [record(0.1, family=f, method=m) for f in "abc" for m in ("aim", "mst")]

    def said(loss):
        facts = {"task": "logistic", "rows": 20_000, "width": 7}
        models = [record(loss, family=f, method=m, **facts) for f in "abc" for m in ("ssp", "dp_sgd")]
        return " ".join(recommend(DOMAIN, "died", **ASKED, records=[*tables, *models]).cautions)

    assert "no method is predicted to beat the trivial prediction" in said(0.45)
    assert "trivial prediction" not in said(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "worst"), [("died", 0.5), ("days", None)])
@pytest.mark.parametrize("change", [{"rows": 50}, {"epsilon": 1e-3}, {"rows": 10_000_000}, {"epsilon": 100.0}])
def test_intervals_are_open_beyond_the_benchmarks(target, worst, change):
    found = recommend(DOMAIN, target, **{**ASKED, **change}).to_dict()
    for ranking, most in (("models", worst), ("tables", 1.0)):
        for option in found[ranking]["options"]:
            guess = option["prediction"]
            assert most is None or SMALLEST_LOSS <= guess["loss"] <= most
            if not guess["inside"]:
                assert guess["low"] == SMALLEST_LOSS or guess["high"] == most


@pytest.mark.slow
def test_more_columns_than_were_benchmarked_are_said():
    wide = Domain(
        [Attribute(f"c{i}", 10, "numeric" if i % 2 else "categorical") for i in range(299)] + [DOMAIN["died"]]
    )
    found = recommend(wide, "died", **ASKED)
    assert sum("is near this table and budget" in caution for caution in found.cautions) == 2
    assert all(option.prediction.high == 1 for option in found.tables.options)


@pytest.mark.slow
def test_what_is_said_to_run_a_method_runs_it(advice):
    """Its configuration, or its command's method and source, stand for an arm."""
    for option in [*advice.models.options, *recommend(DOMAIN, "days", **ASKED).models.options]:
        if found := re.search(r"\{ id: (\w+), variant: (\w+) \}", option.how):
            assert [arm.variant for arm in arms_of(found[1], variant=found[2])] == [option.variant]
        else:
            command = re.fullmatch(
                r"marginalia (?:fit|synthesize) --method (\w+)(?: --source (\w+))?(?:, then .*)?", option.how
            )
            assert list(arms_of(command[1], source=command[2]))


@pytest.mark.slow
def test_what_was_hardly_benchmarked_is_not_ranked(record):
    smooth = DOMAIN.project(["age", "days", "died"])
    found = recommend(smooth, "died", **ASKED)
    assert found.models.refused["chebyshev"] == "fits, but was benchmarked on 2 of 3 tables that a prediction needs"
    assert "only its noisy answers" in found.tables.refused["gaussian_marginals"]
    assert not {"chebyshev", "gaussian_marginals"} & {option.method for option in found.tables.options}


@pytest.mark.slow
def test_own_methods_declare_their_limits():
    def reason(**limits):
        choice = MethodChoice(id="mine", file="mine.py", tasks=("logistic",), limits=limits, **{"class": "Mine"})
        own = {**BUILT_IN, "mine": own_method(choice)}
        return recommend(DOMAIN, "died", registry=own, **ASKED).models.refused["mine"]

    assert reason() == "fits, but was not benchmarked"
    assert reason(columns=3) == "up to 3 columns, not 4"
    assert "unlike 'ward'" in reason(values="ordered")


def test_near_the_benchmarks_nothing_is_said_of_extrapolation(advice):
    assert not any("no benchmark" in caution for caution in advice.cautions)


@pytest.mark.slow
def test_numbers_are_regressed_on_and_unordered_codes_are_not():
    days = recommend(DOMAIN, "days", **ASKED)
    assert days.models.setting.task == "linear"
    assert "targets of two codes only" in days.models.refused["objective_perturbation"]
    ward = recommend(DOMAIN, "ward", **ASKED)
    assert ward.models is None
    assert "6 unordered codes" in ward.cautions[0]
    assert ward.tables.options == recommend(DOMAIN, "died", **ASKED).tables.options


@pytest.mark.slow
def test_an_inferred_domain_is_said_to_leak():
    inferred = Domain(DOMAIN, source="inferred")
    assert any("inferred from private rows" in caution for caution in recommend(inferred, "died", **ASKED).cautions)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["died", "days"])
def test_ten_times_the_budget_predicts_less_loss(target):
    for epsilon in (0.05, 0.5):
        poor, rich = (recommend(DOMAIN, target, **{**ASKED, "epsilon": e}) for e in (epsilon, 10 * epsilon))
        for ranking in ("models", "tables"):
            before, after = (
                {(o.method, o.variant): o.prediction.loss for o in getattr(found, ranking).options}
                for found in (poor, rich)
            )
            assert before.keys() == after.keys()
            assert all(after[arm] <= 1.1 * before[arm] for arm in before)  # other tables are then the nearest
            assert statistics.median(after[arm] / before[arm] for arm in before) < 0.7


def test_the_attack_is_that_of_the_budget(advice):
    assert advice.attack == of_budget(1.0, 1e-5)
    assert advice.gaussian_attack.success < advice.attack.success
    assert set(advice.gaussian) == {m.id for m in BUILT_IN.values() if m.gaussian}


def test_the_advice_is_json(advice):
    found = json.loads(json.dumps(advice.to_dict()))
    assert found["models"]["options"][0]["prediction"]["loss"] == advice.models.options[0].prediction.loss
    assert found["models"]["setting"]["rows"] == 20_000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": 0}, "rows is 0"),
        ({"epsilon": -1.0}, "epsilon is -1"),
        ({"delta": 1.0}, "delta is 1"),
        ({"relation": "both"}, "relation is 'both'"),
    ],
)
def test_what_is_no_budget_is_refused(change, words):
    with pytest.raises(InputError, match=words):
        recommend(DOMAIN, "died", **{**ASKED, **change})
    with pytest.raises(InputError, match="unknown attribute 'dead'"):
        recommend(DOMAIN, "dead", **ASKED)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_predicted_widths_are_those_of_a_release(relation):
    """They follow from the domain and the budget: a release of other rows has them to the digit."""
    budget = {"epsilon": 0.7, "delta": 1e-6, "relation": relation}
    widths = predicted_widths(DOMAIN, **budget)
    assert set(widths) == {"gaussian_marginals", "independent", "residual_planner"}
    rng = np.random.default_rng(0)
    table = Table(np.column_stack([rng.integers(size, size=500) for size in DOMAIN.sizes]), DOMAIN)
    release = Release.of(ResidualPlanner(random_state=5, **budget).fit(table))
    halves = []
    for pair in itertools.combinations(DOMAIN.names, 2):
        _, low, high, _ = cell_bounds(release, pair)
        halves.append(float((high - low).ravel()[0]) / 2)
    assert widths["residual_planner"] == pytest.approx(statistics.median(halves), rel=1e-4)


def test_domains_too_wide_for_it_get_no_predicted_widths():
    assert (
        predicted_widths(Domain.from_sizes({"a": 1000, "b": 1000}), epsilon=1.0, delta=1e-5, relation="add_remove")
        == {}
    )
