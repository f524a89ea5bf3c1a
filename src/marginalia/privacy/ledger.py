"""The ledger of a fit: records every private release, rejects those that exceed the budget, reports what remains."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, Self

from marginalia.data.units import Unit
from marginalia.errors import InputError, PrivacyError, unknown_name
from marginalia.privacy import checks, events
from marginalia.privacy.costs import (
    MEASURES,
    NOTHING,
    Cost,
    Measure,
    composed_epsilon,
    composed_rho,
)
from marginalia.privacy.events import Event, compositions
from marginalia.privacy.filters import Filter, OneOf
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.remaining import Plan, remaining_budget

if TYPE_CHECKING:
    from marginalia.data.domain import Domain
    from marginalia.data.table import PrivateRows

# Relative excess over the requested epsilon that is put down to rounding.
TOLERANCE = 1e-9
# Relative excess of what events cost over what a file says they do; another version may compute the last digits anew.
FILE_TOLERANCE = 1e-6

SOURCES = ("documented", "declared", "inferred", "released")
RANDOMNESS = ("", "system", "seeded")
_LEAST_KNOWN = ("seeded", "", "system")  # the first of these that a release has is that of its ledger
READ_OFF = "read off the rows"  # name of the public input that lists what was
NOTHING_RECORDED = "no release was recorded: nothing is certified"

# What `Ledger.summary` holds that is no number: JSON knows these types, so that no other is read as one of them.
_TEXTS = ("relation", "calibration", "message", "scope", "arithmetic", "randomness")
_SUMMARY = {**dict.fromkeys(_TEXTS, str), "certified": bool, "public_inputs": list, "events": list}

Charged = tuple[tuple[Event, int], ...]  # distinct events without labels, and how often each ran


@dataclasses.dataclass(frozen=True)
class PublicInput:
    """Something about the rows that a method uses as known to everyone.

    Parameters
    ----------
    name : str
    value : str, int, float, list or dict
        In plain JSON types.
    source : {"documented", "declared", "inferred", "released"}
        Published documentation, the user's declaration, the private rows themselves (which nobody accounted for), or
        releases of this ledger.

    Examples
    --------
    >>> PublicInput("feature_bound", 1.0, "declared").source
    'declared'
    """

    name: str
    value: Any
    source: str

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise unknown_name(f"source of the public input '{self.name}'", str(self.source), SOURCES)


def inputs_of_domain(domain: Domain) -> list[PublicInput]:
    """Return what a fit takes as known of its columns, and which of it was read off the private rows.

    >>> from marginalia.data.column import Column
    >>> from marginalia.data.domain import Domain
    >>> ward = Column("ward", 1, labels=("A",), type="string", inferred=("labels",))
    >>> [known.name for known in inputs_of_domain(Domain([ward]))]
    ['domain', 'read off the rows']
    """
    inputs = [PublicInput("domain", {a.name: a.size for a in domain}, domain.source)]
    if found := domain.inferred:
        inputs.append(PublicInput(READ_OFF, found, "inferred"))
    return inputs


def number_of_units(rows: PrivateRows) -> PublicInput:
    """Return what ``replace_one`` takes as known to everyone: the number of rows, or of units of rows.

    >>> from marginalia.data import Domain, Table
    >>> number_of_units(Table([[0], [1]], Domain.from_sizes({"a": 2}))).value
    2
    """
    what = "number of rows" if rows.unit is None else f"number of different `{rows.unit.column}`"
    return PublicInput(what, rows.n_units, "declared")


class EventRecorder(Protocol):
    """Records each event of a ledger in a second place, before its noise is drawn (`odometer.ReleaseRecorder`)."""

    def record(self, event: Event, neighbours: Neighbours, randomness: str) -> None:
        """Record an event, or raise `PrivacyError`."""


class Ledger:
    """Events in the order they ran, under one neighbouring relation and within a budget given beforehand.

    What they cost together depends on whether they were planned. By default the kind and the parameters of each release
    may follow from earlier answers, and a `Filter` keeps the budget: Gaussian DP is the one measure, and a reserve that
    is fixed beforehand is for releases that have no parameter of it.

    Of releases that are `planned`, the smallest of all bounds holds. The rules (`privacy.costs`) are: Gaussian releases
    by exact Gaussian DP (adaptive composition included); Gaussian, Laplace and Poisson-sampled Gaussian releases whose
    parameters were fixed in advance by their privacy loss distribution; exponential mechanisms beside Gaussian releases
    by Gaussian DP; anything with an exponential mechanism by zCDP, and by adding up pure epsilons where all is pure;
    objective perturbation and random stopping by certificates of their own, beside Gaussian releases by their joint
    loss; one of them, or Poisson-sampled runs, beside anything else by adding up two groups. Failures come off delta.
    Other mixes are refused.

    Parameters
    ----------
    relation : Relation or str
        ``add_remove`` or ``replace_one``; the sensitivities of all events refer to it, and to `unit`.
    epsilon, delta : float, optional
        The budget, both or neither; `delta` may be 0. A ledger without one records all the same and certifies nothing.
    calibration : str, default "tight"
        With ``"published"`` nothing is refused: a paper's own constants are run as they stand and the verdict is in
        `certified` and `message`.
    scope : str, default ""
        Whose rows are protected, where it is not every row; may be set later.
    public_inputs : iterable of PublicInput, or of (name, value, source)
    recorder : EventRecorder, optional
        Recorder of the budget file of the table (`privacy.odometer`), in which each event is recorded, too, before its
        noise is drawn.
    unit : Unit, optional
        Whose rows are protected together; default: each row alone.
    planned : bool, default False
        Whether the kinds and the number of all releases and the parameters of each were fixed by public facts before
        the first, as a method of this package does. Parameters of Gaussian releases and selections may follow from
        earlier answers within one measure that was fixed beforehand (`costs.CompositionBudget`).
    reserve : (float, float), default (0, 0)
        Of a ledger that is not planned: the part of (epsilon, delta) for releases without a Gaussian-DP parameter; see
        `filters.Filter`.

    Attributes
    ----------
    relation : Relation
    neighbours : Neighbours
        The relation and the unit: what sensitivities are computed from.
    calibration : str
    scope : str
    public_inputs : tuple of PublicInput
    filter : Filter, OneOf or None
        What has been spent of the budget where releases may depend on earlier answers; None where they are planned.

    Notes
    -----
    The verdict (`certified`, `epsilon_spent`, `message`) is computed from the events whenever it is asked for, and
    cannot be set. Nothing is certified where labels, edges or other facts of the domain were read off the private rows
    and nobody has confirmed that they are public: the releases may keep the budget, but these facts are out without it.

    Examples
    --------
    >>> from marginalia.privacy.events import GaussianEvent
    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    >>> ledger.append(GaussianEvent(sensitivity=1.0, sigma=4.0, label="age"))
    >>> ledger.certified, round(ledger.epsilon_spent, 3)
    (True, 0.926)
    >>> ledger.append(GaussianEvent(sensitivity=1.0, sigma=4.0, label="pay"))
    Traceback (most recent call last):
    marginalia.errors.PrivacyError: refused: with 'pay' epsilon 1.36 of 1 at delta 1e-05 (add_remove) would be spent
    """

    def __init__(
        self,
        relation: Relation | str,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        calibration: str = "tight",
        scope: str = "",
        public_inputs: Iterable[PublicInput | tuple[str, Any, str]] = (),
        recorder: EventRecorder | None = None,
        unit: Unit | None = None,
        planned: bool = False,
        reserve: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        try:
            self.relation = Relation(relation)
        except ValueError:
            raise InputError(f"unknown relation '{relation}'; use 'add_remove' or 'replace_one'") from None
        self.neighbours = Neighbours(self.relation, unit)
        self._budget = _checked_budget(epsilon, delta)
        # Without one, the smallest of all bounds is the price.
        self.filter: Filter | OneOf | None = None
        if self._budget is not None and not planned:
            self.filter = Filter(self.relation, *self._budget, reserve)
        self.calibration = calibration
        self.scope = scope
        self.public_inputs = tuple(p if isinstance(p, PublicInput) else PublicInput(*p) for p in public_inputs)
        self._events: list[Event] = []
        self._counts: Counter[Event] = Counter()
        self._cost = NOTHING  # of all events: sums, so that most releases are appended in constant time
        self._randomness = ""
        self._closed = False
        self._recorder = recorder
        self._stored: Mapping[str, Any] | None = None  # what the file this was read from says of itself

    def __repr__(self) -> str:
        cost = "no budget"
        if self._budget is not None:
            cost = f"epsilon {self.epsilon_spent if self._events else 0:.4g} of {self._budget[0]:g}"
            cost += f" spent at delta {self._budget[1]:g}"
        said = "certified" if self.certified else self.message
        said += ", seeded" * (self.randomness == "seeded")
        return f"Ledger({self.relation}: {cost}; {events.count_kinds(self._counts)}; {said})"

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything recorded so far."""
        return tuple(self._events)

    @property
    def budget(self) -> tuple[float, float] | None:
        """The (epsilon, delta) that was given, or None."""
        return self._budget

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Measures in which selections and Gaussian releases may be composed: with a budget file only Gaussian DP."""
        return MEASURES if self._recorder is None else ("gdp",)

    @property
    def randomness(self) -> str:
        """``seeded`` as soon as one release was, else empty as soon as one does not say, else ``system``."""
        return self._randomness

    @property
    def arithmetic(self) -> str:
        """``exact`` only if every release is; else ``ideal``."""
        return "exact" if self._counts and all(events.arithmetics(e) == {"exact"} for e in self._counts) else "ideal"

    @property
    def certified(self) -> bool:
        """Whether releases were recorded, cost no more than the budget, and use nothing that was read off the rows."""
        return self._refusal == ""

    @property
    def epsilon_spent(self) -> float | None:
        """Smallest certified epsilon at the budget's delta; infinity where none is known, None without a budget."""
        if self._budget is None:
            return None
        try:
            return self.epsilon(self._budget[1])
        except PrivacyError:
            return math.inf

    @property
    def message(self) -> str:
        """Why nothing is certified, or for whose rows alone something is; else empty."""
        return self._refusal or (f"protects {self.scope.removeprefix('protects ')}" if self.scope else "")

    @property
    def _refusal(self) -> str:
        if not self._counts:
            return NOTHING_RECORDED
        why = "; ".join(filter(None, (self.read_off, self._overspent)))
        return f"not certified: {why}" if why else ""

    @property
    def read_off(self) -> str:
        """What the domain has from the private rows, as a clause; empty where all of it is public or learned privately.

        >>> known = PublicInput(READ_OFF, {"labels": ["ward", "city"], "edges": ["age"]}, "inferred")
        >>> Ledger("add_remove", public_inputs=[known]).read_off
        "2 columns' labels and 1 column's edges were read off the rows (ward, city, age); learn labels ..."
        """
        return next((_read_off(p.value) for p in self.public_inputs if p.name == READ_OFF), "")

    @property
    def _overspent(self) -> str:
        """Why the events do not keep the budget, as a clause; else empty."""
        if self._budget is None:
            return "no budget was set"
        epsilon, delta = self._budget
        try:
            spent = self.epsilon(delta)
        except PrivacyError as error:
            return str(error)
        said = "" if self._stored is None else _contradiction(self._stored, spent)
        if self.filter is not None and self.filter.overspent:
            return f"spent {self.filter.overspent}{said}"
        if spent > epsilon * (1 + TOLERANCE):
            said = f"requested epsilon {epsilon:g} at delta {delta:g} ({self.relation}), spent {spent:.8g}{said}"
        return said.removeprefix("; ")

    def append(self, event: Event, randomness: str = "") -> None:
        """Record `event`, one of `marginalia.privacy.events`, before its noise is drawn.

        Parameters
        ----------
        event : Event
        randomness : {"", "system", "seeded"}
            What the noise is drawn from.

        Raises
        ------
        PrivacyError
            The event is of no known type, its cost is stated for fewer rows than a unit has, the ledger is closed, the
            budget file of the table has no room for it, or, unless the calibration is ``"published"``, all events
            together would exceed the budget or be covered by no accountant. The event is then not recorded.
        """
        if not isinstance(event, Event):
            raise PrivacyError(f"the ledger does not know how to charge {type(event).__name__}")
        if randomness not in RANDOMNESS:
            raise unknown_name("randomness", str(randomness), RANDOMNESS[1:])
        if self._closed:
            raise PrivacyError("the ledger is closed: its fit is over, and another release needs a budget of its own")
        events.check_rows((event,), self.neighbours.contributions)
        parts = Counter(events.count_events(event))
        cost = self._cost + Cost.of(list(parts.items()), self.relation)
        charged = None if self.filter is None else self.filter.charge([event])
        if self._budget is not None and self.calibration != "published":
            if charged is not None:
                if charged.overspent:
                    raise PrivacyError(f"refused: with {_name(event)} {charged.overspent} would be spent")
            elif not cost.is_within(*self._budget):
                self._afford(event, self._counts + parts)
        if self._recorder is not None:
            self._recorder.record(event, self.neighbours, randomness)
        self._events.append(event)
        self._randomness = min(self._randomness if self._counts else randomness, randomness, key=_LEAST_KNOWN.index)
        self._counts.update(parts)
        self._cost, self.filter = cost, charged

    def _afford(self, event: Event, counts: Counter[Event]) -> None:
        assert self._budget is not None
        epsilon, delta = self._budget
        spent = _epsilon(tuple(counts.items()), self.relation, delta, self.neighbours.contributions)
        if spent > epsilon * (1 + TOLERANCE):
            shown = f"{spent:.3g}" if spent > 1.001 * epsilon else f"{spent:.9g}"
            budget = f"of {epsilon:g} at delta {delta:g} ({self.relation})"
            raise PrivacyError(f"refused: with {_name(event)} epsilon {shown} {budget} would be spent")

    def epsilon(self, delta: float) -> float:
        """Smallest certified epsilon at `delta` (in [0, 1); at 0 the pure one, or infinity); uncovered mixes raise.

        Of releases that are not planned it is known at the delta of the budget alone.
        """
        if delta != 0:
            delta = checks.open_unit("delta", delta)
        if self.filter is not None and self._budget is not None:
            if delta != self._budget[1]:
                raise InputError(f"releases that are not planned have an epsilon at delta {self._budget[1]:g} alone")
            events.check_rows(self.events, self.neighbours.contributions)
            return self.filter.epsilon_spent
        return _epsilon(tuple(self._counts.items()), self.relation, delta, self.neighbours.contributions)

    def remaining_budget(self, plan: Plan | None = None) -> tuple[float, float]:
        """Return the (epsilon, delta) that is left for what comes next: the budget itself if nothing was recorded.

        Without `plan` it is for Gaussian releases and selections, which are composed in Gaussian DP or zCDP;
        with one, ``plan(epsilon, delta)`` returns the events that a method would record; see `remaining_budget`.

        >>> from marginalia.privacy.events import GaussianEvent
        >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
        >>> ledger.append(GaussianEvent(sensitivity=1.0, sigma=12.0, label="bins of age"))
        >>> round(ledger.remaining_budget()[0], 3)
        0.946
        """
        if self._budget is None:
            raise InputError("this ledger has no budget of which something could be left")
        events.check_rows(self.events, self.neighbours.contributions)
        if self.filter is not None:
            if plan is not None:
                raise InputError("a plan is priced in a ledger whose releases are planned: Ledger(..., planned=True)")
            epsilon, delta = self._budget
            left = self.filter.remaining_epsilon(delta)
            if left <= 0:
                raise PrivacyError(f"nothing is left of epsilon {epsilon:g} at delta {delta:g} ({self.relation})")
            return left, delta
        return remaining_budget(compositions(tuple(self._counts.items())), self.relation, *self._budget, plan)

    def left(self, plan: Plan | None = None) -> tuple[float, float]:
        """Return `remaining_budget`, under its name of versions before 3.0."""
        warnings.warn("Ledger.left is now Ledger.remaining_budget", DeprecationWarning, stacklevel=2)
        return self.remaining_budget(plan)

    def rho(self) -> float:
        """Parameter of zero-concentrated DP of all events together; `PrivacyError` where an event has none."""
        events.check_rows(self.events, self.neighbours.contributions)
        return composed_rho(self.events, self.relation)

    def close(self) -> None:
        """End the fit: nothing more can be recorded.

        Raises
        ------
        PrivacyError
            No accountant covers the events, or, unless the calibration is ``"published"``, they cost more than the
            budget. A ledger without events closes in silence: it certifies nothing.
        """
        self._closed, self._recorder = True, None
        if self._budget is not None and self._events:
            self.epsilon(self._budget[1])
            if self._overspent and self.calibration != "published":
                raise PrivacyError(f"not certified: {self._overspent}")

    def summary(self) -> dict[str, Any]:
        """Describe the ledger in plain JSON types: relation, budget, verdict and the tree of events."""
        epsilon, delta = self._budget or (None, None)
        spent = self.epsilon_spent
        return {
            "relation": str(self.relation),
            **({} if self.neighbours.unit is None else {"unit": self.neighbours.unit.summary()}),
            "calibration": self.calibration,
            **({} if not isinstance(self.filter, Filter) else {"reserve": list(self.filter.reserve)}),
            "epsilon": epsilon,
            "delta": delta,
            "certified": self.certified,
            "epsilon_spent": spent if spent is not None and math.isfinite(spent) else None,
            "message": self.message,
            "scope": self.scope,
            "public_inputs": [dataclasses.asdict(p) for p in self.public_inputs],
            "arithmetic": self.arithmetic,
            "randomness": self.randomness,
            "events": [events.describe(event) for event in self._events],
        }

    @classmethod
    def from_summary(cls, summary: Mapping[str, Any]) -> Self:
        """Rebuild a ledger from `summary`, also after it was serialised as JSON; it is closed.

        Nothing that is stored is believed: the verdict follows from the events, and where the summary claims more than
        these support, `message` says so and nothing is certified. Raises InputError for anything but a summary.
        """
        for name, kind in _SUMMARY.items():
            if name in summary and type(summary[name]) is not kind:
                raise InputError(f"this is no summary of a ledger: '{name}' is no {kind.__name__}")
        try:
            ledger = cls(
                summary["relation"],
                epsilon=summary["epsilon"],
                delta=summary["delta"],
                calibration="published",
                scope=summary["scope"],
                public_inputs=[PublicInput(**p) for p in summary["public_inputs"]],
                planned="reserve" not in summary,
                reserve=tuple(summary.get("reserve", (0.0, 0.0))),
            )
            for described in summary["events"]:
                ledger.append(events.rebuild(described), summary["randomness"])
            # Last: events that are stated for fewer rows than the unit has are read, and nothing is certified.
            if "unit" in summary:
                ledger.neighbours = Neighbours(ledger.relation, Unit(**summary["unit"]))
            claims = {"certified": summary["certified"], "epsilon_spent": summary["epsilon_spent"]}
            if claims["epsilon_spent"] is not None:
                checks.not_negative("epsilon_spent", claims["epsilon_spent"])
            ledger.calibration = summary["calibration"]
        except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, PrivacyError) as error:
            raise InputError(f"this is no summary of a ledger: {type(error).__name__}: {error}") from None
        ledger._stored, ledger._closed = claims, True
        return ledger


