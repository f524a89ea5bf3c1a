"""The cards of the two theory papers: every study runs small, repeats, and draws; their statistics against oracles."""

import numpy as np
import pandas as pd
import pytest

from marginalia.data import Attribute, Domain, Table
from marginalia.papers.chebyshev.histogram import dyadic_histogram
from marginalia.papers.chebyshev.rates import GRID, asymptote, finite_slope, total_weight
from marginalia.papers.chebyshev.runs import beside_real, log_slope, population, slope_interval
from marginalia.papers.reduced_space.claims import claims
from marginalia.papers.registry import card as card_of
from marginalia.papers.registry import cards
from marginalia.sweep.protocols import Prepared, Task
from marginalia.synthesis.chebyshev.moments import Degrees

SMALL = {
    "chebyshev_x1": {"trials": 2, "populations": ("beta",), "grid": {"1,1": (50, 100, 200), "1,2": (50, 100, 200)}},
    "chebyshev_x2": {"trials": 2, "n": 100, "dimensions": (2,)},
    "chebyshev_x3": {"trials": 2, "n": 100, "epsilons": (0.5, 2.0)},
    "chebyshev_x4": {"trials": 2, "grid": ((2, 1, 100, (4, 8)),)},
    "chebyshev_x5": {"trials": 2, "n": 100},
    "chebyshev_x6": {"trials": 2, "n": 100, "tolerances": (1.0, 0.1)},
    "chebyshev_x7": {"trials": 2, "grid_cases": ((2, 1, 100, 8),), "tree_records": (100,), "levels": (3, 4)},
    "chebyshev_x8": {"trials": 2, "column_sets": ("adult_age_hours_label", "compas_smooth3"), "epsilons": (1.0, 2.0),
                     "smoothness": (2,), "bins": (2,)},
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
    smooth = Domain(
        [Attribute("age", 9, "numeric"), Attribute("hours-per-week", 7, "ordinal"), Attribute("income>50K", 2)]
    )
    codes = rng.integers(0, [9, 7, 2], (200, 3))
    Prepared("adult_smooth4", Table(codes, smooth), (Task("logistic", "income>50K"),)).save(root / "adult_smooth4")
    Prepared("compas_smooth3", Table(codes, smooth), (Task("logistic", "income>50K"),)).save(root / "compas_smooth3")
    boolean = Domain.from_sizes({f"x{j}": 2 for j in range(5)})
    rows = Table(rng.integers(0, 2, (200, 5)), boolean)
    for name in ("adult_bool20", "compas_bool13"):
        Prepared(name, rows, (Task("logistic", "x0"),)).save(root / name)
    return root


def test_every_study_of_the_two_papers_is_tried():
    assert set(SMALL) == {name for name in cards() if name.startswith(("chebyshev", "reduced_space"))}


@pytest.mark.parametrize("name", SMALL)
def test_a_study_runs_repeats_and_draws(name, prepared):
    card = card_of(name)
    assert card.id == name
    settings = {**card.defaults, **SMALL[name]}
    data = {d: prepared / d for d in card.datasets if (prepared / d).exists()}
    parts = card.parts(settings)
    assert len(parts) == len(set(parts))
    rows = pd.concat([card.run(part, settings, 0, data) for part in parts])
    again = card.run(parts[0], settings, 0, data)
    first = rows.iloc[: len(again)]
    pd.testing.assert_frame_equal(first.drop(columns="seconds", errors="ignore")[[c for c in again if c != "seconds"]],
                                  again.drop(columns="seconds", errors="ignore"), check_dtype=False)  # fmt: skip
    tables = card.tables(rows, settings)
    assert name in tables
    assert all(len(t) for t in tables.values())
    assert not any("seconds" in t.columns for t in tables.values())
    assert card.figure(tables, settings).axes


def test_defaults_hold_the_cards_values():
    assert card_of("chebyshev_x1").defaults["trials"] == 10
    assert card_of("reduced_space_n").defaults["records"] == (1000, 3000, 10_000, 30_000, 100_000)
    assert card_of("reduced_space_epsilon").defaults["epsilons"] == (0.5, 1.0, 2.0, 4.0, 8.0)


@pytest.mark.parametrize(
    ("pair", "n_to", "expected"),
    [("1,1", 3200, -0.80), ("2,1", 10**5, -0.985), ("3,1", 10**5, -0.995), ("1,2", 30_000, -0.55),
     ("1,3", 30_000, -0.52), ("2,3", 30_000, -0.78), ("3,3", 10_000, -0.94)],
)  # fmt: skip
def test_finite_slopes_are_those_of_the_specification(pair, n_to, expected):
    k, d = (int(v) for v in pair.split(","))
    grids = {"1,3": (1000, 3000, 10_000, 30_000)}
    ns = tuple(n for n in grids.get(pair, GRID[pair]) if n <= n_to)
    assert finite_slope(k, d, ns) == pytest.approx(expected, abs=0.006)


def test_slope_and_its_interval():
    n = np.array([100.0, 1000, 10_000])
    assert log_slope(n, 3 * n**-0.7) == pytest.approx(-0.7)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"n": np.repeat(n, 50)})
    rows["error"] = rows["n"] ** -0.5 * rng.lognormal(0, 0.2, 150)
    slope, low, high = slope_interval(rows, "error")
    assert low < slope < high
    assert low < -0.5 < high
    assert high - low < 0.1


