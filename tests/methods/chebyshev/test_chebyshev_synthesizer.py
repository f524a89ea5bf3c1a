"""ChebyshevMomentMatching behind the common interface."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError
from marginalia.methods.chebyshev.chebyshev import choose_axes
from marginalia.methods.chebyshev.measures import Measure
from marginalia.methods.chebyshev.moments import Axis
from marginalia.methods.chebyshev.release import release_density
from marginalia.papers.chebyshev.theory.distance import distance_on_line
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.synthesis import ChebyshevMomentMatching
from marginalia.synthesis.base import Synthesizer, copies

DOMAIN = Domain([Column("age", 30, "numeric"), Column("hours", 20, "ordinal"), Column("label", 2)], source="documented")


def table(n: int = 3000, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(12, 5, n), 0, 29).astype(int)
    hours = np.clip(age / 2 + rng.normal(3, 2, n), 0, 19).astype(int)
    return Table(np.stack([age, hours, rng.random(n) < age / 30], axis=1).astype(int), DOMAIN)


@pytest.fixture(scope="module")
def fitted() -> ChebyshevMomentMatching:
    return ChebyshevMomentMatching(epsilon=1.0, delta=1e-6, random_state=0).fit(table())


def test_the_release_is_a_density_near_the_data(fitted):
    data = table()
    assert fitted.weights_.shape == (30, 20, 2)
    assert fitted.weights_.sum() == pytest.approx(1)
    assert fitted.weights_.min() >= 0
    assert fitted.gap_ <= 0.1
    assert fitted.message_.startswith("interior_point")
    for name in DOMAIN.names:  # smooth functions: means of columns
        codes = np.arange(DOMAIN[name].size)
        assert fitted.marginal([name]) @ codes / 3000 == pytest.approx(data.column(name).mean(), rel=0.05)


def test_marginals_follow_the_asked_order(fitted):
    both = fitted.marginal(["hours", "age"])
    assert both.shape == (20, 30)
    assert_allclose(both, fitted.marginal(["age", "hours"]).T)
    assert_allclose(both.sum(axis=0), fitted.marginal(["age"]))
    assert fitted.marginal([]) == pytest.approx(3000)


@pytest.mark.parametrize("sampling", ["apportion", "iid"])
@pytest.mark.parametrize("n_rows", [17, 5000])
def test_rows_lie_on_the_grid_whatever_their_number(sampling, n_rows):
    model = ChebyshevMomentMatching(epsilon=1.0, m=5, sampling=sampling, random_state=1).fit(table())
    rows = model.sample(n_rows)
    assert rows.n_rows == n_rows
    counts = rows.counts(DOMAIN.names)
    assert counts[model.weights_ == 0].sum() == 0
    if sampling == "apportion":
        assert np.abs(counts - n_rows * model.weights_).max() < 1
    assert model.sample(n_rows) == rows


def test_apportionment_gives_ties_to_the_first():
    rng = np.random.default_rng(0)
    assert copies(np.full(4, 0.25), 6, "apportion", rng).tolist() == [2, 2, 1, 1]
    assert copies(np.array([0.5, 0.3, 0.2]), 4, "apportion", rng).tolist() == [2, 1, 1]
    assert copies(np.array([0.5, 0.5, 0.0]), 1001, "iid", rng)[2] == 0


def test_weighted_rows_are_the_density(fitted):
    rows, weights = fitted.weighted_table()
    assert weights.sum() == pytest.approx(1)
    rebuilt = np.zeros(fitted.weights_.shape)
    np.add.at(rebuilt, tuple(rows.codes.T), weights)
    assert_allclose(rebuilt, fitted.weights_)


def test_tight_and_corrected_are_certified_and_published_is_refused():
    for calibration in ("tight", "corrected"):
        model = ChebyshevMomentMatching(epsilon=1.0, delta=1e-6, m=8, calibration=calibration, random_state=0)
        ledger = model.fit(table()).ledger_
        assert ledger.certified
        assert ledger.epsilon(1e-6) <= 1 + 1e-9
    model = ChebyshevMomentMatching(epsilon=1.0, delta=1e-6, k=2, m=8, calibration="published", random_state=0).fit(
        table().project(["age", "hours"])
    )
    assert not model.ledger_.certified
    assert model.ledger_.epsilon(1e-6) == pytest.approx(1.258, rel=0.01)  # 1.72 at the corners of the cube: no codes
    assert "spent 1.257" in model.ledger_.message


def test_tight_spends_exactly_what_was_asked():
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    ledger = ChebyshevMomentMatching(epsilon=0.7, delta=1e-5, m=6, random_state=0).fit(table()).ledger_
    (event,) = ledger.events
    accountant = PLDAccountant()
    accountant.compose(GaussianDpEvent(event.sigma / event.sensitivity))
    assert accountant.get_epsilon(1e-5) == pytest.approx(0.7, abs=1e-3)


@pytest.mark.slow
def test_same_seed_same_bytes_and_the_order_of_records_does_not_matter(fitted):
    again = ChebyshevMomentMatching(epsilon=1.0, delta=1e-6, random_state=0).fit(table())
    assert again.weights_.tobytes() == fitted.weights_.tobytes()
    data = table()
    shuffled = data.take(np.random.default_rng(0).permutation(data.n_rows))
    other = ChebyshevMomentMatching(epsilon=1.0, delta=1e-6, random_state=0).fit(shuffled)
    assert_allclose(other.weights_, fitted.weights_, atol=1e-9)


def test_exchanging_axes_exchanges_the_fit():
    """With equal degrees and almost no noise the density follows a permutation of the columns."""
    domain = Domain([Column("x", 9, "numeric"), Column("y", 9, "numeric")])
    codes = np.random.default_rng(0).integers(0, 9, (400, 2)) // [1, 2]
    one = ChebyshevMomentMatching(epsilon=1e6, m=8, tolerance=1e-3, random_state=0).fit(Table(codes, domain))
    two = ChebyshevMomentMatching(epsilon=1e6, m=8, tolerance=1e-3, random_state=0).fit(Table(codes[:, ::-1], domain))
    assert_allclose(one.weights_, two.weights_.T, atol=2e-3)


@pytest.mark.parametrize("mode", ["practical", "paper"])
def test_a_saved_model_is_the_same_model(tmp_path, mode):
    model = ChebyshevMomentMatching(epsilon=1.0, m=3, k=1, mode=mode, random_state=0).fit(table())
    model.save(tmp_path / "model.npz")
    again = Synthesizer.load(tmp_path / "model.npz")
    assert isinstance(again, ChebyshevMomentMatching)
    assert_allclose(again.marginal(["label", "age"]), model.marginal(["label", "age"]))
    assert again.message_ == model.message_
    assert again.m_requested_ == model.m_requested_ == (3, 3, 3)


def test_first_order_solvers_take_over_above_the_interior_points_cap():
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (2000, 2))
    for k, expected in ((1, "fista"), (2, "admm")):
        density = release_density(
            points,
            [Axis.gauss(52, 1)] * 2,
            k=k,
            epsilon=1.0,
            delta=1e-6,
            max_iterations=20,
            session=Session(Ledger("replace_one"), Randomness(0)),
        )
        assert density.solver == expected
        assert density.q.sum() == pytest.approx(1)
        assert density.message.startswith("inexact") == (density.gap > 0.1)


@pytest.mark.slow
def test_error_falls_with_the_number_of_records():
    rng = np.random.default_rng(0)
    errors = []
    for n in (300, 30_000):
        x = 2 * rng.beta(2, 5, n) - 1
        axes, _ = choose_axes([None], n=n, epsilon=1.0, delta=1e-6, k=2, m=None, c=1.6, mode="practical")
        trials = []
        for seed in range(4):
            density = release_density(
                x[:, None], axes, k=2, epsilon=1.0, delta=1e-6,
                session=Session(Ledger("replace_one"), Randomness(seed)))  # fmt: skip
            trials.append(distance_on_line(Measure.of(x), density.measure(), 2).upper)
        errors.append(np.mean(trials))
    assert errors[1] < errors[0] / 20  # slope -1 would give 100


BAD = [
    ({"k": 0}, "k is 0"),
    ({"k": 2.5}, "k is 2.5"),
    ({"k": 9}, "k is 9; need a whole number from 1 to 8"),
    ({"m": 20_001}, "m is 20001; need a whole number from 1 to 20000"),
    ({"epsilon": float("inf")}, "epsilon is inf: need a finite number above 0"),
    ({"m": 0}, "m is 0"),
    ({"m": (3, 3)}, "2 degrees m for 3 columns"),
    ({"epsilon": -1.0}, "epsilon is -1.0: need a finite number above 0"),
    ({"epsilon": float("nan")}, "epsilon is nan: need a finite number above 0"),
    ({"delta": 0.0}, "delta is 0.0: need a number strictly between 0 and 1"),
    ({"c": -1.0}, "constant c is -1.0"),
    ({"tolerance": 0}, "tolerance is 0"),
    ({"mode": "exact"}, "unknown mode"),
    ({"sampling": "iidd"}, "did you mean 'iid'"),
    ({"calibration": "exact"}, "unknown calibration"),
    ({"relation": "add_remove"}, "has no proof for add_remove"),
    ({"max_cells": 10}, "grid cells (mode=practical"),
    ({"max_iterations": 0}, "max_iterations is 0"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD)
def test_bad_parameters_give_one_clear_line(parameters, message):
    model = ChebyshevMomentMatching(**{"epsilon": 1.0, "random_state": 0, **parameters})
    with pytest.raises(InputError) as error:
        model.fit(table(50))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_columns_it_cannot_see_are_named():
    domain = Domain([Column("age", 30, "numeric"), Column("race", 5)])
    with pytest.raises(InputError, match="'race' is categorical with 5 codes"):
        ChebyshevMomentMatching().fit(Table(np.zeros((3, 2), int), domain))
    with pytest.raises(InputError, match="single code"):
        ChebyshevMomentMatching().fit(Table(np.zeros((3, 1), int), Domain([Column("x", 1, "numeric")])))
    five = Domain([Column(str(i), 3, "ordinal") for i in range(5)])
    with pytest.raises(InputError, match="5 columns"):
        ChebyshevMomentMatching().fit(Table(np.zeros((3, 5), int), five))
    with pytest.raises(InputError, match="no rows"):
        ChebyshevMomentMatching().fit(Table(np.zeros((0, 3), int), DOMAIN))


def test_values_outside_the_public_bounds_are_refused():
    with pytest.raises(InputError, match="outside the public bounds"):
        release_density(
            np.array([[1.2]]), [Axis.gauss(3, 2)], k=2, epsilon=1, delta=1e-6,
            session=Session(Ledger("replace_one"), Randomness(0)))  # fmt: skip


def test_the_papers_grid_is_refused_with_size_limit_and_way_out():
    with pytest.raises(InputError) as error:
        choose_axes([None] * 3, n=10_000, epsilon=1.0, delta=1e-6, k=3, m=None, c=1.6, mode="paper")
    assert str(error.value) == (
        "chebyshev: 387420489 grid cells (mode=paper, m=9, k=3, d=3) exceed max_cells=2000000; "
        "use mode=practical (157464 cells)"
    )


def test_default_degrees_respect_codes_and_caps():
    rule = {"n": 39_073, "epsilon": 1.0, "delta": 1e-6, "k": 2, "m": None, "c": 1.6}
    axes, requested = choose_axes([74, 16, 99, 2], **rule, mode="practical")
    assert requested == (14, 14, 14, 14)
    assert [a.degree for a in axes] == [8, 8, 8, 1]  # 15³·2 moments would be 6,750
    assert np.prod([a.degree + 1 for a in choose_axes([74, 99], **rule, mode="practical")[0]]) <= 1500
    axes, _ = choose_axes([74, 16, 99], **{**rule, "n": 10**9, "m": 15}, mode="practical")
    assert [a.degree for a in axes] == [15, 15, 15]  # what is asked for is done
    axes, _ = choose_axes([5, 7], **rule, mode="practical")
    assert [a.degree for a in axes] == [4, 6]
    coarse, _ = choose_axes([3000, 3000], n=10_000, epsilon=1.0, delta=1e-6, k=2, m=8, c=1.6, mode="practical")
    assert [a.kind for a in coarse] == ["gauss", "midpoints"]