def _read_off(found: Any) -> str:
    """Return the clause on facts that were read off the rows; each column counts once, with what tells the most."""
    words = {"missing": "marks of missing values", "special": "special values", "type": "types"}
    known = found if isinstance(found, Mapping) else {"facts": [found]}
    told, seen = [], dict[str, None]()
    for fact, each in known.items():
        new = [str(name) for name in (each if isinstance(each, list | tuple) else [each]) if str(name) not in seen]
        seen |= dict.fromkeys(new)
        if new:
            whose = f"{len(new)} columns'" if len(new) > 1 else "1 column's"
            told.append(f"{whose} {words.get(fact, fact)}")
    many = " and ".join(filter(None, (", ".join(told[:-1]), *told[-1:])))
    some = ", ".join([*list(seen)[:3], *([f"{len(seen) - 3} more"] if len(seen) > 3 else [])])
    learn = "learn labels and edges privately, and " if {"labels", "edges"} & set(known) else ""
    return f"{many} were read off the rows ({some}); {learn}say `reviewed: true` of what is public"


def _name(event: Event) -> str:
    return f"'{event.label}'" if event.label else type(event).__name__


def _checked_budget(epsilon: float | None, delta: float | None) -> tuple[float, float] | None:
    if epsilon is None and delta is None:
        return None
    if epsilon is None or delta is None:
        raise InputError("a budget is epsilon and delta: give both, or neither")
    return checks.budget(epsilon, delta, pure=True)


@lru_cache(maxsize=1024)
def _epsilon(charged: Charged, relation: Relation, delta: float, k: int) -> float:
    return composed_epsilon(compositions(charged), relation, delta, k)


def _contradiction(stored: Mapping[str, Any], spent: float) -> str:
    """Say how a file claims more than its events support, or nothing."""
    said = stored["epsilon_spent"]
    if said is not None and spent > float(said) * (1 + FILE_TOLERANCE):
        return f"; the file says epsilon {float(said):.6g} was spent, its events cost {spent:.8g}"
    return ""
