"""Where values lie: bounds, cells, their cost, and what neighbours can learn from them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginalia.privacy.calibration import gdp_delta
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.preprocessing.density import (
    ANYWHERE,
    FALSE_GUESS,
    INSIDE,
    LEFT_OUT,
    MOST_CELLS,
    ZERO_ENDS,
    Density,
    density,
    divided,
    grid,
    histogram,
    least_squares,
    number_line,
    smoothed,
)
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

ALARM = 1e-6  # of each statistical test here


def found(values, *, whole=True, mu=1.0, bounds=None, relation="add_remove", seed=0):
    ledger = Ledger(relation)
    draws = seed if isinstance(seed, Randomness) else Randomness(seed)
    got = density(
        lambda: np.asarray(values, dtype=float),
        whole=whole,
        mu=mu,
        bounds=bounds,
        label="x",
        session=Session(ledger, draws),
    )
    return got, ledger


# -- cells ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
def test_the_number_line_is_symmetric_and_dyadic(whole):
    edges = number_line(whole)
    assert (np.diff(edges) > 0).all()
    edges = edges[edges != ZERO_ENDS]
    assert (edges == -edges[::-1]).all()
    assert set(np.frexp(edges[edges > 0])[0]) == {0.5}


@given(st.floats(-1e15, 1e15), st.floats(1e-3, 1e6), st.integers(1, 256), st.booleans())
def test_a_divided_cell_keeps_its_ends(left, width, parts, whole):
    left, right = (math.floor(left), math.floor(left) + math.ceil(width)) if whole else (left, left + width)
    if not left < right or (not whole and width < 1e-9 * abs(left)):
        return
    edges = divided(left, right, parts, whole)
    assert (edges[0], edges[-1]) == (left, right)
    assert (np.diff(edges) > 0).all()
    assert edges.size <= parts + 1


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.booleans())
def test_a_grid_lies_between_its_bounds(lower, width, whole):
    lower, upper = (math.floor(lower), math.floor(lower) + math.ceil(width)) if whole else (lower, lower + width)
    if not lower < upper:
        return
    edges = grid(lower, upper, whole)
    assert (edges[0], edges[-1]) == (lower, upper)
    assert (np.diff(edges) > 0).all()
    assert edges.size <= MOST_CELLS / 2
    if lower < 0 < upper:
        assert 0 in edges
    if whole:
        assert (edges == np.rint(edges)).all()


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=60))
def test_every_number_is_in_one_cell(values):
    """NaN alone is in none; infinities and huge values are in the outer ones."""
    for whole in (True, False):
        counts = histogram(np.array(values, dtype=float), number_line(whole))
        assert counts.sum() == sum(not math.isnan(v) for v in values)


def test_cells_are_left_closed():
    assert histogram(np.array([-1.0, 0.0, 1.0, 2.0]), np.array([-1.0, 0.0, 1.0, 2.0])).tolist() == [1, 1, 2]


def test_dust_goes_to_the_cells_beside_zero():
    edges = grid(-1.0, 1e6, whole=False)
    inner = edges[1:-1][(edges[1:-1] != 0) & (edges[1:-1] != ZERO_ENDS)]
    assert np.abs(inner).min() >= 1e6 * 2.0**-30
    assert {0.0, ZERO_ENDS} <= set(edges.tolist())


# -- estimates ------------------------------------------------------------------------------------------------------


def test_counts_of_all_rounds_are_joined_by_least_squares():
    """Against the normal equations of the same linear model."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        parents = [np.sort(np.concatenate([np.arange(m), rng.integers(0, m, more)])) for m, more in ((3, 4), (7, 6))]
        cells = [3, 7, 13]
        rounds = [(rng.normal(50, 30, m), rng.uniform(1, 9, m)) for m in cells]
        leaf_of = [parents[0][parents[1]], parents[1], np.arange(13)]
        design = np.vstack([np.eye(m)[:, of] for m, of in zip(cells, leaf_of, strict=True)])
        counts, variances = (np.concatenate(part) for part in zip(*rounds, strict=True))
        normal = np.linalg.inv(design.T @ (design / variances[:, None]))
        got, noise = least_squares(rounds, parents)
        assert got == pytest.approx(normal @ design.T @ (counts / variances))
        assert noise == pytest.approx(np.diag(normal))


