"""Units of several rows: what each method charges for them, and that no private number of rows is read."""

import itertools
import math

import numpy as np
import pytest

from marginalia.data.domain import Column, Domain
from marginalia.data.encoding import Encoder
from marginalia.data.table import Table
from marginalia.data.units import Unit, UnitOfLearnedRows
from marginalia.errors import InputError
from marginalia.learning import (
    AdaptiveMarginClassifier,
    AdaSSPRegressor,
    DDSSPClassifier,
    DPSGDClassifier,
    DPSGDRegressor,
    ObjectivePerturbationClassifier,
    PATEClassifier,
    SSPClassifier,
    SSPRegressor,
    base,
)
from marginalia.learning.private_tuning import draw_runs
from marginalia.learning.rows import ByUnit, TableRows
from marginalia.learning.statistics import statistic_sensitivities
from marginalia.methods import pate
from marginalia.methods.adaptive_margin import PRACTICAL, Candidate, Trainer, private_tuning
from marginalia.methods.chebyshev.calibration import certified_sensitivity
from marginalia.methods.chebyshev.chebyshev import ChebyshevMomentMatching
from marginalia.methods.chebyshev.moments import Axis, Degrees, polynomials
from marginalia.methods.chebyshev.release import _of_sums, release_density
from marginalia.methods.dp_sgd.descent import UNIT, Batches, Directions, Run, descend
from marginalia.methods.dp_sgd.dp_sgd import best_of_random_runs
from marginalia.methods.reduced_space.families import Family
from marginalia.methods.reduced_space.reduced_space import ReducedSpaceLP
from marginalia.methods.ssp import _joint_sensitivity
from marginalia.papers.excess_risk.methods.exhaustive import Exhaustive
from marginalia.privacy import events
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.session import Session

K = 3
PATIENTS = Unit("patient", K)
DOMAIN = Domain([Column("age", 3, "numeric"), Column("sick", 2), Column("ill", 2)])
RELATIONS = list(Relation)


