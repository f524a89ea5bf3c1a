import math

import numpy as np
import pytest

from marginalia.data import Column, Domain, StructuralZeros, Table
from marginalia.errors import InputError
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.synthesis import Independent


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.binomial(m - 1, 0.3, size=4000) for m in (5, 2, 3)])
    return Table(codes, Domain.from_sizes({"a": 5, "b": 2, "c": 3}))


@pytest.mark.parametrize(("relation", "sensitivity"), [("add_remove", 1.0), ("replace_one", math.sqrt(2))])
def test_one_gaussian_event_per_attribute_at_the_smallest_scale(table, relation, sensitivity):
    model = Independent(epsilon=2.0, delta=1e-4, relation=relation, random_state=0).fit(table)
    events = model.ledger_.events
    assert [e.label for e in events] == ["a", "b", "c"]
    assert [e.sigma for e in events] == pytest.approx([math.sqrt(3) * sensitivity / gdp_mu(2.0, 1e-4)] * 3)
    assert [e.sensitivity for e in events] == pytest.approx([sensitivity] * 3)
    assert model.ledger_.epsilon_spent == pytest.approx(2.0, rel=1e-6)


def test_marginals_are_products(table):
    model = Independent(random_state=1, relation="add_remove").fit(table)
    n = model.model_.total
    product = np.einsum("a,b,c->cab", *(model.marginal((x,)) / n for x in "abc"))
    np.testing.assert_allclose(model.marginal(("c", "a", "b")), n * product, rtol=1e-9)
    assert (model.marginal(("a", "b")) >= 0).all()


def test_one_way_marginals_are_the_projection_of_the_noisy_ones(table):
    # With the total known, least squares over {p >= 0, sum p = n} is the Euclidean projection.
    model = Independent(epsilon=0.05, relation="replace_one", random_state=4).fit(table)
    sigma = model.ledger_.events[0].sigma
    noisy = Session(Ledger("replace_one"), Randomness(4, "fit")).marginal(  # the first that is drawn
        table, ["a"], sigma=sigma
    )
    low, high = -1e5, 1e5
    for _ in range(200):  # bisection on the shift that makes the positive parts sum to n
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(noisy - middle, 0).sum() > 4000 else (low, middle)
    expected = np.maximum(noisy - low, 0)
    # The engine stops at a relative decrease of its loss; cells within a few records of sigma.
    np.testing.assert_allclose(model.marginal(("a",)), expected, atol=0.05 * sigma)


def test_samples_have_the_model_marginals(table):
    model = Independent(random_state=2, relation="add_remove").fit(table)
    rows = model.sample(4000)
    scale = 4000 / model.model_.total
    assert np.abs(rows.counts(("a",)) - scale * model.marginal(("a",))).max() < 2


def test_structural_zeros_have_no_mass(table):
    attributes = [Column("a", 5), Column("b", 2), Column("c", 3)]
    domain = Domain(attributes, structural_zeros=[StructuralZeros(("a", "b"), ((4, 0), (4, 1)))])
    rows = Table(table.take(table.column("a") < 4).codes, domain)
    model = Independent(epsilon=0.1, random_state=0, relation="add_remove").fit(rows)
    assert model.marginal(("b", "a"))[:, 4].sum() == 0
    assert model.sample(1000).counts(("a",))[4] == 0


def test_only_the_tight_calibration_exists(table):
    with pytest.raises(InputError, match="calibration of Independent"):
        Independent(calibration="published", relation="add_remove").fit(table)


def test_files_restore_the_model(table, tmp_path):
    model = Independent(random_state=9, relation="add_remove").fit(table)
    model.save(tmp_path / "m.npz")
    loaded = Independent.load(tmp_path / "m.npz").set_params(random_state=9)
    np.testing.assert_allclose(loaded.marginal(("a", "c")), model.marginal(("a", "c")), rtol=1e-12)
    assert loaded.sample(500) == model.sample(500)
