"""ReducedSpaceLP behind the common interface."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.methods.reduced_space.families import Family
from marginalia.synthesis import ReducedSpaceLP
from marginalia.synthesis.base import Synthesizer

P = 6


def table(n: int = 2000, p: int = P, seed: int = 0) -> Table:
    """Half and half of two product laws, so that pairs matter."""
    rng = np.random.default_rng(seed)
    q = np.linspace(0.2, 0.8, p)
    side = rng.random((n, 1)) < 0.5
    codes = (rng.random((n, p)) < np.where(side, q, 1 - q)).astype(int)
    return Table(codes, Domain.from_sizes({f"x{i}": 2 for i in range(p)}))


SETTINGS = [
    {},
    {"solution": "lp"},
    {"solution": "l1"},
    {"space": "sampled", "n_points": 500},
    {"space": "sampled", "measure": "product", "n_points": 300, "solution": "lp"},
    {"family": "cells"},
    {"noise": "gaussian", "delta": 1e-6},
    {"relation": "add_remove"},
    {"family": "monomials", "calibration": "published", "space": "sampled", "measure": "uniform", "solution": "lp",
     "sampling": "iid"},
]  # fmt: skip


@pytest.mark.parametrize("parameters", SETTINGS, ids=str)
def test_every_setting_gives_rows_of_its_space_and_a_certificate(parameters):
    data = table()
    model = ReducedSpaceLP(epsilon=2.0, random_state=3, **parameters).fit(data)
    assert model.ledger_.certified
    assert model.weights_.sum() == pytest.approx(1)
    assert model.weights_.min() >= 0
    rows = model.sample(777)
    assert rows.n_rows == 777
    support = {tuple(x) for x in model.support_.tolist()}
    assert {tuple(x) for x in rows.codes.tolist()} <= support
    assert model.sample(777) == rows
    family = Family(model.family, data.domain.sizes, 2)
    true = family.sums(data.codes) / 2000
    assert np.abs(family.sums(rows.codes) / 777 - true).max() <= model.certificate(gamma=0.001, table=rows)
    assert model.residual_ >= model.optimum_ - 1e-4
    assert_allclose(model.marginal(["x2", "x0"]), model.marginal(["x0", "x2"]).T)
    assert model.marginal(["x1"]).sum() == pytest.approx(model.n_rows_)


@pytest.mark.parametrize("sampling", ["apportion", "iid"])
def test_rows_follow_the_weights_whatever_their_number(sampling):
    model = ReducedSpaceLP(epsilon=1.0, solution="lp", sampling=sampling, random_state=0).fit(table(500))
    for n_rows in (7, 20_000):
        counts = model.sample(n_rows).counts(model.domain_.names)
        assert counts.sum() == n_rows
        drawn = counts[tuple(model.support_.T)]
        assert drawn.sum() == n_rows  # no row outside the support
        # Apportioned: within one row; drawn: within six standard deviations (false alarms below 1 in 10⁷).
        slack = 1.0 if sampling == "apportion" else 6 * np.sqrt(n_rows * model.weights_) + 1
        assert (np.abs(drawn - n_rows * model.weights_) <= slack).all()


def test_marginals_are_those_of_the_weighted_rows():
    model = ReducedSpaceLP(epsilon=1.0, random_state=0).fit(table())
    rows, weights = model.weighted_table()
    pair = np.zeros((2, 2))
    np.add.at(pair, (rows.column("x3"), rows.column("x1")), weights)
    assert_allclose(model.marginal(["x3", "x1"]), 2000 * pair)


@pytest.mark.slow
def test_noise_is_as_calibrated_and_pure():
    model = ReducedSpaceLP(epsilon=1.0, random_state=0).fit(table(1000, 20))
    (event,) = model.ledger_.events
    assert (event.sensitivity, event.scale) == (220, pytest.approx(220))  # of sums; averages have a thousandth
    assert model.scale_ == pytest.approx(0.22)
    assert model.ledger_.epsilon(0.0) == pytest.approx(1.0)
    slack = ReducedSpaceLP(
        epsilon=1.0, family="monomials", calibration="published", solution="lp", n_points=500, random_state=0
    ).fit(table(1000, 20))
    assert slack.ledger_.certified  # the published noise is valid, with slack about two
    assert slack.ledger_.epsilon(0.0) == pytest.approx(210 / 422)


def test_without_noise_the_data_come_back():
    data = table()
    model = ReducedSpaceLP(epsilon=1e9, gap=1e-9, random_state=0).fit(data)
    assert model.optimum_ <= 1e-6
    assert_allclose(model.marginal(["x0", "x5"]), data.counts(["x0", "x5"]), atol=0.1)


@pytest.mark.slow
def test_the_certificate_covers():
    """Coverage at least 1 - gamma, up to three standard errors of 60 runs (false alarms below 1 in 500)."""
    seeds, data = 60, table(500, 4)
    family = Family("parities", (2,) * 4, 2)
    true = family.sums(data.codes) / 500
    for relation in ("replace_one", "add_remove"):
        held = 0
        for seed in range(seeds):
            model = ReducedSpaceLP(epsilon=1.0, relation=relation, solution="lp", random_state=seed).fit(data)
            rows = model.sample(300)
            error = np.abs(family.sums(rows.codes) / 300 - true).max()
            held += error <= model.certificate(gamma=0.1, table=rows)
        assert held / seeds >= 0.9 - 3 * np.sqrt(0.09 / seeds)


@pytest.mark.slow
def test_the_certificate_of_a_noisy_count_needs_both_noises():
    """With x = 0 throughout every parity is exactly 1, where the count's noise shows most."""
    zeros = Table(np.zeros((300, 3), int), Domain.from_sizes({"a": 2, "b": 2, "c": 2}))
    family = Family("parities", (2, 2, 2), 2)
    errors, bounds = [], []
    for seed in range(200):
        model = ReducedSpaceLP(epsilon=1.0, relation="add_remove", solution="lp", random_state=seed).fit(zeros)
        errors.append(np.abs(model.fitted_ - family.sums(zeros.codes) / 300).max())
        bounds.append(model.certificate(gamma=0.1))
    assert np.mean(np.array(errors) <= bounds) >= 0.9 - 3 * np.sqrt(0.09 / 200)


