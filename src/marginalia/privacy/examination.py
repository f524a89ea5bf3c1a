"""What a certificate is worth: recomputed from its events by two accountants, and told on one page."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from marginalia.data.units import Unit
from marginalia.errors import PrivacyError
from marginalia.privacy.certificate import HASH, Certificate
from marginalia.privacy.events import CompositionEvent, Event, parts
from marginalia.privacy.filters import Filter
from marginalia.privacy.ledger import TOLERANCE, Ledger
from marginalia.privacy.recompute import AGREEMENT, recomputed_epsilon, recomputed_filter
from marginalia.privacy.relation import Relation
from marginalia.privacy.withdrawn import withdrawn

RANDOMNESS = {
    "system": "system: drawn from the operating system's entropy",
    "seeded": "seeded: for experiments; whoever knows the seed can undo the noise",
    "": "unknown: the releases do not say",
}
ARITHMETIC = {
    "exact": "exact: the noise has the stated law to the last bit",
    "ideal": "ideal: the statement holds in real arithmetic; a computer's rounding is not covered",
}


@dataclass(frozen=True)
class Examination:
    """What recomputing a certificate found.

    Attributes
    ----------
    requested, delta : float or None
        The budget.
    stored : float or None
        The epsilon that the file states.
    recomputed : float
        By the accountant that the ledger uses; infinite where none covers the events.
    confirmed_at : float
        By the second accountant; infinite where it does not cover them, NaN where it was not asked.
    problems : tuple of str
        Why the stored claim is not confirmed; empty where it is.

    Examples
    --------
    >>> Examination(1.0, 1e-5, 0.9, 0.9, 0.9, ()).confirmed
    True
    """

    requested: float | None
    delta: float | None
    stored: float | None
    recomputed: float
    confirmed_at: float
    problems: tuple[str, ...]

    @property
    def confirmed(self) -> bool:
        """Whether both accountants confirm what the certificate claims."""
        return not self.problems


def examine(
    certificate: Certificate, *, second: bool = True, table: str | os.PathLike[str] | None = None
) -> Examination:
    """Recompute a certificate from its events by two independent accountants; the cost it states is not believed.

    With ``second=False`` by the ledger's accountant alone, which takes less time. With `table`, the file of which it
    shall be the certificate, it is confirmed only if it is not bound to other bytes.

    The second may exceed the budget by 0.1 %, which the rounding of its loss distributions can cause.

    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    >>> examine(Certificate(ledger.summary())).problems
    ('no release was booked: nothing is certified',)
    """
    content, ledger = certificate.content, certificate.ledger
    problems = [] if ledger.certified else [ledger.message]
    if table is not None and certificate.disowns(table):
        problems.insert(0, f"the certificate is not of {Path(table).name}, whose SHA-256 is another; write both again")
    epsilon, delta = ledger.budget or (None, None)
    recomputed, confirmed_at = math.inf, math.inf if second else math.nan
    if delta is not None and ledger.events:
        recomputed = ledger.epsilon_spent or 0.0
    if second and epsilon is not None and delta is not None and ledger.events:
        try:
            confirmed_at, beyond = _confirmed(ledger, epsilon, delta)
        except PrivacyError as error:
            problems.append(str(error))
        else:
            problems += beyond
    if ledger.certified and not content.get("certified"):
        problems.append("the file itself says that it is not certified")
    problems += _contradictions(certificate, epsilon, delta)
    problems += withdrawn(str(content.get("method")), ledger)
    return Examination(epsilon, delta, content.get("epsilon_spent"), recomputed, confirmed_at, tuple(problems))


def _confirmed(ledger: Ledger, epsilon: float, delta: float) -> tuple[float, list[str]]:
    """Return the epsilon of the second accountant, and where it finds more than the budget."""
    k, found = ledger.neighbours.k, "the second accountant finds"
    if not isinstance(ledger.filter, Filter):
        spent = _recomputed(_distinct(ledger.events), ledger.relation, delta, k)
        beyond = [(f"epsilon {spent:.6g}", spent, epsilon)]
    else:
        reserve = ledger.filter.reserve
        first, second, failing = recomputed_filter(ledger.events, ledger.relation, (epsilon, delta), reserve, k)
        spent = first + second
        beyond = [
            (f"epsilon {first:.6g} in the first part", first, epsilon - reserve[0]),
            (f"epsilon {second:.6g} in the reserve", second, reserve[0]),
            (f"delta {failing:.3g} in the reserve", failing, reserve[1]),
        ]
    return spent, [
        f"{found} {what}, more than {most:g}" for what, cost, most in beyond if cost > most * (1 + AGREEMENT)
    ]


def _distinct(events: Iterable[Event]) -> tuple[tuple[Event, int], ...]:
    """Return distinct events and how often each ran, in an order of their own: fits that asked otherwise are equal."""
    counts: Counter[Event] = Counter()
    for event in events:
        counts.update(parts(event))
    return tuple(sorted(counts.items(), key=repr))


@lru_cache(maxsize=4096)
def _recomputed(charged: tuple[tuple[Event, int], ...], relation: Relation, delta: float, k: int) -> float:
    return recomputed_epsilon(tuple(CompositionEvent((event,), n) for event, n in charged), relation, delta, k)


def _contradictions(certificate: Certificate, epsilon: float | None, delta: float | None) -> Iterator[str]:
    ledger = certificate.ledger
    facts: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "relation": str(ledger.relation)}
    own = certificate.content.get("parameters", {})
    source = own.get("marginals", {}).get("parameters", {}) if isinstance(own.get("marginals"), Mapping) else {}
    for parameters in (own, source, *certificate.others):
        for name, value in facts.items():
            said = parameters.get(name, value)
            if said != value and not (name != "relation" and _close(said, value)):
                yield f"the parameters say {name} {said}, the ledger {value}"
    stated = certificate.content.get("arithmetic")
    if stated != ledger.arithmetic:
        yield f"the file says {stated} arithmetic, its events are {ledger.arithmetic}"


def _close(said: Any, value: Any) -> bool:
    try:
        return math.isclose(float(said), float(value), rel_tol=TOLERANCE)
    except (TypeError, ValueError, OverflowError):
        return False


def page(
    certificate: Certificate, found: Examination | None = None, *, table: str | os.PathLike[str] | None = None
) -> list[str]:
    """Return one page of text: what ran, whose rows are protected, what it cost and what that rests on.

    `found` is what `examine` finds, where that is known already; `table` the file that it was held against.

    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    >>> page(Certificate(ledger.summary()))[-1]
    'verdict       NOT CERTIFIED: no release was booked: nothing is certified'
    """
    content, ledger, found = certificate.content, certificate.ledger, found or examine(certificate)
    unit = ledger.neighbours.unit
    one = "row" if unit is None else f"`{unit.column}`"
    neighbours = {"add_remove": f"one {one} more or less", "replace_one": f"one {one} replaced, their number public"}
    whose = ledger.scope.removeprefix("protects ") or ("every row" if unit is None else str(unit))
    parameters = dict(content.get("parameters", {}))
    source = parameters.pop("marginals", None)  # of post-processing: what was released
    if not isinstance(source, Mapping):
        source = {"method": source, "parameters": {}} if source else None
    other = "when you run `marginalia certify`" if math.isnan(found.confirmed_at) else _number_text(found.confirmed_at)
    lines = [
        *(("table", line) for line in _binding(certificate, table)),
        ("method", f"{content.get('method', 'unknown')}, by {content.get('software', 'unknown software')}"),
        ("parameters", _assignments(parameters)),
        *([("made from", f"{source['method']}: {_assignments(source['parameters'])}")] if source else []),
        ("calibration", ledger.calibration),
        ("protects", f"{whose}; neighbours: {neighbours[ledger.relation]}"),
        *([] if unit is None else [("", _keys(unit))]),
        ("delta", _number_text(found.delta)),
        ("epsilon", f"requested {_number_text(found.requested)}, stored {_number_text(found.stored)}"),
        ("", f"recomputed {_number_text(found.recomputed)}, by a second accountant {other}"),
        *(("composition", line) for line in _composition(ledger)),
        ("arithmetic", ARITHMETIC[ledger.arithmetic]),
        ("randomness", RANDOMNESS[ledger.randomness]),
        *(("public input", f"{p.name}: {_short(_value_text(p.value))} ({p.source})") for p in ledger.public_inputs),
        *(("release", line) for line in _first(20, _releases(ledger))),
        ("", "Other fits on the same rows are not part of this: their budgets add up."),
    ]
    told = "; ".join(found.problems).removeprefix("not certified: ")
    good = f"certified: ({_number_text(found.requested)}, {_number_text(found.delta)})-DP"
    if ledger.scope:
        good += f"; {ledger.message}"
    lines.append(("verdict", good if found.confirmed else f"NOT CERTIFIED: {told}"))
    return [f"{name:<12}  {text}" for name, text in lines]


def _composition(ledger: Ledger) -> Iterator[str]:
    """Say how releases add up that were chosen one by one; nothing of a planned list."""
    if isinstance(ledger.filter, Filter):
        epsilon, delta = ledger.filter.reserve
        yield f"releases may follow from earlier answers: one measure, reserve ({epsilon:g}, {delta:g})"


def _keys(unit: Unit) -> str:
    """Return what is known of how the keys of units were read."""
    if unit.type is not None:
        return f"values of `{unit.column}` were read as: {unit.type}"
    return f"`{unit.column}` has no declared type: version 2.0 did not check that no value is written in two ways"


def _binding(certificate: Certificate, table: str | os.PathLike[str] | None) -> Iterator[str]:
    """Say whether a certificate and the table beside it belong together; nothing of a model, which holds its own."""
    bound = certificate.content.get(HASH)
    if table is None:
        if bound:
            yield f"the file with SHA-256 {bound}"
    elif not bound:
        yield f"whether {Path(table).name} is the one that it is of is not known: it holds no hash of a table"
    else:
        yield f"{Path(table).name} is {'NOT ' * certificate.disowns(table)}the one that it is of, by its SHA-256"


def _assignments(parameters: Mapping[str, Any]) -> str:
    return _short(", ".join(f"{k}={v}" for k, v in parameters.items()) or "none")


def _releases(ledger: Ledger) -> Iterator[str]:
    """Say what ran: equal releases once, with how often, under the labels of the first three."""
    told: dict[str, list[str]] = {}
    for event in ledger.summary()["events"]:
        told.setdefault(_event_text(event), []).append(event["label"])
    for text, labels in told.items():
        names = ", ".join(dict.fromkeys(label for label in labels if label))
        yield f"{len(labels)} x {text}" + (f": {_short(names, 60)}" if names else "")


def _event_text(event: Mapping[str, Any]) -> str:
    inner = event.get("events") or ([event["event"]] if "event" in event else [])
    skipped = ("type", "label", "events", "event", "arithmetic")
    fields = ", ".join(f"{k} {_number_text(v)}" for k, v in event.items() if k not in skipped)
    nested = " + ".join(_event_text(e) for e in inner)
    return f"{event['type'].removesuffix('Event')}({fields})" + (f" of [{nested}]" if nested else "")


def _first(n: int, lines: Iterable[str]) -> list[str]:
    every = list(lines)
    return every if len(every) <= n else [*every[: n - 1], f"and {len(every) - n + 1} other kinds"]


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_value_text(v)}" for k, v in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _short(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _number_text(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.6g}" if isinstance(value, float | int) else str(value)
