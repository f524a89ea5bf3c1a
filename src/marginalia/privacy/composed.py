"""Compose the certificates of several releases of one table, under one neighbouring relation.

The tightest bound of all accountants holds if all releases were chosen before the first. Releases that were chosen
after a look at earlier ones need a budget file (`privacy.filters`).

Composition theorems need independent noise. Two releases from one seed may have the same noise, so that their
difference shows the rows, and a certificate does not hold the seed. At most one of the releases may be seeded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from marginalia.errors import InputError, PrivacyError
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.conversion import check_same_unit, common_relation, convert_event
from marginalia.privacy.costs import composed_epsilon
from marginalia.privacy.events import check_rows
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.recompute import AGREEMENT, recomputed_epsilon
from marginalia.privacy.relation import Relation

_ORIGINS = {"seeded": "are seeded", "": "do not say where their noise comes from"}


@dataclass(frozen=True)
class ComposedGuarantee:
    """The guarantee of several releases of one table.

    Attributes
    ----------
    relation : Relation
        ``replace_one`` as soon as one release has this relation, because it promises nothing under add/remove.
    delta : float
        The largest delta of the releases.
    epsilon : float
        Cost of all events at `delta`. Infinite if no accountant covers the events or several releases are seeded.
    epsilon_by_second : float
        The same by the second accountant; infinite if it does not cover the events.
    delta_added, epsilon_added : float
        Sum of the deltas, and of the epsilons at these deltas (basic composition).
    scopes : tuple of str
        Descriptions of the rows that some releases protect, if these are not all rows.
    problems : tuple of str
        Why there is no guarantee; empty if there is one.
    unit : str
        Column of the privacy unit; empty if each row is a unit.

    Examples
    --------
    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, planned=True)
    >>> both = compose_certificates([Certificate(ledger.summary())] * 2)
    >>> both.epsilon, both.problems  # nothing was released
    (0.0, ())
    """

    relation: Relation
    delta: float
    epsilon: float
    epsilon_by_second: float
    delta_added: float
    epsilon_added: float
    scopes: tuple[str, ...]
    problems: tuple[str, ...]
    unit: str = ""

    def lines(self) -> Iterator[str]:
        """Yield the guarantee as lines of text."""
        relation = self.relation.in_words(self.unit)
        yield f"together: ({self.epsilon:.6g}, {self.delta:g})-DP, if all are of one table; {relation}"
        yield f"by the second accountant: epsilon {self.epsilon_by_second:.6g}"
        yield f"added up instead: ({self.epsilon_added:.6g}, {self.delta_added:g})-DP"
        for scope in self.scopes:
            yield f"one of them protects {scope.removeprefix('protects ')} alone"


def compose_certificates(certificates: Sequence[Certificate]) -> ComposedGuarantee:
    """Return the guarantee of several certificates as releases of one table.

    Passing a certificate twice counts it twice (two identical releases cannot be told apart). Post-processing holds
    the events of its source: leave one of the two out. More than one seeded release has no known cost.

    Raises
    ------
    InputError
        A certificate has no budget, so that its delta is unknown, or two certificates protect different units.

    Examples
    --------
    >>> from marginalia.privacy.events import GaussianEvent
    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, planned=True)
    >>> ledger.append(GaussianEvent(1.0, 4.0), "system")
    >>> both = compose_certificates([Certificate(ledger.summary())] * 2)
    >>> f"{both.epsilon:.3f} at {both.delta}, {both.epsilon_added:.3f} added up"
    '1.356 at 1e-05, 1.853 added up'
    """
    ledgers = [certificate.ledger for certificate in certificates]
    if not all(ledger.budget for ledger in ledgers):
        raise InputError("a certificate has no epsilon and delta: nothing is known of what it costs")
    units = [ledger.neighbours.unit for ledger in ledgers]
    for one, other in combinations(units, 2):
        check_same_unit(one, other)
    unit = "" if units[0] is None else units[0].column
    relation = common_relation([ledger.relation for ledger in ledgers])
    converted = [
        tuple(convert_event(event, ledger.relation, relation) for event in ledger.events) for ledger in ledgers
    ]
    deltas = [ledger.budget[1] for ledger in ledgers if ledger.budget]
    delta = max(deltas)
    union = tuple(event for events in converted for event in events)
    scopes = tuple(dict.fromkeys(ledger.scope for ledger in ledgers if ledger.scope))
    if reason := _dependence(ledgers) or _adaptivity(ledgers):
        unknown = (math.inf, math.inf, math.fsum(deltas), math.inf)
        return ComposedGuarantee(relation, delta, *unknown, scopes, (reason,), unit)
    problems = []
    epsilon = second = added = math.inf
    try:
        for ledger in ledgers:  # each release has its own bound k on the rows of a unit
            check_rows(ledger.events, ledger.neighbours.contributions)
    except PrivacyError as error:
        problems.append(str(error))
    else:
        added = math.fsum(composed_epsilon(events, relation, d) for events, d in zip(converted, deltas, strict=True))
        try:
            epsilon = composed_epsilon(union, relation, delta)
        except PrivacyError as error:
            problems.append(str(error))
        try:
            second = recomputed_epsilon(union, relation, delta)
        except PrivacyError as error:
            problems.append(str(error))
    if not problems and second > epsilon * (1 + AGREEMENT):
        problems.append(f"the second accountant finds epsilon {second:.6g}, more than {epsilon:.6g}")
    if not problems and not math.isfinite(epsilon):
        problems.append(f"no epsilon is known at delta {delta:g}")
    sums = (math.fsum(deltas), added)
    return ComposedGuarantee(relation, delta, epsilon, second, *sums, scopes, tuple(problems), unit)


def _dependence(ledgers: Sequence[Ledger]) -> str:
    """Return why the noise of the releases may be dependent, which composition does not allow; else empty."""
    counts = Counter(ledger.randomness for ledger in ledgers if ledger.events and ledger.randomness != "system")
    if counts.total() < 2:
        return ""
    clauses = [f"{n} of the releases {_ORIGINS[kind]}" for kind, n in sorted(counts.items(), reverse=True)]
    reason = "if two have the same noise, their difference shows the rows"
    return f"{' and '.join(clauses)}: {reason}, so that their costs do not add up; release without a seed"


def _adaptivity(ledgers: Sequence[Ledger]) -> str:
    """Return why the tightest bound for a fixed list does not hold for these releases; else empty."""
    if len(ledgers) < 2 or all(ledger.filter is None for ledger in ledgers):
        return ""
    return (
        "a certificate is of releases that were chosen one by one, so that no bound for a planned list holds; add up "
        "the budgets, or use a budget file"
    )