def test_maximum_entropy_spreads_where_a_vertex_does_not():
    vertex = ReducedSpaceLP(epsilon=1.0, solution="lp", random_state=0).fit(table())
    spread = ReducedSpaceLP(epsilon=1.0, random_state=0).fit(table())
    assert len(vertex.weights_) <= 22
    assert len(spread.weights_) == 64
    assert_allclose(vertex.averages_, spread.averages_)  # the same release


def test_a_public_sampler_is_used_and_checked(tmp_path):
    class Ones:
        def sample(self, m, rng):
            return np.ones((m, P), dtype=int)

    class Outside:
        def sample(self, m, rng):
            return np.full((m, P), 2)

    model = ReducedSpaceLP(epsilon=1.0, space="sampled", measure=Ones(), random_state=0).fit(table())
    assert model.support_.tolist() == [[1] * P]
    with pytest.raises(InputError, match="cannot be saved"):
        model.save(tmp_path / "model.npz")
    with pytest.raises(InputError, match="outside the table's domain"):
        ReducedSpaceLP(epsilon=1.0, space="sampled", measure=Outside(), random_state=0).fit(table())


def test_a_saved_model_is_the_same_model(tmp_path):
    model = ReducedSpaceLP(epsilon=1.0, random_state=0).fit(table())
    model.save(tmp_path / "model.npz")
    again = Synthesizer.load(tmp_path / "model.npz")
    assert isinstance(again, ReducedSpaceLP)
    assert again.certificate() == model.certificate()
    assert_allclose(again.marginal(["x1", "x4"]), model.marginal(["x1", "x4"]))


BAD = [
    ({"order": 0}, "order is 0"),
    ({"order": 7}, "order is 7; need a whole number from 1 to 6"),
    ({"epsilon": 0}, "epsilon is 0: need a finite number above 0"),
    ({"epsilon": float("inf")}, "epsilon is inf: need a finite number above 0"),
    ({"order": 2.0}, "order is 2.0"),
    ({"delta": 1.0}, "delta is 1.0: need a number strictly between 0 and 1"),
    ({"noise": "gaussian"}, "Gaussian noise needs delta above 0"),
    ({"noise": "gaussian", "delta": 1e-5, "calibration": "published"}, "Laplace noise only"),
    ({"family": "cell"}, "did you mean 'cells'"),
    ({"measure": "forest"}, "unknown measure"),
    ({"measure": 3}, "measure must be"),
    ({"space": "all"}, "unknown space"),
    ({"solution": "maxentropy"}, "did you mean 'maxent'"),
    ({"n_points": 0}, "n_points is 0"),
    ({"gap": 0.0}, "gap is 0"),
    ({"sampling": "x"}, "unknown sampling"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD)
def test_bad_parameters_give_one_clear_line(parameters, message):
    with pytest.raises(InputError) as error:
        ReducedSpaceLP(**{"epsilon": 1.0, **parameters}).fit(table(50))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("p", "parameters", "message"),
    [
        (20, {"order": 3}, "1350 parities (order 3 on 20 columns) exceed the limit of 600"),
        (30, {"order": 3, "family": "monomials"}, "4525 monomials (order 3 on 30 columns) exceed the limit of 1500"),
        (23, {"space": "cube", "solution": "lp"}, "8388608 cells, the limit of space='cube' is 4194304"),
        (17, {"space": "cube"}, "131072 cells exceeds the limit of 65536"),
        (20, {"n_points": 3_000_000}, "210 functions on 3000000 points take 630000000 bytes, the limit is 500000000"),
    ],
)
def test_infeasible_sizes_are_refused_with_size_and_limit(p, parameters, message):
    with pytest.raises(InputError) as error:
        ReducedSpaceLP(epsilon=1.0, **parameters).fit(table(20, p))
    assert message in str(error.value)


def test_many_functions_are_announced():
    with pytest.warns(UserWarning, match="575 functions"), pytest.raises(InputError, match="no rows"):
        ReducedSpaceLP(order=3, space="sampled", n_points=100).fit(table(0, 15))


def test_columns_it_cannot_take_are_refused():
    wide = Table(np.zeros((5, 2), int), Domain.from_sizes({"a": 2, "b": 9}))
    with pytest.raises(InputError, match="needs Boolean columns, one has 9 codes"):
        ReducedSpaceLP().fit(wide)
    assert ReducedSpaceLP(family="cells", random_state=0).fit(wide).marginal(["b"]).shape == (9,)
