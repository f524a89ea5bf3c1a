"""Replays for tests: record the releases of one fit, force them on other rows, compare; all by the audit's own means.

Only exact values may differ then, and these by no more than their sensitivity between neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from marginalia.audit.leaks import contents
from marginalia.audit.loss import cost_of_calls, cost_of_ledger
from marginalia.audit.replay import TOLERANCE, share
from marginalia.audit.tape import Diverged, ReplayResult, Tape
from marginalia.audit.walk import walk
from marginalia.data.table import Table
from marginalia.privacy.noise.samplers import BitSource
from marginalia.privacy.randomness import Randomness

PRIVATE = (BitSource, Randomness, Table)
SAMPLED = (0, *range(40, 1000))  # places of rows in every Poisson sample: tests replace the first or remove the last


def record(fit: Callable[[], Any], *, always: ArrayLike = SAMPLED) -> ReplayResult:
    """Fit, and record the releases."""
    return _play(fit, Tape(always=always))


def replay(
    fit: Callable[[], Any],
    first: ReplayResult,
    *,
    evaluate: bool = True,
    secret: int = 0,
    always: ArrayLike = SAMPLED,
) -> ReplayResult:
    """Fit with the releases of another fit in place of one's own; with `evaluate`, exact values are recorded.

    AssertionError where another release is requested. `secret` numbers the Poisson samples.
    """
    result = _play(fit, Tape(first.releases, exact=evaluate, secret=secret, always=always))
    assert len(result.releases) == len(first.releases), f"{len(result.releases)} releases, not {len(first.releases)}"
    return result


def _play(fit: Callable[[], Any], tape: Tape) -> ReplayResult:
    """Unlike `tape.play`, let exceptions and warnings of the fit through to the test."""
    with tape.playing():
        try:
            return ReplayResult(tape, fit())
        except Diverged as error:
            raise AssertionError(str(error)) from None


def assert_booked(result: ReplayResult) -> None:
    """Assert that the ledger was charged what was released, kind by kind, and nothing was released before a charge."""
    assert not result.tape.uncharged
    runs = sum(result.tape.runs)
    spent = cost_of_calls([release.call for release in result.releases])
    charged = cost_of_ledger(result.model.ledger_, runs)
    assert spent.keys() == charged.keys()
    for kind, cost in spent.items():
        assert math.isclose(cost, charged[kind], rel_tol=TOLERANCE), f"{kind}: {cost} of {charged[kind]}"


def assert_same(first: ReplayResult, *others: ReplayResult) -> None:
    """Assert that all models show the same as the first, bit by bit."""
    one = seen(first.model)
    for other in others:
        two = seen(other.model)
        differences = [f"{k}: {one.get(k)} and {two.get(k)}" for k in {**one, **two} if one.get(k) != two.get(k)]
        assert not differences, "; ".join(differences[:5])


def assert_moves(one: ReplayResult, two: ReplayResult) -> None:
    """Assert that the exact values of neighbours are no further apart than was declared."""
    for number, (first, second) in enumerate(zip(one.releases, two.releases, strict=True), 1):
        if first.call.mechanism != "objective":  # without an exact value
            moved = share(first, second)
            assert moved <= 1 + TOLERANCE, f"release {number} moves {moved:.6g} times as far as declared: {first.call}"


def seen(model: Any) -> dict[str, str]:
    """Return the content of everything below a fitted model, by the path to it; no model may keep rows or noise."""
    for path, value, _ in walk(("", model)):
        assert not isinstance(value, PRIVATE), f"the model keeps {type(value).__name__} {path}"
    return contents(model)
