"""Where values lie: bounds, cells, their cost, and what neighbours can learn from them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginalia.privacy.calibration import gdp_delta
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.transcript import listening
from marginalia.privacy.preprocessing.density import (
    FALSE_BOUND,
    FAN_OUT,
    density,
    divided,
    histogram,
    number_line,
    releases,
    without_dust,
)
from marginalia.privacy.randomness import Randomness

ALARM = 1e-6  # of each statistical test here


def found(values, *, whole=True, rounds=2, sigma=2.0, bounds=None, relation="add_remove", seed=0, worth=1 / 32):
    ledger = Ledger(relation)
    draws = seed if isinstance(seed, Randomness) else Randomness(seed)
    got = density(
        lambda: np.asarray(values, dtype=float),
        whole=whole,
        rounds=rounds,
        worth=worth,
        sigma=sigma,
        ledger=ledger,
        randomness=draws,
        bounds=bounds,
        label="x",
    )
    return got, ledger


# -- cells ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
def test_the_number_line_is_symmetric_and_dyadic(whole):
    edges = number_line(whole)
    assert (np.diff(edges) > 0).all()
    assert (edges == -edges[::-1]).all()
    assert set(np.frexp(edges[edges > 0])[0]) == {0.5}


@given(st.floats(-1e15, 1e15), st.floats(1e-3, 1e6), st.booleans())
def test_a_divided_cell_keeps_its_ends(left, width, whole):
    left, right = (math.floor(left), math.floor(left) + math.ceil(width)) if whole else (left, left + width)
    if not left < right:
        return
    edges = divided(left, right, whole)
    assert (edges[0], edges[-1]) == (left, right)
    assert (np.diff(edges) > 0).all()
    assert edges.size <= FAN_OUT + 1


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=60))
def test_every_number_is_in_one_cell(values):
    """NaN alone is in none; infinities and huge values are in the outer ones."""
    for whole in (True, False):
        counts = histogram(np.array(values, dtype=float), number_line(whole))
        assert counts.sum() == sum(not math.isnan(v) for v in values)


def test_cells_are_left_closed():
    assert histogram(np.array([-1.0, 0.0, 1.0, 2.0]), np.array([-1.0, 0.0, 1.0, 2.0])).tolist() == [1, 1, 2]


def test_dust_goes_to_the_cells_beside_zero():
    edges, counts = without_dust(number_line(whole=False)[100:-100], np.ones(number_line(whole=False).size - 201))
    assert np.abs(edges[edges != 0]).min() >= edges.max() * 2.0**-20
    assert counts.sum() == number_line(whole=False).size - 201


# -- what is found --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "lower", "upper"),
    [
        (np.repeat(np.arange(17, 91), 40), 17, 91),
        (np.repeat(np.arange(1930, 2006), 40), 1930, 2006),
        (-np.repeat(np.arange(1, 100), 40), -99, 0),
        (np.full(3000, 7), 7, 8),
        (np.concatenate([np.zeros(9000), np.full(800, 99_999)]), 0, 100_000),
    ],
)
def test_bounds_are_close(values, lower, upper):
    """Within the width of the finest cells: a 256th of the power of two that holds the end."""
    got, _ = found(values)
    assert lower - max(1, abs(lower) / 64) <= got.edges[0] <= lower
    assert upper <= got.edges[-1] <= upper + max(1, abs(upper) / 64)
    assert got.counts.sum() == pytest.approx(len(values), rel=0.05)


def test_fractions_and_both_signs():
    values = np.random.default_rng(0).standard_normal(20_000)
    got, _ = found(values, whole=False)
    below = np.concatenate([[0.0], np.cumsum(got.counts)]) / got.counts.sum()
    truth = np.searchsorted(np.sort(values), got.edges) / values.size
    assert np.abs(below - truth)[1:-1].max() < 0.01


@pytest.mark.parametrize("values", [[], [math.nan] * 50, [3.0], [math.inf] * 500, [1e300] * 500, [-1e300, 1e300] * 300])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("bounds", [None, (0.0, 100.0)])
def test_odd_columns_have_cells_too(values, whole, bounds):
    """Empty, all missing, one row, infinite, huge: finite ascending edges, as many releases as ever."""
    got, ledger = found(values, whole=whole, bounds=bounds)
    assert np.isfinite(got.edges).all()
    assert (np.diff(got.edges) > 0).all()
    assert (got.counts >= 0).all()
    assert len(ledger.events) == releases(2, bounds)
    if bounds:
        assert (got.edges[0], got.edges[-1]) == bounds


def test_empty_cells_rarely_pass_for_occupied():
    """No row at all, 400 times: the bounds are those of nothing but with probability FALSE_BOUND. False alarm 1e-6."""
    from scipy.stats import binom

    wrong = sum(found([], rounds=0, seed=seed)[0].edges[-1] != 1.0 for seed in range(400))
    assert wrong <= binom.ppf(1 - ALARM, 400, FALSE_BOUND)


def test_a_thin_tail_is_not_cut_off():
    """A fifth of 4,800 values over eleven powers of two, none of which shows alone: less than a tenth is misplaced."""
    values = np.concatenate([np.tile([0, 1], 1920), np.exp(np.linspace(0, 11 * math.log(2), 960))])
    beyond = [np.mean(values >= found(np.floor(values), sigma=54.0, seed=seed)[0].edges[-1]) for seed in range(20)]
    assert np.mean(beyond) < 0.1


def test_bounds_do_not_run_away_from_the_values():
    """Standard normal values, 40 purchases: noise that passes for a tail widens bounds by two powers of two at most."""
    values = np.random.default_rng(0).standard_normal(8000)
    runs = [found(values, whole=False, sigma=50.0, seed=seed)[0] for seed in range(40)]
    assert max(np.abs(run.edges).max() for run in runs) <= 16


def test_cells_that_are_not_divided_are_counted_again():
    """One value beside cells that are divided, counted three times with noise 30, in 200 runs. False alarm 1e-6."""
    from scipy.stats import chi2

    values = np.concatenate([np.zeros(5000), np.tile(np.arange(16, 32), 300)])
    runs = [found(values, sigma=30.0, seed=seed)[0] for seed in range(200)]
    errors = [run.counts[run.edges[:-1] == 0].sum() - 5000 for run in runs]
    assert np.sum(np.square(errors)) < 300 * chi2.ppf(1 - ALARM, 200)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_every_release_is_booked(relation, rounds):
    _, ledger = found(range(1000), rounds=rounds, sigma=3.0, relation=relation)
    assert [e.sensitivity for e in ledger.events] == [ledger.relation.marginal_l2] * (rounds + 1)
    assert {e.sigma for e in ledger.events} == {3.0}
    assert ledger.arithmetic == "exact"


# -- what neighbours can learn --------------------------------------------------------------------------------------

BASE = [3.0, 3.0, 17.0, 900.0, -4.0, math.nan]
NEIGHBOURS = [
    (BASE, [*BASE, 1e12], "add_remove"),
    (BASE, [*BASE, 3.0], "add_remove"),
    (BASE, [*BASE, math.nan], "add_remove"),
    ([], [5.0], "add_remove"),
    (BASE, [1e12, *BASE[1:]], "replace_one"),
    (BASE, [math.inf, *BASE[1:]], "replace_one"),
    (BASE, [*BASE[:-1], -4.0], "replace_one"),
]


@pytest.mark.parametrize("bounds", [None, (0.0, 64.0)])
@pytest.mark.parametrize(("one", "two", "relation"), NEIGHBOURS)
@pytest.mark.parametrize("seed", range(3))
def test_with_the_same_releases_neighbours_ask_the_same_and_differ_by_the_sensitivity(one, two, relation, bounds, seed):
    """What the second table is asked, given what the first one released: nothing else may depend on its rows."""
    told = []

    def record(asked, exact, draw):
        value = draw()
        told.append((asked, np.array(exact()), value))
        return value

    with listening(record):
        first, _ = found(one, relation=relation, bounds=bounds, seed=seed)
    at = iter(told)

    def force(asked, exact, draw):
        before, value, released = next(at)
        assert asked == before
        moved = float(np.linalg.norm(np.array(exact()) - value))
        assert moved <= asked.sensitivity * (1 + 1e-12)
        return released

    with listening(force):
        second, _ = found(two, relation=relation, bounds=bounds, seed=seed)
    assert next(at, None) is None
    assert np.array_equal(first.edges, second.edges)
    assert np.array_equal(first.counts, second.counts)


@pytest.mark.parametrize(("one", "two", "relation"), [NEIGHBOURS[0], NEIGHBOURS[1], NEIGHBOURS[4]])
def test_neighbours_are_told_apart_no_better_than_booked(one, two, relation):
    """Events on bounds and counts at epsilon .5 and 1, on 1,500 releases of each. False alarm 1e-6 (Hoeffding)."""
    n, sigma, draws = 1500, 1.5, Randomness(11)
    first, second = (
        [found(rows, rounds=1, sigma=sigma, relation=relation, seed=draws)[0] for _ in range(n)] for rows in (one, two)
    )
    events = [lambda d: d.edges[-1] > 1e6, lambda d: d.edges[0] < 0, lambda d: d.counts.sum() > 6]
    events += [lambda d, c=c: d.total > c for c in (5.0, 9.0, 12.0)] + [
        lambda d, k=k: d.edges.size > k for k in (18, 30)
    ]
    mu = math.sqrt(2) * (1 if relation == "add_remove" else math.sqrt(2)) / sigma
    slack = math.sqrt(math.log(len(events) * 8 / ALARM) / (2 * n))
    for event in events:
        p, q = (np.mean([bool(event(d)) for d in side]) for side in (first, second))
        for epsilon in (0.5, 1.0):
            bound = gdp_delta(mu, epsilon) + (1 + math.exp(epsilon)) * slack
            assert p - math.exp(epsilon) * q <= bound
            assert q - math.exp(epsilon) * p <= bound


@given(st.lists(st.integers(-1000, 1000), max_size=200), st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_any_column_of_whole_numbers_gives_whole_edges(values, seed):
    got, _ = found(values, seed=seed)
    assert (got.edges == np.rint(got.edges)).all()