def test_without_noise_the_density_is_exact():
    rng = np.random.default_rng(0)
    counts = np.repeat(rng.integers(1, 9, 8) * 1000.0, 5)
    got = smoothed(np.arange(41.0), counts, np.full(40, 1e-6), trimmed=True)
    assert got.counts == pytest.approx(counts)
    jumps = np.flatnonzero(np.diff(counts)) + 1.0
    assert set(jumps.tolist()) <= set(got.breaks.tolist())
    values = np.concatenate([np.repeat([0, 4, 40], [500, 900, 300]), rng.integers(100, 200, 5000)])
    cells, _ = found(values, mu=1e4)
    for edge, below in zip(cells.edges[1:-1], cells.below[1:-1], strict=True):
        assert np.mean(values < edge) == pytest.approx(below, abs=1e-3)


def test_cells_left_out_inside_bounds_keep_a_little_mass():
    got, _ = found(np.repeat(np.arange(40, 60), 100), bounds=(0, 1_000_000))
    assert (got.counts > 0).all()
    assert got.counts[got.edges[:-1] >= 64].sum() <= 2 * LEFT_OUT * got.total
    assert got.edges[-1] == 1_000_000


# -- what is found --------------------------------------------------------------------------------------------------


def test_bounds_that_are_a_thousand_times_too_wide_cost_little():
    """Normal values of sd 10 inside bounds of a range of 60,000: less than .06 of them is misplaced."""
    values = np.random.default_rng(0).normal(50, 10, 20_000)
    got, _ = found(values, whole=False, bounds=(-30_000.0, 30_000.0), mu=0.1)
    places = np.quantile(values, np.arange(1, 100) / 100)
    shares = np.diff([0.0, *np.interp(places, got.edges, got.below), 1.0])
    assert np.abs(shares - 0.01).sum() / 2 < 0.06


@pytest.mark.parametrize("shift", [0, 365, 20_000, -300_000])
def test_a_column_may_lie_anywhere(shift):
    """Dates of six years, translated: cells of less than 100 days, ends within 64."""
    values = np.random.default_rng(1).integers(0, 2190, 8000) + shift
    got, _ = found(values, mu=0.3)
    assert np.abs(got.edges[[0, -1]] - [shift, shift + 2190]).max() <= 64
    assert np.median(np.diff(got.edges)) <= 100


@pytest.mark.parametrize("bounds", [None, (-5.0, 1e5)])
def test_a_shared_value_is_found_alone(bounds):
    """4.90 in cents, a quarter of all; and 0 alone among numbers that are not counted in a unit."""
    rng = np.random.default_rng(2)
    cents = np.where(rng.random(5000) < 0.25, 490, rng.integers(1, 2000, 5000))
    got, _ = found(cents, mu=0.3, bounds=bounds)
    at = np.searchsorted(got.edges, 490)
    assert got.edges[at : at + 2].tolist() == [490, 491]
    assert got.counts[at] == pytest.approx((cents == 490).sum(), rel=0.1)
    fractions = np.where(rng.random(5000) < 0.25, 0.0, rng.gamma(2, 0.01, 5000))
    got, _ = found(fractions, whole=False, mu=0.3, bounds=bounds)
    at = np.searchsorted(got.edges, 0.0)
    assert got.edges[at : at + 2].tolist() == [0.0, ZERO_ENDS]
    assert got.counts[at] == pytest.approx((fractions == 0).sum(), rel=0.1)


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
    """Within a 64th of the power of two that holds the end."""
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
    assert len(ledger.events) == 4
    if bounds:
        assert (got.edges[0], got.edges[-1]) == bounds


def unsmoothed(edges, counts, variances, **_):
    """In the place of `smoothed`, which reads no row and takes most of the time."""
    return Density(edges, np.maximum(counts, 0.0))


def test_empty_cells_rarely_pass_for_occupied(monkeypatch):
    """No row at all, 60 times: the bounds are those of nothing but with probability FALSE_GUESS. False alarm 1e-6."""
    from scipy.stats import binom

    monkeypatch.setattr("marginalia.privacy.preprocessing.density.smoothed", unsmoothed)
    wrong = sum(found([], seed=seed)[0].edges[-1] > 1.0 for seed in range(60))
    assert wrong <= binom.ppf(1 - ALARM, 60, 1.01 * FALSE_GUESS)


