"""A book for a table: a file with a total (epsilon, delta) in which every release is entered before its noise is drawn.

One JSON object a line: first the total and its relation, then an entry for each event. An entry is written under a lock
and has reached the disk before the ledger of the fit goes on to draw noise: whatever a process dies of, and whenever, a
release that was made is in the book. Lines are only ever added.

The lines are a hash chain: ``chain`` of a line is a SHA-256 of the line and of ``chain`` of the line before. A line
that was changed, moved or removed is an error with its number, except for lines removed from the end. Files of version
1 have no hashes; the first line that is added to one covers all lines before it. A last line without a line end counts
like any other. If it cannot be read, its cost is not known and everything counts as spent.

The cost of several releases is a sum only if their noise is independent. Noise from one seed may be the same in two
releases, so that their difference has none. Seeded releases are rejected, unless the file was opened for experiments.

The kind and the parameters of the next release may follow from earlier answers, so that the total is kept by a filter
(`privacy.filters`): Gaussian DP is the one measure, and a reserve that stands in the first line is for releases without
a parameter of it. Files of versions 1 and 2 fixed no measure. Their entries are priced by two filters, each with half
of delta: wherever the releases stopped, one of them had room, and the deltas of the two add up.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
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
from marginalia.privacy.events import Event, describe, rebuild
from marginalia.privacy.filters import ROUNDING, OneOf
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.together import check_unit, under

FORMAT = "marginalia-book"
# Version 1: lines have no hashes, and seeded releases were added up like any others. Versions 1 and 2: no reserve, and
# the smallest bound of all accountants was the price.
FORMAT_VERSION = 3

_booking: ContextVar[Booking | None] = ContextVar("booking", default=None)


class RefusedError(PrivacyError):
    """A book has no room for a release, or cannot know what it is: nothing of it is released.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     Book.create(f"{folder}/t.book", "add_remove", epsilon=1.0, delta=1e-5).check_room(2.0, 1e-5)
    Traceback (most recent call last):
    marginalia.privacy.book.RefusedError: ...t.book: refused: epsilon 2 at delta 1e-05 is asked for, epsilon 0.993...
    """


class Book:
    """The book of a table.

    Parameters
    ----------
    path : path
        Written by `Book.create`.

    Attributes
    ----------
    path : Path
    id : str
        Of no other book, wherever the file is moved.
    experiments : bool
        Whether it was opened for experiments and accepts seeded releases.
    version : int
        Of the file format.

    Raises
    ------
    InputError
        The file cannot be read, or is no book; or a line was changed, moved or removed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from marginalia.privacy.events import GaussianEvent
    >>> rows = Neighbours(Relation.ADD_REMOVE)
    >>> with TemporaryDirectory() as folder:
    ...     book = Book.create(f"{folder}/t.book", "add_remove", epsilon=1.0, delta=1e-5)
    ...     book.enter(GaussianEvent(1.0, 4.0), rows, "system", "ages")
    ...     book.enter(GaussianEvent(1.0, 4.0), rows, "system", "pay")
    Traceback (most recent call last):
    marginalia.privacy.book.RefusedError: ...t.book: refused: with GaussianEvent epsilon 1.37 of 1 at delta 9e-06 ...
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.id = ""
        self.experiments = False
        self.version = FORMAT_VERSION
        self._forget()
        with self._locked() as file:
            self._read(file)

    def _forget(self) -> None:
        self._at = 0  # the bytes that have been read
        self._number = 1  # of the line at that byte
        self._taken = 0  # number of the last line that holds an entry
        self._chain = ""  # hash of the last line
        self._is_chained = False  # whether that line holds its hash, so that the next one must
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
    ) -> Book:
        """Write a book without entries, of releases that protect rows, or units of rows; no file is overwritten.

        `reserve` is the part of epsilon that is kept for releases without a Gaussian-DP parameter. Half of delta is
        kept beside it, or a tenth where it is 0, for releases that can fail with some probability.

        With `experiments` it accepts seeded releases. Their costs are added up as if their noise were independent,
        which nobody can check, so that the sum is no guarantee.
        """
        kept = (reserve, delta / (2 if reserve else 10))
        ledger = Ledger(relation, epsilon=epsilon, delta=delta, unit=_unit(unit), reserve=kept)  # checks them
        head = {"format": FORMAT, "version": FORMAT_VERSION, "id": token_hex(16), "epsilon": epsilon, "delta": delta}
        head |= {"relation": str(ledger.relation), **({} if unit is None else {"unit": unit})}
        head |= {"reserve": kept, "experiments": experiments}
        try:
            with open(path, "xb", buffering=0) as file:
                _write_through(file, _line(head, _chained("", head)))
            folder = os.open(Path(path).absolute().parent, os.O_RDONLY)
            try:
                os.fsync(folder)  # the name, too, outlives a fall of the power
            finally:
                os.close(folder)
        except FileExistsError:
            raise InputError(f"{path} is there already: a book is never overwritten, as its entries count") from None
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
    def problem(self) -> str:
        """Why the cost of the entries is not known, so that everything counts as spent; else empty."""
        with self._locked() as file:
            self._read(file)
        return self._problem()

    @property
    def n_seeded(self) -> int:
        """Number of events whose noise is seeded, or of which nobody knows where it comes from."""
        with self._locked() as file:
            self._read(file)
        return len(self._seeded)

    def spent(self) -> float:
        """Return the epsilon that all entries cost at the delta of the total; infinity where it is not known.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Book.create(f"{folder}/t.book", "add_remove", epsilon=1.0, delta=1e-5).spent()
        0.0
        """
        ledger = self.ledger
        if self._problem():
            return math.inf
        return (ledger.epsilon_spent or 0.0) if ledger.events else 0.0

    def releases(self) -> list[tuple[str, int]]:
        """Return what was released, in order, with the number of its events."""
        with self._locked() as file:
            self._read(file)
        return list(self._releases.items())

    def left(self) -> tuple[float, float]:
        """Return the (epsilon, delta) that is left for one more fit; `PrivacyError` where nothing is."""
        ledger = self.ledger
        if problem := self._problem():
            raise PrivacyError(f"nothing is left: {problem}")
        return ledger.left()

    def check_room(self, epsilon: float, delta: float) -> None:
        """Raise `RefusedError` where a fit would have to stop half-way, its first releases made for nothing."""
        ledger = self.ledger
        if problem := self._problem():
            raise RefusedError(f"{self.path}: refused: nothing is left: {problem}")
        assert ledger.filter is not None
        assert ledger.budget is not None
        asked, (_, total) = f"epsilon {epsilon:g} at delta {delta:g} is asked for", ledger.budget
        if delta > total * (1 + ROUNDING):
            raise RefusedError(f"{self.path}: refused: {asked}, the delta of the file is {total:g}")
        if not ledger.filter.has_room(epsilon, delta):
            left = f"epsilon {ledger.filter.left(delta):.4g} at delta {delta:g} is left beside the reserve"
            raise RefusedError(f"{self.path}: refused: {asked}, {left}")

    def enter(self, event: Event, neighbours: Neighbours, randomness: str, release: str) -> None:
        """Enter an event; when this returns it is on the disk, and its noise may be drawn.

        Parameters
        ----------
        event : Event
        neighbours : Neighbours
            Of the ledger that books it.
        randomness : str
        release : str
            What it is part of, for whoever reads the book.

        Raises
        ------
        RefusedError
            The total would be exceeded, the cost of the entries is not known, or the noise is seeded and the file was
            not opened for experiments. Nothing is entered.
        InputError
            It is of the other relation or of another unit, or the book cannot be written.
        """
        with self._locked() as file:
            self._read(file)
            assert self._ledger is not None
            entry: dict[str, Any] = {"release": release, "at": datetime.now(UTC).isoformat(timespec="seconds")}
            entry |= {"relation": str(neighbours.relation), "randomness": randomness, "event": describe(event)}
            if neighbours.unit is not None:
                entry["unit"] = neighbours.unit.summary()
            self._check(randomness)
            check_unit(neighbours.unit, self._ledger.neighbours.unit)
            counted = under(event, neighbours.relation, self._ledger.relation)
            self._ledger.calibration = "tight"  # what stands in the book is counted, what comes is refused
            try:
                self._ledger.append(counted, randomness)
            except PrivacyError as error:
                raise RefusedError(f"{self.path}: {error}") from None
            self._read_units_as(entry.get("unit"))
            chain = _chained(self._chain, entry)
            line, end = _line(entry, chain), file.seek(0, os.SEEK_END)
            if not _ends_with_line(file):
                line, self._number = b"\n" + line, self._number + 1
            try:
                _write_through(file, line)
            except OSError as error:
                with suppress(OSError):
                    file.truncate(end)  # cuts off this line alone, of which no noise was drawn
                self._forget()
                raise InputError(f"cannot write {self.path}: {error.strerror}; nothing is released") from None
            self._chain, self._is_chained = chain, True
            self._count(randomness, release)
            self._at, self._number = end + len(line), self._number + 1

    def _check(self, randomness: str) -> None:
        """Raise `RefusedError` where the next release cannot be added to the entries."""
        if problem := self._problem():
            raise RefusedError(f"{self.path}: refused: nothing is left: {problem}")
        if randomness != "system" and not self.experiments:
            which = "a seeded release" if randomness else "a release that does not say where its noise comes from"
            how = "leave the seed out, or open a file with --experiments"
            raise RefusedError(f"{self.path}: refused: {which}, and the file was not opened for experiments; {how}")

    def _problem(self) -> str:
        restore = "everything counts as spent; restore the file from a copy, or open another one for later releases"
        if self._is_torn:
            return f"line {self._number} is unfinished and its cost cannot be read, so {restore}"
        if len(self._seeded) > 1 and not self.experiments:
            which = f"{len(self._seeded)} entries, the first in line {self._seeded[0]}, are seeded"
            why = f"{which} and their noise may be the same, so that their costs do not add up"
            return f"{why}: everything counts as spent; open another file for later releases"
        return ""

    @contextmanager
    def _locked(self) -> Iterator[FileIO]:
        """Open the book for one process and one thread at a time; a process that is killed leaves no lock behind."""
        try:
            file = open(self.path, "r+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise InputError(f"cannot open the book {self.path}: {error.strerror}") from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _read(self, file: FileIO) -> None:
        """Read what was entered since; a last line without an end counts, too."""
        if os.fstat(file.fileno()).st_size < self._at:
            raise InputError(f"{self.path} has become shorter: a book only grows")
        file.seek(self._at)
        *lines, unfinished = file.read().split(b"\n")
        try:
            for line in lines:
                self._take(line)
                self._at, self._number = self._at + len(line) + 1, self._number + 1
            self._is_torn = not _is_json(unfinished)
            if not self._is_torn:
                self._take(unfinished)
                self._at += len(unfinished)
            if self._ledger is None:
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, PrivacyError):
            number, is_head = self._number, self._ledger is None
            self._forget()
            if is_head:
                raise InputError(f"{self.path} is no book that `marginalia budget open` wrote") from None
            why = f"line {number} was changed, or a line before it was changed, moved or removed"
            raise InputError(f"{self.path}: {why}; restore the file from a copy") from None

    def _take(self, line: bytes) -> None:
        """Count the entry of a line, unless it is blank; raise an error where it is not as it was written."""
        if not line.strip():
            return
        entry = json.loads(line)
        chain = entry.pop("chain", None)
        self._chain = _chained(self._chain, entry)
        is_head = self._ledger is None
        if is_head:
            self._open(entry)
        assert self._ledger is not None
        self._is_chained |= chain is not None
        # Without hashes a blank line may have been an entry, so that it counts as changed.
        is_next = chain == self._chain if self._is_chained else self._number == self._taken + 1
        if not is_next:
            raise ValueError
        self._taken = self._number
        if is_head:
            return
        self._ledger.calibration = "published"  # what was released counts, whatever it costs
        event = under(rebuild(entry["event"]), Relation(entry["relation"]), self._ledger.relation)
        self._ledger.append(event, entry["randomness"])
        self._count(entry["randomness"], str(entry["release"]))
        self._read_units_as(entry.get("unit"))

    def _open(self, head: dict[str, Any]) -> None:
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
        self._taken = self._number
        if randomness != "system":
            self._seeded.append(self._number)

    def _read_units_as(self, unit: dict[str, Any] | None) -> None:
        """Let a later release read the keys of units as an earlier one did; see `check_unit`."""
        assert self._ledger is not None
        own = self._ledger.neighbours
        if own.unit is not None and unit is not None and "type" in unit:
            self._ledger.neighbours = replace(own, unit=replace(own.unit, type=unit["type"]))