def test_the_dyadic_tree_is_consistent_and_unbiased_without_noise():
    rng = np.random.default_rng(0)
    x = population("beta", 5000, 1, rng)[:, 0]
    exact = np.histogram(x, bins=16, range=(-1, 1))[0] / 5000
    np.testing.assert_allclose(dyadic_histogram(x, 4, 1e9, rng), exact, atol=1e-6)
    noisy = dyadic_histogram(x, 4, 0.5, rng)
    assert noisy.sum() == pytest.approx(1)
    assert noisy.min() >= 0


def test_populations_stay_in_the_cube():
    for name in ("beta", "atoms", "unif"):
        x = population(name, 500, 3, np.random.default_rng(1))
        assert x.shape == (500, 3)
        assert np.abs(x).max() <= 1
    assert len(np.unique(population("atoms", 500, 2, np.random.default_rng(1)), axis=0)) == 10


def test_the_printed_lemma_fails_as_the_specification_says():
    card = card_of("reduced_space_lemma")
    table = pd.concat([card.run(p, card.defaults, 0, {}) for p in card.parts(card.defaults)])
    printed = table[(table["lemma"] == "as printed") & (table["values"] == "±1")].set_index("bits")
    assert printed.loc[20, "n"] == 535
    assert printed.loc[20, "failure"] == pytest.approx(0.325, abs=5e-4)
    assert printed.loc[210, "failure"] == pytest.approx(0.677, abs=5e-4)
    assert (table[table["lemma"] == "repaired"]["failure"] <= 0.1).all()


@pytest.mark.parametrize(("m", "k", "d"), [(120, 2, 3), (1200, 1, 2)])
def test_counting_by_squares_gives_the_same_total_weight(m, k, d):
    assert (m + 1) ** d > 1_000_000  # the counted branch
    assert total_weight(m, k, d) == pytest.approx(Degrees((m,) * d, k).total_weight, rel=1e-12)


def test_the_slope_of_the_noise_term_approaches_the_asymptote():
    table = asymptote()
    windows = [c for c in table if c.startswith("n_")]
    assert windows == ["n_1e3_1e4", "n_1e4_1e5", "n_1e6_1e7"]
    distance = table[windows].sub(table["asymptotic"], axis=0).abs()
    assert (distance["n_1e6_1e7"] < distance["n_1e4_1e5"]).all()
    assert (distance["n_1e4_1e5"] < distance["n_1e3_1e4"]).all()
    assert distance["n_1e6_1e7"].max() < 0.075  # the logarithm of k = d = 1


def test_auc_beside_the_real_rows_is_paired():
    rows = pd.DataFrame(
        {"set": "a", "arm": ["real", "real", "x", "x"], "trial": [0, 1, 0, 1], "epsilon": [np.inf, np.inf, 1, 1],
         "auc": [0.9, 0.8, 0.85, 0.79]}
    )  # fmt: skip
    (line,) = beside_real(rows, "set", "arm").to_dict("records")
    assert line["lost"] == pytest.approx(0.03)
    assert line["worst_auc"] == 0.79
    assert line["auc_real"] == pytest.approx(0.85)
    assert line["n_trials"] == 2


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
