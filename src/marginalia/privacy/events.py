"""What ran: the events a ledger records, apart from how they are charged.

Every sensitivity is that of the ledger's neighbouring relation and of its unit of up to k rows; an event knows neither.
An objective perturbation has no sensitivity: its cost is stated for one row, or for several in a `GroupEvent`; a
Gaussian sketch has none, and is for single rows only. The
field ``arithmetic`` of a release says whether its noise has the stated law to the last bit (``exact``: integers, and an
exact sampler) or in real arithmetic only (``ideal``: floating point, or a minimiser that is only approached).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeAlias, TypeGuard, get_args

from marginalia.data.units import MOST_ROWS
from marginalia.errors import InputError, PrivacyError
from marginalia.privacy import checks

ARITHMETICS = ("ideal", "exact")
LEAST, LARGEST = 1e-30, 1e30  # of a parameter: beyond, squares of their ratios leave the range of floats

_POSITIVE = ("sensitivity", "sigma", "scale", "epsilon", "noise_multiplier", "bound", "regulariser", "ratio")


def _in_range(name: str, value: float) -> None:
    if not LEAST <= checks.positive(name, value) <= LARGEST:
        raise InputError(f"{name} is {value}: need a number between {LEAST:g} and {LARGEST:g}")


def _rows(name: str, value: float) -> None:
    if checks.count(name, value) > MOST_ROWS:
        raise InputError(f"{name} is {value}: need at most {MOST_ROWS}")


def _known_arithmetic(name: str, value: str) -> None:
    if value not in ARITHMETICS:
        raise InputError(f"{name} is {value!r}: need one of {', '.join(ARITHMETICS)}")


def _is_event(name: str, value: Any) -> None:
    if not isinstance(value, Event):
        raise InputError(f"{name} is {type(value).__name__}: need an event, such as GaussianEvent")


def _are_events(name: str, value: tuple[Any, ...]) -> None:
    for one in value:
        _is_event(name, one)


def _is_text(name: str, value: str) -> None:
    if not isinstance(value, str):
        raise InputError(f"{name} is {value!r}: need text")


_CHECKS: Mapping[str, Callable[[str, Any], object]] = {
    **dict.fromkeys(_POSITIVE, _in_range),
    **dict.fromkeys(("steps", "count", "vectors"), checks.count),
    "rows": _rows,
    "rate": checks.probability,
    "probability": checks.open_unit,
    "r": checks.open_unit,
    "eta": lambda name, value: checks.above(name, value, -1),
    "arithmetic": _known_arithmetic,
    "label": _is_text,
    "event": _is_event,
    "events": _are_events,
}


class _Checked:
    """Refuses parameters that are out of range."""

    def __post_init__(self) -> None:
        kind: type = type(self)
        for name, check in _checks_of(kind):
            check(name, getattr(self, name))


@cache
def _checks_of(kind: type) -> tuple[tuple[str, Callable[[str, Any], object]], ...]:
    return tuple((field.name, _CHECKS[field.name]) for field in fields(kind) if field.name in _CHECKS)


@dataclass(frozen=True)
class GaussianEvent(_Checked):
    """A vector of L2 sensitivity `sensitivity` released with N(0, sigma² I).

    >>> GaussianEvent(sensitivity=1.0, sigma=4.0, label="age")
    GaussianEvent(sensitivity=1.0, sigma=4.0, label='age', arithmetic='ideal')
    """

    sensitivity: float
    sigma: float
    label: str = ""
    arithmetic: str = "ideal"


@dataclass(frozen=True)
class LaplaceEvent(_Checked):
    """A vector of L1 sensitivity `sensitivity` released with independent Laplace(`scale`) noise.

    >>> LaplaceEvent(sensitivity=1.0, scale=0.0)
    Traceback (most recent call last):
    marginalia.errors.InputError: scale is 0.0: need a finite number above 0
    """

    sensitivity: float
    scale: float
    label: str = ""
    arithmetic: str = "ideal"


@dataclass(frozen=True)
class ExponentialEvent(_Checked):
    """One draw of the exponential mechanism, P ∝ exp(epsilon·score/(2·sensitivity)): `epsilon`-bounded range.

    `sensitivity`: how far one record moves any score (1: scores are in units of it).

    >>> ExponentialEvent(epsilon=0.1, label="pair", sensitivity=2.0)
    ExponentialEvent(epsilon=0.1, label='pair', sensitivity=2.0, arithmetic='ideal')
    """

    epsilon: float
    label: str = ""
    sensitivity: float = 1.0
    arithmetic: str = "ideal"


@dataclass(frozen=True)
class PoissonGaussianEvent(_Checked):
    """`steps` Gaussian releases, each on a fresh Poisson sample of the records.

    `noise_multiplier` = sigma / C, where C bounds the norm of ONE unit's contribution under either relation: the
    accountant itself knows that replacing a unit moves the sum by up to 2C.

    >>> PoissonGaussianEvent(rate=2, noise_multiplier=1.1, steps=1000)
    Traceback (most recent call last):
    marginalia.errors.InputError: rate is 2: need a probability in (0, 1]
    """

    rate: float
    noise_multiplier: float
    steps: int
    label: str = ""
    arithmetic: str = "ideal"


@dataclass(frozen=True)
class ObjectivePerturbationEvent(_Checked):
    """The exact minimiser of Σ logistic losses + regulariser/2·‖θ‖² + b·θ, b ~ N(0, sigma² I), rows ‖x‖ ≤ bound.

    >>> ObjectivePerturbationEvent(bound=1.0, sigma=4.0, regulariser=32.0).label
    ''
    """

    bound: float
    sigma: float
    regulariser: float
    label: str = ""
    arithmetic: str = "ideal"


@dataclass(frozen=True)
class GroupEvent(_Checked):
    """`event`, whose proof is for single records, where the protected unit may have up to `rows` of them.

    Only for what has no sensitivity that could be multiplied: objective perturbation. Its accountant knows what a
    group of records costs; under replace-one one unit leaves and another comes, 2·`rows` records in all.

    >>> GroupEvent(ObjectivePerturbationEvent(bound=1.0, sigma=4.0, regulariser=32.0), rows=3).rows
    3
    """

    event: ObjectivePerturbationEvent
    rows: int
    label: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.event, ObjectivePerturbationEvent):
            raise InputError(f"event is {type(self.event).__name__}: groups are for ObjectivePerturbationEvent alone")


@dataclass(frozen=True)
class GaussianSketchEvent(_Checked):
    """`vectors` draws of N(0, A'A + eta² I): a Gaussian sketch of private rows A, with noise.

    `ratio`: by which share of itself one record can raise the variance in any direction, B²/λ for rows of norm B and a
    smallest eigenvalue of at least λ, with noise, in both of two neighbouring tables.

    >>> GaussianSketchEvent(vectors=600, ratio=0.01).ratio
    0.01
    """

    vectors: int
    ratio: float
    label: str = ""
    arithmetic: str = "ideal"


@dataclass(frozen=True)
class FailureEvent(_Checked):
    """With at most `probability`, whatever one record holds is shown: (0, probability)-DP, added to delta.

    What a release with a threshold can do, beside the noise: show a value that only one record has.

    >>> FailureEvent(1e-7, label="city").probability
    1e-07
    """

    probability: float
    label: str = ""
    arithmetic: str = "ideal"


@dataclass(frozen=True)
class CompositionEvent(_Checked):
    """All of `events`, `count` times.

    >>> CompositionEvent((GaussianEvent(1.0, 4.0),), count=20).count
    20
    """

    events: tuple[Event, ...]
    count: int = 1
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))
        super().__post_init__()


@dataclass(frozen=True)
class RandomStoppingEvent(_Checked):
    """`event` run K times, K ~ truncated negative binomial(eta, r); only the run with the best score is released.

    `event` must hold the whole of one run, its noisy (continuous) score included. ``eta = 1`` is the geometric law
    P(K = k) = r(1-r)^(k-1); ``eta = 0`` the logarithmic one. K and the run time must stay secret.

    >>> RandomStoppingEvent(GaussianEvent(1.0, 10.0), r=1 / 64).eta
    1.0
    """

    event: Event
    r: float
    eta: float = 1.0
    label: str = ""


Event: TypeAlias = (
    GaussianEvent
    | LaplaceEvent
    | ExponentialEvent
    | PoissonGaussianEvent
    | ObjectivePerturbationEvent
    | GroupEvent
    | GaussianSketchEvent
    | FailureEvent
    | CompositionEvent
    | RandomStoppingEvent
)


def compositions(charged: Iterable[tuple[Event, int]]) -> tuple[Event, ...]:
    """Return events and how often each ran as one event each.

    >>> compositions([(LaplaceEvent(1.0, 4.0), 1)])
    (LaplaceEvent(sensitivity=1.0, scale=4.0, label='', arithmetic='ideal'),)
    """
    return tuple(event if count == 1 else CompositionEvent((event,), count) for event, count in charged)


def flattened(events: tuple[Event, ...], count: int = 1) -> list[tuple[Event, int]]:
    """Flatten compositions: every other event with the number of times it ran, in order.

    >>> flattened((CompositionEvent((ExponentialEvent(0.1),), count=3),), count=2)
    [(ExponentialEvent(epsilon=0.1, label='', sensitivity=1.0, arithmetic='ideal'), 6)]
    """
    flat: list[tuple[Event, int]] = []
    for event in events:
        if isinstance(event, CompositionEvent):
            flat.extend(flattened(event.events, count * event.count))
        else:
            flat.append((event, count))
    return flat


def of_group(event: ObjectivePerturbationEvent, rows: int) -> ObjectivePerturbationEvent | GroupEvent:
    """Return an event as one of units of up to `rows` records; itself, where each is one.

    >>> of_group(ObjectivePerturbationEvent(1.0, 4.0, 32.0, "loss"), 3).label
    'loss'
    """
    return event if rows == 1 else GroupEvent(replace(event, label=""), rows, event.label)


def check_rows(events: tuple[Event, ...], k: int) -> None:
    """Check that the cost of every event is stated for units of at least `k` rows.

    Raises
    ------
    PrivacyError
        The cost of an event is stated for fewer rows.

    Examples
    --------
    >>> event = ObjectivePerturbationEvent(1.0, 4.0, 32.0)
    >>> check_rows((of_group(event, 3),), 3)
    >>> check_rows((event,), 3)
    Traceback (most recent call last):
    marginalia.errors.PrivacyError: the cost of ObjectivePerturbationEvent is stated for units of at most 1 row, ...
    """
    for event, _ in flattened(events):
        if isinstance(event, RandomStoppingEvent):
            check_rows((event.event,), k)
        elif isinstance(event, ObjectivePerturbationEvent | GroupEvent | GaussianSketchEvent):
            rows = event.rows if isinstance(event, GroupEvent) else 1
            if rows < k:
                name = f"'{event.label}'" if event.label else type(event).__name__
                advice = "" if isinstance(event, GaussianSketchEvent) else f": record GroupEvent(event, rows={k})"
                raise PrivacyError(
                    f"the cost of {name} is stated for units of at most {rows} row{'s' * (rows > 1)}, but the unit has "
                    f"up to {k}{advice}"
                )


def is_subsampled(event: Event) -> TypeGuard[PoissonGaussianEvent]:
    """Whether an event runs on Poisson samples that leave records out.

    >>> is_subsampled(PoissonGaussianEvent(0.1, 2.0, 50)), is_subsampled(PoissonGaussianEvent(1.0, 2.0, 50))
    (True, False)
    """
    return isinstance(event, PoissonGaussianEvent) and event.rate < 1


def count_events(event: Event) -> dict[Event, int]:
    """Return what an event charges, without labels: each distinct event, and how often it ran.

    >>> count_events(CompositionEvent((LaplaceEvent(1.0, 2.0, "a"), LaplaceEvent(1.0, 2.0, "b"))))
    {LaplaceEvent(sensitivity=1.0, scale=2.0, label='', arithmetic='ideal'): 2}
    """
    counts: dict[Event, int] = {}
    for each, count in flattened((event,)):
        key = _without_label(each) if each.label else each
        counts[key] = counts.get(key, 0) + count
    return counts


def _without_label(event: Event) -> Event:
    """Return `event` with an empty label. Its parameters are in range: `dataclasses.replace` would check them again."""
    copied = copy(event)
    object.__setattr__(copied, "label", "")
    return copied


def count_kinds(charged: Mapping[Event, int]) -> str:
    """Say how many releases of each kind there are.

    >>> releases = LaplaceEvent(1.0, 2.0), LaplaceEvent(1.0, 3.0), GaussianEvent(1.0, 3.0)
    >>> count_kinds(count_events(CompositionEvent(releases)))
    '2 Laplace, 1 Gaussian'
    """
    kinds: Counter[str] = Counter()
    for event, count in charged.items():
        kinds[type(event).__name__.removesuffix("Event")] += count
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "no release yet"


def arithmetics(event: Event) -> set[str]:
    """Return how the noise of an event is drawn, those inside a random stopping or a group included.

    >>> sorted(arithmetics(CompositionEvent((GaussianEvent(1, 4, arithmetic="exact"), LaplaceEvent(1, 2)))))
    ['exact', 'ideal']
    """
    found: set[str] = set()
    for each, _ in flattened((event,)):
        if isinstance(each, RandomStoppingEvent | GroupEvent):
            found |= arithmetics(each.event)
        else:
            found.add(str(vars(each)["arithmetic"]))
    return found


def describe(value: Any) -> Any:
    """Turn an event, or a value in one, into plain JSON types.

    >>> describe(LaplaceEvent(1.0, 2.0))
    {'type': 'LaplaceEvent', 'sensitivity': 1.0, 'scale': 2.0, 'label': '', 'arithmetic': 'ideal'}
    """
    if is_dataclass(value):
        return {"type": type(value).__name__, **{f.name: describe(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, tuple):
        return [describe(inner) for inner in value]
    return value if isinstance(value, str | int) else float(value)


def rebuild(value: Any) -> Any:
    """Undo `describe`; KeyError or TypeError where no event is described.

    >>> rebuild(describe(LaplaceEvent(1.0, 2.0)))
    LaplaceEvent(sensitivity=1.0, scale=2.0, label='', arithmetic='ideal')
    """
    if isinstance(value, Mapping):
        inner = {name: rebuild(field) for name, field in value.items() if name != "type"}
        return _KINDS[value["type"]](**inner)
    return tuple(map(rebuild, value)) if isinstance(value, list) else value


_KINDS: Mapping[str, Any] = {kind.__name__: kind for kind in get_args(Event)}
