"""Declared logistic regressions: whole sums, sensitivities by brute force, and sets around their end."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from declaring import declare, fitted
from redrawn import about, at_least
from scipy import stats
from tiers import others_slow

from marginalia.analyses.analyses import Analyses
from marginalia.analyses.basis import UNIT
from marginalia.analyses.certified_newton import SHARES, NewtonPoint
from marginalia.analyses.newton import AFTER, MAIN, Newton, WeightedSum
from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.inference import regression
from marginalia.inference.formulas import design
from marginalia.methods.models import load_synthesizer
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import with_gaussian_noise
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.session import Session

RELATIONS = ("add_remove", "replace_one")
FORMULA = "d ~ C(a) + b"
ASKED = declare(FORMULA, family="binomial")


def domain_of(sizes):
    attributes = [{"name": n, "size": s, "kind": "numeric"} for n, s in zip("abd", sizes, strict=True)]
    return Domain.from_dict({"attributes": attributes})


def table_of(n, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(3, size=n), rng.integers(5, size=n)
    d = rng.random(n) < 1 / (1 + np.exp(1.0 - 0.8 * (a == 1) - 0.4 * b + 0.6 * (a == 2)))
    return Table(np.column_stack([a, b, d]), domain_of((3, 5, 2)))


@pytest.fixture(scope="module")
def table():
    return table_of(20000)


def oracle(table):
    frame = pd.DataFrame(table.codes.astype(float), columns=list(table.domain.names))
    return smf.glm(FORMULA, frame, family=sm.families.Binomial()).fit(tol=1e-13)


@pytest.mark.parametrize("relation", others_slow(RELATIONS, "replace_one"))
def test_at_a_huge_epsilon_it_is_what_statsmodels_fits_to_the_rows(table, relation):
    made = fitted(table, ASKED, 1e6, relation)
    found = {c.name: c.estimate for c in regression(made, FORMULA, family="binomial").coefficients}
    assert found == pytest.approx(dict(oracle(table).params), rel=1e-4, abs=2e-5)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_ledger_holds_what_was_asked_for(table, relation):
    made = fitted(table, {"analyses": [*ASKED["analyses"], {"formula": "b ~ a + d"}]}, 0.7, relation)
    assert made.ledger_.certified
    assert made.ledger_.epsilon_spent == pytest.approx(0.7, rel=1e-9)
    steps = [e for e in made.ledger_.events if e.label == "d: Newton step"]
    squared = [sum((one.sensitivity / one.sigma) ** 2 for one in step.events) for step in steps]
    half = gdp_mu(0.7, 1e-5) ** 2 / 2
    assert squared == pytest.approx([share * half for share in (0.03, 0.04, 0.06, MAIN, AFTER)])


def test_sums_get_the_noise_that_is_booked(table, monkeypatch):
    drawn = []

    def spy(value, sensitivity, sigma, randomness, **given):
        drawn.append((given["label"], sensitivity, sigma))
        return with_gaussian_noise(value, sensitivity, sigma, randomness, **given)

    monkeypatch.setattr("marginalia.privacy.mechanisms.additive.with_gaussian_noise", spy)
    steps = [e for e in fitted(table, ASKED, 0.7).ledger_.events if e.label == "d: Newton step"]
    assert len(steps) == 5
    assert drawn == [(one.label, one.sensitivity, one.sigma) for step in steps for one in step.events]


@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivities_are_those_of_all_neighbours_on_a_small_domain(relation, monkeypatch):
    """At points near and far, no sum of a step moves further between two records than is charged."""
    domain, neighbours = domain_of((3, 3, 2)), Neighbours(Relation(relation))
    records = [Table([r], domain) for r in itertools.product(*(range(s) for s in domain.sizes))]
    [analysis] = Analyses.parse(ASKED).analyses
    each = [Newton(domain, analysis, r, Session(Ledger(relation), Randomness(0))) for r in records]
    groups = [*each[0]._firsts, *(w for w in each[0].groups)]
    near, close = 0.0, 0.0
    for far in (0.3, 3.0):
        b = np.rint(np.array([0.1, far, -far, far]) * 2**20).astype(np.int64)
        earlier = np.rint(np.array([-0.2, far / 2, far, 0.0]) * 2**20).astype(np.int64)
        top = math.tanh(each[0]._largest((b - earlier) * 2.0**-20) / 4)
        for since, height in ((None, 1.0), ((earlier, top), top)):
            totals = [newton._totals(groups, 3, b, since) for newton in each]
            for k, group in enumerate(groups):
                one = WeightedSum(group, group.pairs, height if k < 3 else 0.25, signed=k < 3)
                rows = np.array([t[k] for t in totals]) * UNIT
                pairs = itertools.combinations(rows, 2) if relation == "replace_one" else ((r, 0 * r) for r in rows)
                worst = max(float(np.linalg.norm(g - h)) for g, h in pairs)
                share = worst / one.sensitivity(neighbours)
                assert share <= 1
                close = max(close, share if since is not None and k < 3 else 0.0)
                near = max(near, share if since is None else 0.0)
    assert near > 0.9
    assert close > 0.5  # so that half of it would be seen


def test_a_row_counts_the_same_wherever_it_stands(table):
    newton = [Newton(t.domain, Analyses.parse(ASKED).analyses[0], t, Session(Ledger("add_remove"), Randomness(0)))
              for t in (table, table.take(np.arange(len(table))[::-1]), table.take(slice(0, 7)), table.take(slice(7, None)))]  # fmt: skip  # noqa: E501
    b = np.array([1, 2, -1, 3], np.int64) << 19
    sums = [np.concatenate(n._totals(n._firsts, 3, b, None)) for n in newton]
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2] + sums[3])


def test_the_score_is_that_of_the_second_point(table):
    """Without noise (epsilon 1e6), score and Hessian are those of the rows at b_1."""
    [at] = fitted(table, ASKED, 1e6).declared_.scored
    rows = at.basis
    X = np.column_stack(
        [
            np.asarray(f[tuple(table.codes[:, a] for a in b.clique)]) * np.ones(len(table))
            for b in rows.blocks
            for f in b.values
        ]
    )  # fmt: skip
    m = 1 / (1 + np.exp(-X @ at.b))
    np.testing.assert_allclose(at.score, X.T @ (table.codes[:, 2] - m), atol=1.0)
    [equations] = [at.equations(design(fitted(table, ASKED, 1e6).declared_, FORMULA, binary=True))]
    np.testing.assert_allclose(equations.point.hessian, (X.T * (m * (1 - m))) @ X, rtol=1e-2, atol=2.0)


@pytest.mark.parametrize("relation", others_slow(RELATIONS))
@pytest.mark.slow
def test_joint_sets_cover_and_certified_ones_do(table, relation):
    """40 whole releases, joint sets at 80 %: false alarm 1e-4; certified intervals never miss more often."""
    truth = oracle(table).params
    joint = np.zeros(40, bool)
    missed = bounded = 0
    for seed in range(40):
        made = fitted(table, ASKED, 2.0, relation, seed=seed)
        found = regression(made, FORMULA, family="binomial", confidence=0.8, guaranteed=seed < 10)
        joint[seed] = found.covers([truth[c.name] for c in found.coefficients])
        if seed < 10:
            assert {c.label for c in found.coefficients} == {"certified"}
            missed += any(not c.low <= truth[c.name] <= c.high for c in found.coefficients)
            bounded += all(c.bounded for c in found.coefficients)
        else:
            assert {c.label for c in found.coefficients} == {"asymptotic"}
    assert about(int(joint.sum()), 40, 0.8)
    assert at_least(10 - missed, 10, 0.8)
    assert bounded


def test_a_certificate_that_cannot_be_given_excludes_nothing():
    made = fitted(table_of(400), ASKED, 0.3)
    found = regression(made, FORMULA, family="binomial", guaranteed=True).coefficients
    assert not any(c.bounded for c in found)


def rows_at(b, X, counts, y):
    """Score and Hessian of counted rows at b."""
    m = 1 / (1 + np.exp(-X @ b))
    return X.T @ (counts * (y - m)), (X.T * (counts * m * (1 - m))) @ X


def solved(X, counts, y):
    b = np.zeros(X.shape[1])
    for _ in range(50):
        s, H = rows_at(b, X, counts, y)
        b = b + np.linalg.solve(H, s)
    return b


def places(p):
    """One sum for each entry of a symmetric matrix."""
    at = [(i, j) for i in range(p) for j in range(i, p)]
    out = np.zeros((len(at), p, p))
    for t, (i, j) in enumerate(at):
        out[t, i, j] = out[t, j, i] = 1.0
    return out


def noiseless(b, X, counts, y):
    s, H = rows_at(b, X, counts, y)
    tiny = np.full(len(b), 1e-12)
    gamma = places(len(b))
    return NewtonPoint(b, s, tiny, tiny, H, H, gamma, np.full(len(gamma), 1e-12), X)


def test_in_the_tails_curvature_is_as_large_as_the_certificate_says():
    """Where m is an exponential function the bound is attained; on the other side it holds."""
    one = np.ones((1, 1))
    for step in (0.1, 0.5, 2.0, -0.1, -0.5):
        at, truth = np.array([-12.0]), -12.0 - step
        point = noiseless(at, one, np.array([1e9]), 1 / (1 + np.exp(-np.array([truth]))))
        low, high = point.within(np.ones(1), 0.95)
        assert low <= truth <= high
        if step > 0:
            assert pytest.approx(step, rel=2e-3) == point.distance_bound(0.95).R
            assert low == pytest.approx(truth, abs=2e-3 * step)
    beyond = noiseless(np.array([-12.0]), one, np.array([1e9]), 1 / (1 + np.exp(11.0)) * np.ones(1))
    assert beyond.within(np.ones(1), 0.95) == (-math.inf, math.inf)  # s(b_1) would do for a solution at infinity


def test_without_noise_every_bounded_interval_holds_the_solution():
    """Random rows of any shape, points near and far: what is of second order is never larger than allowed."""
    rng = np.random.default_rng(0)
    bounded = close = 0
    for _ in range(100):
        p, n = int(rng.integers(1, 5)), 40
        X = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, p - 1)) ** rng.choice([1, 5], p - 1)])
        counts = rng.pareto(1.0, n) * 100
        truth = rng.normal(0, 2, p)
        y = 1 / (1 + np.exp(-X @ truth))
        away = rng.normal(0, 1, p)
        point = noiseless(truth + away * rng.uniform(0, 1) / np.abs(X @ away).max(), X, counts, y)
        ends = np.array([point.within(a, 0.95) for a in np.eye(p)])
        assert (ends[:, 0] <= truth + 1e-6).all()
        assert (truth <= ends[:, 1] + 1e-6).all()
        assert np.abs(X @ (truth - point.b)).max() <= point.distance_bound(0.95).R
        bounded += np.isfinite(ends).all()
        close += (
            bool(np.isfinite(ends).all()) and np.abs(X @ (truth - point.b)).max() > 0.5 * point.distance_bound(0.95).R
        )
    assert bounded > 33
    assert close > 6, (bounded, close)


def test_the_worst_noise_in_its_ball_just_reaches_the_bounds():
    """One column, noise of every kind at the length that is allowed: y and its length in H are attained."""
    assert sum(SHARES) <= 1
    a, first, second, of_hessian = 0.05, 4.0, 1.0, 0.02
    q = math.sqrt(stats.chi2.isf(SHARES[0] * a, 3))
    for score in (0.0, 1.5):
        y = 0.0
        for _ in range(200):
            y = score + q * math.sqrt(first + second + (of_hessian * y) ** 2)
        point = NewtonPoint(np.zeros(1), np.array([score]), np.array([first]), np.array([second]), np.ones((1, 1)),
                      np.ones((1, 1)), places(1), np.array([of_hessian**2]), np.ones((1, 1)))  # fmt: skip
        far = point.distance_bound(1 - a)
        assert far.linear == pytest.approx(y, rel=1e-9)
        length = score * y + q * math.sqrt(first + second) * y  # of d_0'H d_0, noise of both scores against it
        assert far.bent**2 * (1 - stats.norm.isf(SHARES[1] * a) * of_hessian) == pytest.approx(length, rel=1e-9)


def test_noise_of_both_scores_and_of_the_hessian_counts_in_a_coefficient():
    """Far from curvature: half the length is q' times the root of the sum of squares."""
    large = 1e12 * np.eye(2)
    base = NewtonPoint(np.zeros(2), np.zeros(2), np.array([9e6, 1.0]), np.array([16e6, 1.0]), large, large, places(2),
                 np.zeros(3), np.eye(2))  # fmt: skip
    q = math.sqrt(-2 * math.log(SHARES[2] * 0.05 / 2))
    for point, expected in ((base, 5e3), (replace(base, main=np.ones(2)), 4e3), (replace(base, after=np.ones(2)), 3e3)):
        low, high = point.within(np.array([1.0, 0.0]), 0.95)
        assert (high - low) / 2 == pytest.approx(q * expected / 1e12, rel=1e-3)
    moved = replace(base, score=np.array([1e6, 0.0]))
    noisy = replace(moved, variances=np.full(3, 1e20))  # E of a hundredth of H
    plain, wide = (np.ptp(one.within(np.array([1.0, 0.0]), 0.95)) for one in (moved, noisy))
    assert wide > 1.5 * plain
    known = replace(moved, prior=large * np.diag([1.25, 1.0]))  # v = a / 1.25, and the rest of a'd_0 bounded
    low, high = known.within(np.array([1.0, 0.0]), 0.95)
    assert (low + high) / 2 == pytest.approx(8e-7, rel=1e-4)
    assert low <= 1e-6 <= high


