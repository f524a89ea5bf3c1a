"""SWIFT's division of the budget: beside an oracle that tries all sets and divides each by a numeric optimiser."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from marginalia.methods.swift import allocate

BUDGET, PAID = 1.0, 0.01


def problem(seed, d=4):
    rng = np.random.default_rng(seed)
    sizes, pairs = rng.integers(2, 30, d), list(itertools.combinations(range(d), 2))
    cells = {(a,): int(sizes[a]) for a in range(d)} | {q: int(sizes[q[0]] * sizes[q[1]]) for q in pairs}
    weights = {(a,): 0.5 for a in range(d)} | {q: float(rng.choice([0.5, 1.0])) for q in pairs}
    unit = 10 ** rng.uniform(-1, 1)
    errors = {q: float(rng.exponential(3 * cells[q] * unit) + rng.normal() * unit * 5) for q in pairs}
    return errors, weights, cells, unit


def needs(measured, weights, cells, unit):
    """Return the weighted noise at a part of 1: of each measured pair, and of each attribute for the others."""
    attributes = {a for q in weights for a in q}
    relying = {a: sum(w for q, w in weights.items() if a in q and q not in measured) for a in attributes}
    return [weights[q] * unit * cells[q] for q in measured] + [relying[a] * unit * cells[a,] for a in attributes]


def divided(measured, errors, weights, cells, unit):
    """Return what a set is worth, its budget divided by a numeric optimiser."""
    noise, whole = np.array(needs(measured, weights, cells, unit)), BUDGET + PAID * len({a for q in weights for a in q})

    def loss(logits):
        share = np.exp(logits - logits.max())
        return float((noise / np.sqrt(whole * share / share.sum())).sum())

    return sum(weights[q] * errors[q] for q in measured) - minimize(loss, np.zeros(len(noise)), method="BFGS").fun


def in_closed_form(measured, errors, weights, cells, unit):
    whole = BUDGET + PAID * len({a for q in weights for a in q})
    y = sum(noise ** (2 / 3) for noise in needs(measured, weights, cells, unit))
    return sum(weights[q] * errors[q] for q in measured) - y**1.5 / math.sqrt(whole)


@pytest.mark.parametrize("seed", range(3))
def test_the_worth_of_the_chosen_set_is_that_of_its_best_division(seed):
    errors, weights, cells, unit = problem(seed)
    allocated = allocate(errors, weights, cells, budget=BUDGET, paid=PAID, unit=unit)
    chosen = [q for q in allocated.parts if len(q) > 1]
    assert allocated.value == pytest.approx(divided(chosen, errors, weights, cells, unit), rel=1e-6, abs=1e-6 * unit)


def test_hardly_any_set_is_worth_more():
    """All sets of pairs are tried; taking the largest gain for the noise first loses at most a few percent."""
    lost = []
    for seed in range(60):
        errors, *rest = problem(seed)
        sets = itertools.chain.from_iterable(itertools.combinations(errors, k) for k in range(len(errors) + 1))
        worth = [in_closed_form(chosen, errors, *rest) for chosen in sets]  # the first: none
        got = allocate(errors, *rest[:2], budget=BUDGET, paid=PAID, unit=rest[2]).value
        assert got <= max(worth) + 1e-9 * abs(max(worth))
        lost.append((max(worth) - got) / max(max(worth) - worth[0], 1e-9 * abs(worth[0])))
    assert max(lost) < 0.05
    assert np.mean(np.array(lost) < 1e-6) > 0.9


@pytest.mark.parametrize("seed", range(20))
def test_the_budget_is_spent_and_nothing_is_measured_for_nothing(seed):
    errors, weights, cells, unit = problem(seed)
    for factor in (0.0, 0.01, 1.0, 100.0):
        given = {q: factor * error for q, error in errors.items()}
        parts = allocate(given, weights, cells, budget=BUDGET, paid=PAID, unit=unit).parts
        assert math.fsum(parts.values()) == pytest.approx(BUDGET, rel=1e-12)
        assert min(parts.values()) > 0.0


def test_without_errors_everything_goes_to_the_attributes_on_which_most_relies():
    errors, weights, cells, unit = problem(0)
    parts = allocate(dict.fromkeys(errors, -1.0), weights, cells, budget=BUDGET, paid=PAID, unit=unit).parts
    assert set(parts) == {(a,) for a in range(4)}
    relying = {a: weights[a,] + sum(w for q, w in weights.items() if len(q) > 1 and a in q) for a in range(4)}
    y = {a: (relying[a] * cells[a,]) ** (2 / 3) for a in range(4)}
    for a, b in itertools.combinations(range(4), 2):
        assert (parts[a,] + PAID) / (parts[b,] + PAID) == pytest.approx(y[a] / y[b])


def test_attributes_of_measured_pairs_are_not_measured_again():
    cells = {(0,): 2, (1,): 2, (2,): 40, (0, 1): 4}
    weights = {q: len(q) / 2 for q in cells}
    parts = allocate({(0, 1): 1e4}, weights, cells, budget=1.0, paid=0.02, unit=1.0).parts
    assert set(parts) == {(0, 1), (2,)}


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 1, 1, 5)])
def test_columns_of_one_value_are_never_measured_with_a_negative_part(sizes):
    """Their pairs tell more of them than they need, and what noise makes of their errors may choose them all."""
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    cells = {q: math.prod(sizes[a] for a in q) for q in (*((a,) for a in range(len(sizes))), *pairs)}
    weights = {q: len(q) / 2 for q in cells}
    allocated = allocate(dict.fromkeys(pairs, 50.0), weights, cells, budget=BUDGET, paid=PAID, unit=1.0)
    assert set(allocated.parts) >= set(pairs)
    assert min(allocated.parts.values()) > 0
    assert sum(allocated.parts.values()) == pytest.approx(BUDGET)
