"""Replays: fit once and remember every release, then fit other rows and force the same releases on them.

Nothing may differ then but the exact values, and these by no more than their sensitivity between neighbours.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from marginalia.data.table import Table
from marginalia.privacy.events import (
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
    leaves,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import MechanismCall, intercepting
from marginalia.privacy.noise.samplers import BitSource
from marginalia.privacy.randomness import Randomness

ROUNDING = 1e-9  # relative
MOST = 2**18  # entries of an array that are compared: behind them lies the scratch memory of a model


@dataclass(frozen=True)
class Release:
    """One release: what was asked for, what was released, and the exact value behind it, if it was evaluated."""

    call: MechanismCall
    value: Any
    exact: Any = None


@dataclass(frozen=True)
class Fitted:
    """A model and the releases of its fit."""

    model: Any
    releases: list[Release]


def record(fit: Callable[[], Any], *, secret: int = 0) -> Fitted:
    """Fit, and remember the releases."""
    return _play(fit, None, evaluate=False, secret=secret)


def replay(fit: Callable[[], Any], first: Fitted, *, evaluate: bool = True, secret: int = 0) -> Fitted:
    """Fit with the releases of another fit in place of one's own; with `evaluate`, exact values are remembered.

    AssertionError where another release is asked for. `secret` numbers the Poisson samples.
    """
    played = _play(fit, first.releases, evaluate=evaluate, secret=secret)
    assert len(played.releases) == len(first.releases), f"{len(played.releases)} releases, not {len(first.releases)}"
    return played


def _play(fit: Callable[[], Any], forced: list[Release] | None, *, evaluate: bool, secret: int) -> Fitted:
    releases: list[Release] = []

    def hook(asked: MechanismCall, exact: Callable[[], Any], draw: Callable[[], Any]) -> Any:
        at = len(releases)
        if forced is None:
            value = draw()
        else:
            assert at < len(forced), f"release {at + 1} was not asked for before: {asked}"
            assert asked == forced[at].call, f"release {at + 1}: {asked} in place of {forced[at].call}"
            value = forced[at].value
            if not evaluate or asked.mechanism == "objective":
                draw()  # for what it leaves behind
        known = np.array(exact(), dtype=np.int64) if evaluate and asked.mechanism != "objective" else None
        releases.append(Release(asked, np.array(value), known))
        return np.array(value) if isinstance(value, np.ndarray) else value

    with intercepting(hook), samples(secret):
        return Fitted(fit(), releases)


@contextlib.contextmanager
def samples(secret: int) -> Iterator[None]:
    """Take Poisson samples by the place of a row, whatever the number of rows; the first and last rows are in all."""
    drawn = iter(range(10**9))

    def coins(source: BitSource, n: int, rate: float) -> Any:
        taken = np.random.default_rng([secret, next(drawn)]).random(n) < rate
        taken[0] = True
        taken[LAST:] = True
        return np.flatnonzero(taken)

    with patch.object(BitSource, "coins", coins):
        yield


LAST = 40  # rows from here on are in every sample of a replay


def change(one: Release, two: Release) -> float:
    """Return how far two exact values are apart, as a share of what was declared."""
    asked = one.call
    moved = np.abs(one.exact.astype(float) - two.exact.astype(float)).ravel() * asked.quantum
    if asked.mechanism == "exponential":
        return float(moved.max(initial=0.0)) / (asked.scale / 2 + asked.quantum)
    return float(np.linalg.norm(moved) if asked.mechanism == "gaussian" else moved.sum()) / asked.sensitivity


def cost_of_releases(releases: list[Release]) -> Counter[str]:
    """Return what the releases cost, summed over each kind: squared ratios of Gaussians, epsilons of the others."""
    costs: Counter[str] = Counter()
    for release in releases:
        asked = release.call
        if asked.mechanism == "exponential":
            costs["selections"] += asked.scale**2
        elif asked.mechanism == "laplace":
            costs["laplace"] += asked.sensitivity / asked.scale
        elif asked.mechanism == "gaussian":
            costs["gaussian"] += (asked.sensitivity / asked.scale) ** 2
        else:
            costs["objective"] += asked.sensitivity / asked.scale
    return costs


def cost_of_ledger(ledger: Ledger, runs: int = 1) -> Counter[str]:
    """Return the same of the events of a ledger; the run inside a random stopping counts `runs` times."""
    costs: Counter[str] = Counter()
    for event, count in leaves(ledger.events):
        match event:
            case ExponentialEvent():
                costs["selections"] += count * event.epsilon**2
            case LaplaceEvent():
                costs["laplace"] += count * event.sensitivity / event.scale
            case GaussianEvent():
                costs["gaussian"] += count * (event.sensitivity / event.sigma) ** 2
            case PoissonGaussianEvent():
                costs["gaussian"] += count * event.steps * (ledger.relation.units / event.noise_multiplier) ** 2
            case ObjectivePerturbationEvent():
                costs["objective"] += count * event.bound / event.sigma
            case RandomStoppingEvent():
                inner = Ledger(ledger.relation)
                inner.append(event.event)
                for _ in range(runs):
                    costs += cost_of_ledger(inner)
    return costs


def assert_booked(fitted: Fitted, runs: int = 1) -> None:
    """Assert that the ledger was charged what was released, kind by kind."""
    asked, booked = cost_of_releases(fitted.releases), cost_of_ledger(fitted.model.ledger_, runs)
    assert asked.keys() == booked.keys()
    for kind in asked:
        assert math.isclose(asked[kind], booked[kind], rel_tol=ROUNDING), f"{kind}: {asked[kind]} of {booked[kind]}"


def assert_same(first: Fitted, other: Fitted) -> None:
    """Assert that two models show the same, bit by bit."""
    one, two = seen(first.model), seen(other.model)
    differ = [f"{k}: {one.get(k)} and {two.get(k)}" for k in {**one, **two} if one.get(k) != two.get(k)]
    assert not differ, "; ".join(differ[:5])


def assert_moves(one: Fitted, two: Fitted) -> None:
    """Assert that the exact values of neighbours are no further apart than was declared."""
    for number, pair in enumerate(zip(one.releases, two.releases, strict=True)):
        asked = pair[0].call
        if asked.mechanism == "objective" or asked.label == "minimiser":
            continue  # its exact value is what hides the gap between computed and exact minimisers
        share = change(*pair)
        assert share <= 1 + ROUNDING, f"release {number + 1} moves {share:.6g} times as far as declared: {asked}"


def seen(model: Any) -> dict[str, str]:
    """Return every value below a fitted model by the way to it; what must never be there is an AssertionError."""
    found: dict[str, str] = {}
    _walk(model, "", found, set())
    return found


def _walk(value: Any, way: str, found: dict[str, str], known: set[int]) -> None:
    assert not isinstance(value, BitSource | Randomness | Table), f"the model keeps {type(value).__name__} {way}"
    if isinstance(value, str | bytes | bool | int | float | enum.Enum | np.generic | np.random.SeedSequence | None):
        found[way] = repr(value)
        return
    if id(value) in known:
        return
    known.add(id(value))
    if isinstance(value, np.ndarray):
        head = np.ascontiguousarray(value.reshape(-1)[:MOST])
        content = repr(head.tolist()).encode() if value.dtype == object else head.tobytes()
        found[way] = f"{value.dtype}{value.shape} {hashlib.sha256(content).hexdigest()[:12]}"
    elif isinstance(value, dict):
        found[way] = f"keys {list(value)}"
        for key, inner in value.items():
            _walk(inner, f"{way}[{key!r}]", found, known)
    elif isinstance(value, list | tuple | set | frozenset):
        found[way] = f"{type(value).__name__} of {len(value)}"
        for i, inner in enumerate(sorted(value, key=repr) if isinstance(value, set | frozenset) else value):
            _walk(inner, f"{way}[{i}]", found, known)
    elif isinstance(value, type) or (callable(value) and not hasattr(value, "__dict__")):
        found[way] = repr(value)
    else:
        found[way] = type(value).__qualname__
        for name, inner in sorted(vars(value).items()) if hasattr(value, "__dict__") else []:
            _walk(inner, f"{way}.{name}", found, known)
        for cell in getattr(value, "__closure__", None) or ():
            _walk(cell.cell_contents, f"{way}.<closure>", found, known)
