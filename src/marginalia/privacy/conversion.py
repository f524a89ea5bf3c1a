"""Bring events of several releases under one neighbouring relation, and check that their privacy units agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from marginalia.data.units import Unit
from marginalia.errors import InputError
from marginalia.privacy.events import (
    CompositionEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    RandomStoppingEvent,
)
from marginalia.privacy.relation import Relation


def common_relation(relations: Sequence[Relation]) -> Relation:
    """Return the relation under which all releases have a guarantee.

    An add/remove guarantee implies one under replace-one, because one row leaves and another row comes. A replace-one
    guarantee implies nothing for tables of another size.

    >>> str(common_relation([Relation.ADD_REMOVE, Relation.REPLACE_ONE]))
    'replace_one'
    """
    return Relation.REPLACE_ONE if Relation.REPLACE_ONE in relations else Relation.ADD_REMOVE


def convert_event(event: Event, own: Relation, relation: Relation) -> Event:
    """Return the event under `relation` that corresponds to `event` of a ledger under `own`.

    From add/remove to replace-one, the two neighbours have a common neighbour. By the triangle inequality,
    sensitivities double (a norm, or a loss of bounded range). Events whose accountant knows the relation are returned
    unchanged (Poisson samples, objective perturbation). Failures are unchanged, too: the sets of values that are shown
    in addition to the common values have a total variation of the larger of the two probabilities
    (`privacy.mechanisms.partition`).

    Raises
    ------
    InputError
        `own` is replace-one and `relation` is add/remove: the release promises nothing there.

    Examples
    --------
    >>> convert_event(GaussianEvent(1.0, 4.0), Relation.ADD_REMOVE, Relation.REPLACE_ONE).sensitivity
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
            return replace(event, events=tuple(convert_event(inner, own, relation) for inner in event.events))
        case RandomStoppingEvent():
            return replace(event, event=convert_event(event.event, own, relation))
    return event


def protected(unit: Unit | None) -> str:
    """Return what releases protect, whatever the number of rows per unit.

    >>> protected(None), protected(Unit("patient", 3))
    ('one row', 'one `patient`')
    """
    return "one row" if unit is None else f"one `{unit.column}`"


def check_same_unit(one: Unit | None, other: Unit | None) -> None:
    """Raise `InputError` if two releases protect different privacy units. The number of rows per unit may differ.

    The same column read as integers and as texts names different units. A column without a declared type agrees with
    both.

    A table without one of its patients is a neighbour for every bound on the rows per patient, and each release has
    charged for its own bound. A release that protects rows promises nothing for patients with any number of rows.

    >>> check_same_unit(Unit("patient", 1), Unit("patient", 3))
    >>> check_same_unit(Unit("patient", 1), None)
    Traceback (most recent call last):
    marginalia.errors.InputError: one release protects one row, another one `patient`: their costs do not add up
    """
    if (one and one.column) != (other and other.column):
        first, second = sorted(map(protected, (one, other)))
        raise InputError(f"one release protects {second}, another {first}: their costs do not add up")
    types = {unit.type for unit in (one, other) if unit is not None and unit.type is not None}
    if one is not None and len(types) > 1:
        readings = " and as ".join(sorted(types))
        raise InputError(
            f"`{one.column}` was read as {readings}: what each release protects differs; costs do not add up"
        )
