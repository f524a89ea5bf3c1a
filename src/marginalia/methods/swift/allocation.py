"""How much of a budget each marginal gets, when all are measured at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from marginalia.marginals.elimination import Clique

_WORTHWHILE = 1.1  # a one-way marginal is measured again if its part is so many times what it has had


@dataclass(frozen=True)
class Allocation:
    """What to measure.

    >>> Allocation(value=2.5, parts={(0, 1): 0.1}).parts[0, 1]
    0.1
    """

    value: float  # expected decrease of the weighted error, in records
    parts: dict[Clique, float]  # of the budget, for each marginal to measure


def allocate(
    errors: Mapping[Clique, float],
    weights: Mapping[Clique, float],
    cells: Mapping[Clique, int],
    *,
    budget: float,
    paid: float,
    unit: float,
) -> Allocation:
    """Choose the marginals to measure, and divide the budget among them and the one-way marginals.

    A marginal q with a part B_q errs by N_q/√B_q = unit·cells_q/√B_q. One that is not measured keeps its error under
    the one-way model, and that model's noise: N_a/√B_a for each attribute a in it. With weights w_q, a set S is worth

        Σ_S w_q error_q - Σ_S w_q N_q/√B_q - Σ_a W_a N_a/√B_a,

    W_a being the weight of all candidates outside S that hold a. For a given S the best parts are proportional to
    y = (weight·N)^(2/3), and S is worth Σ_S w_q error_q - (Σ y)^(3/2)/√B. Of the sets that take the largest
    w_q error_q/y_q first, the best is taken. What a chosen q tells of its attributes, B_q·cells_a/cells_q, comes off
    the parts of their one-way marginals; one whose part is then what it has had, or little more, is not measured again,
    and the others share the rest.

    Parameters
    ----------
    errors : mapping of Clique to float
        In records, of the candidates that may be measured.
    weights : mapping of Clique to float
        Of all candidates, one-way marginals included.
    cells : mapping of Clique to int
    budget : float
        What is left to spend.
    paid : float
        What each one-way marginal has had.
    unit : float
        Expected absolute noise of one count at a part of 1, in records.

    Examples
    --------
    >>> cells = {(0,): 2, (1,): 2, (2,): 40, (0, 1): 4}
    >>> bought = allocate({(0, 1): 90.0}, dict.fromkeys(cells, 1.0), cells, budget=0.5, paid=0.1, unit=1.0)
    >>> {q: round(part, 3) for q, part in bought.parts.items()}
    {(0, 1): 0.106, (2,): 0.394}
    """
    power = 2 / 3
    y = {q: (weights[q] * unit * cells[q]) ** power for q in errors}
    order = sorted(errors, key=lambda q: -weights[q] * errors[q] / y[q])
    lone = {q[0]: cells[q] for q in weights if len(q) == 1}
    relying = dict.fromkeys(lone, 0.0)  # W
    for q, weight in weights.items():
        for a in q:
            relying[a] += weight
    ones = {a: (relying[a] * unit * lone[a]) ** power for a in lone}
    whole = budget + paid * len(lone)
    gain, y_pairs, y_ones = 0.0, 0.0, math.fsum(ones.values())
    best, chosen, at_best = -(y_ones**1.5) / math.sqrt(whole), 0, ones.copy()
    for k, q in enumerate(order):
        gain += weights[q] * errors[q]
        y_pairs += y[q]
        for a in q:
            relying[a] -= weights[q]
            ones[a] = (max(relying[a], 0.0) * unit * lone[a]) ** power
        value = gain - (y_pairs + math.fsum(ones.values())) ** 1.5 / math.sqrt(whole)
        if value > best:
            best, chosen, at_best = value, k + 1, ones.copy()
    y = {q: y[q] for q in order[:chosen]}
    for q, part in y.items():
        for a in q:
            at_best[a] = max(0.0, at_best[a] - part * lone[a] / cells[q])
    return Allocation(best, _divide(y, at_best, budget, paid))


def _divide(y: Mapping[Clique, float], ones: Mapping[int, float], budget: float, paid: float) -> dict[Clique, float]:
    """Return parts in proportion to `y` and `ones`, less what one-way marginals have had."""
    again, pairs = dict(ones), math.fsum(y.values())
    while True:
        rate = (budget + paid * len(again)) / (pairs + math.fsum(again.values()))
        least = min(again, key=again.__getitem__, default=None)
        if least is None or rate * again[least] >= _WORTHWHILE * paid or (not y and len(again) == 1):
            break
        del again[least]
    return {**{q: rate * part for q, part in y.items()}, **{(a,): rate * part - paid for a, part in again.items()}}
