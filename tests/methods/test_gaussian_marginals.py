import itertools
import math

import numpy as np
import pytest

from marginalia.data import Column, Domain, StructuralZeros, Table
from marginalia.errors import InputError
from marginalia.privacy.calibration import gdp_epsilon, gdp_mu
from marginalia.synthesis import GaussianMarginals

SIZES = {"a": 3, "b": 2, "c": 4}


def chain(n_rows=5000, seed=0, sizes=SIZES):
    """Rows in which every attribute copies the one before it 80 % of the time."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(m, size=n_rows) for m in sizes.values()]
    for left, (j, m) in zip(columns, list(enumerate(sizes.values()))[1:], strict=False):
        copied = rng.random(n_rows) < 0.8
        columns[j][copied] = left[copied] % m
    return Table(np.column_stack(columns), Domain.from_sizes(sizes))


@pytest.mark.parametrize(("relation", "sensitivity"), [("add_remove", 1.0), ("replace_one", math.sqrt(2))])
def test_noise_is_the_smallest_that_the_budget_allows(relation, sensitivity):
    model = GaussianMarginals(epsilon=0.7, delta=1e-6, relation=relation, random_state=0).fit(chain())
    sigma = math.sqrt(3) * sensitivity / gdp_mu(0.7, 1e-6)
    assert [m.sigma for m in model.measurements_] == pytest.approx([sigma] * 3)
    assert [m.attributes for m in model.measurements_] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert model.ledger_.certified
    assert model.ledger_.epsilon_spent == pytest.approx(0.7, rel=1e-6)
    assert len(model.ledger_.events) == 3


@pytest.mark.slow
def test_the_tables_carry_noise_of_that_scale():
    # 200 fits of one pair table (6 cells): the sample variance of 1200 normal draws is within 15 % of sigma²
    # (3.7 standard deviations; false alarm 2e-4 at these fixed seeds).
    table = chain()
    truth = table.counts(("a", "b"))
    fits = [GaussianMarginals(epsilon=1.0, random_state=s, relation="add_remove").fit(table) for s in range(200)]
    noise = np.array([f.marginal(("a", "b")) - truth for f in fits])
    assert noise.var() == pytest.approx(fits[0].measurements_[0].sigma ** 2, rel=0.15)


def test_published_calibration_is_the_classical_formula():
    model = GaussianMarginals(epsilon=0.5, delta=1e-5, relation="replace_one", calibration="published", random_state=0)
    model.fit(chain())
    sigma = math.sqrt(2 * (2 * 3) * math.log(1.25 / 1e-5)) / 0.5
    assert model.measurements_[0].sigma == pytest.approx(sigma)
    assert model.ledger_.epsilon_spent == pytest.approx(gdp_epsilon(math.sqrt(6) / sigma, 1e-5))
    assert model.ledger_.epsilon_spent < 0.5


def test_marginal_answers_with_the_raw_table_in_the_order_asked():
    model = GaussianMarginals(random_state=0, relation="add_remove").fit(chain())
    raw = {m.attributes: np.asarray(m.values) for m in model.measurements_}
    np.testing.assert_array_equal(model.marginal(("b", "c")), raw["b", "c"])
    np.testing.assert_array_equal(model.marginal(("c", "b")), raw["b", "c"].T)


def test_one_way_marginal_is_the_inverse_variance_mean_of_sums():
    model = GaussianMarginals(random_state=0, relation="add_remove").fit(chain())
    ab, ac = model.marginal(("a", "b")).sum(1), model.marginal(("a", "c")).sum(1)
    np.testing.assert_allclose(model.marginal(("a",)), (ab / 2 + ac / 4) / (1 / 2 + 1 / 4))
    total = model.marginal(())
    tables = [np.asarray(m.values) for m in model.measurements_]
    weights = [1 / t.size for t in tables]
    assert total == pytest.approx(np.average([t.sum() for t in tables], weights=weights))
    assert model.n_rows_ == round(float(total))


def test_only_released_marginals_are_answered():
    model = GaussianMarginals(workload=[("a", "b"), ("c",)], random_state=0, relation="add_remove").fit(chain())
    assert model.marginal(("c",)).shape == (4,)
    with pytest.raises(InputError, match=r"on a, c was not released; add one that holds it to the workload"):
        model.marginal(("c", "a"))
    with pytest.raises(InputError, match="stands twice"):
        model.marginal(("a", "a"))


def test_rows_are_drawn_from_the_pairs_that_depend_most():
    # Noise 0.02 records: the tree is a-b, b-c, and a pair on it is met up to rounding. Sampling moves a cell by less
    # than one row in each of the groups it is rounded in.
    table = chain(n_rows=20_000)
    rows = GaussianMarginals(epsilon=1000.0, random_state=0, relation="add_remove").fit(table).sample()
    assert abs(len(rows) - 20_000) <= 1
    for pair in (("a", "b"), ("b", "c")):
        assert np.abs(rows.counts(pair) - table.counts(pair)).max() <= 8
    # c copies b and b copies a, so that the tree implies the pair (a, c) too, up to sampling error of the data.
    assert np.abs(rows.counts(("a", "c")) - table.counts(("a", "c"))).sum() < 0.03 * 20_000


def test_a_workload_without_pairs_gives_independent_rows():
    table = chain()
    rows = GaussianMarginals(workload=1, epsilon=1000.0, random_state=0, relation="add_remove").fit(table).sample(5000)
    product = np.outer(table.counts(("a",)), table.counts(("b",))) / 5000
    # Columns are shuffled apart: a cell has a standard deviation of at most 17.
    assert np.abs(rows.counts(("a", "b")) - product).max() < 85 < np.abs(table.counts(("a", "b")) - product).max()


def test_samples_respect_structural_zeros():
    table = chain()
    kept = table.take((table.column("a") > 0) | (table.column("b") > 0))
    attributes = [Column(n, m) for n, m in SIZES.items()]
    domain = Domain(attributes, structural_zeros=[StructuralZeros(("a", "b"), ((0, 0),))])
    model = GaussianMarginals(epsilon=0.5, random_state=0, relation="add_remove").fit(Table(kept.codes, domain))
    assert model.sample(2000).counts(("a", "b"))[0, 0] == 0


def test_number_of_rows_is_exact_where_it_is_public():
    model = GaussianMarginals(relation="replace_one", random_state=3).fit(chain(n_rows=777))
    assert model.n_rows_ == 777
    assert len(model.sample()) == 777


def test_same_seed_same_bytes_and_files_restore_everything(tmp_path):
    table = chain()
    model = GaussianMarginals(random_state=5, relation="add_remove").fit(table)
    again = GaussianMarginals(random_state=5, relation="add_remove").fit(table)
    model.save(tmp_path / "model.npz")
    loaded = GaussianMarginals.load(tmp_path / "model.npz").set_params(random_state=5)
    for pair in itertools.combinations(SIZES, 2):
        np.testing.assert_array_equal(model.marginal(pair), again.marginal(pair))
        np.testing.assert_array_equal(model.marginal(pair), loaded.marginal(pair))
    assert model.sample(100) == again.sample(100) == loaded.sample(100)


def test_single_attribute():
    model = GaussianMarginals(epsilon=100.0, random_state=0, relation="add_remove").fit(chain().project(["c"]))
    assert model.marginal(("c",)).shape == (4,)
    assert model.sample(10).domain.names == ("c",)


def test_bad_workload_is_one_line():
    with pytest.raises(InputError, match="column") as caught:
        GaussianMarginals(workload=[("a", "nowhere")], relation="add_remove").fit(chain())
    assert "\n" not in str(caught.value)
