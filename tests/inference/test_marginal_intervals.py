"""Intervals of counts, shares, means, quantiles, odds ratios and differences: they cover as often as they say."""

import math

import numpy as np
import pytest
from redrawn import Redrawn, about, at_least, pairs, table_of
from tiers import others_slow

from marginalia.data import Column, Domain
from marginalia.errors import InputError
from marginalia.inference import Release, cells, difference, mean, odds_ratio, quantile, shares
from marginalia.inference.columns import clipped_at, notes_on_bins
from marginalia.inference.estimates import ResidualEstimates, part_functions
from marginalia.inference.marginals import Interval, cell_bounds
from marginalia.learning.units import bin_reach, code_values
from marginalia.synthesis.noisy_marginals import NoisyMarginal

DRAWS = 400


def covered(drawn, ask, truths, seed, confidence=0.9):
    """How many of the draws each interval covers."""
    rng, hits = np.random.default_rng(seed), np.zeros(len(truths), int)
    for _ in range(DRAWS):
        release = drawn.draw(rng)
        found = ask(release, confidence)
        hits += [one.contains(t) for one, t in zip(found if isinstance(found, list) else [found], truths, strict=True)]
    return hits


@pytest.mark.parametrize("n_public", [True, False])
def test_cells_cover(n_public):
    table = table_of((3, 2), 60)
    hits = covered(
        Redrawn(table, pairs("ab"), 4.0, n_public=n_public),
        lambda release, c: cells(release, ["b", "a"], confidence=c),
        table.counts(("b", "a")).ravel(),
        seed=1,
    )
    assert all(about(h, DRAWS, 0.9, 1e-5) for h in hits)


def test_simultaneous_cells_cover_at_once_and_single_ones_do_not():
    table = table_of((4, 3), 200)
    drawn, rng = Redrawn(table, [("a", "b")], 4.0), np.random.default_rng(2)
    truths, at_once, single = table.counts(("a", "b")).ravel(), 0, 0
    for _ in range(DRAWS):
        release = drawn.draw(rng)
        at_once += all(
            i.contains(t) for i, t in zip(cells(release, "ab", confidence=0.9, simultaneous=True), truths, strict=True)
        )
        single += all(i.contains(t) for i, t in zip(cells(release, "ab", confidence=0.9), truths, strict=True))
    assert at_least(at_once, DRAWS, 0.9)
    assert single < DRAWS * 0.6


@pytest.mark.parametrize("n_public", others_slow([True, False]))
@pytest.mark.parametrize(
    "sigma", others_slow([2.0, 30.0])
)  # of 60 rows: the second cannot tell the number of rows from 0
def test_shares_and_means_cover(n_public, sigma):
    table = table_of((3, 2), 60)
    drawn = Redrawn(table, [("a", "b")], sigma, n_public=n_public)
    counts = table.counts(("a",))
    hits = covered(drawn, lambda r, c: shares(r, ["a"], confidence=c), counts / 60, seed=3)
    assert all(about(h, DRAWS, 0.9, 1e-5) for h in hits)
    truth = float((counts * np.arange(3)).sum() / 60)
    assert about(covered(drawn, lambda r, c: mean(r, "a", confidence=c), [truth], seed=9)[0], DRAWS, 0.9, 1e-5)


def test_a_share_whose_denominator_may_be_nothing_is_unbounded():
    table = table_of((3, 2), 20)
    drawn, rng = Redrawn(table, [("a", "b")], 200.0, n_public=False), np.random.default_rng(4)
    assert any(not shares(drawn.draw(rng), ["a"])[0].bounded for _ in range(20))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("n_public", [True, False])
def test_quantiles_cover(share, n_public):
    table = table_of((8, 2), 300)
    drawn = Redrawn(table, [("a", "b")], 10.0, n_public=n_public)
    up_to = np.cumsum(table.counts(("a",)))
    truth = float(np.argmax(up_to >= share * 300))
    release = drawn.draw(np.random.default_rng(0))
    hits = covered(drawn, lambda r, c: quantile(r, "a", share, confidence=c), [truth], seed=5)
    assert at_least(hits[0], DRAWS, 0.9)
    assert quantile(release, "a", share).low <= quantile(release, "a", share).estimate


