"""MWEM+PGM: scores by definition, a budget of equal rounds, and models within their size."""

import numpy as np
import pytest

from marginalia.data.domain import Column, Domain, StructuralZeros
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.marginals.elimination import eliminate
from marginalia.methods import mwem_pgm
from marginalia.methods.independent import Independent
from marginalia.methods.mwem_pgm import MWEM
from marginalia.privacy.calibration import gdp_mu, zcdp_rho
from marginalia.privacy.costs import bounded_range_mu
from marginalia.privacy.events import ExponentialEvent, GaussianEvent
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.session import Session


def chained(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    a, c = rng.integers(0, 3, (2, n))
    keep = rng.random((2, n)) < 0.8
    b = np.where(keep[0], a, rng.integers(0, 3, n))
    d = np.where(keep[1], c, rng.integers(0, 4, n))
    return Table(np.column_stack([a, b, c, d]), Domain.from_sizes({"a": 3, "b": 3, "c": 3, "d": 4}))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-5), (2.0, 1e-9)])
def test_every_round_costs_the_same_and_all_is_spent(relation, epsilon, delta):
    model = MWEM(epsilon=epsilon, delta=delta, rounds=5, relation=relation, random_state=0).fit(chained(500))
    assert model.ledger_.certified
    gaussian = [e for e in model.ledger_.events if isinstance(e, GaussianEvent)]
    chosen = [e for e in model.ledger_.events if isinstance(e, ExponentialEvent)]
    adds = relation == "add_remove"
    assert (len(gaussian), len(chosen)) == (5 + adds, 5)
    assert {e.sensitivity for e in chosen} == {Neighbours(relation).marginal_sensitivity_l1}
    squares = [(e.sensitivity / e.sigma) ** 2 for e in gaussian]
    assert squares[-5:] == [pytest.approx(squares[-1])] * 5
    # A tenth of a round's zCDP is its selection's: e²/8 = 1/10, squares/2 = 9/10.
    assert chosen[0].epsilon ** 2 / 8 == pytest.approx(squares[-1] / 2 / 9)
    shares = [
        [[s / 2 for s in squares], sum(e.epsilon**2 / 8 for e in chosen), zcdp_rho(epsilon, delta)],
        [squares, sum(bounded_range_mu(e.epsilon) ** 2 for e in chosen), gdp_mu(epsilon, delta) ** 2],
    ]
    spent, counting = min(
        (((sum(s) + selecting) / total, s[0] / total) for s, selecting, total in shares), key=lambda x: abs(x[0] - 1)
    )
    assert spent == pytest.approx(1, rel=1e-9)
    if adds:
        assert counting == pytest.approx(0.01)


def test_scores_are_those_of_the_paper(monkeypatch):
    """w (||M(D) - M(P)||_1 - cells) of every candidate, P fitted to what was released before; the largest w is 1."""
    table = chained(300)
    weights = {("a", "b"): 1.0, ("c", "d"): 2.0, ("a", "b", "c"): 0.5, ("d",): 1.0}
    seen, models = [], []

    def select(session, bounds, score, *, sensitivity, **given):
        seen.append([score(i) for i in range(len(bounds))])
        assert np.all(np.asarray(bounds) >= np.array(seen[-1]) - 1e-9)
        assert sensitivity == 1.0
        return real(session, bounds, score, sensitivity=sensitivity, **given)

    def fit(*given, **named):
        models.append(estimate(*given, **named))
        return models[-1]

    real, estimate = Session.select, mwem_pgm.estimate
    monkeypatch.setattr(Session, "select", select)
    monkeypatch.setattr(mwem_pgm, "estimate", fit)
    model = MWEM(workload=weights, rounds=4, epsilon=2.0, random_state=1, relation="add_remove").fit(table)
    assert len(seen) == 4
    for scores, fitted in zip(seen, models, strict=False):
        expected = [
            w / 2.0 * (np.abs(table.counts(q) - fitted.marginal(q)).sum() - table.domain.n_cells(q))
            for q, w in sorted(weights.items())
        ]
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-6)
    uniform = models[0].marginal(("a", "d"))
    np.testing.assert_allclose(uniform, uniform.mean())
    assert set(model.measured_) <= set(weights)


def test_scores_do_not_depend_on_the_order_or_the_scale_of_the_weights():
    table = chained(300)
    weights = {("a", "b"): 1.0, ("d", "c"): 2.0, ("a", "c"): 0.5}
    others = [{q: 2.0**-1060 * w for q, w in reversed(weights.items())}, {q: 2.0**1000 * w for q, w in weights.items()}]
    one, *rest = (
        MWEM(workload=w, rounds=3, random_state=1, relation="add_remove").fit(table) for w in (weights, *others)
    )
    for other in rest:
        assert other.measured_ == one.measured_
        assert np.array_equal(other.marginal(("a", "d")), one.marginal(("a", "d")))


