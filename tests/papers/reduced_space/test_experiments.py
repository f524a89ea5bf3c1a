"""The experiments of the reduced-space paper: each runs small, repeats, and draws; their statistics against oracles."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from contract import check_experiment
from tiers import others_slow

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.methods.reduced_space.families import Family
from marginalia.methods.task import Task
from marginalia.papers.reduced_space import reduced_space_epsilon, reduced_space_fail, runs
from marginalia.papers.reduced_space.runs import Law
from marginalia.papers.reduced_space.theory import guarantee
from marginalia.papers.registry import experiment as experiment_of
from marginalia.papers.registry import experiments
from marginalia.sweep.protocols import Prepared

PAPER, OURS, TREE = reduced_space_epsilon.PAPER, reduced_space_epsilon.OURS, reduced_space_epsilon.TREE
SMALL = {
    "reduced_space_n": {"trials": 2, "records": (100, 200), "points": 50},
    "reduced_space_f": {"trials": 2, "records": 100, "attributes": (3, 4), "orders": (1, 2)},
    "reduced_space_m": {"trials": 2, "records": 100, "times": (1, 3), "laws": (0.0, 0.8)},
    "reduced_space_fail": {"trials": 2, "blocks": 2, "share_of_points": 0.001},
    "reduced_space_corollary": {"trials": 2, "bits": (4,), "factors": (8, 16)},
    "reduced_space_points": {"runs": 20, "orders": (1,)},
    "reduced_space_privacy": {"bits": (2, 4)},
    "reduced_space_cells": {"trials": 20, "shapes": ((5, 2),)},
    "reduced_space_lemma": {},
    "reduced_space_epsilon": {"trials": 2, "paper_trials": 3, "datasets": ("adult_bool20",), "epsilons": (1.0, 2.0),
                              "arms": (PAPER, TREE, OURS, reduced_space_epsilon.GAUSSIAN)},
    "reduced_space_kappa": {"trials": 2, "datasets": ("adult_bool20",), "points": (20, 50)},
}  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Small made-up tables under the names of the catalogue's."""
    rng = np.random.default_rng(0)
    root = tmp_path_factory.mktemp("prepared")
    boolean = Domain.from_sizes({f"x{j}": 2 for j in range(5)})
    rows = Table(rng.integers(0, 2, (200, 5)), boolean)
    Prepared("adult_bool20", rows, (Task("logistic", "x0"),)).save(root / "adult_bool20")
    return root


def small(name, data=None, seed=0, **changes):
    experiment = experiment_of(name)
    settings = {**experiment.defaults, **SMALL[name], **changes}
    rows = pd.concat(
        [experiment.run(part, settings, seed, data or {}) for part in experiment.part_names(settings)],
        ignore_index=True,
    )
    return rows, experiment.tables(rows, settings)


def test_every_study_of_the_paper_is_tried():
    assert set(SMALL) == {name for name, one in experiments().items() if one.rows and name.startswith("reduced_space")}


def test_rows_of_one_label_are_worth_a_coin_and_stay_in_the_means():
    """A release that no classifier can be trained on is a bad one, not a missing one."""
    domain = Domain.from_sizes({f"x{j}": 2 for j in range(4)})
    codes = np.random.default_rng(0).integers(0, 2, (50, 4))
    one_label = Table(np.c_[np.ones(50, dtype=int), codes[:, 1:]], domain)
    real = Table(codes, domain)
    quality = reduced_space_epsilon._quality(one_label, real, real)
    assert quality["auc"] == 0.5
    assert quality["accuracy"] == pytest.approx(codes[:, 0].mean())


@pytest.mark.parametrize("name", others_slow(SMALL, "reduced_space_n", "reduced_space_lemma"))
def test_a_study_runs_repeats_and_draws(name, prepared):
    check_experiment(name, SMALL[name], prepared)


def test_defaults_hold_the_values():
    assert experiment_of("reduced_space_n").defaults["records"] == (1000, 3000, 10_000, 30_000, 100_000)
    assert experiment_of("reduced_space_epsilon").defaults["epsilons"] == (0.5, 1.0, 2.0, 4.0, 8.0)


