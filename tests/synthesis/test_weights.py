"""Weights of a workload at the ends of the floats: every method that takes them fits, certified, by their ratios."""

import numpy as np
import pytest
from tiers import others_slow

from marginalia.data import Domain, Table
from marginalia.marginals import Workload
from marginalia.methods.aim import AIM
from marginalia.methods.mwem_pgm import MWEM
from marginalia.methods.residual_planner import ResidualPlanner
from marginalia.methods.swift import SWIFT
from marginalia.papers.dd_ssp.methods.mixture import MixtureInference
from marginalia.papers.recent.methods.aim_residual import ResidualAIM
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.verify import verify

METHODS = others_slow(
    [AIM, ResidualAIM, MixtureInference, MWEM, ResidualPlanner, SWIFT], AIM, ResidualAIM, MWEM, ResidualPlanner, SWIFT
)
AB, BC, CD = ("a", "b"), ("b", "c"), ("c", "d")
EXTREME = [
    {AB: 1e-320, CD: 1e-320},
    {AB: 5e-324},
    {AB: 1e308, CD: 1e-300},
    {AB: 5e-324, BC: 1.0, CD: 1e308},
    {AB: 1e308, BC: 1e308, CD: 1e308},
    [(AB, 1e308), (("b", "a"), 1e308)],
]


def table():
    rng = np.random.default_rng(0)
    a, c = rng.integers(0, 3, 300), rng.integers(0, 2, 300)
    columns = np.column_stack([a, a, c, (a + c) % 4])
    return Table(columns, Domain.from_sizes({"a": 3, "b": 3, "c": 2, "d": 4}))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("workload", others_slow(EXTREME), ids=str)
def test_extreme_weights_fit(method, workload):
    model = method(epsilon=1.0, workload=workload, random_state=0).fit(table())
    assert model.ledger_.certified
    assert np.isfinite(model.marginal(AB)).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("power", others_slow([-1060, 1000]))
def test_a_power_of_two_changes_nothing(method, power):
    weights = {AB: 1.0, CD: 2.0, BC: 0.75}
    scaled = {q: 2.0**power * w for q, w in weights.items()}
    one, other = (method(epsilon=1.0, workload=w, random_state=0).fit(table()) for w in (weights, scaled))
    for pair in weights:
        assert one.marginal(pair).tobytes() == other.marginal(pair).tobytes()


def test_ordinary_weights_are_taken_as_they_are():
    domain = table().domain
    for weights in ({AB: 3.0, CD: 1e-15}, {AB: 2.0**256, CD: 2.0**204}, {AB: 2.0**-256, CD: 0.1 * 2.0**-256}):
        assert Workload.parse(weights, domain).weights == tuple(weights.values())


def test_weights_that_vanish_beside_the_largest_keep_their_marginals():
    workload = Workload.parse({AB: 1e-320, BC: 1e300, CD: 1e308}, table().domain)
    least, middle, top = workload.weights
    assert least / top == 2.0**-53
    assert middle / top == pytest.approx(1e-8)
    assert set(workload.closure()) == {(0,), (1,), (2,), (3,), (0, 1), (1, 2), (2, 3)}
    assert all(0 < weight < 4 for weight in workload.closure().values())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "workload", others_slow([{AB: 2.0, BC: np.float64(0.5)}, [(AB, np.float64(2.0)), CD], np.int64(2)]), ids=str
)
def test_a_model_of_a_weighted_workload_survives_its_file(method, workload, tmp_path):
    model = method(epsilon=1.0, workload=workload, random_state=0).fit(table())
    model.save(tmp_path / "model.npz")
    again = method.load(tmp_path / "model.npz")
    parsed = (Workload.parse(m.workload, table().domain) for m in (model, again))
    assert len(set(parsed)) == 1
    assert again.marginal(AB).tobytes() == model.marginal(AB).tobytes()
    assert verify(Certificate.read(tmp_path / "model.npz")).confirmed
