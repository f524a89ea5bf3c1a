"""Gaussian sketches: their privacy profile beside brute force, both accountants, and the law of what is drawn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from tiers import others_slow

from marginalia.data.units import Unit
from marginalia.errors import PrivacyError
from marginalia.privacy import GaussianEvent, GaussianSketchEvent, Ledger, Relation, Session
from marginalia.privacy.costs import composed_epsilon
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.recompute import recomputed_epsilon
from marginalia.privacy.sketch_cost import sketch_delta, sketch_epsilon


def hockey_stick(epsilon, vectors, first, second):
    """Integrate (p - e^epsilon q)+ over the squared lengths of `vectors` normals of these variances, one or two."""

    def density(lengths, variances):
        laws = [stats.gamma(vectors / 2, scale=2 * v) for v in variances]
        return math.prod(law.pdf(x) for law, x in zip(laws, lengths, strict=True))

    grids = []
    for one, two in zip(first, second, strict=True):
        law = stats.gamma(vectors / 2, scale=2 * max(one, two))
        grids.append(np.linspace(0, law.isf(1e-12), 1501)[1:])
    lengths = np.meshgrid(*grids, indexing="ij")
    values = np.maximum(density(lengths, first) - math.exp(epsilon) * density(lengths, second), 0)
    for grid in reversed(grids):
        values = integrate.trapezoid(values, grid)
    return float(values)


@pytest.mark.parametrize(("vectors", "ratio"), [(4, 0.3), (40, 0.1), (300, 0.02)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_the_profile_is_that_of_the_worst_pair(vectors, ratio, epsilon):
    a = 1 + ratio
    one = max(hockey_stick(epsilon, vectors, *pair) for pair in (([1.0], [a]), ([a], [1.0])))
    assert sketch_delta(epsilon, vectors=vectors, ratio=ratio, relation=Relation.ADD_REMOVE) == pytest.approx(
        one, rel=1e-2, abs=1e-9
    )
    two = hockey_stick(epsilon, vectors, [1.0, a], [a, 1.0])
    bound = sketch_delta(epsilon, vectors=vectors, ratio=ratio, relation=Relation.REPLACE_ONE)
    assert two * (1 - 1e-3) - 1e-9 <= bound <= two * 1.02 + 1e-9


@given(st.integers(0, 2**32), st.integers(2, 4), st.floats(0.02, 0.5))
def test_a_record_moves_variances_by_the_ratio_at_most(seed, p, ratio):
    """The eigenvalues between two neighbours are all 1 but two, and those lie in [1/(1 + ratio), 1 + ratio]."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(30, p))
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]
    one, two = rows[:-1], np.vstack([rows[:-2], rows[-1:]])
    least = min(np.linalg.eigvalsh(x.T @ x)[0] for x in (one, two))
    noise = max(0.0, 1 / ratio - least) * np.eye(p)
    root = np.linalg.cholesky(one.T @ one + noise)
    relative = np.linalg.eigvalsh(np.linalg.solve(root, np.linalg.solve(root, two.T @ two + noise).T))
    assert np.sum(np.abs(relative - 1) > 1e-9) <= 2
    assert 1 / (1 + ratio) - 1e-9 <= relative[0] <= 1 + 1e-9
    assert 1 - 1e-9 <= relative[-1] <= 1 + ratio + 1e-9


@settings(max_examples=4)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(2, 60), st.floats(0, 1.5))
def test_no_pair_within_the_ratio_is_worse(up, down, vectors, epsilon):
    ratio = 0.3
    pair = [1 + up * ratio, 1 / (1 + down * ratio)]
    bound = sketch_delta(epsilon, vectors=vectors, ratio=ratio, relation=Relation.REPLACE_ONE)
    assert hockey_stick(epsilon, vectors, [1.0, 1.0], pair) <= bound * (1 + 1e-3) + 1e-9


@pytest.mark.parametrize("relation", others_slow(Relation, Relation.REPLACE_ONE))
@pytest.mark.parametrize("beside", [(), (GaussianEvent(1.0, 6.0), GaussianEvent(1.0, 10.0))], ids=["alone", "beside"])
def test_both_accountants_agree(relation, beside):
    for vectors, ratio in ((200, 0.02), (40, 0.1)):
        events = (GaussianSketchEvent(vectors, ratio), *beside)
        first, second = (account(events, relation, 1e-5) for account in (composed_epsilon, recomputed_epsilon))
        assert 0.997 * first <= second <= first * (1 + 1e-4)


def test_near_a_gaussian_of_the_same_loss():
    """Many vectors and a small ratio: the loss is near that of mu = ratio·√(vectors/2), or √2 times as much."""
    for relation, times in ((Relation.ADD_REMOVE, 1.0), (Relation.REPLACE_ONE, math.sqrt(2))):
        mu = times * 0.0005 * math.sqrt(40_000 / 2)
        near = composed_epsilon((GaussianEvent(mu, 1.0),), relation, 1e-6)
        assert sketch_epsilon(1e-6, vectors=40_000, ratio=0.0005, relation=relation) == pytest.approx(near, rel=0.02)


def test_sketches_have_the_law_that_is_charged():
    """Of 2,000 sketches of one feature, size·moment/variance is chi-square; false alarm below 1e-6."""
    session = Session(Ledger("add_remove"), Randomness(0))
    moments = session.gaussian_sketches(
        lambda: np.array([[400]]), n_features=1, ratio=0.01, size=7, count=2000, quantum=0.25, label="sketches"
    )
    [event] = session.ledger.events
    assert (event.vectors, event.ratio, event.label) == (14_000, 0.01, "sketches")
    assert stats.kstest(moments.ravel() * 7 / 100, stats.chi2(7).cdf).pvalue > 1e-6


def test_sketches_have_the_covariance():
    covariance = np.array([[50, 20, 0], [20, 30, -5], [0, -5, 10]])
    session = Session(Ledger("add_remove"), Randomness(1))
    moments = session.gaussian_sketches(lambda: covariance, n_features=3, ratio=0.1, size=50, count=400)
    assert np.abs(moments.mean(axis=0) - covariance).max() < 5 * 50 / math.sqrt(50 * 400 / 2)


def test_the_charge_comes_before_any_row_is_read():
    session = Session(Ledger("add_remove", epsilon=0.1, delta=1e-6, planned=True), Randomness(0))
    with pytest.raises(PrivacyError, match="refused"):
        session.gaussian_sketches(lambda: pytest.fail("rows were read"), n_features=1, ratio=0.1, size=60)


def test_units_of_several_rows_are_refused():
    ledger = Ledger("add_remove", epsilon=5.0, delta=1e-6, planned=True, unit=Unit("person", 3))
    session = Session(ledger, Randomness(0))
    with pytest.raises(PrivacyError, match=r"stated for units of at most 1 row, but the unit has up to 3$"):
        session.gaussian_sketches(lambda: np.eye(1, dtype=int) * 100, n_features=1, ratio=0.01, size=20)
    with pytest.raises(PrivacyError, match="1 row"):
        recomputed_epsilon((GaussianSketchEvent(20, 0.01),), Relation.ADD_REMOVE, 1e-5, 3)