@pytest.mark.parametrize("law", [Law((0.7,) * 6), Law.half_and_half(6), Law((1.0,) * 6)], ids=lambda law: law.name)
def test_laws_know_their_averages_and_their_condition_number(law):
    points = np.array(list(product((0, 1), repeat=6)))
    density = law.density(points)
    assert density.sum() == pytest.approx(1)
    assert law.condition_number == pytest.approx(len(points) * (density**2).sum())
    for kind in ("monomials", "parities"):
        family = Family(kind, (2,) * 6, 2)
        assert law.averages(family) == pytest.approx(family.values(points) @ density)
    drawn = law.sample(20_000, np.random.default_rng(0))  # every mean within five standard errors: 1 in 3·10⁵ fails
    assert np.abs(drawn.mean(axis=0) - density @ points).max() < 5 * 0.5 / np.sqrt(20_000)


def test_the_failure_experiment_runs_inside_the_theorem_s_hypothesis():
    """At the experiment's own share of points, k and m are the theorem's: 69,025 points for six bits of Bern(.7)."""
    case = reduced_space_fail.CASES["6 bits"]
    promised = guarantee(
        Family("monomials", (2,) * 6, 1), case["n"], 1.0, condition_number=case["law"].condition_number
    )
    assert promised.n_points == 69_025
    assert experiment_of("reduced_space_fail").defaults["share_of_points"] == 1.0
    row = (
        experiment_of("reduced_space_fail")
        .run("6_bits,0", {"trials": 1, "blocks": 1, "share_of_points": 1.0}, 0, {})
        .iloc[0]
    )
    assert (row["m"], row["k"]) == (promised.n_points, promised.n_synthetic)
    for name, case in reduced_space_fail.CASES.items():
        p, order, n = len(case["law"].q), case["order"], case["n"]
        asked = guarantee(Family("monomials", (2,) * p, order), n, 1.0, condition_number=case["law"].condition_number)
        assert asked.applies
        assert asked.n_synthetic <= n
        assert not asked.vacuous
        assert (asked.n_points < 2**p) == (name in ("20 bits", "30 bits"))


def test_steps_of_the_proof_add_up():
    rows, tables = small("reduced_space_fail", cases=("6 bits",), share_of_points=1.0)
    assert (rows["error"] <= rows["fit_error"] + rows["drawing"] + 1e-12).all()
    assert (rows["fit_error"] <= rows["optimum"] + rows["noise"] + 1e-12).all()
    table = tables["reduced_space_fail"].set_index(["family", "step"])
    for kind, own in rows.groupby("family"):
        assert table.loc[(kind, "Theorem 2.3"), "largest"] == pytest.approx((own["error"] / own["accuracy"]).max())


def test_reweighted_points_fail_the_lemma_far_below_its_m_only():
    """One point against uniform (κ = 256): its share of 50 draws is far off, that of the lemma's m never."""
    rows, _ = small("reduced_space_points", runs=200, shares=(1e-4, 1.0))
    point = rows[rows["law"] == "one point"].set_index("share")
    assert (point.loc[1.0, "failures"] == 0).all()
    assert (point.loc[1e-4, "failures"] > 0.5).all()
    assert (rows.loc[rows["share"] == 1, "failures"] <= 0.05).all()


def test_the_corollary_asks_for_what_its_theorems_ask():
    rows, _ = small("reduced_space_corollary")
    for row in rows.itertuples():
        asked = guarantee(
            Family("monomials", (2,) * 4, 2),
            row.n,
            row.epsilon,
            gamma=row.gamma,
            condition_number=Law.half_and_half(4).condition_number,
        )
        assert asked.accuracy == pytest.approx(row.epsilon)
        assert abs(asked.n_points - row.m) <= 1
        assert abs(asked.n_synthetic - row.k) <= 1


def test_one_record_moves_the_averages_by_their_exact_sensitivity():
    rows, _ = small("reduced_space_privacy")
    assert len(rows) == 3 * 5  # of order 3 on two bits there is nothing
    for row in rows.itertuples():
        sensitivity = Family(row.family, (2,) * row.p, row.order).l1_sensitivity("replace_one")
        assert row.moved == sensitivity <= row.theorem


@pytest.mark.slow
def test_cells_of_parities_carry_the_noise_of_their_four_terms():
    """sd of a pair's cell: √2·scale·√3/4 for parities, √2·scale for the cell of both monomials; within 6 stderr."""
    rows, _ = small("reduced_space_cells", trials=2000)
    rows = rows.set_index(["arm", "cell"])
    family = {kind: Family(kind, (2,) * 5, 2) for kind in ("parities", "monomials")}
    scale = {kind: f.l1_sensitivity("replace_one") for kind, f in family.items()}
    for arm, cell, sd in (
        ("parities, exact noise", "11", np.sqrt(2) * scale["parities"] * np.sqrt(3) / 4),
        ("monomials, exact noise", "11", np.sqrt(2) * scale["monomials"]),
        ("monomials, exact noise", "00", np.sqrt(6) * scale["monomials"]),
    ):
        row = rows.loc[(arm, cell)]
        assert abs(row["error"] - sd) < 6 * row["error_stderr"]


