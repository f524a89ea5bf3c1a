"""What is said not to fit is what the methods refuse."""

import numpy as np
import pytest
from tiers import others_slow

from marginalia.advice.recommend import setting, why_not
from marginalia.data.domain import Column, Domain
from marginalia.data.table import Table
from marginalia.data.units import Unit, UnitOfLearnedRows
from marginalia.errors import InputError
from marginalia.methods.fit import Budget, fit_learner, fit_synthesizer
from marginalia.methods.record import Arm
from marginalia.methods.registry import BUILT_IN

MIXED = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("y", 2)])
SMOOTH = Domain([Column("b", 4, "numeric"), Column("c", 5, "ordinal"), Column("y", 2)])
BOOLEAN = Domain.from_sizes({"a": 2, "b": 2, "y": 2})
ROWS = 60


def said(method, domain, *, task="", target="", relation="replace_one", delta=1e-5, public=True, variant="", source=""):
    here = setting(domain, task=task, target=target, rows=ROWS, relation=relation, epsilon=1.0, delta=delta)
    arms = [arm for arm in BUILT_IN[method].arms if arm.calibration == "tight" and task in (arm.tasks or ("",))]
    arm = arms[0] if arms else next(arm for arm in BUILT_IN[method].arms if arm.is_private)
    return why_not(arm, here, domain, public_rows=public)


def refused(method, domain, *, target="", relation="replace_one", delta=1e-5, n_public=None):
    rng = np.random.default_rng(0)
    table = Table(np.column_stack([rng.integers(0, size, ROWS) for size in domain.sizes]), domain)
    budget = Budget(1.0, delta, relation, 0, n_public)
    try:
        fit_learner(method, table, target, budget) if target else fit_synthesizer(method, table, budget)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("domain", others_slow([MIXED, SMOOTH, BOOLEAN]))
@pytest.mark.parametrize("method", [m.id for m in BUILT_IN.values() if m.kind == "synthesizer"])
@pytest.mark.parametrize("relation", others_slow(["add_remove", "replace_one"]))
def test_synthesizers(method, domain, relation):
    assert bool(said(method, domain, relation=relation)) == bool(refused(method, domain, relation=relation))


@pytest.mark.parametrize("method", ["ssp", "ada_ssp", "objective_perturbation", "dp_sgd", "adaptive_margin", "pate"])
@pytest.mark.parametrize(("target", "task"), [("y", "logistic"), ("b", "linear")])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_learners(method, target, task, relation):
    if (method, task) == ("ada_ssp", "logistic"):  # the command line regresses on the two codes instead
        assert said(method, MIXED, task=task, target=target, relation=relation) == "regression only"
        return
    ours = said(method, MIXED, task=task, target=target, relation=relation, public=False)
    assert bool(ours) == bool(refused(method, MIXED, target=target, relation=relation))


def test_a_public_number_of_rows_lets_dp_sgd_run():
    known = {"target": "y", "relation": "add_remove"}
    assert "--n-public" in said("dp_sgd", MIXED, task="logistic", public=False, **known)
    assert said("dp_sgd", MIXED, task="logistic", public=True, **known) == ""
    assert refused("dp_sgd", MIXED, n_public=ROWS, **known) == ""


def test_delta_of_the_adaptive_margin():
    for delta in (0.1, 1e-5):
        ours = said("adaptive_margin", MIXED, task="logistic", target="y", delta=delta)
        assert bool(ours) == bool(refused("adaptive_margin", MIXED, target="y", delta=delta))


def test_sizes_that_no_memory_holds():
    wide = Domain([Column("a", 40_000), Column("b", 40_000), Column("y", 2)])
    assert "GB" in said("ssp", wide, task="logistic", target="y")
    assert "GB" in said("gaussian_marginals", wide)
    assert said("independent", wide) == ""


def test_post_processing_has_the_limits_of_its_source():
    here = setting(MIXED, task="logistic", target="y", rows=ROWS, relation="add_remove", epsilon=1.0, delta=1e-5)
    on_chebyshev = Arm("dd_ssp", variant="chebyshev", tasks=("logistic",), source="chebyshev")
    assert why_not(on_chebyshev, here, MIXED, public_rows=True) == "no proof for add_remove"
    here = here._replace(relation="replace_one")
    assert "unlike 'a'" in why_not(on_chebyshev, here, MIXED, public_rows=True)


@pytest.mark.parametrize("unit", [Unit("person", 3), UnitOfLearnedRows("person", 3)])
@pytest.mark.parametrize("method", ["ssp", "objective_perturbation", "preconditioned_gd", "independent", "dd_ssp"])
def test_units_of_several_rows(method, unit):
    """The reason is there if and only if the fit raises."""
    learner = method != "independent"
    task, target = ("logistic", "y") if learner else ("", "")
    domain = Domain(MIXED, unit=unit)
    here = setting(domain, task=task, target=target, rows=ROWS, relation="add_remove", epsilon=1.0, delta=1e-5)
    arm = next(a for a in BUILT_IN[method].arms if a.calibration == "tight" and (not learner or task in a.tasks))
    ours = why_not(arm, here, domain, public_rows=True)
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, size, ROWS) for size in MIXED.sizes])
    table = Table(codes, MIXED).of_units(unit, np.arange(ROWS) // 3)
    budget = Budget(1.0, 1e-5, "add_remove", 0, ROWS // 3)
    message = ""
    try:
        fit_learner(method, table, target, budget) if learner else fit_synthesizer(method, table, budget)
    except InputError as error:
        message = str(error)
    assert ("proof" in message) == ("proof" in ours) == bool(message) == bool(ours)


def test_a_method_for_single_rows_is_refused_where_units_have_several(monkeypatch):
    domain = Domain(MIXED, unit=Unit("person", 3))
    here = setting(domain, rows=ROWS, relation="add_remove", epsilon=1.0, delta=1e-5)
    monkeypatch.setattr(BUILT_IN["independent"].load(), "UNITS", False)
    assert why_not(Arm("independent"), here, domain, public_rows=True) == "proof for one row per `person` only"
    assert why_not(Arm("independent"), here, Domain(MIXED, unit=Unit("person")), public_rows=True) == ""
