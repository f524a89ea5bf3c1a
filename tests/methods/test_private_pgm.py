"""Plain Private-PGM: the noise of GaussianMarginals, answers of one model."""

import math

import numpy as np
import pytest

from marginalia.data import Domain, Table
from marginalia.privacy.calibration import gdp_epsilon
from marginalia.synthesis import GaussianMarginals, PrivatePGM
from marginalia.synthesis.base import Synthesizer

TREE = (("a", "b"), ("b", "c"))


def chain(n_rows=5000, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n_rows)
    b = np.where(rng.random(n_rows) < 0.8, a % 2, rng.integers(0, 2, n_rows))
    c = np.where(rng.random(n_rows) < 0.8, b, rng.integers(0, 4, n_rows))
    return Table(np.column_stack([a, b, c]), Domain.from_sizes({"a": 3, "b": 2, "c": 4}))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_model_answers_what_was_measured(relation):
    table = chain()
    model = PrivatePGM(epsilon=50.0, workload=TREE, relation=relation, random_state=0).fit(table)
    for q in TREE:
        np.testing.assert_allclose(model.marginal(q), table.counts(q), atol=10)
    # a and c are independent given b, in the rows and in the model.
    np.testing.assert_allclose(model.marginal(("a", "c")), table.counts(("a", "c")), atol=60)
    rows = model.sample()
    assert rows.n_rows == model.n_rows_ == pytest.approx(5000, abs=0 if relation == "replace_one" else 5)
    np.testing.assert_allclose(rows.counts(("a", "b")), table.counts(("a", "b")), atol=30)


def test_it_measures_what_gaussian_marginals_measures():
    settings = {"epsilon": 0.5, "delta": 1e-5, "workload": TREE, "relation": "replace_one", "random_state": 0}
    model = PrivatePGM(calibration="published", **settings).fit(chain())
    raw = GaussianMarginals(calibration="published", **settings).fit(chain())
    assert model.ledger_.summary() == raw.ledger_.summary()
    sigma = math.sqrt(2 * (2 * 2) * math.log(1.25 / 1e-5)) / 0.5  # Algorithm 3
    assert raw.measurements_[0].sigma == pytest.approx(sigma)
    assert model.ledger_.epsilon(1e-5) == pytest.approx(gdp_epsilon(2 / sigma, 1e-5), rel=1e-6)
    np.testing.assert_allclose(model.marginal(("a", "b")), raw.marginal(("a", "b")), atol=3 * sigma)
    assert model.marginal(("a", "b")).min() >= 0


def test_files(tmp_path):
    model = PrivatePGM(workload=TREE, random_state=1, relation="add_remove").fit(chain())
    model.save(tmp_path / "model.npz")
    again = Synthesizer.load(tmp_path / "model.npz")
    np.testing.assert_allclose(again.marginal(("a", "c")), model.marginal(("a", "c")), rtol=1e-9)
