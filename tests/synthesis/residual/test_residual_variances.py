"""The closed form: against a numeric optimiser, and against the noise of fits."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from marginalia.data import Domain, Table
from marginalia.marginals.workload import Workload
from marginalia.papers.recent.methods.aim_residual import allocation
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.subsets import subsets
from marginalia.synthesis import GaussianMarginals, ResidualPlanner
from marginalia.synthesis.residual import cell_variance, cost, planned_variances

DOMAIN = Domain.from_sizes({"a": 2, "b": 3, "c": 4})
WORKLOADS = {
    "pairs": 2,
    "weighted": {("a", "b"): 1.0, ("b", "c"): 5.0},
    "mixed": [("a", "b", "c"), ("c",)],
}


def total_variance(workload, sizes, variances):
    """Return the weighted sum of the variances of all cells of the workload, which the closed form minimises."""
    return math.fsum(
        w * cell_variance(q, sizes, variances) * math.prod(sizes[i] for i in q)
        for q, w in zip(workload.cliques, workload.weights, strict=True)
    )


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", WORKLOADS)
def test_no_other_noise_of_that_cost_has_less_variance(name, relation):
    workload, sizes = Workload.parse(WORKLOADS[name], DOMAIN), DOMAIN.sizes
    planned = planned_variances(workload, sizes, Neighbours(relation))
    parts = list(planned)
    costs = np.array([cost(part, sizes, Neighbours(relation)) for part in parts])
    assert sum(c / v for c, v in zip(costs, planned.values(), strict=True)) == pytest.approx(1)

    def objective(x):  # any positive numbers, scaled to cost 1
        variances = np.exp(x)
        variances *= (costs / variances).sum()
        return math.log(total_variance(workload, sizes, dict(zip(parts, variances, strict=True))))

    found = minimize(objective, np.zeros(len(parts)), method="BFGS", options={"gtol": 1e-8})
    least = math.log(total_variance(workload, sizes, planned))
    assert least == pytest.approx(found.fun, abs=1e-6)
    assert least <= found.fun + 1e-9


def test_pairs_are_cheaper_together_than_apart():
    """Independent noise on three pairs of 6, 8 and 12 cells: 3 (6 + 8 + 12) = 78 at mu = 1; here 50.85."""
    workload = Workload.parse(2, DOMAIN)
    planned = planned_variances(workload, DOMAIN.sizes, Neighbours(Relation.ADD_REMOVE))
    assert total_variance(workload, DOMAIN.sizes, planned) == pytest.approx(50.85, abs=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
def test_the_variance_of_fits_is_the_one_stated(relation):
    """200 fits: 26 cells of three pairs, whose mean squared noise is a weighted sum of about 17 squares a fit.

    Its standard deviation is below 4 % of the mean; beyond 18 %, a false alarm, with probability below 1e-4.
    """
    table = Table(np.random.default_rng(1).integers(0, DOMAIN.sizes, (500, 3)), DOMAIN)
    pairs = list(itertools.combinations(DOMAIN.names, 2))
    fits = [ResidualPlanner(estimate="unbiased", relation=relation, random_state=s).fit(table) for s in range(200)]
    found = np.mean([sum(((f.marginal(q) - table.counts(q)) ** 2).sum() for q in pairs) for f in fits])
    workload, mu = Workload.parse(2, DOMAIN), gdp_mu(1.0, 1e-5)
    stated = total_variance(
        workload, DOMAIN.sizes, planned_variances(workload, DOMAIN.sizes, Neighbours(relation), mu=mu)
    )
    assert found == pytest.approx(stated, rel=0.18)
    assert fits[0].ledger_.epsilon_spent == pytest.approx(1.0, rel=1e-9)
    for q in pairs:  # each cell of a pair as well: 200 draws, 5 standard deviations of their variance, 26 cells
        noise = np.array([f.marginal(q) - table.counts(q) for f in fits])
        clique = tuple(DOMAIN.index(a) for a in q)
        np.testing.assert_allclose(noise.var(axis=0), fits[0].model_.variance(clique), rtol=5 * math.sqrt(2 / 200))


def test_it_is_never_noisier_than_the_same_noise_on_every_marginal():
    for sizes, order in [((2, 2, 2, 2), 2), ((9, 2, 5), 2), ((3, 4, 2, 6, 2), 3), ((7, 3), 1)]:
        domain = Domain.from_sizes({f"x{i}": n for i, n in enumerate(sizes)})
        workload = Workload.parse(order, domain)
        for relation in Relation:
            planned = planned_variances(workload, sizes, Neighbours(relation))
            apart = relation.units * len(workload.cliques) * sum(map(domain.n_cells, workload.names(domain)))
            assert total_variance(workload, sizes, planned) <= apart * (1 + 1e-9)


def test_columns_of_one_code_cost_nothing():
    domain = Domain.from_sizes({"a": 1, "b": 3})
    planned = planned_variances(Workload.parse(2, domain), domain.sizes, Neighbours(Relation.ADD_REMOVE))
    assert list(planned) == [(), (1,)]
    model = ResidualPlanner(random_state=0, relation="add_remove").fit(Table([[0, 1], [0, 2]] * 40, domain))
    assert model.marginal(("a", "b")).shape == (1, 3)
    assert GaussianMarginals(random_state=0, relation="add_remove").fit(Table([[0, 1], [0, 2]] * 40, domain)).marginal(
        ("a",)
    ).shape == (1,)


@pytest.mark.parametrize("relation", list(Relation))
def test_a_round_measures_what_lowers_the_variance_most(relation):
    rng, whole, sizes = np.random.default_rng(3), (0, 1, 2), (2, 3, 4)
    for _ in range(5):
        known = {part: float(rng.exponential(20)) for part in subsets(whole) if rng.random() < 0.6}
        known[()] = 0.0
        measured = allocation(whole, sizes, Neighbours(relation), known, mu=0.3)
        costs = {part: cost(part, sizes, Neighbours(relation)) for part in subsets(whole)}
        assert sum(costs[part] / v for part, v in measured.items()) == pytest.approx(0.09, rel=1e-6)

        def after(precision, known=known):
            have = {part: 1 / v if v else math.inf for part, v in known.items()}
            total = {part: have.get(part, 0.0) + precision.get(part, 0.0) for part in subsets(whole)}
            return cell_variance(whole, sizes, {part: 1 / p if p else 1e9 for part, p in total.items()})

        best = after({part: 1 / v for part, v in measured.items()})
        parts = [part for part in subsets(whole) if part and costs[part] > 0]
        for _ in range(200):
            shares = rng.dirichlet(np.full(len(parts), 0.5)) * 0.09
            assert best <= after({part: s / costs[part] for part, s in zip(parts, shares, strict=True)}) * (1 + 1e-9)