@pytest.mark.slow
def test_odds_ratios_and_differences_cover():
    table = table_of((2, 2), 400)
    n = table.counts(("a", "b")).astype(float)
    drawn = Redrawn(table, [("a", "b")], 6.0)
    truth = n[0, 0] * n[1, 1] / (n[0, 1] * n[1, 0])
    assert at_least(covered(drawn, lambda r, c: odds_ratio(r, "a", "b", confidence=c), [truth], seed=6)[0], DRAWS, 0.9)
    hits = covered(
        drawn, lambda r, c: difference(r, ["a", "b"], (0, 0), (1, 1), confidence=c), [n[0, 0] - n[1, 1]], seed=7
    )
    assert about(hits[0], DRAWS, 0.9)


def asked_again(domain, truth, rng, sigma=5.0):
    """A release that asks a marginal again until its answer is far off: the worst that an adaptive choice can do."""
    rounds = []
    for t in range(5):
        noise = rng.normal(0.0, sigma, truth.shape)
        rounds.append(
            ResidualEstimates(domain, [NoisyMarginal(("a",), truth + noise, sigma, sigma, t)], int(truth.sum()))
        )
        if abs(noise[0]) > 1.3 * sigma:
            break
    rounds += [ResidualEstimates(domain, [NoisyMarginal(("b",), np.zeros(2), sigma, sigma, 5)], int(truth.sum()))]
    return Release(domain, tuple(rounds), int(truth.sum()))


def test_adaptive_answers_are_used_first_to_last_at_shrinking_levels():
    """The k-th answer has the noise it states, the last has not: the test sees the difference."""
    domain, truth = Domain.from_sizes({"a": 3, "b": 2}), np.array([20.0, 50.0, 30.0])
    rng, hits, last = np.random.default_rng(8), 0, 0
    for _ in range(1500):
        release = asked_again(domain, truth, rng)
        found = cells(release, ["a"], confidence=0.8)[0]
        hits += found.contains(20.0)
        known = release.holding((0,))[-1]
        only = Release(domain, (known,), 100)
        last += cells(only, ["a"], confidence=0.8)[0].contains(20.0)
    assert at_least(hits, 1500, 0.8)
    assert not at_least(last, 1500, 0.8)


def test_what_was_never_asked_is_refused_by_name():
    release = Redrawn(table_of((3, 2, 2), 60), [("a", "b")], 4.0).draw(np.random.default_rng(0))
    with pytest.raises(InputError, match="marginal on b, c was never asked"):
        cells(release, ["b", "c"])
    with pytest.raises(InputError, match="each once"):
        cells(release, ["a", "a"])
    with pytest.raises(InputError, match="confidence"):
        cells(release, ["a"], confidence=1.0)
    with pytest.raises(InputError, match="two codes; 'a' has 3"):
        odds_ratio(release, "a", "b")


def test_columns_of_text_have_no_mean_and_bins_stand_for_their_middle():
    domain = Domain.from_dict(
        {
            "attributes": [
                {"name": "a", "labels": ["low", "high"], "type": "string"},
                {"name": "b", "edges": [0, 10, 30], "type": "number", "kind": "numeric"},
            ]
        }
    )
    answer = NoisyMarginal(("a", "b"), np.array([[30.0, 10.0], [20.0, 40.0]]), 1e-6, 1e-6)
    release = Release(domain, (ResidualEstimates(domain, [answer], 100),), 100)
    with pytest.raises(InputError, match="'a'"):
        mean(release, "a")
    assert mean(release, "b").estimate == pytest.approx(0.5 * 5 + 0.5 * 20)


def test_an_outside_set_says_so():
    found = Interval("r", 1.0, -2.0, 3.0, outside=True)
    assert (found.contains(4.0), found.contains(0.0), found.bounded) == (True, False, False)
    assert "outside of [-2, 3]" in str(found)
    assert math.isfinite(found.low)


