"""What the sweep asks of every method, built in or not."""

from dataclasses import replace

import numpy as np
import pytest
from tiers import others_slow

from marginalia.data import Column, Domain, Table
from marginalia.data.sources.files import stream_files
from marginalia.errors import InputError
from marginalia.methods.fit import Budget, build
from marginalia.methods.registry import BUILT_IN
from marginalia.methods.task import Task

DELTA = 1e-5
SIZES = (("a", 3, "categorical"), ("b", 4, "numeric"), ("c", 5, "numeric"), ("y", 2, "categorical"))
# What a method can see where it cannot see every table: the same rows, coarsened.
SEEN = {
    "chebyshev": (("a", 3, "numeric"), ("b", 4, "numeric"), ("c", 5, "numeric")),
    "reduced_space": (
        ("a", 2, "categorical"),
        ("b", 2, "categorical"),
        ("c", 2, "categorical"),
        ("y", 2, "categorical"),
    ),
}
TARGETS = {"linear": "c", "logistic": "y"}
EVERY = [
    pytest.param(method, arm, task, id="-".join(filter(None, (arm.method, arm.variant, arm.calibration, task))))
    for method in BUILT_IN.values()
    for arm in (*method.arms, *(a for a in method.named if not a.tuned_on_test))
    if not arm.source
    for task in (arm.tasks or ("",))
]
# The fast one of each method and task: the first that spends its budget exactly, and the first where none does.
FAST = {(p.values[0].id, p.values[2]): p for p in sorted(EVERY, key=lambda p: p.values[1].calibration != "tight")[::-1]}
FAST = [case for (method, _), case in FAST.items() if method != "mixture"]  # AIM's selection, with slower inference
FITS = others_slow(EVERY, *FAST)
PRIVATE = [p for p in FITS if p.values[1].is_private]
SYNTHESIZERS = [p for p in FITS if not p.values[2]]
# Tab-PE keeps the rows with the most votes, each once: how many votes they have is lost, whatever the budget.
CONSISTENT = [p for p in SYNTHESIZERS if p.values[0].id != "tab_pe"]
SPEND = [p for p in PRIVATE if p.values[1].calibration != "published"]


