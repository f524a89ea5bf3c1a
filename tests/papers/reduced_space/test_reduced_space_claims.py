"""Verdicts of the reduced-space paper: cell by cell, and not tested without tables."""

import pandas as pd
import pytest

from marginalia.papers.reduced_space import judges, reduced_space_epsilon
from marginalia.papers.reduced_space.judges import GAMMA, verdicts
from marginalia.papers.registry import experiment, experiments
from marginalia.reporting.verdicts import COLUMNS

OURS, PAPER, TREE, PARITIES = (getattr(reduced_space_epsilon, name) for name in ("OURS", "PAPER", "TREE", "PARITIES"))


def judge(**tables):
    table = verdicts(pd.DataFrame(), {f"reduced_space_{name}": pd.DataFrame(rows) for name, rows in tables.items()})
    assert tuple(table.columns) == COLUMNS
    assert table["id"].is_unique
    return table.set_index("id")


def test_without_tables_nothing_is_tested():
    assert set(judge()["verdict"]) == {"not tested"}


def test_it_asks_for_every_experiment_of_the_paper():
    chosen = experiment("reduced_space_verdicts")
    assert chosen.paper == "reduced_space"
    assert set(chosen.needs) == {
        name for name, one in experiments().items() if one.rows and name.startswith("reduced_space")
    }


def fail(step, failures, allowed, n_trials=100, case="6 bits"):
    return {
        "case": case,
        "family": "monomials",
        "step": step,
        "failures": failures,
        "allowed_failures": allowed,
        "n_trials": n_trials,
        "largest": 1.0,
        "m": 70.0,
        "n_functions": 7,
    }


@pytest.mark.parametrize(
    ("failures", "held"),
    [(0.0, 1), (0.20, 1), (0.26, 1), (0.32, 0)],  # 4γ = .2: of 100 runs 29 and more are told from it
)
def test_failures_are_told_from_the_allowed_share_by_a_binomial_test(failures, held):
    row = judge(fail=[fail("Theorem 2.3", failures, 4 * GAMMA)]).loc["T2.3"]
    assert (row["held"], row["tested"]) == (held, 1)


def test_a_step_of_the_proof_that_fails_is_named():
    steps = [name for _, name, *_ in judges.STEPS[:-1]]
    rows = [fail(step, 0.3 if step == "noise (3.9)" else 0.0, GAMMA) for step in steps]
    row = judge(fail=rows).loc["T2.3p"]
    assert (row["held"], row["tested"], row["note"]) == (
        6,
        7,
        "noise (3.9); 6 of 7 shown by the upper 95 % limit of the failures",
    )


@pytest.mark.parametrize(("failures", "shown"), [(0.0, 1), (0.01, 1), (0.02, 0), (1.0, 0)])
def test_few_failures_are_told_from_failures_that_only_cannot_be_told_from_the_allowed(failures, shown):
    """Upper 95 % limits of 0, 1 and 2 of 100: .0295, .0466, .0616; γ = .05."""
    note = judge(fail=[fail("our certificate", failures, GAMMA)]).loc["A14", "note"]
    assert note == f"{shown} of 1 shown by the upper 95 % limit of the failures"


def run(arm, bound, certificate=0.1, above=0.0):
    return {"arm": arm, "bound": bound, "certificate": certificate, "above_bound": above}


def test_a_bound_that_nothing_can_exceed_is_not_a_cell():
    """An average of bits errs by at most 1, one of signs by at most 2."""
    rows = [run("monomials, published noise", b) for b in (0.5, 1.5)]
    rows += [run("parities, exact noise", b) for b in (1.5, 2.5)]
    row = judge(n=rows).loc["T2.3m"]
    assert (row["held"], row["tested"], row["sets"]) == (2, 2, "8 bits")
    assert row["note"].startswith("2 cells left out")
    vague = [
        {
            "p": 6,
            "n": n,
            "epsilon": 1 / n,
            "error": 1 / n,
            "error_stderr": 0.0,
            "n_trials": 30,
            "above_bound": 0.0,
            "gamma": 0.1,
            "bound": 40 / n,
        }
        for n in (10, 20, 80)
    ]
    assert judge(corollary=vague).loc["C2.4b", "tested"] == 1


def test_a_certificate_is_compared_with_what_is_known_without_any_theorem():
    rows = [run("monomials, published noise", 3.0, certificate) for certificate in (0.2, 0.6)]  # 4·.6 > 1
    row = judge(n=rows).loc["A13"]
    assert (row["held"], row["tested"]) == (1, 2)


def lemma(values, failure, kind="as printed"):
    return {"values": values, "lemma": kind, "failure": failure, "allowed": 0.1}


def test_the_printed_lemma_is_judged_apart_from_the_repaired_one():
    table = judge(lemma=[lemma("±1", 0.3), lemma("0/1", 0.01), lemma("±1", 0.05, "repaired")])
    assert table.loc["L3.2", "verdict"] == "held in some cells"
    assert table.loc["L3.2", "note"] == "fails for functions with values ±1"
    assert table.loc["L3.2r", "verdict"] == "held"


def test_a_privacy_constant_that_is_too_small_is_seen():
    rows = [{"family": "cells", "share": 0.9}, {"family": "cells", "share": 1.01}]
    assert judge(privacy=rows).loc["T2.2", "verdict"] == "held in some cells"


