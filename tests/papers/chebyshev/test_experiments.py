"""The Chebyshev experiments: every one runs small, repeats, and draws; their statistics against oracles."""

import numpy as np
import pandas as pd
import pytest
from contract import check_experiment
from tiers import others_slow

from marginalia.data.domain import Column, Domain
from marginalia.data.table import Table
from marginalia.methods.chebyshev.measures import GridMeasure
from marginalia.methods.chebyshev.moments import Degrees, histogram
from marginalia.methods.task import Task
from marginalia.papers.chebyshev import chebyshev_lemmas
from marginalia.papers.chebyshev.chebyshev_x1 import (
    GRID,
    asymptote,
    finite_slope,
    log_slope,
    slope_interval,
    theorem_slope,
    total_weight,
    wang_slope,
)
from marginalia.papers.chebyshev.chebyshev_x5 import true_epsilons
from marginalia.papers.chebyshev.chebyshev_x7 import dyadic_histogram
from marginalia.papers.chebyshev.runs import distances, draw, population, release_records
from marginalia.papers.chebyshev.theory.distance import earth_mover
from marginalia.papers.registry import experiment as experiment_of
from marginalia.papers.registry import experiments
from marginalia.reporting.formats import read_csv, write_csv
from marginalia.sweep.protocols import Prepared

SMALL = {
    "chebyshev_algorithm": {"trials": 2, "grid": {"1,1": 200, "2,2": 100}},
    "chebyshev_lemmas": {"smoothness": (1, 3), "degrees": (4, 16, 64)},
    "chebyshev_lower_bound": {"trials": 2, "quick_trials": 2, "grid": {"1,2": (50, 100), "2,1": (50, 100)}},
    "chebyshev_x1": {"trials": 2, "populations": ("beta", "atoms"),
                     "grid": {"1,1": (50, 100, 200), "4,1": (50, 100, 200), "1,2": (50, 100, 200)}},
    "chebyshev_x2": {"trials": 2, "n": 100, "dimensions": (2,)},
    "chebyshev_x3": {"trials": 2, "n": 100, "epsilons": (0.5, 2.0)},
    "chebyshev_x4": {"trials": 2, "grid": ((2, 1, 100, (4, 8)),)},
    "chebyshev_x5": {"trials": 2, "n": 100},
    "chebyshev_x6": {"trials": 2, "n": 100, "tolerances": (1.0, 0.1)},
    "chebyshev_x7": {"trials": 2, "grid_cases": ((2, 1, 100, 8),), "tree_records": (100,), "levels": (3, 4)},
    "chebyshev_x8": {"trials": 2, "column_sets": ("adult_age_hours_label", "compas_smooth3"), "epsilons": (1.0, 2.0),
                     "smoothness": (2,), "bins": (2,)},
}  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return the folder of small made-up tables under the names of the catalogue's."""
    root = tmp_path_factory.mktemp("prepared")
    smooth = Domain([Column("age", 9, "numeric"), Column("hours-per-week", 7, "ordinal"), Column("income>50K", 2)])
    table = Table(np.random.default_rng(0).integers(0, [9, 7, 2], (200, 3)), smooth)
    for name in ("adult_smooth4", "compas_smooth3"):
        Prepared(name, table, (Task("logistic", "income>50K"),)).save(root / name)
    return root


def test_every_experiment_is_tried():
    assert set(SMALL) == {name for name, one in experiments().items() if one.rows and name.startswith("chebyshev")}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_an_experiment_runs_repeats_and_draws(name, prepared):
    check_experiment(name, SMALL[name], prepared)


def test_defaults_hold_the_values():
    assert experiment_of("chebyshev_x1").defaults["trials"] == 10


@pytest.mark.parametrize(
    ("pair", "n_to", "expected"),
    [
        ("1,1", 3200, -0.80),
        ("2,1", 10**5, -0.985),
        ("3,1", 10**5, -0.995),
        ("1,2", 30_000, -0.55),
        ("1,3", 30_000, -0.52),
        ("2,3", 30_000, -0.78),
        ("3,3", 10_000, -0.94),
    ],
)
def test_finite_slopes_are_those_of_the_noise_term(pair, n_to, expected):
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


def test_published_noise_spends_what_it_spends():
    """Columns of the true epsilons: line 3 at every nominal one, Lemma 1 from 1 on; Lemma 1's is the larger noise."""
    table = pd.DataFrame(true_epsilons())
    line, lemma = ([c for c in table if c.startswith(name)] for name in ("line_3", "lemma_1"))
    assert (line, lemma) == (
        ["line_3_at_0.5", "line_3_at_1", "line_3_at_2", "line_3_at_4"],
        ["lemma_1_at_1", "lemma_1_at_2", "lemma_1_at_4"],
    )
    first = table.iloc[0]
    assert first[["lemma_1_at_2", "lemma_1_at_4"]].to_list() == pytest.approx([2.31, 4.65], abs=0.005)
    for nominal in ("1", "2", "4"):
        assert (table[f"lemma_1_at_{nominal}"] < table[f"line_3_at_{nominal}"]).all()
        assert (table[f"lemma_1_at_{nominal}"] > float(nominal)).all()