def test_only_what_covers_as_often_as_it_says_is_called_exact():
    domain, rng = Domain.from_sizes({"a": 3, "b": 2}), np.random.default_rng(0)
    adaptive = asked_again(domain, np.array([20.0, 50.0, 30.0]), rng)
    once = Release(domain, adaptive.rounds[:1], 100)
    assert {one.label for one in cells(adaptive, ["b"])} == {"certified"}  # asked in one round of many
    assert {one.label for one in cells(once, ["a"])} == {"exact"}
    assert {one.label for one in cells(once, ["a"], simultaneous=True)} == {"certified"}
    assert {one.label for one in shares(once, ["a"], simultaneous=True)} == {"certified"}


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("b", "a")])
def test_bounds_of_all_cells_are_those_of_each(names):
    table = table_of((3, 2, 4), 400)
    release = Redrawn(table, [("a", "b"), ("b", "c")], 3.0, n_public=False).draw(np.random.default_rng(0))
    estimate, low, high, _ = cell_bounds(release, names)
    known, clique = release.rounds[0], tuple(sorted(table.domain.index(n) for n in names))
    for place in np.ndindex(*estimate.shape):
        one = np.zeros(estimate.shape)
        one[place] = 1.0
        order = [names.index(table.domain.names[a]) for a in clique]
        value, variance = known.sum_of(part_functions(clique, np.transpose(one, order)))
        assert estimate[place] == pytest.approx(value)
        assert (high[place] - low[place]) / 2 == pytest.approx(1.959964 * variance**0.5)


@pytest.mark.parametrize("edges", [(0, 1, 2, 3), (0, 5, 6, 20), (-3, 0.5, 7.2, 9), (0, 2)])
@pytest.mark.parametrize("type_", ["integer", "number"])
def test_no_value_lies_further_from_the_middle_of_its_bin_than_is_said(edges, type_):
    column = Column("a", len(edges) - 1, "numeric", edges=edges, type=type_)
    values = np.arange(np.ceil(edges[0]), edges[-1]) if type_ == "integer" else np.arange(edges[0], edges[-1], 1e-3)
    codes = np.searchsorted(edges, values, side="right") - 1
    furthest = np.abs(values - code_values(column)[codes]).max()
    assert furthest == pytest.approx(bin_reach(column), abs=1e-3)


@pytest.mark.parametrize("type_", ["integer", "number"])
def test_a_clipped_value_lies_no_further_from_the_middle_of_its_bin_than_any_other(type_):
    column = Column("a", 3, "numeric", edges=(0, 2, 10, 30), type=type_, bottom=True, top=True)
    low, high = map(float, clipped_at(column).removeprefix("at ").split(" and "))
    values = np.clip([-5.0, 40.0, 1e6], low, high)
    assert np.abs(values - code_values(column)[[0, 2, 2]]).max() <= bin_reach(column)
    assert clipped_at(column.replace(bottom=False)) == f"at {high:g}"
    assert clipped_at(column.replace(bottom=False, top=False)) == ""


def test_what_is_said_of_bins():
    columns = [
        Column("plain", 2, "numeric", labels=("1", "2"), type="integer"),
        Column("ones", 3, "numeric", edges=(0, 1, 2, 3), type="integer", top=True),
        Column("b", 2, "numeric", edges=(0, 10, 30), type="number", bottom=True, top=True),
    ]
    assert notes_on_bins(Domain(columns), ["plain", "ones", "b"]) == (
        "ones: values clipped at 2",
        "b: values clipped at 0 and 30; a row counts as the middle of its bin, at most 10 from its clipped value",
    )


@pytest.mark.parametrize("below", [-1.4, 1.4])
def test_a_quantile_uses_half_of_the_error_on_each_side(below):
    """Both codes stay at 1.4 deviations from the share: each side rejects beyond 1.645 at an error of 10 %."""
    deviation = 10.0 / math.sqrt(2)  # of the count of a code, as the number of rows is public
    counts = 50 + below * deviation * np.array([1.0, -1.0])
    domain = Domain.from_sizes({"a": 2, "b": 2})
    release = Release(domain, (ResidualEstimates(domain, [NoisyMarginal(("a",), counts, 10.0, 10.0, 0)], 100),), 100)
    found = quantile(release, "a", 0.5, confidence=0.9)
    assert (found.low, found.high) == (0, 1)


def test_an_odds_ratio_is_that_of_cells_which_hold_at_once():
    release = Redrawn(table_of((2, 2), 400), [("a", "b")], 6.0).draw(np.random.default_rng(0))
    a, b, c, d = cells(release, "ab", confidence=0.9, simultaneous=True)
    found = odds_ratio(release, "a", "b", confidence=0.9)
    assert (found.low, found.high) == (a.low * d.low / (b.high * c.high), a.high * d.high / (b.low * c.low))