def panel(sizes, seed=0):
    """Return a table of units of the given numbers of rows."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    age, sick = rng.integers(0, 3, n), rng.integers(0, 2, n)
    ill = (age + sick + rng.integers(0, 2, n) >= 2).astype(int)
    units = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(n)  # rows of a unit need not stand beside each other
    return Table(np.stack([age, sick, ill], 1)[order], DOMAIN).of_units(PATIENTS, units[order])


SIZES = [*[1, 2, 3] * 40, 1]
TABLE = panel(SIZES)
NEIGHBOUR = panel([*SIZES[:-1], 3])  # the last unit has three rows in place of one

METHODS = {
    "ssp": (lambda **g: SSPRegressor(**g), "age"),
    "ssp_classes": (lambda **g: SSPClassifier(**g), "age"),
    "ssp_logistic": (lambda **g: SSPClassifier(**g), "ill"),
    "ada_ssp": (lambda **g: AdaSSPRegressor(calibration="tight", **g), "age"),
    "dp_sgd": (lambda **g: DPSGDClassifier(selection="fixed", n_public=120, batch_size=120, steps=4, **g), "ill"),
    "dp_sgd_default": (lambda **g: DPSGDRegressor(selection="fixed", epochs=3, **g), "age"),
    "dp_sgd_selection": (lambda **g: DPSGDClassifier(n_public=120, selection="random_stopping", **g), "ill"),
    "objective_perturbation": (lambda **g: ObjectivePerturbationClassifier(fit_intercept=True, **g), "ill"),
    "pate": (lambda **g: PATEClassifier(n_teachers=5, n_queries=4, **g), "ill"),
    "adaptive_margin": (lambda **g: AdaptiveMarginClassifier(selection="iter", max_steps=3, **g), "ill"),
    "private_tuning": (lambda **g: AdaptiveMarginClassifier(selection="private_tuning", max_steps=3, **g), "ill"),
    "chebyshev": (lambda **g: ChebyshevMomentMatching(m=2, **g), None),
    "reduced_space": (lambda **g: ReducedSpaceLP(family="cells", **g), None),
    "reduced_space_gaussian": (lambda **g: ReducedSpaceLP(family="cells", noise="gaussian", **g), None),
    "exhaustive": (lambda **g: Exhaustive(order=1, **g), None),
    "dd_ssp": (lambda **g: DDSSPClassifier(marginals=ReducedSpaceLP(family="cells", **g)), "ill"),
}
REPLACE_ONLY = {"dp_sgd_default", "pate", "adaptive_margin", "private_tuning", "chebyshev", "exhaustive"}
CASES = [(name, r) for name in METHODS for r in RELATIONS if r == "replace_one" or name not in REPLACE_ONLY]


def fitted(name, relation, table, seed=1):
    make, target = METHODS[name]
    model = make(epsilon=1.0, delta=1e-5, relation=str(relation), random_state=seed)
    return model.fit(table) if target is None else model.fit(table, target)


@pytest.mark.parametrize(("name", "relation"), CASES)
def test_a_fit_is_certified_for_its_units(name, relation):
    ledger = fitted(name, relation, TABLE).ledger_
    assert ledger.certified, ledger.message
    assert ledger.neighbours == Neighbours(relation, PATIENTS)
    assert ledger.epsilon_spent == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(("name", "relation"), CASES)
def test_nothing_public_follows_from_the_number_of_rows(name, relation):
    tables = [TABLE, NEIGHBOUR] if relation == "replace_one" else [TABLE, panel(SIZES[:-1])]
    assert tables[0].n_rows != tables[1].n_rows
    one, other = (fitted(name, relation, table) for table in tables)
    told = [(m.ledger_.summary(), m.coef_.shape if hasattr(m, "coef_") else m.domain_) for m in (one, other)]
    assert told[0] == told[1]
    for attribute in ("gammas_", "m_requested_"):
        assert np.array_equal(getattr(one, attribute, None), getattr(other, attribute, None))
    for model, table in ((one, tables[0]), (other, tables[1])):
        if METHODS[name][1] is None:
            assert model.n_rows_ != table.n_rows or name == "exhaustive"  # a noisy one


def test_objective_perturbation_refuses_a_privately_chosen_number_of_rows():
    """Its event, one for a group of rows, would follow from the released histogram: nothing may be released."""
    table = Table(TABLE.codes, DOMAIN).of_units(UnitOfLearnedRows("patient", K), TABLE.units)
    assert fitted("ssp", "add_remove", table).ledger_.certified

    def hook(asked, exact, draw):
        raise AssertionError(f"{asked.label} was released")

    message = "no proof for a privately chosen rows_per_unit: give it as a number"
    with intercepting(hook), pytest.raises(InputError, match=message):
        fitted("objective_perturbation", "add_remove", table)


def numbers_of_rows(name):
    return len({fitted(name, Relation.REPLACE_ONE, TABLE, seed).n_rows_ for seed in range(4)})


def test_the_number_of_rows_of_a_release_is_noisy():
    assert numbers_of_rows("exhaustive") > 1


def test_the_number_of_rows_of_chebyshev_is_noisy():
    assert numbers_of_rows("chebyshev") > 1


def test_the_number_of_rows_of_reduced_space_is_noisy():
    assert numbers_of_rows("reduced_space") > 1


def test_memory_is_not_judged_by_a_private_number_of_rows(monkeypatch):
    told = []
    check = base.check_fit
    monkeypatch.setattr(base, "check_fit", lambda *a, n_rows, **g: told.append(n_rows) or check(*a, n_rows=n_rows, **g))
    for table in (TABLE, TABLE.of_units(None, None)):
        fitted("objective_perturbation", Relation.REPLACE_ONE, table)
    assert told == [0, TABLE.n_rows]


# --- sensitivities: all pairs of multisets of up to k rows -----------------------------------------------------------


def sums_of_units(vectors, k):
    """Return the sums of all multisets of 1 to k of some vectors."""
    several = (c for size in range(1, k + 1) for c in itertools.combinations_with_replacement(vectors, size))
    return np.array([np.sum(c, axis=0) for c in several])


def worst(vectors, k, relation, norm=2):
    """Return how far one unit moves a sum at most."""
    sums = sums_of_units(list(vectors), k)
    if relation is Relation.ADD_REMOVE:
        return float(np.linalg.norm(sums, norm, axis=1).max())
    return max(float(np.linalg.norm(sums - one, norm, axis=1).max()) for one in sums)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_statistics(relation, k):
    neighbours = Neighbours(relation, Unit("u", k))
    codes = np.array(list(itertools.product(range(3), range(2), range(2))))
    encoder = Encoder(DOMAIN, "ill")
    rows = TableRows(Table(codes, DOMAIN), encoder, "logistic")
    grams = np.einsum("ni,nj->nij", rows.X, rows.X)
    xy = rows.X * rows.y[:, None]
    upper = np.triu_indices(rows.n_features)
    joint = np.column_stack([grams[:, upper[0], upper[1]], xy])
    B = rows.feature_bound
    xx_bound, xy_bound = statistic_sensitivities(neighbours, B, 1.0)
    S = _joint_sensitivity(neighbours, B, 1.0, 1.0)
    found = worst(grams.reshape(len(grams), -1), k, relation), worst(xy, k, relation), worst(joint, k, relation)
    for moved, bound in zip(found, (xx_bound, xy_bound, S), strict=True):
        assert 0.5 * bound < moved <= bound * (1 + 1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
def test_smallest_eigenvalue_moves_by_the_added_rows_at_most(relation):
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(300):
        base = rng.standard_normal((rng.integers(0, 6), 2))
        units = [rng.standard_normal((1, 2)) for _ in range(2)]
        units = [np.repeat(u / np.linalg.norm(u), rng.integers(1, K + 1), axis=0) for u in units]
        if relation is Relation.ADD_REMOVE:
            units[1] = units[1][:0]
        small = [np.linalg.eigvalsh(Z.T @ Z)[0] for Z in (np.vstack([base, u]) for u in units)]
        largest = max(largest, abs(small[0] - small[1]))
    assert largest <= K
    model = AdaSSPRegressor(calibration="tight", relation=str(relation), random_state=0).fit(TABLE, "age")
    event = model.ledger_.events[0]
    rows = TableRows(TABLE, model.encoder_, "linear").with_constant()  # the default has an intercept
    assert event.sensitivity == pytest.approx(K * rows.feature_bound**2)
    assert event.sensitivity > K * 2.0


@pytest.mark.parametrize("kind", ["parities", "monomials", "cells"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_test_functions_with_the_number_of_rows(kind, relation):
    family = Family(kind, (2, 2, 2), 2)
    points = np.array(list(itertools.product(range(2), repeat=3)))
    vectors = np.vstack([np.ones(len(points)), family.values(points)]).T.astype(float)
    neighbours = Neighbours(relation, Unit("u", 2))
    for norm, bound in ((1, family.l1_sensitivity), (2, family.l2_sensitivity)):
        moved = worst(vectors, 2, relation, norm)
        assert moved <= neighbours.sum_sensitivity(*(bound(r) for r in Relation)) * (1 + 1e-12)
        assert moved > 2 * worst(vectors, 1, relation, norm) - 1e-9  # k times as far as one row, at least


@pytest.mark.parametrize("axes", [[Axis.midpoints(4, degree=3)], [Axis.binary(), Axis.midpoints(3, degree=2)]])
def test_chebyshev_sums_with_the_number_of_rows(axes):
    indices = Degrees(tuple(a.degree for a in axes), 2)
    weight, bound = _of_sums(indices, axes, Neighbours(Relation.REPLACE_ONE, Unit("u", 2)))
    vectors = []
    for x in itertools.product(*(a.points for a in axes)):
        T = np.ones(())
        for value, axis in zip(x, axes, strict=True):
            T = np.multiply.outer(T, polynomials(np.array([value]), axis.degree)[:, 0])
        vectors.append(np.append(weight, (T * np.sqrt(indices.noise_weights)).ravel()[1:]))
    moved = worst(vectors, 2, Relation.REPLACE_ONE)
    assert 0.7 * bound < moved <= bound * (1 + 1e-12)
    assert bound == pytest.approx(2 * math.sqrt(certified_sensitivity(indices, axes)))  # the number costs nothing


def test_chebyshev_divides_by_the_noisy_number_of_rows():
    points, rule = np.linspace(-1, 1, 600)[:, None], {"k": 1, "epsilon": 1e6, "delta": 1e-5}
    axes = [Axis.gauss(4, 1)]
    means = release_density(points, axes, **rule, session=Session(Ledger("replace_one"), Randomness(0)))
    ledger = Ledger("replace_one", unit=Unit("u", 2))
    sums = release_density(points, axes, **rule, n_units=300, session=Session(ledger, Randomness(0)))
    assert sums.moments == pytest.approx(means.moments, abs=1e-3)
    assert abs(sums.n - 600) <= 1


# --- DP-SGD: a unit's gradient is one --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_a_units_summed_gradient_is_clipped_to_the_norm(seed):
    rng = np.random.default_rng(seed)
    by_unit = ByUnit.of(rng.integers(0, 6, 20))
    X = rng.standard_normal((20, 3)) * np.exp(rng.normal(0, 3, (20, 1)))
    derivative, clip = rng.standard_normal((20, 2)), np.array([0.5, 2.0])
    rows = Directions.of(X)
    for chosen in np.arange(by_unit.sizes.size)[:, None]:
        members = by_unit.rows(chosen)
        found = rows.take(members).clipped_sum_of_units(derivative[members], clip, by_unit.sizes[chosen])
        for j, column in enumerate(found.T.tolist()):
            assert sum(v * v for v in column) <= round(1 / UNIT) ** 2  # exactly
            whole = np.minimum(1e3, np.abs(derivative[members, j]) * rows.length[members])
            if (whole < 128 * clip[j]).all():
                g = derivative[members, j] @ X[members]
                expected = g * min(1.0, clip[j] / np.linalg.norm(g))
                assert np.array(column) * UNIT * clip[j] == pytest.approx(expected, abs=1e-3 * clip[j])
    everyone = np.arange(by_unit.sizes.size)

    def summed(chosen):
        members = by_unit.rows(chosen)
        return rows.take(members).clipped_sum_of_units(derivative[members], clip, by_unit.sizes[chosen])

    # Nothing of a unit depends on another.
    assert np.array_equal(summed(everyone), np.sum([summed(u) for u in everyone[:, None]], axis=0))


def test_extreme_rows_of_a_unit_stay_within_the_norm():
    X = np.array([[1e300, 1e300], [-1e300, 1.0], [0.0, 0.0], [1e-300, 0.0]])
    for derivative in (1e300, math.inf, math.nan, -math.inf):
        found = Directions.of(X).clipped_sum_of_units(np.full((4, 1), derivative), np.ones(1), np.array([4]))
        assert sum(v * v for v in found.ravel().tolist()) <= round(1 / UNIT) ** 2


def test_a_batch_has_whole_units_and_one_coin_each(monkeypatch):
    by_unit = ByUnit.of(np.repeat(np.arange(40), 3))
    seen, taken = [], ByUnit.rows

    def rows(self, chosen):
        seen.append(chosen)
        return taken(self, chosen)

    monkeypatch.setattr(ByUnit, "rows", rows)
    X, y = np.ones((120, 1)), np.ones(120)
    ledger = Ledger("replace_one", unit=PATIENTS)
    run = Run(steps=50, learning_rate=1.0, clip=1.0, noise_multiplier=1.0)
    descend(X, y, "logistic", [run], Batches(0.5, 20), by_unit=by_unit, session=Session(ledger, Randomness(0)))
    assert len(seen) == 50
    assert max(c.max() for c in seen) < 40
    # Of 2000 coins: false alarm below 1e-5.
    assert abs(sum(c.size for c in seen) - 1000) < 100
    assert len({c.size for c in seen}) > 1


def test_a_unit_moves_a_noisy_sum_by_the_norm(monkeypatch):
    sums = []
    monkeypatch.setattr(Session, "poisson_run", lambda session, clipped_sum, **given: lambda w: (
        sums.append(clipped_sum(w, np.arange(given["n_units"]))), np.zeros(w.shape))[1])  # fmt: skip
    run = Run(steps=1, learning_rate=1.0, clip=0.2, noise_multiplier=1.0)
    by_unit = ByUnit.of(np.repeat(np.arange(3), 3))
    X, y = np.ones((9, 1)), np.ones(9)
    ledger = Ledger("replace_one", unit=PATIENTS)
    descend(X, y, "logistic", [run], Batches(1.0, 3), by_unit=by_unit, session=Session(ledger, Randomness(0)))
    assert abs(sums[0].item()) * UNIT == pytest.approx(3.0, rel=1e-3)  # one clipping norm for each of three units


def test_units_of_one_row_are_rows():
    X, y = np.random.default_rng(0).standard_normal((60, 2)), np.sign(np.random.default_rng(1).standard_normal(60))
    run = Run(steps=3, learning_rate=0.5, clip=0.2, noise_multiplier=1.0)
    one, other = (
        descend(X, y, "logistic", [run], Batches(0.5, 30), **g, session=Session(Ledger("replace_one"), Randomness(3)))
        for g in ({}, {"by_unit": ByUnit.of(np.arange(60))})
    )
    assert one == pytest.approx(other, abs=1e-4)


def test_the_noise_of_dp_sgd_does_not_grow_with_k():
    of_units = fitted("dp_sgd", Relation.REPLACE_ONE, TABLE).ledger_.events
    of_rows = fitted("dp_sgd", Relation.REPLACE_ONE, TABLE.of_units(None, None)).ledger_.events
    assert of_units == of_rows


def test_rate_and_steps_of_dp_sgd_follow_from_the_number_of_units(monkeypatch):
    told, schedule = [], DPSGDRegressor._schedule
    monkeypatch.setattr(DPSGDRegressor, "_schedule", lambda self, n: told.append(n) or schedule(self, n))
    fitted("dp_sgd_default", Relation.REPLACE_ONE, TABLE)
    assert told == [TABLE.n_units]


# --- selections, teachers, published constants ------------------------------------------------------------------------


def test_random_stopping_pays_for_units_inside_a_run():
    X, y = np.array([[1.0], [-1.0]] * 30), np.array([1.0, -1.0] * 30)
    ledger = Ledger("replace_one", epsilon=1.0, delta=1e-5, unit=PATIENTS, planned=True)
    by_unit = ByUnit.of(np.arange(60) // 3)
    session = Session(ledger, Randomness(0))
    best_of_random_runs(X, y, "logistic", 1.0, 1e-5, n=20, session=session, by_unit=by_unit)
    (stopping,) = ledger.events
    gradients, loss = stopping.event.events
    assert ledger.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    assert loss.sensitivity == K
    alone = Ledger("replace_one", epsilon=1.0, delta=1e-5, planned=True)
    best_of_random_runs(X, y, "logistic", 1.0, 1e-5, n=60, session=Session(alone, Randomness(0)))
    assert loss.sigma == K * alone.events[0].event.events[1].sigma
    assert gradients == alone.events[0].event.events[0]


def test_margins_are_chosen_by_errors_that_move_by_k():
    candidates = [Candidate(0.5, 0.5, 1.0), Candidate(0.25, 0.25, 1.0)]
    trainer = Trainer(np.eye(4), candidates, PRACTICAL, n=2, contributions=K)
    ledger = Ledger("replace_one", unit=PATIENTS)
    private_tuning(trainer, 1.0, 0.5, session=Session(ledger, Randomness(0)))
    gradients, errors = ledger.events[0].event.events
    assert gradients.events[0].sensitivity == 2 * K
    assert errors.sensitivity == K
    mu = math.fsum(e.sensitivity**2 / e.sigma**2 * c for e, c in events.flattened((ledger.events[0].event,)))
    assert mu == pytest.approx(1.0)


def test_gradients_of_the_margin_move_by_k_rows():
    ledger = fitted("adaptive_margin", Relation.REPLACE_ONE, TABLE).ledger_
    candidates = len(fitted("adaptive_margin", Relation.REPLACE_ONE, TABLE).gammas_)
    gradient, steps = next((e, n) for e, n in events.flattened(ledger.events) if e.label == "hinge gradients")
    assert gradient.sensitivity == pytest.approx(2 * K * math.sqrt(candidates))
    assert steps == 3


def test_runs_of_private_tuning_know_their_unit():
    one_run = events.CompositionEvent((events.GaussianEvent(1.0, 20.0),))
    ledger = Ledger("replace_one", unit=PATIENTS)
    _, secret = draw_runs(one_run, 0.5, 4, session=Session(ledger, Randomness(0)))
    assert secret.neighbours == ledger.neighbours


def test_all_rows_of_a_unit_have_one_teacher(monkeypatch):
    m, sizes = 60, [1, 2, 3] * 20
    names = np.repeat(np.arange(m), sizes)
    domain = Domain([Column("who", m, "numeric"), Column("ill", 2)])
    order = np.random.default_rng(0).permutation(len(names))
    codes = np.column_stack([names, names % 2])[order]
    table = Table(codes, domain).of_units(PATIENTS, names[order])
    shards, others = [], []
    teach, fit = pate._teacher, pate._logistic_regression
    monkeypatch.setattr(pate, "_teacher", lambda X, y: shards.append(X[:, 0]) or teach(X, y))
    monkeypatch.setattr(pate, "_logistic_regression", lambda X, y: others.append(X[:, 0]) or fit(X, y))
    model = PATEClassifier(n_teachers=10, n_queries=5, random_state=0).fit(table, "ill")
    *teachers, student = [set(np.rint((s + 1) / 2 * (m - 1)).astype(int).tolist()) for s in [*shards, others[-1]]]
    assert len(teachers) == 10
    assert sum(len(t) for t in teachers) == 55
    assert len(student) == 5
    assert not any(t & u for t, u in itertools.combinations([*teachers, student], 2))
    assert sum(len(s) for s in shards) == sum(sizes[u] for t in teachers for u in t)
    assert model.ledger_.events[0].sensitivity == 2 * math.sqrt(2 * 5)  # another key may have another teacher
    assert "units" in model.ledger_.scope


@pytest.mark.parametrize(("before", "now"), [(7, 60), (7, 61), (0, 200)])
def test_a_unit_with_another_key_changes_two_teachers_at_most(monkeypatch, before, now):
    """Keys decide: other units keep their teachers, whichever key one unit leaves with and the next one brings."""
    m = 60
    domain = Domain([Column("who", 300, "numeric"), Column("ill", 2)])
    public = Table([[i, 0] for i in range(0, 300, 20)], domain).drop("ill")
    fit = pate._teacher
    dealt = []
    for key, who in ((before, before), (now, before), (now, 299)):
        names = np.array([*(i for i in range(m) if i != before), key])
        codes = np.column_stack([[*names[:-1], who], names % 2])
        shards = []
        monkeypatch.setattr(pate, "_teacher", lambda X, y, to=shards: to.append(X[:, 0].tolist()) or fit(X, y))
        table = Table(codes, domain).of_units(PATIENTS, names)
        ledger = PATEClassifier(n_teachers=10, n_queries=5, public=public, random_state=0).fit(table, "ill").ledger_
        dealt.append(shards)
    for other in dealt[1:]:
        assert sum(mine != theirs for mine, theirs in zip(dealt[0], other, strict=True)) <= 2
    assert ledger.certified
    assert ledger.events[0].sensitivity == 2 * math.sqrt(2 * 5)


def test_published_constants_are_refused():
    with pytest.raises(InputError, match="single rows"):
        SSPRegressor(calibration="published", relation="add_remove").fit(TABLE, "age")


def test_margin_wants_delta_below_one_in_the_number_of_units():
    with pytest.raises(InputError, match=r"1/n = 0\.00826"):  # of 121 units, not of 241 rows
        AdaptiveMarginClassifier(delta=0.009).fit(TABLE, "ill")