def test_the_published_table_of_noises_is_read_back_as_numbers(tmp_path):
    write_csv(pd.DataFrame(true_epsilons()), tmp_path / "t.csv")
    assert set(read_csv(tmp_path / "t.csv").dtypes.map(lambda kind: kind.kind)) <= {"i", "f"}


def test_the_largest_change_attains_lemma_5_for_one_record_and_stays_below_it_for_more():
    for epsilon in (0.1, 1.0, 2.0):
        assert chebyshev_lemmas.largest_change(epsilon, 0.0, 1) == pytest.approx(np.tanh(epsilon / 2), abs=1e-4)
        for h in (2, 3):
            pure, approximate = (chebyshev_lemmas.largest_change(epsilon, delta, h) for delta in (0.0, 0.01))
            assert pure < approximate < np.tanh(epsilon * h / 2) * (1 + 0.02 / np.expm1(epsilon))
    assert chebyshev_lemmas.largest_change(1.0, 0.05, 1) == pytest.approx(
        np.tanh(0.5) + 0.1 / (np.e + 1), abs=1e-4
    )  # Lemma 4
    # Two records, ε = ln 2: from 1/4 over 1/2 to 3/4, by hand.
    assert chebyshev_lemmas.largest_change(np.log(2), 0.0, 2) == pytest.approx(0.5, abs=1e-4)


def test_older_rates_and_the_theorems():
    assert [wang_slope(1, d) for d in (1, 2, 3)] == pytest.approx([-2 / 5, -2 / 8, -2 / 11])
    assert wang_slope(2, 3, pure=True) == pytest.approx(-2 / 8)
    assert theorem_slope(1, 3, (100, 1000)) == pytest.approx(-1 / 3)
    assert theorem_slope(3, 1, (100, 1000)) == -1
    by_hand = np.log(np.log(1000) / 1000 * 100 / np.log(100)) / np.log(10)
    assert theorem_slope(2, 2, (100, 1000)) == pytest.approx(by_hand)


def test_the_transport_distance_is_to_the_records_themselves():
    """Of 300 records in the plane the rasterised distance is more than a tenth too low."""
    x, seed = draw("a card", 1, "beta", 2, 300, 0)
    _, density = release_records(x, seed, k=1)
    measured = distances(x, density, 1, exact=True)
    on_grid = earth_mover(GridMeasure(density.measure().axes, histogram(density.axes, x)), density.measure())
    assert on_grid < 0.95 * measured["exact"]
    assert measured["lower"] <= measured["exact"]
    assert measured["polynomial"] <= measured["exact"]


@pytest.mark.slow
def test_kernels_of_the_lemma_reach_their_order_and_no_more():
    rows = pd.DataFrame([chebyshev_lemmas._kernel_errors(k, m) for k in (1, 2, 3, 4) for m in (64, 256)])
    for column, orders in (("fejer_korovkin", (1, 2, 2, 2)), ("repaired", (1, 2, 3, 4))):
        for k, order in zip((1, 2, 3, 4), orders, strict=True):
            errors = rows.loc[rows["k"] == k, column].to_numpy()
            assert np.log2(errors[0] / errors[1]) / 2 == pytest.approx(order, abs=0.15)
    assert (rows["fejer_korovkin"] >= rows["best_positive"] * (1 - 1e-9)).all()


def test_populations_stay_in_the_cube():
    for name in ("beta", "atoms", "unif"):
        x = population(name, 500, 3, np.random.default_rng(1))
        assert x.shape == (500, 3)
        assert np.abs(x).max() <= 1
    assert len(np.unique(population("atoms", 500, 2, np.random.default_rng(1)), axis=0)) == 10


@pytest.mark.parametrize(("m", "k", "d"), others_slow([(120, 2, 3), (1200, 1, 2)]))
def test_counting_by_squares_gives_the_same_total_weight(m, k, d):
    assert (m + 1) ** d > 1_000_000  # the counted branch
    assert total_weight(m, k, d) == pytest.approx(Degrees((m,) * d, k).total_weight, rel=1e-12)


@pytest.mark.slow
def test_the_slope_of_the_noise_term_approaches_the_asymptote():
    table = pd.DataFrame(asymptote())
    windows = [c for c in table if c.startswith("n_")]
    assert windows == ["n_1e3_1e4", "n_1e4_1e5", "n_1e6_1e7"]
    distance = table[windows].sub(table["asymptotic"], axis=0).abs()
    assert (distance["n_1e6_1e7"] < distance["n_1e4_1e5"]).all()
    assert (distance["n_1e4_1e5"] < distance["n_1e3_1e4"]).all()
    assert distance["n_1e6_1e7"].max() < 0.075  # the logarithm of k = d = 1