class _Current:
    """The booking that is open in this context, so that a thread never enters its events in the book of another."""

    def __get__(self, instance: object, owner: type) -> Booking | None:
        return _booking.get()


class Booking:
    """The page of one release in a book: what a ledger enters its events through.

    >>> Booking.now is None
    True
    """

    now = _Current()  # ledgers that are made for a fit take it

    def __init__(self, book: Book, release: str) -> None:
        self.book, self.release, self.entered = book, release, 0

    def enter(self, event: Event, neighbours: Neighbours, randomness: str) -> None:
        """Enter an event; see `Book.enter`."""
        self.book.enter(event, neighbours, randomness, self.release)
        self.entered += 1

    def check(self, model: Any, method: str, source: Any = None) -> None:
        """Raise `RefusedError` unless all that a fitted model releases is entered here, or was with its `source`."""
        ledger = getattr(model, "ledger_", None)
        if ledger is None:
            raise RefusedError(f"method '{method}' is not private: {self.book.path} has no total that would allow it")
        before = 0 if source is None else len(source.ledger_.events)
        if type(ledger) is not Ledger or len(ledger.events) != before + self.entered:
            raise RefusedError(
                f"method '{method}' keeps its own books: nothing of it is released beside {self.book.path}"
            )


@contextmanager
def booked(book: Book, release: str) -> Iterator[Booking]:
    """Let every fit of the body enter its events in a book before their noise is drawn.

    A thread that is started in the body has a context of its own, in which no book is open: `Booking.check` finds that
    its fits were not entered.

    Raises
    ------
    InputError
        A book is open already: a release is entered once.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from marginalia.privacy.events import GaussianEvent
    >>> with TemporaryDirectory() as folder:
    ...     book = Book.create(f"{folder}/t.book", "add_remove", epsilon=1.0, delta=1e-5)
    ...     with booked(book, "ages"):
    ...         Ledger("add_remove", booking=Booking.now).append(GaussianEvent(1.0, 8.0), "system")
    ...     book.releases()
    [('ages', 1)]
    """
    if Booking.now is not None:
        raise InputError(f"the book {Booking.now.book.path} is open: a release is entered once")
    booking = Booking(book, release)
    token = _booking.set(booking)
    try:
        yield booking
    finally:
        _booking.reset(token)


def _unit(column: str | None) -> Unit | None:
    return None if column is None else Unit(column)


def _chained(chain: str, entry: dict[str, Any]) -> str:
    """Return the hash of a line that follows one with the hash `chain`; of the first line, empty."""
    return hashlib.sha256(f"{chain}\n{json.dumps(entry)}".encode()).hexdigest()


def _line(entry: dict[str, Any], chain: str) -> bytes:
    return (json.dumps({**entry, "chain": chain}) + "\n").encode()


def _is_json(text: bytes) -> bool:
    """Whether a text is blank or can be read: JSON objects that were cut off cannot."""
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
