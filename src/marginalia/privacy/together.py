"""What several releases of one table cost together: their events united, under one relation.

The smallest of all bounds holds for releases that were all chosen before the first. What is chosen after a look at
earlier ones needs a budget file (`privacy.filters`).

Composition theorems need independent noise. Releases from one seed may have the same noise, so that their difference
shows the rows, and a certificate does not hold the seed. At most one of the releases may be seeded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from marginalia.data.units import Unit
from marginalia.errors import InputError, PrivacyError
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.costs import composed_epsilon
from marginalia.privacy.events import (
    CompositionEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    RandomStoppingEvent,
    check_rows,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.recompute import AGREEMENT, recomputed_epsilon
from marginalia.privacy.relation import Relation

_ORIGINS = {"seeded": "are seeded", "": "do not say where their noise comes from"}


@dataclass(frozen=True)
class Together:
    """What several releases cost.

    Attributes
    ----------
    relation : Relation
        Of the statement: ``replace_one`` as soon as one release is for it, as this one says nothing else.
    delta, epsilon : float
        The largest delta of the releases; what all events cost at it, infinite where no accountant covers them or
        several releases are seeded.
    confirmed_at : float
        By the second accountant; infinite where it does not cover them.
    delta_added, added : float
        The sum of the deltas, and of the epsilons at them (basic composition).
    scopes : tuple of str
        Whose rows alone some of them protect.
    unit : str
        The column of units of several rows; empty where each row is one.
    problems : tuple of str

    Examples
    --------
    >>> next(Together(Relation.ADD_REMOVE, 1e-5, 1.0, 0.99, 2e-5, 1.5, (), ()).lines())
    'together: (1, 1e-05)-DP, add_remove, if all are of one table'
    """

    relation: Relation
    delta: float
    epsilon: float
    confirmed_at: float
    delta_added: float
    added: float
    scopes: tuple[str, ...]
    problems: tuple[str, ...]
    unit: str = ""

    def lines(self) -> Iterator[str]:
        """Yield what to tell of it."""
        of = f" of one `{self.unit}`" if self.unit else ""
        yield f"together: ({self.epsilon:.6g}, {self.delta:g})-DP, {self.relation}{of}, if all are of one table"
        yield f"by the second accountant: epsilon {self.confirmed_at:.6g}"
        yield f"added up instead: ({self.added:.6g}, {self.delta_added:g})-DP"
        for scope in self.scopes:
            yield f"one of them protects {scope.removeprefix('protects ')} alone"


def compose(certificates: Sequence[Certificate]) -> Together:
    """Return what the releases of some certificates cost together, as releases of one table.

    A certificate that is given twice counts twice: two releases with the same noise look like this too. Post-processing
    holds the events of its source; leave one of the two out. More than one seeded release has no known cost.

    Raises
    ------
    InputError
        A certificate has no budget, so that nobody knows the delta it is for; or two protect different units.

    Examples
    --------
    >>> from marginalia.privacy.ledger import Ledger
    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, planned=True)
    >>> ledger.append(GaussianEvent(1.0, 4.0), "system")
    >>> two = compose([Certificate(ledger.summary())] * 2)
    >>> f"{two.epsilon:.3f} at {two.delta}, {two.added:.3f} added up"
    '1.356 at 1e-05, 1.853 added up'
    """
    ledgers = [certificate.ledger for certificate in certificates]
    if not all(ledger.budget for ledger in ledgers):
        raise InputError("a certificate has no epsilon and delta: nothing is known of what it costs")
    units = [ledger.neighbours.unit for ledger in ledgers]
    for one, other in combinations(units, 2):
        check_unit(one, other)
    unit = units[0]
    relation = widest([ledger.relation for ledger in ledgers])
    each = [tuple(under(event, ledger.relation, relation) for event in ledger.events) for ledger in ledgers]
    deltas = [ledger.budget[1] for ledger in ledgers if ledger.budget]
    delta = max(deltas)
    union = tuple(event for events in each for event in events)
    scopes = tuple(dict.fromkeys(ledger.scope for ledger in ledgers if ledger.scope))
    of = "" if unit is None else unit.column
    if dependence := _dependence(ledgers) or _adaptivity(ledgers):
        unknown = (math.inf, math.inf, math.fsum(deltas), math.inf)
        return Together(relation, delta, *unknown, scopes, (dependence,), of)
    problems = []
    epsilon = confirmed_at = added = math.inf
    try:
        for ledger in ledgers:  # each release has its own bound k on the rows of a unit
            check_rows(ledger.events, ledger.neighbours.k)
    except PrivacyError as error:
        problems.append(str(error))
    else:
        added = math.fsum(composed_epsilon(events, relation, d) for events, d in zip(each, deltas, strict=True))
        try:
            epsilon = composed_epsilon(union, relation, delta)
        except PrivacyError as error:
            problems.append(str(error))
        try:
            confirmed_at = recomputed_epsilon(union, relation, delta)
        except PrivacyError as error:
            problems.append(str(error))
    if not problems and confirmed_at > epsilon * (1 + AGREEMENT):
        problems.append(f"the second accountant finds epsilon {confirmed_at:.6g}, more than {epsilon:.6g}")
    if not problems and not math.isfinite(epsilon):
        problems.append(f"no epsilon is known at delta {delta:g}")
    return Together(relation, delta, epsilon, confirmed_at, math.fsum(deltas), added, scopes, tuple(problems), of)


def _dependence(ledgers: Sequence[Ledger]) -> str:
    """Return why the noise of the releases is not known to be independent, as composition requires; else empty."""
    counts = Counter(ledger.randomness for ledger in ledgers if ledger.events and ledger.randomness != "system")
    if counts.total() < 2:
        return ""
    found = [f"{n} of the releases {_ORIGINS[kind]}" for kind, n in sorted(counts.items(), reverse=True)]
    why = "if two have the same noise, their difference shows the rows"
    return f"{' and '.join(found)}: {why}, so that their costs do not add up; release without a seed"


def _adaptivity(ledgers: Sequence[Ledger]) -> str:
    """Return why the releases are no list that was fixed beforehand, of which the smallest bound holds; else empty."""
    if len(ledgers) < 2 or all(ledger.filter is None for ledger in ledgers):
        return ""
    return (
        "a certificate is of releases that were chosen one by one, so that no bound for a planned list holds; add up "
        "the budgets, or use a budget file"
    )


def widest(relations: Sequence[Relation]) -> Relation:
    """Return the relation under which all releases have a guarantee.

    Of add/remove releases replace-one follows, as one row leaves and another comes. Of replace-one releases nothing
    follows for tables of another size.

    >>> str(widest([Relation.ADD_REMOVE, Relation.REPLACE_ONE]))
    'replace_one'
    """
    return Relation.REPLACE_ONE if Relation.REPLACE_ONE in relations else Relation.ADD_REMOVE


def check_unit(one: Unit | None, other: Unit | None) -> None:
    """Refuse releases whose neighbours differ by other units; how many rows of one each keeps makes no difference.

    The same column read as integers and as texts names other units. Without a declared type it names those of both.

    A table without one of its patients is a neighbour for every bound on their rows, and each release has charged for
    its own. A release that protects rows promises nothing for patients of any number of rows.

    >>> check_unit(Unit("patient", 1), Unit("patient", 3))
    >>> check_unit(Unit("patient", 1), None)
    Traceback (most recent call last):
    marginalia.errors.InputError: one release protects one row, another one `patient`: their costs do not add up
    """
    if (one and one.column) != (other and other.column):
        said = sorted("one row" if unit is None else f"one `{unit.column}`" for unit in (one, other))
        raise InputError(f"one release protects {said[1]}, another {said[0]}: their costs do not add up")
    types = {unit.type for unit in (one, other) if unit is not None and unit.type is not None}
    if one is not None and len(types) > 1:
        what = " and as ".join(sorted(types))
        raise InputError(f"`{one.column}` was read as {what}: what each release protects differs; costs do not add up")


def under(event: Event, own: Relation, relation: Relation) -> Event:
    """Return an event of a ledger under `own` as one under `relation`.

    From add/remove to replace-one the two neighbours have a common one: sensitivities (a norm, or a loss of bounded
    range) double, by the triangle inequality. Events whose accountant knows the relation stay as they are (Poisson
    samples, objective perturbation); so do failures: the sets of values that are shown beyond the common ones are at a
    total variation of the larger of the two probabilities (`privacy.mechanisms.partition`).

    Raises
    ------
    InputError
        From replace-one to add/remove: there a release under replace-one promises nothing.

    Examples
    --------
    >>> under(GaussianEvent(1.0, 4.0), Relation.ADD_REMOVE, Relation.REPLACE_ONE).sensitivity
    2.0
    """
    if own is relation:
        return event
    if own is Relation.REPLACE_ONE:
        raise InputError("a release under replace_one promises nothing under add_remove: take --relation add_remove")
    match event:
        case GaussianEvent() | LaplaceEvent():
            return replace(event, sensitivity=2 * event.sensitivity)
        case ExponentialEvent():
            return replace(event, epsilon=2 * event.epsilon, sensitivity=2 * event.sensitivity)
        case CompositionEvent():
            return replace(event, events=tuple(under(inner, own, relation) for inner in event.events))
        case RandomStoppingEvent():
            return replace(event, event=under(event.event, own, relation))
    return event
