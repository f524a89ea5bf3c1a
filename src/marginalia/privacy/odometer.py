"""Privacy odometer of a table: a budget file in which each release is recorded before its noise is drawn.

The file holds one JSON object per line. The first line states the total (epsilon, delta) and its relation; each further
line records one event. A line is written under a lock and is on the disk before the ledger of the fit draws noise.
If a process dies at any moment, each release that was made is in the file. Lines are only added.

The lines are a hash chain: ``chain`` of a line is the SHA-256 of the line and of ``chain`` of the line before. If a
line was changed, moved or removed, reading raises an error with its number, except for lines removed from the end.
Files of version 1 have no hashes; the first line that is added to such a file covers all lines before it. A last line
without a line end counts like any other line. If it cannot be read, its cost is unknown and everything counts as spent.

The cost of several releases is a sum only if their noise is independent. Two releases from one seed may have the same
noise, so that their difference has none. Seeded releases are rejected, unless the file was opened for experiments.

The kind and the parameters of the next release may depend on earlier answers, so the total is kept by a privacy filter
(`privacy.filters`): Gaussian DP is the only measure, and a reserve that the first line states is for releases without a
Gaussian-DP parameter. Files of versions 1 and 2 fixed no measure. Two filters charge their entries, each with half of
delta: wherever the releases stopped, one of the filters had room, and the deltas of the two add up.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from secrets import token_hex
from typing import Any

from marginalia.data.units import Unit
from marginalia.errors import InputError, PrivacyError
from marginalia.privacy.conversion import check_same_unit, convert_event, protected
from marginalia.privacy.events import Event, FailureEvent, count_events, describe, rebuild
from marginalia.privacy.filters import ROUNDING, OneOf
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.relation import Neighbours, Relation

_MORE_RESERVE = (
    "; each release that learns labels privately needs a part of it: declare the labels in the domain, or plan several "
    "of these releases by `marginalia budget open FILE --reserve E`, whose reserve has half of delta"
)
FORMAT = "marginalia-book"
# Version 1: lines have no hashes, and the costs of seeded releases were added. Versions 1 and 2: no reserve, and the
# tightest bound of all accountants was charged.
FORMAT_VERSION = 3

_recorder: ContextVar[ReleaseRecorder | None] = ContextVar("recorder", default=None)


class RefusedError(PrivacyError):
    """The release would exceed the total budget, or its cost is unknown; nothing was released."""


class PrivacyOdometer:
    """Total privacy loss of a table, kept in a budget file.

    Parameters
    ----------
    path : path
        A file that `PrivacyOdometer.create` wrote.

    Attributes
    ----------
    path : Path
    id : str
        Unique for each file; it stays the same if the file is moved.
    experiments : bool
        Whether the file was opened for experiments and accepts seeded releases.
    version : int
        Of the file format.

    Raises
    ------
    InputError
        The file cannot be read, is not a budget file, or a line was changed, moved or removed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from marginalia.privacy.events import GaussianEvent
    >>> rows = Neighbours(Relation.ADD_REMOVE)
    >>> with TemporaryDirectory() as folder:
    ...     odometer = PrivacyOdometer.create(f"{folder}/t.budget", "add_remove", epsilon=1.0, delta=1e-5)
    ...     odometer.record(GaussianEvent(1.0, 4.0), rows, "system", "ages")
    ...     odometer.record(GaussianEvent(1.0, 4.0), rows, "system", "pay")
    Traceback (most recent call last):
    marginalia.privacy.odometer.RefusedError: ...t.budget: refused: with GaussianEvent epsilon 1.37 of 1 at delta ...
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.id = ""
        self.experiments = False
        self.version = FORMAT_VERSION
        self._reset()
        with self._locked() as file:
            self._read(file)

    def _reset(self) -> None:
        self._offset = 0  # number of bytes that have been read
        self._number = 1  # of the line at that offset
        self._last_entry = 0  # number of the last line that is not blank
        self._chain = ""  # hash of the last line
        self._is_chained = False  # whether that line holds its hash, so that the next line must hold one
        self._is_torn = False  # whether the file ends with a line that cannot be read
        self._ledger: Ledger | None = None
        self._releases: Counter[str] = Counter()
        self._seeded: list[int] = []  # numbers of lines

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        relation: Relation | str,
        *,
        epsilon: float,
        delta: float,
        unit: str | None = None,
        experiments: bool = False,
        reserve: float = 0.0,
    ) -> PrivacyOdometer:
        """Write a budget file without entries, for releases that protect rows or privacy units.

        Parameters
        ----------
        path : path
            An existing file is never overwritten.
        relation : Relation or str
        epsilon, delta : float
            The total.
        unit : str, optional
            Column of the privacy unit that all releases protect. Default: they protect one row.
        experiments : bool
            Accept seeded releases. Their costs are added as if their noise were independent, which no one can check:
            the sum is no guarantee.
        reserve : float
            Part of epsilon for releases without a Gaussian-DP parameter. The reserve also has half of delta, or a tenth
            of delta if `reserve` is 0, for releases that can fail with some probability.
        """
        parts = (reserve, delta / (2 if reserve else 10))
        ledger = Ledger(relation, epsilon=epsilon, delta=delta, unit=_unit(unit), reserve=parts)  # checks them
        head = {"format": FORMAT, "version": FORMAT_VERSION, "id": token_hex(16), "epsilon": epsilon, "delta": delta}
        head |= {"relation": str(ledger.relation), **({} if unit is None else {"unit": unit})}
        head |= {"reserve": parts, "experiments": experiments}
        try:
            with open(path, "xb", buffering=0) as file:
                _write_through(file, _line(head, _chained("", head)))
            folder = os.open(Path(path).absolute().parent, os.O_RDONLY)
            try:
                os.fsync(folder)  # make the new file name durable (power failure)
            finally:
                os.close(folder)
        except FileExistsError:
            raise InputError(
                f"{path} exists: a budget file is never overwritten, because its entries count; name another file"
            ) from None
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from None
        return cls(path)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]

    @property
    def ledger(self) -> Ledger:
        """All entries that can be read, in one ledger with the total as its budget; see `problem`."""
        with self._locked() as file:
            self._read(file)
        assert self._ledger is not None
        return self._ledger

    @property
    def protects(self) -> str:
        """What each release protects: one row, or one privacy unit by its column."""
        return protected(self.ledger.neighbours.unit)

    @property
    def problem(self) -> str:
        """Why the cost of the entries is unknown, so that everything counts as spent; else empty."""
        with self._locked() as file:
            self._read(file)
        return self._problem()

    @property
    def n_seeded(self) -> int:
        """Number of events with seeded noise, or with noise of unknown origin."""
        with self._locked() as file:
            self._read(file)
        return len(self._seeded)

    @property
    def epsilon_spent(self) -> float:
        """Cost of all entries at the delta of the total; infinity if the cost is unknown."""
        ledger = self.ledger
        if self._problem():
            return math.inf
        return (ledger.epsilon_spent or 0.0) if ledger.events else 0.0

    def releases(self) -> list[tuple[str, int]]:
        """Return the name of each release and its number of events, in the order of the releases."""
        with self._locked() as file:
            self._read(file)
        return list(self._releases.items())

    def remaining_budget(self) -> tuple[float, float]:
        """Return the (epsilon, delta) that remains for one more fit. Raise `PrivacyError` if nothing remains."""
        ledger = self.ledger
        if problem := self._problem():
            raise PrivacyError(f"nothing is left: {problem}")
        return ledger.remaining_budget()

    def check_unit(self, unit: Unit | None) -> None:
        """Raise `InputError` if a release that protects `unit` cannot be entered: the file protects another one."""
        self._check_unit(unit, self.ledger)

    def _check_unit(self, unit: Unit | None, ledger: Ledger) -> None:
        own = ledger.neighbours.unit
        if (own and own.column) == (unit and unit.column):
            check_same_unit(unit, own)  # the types of their keys
            return
        option, fix = "", ""
        if unit is not None:
            option = f" --unit {shlex.quote(unit.column)}"
        elif own is not None:
            fix = f"name the unit in the domain (unit: {own.column}), or "
        raise InputError(
            f"{self.path} protects {protected(own)}, this release protects {protected(unit)}, and their costs do not "
            f"add up: {fix}open another budget file by `marginalia budget open FILE --epsilon E{option}`"
        )

    def check_room(self, epsilon: float, delta: float) -> None:
        """Raise `RefusedError` if a fit with this budget does not fit in, before its first release is spent in vain."""
        ledger = self.ledger
        if problem := self._problem():
            raise RefusedError(f"{self.path}: refused: nothing is left: {problem}")
        assert ledger.filter is not None
        assert ledger.budget is not None
        request, (_, total) = f"epsilon {epsilon:g} at delta {delta:g} is asked for", ledger.budget
        if delta > total * (1 + ROUNDING):
            raise RefusedError(f"{self.path}: refused: {request}, the delta of the file is {total:g}")
        if not ledger.filter.has_room(epsilon, delta):
            left = f"epsilon {ledger.filter.remaining_epsilon(delta):.4g} at delta {delta:g} is left beside the reserve"
            raise RefusedError(f"{self.path}: refused: {request}, {left}")

    def record(self, event: Event, neighbours: Neighbours, randomness: str, release: str) -> None:
        """Record an event. When this returns, the event is on the disk and its noise may be drawn.

        Parameters
        ----------
        event : Event
        neighbours : Neighbours
            Of the ledger that charges the event.
        randomness : str
        release : str
            Name of the release that the event is part of, for people who read the file.

        Raises
        ------
        RefusedError
            The total would be exceeded, the cost of the entries is unknown, or the noise is seeded and the file was not
            opened for experiments. Nothing is recorded.
        InputError
            The event has the other relation or another privacy unit, or the file cannot be written.
        """
        with self._locked() as file:
            self._read(file)
            assert self._ledger is not None
            entry: dict[str, Any] = {"release": release, "at": datetime.now(UTC).isoformat(timespec="seconds")}
            entry |= {"relation": str(neighbours.relation), "randomness": randomness, "event": describe(event)}
            if neighbours.unit is not None:
                entry["unit"] = neighbours.unit.summary()
            self._check_addition(randomness)
            self._check_unit(neighbours.unit, self._ledger)
            converted = convert_event(event, neighbours.relation, self._ledger.relation)
            self._ledger.calibration = "tight"  # old entries always count; new ones may be refused
            try:
                self._ledger.append(converted, randomness)
            except PrivacyError as error:
                fails = any(isinstance(part, FailureEvent) for part in count_events(converted))
                raise RefusedError(f"{self.path}: {error}{_MORE_RESERVE * fails}") from None
            self._adopt_unit_type(entry.get("unit"))
            chain = _chained(self._chain, entry)
            line, end = _line(entry, chain), file.seek(0, os.SEEK_END)
            if not _ends_with_line(file):
                line, self._number = b"\n" + line, self._number + 1
            try:
                _write_through(file, line)
            except OSError as error:
                with suppress(OSError):
                    file.truncate(end)  # cuts off this line alone, of which no noise was drawn
                self._reset()
                raise InputError(f"cannot write {self.path}: {error.strerror}; nothing is released") from None
            self._chain, self._is_chained = chain, True
            self._count(randomness, release)
            self._offset, self._number = end + len(line), self._number + 1

    def _check_addition(self, randomness: str) -> None:
        """Raise `RefusedError` if the cost of the next release cannot be added to that of the entries."""
        if problem := self._problem():
            raise RefusedError(f"{self.path}: refused: nothing is left: {problem}")
        if randomness != "system" and not self.experiments:
            kind = "a seeded release" if randomness else "a release that does not say where its noise comes from"
            fix = "leave the seed out, or open a file with --experiments"
            raise RefusedError(f"{self.path}: refused: {kind}, and the file was not opened for experiments; {fix}")

    def _problem(self) -> str:
        fix = "everything counts as spent; restore the file from a copy, or open another one for later releases"
        if self._is_torn:
            return f"line {self._number} is unfinished and its cost cannot be read, so {fix}"
        if len(self._seeded) > 1 and not self.experiments:
            entries = f"{len(self._seeded)} entries, the first in line {self._seeded[0]}, are seeded"
            reason = f"{entries} and their noise may be the same, so that their costs do not add up"
            return f"{reason}: everything counts as spent; open another file for later releases"
        return ""

    @contextmanager
    def _locked(self) -> Iterator[FileIO]:
        """Open the file for one process and one thread at a time; a killed process leaves no lock."""
        try:
            file = open(self.path, "r+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise InputError(f"cannot open the budget file {self.path}: {error.strerror}") from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _read(self, file: FileIO) -> None:
        """Read the lines that were added since the last call, among them a last line without a line end."""
        if os.fstat(file.fileno()).st_size < self._offset:
            raise InputError(f"{self.path} has become shorter: a budget file only grows; restore it from a copy")
        file.seek(self._offset)
        *lines, unfinished = file.read().split(b"\n")
        try:
            for line in lines:
                self._read_line(line)
                self._offset, self._number = self._offset + len(line) + 1, self._number + 1
            self._is_torn = not _is_json(unfinished)
            if not self._is_torn:
                self._read_line(unfinished)
                self._offset += len(unfinished)
            if self._ledger is None:
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, PrivacyError):
            number, is_head = self._number, self._ledger is None
            self._reset()
            if is_head:
                raise InputError(f"{self.path} is not a budget file that `marginalia budget open` wrote") from None
            reason = f"line {number} was changed, or a line before it was changed, moved or removed"
            raise InputError(f"{self.path}: {reason}; restore the file from a copy") from None

    def _read_line(self, line: bytes) -> None:
        """Count the entry of a line, unless the line is blank; raise an error if the line was changed."""
        if not line.strip():
            return
        entry = json.loads(line)
        chain = entry.pop("chain", None)
        self._chain = _chained(self._chain, entry)
        is_head = self._ledger is None
        if is_head:
            self._read_head(entry)
        assert self._ledger is not None
        self._is_chained |= chain is not None
        # In a file without hashes a blank line between entries may have been an entry: it counts as a change.
        is_next = chain == self._chain if self._is_chained else self._number == self._last_entry + 1
        if not is_next:
            raise ValueError
        self._last_entry = self._number
        if is_head:
            return
        self._ledger.calibration = "published"  # old entries always count, also beyond the total
        event = convert_event(rebuild(entry["event"]), Relation(entry["relation"]), self._ledger.relation)
        self._ledger.append(event, entry["randomness"])
        self._count(entry["randomness"], str(entry["release"]))
        self._adopt_unit_type(entry.get("unit"))

    def _read_head(self, head: dict[str, Any]) -> None:
        if head["format"] != FORMAT or head["version"] not in (1, 2, FORMAT_VERSION):
            raise ValueError
        self.id, self.experiments, self.version = str(head["id"]), bool(head.get("experiments")), head["version"]
        self._is_chained = self.version > 1
        reserve = tuple(head["reserve"]) if self.version > 2 else (0.0, 0.0)
        total = {"epsilon": head["epsilon"], "delta": head["delta"], "unit": _unit(head.get("unit"))}
        self._ledger = Ledger(head["relation"], **total, reserve=reserve)
        if self.version < 3:
            relation = self._ledger.relation
            self._ledger.filter = OneOf.of_earlier_versions(relation, epsilon=head["epsilon"], delta=head["delta"])

    def _count(self, randomness: str, release: str) -> None:
        self._releases[release] += 1
        self._last_entry = self._number
        if randomness != "system":
            self._seeded.append(self._number)

    def _adopt_unit_type(self, unit: dict[str, Any] | None) -> None:
        """Require later releases to read the keys of units by the type of this one; see `check_same_unit`."""
        assert self._ledger is not None
        own = self._ledger.neighbours
        if own.unit is not None and unit is not None and "type" in unit:
            self._ledger.neighbours = replace(own, unit=replace(own.unit, type=unit["type"]))


