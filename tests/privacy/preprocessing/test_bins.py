"""Bins from counts of cells: what each rule promises, on exact counts and on odd ones."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginalia.privacy.preprocessing.bins import (
    RULES,
    SPREAD,
    TOLERANCE,
    _fewest_lost,
    adaptive,
    places_within,
    quantile,
    uniform,
    without_empty,
)
from marginalia.privacy.preprocessing.density import Density


def of(*counts, edges=None):
    edges = np.arange(len(counts) + 1.0) if edges is None else np.array(edges, float)
    return Density(edges, np.array(counts, float), edges)


widths = st.lists(st.floats(1, 100), min_size=1, max_size=40)


@pytest.mark.slow
@given(widths, st.integers(2, 20), st.sampled_from(sorted(RULES)), st.booleans(), st.data())
@settings(deadline=None, max_examples=150)
def test_every_rule_gives_ascending_edges_from_end_to_end(steps, bins, rule, whole, data):
    edges = np.cumsum([data.draw(st.floats(-1e4, 1e4)), *steps])
    edges = np.unique(np.rint(edges)) if whole else edges
    if edges.size < 2:
        return
    counts = np.array(data.draw(st.lists(st.floats(0, 1e4), min_size=edges.size - 1, max_size=edges.size - 1)))
    found = RULES[rule](Density(edges, counts), bins, whole)
    assert 2 <= found.size <= bins + 1
    assert (np.diff(found) > 0).all()
    assert (found[0], found[-1]) == (edges[0], edges[-1])
    if whole:
        assert (found == np.rint(found)).all()


def test_uniform_bins_are_equal():
    assert uniform(of(5, 0, 0, 1), 2, False).tolist() == [0, 2, 4]


def test_quantile_bins_hold_equal_counts():
    assert quantile(of(10, 10, 10, 10, edges=[0, 1, 2, 10, 11]), 4, False).tolist() == [0, 1, 2, 10, 11]
    assert quantile(of(30, 10, edges=[0, 3, 4]), 4, False).tolist() == [0, 1, 2, 3, 4]
    assert quantile(of(1e-308, edges=[0, 2]), 2, False).tolist() == [0, 1, 2]  # a slope of counts would be infinite


def test_a_value_that_many_rows_share_has_a_bin_of_its_own():
    """92 of 100 rows hold 0, as capital gains do."""
    gains = of(92, 1, 2, 3, 2, edges=[0, 1, 100, 200, 400, 1000])
    for rule in (quantile, adaptive):
        assert rule(gains, 4, True)[:2].tolist() == [0, 1]
    hours = of(5, 5, 60, 5, 25, edges=[0, 20, 40, 41, 50, 60])
    for rule in (quantile, adaptive):
        assert {40.0, 41.0} <= set(rule(hours, 4, True).tolist())


def test_adaptive_bins_are_the_best_there_are():
    """Against every choice of edges, by the cost that the docstring states."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        counts, steps = rng.integers(0, 30, 9).astype(float), rng.integers(1, 5, 9)
        edges = np.concatenate([[0.0], np.cumsum(steps)])
        F = np.concatenate([[0.0], np.cumsum(counts)]) / max(1.0, counts.sum())

        def cost(chosen, edges=edges, F=F):
            total = 0.0
            for i, j in itertools.pairwise(chosen):
                even = F[i] + (F[j] - F[i]) * (edges[i : j + 1] - edges[i]) / (edges[j] - edges[i])
                total += (F[j] - F[i]) * (np.abs(F[i : j + 1] - even).max() + SPREAD * (F[j] - F[i]))
            return total

        best = min(cost((0, *inner, 9)) for inner in itertools.combinations(range(1, 9), 3))
        found = np.searchsorted(edges, _fewest_lost(Density(edges, counts), edges, 4))
        assert cost(found.tolist()) == pytest.approx(best)


def test_heavy_cells_among_many_have_bins_of_their_own():
    counts = np.full(700, 0.01)
    counts[[7, 400]] = 500.0
    cells = np.arange(701.0)
    edges = adaptive(Density(cells, counts, np.array([7.0, 8.0, 400.0, 401.0])), 8, True)
    assert {7.0, 8.0, 400.0, 401.0} <= set(edges.tolist())


def test_values_within_bins_lie_as_in_the_density():
    """The places and their shares give the distribution function back, to the tolerance."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        cells = np.concatenate([[0.0], np.cumsum(rng.integers(1, 9, 40))])
        density = Density(cells, rng.exponential(size=40) ** 3)
        edges = np.unique([0.0, *rng.choice(cells, 5), cells[-1] / 3, cells[-1]])
        F = np.interp(edges, cells, density.below)
        for i, places in enumerate(places_within(density, edges)):
            x = [edges[i], *(place for place, _ in places), edges[i + 1]]
            below = np.interp(cells, x, [0.0, *(share for _, share in places), 1.0])
            inside = (cells >= x[0]) & (cells <= x[-1])
            truth = density.below[inside]
            assert np.abs(F[i] + (F[i + 1] - F[i]) * below[inside] - truth).max() <= TOLERANCE + 1e-4


def test_even_bins_have_no_places():
    assert places_within(of(5, 5, 5, 1, 1, edges=[0, 1, 2, 3, 4, 5]), np.array([0.0, 3.0, 5.0])) == ((), ())


def test_every_bin_of_whole_numbers_holds_one_that_is_no_mark():
    assert without_empty(np.array([0.0, 1.0, 2.0]), ()).tolist() == [0, 1, 2]
    assert without_empty(np.array([0.0, 1.0, 2.0, 9.0]), [1.0]).tolist() == [0, 2, 9]
    assert without_empty(np.array([0.0, 5.0, 999.0, 1000.0]), [999.0]).tolist() == [0, 5, 1000]
    only = without_empty(np.array([999.0, 1000.0]), [999.0])
    assert only[0] == 999
    assert only[-1] > 1000