@pytest.mark.parametrize("relation", list(Relation))
def test_dependent_pairs_are_found(relation):
    table = chained()
    for epsilon in (1.0, 10.0):
        model = MWEM(epsilon=epsilon, relation=relation, random_state=0).fit(table)
        plain = Independent(epsilon=epsilon, relation=relation, random_state=0).fit(table)
        for pair in [("a", "b"), ("c", "d")]:
            counts = table.counts(pair)
            assert pair in model.measured_
            assert np.abs(model.marginal(pair) - counts).sum() < np.abs(plain.marginal(pair) - counts).sum() / 10


@pytest.mark.slow
def test_with_much_budget_a_model_of_pairs_is_exact():
    table = chained()
    model = MWEM(epsilon=1e4, rounds=8, random_state=0, relation="add_remove").fit(table)
    for pair in model.measured_:
        assert np.abs(model.marginal(pair) - table.counts(pair)).sum() < 20
    assert model.n_rows_ == len(table)


@pytest.mark.slow
def test_the_model_grows_round_by_round_within_its_size(monkeypatch):
    rng = np.random.default_rng(0)
    table = Table(rng.integers(0, 4, (3000, 8)), Domain.from_sizes({f"x{i}": 4 for i in range(8)}))
    found = []
    real = MWEM._candidates

    def seen(self, cliques, members, domain, share):
        found.append((list(cliques), share, real(self, cliques, members, domain, share)))
        return found[-1][2]

    monkeypatch.setattr(MWEM, "_candidates", seen)
    model = MWEM(epsilon=20.0, max_model_mb=0.004, rounds=16, random_state=0, relation="add_remove").fit(table)
    assert [share for _, share, _ in found[1:]] == [t / 16 for t in range(1, 17)]
    for cliques, share, candidates in found:
        now = eliminate(cliques, table.domain.sizes).megabytes
        sizes = {q: eliminate([*cliques, q], table.domain.sizes).megabytes for q in model_pairs(8)}
        limit = max(share * 0.004, now)
        assert candidates == ([q for q in sizes if sizes[q] <= limit] or [q for q in sizes if sizes[q] <= 0.004])
    assert eliminate(model.model_.plan.cliques, table.domain.sizes).megabytes <= 0.004


def model_pairs(d):
    return [(i, j) for i in range(d) for j in range(i + 1, d)]


def test_without_room_for_any_marginal_nothing_is_released():
    with pytest.raises(InputError, match=r"larger than max_model_mb=1e-05: raise it"):
        MWEM(max_model_mb=1e-5, relation="add_remove").fit(chained(50))


def test_a_saved_model_is_read_again(tmp_path):
    model = MWEM(epsilon=1.0, random_state=0, relation="add_remove").fit(chained(500))
    model.save(tmp_path / "model.npz")
    again = MWEM.load(tmp_path / "model.npz")
    assert again.measured_ == model.measured_
    assert again.sample(50).n_rows == 50
    assert np.array_equal(again.marginal(("a", "d")), model.marginal(("a", "d")))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("n", [0, 1, 60])
@pytest.mark.parametrize("sizes", [(3,), (1,), (2, 3), (1, 1, 4), (2, 1, 3)])
def test_small_tables(sizes, n, relation):
    domain = Domain.from_sizes({f"x{i}": m for i, m in enumerate(sizes)})
    table = Table(np.zeros((n, len(sizes)), int), domain)
    model = MWEM(epsilon=1.0, relation=relation, random_state=0).fit(table)
    assert len(model.measured_) == len(sizes)
    assert model.ledger_.certified
    assert model.sample(7).n_rows == 7


def test_impossible_cells_stay_empty():
    zeros = [StructuralZeros(("a", "b"), ((0, 1),)), StructuralZeros(("b", "c"), ((1, 2),))]
    domain = Domain([Column("a", 2), Column("b", 2), Column("c", 3)], structural_zeros=zeros)
    codes = np.random.default_rng(0).integers(0, 2, (400, 3)) * [1, 0, 1]
    model = MWEM(epsilon=1.0, random_state=0, relation="add_remove").fit(Table(codes, domain))
    assert model.marginal(("a", "b"))[0, 1] == model.marginal(("c", "b"))[2, 1] == 0


@pytest.mark.parametrize(
    "given", [{"rounds": 0}, {"rounds": 2.5}, {"max_model_mb": 0}, {"max_cells": -1}, {"calibration": "published"}]
)
def test_bad_parameters_are_refused(given):
    with pytest.raises(InputError) as error:
        MWEM(epsilon=1.0, **given).fit(chained(50))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("relation", list(Relation))
def test_the_first_model_has_the_released_number_of_records(relation, monkeypatch):
    totals, released = [], []

    def fit(*given, total, **named):
        totals.append(total)
        return estimate(*given, total=total, **named)

    def measure(*given, **named):
        released.append(measure_all(*given, **named))
        return released[-1]

    estimate, measure_all = mwem_pgm.estimate, mwem_pgm.measure_all
    monkeypatch.setattr(mwem_pgm, "estimate", fit)
    monkeypatch.setattr(mwem_pgm, "measure_all", measure)
    MWEM(epsilon=0.2, relation=relation, random_state=0).fit(chained(5000))
    if relation is Relation.REPLACE_ONE:
        assert set(totals) == {5000}
    else:
        assert totals[0] == released[0][0].values != 5000
        assert len(set(totals)) == len(totals)  # each marginal tells more