def table(method=None, n=300, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 3, n), rng.integers(0, 4, n)
    c = np.clip(a + b // 2 + rng.integers(0, 2, n), 0, 4)
    y = (rng.random(n) < 0.2 + 0.6 * (c > 2)).astype(int)
    attributes = SEEN.get(method.id, SIZES) if method else SIZES
    full = {"a": a, "b": b, "c": c, "y": y}
    columns = [full[name] * size // (full[name].max() + 1) for name, size, _ in attributes]
    return Table(np.column_stack(columns), Domain(Column(*attribute) for attribute in attributes))


def model_of(method, arm, task, **changes):
    budget = Budget(1.0, DELTA, method.relations[0], random_state=7, n_public=300)
    return build(method, arm, replace(budget, **changes), Task(task, TARGETS[task]) if task else None)


def fitted(method, arm, task, rows=None, **changes):
    model = model_of(method, arm, task, **changes)
    rows = rows if rows is not None else table(method)
    return model.fit(rows, TARGETS[task]) if task else model.fit(rows)


FITTED = {}


def once(method, arm, task):
    """Return the fit with nothing changed: one for all tests, which must leave it as it is."""
    key = arm.method, arm.variant, arm.calibration, task
    if key not in FITTED:
        FITTED[key] = fitted(method, arm, task)
    return FITTED[key]


def released(model, task):
    """Everything the model says, as one array."""
    if not task:
        last = model.domain_.names[-1]
        return np.concatenate([np.ravel(model.marginal(q)) for q in (("a",), ("a", "b"), ("b", last))])
    return np.asarray(model.predict(table()) if task == "linear" else model.decision_function(table()))


@pytest.mark.parametrize(("method", "arm", "task"), FITS)
def test_same_seed_same_result_from_memory_and_from_files(method, arm, task, tmp_path):
    rows = table(method)
    rows.to_parquet(tmp_path / "t.parquet")
    source = stream_files(tmp_path / "t.parquet", domain=rows.domain)
    first, second = (released(model, task) for model in (once(method, arm, task), fitted(method, arm, task, source)))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(("method", "arm", "task"), PRIVATE)
def test_another_seed_is_other_noise(method, arm, task):
    first, second = (released(fitted(method, arm, task, random_state=s), task) for s in (1, 2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(("method", "arm", "task"), SPEND)
def test_every_relation_is_certified(method, arm, task):
    for relation in method.relations:
        first = relation == method.relations[0]
        ledger = (once(method, arm, task) if first else fitted(method, arm, task, relation=relation)).ledger_
        assert ledger.certified
        assert ledger.relation == relation
        assert 0 < ledger.epsilon(DELTA) <= 1 + 1e-6
        assert ledger.events


@pytest.mark.parametrize(("method", "arm", "task"), PRIVATE)
def test_ledger_does_not_depend_on_the_rows(method, arm, task):
    """What is spent must not tell about the data, except where rounds adapt to what was released."""
    fits = (once(method, arm, task), fitted(method, arm, task, rows=table(method, seed=1)))
    spent = [model.ledger_.epsilon(DELTA) for model in fits]
    if arm.method in ("aim", "aim_residual", "mixture"):
        assert max(spent) <= 1 + 1e-6
    else:
        assert spent[0] == pytest.approx(spent[1], rel=1e-9)


@pytest.mark.parametrize(("method", "arm", "task"), [p for p in PRIVATE if "add_remove" in p.values[0].relations])
def test_ledger_does_not_depend_on_the_number_of_rows(method, arm, task):
    """Under add/remove that number is private; rate and noise of DP-SGD once followed it."""
    fits = (fitted(method, arm, task, rows=table(method, n=n), relation="add_remove") for n in (300, 299, 250))
    spent = [model.ledger_.events if arm.method == "dp_sgd" else model.ledger_.epsilon(DELTA) for model in fits]
    if arm.method in ("aim", "aim_residual", "mixture"):  # rounds adapt to what was released
        assert max(spent) <= 1 + 1e-6
    elif arm.method == "dp_sgd":
        assert spent[0] == spent[1] == spent[2]
    else:
        assert spent == pytest.approx([spent[0]] * 3, rel=1e-9)


@pytest.mark.parametrize(("method", "arm", "task"), PRIVATE)
@pytest.mark.parametrize(
    "change",
    [{"epsilon": 0.0}, {"epsilon": float("nan")}, {"epsilon": -1.0}, {"delta": 0.0}, {"delta": 1.0}, {"relation": "x"}],
    ids=str,
)
def test_bad_parameters_are_one_line(method, arm, task, change):
    if change == {"delta": 0.0} and method.pure:
        change = {"delta": -0.1}
    with pytest.raises(InputError) as error:
        fitted(method, arm, task, **change)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("method", "arm", "task"), FITS)
def test_construction_does_no_work_and_parameters_read_back(method, arm, task):
    model = model_of(method, arm, task, epsilon="never checked here")
    params = model.get_params(deep=False)
    assert type(model)(**params).get_params(deep=False) == params
    assert {**params, **dict(arm.parameters)} == params  # and it is this arm that is tested here


@pytest.mark.parametrize(("method", "arm", "task"), [p for p in FITS if p.values[2]])
def test_a_learner_needs_its_target(method, arm, task):
    with pytest.raises(InputError, match="did you mean"):
        model_of(method, arm, task).fit(table(method), "yy")


@pytest.mark.parametrize(("method", "arm", "task"), SYNTHESIZERS)
def test_synthetic_rows_lie_in_the_domain(method, arm, task):
    model = once(method, arm, task)
    rows = model.sample(123)
    assert rows.domain == table(method).domain
    assert len(rows) == 123
    assert model.sample(0).n_rows == 0
    assert model.sample().n_rows == model.n_rows_


@pytest.mark.parametrize(("method", "arm", "task"), SYNTHESIZERS)
def test_marginals_follow_the_order_asked_for(method, arm, task):
    model = once(method, arm, task)
    forward, backward = model.marginal(("a", "b")), model.marginal(("b", "a"))
    assert forward.shape == table(method).domain.sizes[:2]
    np.testing.assert_allclose(forward, backward.T, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("method", "arm", "task"), SYNTHESIZERS)
def test_a_synthesizer_survives_its_file(method, arm, task, tmp_path):
    model = fitted(method, arm, task)
    model.save(tmp_path / "model.npz")
    again = type(model).load(tmp_path / "model.npz")
    np.testing.assert_array_equal(released(model, task), released(again, task))
    assert again.ledger_.epsilon(DELTA) == model.ledger_.epsilon(DELTA)
    assert again.set_params(random_state=5).sample(50) == model.set_params(random_state=5).sample(50)


@pytest.mark.parametrize(("method", "arm", "task"), CONSISTENT)
def test_much_budget_gives_small_error(method, arm, task):
    """With epsilon = 1000 the one-way marginals are those of the rows, to a row or so in three hundred."""
    model = fitted(method, arm, task, epsilon=1000.0)
    for name in model.domain_.names:
        got = np.asarray(model.marginal((name,)), float)
        assert np.abs(got / got.sum() - table(method).counts((name,)) / 300).max() < 0.02