@pytest.mark.slow
def test_certified_intervals_cover_when_all_noise_is_redrawn():
    """400 draws on a small table, from the main score on: b_1 follows its noise. False alarm 1e-4.

    At 50 %, with noise so large that curvature counts: intervals of all coefficients together, and what they rest on.
    """
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(16), np.repeat([-1.0, 1.0], 8), np.tile(np.linspace(-1, 1, 8), 2)])
    counts, level, gamma = rng.integers(20, 400, 16).astype(float), 0.5, places(3)
    truth = np.array([-0.5, 0.4, 1.0])
    y = 1 / (1 + np.exp(-X @ truth))
    np.testing.assert_allclose(solved(X, counts, y), truth, atol=1e-9)
    first, second, of_hessian = np.array([200.0, 150.0, 150.0]), np.full(3, 30.0), np.full(6, 60.0)
    b_0 = truth + np.array([0.1, -0.1, 0.15])
    s_0, H_0 = rows_at(b_0, X, counts, y)
    prior = H_0 + np.tensordot(rng.normal(0, 8, 6), gamma, axes=1)
    held, inside, bounded = (np.zeros(400, bool) for _ in range(3))
    for i in range(400):
        n_1 = rng.normal(size=3) * np.sqrt(first)
        b_1 = b_0 + np.linalg.solve(prior, s_0 + n_1)
        s, H = rows_at(b_1, X, counts, y)
        E = np.tensordot(rng.normal(size=6) * np.sqrt(of_hessian), gamma, axes=1)
        point = NewtonPoint(
            b_1, s + n_1 + rng.normal(size=3) * np.sqrt(second), first, second, H + E, prior, gamma, of_hessian, X
        )
        ends, far = np.array([point.within(a, level) for a in np.eye(3)]), point.distance_bound(level)
        bounded[i] = np.isfinite(ends).all()
        held[i] = ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).all()
        d_0 = np.linalg.solve(H, s)
        inside[i] = math.sqrt(max(d_0 @ (H + E) @ d_0, 0.0)) <= far.linear
    assert bounded.mean() > 0.6
    assert at_least(int(held.sum()), 400, level)
    assert at_least(int(held[bounded].sum()), int(bounded.sum()), level)
    assert at_least(int(inside.sum()), 400, 1 - SHARES[0] * (1 - level))