def test_the_arm_of_the_paper_s_name_is_the_paper_s_algorithm():
    assert reduced_space_epsilon.ARMS[PAPER] == {
        "calibration": "published",
        "family": "monomials",
        "measure": "uniform",
        "sampling": "iid",
        "solution": "lp",
        "space": "sampled",
    }
    assert PAPER == "Reduced-space LP" != OURS == "Max-entropy parities"


def test_errors_of_cells_are_shares_whatever_was_fitted():
    """One record of a hundred moved from 00 to 11: every cell that changes, changes by one hundredth."""
    codes = np.zeros((100, 3), dtype=int)
    moved = codes.copy()
    moved[0, :2] = 1
    errors = runs.cell_errors(moved, codes, 2)
    assert np.abs(errors).max() == pytest.approx(0.01)
    tables = [Table(c, Domain.from_sizes({"a": 2, "b": 2, "c": 2})) for c in (moved, codes)]
    quick = reduced_space_epsilon._cell_errors(*tables)
    assert sorted(np.abs(errors)) == pytest.approx(sorted(np.abs(quick)))


@pytest.mark.slow
def test_further_trials_are_those_of_the_paper_s_arm(prepared):
    rows, tables = small("reduced_space_epsilon", {"adult_bool20": prepared / "adult_bool20"})
    trials = rows[rows["epsilon"] == 1.0].groupby("arm")["trial"].nunique()
    assert trials[PAPER] == trials["independent"] == 3
    assert trials[OURS] == trials["tree alone"] == 2
    pairs = tables["reduced_space_epsilon_pairs"].set_index(["metric", "arm", "against", "epsilon"])
    pair = pairs.loc[("auc", OURS, PAPER, 1.0)]
    by_arm = rows[rows["epsilon"] == 1.0].pivot(index="trial", columns="arm", values="auc")
    assert pair["n_trials"] == 2
    assert pair["difference"] == pytest.approx((by_arm[OURS] - by_arm[PAPER]).mean())


def test_pairs_of_measures_are_judged_by_their_paired_difference():
    experiment = experiment_of("reduced_space_kappa")
    rows = pd.DataFrame(
        [
            {
                "dataset": "adult_bool20",
                "measure": name,
                "m": 10,
                "trial": trial,
                "kappa": kappa,
                "optimum": value,
                "asked": 1.0,
                "cells": 2.0,
            }
            for name, kappa, values in (
                ("a", 1.0, (0.3, 0.4)),
                ("b", 2.0, (0.5, 0.6)),
                ("c", 3.0, (0.2, 0.3)),
                ("d", 4.0, (0.30005, 0.4)),
            )
            for trial, value in enumerate(values)
        ]
    )
    pairs = experiment.tables(rows, experiment.defaults)["reduced_space_kappa_pairs"]
    order = pairs.set_index(["smaller_kappa", "larger_kappa"])["order"]
    assert order[("a", "b")] == "kept"
    assert order[("b", "c")] == order[("a", "c")] == "reversed"
    assert order[("a", "d")] == "tied"
    noisy = rows.assign(optimum=[0.3, 0.4, 0.5, 0.6, 0.2, 0.55, 0.3, 0.4])
    again = experiment.tables(noisy, experiment.defaults)["reduced_space_kappa_pairs"].set_index(
        ["smaller_kappa", "larger_kappa"]
    )
    assert again.loc[("b", "c"), "order"] == "reversed by noise"


def test_the_printed_lemma_fails_as_its_constant_says():
    experiment = experiment_of("reduced_space_lemma")
    table = pd.concat(
        [experiment.run(p, experiment.defaults, 0, {}) for p in experiment.part_names(experiment.defaults)]
    )
    printed = table[(table["lemma"] == "as printed") & (table["values"] == "±1")].set_index("bits")
    assert printed.loc[20, "n"] == 535
    assert printed.loc[20, "failure"] == pytest.approx(0.325, abs=5e-4)
    assert printed.loc[210, "failure"] == pytest.approx(0.677, abs=5e-4)
    assert (table[table["lemma"] == "repaired"]["failure"] <= 0.1).all()