class ReleaseRecorder:
    """Records the events of one release in an odometer; the ledger of the fit calls it for each event.

    Attributes
    ----------
    odometer : PrivacyOdometer
    release : str
        Name of the release in the budget file.
    n_recorded : int
        Number of events so far.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from marginalia.privacy.events import GaussianEvent
    >>> with TemporaryDirectory() as folder:
    ...     odometer = PrivacyOdometer.create(f"{folder}/t.budget", "add_remove", epsilon=1.0, delta=1e-5)
    ...     recorder = ReleaseRecorder(odometer, "ages")
    ...     ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, recorder=recorder)
    ...     ledger.append(GaussianEvent(1.0, 4.0), "system")
    ...     recorder.n_recorded, odometer.releases()
    (1, [('ages', 1)])
    """

    def __init__(self, odometer: PrivacyOdometer, release: str) -> None:
        self.odometer, self.release, self.n_recorded = odometer, release, 0

    def record(self, event: Event, neighbours: Neighbours, randomness: str) -> None:
        """Record an event; see `PrivacyOdometer.record`."""
        self.odometer.record(event, neighbours, randomness, self.release)
        self.n_recorded += 1

    def check_complete(self, model: Any, method: str) -> None:
        """Raise `RefusedError` unless all events of a fitted model were recorded here."""
        ledger, path = getattr(model, "ledger_", None), self.odometer.path
        if ledger is None:
            raise RefusedError(f"method '{method}' is not private: {path} has no total that would allow it")
        if type(ledger) is not Ledger or len(ledger.events) != self.n_recorded:
            raise RefusedError(
                f"method '{method}' does not record its releases in the budget file {path}: nothing of it is released"
            )


