"""Verify a certificate: recompute its cost from its events with two independent accountants."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from marginalia.errors import PrivacyError
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.events import CompositionEvent, Event, count_events
from marginalia.privacy.filters import Filter
from marginalia.privacy.ledger import TOLERANCE, Ledger
from marginalia.privacy.recompute import AGREEMENT, recomputed_epsilon, recomputed_filter
from marginalia.privacy.relation import Relation
from marginalia.privacy.withdrawn import withdrawal_reasons


@dataclass(frozen=True)
class Verdict:
    """Result of `verify`.

    Attributes
    ----------
    requested, delta : float or None
        The budget.
    stored : float or None
        The epsilon that the file states.
    recomputed : float
        The epsilon by the accountant of the ledger; infinite if no accountant covers the events.
    recomputed_by_second : float
        The epsilon by the second accountant; infinite if it does not cover the events, NaN if it was not run.
    problems : tuple of str
        Why the certificate is not confirmed; empty if it is.
    is_unreviewed : bool
        Whether the only problem is a domain that was drafted from the rows, and that its owner has not reviewed.

    Examples
    --------
    >>> from marginalia.privacy.events import GaussianEvent
    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    >>> ledger.append(GaussianEvent(1.0, 4.0, arithmetic="exact"), "system")
    >>> verdict = verify(Certificate(ledger.summary()))
    >>> verdict.confirmed, round(verdict.recomputed, 3), round(verdict.recomputed_by_second, 3)
    (True, 0.926, 0.926)
    """

    requested: float | None
    delta: float | None
    stored: float | None
    recomputed: float
    recomputed_by_second: float
    problems: tuple[str, ...]
    is_unreviewed: bool = False

    @property
    def confirmed(self) -> bool:
        """Whether both accountants confirm the claims of the certificate."""
        return not self.problems


def verify(certificate: Certificate, *, second: bool = True, table: str | os.PathLike[str] | None = None) -> Verdict:
    """Verify a certificate with two independent accountants. The cost that the file states is never believed.

    Parameters
    ----------
    certificate : Certificate
    second : bool
        Whether to run the second accountant, which takes most of the time. Its epsilon may exceed the budget by 0.1 %,
        because it rounds loss distributions.
    table : path, optional
        The file that the certificate should belong to. A certificate with the hash of another file is not confirmed.

    Examples
    --------
    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    >>> verify(Certificate(ledger.summary())).problems
    ('no release was recorded: nothing is certified',)
    """
    content, ledger = certificate.content, certificate.ledger
    problems = [] if ledger.certified else [ledger.message]
    if table is not None and certificate.hash_mismatch(table):
        problems.insert(0, f"the certificate is not of {Path(table).name}, whose SHA-256 is another; write both again")
    epsilon, delta = ledger.budget or (None, None)
    recomputed, recomputed_by_second = math.inf, math.inf if second else math.nan
    if delta is not None and ledger.events:
        recomputed = ledger.epsilon_spent or 0.0
    if second and epsilon is not None and delta is not None and ledger.events:
        try:
            recomputed_by_second, excesses = _second_epsilon(ledger, epsilon, delta)
        except PrivacyError as error:
            problems.append(str(error))
        else:
            problems += excesses
    if ledger.certified and not content.get("certified"):
        problems.append("the file itself says that it is not certified")
    problems += _contradictions(certificate, epsilon, delta)
    problems += withdrawal_reasons(str(content.get("method")), ledger)
    stored = content.get("epsilon_spent")
    unreviewed = problems == [f"not certified: {ledger.read_off}"]
    return Verdict(epsilon, delta, stored, recomputed, recomputed_by_second, tuple(problems), unreviewed)


def _second_epsilon(ledger: Ledger, epsilon: float, delta: float) -> tuple[float, list[str]]:
    """Return the epsilon of the second accountant, and a sentence for each part of the budget that is exceeded."""
    k = ledger.neighbours.contributions
    if not isinstance(ledger.filter, Filter):
        spent = _recomputed(_distinct(ledger.events), ledger.relation, delta, k)
        costs = [(f"epsilon {spent:.6g}", spent, epsilon)]
    else:
        reserve = ledger.filter.reserve
        first, second, failing = recomputed_filter(ledger.events, ledger.relation, (epsilon, delta), reserve, k)
        spent = first + second
        costs = [
            (f"epsilon {first:.6g} in the first part", first, epsilon - reserve[0]),
            (f"epsilon {second:.6g} in the reserve", second, reserve[0]),
            (f"delta {failing:.3g} in the reserve", failing, reserve[1]),
        ]
    return spent, [
        f"the second accountant finds {name}, more than {most:g}"
        for name, cost, most in costs
        if cost > most * (1 + AGREEMENT)
    ]


def _distinct(events: Iterable[Event]) -> tuple[tuple[Event, int], ...]:
    """Return distinct events and their numbers, sorted, so that the order of releases does not matter."""
    counts: Counter[Event] = Counter()
    for event in events:
        counts.update(count_events(event))
    return tuple(sorted(counts.items(), key=repr))


@lru_cache(maxsize=4096)
def _recomputed(counts: tuple[tuple[Event, int], ...], relation: Relation, delta: float, k: int) -> float:
    return recomputed_epsilon(tuple(CompositionEvent((event,), n) for event, n in counts), relation, delta, k)


def _contradictions(certificate: Certificate, epsilon: float | None, delta: float | None) -> Iterator[str]:
    """Yield where parameters in the file differ from the ledger."""
    ledger = certificate.ledger
    facts: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "relation": str(ledger.relation)}
    own = certificate.content.get("parameters", {})
    source = own.get("marginals", {}).get("parameters", {}) if isinstance(own.get("marginals"), Mapping) else {}
    for parameters in (own, source, *certificate.others):
        for name, value in facts.items():
            stated = parameters.get(name, value)
            if stated != value and not (name != "relation" and _close(stated, value)):
                yield f"the parameters say {name} {stated}, the ledger {value}"
    arithmetic = certificate.content.get("arithmetic")
    if arithmetic != ledger.arithmetic:
        yield f"the file says {arithmetic} arithmetic, its events are {ledger.arithmetic}"


def _close(stated: Any, value: Any) -> bool:
    try:
        return math.isclose(float(stated), float(value), rel_tol=TOLERANCE)
    except (TypeError, ValueError, OverflowError):
        return False