def test_the_corollary_needs_every_step_to_fall_by_more_than_noise():
    rows = [
        {
            "p": 6,
            "n": n,
            "epsilon": 1 / n,
            "error": error,
            "error_stderr": 0.01,
            "n_trials": 30,
            "above_bound": 0.0,
            "gamma": 0.1,
            "bound": 0.9,
        }
        for n, error in ((10, 0.5), (20, 0.3), (40, 0.29))
    ]
    table = judge(corollary=rows)
    assert (table.loc["C2.4a", "held"], table.loc["C2.4a", "tested"]) == (1, 2)
    assert table.loc["C2.4b", "verdict"] == "held"


def test_ties_do_not_count_for_kappa_and_noise_is_told_apart():
    orders = {"kept": (0.1, 0.01), "tied": (0.0, 0.0), "reversed": (-0.1, -0.1), "reversed by noise": (-0.01, -0.01)}
    rows = [
        {"dataset": "a", "order": order, "difference": difference, "difference_stderr": 0.02, "n_trials": 5}
        for order, differences in orders.items()
        for difference in dict.fromkeys(differences)
    ]
    kappa = [{"dataset": "a", "measure": "uniform", "asked": 10.0, "cells": 8.0}]
    table = judge(kappa_pairs=rows, kappa=kappa, fail=[fail("x", 0, 0, case="20 bits")])
    assert (table.loc["S2.3", "held"], table.loc["S2.3", "tested"]) == (2, 4)
    assert table.loc["S2.3", "note"] == ("kept clearly: 1; reversed: 1 by noise, 1 clearly; 1 ties left out")
    assert (table.loc["S2.7", "held"], table.loc["S2.7", "tested"]) == (1, 2)
    assert (table.loc["S2.7b", "held"], table.loc["S2.7b", "tested"]) == (1, 1)  # m = 10 |F|


def test_one_missing_experiment_leaves_the_claims_of_the_other():
    kappa = [{"dataset": "a", "measure": "uniform", "asked": 10.0, "cells": 8.0}]
    assert judge(kappa=kappa).loc["S2.7", "verdict"] == "not held"
    assert judge(fail=[fail("x", 0, 0, case="20 bits")]).loc["S2.7", "verdict"] == "held"
    assert judge(kappa=kappa).loc["S2.7b", "verdict"] == "not tested"


def test_few_points_are_enough_where_their_error_is_that_of_the_most_up_to_a_margin():
    """Neither a large excess nor one that is only too noisy to be told from none makes them enough."""
    rows = [
        {"law": "x", "times": t, "excess": e, "excess_stderr": s, "n_trials": 60}
        for t, e, s in ((1, 9, 0.1), (3, 0.5, 0.01), (10, 0.001, 0.001), (3, 0.001, 0.1))
    ]
    row = judge(m=rows).loc["S2.4"]
    assert (row["held"], row["tested"], row["note"]) == (1, 3, f"short: x 3, x 3 |F|; {judges.DOMAIN}")


def pair(metric, arm, against, difference, stderr=0.01):
    return {
        "dataset": "adult_bool20",
        "epsilon": 1.0,
        "metric": metric,
        "arm": arm,
        "against": against,
        "difference": difference,
        "difference_stderr": stderr,
        "n_trials": 5,
    }


def test_better_is_a_paired_t_test():
    """Of five splits 2.5 standard errors are not enough."""
    rows = [pair("auc", OURS, PAPER, d) for d in (0.1, 0.025, -0.1)]
    rows += [pair("tv2", OURS, PAPER, d) for d in (0.1, -0.025, -0.1)]
    table = judge(epsilon_pairs=rows)
    for identity in ("A1", "A2"):
        assert table.loc[identity, ["held", "tested", "holm", "note"]].tolist() == [1, 3, 1, "worse in 1"]


def test_as_good_as_real_rows_is_a_test_of_equivalence():
    rows = [
        {"dataset": "adult_bool20", "arm": OURS, "epsilon": 1.0, "lost": lost, "lost_stderr": stderr, "n_trials": 5}
        for lost, stderr in ((0.001, 0.001), (0.001, 0.01), (0.02, 0.001))
    ]
    row = judge(epsilon_auc=rows).loc["S4b"]
    assert (row["held"], row["tested"]) == (1, 3)


def test_a_floor_is_an_error_that_does_not_follow_the_noise():
    means = [
        {"dataset": "adult_bool20", "arm": arm, "epsilon": epsilon, "max_error": error}
        for arm, errors in ((PARITIES, (0.10, 0.09)), (TREE, (0.08, 0.01)))
        for epsilon, error in zip((1.0, 8.0), errors, strict=True)
    ]
    table = judge(epsilon=[*means, {"dataset": "adult_bool20", "arm": "real", "epsilon": float("inf")}])
    assert (table.loc["A7", "verdict"], table.loc["A8", "verdict"]) == ("held", "held")
    turned = judge(epsilon=[{**m, "max_error": 0.05} for m in means])
    assert (turned.loc["A7", "verdict"], turned.loc["A8", "verdict"]) == ("held", "not held")