def current_recorder() -> ReleaseRecorder | None:
    """Return the recorder of the `charging` block around this call, or None; a new ledger takes it as ``recorder``.

    It is a context variable: a thread never records its events in the budget file of another thread.

    >>> current_recorder() is None
    True
    """
    return _recorder.get()


@contextmanager
def charging(odometer: PrivacyOdometer, release: str) -> Iterator[ReleaseRecorder]:
    """Record the events of all fits in the body, before their noise is drawn.

    A thread that is started in the body has its own context without an odometer: `ReleaseRecorder.check_complete`
    reports that its fits were not recorded.

    Raises
    ------
    InputError
        Another odometer is being charged: a release is recorded once.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from marginalia.privacy.events import GaussianEvent
    >>> with TemporaryDirectory() as folder:
    ...     odometer = PrivacyOdometer.create(f"{folder}/t.budget", "add_remove", epsilon=1.0, delta=1e-5)
    ...     with charging(odometer, "ages"):
    ...         Ledger("add_remove", recorder=current_recorder()).append(GaussianEvent(1.0, 8.0), "system")
    ...     odometer.releases()
    [('ages', 1)]
    """
    current = current_recorder()
    if current is not None:
        raise InputError(f"the budget file {current.odometer.path} is open: a release is recorded once")
    recorder = ReleaseRecorder(odometer, release)
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)


def _unit(column: str | None) -> Unit | None:
    return None if column is None else Unit(column)


def _chained(chain: str, entry: dict[str, Any]) -> str:
    """Return the hash of a line after a line with the hash `chain`, which is empty for the first line."""
    return hashlib.sha256(f"{chain}\n{json.dumps(entry)}".encode()).hexdigest()


def _line(entry: dict[str, Any], chain: str) -> bytes:
    return (json.dumps({**entry, "chain": chain}) + "\n").encode()


def _is_json(text: bytes) -> bool:
    """Whether a text is blank or JSON; a JSON object that was cut off is not."""
    try:
        json.loads(text.strip() or "{}")
    except (ValueError, RecursionError):
        return False
    return True


def _ends_with_line(file: FileIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _write_through(file: FileIO, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())