HOSTILE = {
    "separated": lambda n: np.column_stack([np.zeros(n, int), np.arange(n) % 2 * 4, np.arange(n) % 2]),
    "separated but for a tie": lambda n: np.column_stack([np.zeros(n, int), np.arange(n) % 5, np.arange(n) % 5 > 2]),
    "collinear": lambda n: np.column_stack([np.arange(n) % 2, np.arange(n) % 2 * 4, np.arange(n) % 3 == 0]),
    "one class": lambda n: np.column_stack([np.arange(n) % 3, np.arange(n) % 5, np.zeros(n, int)]),
}


@pytest.mark.parametrize("name", others_slow(HOSTILE))
def test_where_there_is_no_one_solution_no_certified_interval_is_bounded(name):
    for n, epsilon, seed in ((100, 0.01, 0), (100, 1.0, 1), (100, 50.0, 2), (20000, 0.3, 3), (20000, 1e4, 4)):
        rows = HOSTILE[name](n)
        made = fitted(Table(rows, domain_of((3, 5, 2))), ASKED, epsilon, "add_remove", seed=seed)
        found = regression(made, FORMULA, family="binomial", guaranteed=True).coefficients
        assert not any(c.bounded for c in found)


@pytest.mark.slow
def test_few_rows_and_small_epsilon_are_never_wrong():
    """n = 100 and 1000 at epsilon .01 to 30: what is bounded holds all of statsmodels' coefficients."""
    bounded = 0
    for n, seed in ((100, 1), (1000, 2)):
        small = table_of(n, seed)
        truth = oracle(small).params
        for epsilon in (0.01, 1.0, 30.0):
            made = fitted(small, ASKED, epsilon, "add_remove", seed=seed)
            found = regression(made, FORMULA, family="binomial", guaranteed=True).coefficients
            assert all(c.low <= truth[c.name] <= c.high for c in found)
            assert epsilon > 0.01 or not any(c.bounded for c in found)
            bounded += all(c.bounded for c in found)
    assert bounded


