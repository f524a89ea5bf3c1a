"""Rankings, reasons and cautions."""

import itertools
import json
import re
import statistics

import numpy as np
import pytest

from marginalia.advice.order import measured_order
from marginalia.advice.recommend import predicted_widths, recommend
from marginalia.data.domain import Column, Domain
from marginalia.data.table import Table
from marginalia.data.units import Unit, UnitOfLearnedRows
from marginalia.errors import InputError
from marginalia.inference.marginals import cell_bounds
from marginalia.inference.release import Release
from marginalia.methods.registry import BUILT_IN, arms_of
from marginalia.privacy.attack import of_budget
from marginalia.sweep.choices import MethodChoice, own_method
from marginalia.synthesis import ResidualPlanner

DOMAIN = Domain([Column("age", 30, "numeric"), Column("ward", 6), Column("days", 12, "ordinal"), Column("died", 2)])
BOOLEAN = Domain.from_sizes({"a": 2, "b": 2, "c": 2, "y": 2})
ASKED = {"rows": 20_000, "epsilon": 1.0, "relation": "replace_one"}


@pytest.fixture(scope="module")
def advice():
    return recommend(DOMAIN, "died", **ASKED)


@pytest.mark.parametrize(
    ("domain", "target", "task"), [(DOMAIN, "died", "logistic"), (DOMAIN, "days", "linear"), (BOOLEAN, "y", "logistic")]
)
@pytest.mark.parametrize("change", [{}, {"relation": "add_remove"}, {"rows": 300, "epsilon": 0.01}, {"epsilon": 8.0}])
def test_methods_are_in_the_order_of_the_benchmark(domain, target, task, change):
    """What fits is listed in the measured order, whatever table and budget."""
    found = recommend(domain, target, **{**ASKED, **change})
    for ranking, of in ((found.models, task), (found.tables, "")):
        order = [(one.method, one.variant) for one in measured_order(of)]
        places = [order.index((option.method, option.variant)) for option in ranking.options]
        assert places == sorted(places)
        assert len(places) > 3
        assert {method for method, _ in order} <= {option.method for option in ranking.options} | set(ranking.refused)
        for option in ranking.options:
            assert option.seconds > 0 < option.peak_mb
            assert re.fullmatch(r"\S+: [\d,]+ rows, \d+ columns", option.measured_on)
            assert option.method in option.how


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


def test_refusals_say_why(advice):
    assert advice.models.refused["ada_ssp"] == "regression only"
    assert "unlike 'age'" in advice.tables.refused["reduced_space"]
    assert "noisy answers" in advice.tables.refused["gaussian_marginals"]
    assert advice.models.refused["pate"] == "fits, but the benchmark does not rank it on whole tables"
    under = recommend(DOMAIN, "died", **{**ASKED, "relation": "add_remove"})
    assert under.models.refused["pate"] == "no proof for add_remove"
    assert under.models.refused["dp_sgd"] == "needs a public number of rows (--n-public)"


def test_a_private_number_of_rows_is_said_first():
    private = {**ASKED, "relation": "add_remove"}
    assert "private under add_remove" in recommend(DOMAIN, "died", **private).cautions[0]
    assert not any("private" in one for one in recommend(DOMAIN, "died", public_rows=True, **private).cautions)
    assert not any("private" in one for one in recommend(DOMAIN, "died", **ASKED).cautions)


def test_a_command_states_the_public_rows_that_a_method_needs():
    under = recommend(DOMAIN, "died", public_rows=True, **{**ASKED, "relation": "add_remove"})
    how = {option.method: option.how for option in under.models.options}
    assert how["dp_sgd"] == "marginalia fit --method dp_sgd --n-public 20000"
    assert how["ssp"] == "marginalia fit --method ssp"


def test_without_a_target_there_are_synthetic_tables_only(advice):
    found = recommend(DOMAIN, **ASKED)
    assert found.models is None
    assert found.tables == advice.tables
    assert not any("unordered" in caution for caution in found.cautions)


def test_units_of_several_rows():
    """Under replace_one the number of rows is private, too, and the noise of a marginal is that of k rows."""
    of_persons = Domain(DOMAIN, unit=Unit("person", 3))
    found = recommend(of_persons, "died", **ASKED)
    assert found.unit == "one `person`, at most 3 rows each"
    assert "private under replace_one" in found.cautions[0]
    assert "at most 3 rows of one `person`" in found.cautions[1]
    assert not any("private" in one for one in recommend(of_persons, public_rows=True, **ASKED).cautions)
    single = recommend(Domain(DOMAIN, unit=Unit("person")), **ASKED)
    assert single.cautions == recommend(DOMAIN, **ASKED).cautions


