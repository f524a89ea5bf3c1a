"""The mechanism of residuals: its sensitivity against every pair of rows, its noise, its numbers."""

import itertools
import math
from functools import reduce

import numpy as np
import pytest

from marginalia.data import Domain, Table
from marginalia.data.units import Unit
from marginalia.errors import InputError, PrivacyError
from marginalia.privacy.events import flattened
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.mechanisms.residuals import _whole_residual, residual, residual_sensitivity
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.session import Session

ADDS, REPLACES = Neighbours(Relation.ADD_REMOVE), Neighbours(Relation.REPLACE_ONE)
DOMAIN = Domain.from_sizes({"a": 2, "b": 3, "c": 4})
TABLE = Table(np.random.default_rng(0).integers(0, [2, 3, 4], (60, 3)), DOMAIN)
GOLDEN = [-1.8501130731569395, -1.0063567153281636, 2.856469788485103]


def projection(sizes):
    return reduce(np.kron, [np.eye(n) - 1 / n for n in sizes], np.ones((1, 1)))


@pytest.mark.parametrize("sizes", [(), (1,), (2,), (5,), (2, 3), (3, 1), (2, 2, 2), (3, 3, 4), (2, 5, 3)])
def test_sensitivities_are_the_largest_move_of_any_row(sizes):
    P = projection(sizes)
    columns = range(P.shape[1])
    one = max(np.linalg.norm(P[:, i]) for i in columns)
    two = max(np.linalg.norm(P[:, i] - P[:, j]) for i, j in itertools.product(columns, columns))
    assert residual_sensitivity(sizes, ADDS) == pytest.approx(one, abs=1e-12)
    assert residual_sensitivity(sizes, REPLACES) == pytest.approx(two, abs=1e-12)


@pytest.mark.parametrize("sizes", [(), (2,), (3,), (2, 2), (2, 3)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_sensitivities_are_the_largest_move_of_any_unit(sizes, k):
    """A unit of 1 to k rows comes, or becomes any other: every pair of them."""
    P = projection(sizes)
    rows = range(P.shape[1])
    units = [
        P[:, list(u)].sum(axis=1) for n in range(1, k + 1) for u in itertools.combinations_with_replacement(rows, n)
    ]
    unit = Unit("id", k)
    comes = max(np.linalg.norm(u) for u in units)
    becomes = max(np.linalg.norm(u - v) for u, v in itertools.product(units, units))
    assert residual_sensitivity(sizes, Neighbours(Relation.ADD_REMOVE, unit)) == pytest.approx(comes, abs=1e-12)
    assert residual_sensitivity(sizes, Neighbours(Relation.REPLACE_ONE, unit)) == pytest.approx(becomes, abs=1e-12)


def test_sensitivities_are_rounded_up():
    for sizes in itertools.product(range(2, 9), repeat=3):
        scaled = residual_sensitivity(sizes, ADDS) * math.prod(sizes)
        assert scaled >= math.sqrt(math.prod(n * (n - 1) for n in sizes)) * (1 - 1e-15)


@pytest.mark.parametrize("relation", list(Relation))
def test_whole_numbers_are_released_and_move_as_declared(relation):
    """What meets the noise is ∏ n_i times the residual, to the last unit."""
    asked = []

    def hook(question, exact, draw):
        asked.append((question, exact()))
        return draw()

    ledger = Ledger(relation)
    sigmas = {("a", "b"): 3.0, ("b", "c"): 2.0, ("a", "b", "c"): 5.0}
    with intercepting(hook):
        noisy = Session(ledger, Randomness(0)).residuals(TABLE, sigmas)
    events = [event for event, _ in flattened(ledger.events)]
    for names, (question, exact), event, released in zip(sigmas, asked, events, noisy, strict=True):
        sizes = [DOMAIN[name].size for name in names]
        assert exact.dtype == np.int64
        np.testing.assert_allclose(exact, math.prod(sizes) * residual(TABLE.counts(names).astype(float)), atol=1e-9)
        assert (question.sensitivity, question.scale) == (event.sensitivity, event.sigma)
        assert event.sigma == sigmas[names] * math.prod(sizes)
        assert event.sensitivity == pytest.approx(residual_sensitivity(sizes, Neighbours(relation)) * math.prod(sizes))
        for axis in range(len(names)):
            np.testing.assert_allclose(released.sum(axis=axis), 0, atol=1e-9)


def test_golden_values():
    noisy = Session(Ledger("add_remove"), Randomness(7)).residuals(TABLE, {("a", "b"): 2.0})
    np.testing.assert_allclose(noisy[0][0], GOLDEN, atol=1e-12)


@pytest.mark.slow
def test_the_noise_is_the_projected_one():
    """1,500 residuals: mean 0, covariance sigma² P, each entry within 5 of its standard deviations.

    That one of the 36 + 6 entries is beyond has probability below 1e-4.
    """
    sigma, runs = 2.0, 1500
    P = projection((2, 3))
    randomness = Randomness(1)
    exact = residual(TABLE.counts(("a", "b")).astype(float)).ravel()
    draws = np.array(
        [
            Session(Ledger("add_remove"), randomness).residuals(TABLE, {("a", "b"): sigma})[0].ravel()
            for _ in range(runs)
        ]
    )
    noise = draws - exact
    S = sigma**2 * P
    assert (np.abs(noise.mean(axis=0)) < 5 * np.sqrt(np.diag(S) / runs)).all()
    spread = np.sqrt((np.outer(np.diag(S), np.diag(S)) + S**2) / runs)
    assert (np.abs(noise.T @ noise / runs - S) < 5 * spread).all()


def test_all_are_paid_before_the_first_is_drawn():
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    with pytest.raises(PrivacyError, match="refused"):
        Session(ledger, Randomness(0)).residuals(TABLE, {("a",): 10.0, ("b",): 0.1})
    assert ledger.events == ()


def test_what_cannot_move_is_refused():
    with pytest.raises(InputError, match="same for all tables"):
        Session(Ledger("replace_one"), Randomness(0)).residuals(TABLE, {(): 1.0})
    one = Table([[0, 1]], Domain.from_sizes({"a": 1, "b": 2}))
    with pytest.raises(InputError, match="same for all tables"):
        Session(Ledger("add_remove"), Randomness(0)).residuals(one, {("a", "b"): 1.0})
    assert Session(Ledger("add_remove"), Randomness(0)).residuals(one, {}) == []


def test_the_number_of_rows_is_the_residual_of_nothing():
    (total,) = Session(Ledger("add_remove"), Randomness(0)).residuals(TABLE, {(): 0.01})
    assert total == pytest.approx(60, abs=0.1)


def test_sums_beyond_64_bits_are_clipped():
    """An error would tell that a private number of rows is large."""
    counts = TABLE.counts(["a", "b", "c"])
    exact = _whole_residual(counts).astype(object) * 10**16
    assert int(exact.max()) < 2**62 < int(exact.max()) * 100
    np.testing.assert_array_equal(_whole_residual(counts * 10**16).astype(object), exact)
    found = _whole_residual(counts * 10**18)
    np.testing.assert_array_equal(found, np.clip(exact * 100, -(2**62), 2**62).astype(np.int64))