def test_a_thin_tail_is_not_cut_off():
    """A fifth of 4,800 values over eleven powers of two, none of which shows alone: less than a tenth is misplaced."""
    values = np.concatenate([np.tile([0, 1], 1920), np.exp(np.linspace(0, 11 * math.log(2), 960))])
    beyond = [np.mean(values >= found(np.floor(values), mu=1 / 30, seed=seed)[0].edges[-1]) for seed in range(20)]
    assert np.mean(beyond) < 0.1


@pytest.mark.slow
def test_bounds_do_not_run_away_from_the_values():
    """Standard normal values, 40 releases: noise that passes for a tail widens bounds by two powers of two at most."""
    values = np.random.default_rng(0).standard_normal(8000)
    runs = [found(values, whole=False, mu=1 / 29, seed=seed)[0] for seed in range(40)]
    assert max(np.abs(run.edges).max() for run in runs) <= 16


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("bounds", "shares"), [(None, ANYWHERE), ((0, 5000), INSIDE)])
def test_all_releases_together_cost_mu(relation, bounds, shares):
    _, ledger = found(range(1000), mu=0.7, relation=relation, bounds=bounds)
    assert [e.sensitivity for e in ledger.events] == [ledger.neighbours.marginal_sensitivity_l2] * 4
    squares = [(e.sensitivity / e.sigma) ** 2 for e in ledger.events]
    assert squares == pytest.approx([0.49 * share for share in shares])
    assert sum(squares) == pytest.approx(0.49)
    assert ledger.arithmetic == "exact"


@pytest.mark.parametrize("bounds", [None, (0, 5000)])
def test_what_is_booked_does_not_depend_on_the_rows(bounds):
    charged = [found(rows, bounds=bounds)[1].events for rows in ([], [4.0], range(5000), [math.nan] * 9)]
    assert charged[1:] == charged[:-1]


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

    with intercepting(record):
        first, _ = found(one, relation=relation, bounds=bounds, seed=seed)
    at = iter(told)

    def force(asked, exact, draw):
        before, value, released = next(at)
        assert asked == before
        moved = float(np.linalg.norm(np.array(exact()) - value))
        assert moved <= asked.sensitivity * (1 + 1e-12)
        return released

    with intercepting(force):
        second, _ = found(two, relation=relation, bounds=bounds, seed=seed)
    assert next(at, None) is None
    assert np.array_equal(first.edges, second.edges)
    assert np.array_equal(first.counts, second.counts)


@pytest.mark.slow
@pytest.mark.parametrize(("one", "two", "relation"), [NEIGHBOURS[0], NEIGHBOURS[1], NEIGHBOURS[4]])
def test_neighbours_are_told_apart_no_better_than_booked(monkeypatch, one, two, relation):
    """Events on bounds and counts at epsilon .5 and 1, on 1,500 releases of each. False alarm 1e-6 (Hoeffding)."""
    monkeypatch.setattr("marginalia.privacy.preprocessing.density.smoothed", unsmoothed)
    n, mu, draws = 1500, 1.0, Randomness(11)
    first, second = ([found(rows, mu=mu, relation=relation, seed=draws)[0] for _ in range(n)] for rows in (one, two))
    events = [lambda d: d.edges[-1] > 1e6, lambda d: d.edges[0] < 0, lambda d: d.counts.sum() > 6]
    events += [lambda d, c=c: d.total > c for c in (5.0, 9.0, 12.0)] + [
        lambda d, k=k: d.edges.size > k for k in (18, 30)
    ]
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


@pytest.mark.parametrize("tails", [True, False])
def test_a_column_of_which_only_zeros_are_found_has_a_bin_with_a_width(tails):
    """The cell that holds 0 alone cannot be divided; here 1 is too rare to be found in the first round."""
    values = np.repeat([0.0, 1.0], [9000, 40])
    for seed in range(5):
        session = Session(Ledger("add_remove"), Randomness(seed))
        found = density(lambda: values, whole=False, mu=0.05, tails=tails, session=session)
        assert (np.diff(found.edges) > 0).all()