def test_learned_rows_per_unit_are_planned():
    of_persons = Domain(DOMAIN, unit=UnitOfLearnedRows("person", 64))
    found = recommend(of_persons, "died", **ASKED, units=9000, rows_per_unit=4)
    assert "one `person` it keeps; 4 are planned here, and noise grows with that number" in found.cautions[1]
    assert (found.tables.setting.rows, found.tables.setting.units) == (ASKED["rows"], 9000)
    most = recommend(of_persons, "died", **ASKED)
    assert most.widths["independent"] == pytest.approx(16 * found.widths["independent"])


def test_where_the_order_differs_at_an_epsilon_is_said():
    low = recommend(DOMAIN, "died", **{**ASKED, "epsilon": 0.01})
    assert any("at epsilon 0.01 the benchmark ranks DP-SGD (" in caution for caution in low.cautions)
    assert not any("at epsilon" in caution for caution in recommend(DOMAIN, "died", **ASKED).cautions)
    assert low.models.options[0].method == "preconditioned_gd"


@pytest.mark.parametrize(
    ("epsilon", "outside"), [(0.004, True), (0.006, False), (0.03, False), (15, False), (17, True)]
)
def test_a_budget_outside_the_benchmark_is_said(epsilon, outside):
    cautions = recommend(DOMAIN, **{**ASKED, "epsilon": epsilon}).cautions
    assert any("outside the benchmark" in caution for caution in cautions) == outside


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


def test_own_methods_declare_their_limits():
    def reason(**limits):
        choice = MethodChoice(id="mine", file="mine.py", tasks=("logistic",), limits=limits, **{"class": "Mine"})
        own = {**BUILT_IN, "mine": own_method(choice)}
        return recommend(DOMAIN, "died", registry=own, **ASKED).models.refused["mine"]

    assert reason() == "fits, but the benchmark does not rank it on whole tables"
    assert reason(columns=3) == "up to 3 columns, not 4"
    assert "unlike 'ward'" in reason(values="ordered")


def test_numbers_are_regressed_on_and_unordered_codes_are_not():
    days = recommend(DOMAIN, "days", **ASKED)
    assert days.models.setting.task == "linear"
    assert "targets of two codes only" in days.models.refused["objective_perturbation"]
    ward = recommend(DOMAIN, "ward", **ASKED)
    assert ward.models is None
    assert "6 unordered codes" in ward.cautions[0]
    assert ward.tables.options == recommend(DOMAIN, "died", **ASKED).tables.options


def test_an_inferred_domain_is_said_to_leak():
    inferred = Domain(DOMAIN, source="inferred")
    assert any("inferred from private rows" in caution for caution in recommend(inferred, "died", **ASKED).cautions)


def test_the_attack_is_that_of_the_budget(advice):
    assert advice.attack == of_budget(1.0, 1e-5)
    assert advice.gaussian_attack.success < advice.attack.success
    assert set(advice.gaussian) == {m.id for m in BUILT_IN.values() if m.gaussian}


def test_the_advice_is_json(advice):
    found = json.loads(json.dumps(advice.to_dict()))
    assert found["models"]["options"][0]["mean_rank"] == advice.models.options[0].mean_rank
    assert found["models"]["setting"]["rows"] == 20_000
    assert json.loads(json.dumps(recommend(DOMAIN, **ASKED).to_dict()))["models"] is None


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
    with pytest.raises(InputError, match="unknown column 'dead'"):
        recommend(DOMAIN, "dead", **ASKED)


@pytest.mark.parametrize("unit", [None, Unit("person", 2)])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_predicted_widths_are_those_of_a_release(relation, unit):
    """They follow from the domain and the budget: a release of other rows has them to the digit."""
    budget = {"epsilon": 0.7, "delta": 1e-6, "relation": relation}
    widths = predicted_widths(Domain(DOMAIN, unit=unit), **budget)
    assert set(widths) == {"gaussian_marginals", "independent", "residual_planner"}
    rng = np.random.default_rng(0)
    table = Table(np.column_stack([rng.integers(size, size=500) for size in DOMAIN.sizes]), DOMAIN)
    if unit is not None:
        table = table.of_units(unit, np.arange(500) // unit.rows)
    release = Release.of(ResidualPlanner(random_state=5, **budget).fit(table))
    halves = []
    for pair in itertools.combinations(DOMAIN.names, 2):
        _, low, high, _ = cell_bounds(release, pair)
        halves.append(float((high - low).ravel()[0]) / 2)
    assert widths["residual_planner"] == pytest.approx(statistics.median(halves), rel=1e-4)


def test_widths_of_a_learned_number_of_rows_are_those_of_the_most():
    budget = {"epsilon": 1.0, "delta": 1e-5, "relation": "add_remove"}
    learned = predicted_widths(Domain(DOMAIN, unit=UnitOfLearnedRows("person", 9)), **budget)
    assert learned == predicted_widths(Domain(DOMAIN, unit=Unit("person", 9)), **budget)


def test_domains_of_too_many_cells_have_no_predicted_widths():
    domain = Domain.from_sizes({"a": 1000, "b": 1000})
    assert predicted_widths(domain, epsilon=1.0, delta=1e-5, relation="add_remove") == {}
