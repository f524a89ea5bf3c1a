"""A book for a table: a file with a total (epsilon, delta) in which every release is entered before its noise is drawn.

One JSON object a line: first the total and its relation, then an entry for each event. An entry is written under a lock
and has reached the disk before the ledger of the fit goes on to draw noise: whatever a process dies of, and whenever, a
release that was made is in the book. Lines are only ever added.

What the entries cost is computed as for one ledger, by all accountants (`privacy.accountants.composition`). Parameters
of Gaussian releases and selections may follow from what was released before; those of Laplace releases and of runs on
Poisson samples are taken as chosen beforehand.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

from marginalia.data.units import Unit
from marginalia.errors import InputError, PrivacyError
from marginalia.privacy.events import Event, describe, rebuild
from marginalia.privacy.ledger import TOLERANCE, Ledger
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.together import check_unit, under

FORMAT = "marginalia-book"
FORMAT_VERSION = 1

_booking: ContextVar[Booking | None] = ContextVar("booking", default=None)


class RefusedError(PrivacyError):
    """A book has no room for a release, or cannot know what it is: nothing of it is released.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     Book.create(f"{folder}/t.book", "add_remove", epsilon=1.0, delta=1e-5).check_room(2.0, 1e-5)
    Traceback (most recent call last):
    marginalia.privacy.book.RefusedError: ...t.book: refused: epsilon 2 at delta 1e-05 is asked for, epsilon 1 at ...
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

    Raises
    ------
    InputError
        The file cannot be read, or is no book.

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
    marginalia.privacy.book.RefusedError: ...t.book: refused: with GaussianEvent epsilon 1.36 of 1 at delta 1e-05 ...
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.id = ""
        self._forget()
        with self._locked() as file:
            self._read(file)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        relation: Relation | str,
        *,
        epsilon: float,
        delta: float,
        unit: str | None = None,
    ) -> Book:
        """Write a book without entries, of releases that protect rows, or units of rows; no file is overwritten."""
        ledger = Ledger(relation, epsilon=epsilon, delta=delta, unit=_unit(unit))  # checks them
        head = {"format": FORMAT, "version": FORMAT_VERSION, "id": token_hex(16), "epsilon": epsilon, "delta": delta}
        head |= {"relation": str(ledger.relation), **({} if unit is None else {"unit": unit})}
        line = json.dumps(head) + "\n"
        try:
            with open(path, "xb") as file:
                _write_through(file, line)
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
        """All entries so far, in one ledger with the total as its budget."""
        with self._locked() as file:
            self._read(file)
        assert self._ledger is not None
        return self._ledger

    def releases(self) -> list[tuple[str, int]]:
        """Return what was released, in order, with the number of its events."""
        with self._locked() as file:
            self._read(file)
        return list(self._releases.items())

    def left(self) -> tuple[float, float]:
        """Return the (epsilon, delta) that is left for one more fit; `PrivacyError` where nothing is."""
        return self.ledger.left()

    def check_room(self, epsilon: float, delta: float) -> None:
        """Raise `RefusedError` where a fit would have to stop half-way, its first releases made for nothing."""
        try:
            left = self.left()
        except PrivacyError as error:
            raise RefusedError(f"{self.path}: refused: {error}") from None
        if epsilon > left[0] * (1 + TOLERANCE) or delta > left[1] * (1 + TOLERANCE):
            shown = f"epsilon {left[0]:.4g} at delta {left[1]:.3g} is left"
            raise RefusedError(f"{self.path}: refused: epsilon {epsilon:g} at delta {delta:g} is asked for, {shown}")

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
            The total would be exceeded; nothing is entered.
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
            check_unit(neighbours.unit, self._ledger.neighbours.unit)
            counted = under(event, neighbours.relation, self._ledger.relation)
            self._ledger.calibration = "tight"  # what stands in the book is counted, what comes is refused
            try:
                self._ledger.append(counted, randomness)
            except PrivacyError as error:
                raise RefusedError(f"{self.path}: {error}") from None
            self._read_units_as(entry.get("unit"))
            try:
                file.seek(self._at)
                file.truncate()  # of a line that a kill cut off: its noise was never drawn
                self._releases[release] += 1
                self._at += _write_through(file, json.dumps(entry) + "\n")
            except OSError as error:
                self._forget()
                raise InputError(f"cannot write {self.path}: {error.strerror}; nothing is released") from None

    def _forget(self) -> None:
        self._at = 0  # the bytes that have been read
        self._ledger: Ledger | None = None
        self._releases: Counter[str] = Counter()

    @contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        """Open the book for one process and one thread at a time; a process that is killed leaves no lock behind."""
        try:
            file = open(self.path, "r+b")  # noqa: SIM115
        except OSError as error:
            raise InputError(f"cannot open the book {self.path}: {error.strerror}") from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _read(self, file: IO[bytes]) -> None:
        """Read what others have entered since; a last line without an end is one that a kill cut off."""
        if os.fstat(file.fileno()).st_size < self._at:
            raise InputError(f"{self.path} has become shorter: a book only grows")
        try:
            file.seek(self._at)
            *lines, _ = file.read().split(b"\n")
            for line in lines:
                self._take(json.loads(line))
                self._at += len(line) + 1
            if self._ledger is None:
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, PrivacyError):
            self._forget()
            raise InputError(f"{self.path} is no book that `marginalia budget open` wrote") from None

    def _take(self, line: dict[str, Any]) -> None:
        if self._ledger is None:
            if (line["format"], line["version"]) != (FORMAT, FORMAT_VERSION):
                raise ValueError
            self.id = str(line["id"])
            total = {"epsilon": line["epsilon"], "delta": line["delta"], "unit": _unit(line.get("unit"))}
            self._ledger = Ledger(line["relation"], **total)
            return
        self._ledger.calibration = "published"  # what was released counts, whatever it costs
        event = under(rebuild(line["event"]), Relation(line["relation"]), self._ledger.relation)
        self._ledger.append(event, line["randomness"])
        self._releases[str(line["release"])] += 1
        self._read_units_as(line.get("unit"))

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


def _write_through(file: IO[bytes], line: str) -> int:
    written = file.write(line.encode())
    file.flush()
    os.fsync(file.fileno())
    return written
