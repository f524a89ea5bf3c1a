"""The cards of the reduced-space paper: every card runs small, repeats, and draws; their statistics against oracles."""

import numpy as np
import pandas as pd
import pytest
from card_contract import check_card

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.papers.reduced_space.epsilon_tables import claims
from marginalia.papers.registry import card as card_of
from marginalia.papers.registry import cards
from marginalia.sweep.protocols import Prepared, Task

SMALL = {
    "reduced_space_n": {"trials": 2, "records": (100, 200), "points": 50},
    "reduced_space_f": {"trials": 2, "records": 100, "attributes": (3, 4), "orders": (1, 2)},
    "reduced_space_m": {"trials": 2, "records": 100, "points": (5, 20), "laws": (0.0, 0.8)},
    "reduced_space_fail": {"trials": 4, "blocks": 2, "points": 200},
    "reduced_space_lemma": {},
    "reduced_space_epsilon": {"trials": 2, "sets": ("adult_bool20",), "epsilons": (1.0, 2.0),
                              "arms": ("tree, lp", "default", "gaussian")},
    "reduced_space_kappa": {"trials": 2, "sets": ("adult_bool20",), "points": (20, 50)},
}  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Small made-up tables under the names of the catalogue's."""
    rng = np.random.default_rng(0)
    root = tmp_path_factory.mktemp("prepared")
    boolean = Domain.from_sizes({f"x{j}": 2 for j in range(5)})
    rows = Table(rng.integers(0, 2, (200, 5)), boolean)
    for name in ("adult_bool20", "compas_bool13"):
        Prepared(name, rows, (Task("logistic", "x0"),)).save(root / name)
    return root


def test_every_study_of_the_paper_is_tried():
    assert set(SMALL) == {name for name in cards() if name.startswith("reduced_space")}


@pytest.mark.parametrize("name", SMALL)
def test_a_study_runs_repeats_and_draws(name, prepared):
    check_card(name, SMALL[name], prepared)


def test_defaults_hold_the_cards_values():
    assert card_of("reduced_space_n").defaults["records"] == (1000, 3000, 10_000, 30_000, 100_000)
    assert card_of("reduced_space_epsilon").defaults["epsilons"] == (0.5, 1.0, 2.0, 4.0, 8.0)


def test_the_printed_lemma_fails_as_its_constant_says():
    card = card_of("reduced_space_lemma")
    table = pd.concat([card.run(p, card.defaults, 0, {}) for p in card.parts(card.defaults)])
    printed = table[(table["lemma"] == "as printed") & (table["values"] == "±1")].set_index("bits")
    assert printed.loc[20, "n"] == 535
    assert printed.loc[20, "failure"] == pytest.approx(0.325, abs=5e-4)
    assert printed.loc[210, "failure"] == pytest.approx(0.677, abs=5e-4)
    assert (table[table["lemma"] == "repaired"]["failure"] <= 0.1).all()


def test_claims_are_judged_cell_by_cell():
    def arm(name, epsilon, **metrics):
        return {"dataset": "adult_bool20", "arm": name, "epsilon": epsilon, **metrics}

    means = pd.DataFrame(
        [arm("uniform, lp", 1.0, max_error=0.10), arm("uniform, lp", 8.0, max_error=0.09),
         arm("tree, lp", 1.0, max_error=0.08, tv3=0.05, auc=0.88, mean_error=0.02),
         arm("tree, lp", 8.0, max_error=0.01, tv3=0.02, auc=0.89, mean_error=0.01),
         arm("tree, maxent", 1.0, tv3=0.04, auc=0.89), arm("tree, maxent", 8.0, tv3=0.022, auc=0.90),
         arm("tree, l1", 1.0, mean_error=0.01), arm("tree, l1", 8.0, mean_error=0.02),
         arm("published, uniform, lp", 1.0, epsilon_spent=0.498), arm("real", np.inf, auc=0.9)]
    )  # fmt: skip
    held = claims(means).set_index("id")
    assert held["held"].to_dict() == {"C2a": 1, "C2b": 1, "C5a": 1, "C5b": 2, "C5c": 1, "C6": 1}
    assert held["tested"].to_dict() == {"C2a": 1, "C2b": 1, "C5a": 2, "C5b": 2, "C5c": 2, "C6": 1}
    assert held.loc["C5a", "worst"] == pytest.approx(0.1)
