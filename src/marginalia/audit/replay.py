"""Replays: record the fit of one table, force its releases on other tables, and compare: only exact values may differ.

Of a table, its neighbours (one row taken from it, or replaced by records at the extremes of the domain) and unrelated
tables: neighbours alone miss a number of rows that is used under add/remove, and choices that one row does not turn.
Rows of units are read from data frames: neighbours then differ in the key of the unit that is replaced, in the place of
its rows, and in the order of all rows, on which nothing may depend.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from marginalia.audit.findings import Finding
from marginalia.audit.leaks import visible
from marginalia.audit.subject import Subject
from marginalia.audit.tables import Frame, SyntheticTable, of_frame, records
from marginalia.audit.tape import Release, ReplayResult, Tape, play
from marginalia.privacy.mechanisms.hooks import MechanismCall
from marginalia.privacy.relation import Relation

TOLERANCE = 1e-9  # relative, of a change beside its sensitivity
STYLES = ("mixed", "first", "rare", "duplicates", "constant", "one class")
_MOST_SHOWN = 4  # differences of one replay that are written out


@dataclass
class Pair:
    """How far apart the exact values of two neighbours were, release by release.

    Attributes
    ----------
    relation : Relation
    calls : list of MechanismCall
    first, second : list of arrays
        Exact values (exponents of a selection), in units of the release.
    """

    relation: Relation
    calls: list[MechanismCall]
    first: list[np.ndarray]
    second: list[np.ndarray]

    def shares(self) -> Iterator[float]:
        """Yield the change of each release as a share of what was declared."""
        for call, a, b in zip(self.calls, self.first, self.second, strict=True):
            yield change(call, a, b) / allowed(call)

    @property
    def loss(self) -> float:
        """What tells pairs apart in the search for the worst: the sum of squared changes over noise."""
        total = 0.0
        for call, a, b in zip(self.calls, self.first, self.second, strict=True):
            scale = 1.0 if call.mechanism == "exponential" else call.scale
            total += (change(call, a, b) / scale) ** 2
        return total


@dataclass
class Group:
    """One recorded fit and its replays.

    Attributes
    ----------
    base : SyntheticTable
    recorded : ReplayResult
        The recorded fit.
    again : ReplayResult
        The same rows, releases forced, exact values evaluated.
    findings : list of Finding
    pairs : list of Pair
    replays : int
    """

    base: SyntheticTable
    recorded: ReplayResult
    again: ReplayResult
    findings: list[Finding] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    replays: int = 0

    @property
    def releases(self) -> list[Release]:
        """The recorded releases, with the exact values of the second fit."""
        return self.recorded.with_exact(self.again)


def aligned(a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return two exact values as arrays; counts by category have 0 where a table has none of it."""
    if not isinstance(a, dict):
        return a, b
    names = sorted({*a, *b})
    return tuple(np.array([counts.get(name, 0) for name in names], dtype=np.int64) for counts in (a, b))  # type: ignore[return-value]


def change(call: MechanismCall, a: Any, b: Any) -> float:
    """Return how far two exact values are apart, in the units and the norm of the release's sensitivity.

    Of a selection: the largest move of an exponent, in nats. Of a sketch: by which share of itself a variance grows.
    """
    if call.mechanism == "sketch":
        relative = relative_variances(a, b)
        return float(max(relative[-1], 1 / relative[0]) - 1)
    a, b = aligned(a, b)
    moved = np.abs(a.astype(np.float64) - b.astype(np.float64)).ravel() * call.quantum
    if call.mechanism in ("gaussian", "partition"):
        return float(np.linalg.norm(moved))
    return float(moved.sum() if call.mechanism == "laplace" else moved.max(initial=0.0))


