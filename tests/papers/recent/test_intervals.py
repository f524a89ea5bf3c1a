"""Published intervals of private regression: their estimates, their charges, and what the experiment makes of them."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from marginalia.papers.recent import judges
from marginalia.papers.recent import regression_intervals as published
from marginalia.papers.recent.recent_intervals import (
    ARMS,
    BINAGG,
    BINAGG_PUBLISHED,
    BOOTSTRAPPED,
    CONFIDENCE,
    DECLARED_POPULATION,
    ID,
    INFLATED,
    INTERVALS,
    LEAST_SQUARES,
    MADE,
    NAIVE,
    POINTS,
    REAL,
    SSP,
    least_squares,
    made,
    median,
    ours,
    tables,
    theirs,
)
from marginalia.privacy.calibration import gdp_epsilon, gdp_mu
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

DELTA = 1e-5
BASELINES = (NAIVE, INFLATED, BOOTSTRAPPED, BINAGG, BINAGG_PUBLISHED)


def given(epsilon, seed=0):
    return {"epsilon": epsilon, "delta": DELTA, "relation": "add_remove", "random_state": seed}


@pytest.fixture(scope="module")
def codes():
    return made("gaussian_1000", 1000, np.random.SeedSequence(3))


def test_binagg_is_that_of_its_authors():
    """Coefficients and standard errors of `_compute_dp_wls` in github.com/Shuronglin/BinAgg, commit 95262ec."""
    x = np.array([[3.0, -1.0], [-2.5, 4.0], [6.0, 2.0], [-1.0, -5.0], [2.0, 2.5], [-4.0, 1.5]])
    y, counts = np.array([2.9, -4.1, 4.4, 2.2, 0.3, -4.0]), np.array([8.0, 12, 9, 11, 5, 7])
    bounds = np.array([[1.0, 0.5], [0.5, 1.0], [1.0, 0.5], [0.25, 1.0], [0.5, 0.5], [1.0, 0.25]])
    bins = published.Bins(counts, x, y, (bounds / 0.5) ** 2)
    b, covariance = published.aggregated_fit(bins, published=True)
    assert b == pytest.approx([0.8784295997717891, -0.5571031472980446], rel=1e-12)
    assert np.sqrt(np.diag(covariance)) == pytest.approx([0.13039577043439793, 0.10633384282907582], rel=1e-12)


def test_the_whole_bias_is_what_noise_adds():
    """Of sums with much noise, the corrected estimate is right on average, and that of the published code too small."""
    rng = np.random.default_rng(0)
    K = 4000
    counts, x = np.full(K, 10.0), rng.normal(0, 5, (K, 1))
    noisy = x + rng.normal(0, 5, (K, 1))
    bins = published.Bins(counts, noisy, 2 * x[:, 0], np.full((K, 1), 25.0))
    b, covariance = published.aggregated_fit(bins)
    assert abs(b[0] - 2) < 4 * math.sqrt(covariance[0, 0]) < 0.4
    assert published.aggregated_fit(bins, published=True)[0][0] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("epsilon", [0.1, 4.0])
def test_every_release_is_charged_and_the_sum_is_epsilon(codes, epsilon):
    spent = {arm: cost for arm, _, cost, _ in theirs(codes, BASELINES, given(epsilon))}
    assert list(spent) == list(BASELINES)
    d = 4  # features with the constant
    over = gdp_mu(epsilon, DELTA) * math.sqrt((1 + 9 + 9 * d + 9) / 28)
    assert spent.pop(BINAGG_PUBLISHED) == pytest.approx(gdp_epsilon(over, DELTA), rel=1e-6)
    assert all(epsilon * (1 - 1e-6) < cost <= epsilon for cost in spent.values())


def test_the_events_of_binagg(codes):
    values = codes - (POINTS - 1) // 2
    ledger = published.binagg_ledger(1.0, DELTA, published=False)
    published.binagg(values[:, :3], values[:, 3], Session(ledger, Randomness(0)))
    mus = [event.sensitivity / event.sigma for event in ledger.events]
    assert mus == pytest.approx(gdp_mu(1.0, DELTA) * np.array([1, 3, 3, 3]) / math.sqrt(28))
    assert [event.label for event in ledger.events] == ["PrivTree", "counts", "sums of x", "sums of y"]


@pytest.mark.parametrize(("is_published", "of_x"), [(False, 9), (True, 36)])
def test_one_row_in_a_corner_moves_the_sums_of_binagg_by_their_charge(codes, is_published, of_x):
    """In a fixed tree of eight boxes; in standard deviations of the noise that is drawn."""
    mu = gdp_mu(1.0, DELTA)
    levels = []

    def released(rows):
        values, found = rows - (POINTS - 1) // 2, []

        def hook(call, exact, draw):
            if call.mechanism == "laplace":
                levels.append(call.scale / call.sensitivity)
                return np.full(call.shape, 1e9 if call.shape[0] < 8 else -1e9)
            found.extend(np.ravel(exact()) * call.quantum / call.scale)
            return draw()

        ledger = published.binagg_ledger(1.0, DELTA, published=is_published)
        with intercepting(hook):
            published.binagg(values[:, :3], values[:, 3], Session(ledger, Randomness(0)), published=is_published)
        return np.array(found), sum((event.sensitivity / event.sigma) ** 2 for event in ledger.events[1:])

    corner = np.full((1, 4), POINTS - 1)
    (before, charged), (after, _) = released(codes), released(np.vstack([codes, corner]))
    moved = float(np.sum((after - before) ** 2))
    assert moved == pytest.approx(mu**2 * (9 + of_x + 9) / 28) == charged
    # PrivTree with two children needs noise of 3 / epsilon, and this epsilon-DP is the charge of the tree.
    assert 2 * norm.isf(1 / (1 + math.exp(3 / levels[0]))) == pytest.approx(mu / math.sqrt(28))
    assert len(set(levels)) == 1


def test_sensitivity_of_the_sums_is_that_of_the_worst_row():
    """Of all rows with each column at -1, 0 or 1."""
    session = Session(Ledger("add_remove", epsilon=1.0, delta=DELTA, planned=True), Randomness(0))
    published.moments(np.zeros((5, 2), int), np.zeros(5, int), session)
    rows = np.array([[1, *row] for row in itertools.product((-1, 0, 1), repeat=3)])
    moved = [np.linalg.norm(np.outer(z, z)[np.triu_indices(4)][1:]) for z in rows]
    assert session.ledger.events[0].sensitivity == pytest.approx(max(moved))


def test_sums_without_noise_are_exact_and_intervals_of_little_noise_agree(codes):
    values = codes - (POINTS - 1) // 2
    session = Session(Ledger("add_remove", epsilon=50.0, delta=DELTA, planned=True), Randomness(0))
    noisy = published.moments(values[:, :3], values[:, 3], session)
    slopes, plain = least_squares(codes)
    assert noisy.solution()[0][1:] == pytest.approx(slopes, abs=0.01)
    inflated = published.inflated(noisy)
    drawn = published.bootstrapped(noisy, np.random.default_rng(0), replicates=20_000)
    assert drawn == pytest.approx(inflated, abs=0.03 * float(np.diff(plain).max()))
    quiet = noisy._replace(sigma=0.0)
    assert published.inflated(quiet) == pytest.approx(published.naive(quiet))


def test_variance_inflation_has_the_variance_of_the_noise(codes):
    """Repeated noise on the same sums, without sampling error, moves the coefficients by the noise part alone."""
    Z = np.column_stack([np.ones(len(codes)), (codes - 16) / 16])
    whole, sigma, rng = Z.T @ Z, 2.0, np.random.default_rng(1)
    exact = published.Moments(whole[:4, :4], whole[:4, 4], float(whole[4, 4]), len(Z), sigma)
    noise = np.triu(rng.normal(0, sigma, (4000, 5, 5)))
    noise[:, 0, 0] = 0
    noise = whole + noise + np.triu(noise, 1).transpose(0, 2, 1)
    solutions = np.linalg.solve(noise[:, :4, :4], noise[:, :4, 4:])[:, 1:, 0]
    silent = published.inflated(exact._replace(square=float(exact.solution()[0] @ exact.cross)))  # no residuals
    assert np.diff(silent)[:, 0] / (2 * 1.95996) == pytest.approx(solutions.std(axis=0), rel=0.06)


def test_an_indefinite_matrix_has_no_interval():
    noisy = published.Moments(np.diag([100.0, -1.0, 4.0]), np.array([0.0, 1.0, 2.0]), 50.0, 100, 1.0)
    assert np.isnan(published.naive(noisy)).all(axis=1).tolist() == [True, False]
    assert np.isfinite(published.bootstrapped(noisy, np.random.default_rng(0))).all()


def test_each_row_is_in_one_box(codes):
    x = codes[:, :3] - (POINTS - 1) // 2
    session = Session(Ledger("add_remove"), Randomness(0))
    low, high, members = published._tree(x, 3.0, session)
    assert sorted(np.concatenate(members)) == list(range(len(x)))
    assert len(members) > 20
    for a, b, rows in zip(low, high, members, strict=True):
        inside = x[rows] * published.UNIT
        assert ((a <= inside) & ((inside < b) | (b == 1))).all()
    assert len(session.ledger.events) == 1  # the tree as a whole


def test_our_sets_are_charged_and_contain_the_table(codes):
    [(arm, sets, spent, _)] = ours(codes, (SSP,), given(4.0))
    slopes, _ = least_squares(codes)
    assert arm == SSP
    assert 4.0 * (1 - 1e-6) < spent <= 4.0
    reach = 0.25 * np.diff(sets)[:, 0]  # by twice the standard error, so that chance does not decide
    assert (sets[:, 0] - reach < slopes).all()
    assert (slopes < sets[:, 1] + reach).all()


def rows(covers):
    """Return rows of 40 trials in which an arm contains the slopes in a share `covers` of it (default: 0.95)."""
    made_rows = []
    for name, arm, trial in itertools.product((*MADE, *REAL), (*ARMS, LEAST_SQUARES), range(40)):
        inside = float(trial < 40 * covers.get(arm, CONFIDENCE))
        made_rows.append(
            {"dataset": name, "epsilon": 1.0, "trial": trial, "arm": arm, "table": inside, "seconds": 1.0}
            | {"population": np.nan if name in REAL else inside, "unbounded": 0.0, "missing": 0.0}
            | {"width": np.inf if trial < 15 else 2.0, "epsilon_spent": 1.4 if arm == BINAGG_PUBLISHED else 1.0}
        )
    return pd.DataFrame(made_rows)


def test_tables_and_claims():
    found = tables(rows({INFLATED: 0.5}), INTERVALS.defaults)
    table = found[ID].set_index(["dataset", "arm"])
    assert table.loc[(MADE[0], INFLATED), ["table", "population", "width"]].tolist() == [0.5, 0.5, 2.0]
    assert np.isnan(table.loc[("adult", DECLARED_POPULATION), "population"])
    judged = judges.verdicts(pd.DataFrame(), found).set_index("id")
    assert judged.loc[["i1", "i1e", "i4"], "held"].tolist() == [3, 3, 3]
    assert judged.loc[["i2", "i3"], "held"].tolist() == [0, 0]
    assert judged.loc["i2", "note"].endswith("it spends 1.40 to 1.40 of epsilon")


def test_a_median_is_infinite_where_half_of_the_widths_are():
    assert median(pd.Series([1.0, np.inf, 3.0, np.nan])) == 3.0
    assert median(pd.Series([1.0, np.inf, np.inf])) == np.inf
    assert np.isnan(median(pd.Series([np.nan])))