def test_at_a_huge_epsilon_certified_intervals_close_around_statsmodels(table):
    made = fitted(table, ASKED, 1e6)
    truth = oracle(table).params
    for c in regression(made, FORMULA, family="binomial", guaranteed=True).coefficients:
        assert c.label == "certified"
        assert c.high - c.low < 1e-3
        assert c.low - 1e-5 <= truth[c.name] <= c.high + 1e-5


@pytest.mark.slow
def test_a_population_adds_its_sampling_error(table):
    made = fitted(table, ASKED, 8.0)
    of = {"family": "binomial", "guaranteed": True}
    rows, whole = (regression(made, FORMULA, target=t, **of).coefficients for t in ("table", "population"))
    errors = oracle(table).bse
    q = stats.chi2.ppf(0.95, len(rows))
    for one, all_ in zip(rows, whole, strict=True):
        assert all_.label == "asymptotic"
        added = math.sqrt((all_.high - all_.low) ** 2 - (one.high - one.low) ** 2) / 2
        assert added == pytest.approx(math.sqrt(q) * errors[one.name], rel=0.2)


def test_a_file_keeps_it_and_other_formulas_are_refused(table, tmp_path):
    made = fitted(table, ASKED, 1.0)
    made.save(tmp_path / "r.npz")
    back = load_synthesizer(tmp_path / "r.npz")
    one, two = (str(regression(m, "d ~ b + C(a)", family="binomial")) for m in (made, back))
    assert one == two
    for formula, family in (("d ~ b", "binomial"), (FORMULA, "poisson"), (FORMULA, "gaussian")):
        with pytest.raises(InputError, match="was not declared"):
            regression(back, formula, family=family)
    with pytest.raises(InputError, match="needs an intercept"):
        fitted(table, declare("d ~ 0 + b", family="binomial"))