def relative_variances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of a^(-1/2)·b·a^(-1/2) of two covariances, the smallest first.

    >>> relative_variances(np.diag([2, 4]), np.diag([1, 4])).round(6)
    array([0.5, 1. ])
    """
    return np.asarray(scipy.linalg.eigh(b.astype(np.float64), a.astype(np.float64), eigvals_only=True))


def share(first: Release, second: Release) -> float:
    """Return the change between two releases with one call as a share of the declared one: at most 1 for neighbours."""
    return change(first.call, first.exact, second.exact) / allowed(first.call)


def allowed(call: MechanismCall) -> float:
    """Return what `change` may be at most: the sensitivity, or for a selection epsilon/2, rounding included."""
    return call.scale / 2 if call.mechanism == "exponential" else call.sensitivity


def group(subject: Subject, frame: Frame, number: int, replays: int, *, epsilon: float) -> Group:
    """Record one fit on made-up rows of `frame`, replay it on `replays` other tables, and compare.

    These are neighbours and, unless the frame is a wide one, unrelated tables.
    """
    unrelated = 0 if frame.wide else max(1, replays // 3)
    rng = np.random.default_rng([0x5EED, number])
    n_units = subject.sizes[number % len(subject.sizes)]
    style = STYLES[number % len(STYLES)]
    base = replace(of_frame(frame, subject.task, n_units, rng, style), as_read=frame.unit is not None)
    n = base.n
    seed = 1000 + number
    outside = subject.unprotected(base, seed) if subject.unprotected else np.empty(0, dtype=np.intp)
    at = int(rng.choice(np.setdiff1d(np.arange(n), outside)))
    of = "row" if frame.unit is None else "unit"
    center, star = _neighbours(subject, base, at, max(2, replays - unrelated), rng, seed)
    start = star[0]

    def run(rows: SyntheticTable, tape: Tape) -> ReplayResult:
        return play(lambda: subject.fit(rows, seed, epsilon, subject.delta), replace(tape, ids=rows.who))

    first = run(start, Tape())
    done = Group(start, first, first)
    if first.model is None:
        return done
    ledger = getattr(first.model, "ledger_", None)
    has_scope = outside.size > 0 and bool(getattr(ledger, "scope", ""))
    far = "last" if style == "first" else ("first", "last")[int(rng.integers(2))]
    unprotected = np.unique(base.ids[outside]) if has_scope else outside[:0]
    others = _unrelated(subject, start, unrelated, rng, unprotected, far)
    shown = visible(first.model, start)
    forced = first.releases

    def replayed(rows: SyntheticTable, what: str, tape: Tape) -> ReplayResult:
        if tape.exact:  # the unit that differs is in every sample, whatever its key
            tape.always = int(np.setdiff1d(rows.ids, np.delete(base.who, base.who == base.ids[at])).max(initial=-1))
        result = run(rows, tape)
        done.replays += 1
        done.findings += _differences(what, first, shown, result, rows)
        return result

    done.again = replayed(start, "the same rows again", Tape(forced, exact=True))
    # Mutual neighbours: any two of the star under replace_one; its center and each of it under add/remove.
    exact = [(start, done.again)]
    for k, rows in enumerate([*star[1:], *center]):
        what = f"one {of} less" if any(rows is c for c in center) else f"one {of} replaced ({k + 1})"
        exact.append((rows, replayed(rows, what, Tape(forced, exact=True))))
    pairs = itertools.combinations(exact, 2)
    done.pairs = [
        _pair(subject.relation, a, b)
        for (one, a), (two, b) in pairs
        if (not center or two is center[0]) and not (a.divergence or b.divergence)
    ]
    done.findings += _too_far(done.pairs)
    if start.as_read:
        again = replayed(start.reordered(rng), "the same rows in another order", Tape(forced, exact=True))
        done.findings += _moved_by_order(_pair(subject.relation, done.again, again))
    for k, rows in enumerate(others):
        what = f"unrelated rows ({rows.n} of them)" if rows.n != n else "unrelated rows"
        replayed(rows, what, Tape(forced, secret=k + 1))
    return done


def _neighbours(
    subject: Subject, base: SyntheticTable, at: int, count: int, rng: np.random.Generator, seed: int
) -> tuple[list[SyntheticTable], list[SyntheticTable]]:
    """Return the table without one row (add/remove only), and tables with other records in its place.

    Where that row is of a unit, its new rows stand where they stood, first or last, or anywhere among rows in another
    order; under replace_one every third table has them of a unit with another key.
    """
    center = [base.without(at)] if subject.relation is Relation.ADD_REMOVE else []
    chosen = records(base, count - len(center), rng)
    if not base.as_read:
        return center, [base.replaced(at, record) for record in chosen]
    n = int((base.ids != base.ids[at]).sum())
    other = None if center else _other_key(subject, base, at, chosen[-1], seed)
    star = []
    for i, record in enumerate(chosen):
        rows = base.replaced(at, record, place=(None, 0, n, 0)[i % 4], of=other if i % 3 == 2 else None)
        star.append(rows.reordered(rng) if i % 4 == 3 else rows)
    return center, star


def _other_key(subject: Subject, base: SyntheticTable, at: int, record: NDArray[Any], seed: int) -> int | None:
    """Return the number of a unit that may take the place of another: one that is protected as that one is.

    Of a few, that whose key is farthest from the other in the order of keys: most units stand between them.
    """
    protected = subject.unprotected or (lambda rows, seed: np.empty(0, dtype=np.intp))
    outside = np.unique(base.ids[protected(base, seed)])
    place = np.flatnonzero(base.who == base.ids[at])[0]
    farthest: tuple[int, int | None] = (-1, None)
    for new in range(int(base.ids.max()) + 1, int(base.ids.max()) + 12):
        rows = base.replaced(at, record, of=new)
        if np.array_equal(np.unique(rows.ids[protected(rows, seed)]), outside):
            farthest = max(farthest, (abs(int(np.flatnonzero(rows.who == new)[0] - place)), new))
    return farthest[1]


def _unrelated(
    subject: Subject, base: SyntheticTable, count: int, rng: np.random.Generator, outside: NDArray[np.int64], far: str
) -> list[SyntheticTable]:
    """Return other rows throughout, apart from those with numbers `outside` the scope of the certificate."""
    tables = []
    for k in range(count):
        n = len(base.who)
        if subject.relation is Relation.ADD_REMOVE:
            n = int(rng.integers(max(3, n // 2), 2 * n))
        # One table as far from any as can be turns most choices that depend on rows.
        style = far if k == 0 else STYLES[(k + 1) % len(STYLES)]
        other = of_frame(base.frame, base.task, n, rng, style)
        other = replace(other, as_read=base.as_read)
        for of in outside:
            record = base.codes[base.ids == of] if base.as_read else base.codes[of]
            other = other.replaced(int(np.flatnonzero(other.ids == of)[0]), record)
        tables.append(other)
    return tables


def _pair(relation: Relation, a: ReplayResult, b: ReplayResult) -> Pair:
    both = [
        (one.call, *aligned(one.exact, two.exact))
        for one, two in zip(a.releases, b.releases, strict=False)
        if one.exact is not None and two.exact is not None
    ]
    alike = [(call, first, second) for call, first, second in both if first.shape == second.shape]
    return Pair(relation, [call for call, _, _ in alike], [a for _, a, _ in alike], [b for _, _, b in alike])


def _too_far(pairs: Sequence[Pair]) -> Iterator[Finding]:
    """Yield for each kind of release the worst excess over its sensitivity."""
    worst: dict[tuple[str, str], tuple[float, MechanismCall]] = {}
    for pair in pairs:
        for call, share in zip(pair.calls, pair.shares(), strict=True):
            key = (call.mechanism, call.label)
            if share > 1 + TOLERANCE and share > worst.get(key, (0.0, call))[0]:
                worst[key] = share, call
    for (mechanism, label), (share, call) in worst.items():
        what = "an exponent" if mechanism == "exponential" else "the exact value"
        yield Finding(
            "sensitivity",
            f"{mechanism} release '{label}'",
            f"between neighbours {what} moves by {share * allowed(call):.6g}, declared {allowed(call):.6g}"
            f" ({share:.4g} times as far)",
        )


def _moved_by_order(pair: Pair) -> Iterator[Finding]:
    """Yield the releases whose exact values follow from the order in which a file has the rows of units."""
    for call, share in zip(pair.calls, pair.shares(), strict=True):
        if share > 0:
            what = f"in another order of the same rows the exact value moves by {share:.4g} times the sensitivity"
            yield Finding("sensitivity", f"{call.mechanism} release '{call.label}', order of rows", what)


def _differences(
    what: str, first: ReplayResult, shown: dict[str, str], result: ReplayResult, rows: SyntheticTable
) -> Iterator[Finding]:
    """Yield how a replay differs from the recorded fit, apart from exact values."""
    if result.divergence:
        yield Finding("asked", what, result.divergence)
        return
    if result.error:
        yield Finding("leak", f"{what}: an error", f"'{result.error}', although the first table was fitted")
        return
    if len(result.releases) < len(first.releases):
        now, before = len(result.releases), len(first.releases)
        yield Finding("asked", what, f"{now} releases are asked for, on the first table {before}")
    if result.messages != first.messages:
        differ = sorted(set(result.messages) ^ set(first.messages))
        yield Finding("leak", f"{what}: warnings or printed lines", "; ".join(differ[:2])[:300])
    seen = visible(result.model, rows)
    differ = [k for k in (*shown, *(k for k in seen if k not in shown)) if shown.get(k) != seen.get(k)]
    for key in differ[:_MOST_SHOWN]:
        yield Finding("leak", f"{what}: {key}", f"{shown.get(key, 'absent')} became {seen.get(key, 'absent')}"[:300])
    if len(differ) > _MOST_SHOWN:
        yield Finding("leak", f"{what}: {len(differ) - _MOST_SHOWN} more places", ", ".join(differ[_MOST_SHOWN:])[:200])
