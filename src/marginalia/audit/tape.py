"""Recording one fit, and making another fit release what the first one did.

Everything that a fit draws comes from its seed, apart from what is forced here: the releases, and which rows are in a
Poisson sample. So whatever else differs between two fits differs by their rows.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy.events import Event
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import Exact, MechanismCall, intercepting
from marginalia.privacy.noise.samplers import BitSource


@contextlib.contextmanager
def replaced(owner: Any, name: str, by: Callable[..., Any]) -> Iterator[None]:
    """Have another function in the place of one of a class or a module, for what the body calls.

    The audit watches code that it does not own, a user's too, and that was not written to be watched.
    """
    before = vars(owner)[name]  # as it stands there: a class method is not yet bound
    setattr(owner, name, by)
    try:
        yield
    finally:
        setattr(owner, name, before)


class Enough(BaseException):
    """Ends a fit of which only the first releases are wanted."""


class Diverged(BaseException):
    """A fit asked for another release than the recorded one."""


@dataclass(frozen=True)
class Step:
    """One release: what was asked, the exact value where it was evaluated, and what was released."""

    call: MechanismCall
    exact: NDArray[np.int64] | dict[str, int] | None  # of a partition by category
    released: Any


@dataclass
class Tape:
    """Listens to one fit; with `forced`, releases what an earlier one recorded.

    Attributes
    ----------
    forced : sequence of Step, optional
    exact : bool
        Whether exact values are evaluated. Those of a selection are then all evaluated; without, as few as it needs.
    most : int, optional
        Ends the fit (`Enough`) after so many releases.
    ids : ndarray of int, optional
        Who each row is. With it, Poisson samples take rows by who they are and not by where they stand.
    secret : int
        Seed of these samples.
    always : int, optional
        A row that is in every sample.
    """

    forced: Sequence[Step] | None = None
    exact: bool = False
    most: int | None = None
    ids: NDArray[np.int64] | None = None
    secret: int = 0
    always: int | None = None
    steps: list[Step] = field(default_factory=list)
    samples: list[tuple[int, float]] = field(default_factory=list)  # rows and rate of each Poisson sample
    runs: list[int] = field(default_factory=list)  # geometric draws
    booked: int = 0  # events
    unpaid: bool = False  # whether a release came before anything was booked

    def __call__(self, call: MechanismCall, exact: Exact, draw: Callable[[], Any]) -> Any:
        """Record one release (a hook of `hooks.intercepting`)."""
        at = len(self.steps)
        self.unpaid |= not self.booked
        if self.forced is None:
            value = draw()
        else:
            if at >= len(self.forced):
                raise Diverged(f"asks for release {at + 1} ({_short(call)}), which the first table did not")
            if call != self.forced[at].call:
                raise Diverged(f"release {at + 1} is {_short(call)}; on the first table {_short(self.forced[at].call)}")
            value = self.forced[at].released
            if not self.exact or call.mechanism == "objective":
                draw()  # for what drawing leaves behind
        evaluated: Any = None
        if self.exact and call.mechanism != "objective":
            found = exact()
            evaluated = dict(found) if call.mechanism == "partition" else np.array(found, dtype=np.int64)
        value = np.array(value) if isinstance(value, np.ndarray) else value
        self.steps.append(Step(call, evaluated, value))
        if self.most is not None and len(self.steps) >= self.most:
            raise Enough
        return np.array(value) if isinstance(value, np.ndarray) else value

    def coins(self, n: int, rate: float) -> NDArray[np.intp]:
        """Return a Poisson sample of the rows, the same rows whatever other rows there are."""
        rng = np.random.default_rng([self.secret, len(self.samples)])
        self.samples.append((n, float(rate)))
        known = self.ids is not None and len(self.ids) == n
        ids = self.ids if known and self.ids is not None else np.arange(n)
        taken = rng.random(int(ids.max(initial=0)) + 1)[ids] < rate
        if self.always is not None:
            taken |= ids == self.always
        return np.flatnonzero(taken)

    @contextlib.contextmanager
    def playing(self) -> Iterator[None]:
        """Listen to all releases and Poisson samples inside the ``with`` block."""
        geometric = BitSource.geometric

        def counted(source: BitSource, r: float) -> int:
            self.runs.append(geometric(source, r))
            return self.runs[-1]

        coins = replaced(BitSource, "coins", lambda source, n, rate: self.coins(n, rate))
        append = Ledger.append

        def booked(ledger: Ledger, event: Event, randomness: str = "") -> None:
            append(ledger, event, randomness)
            self.booked += 1

        geometrics, events = replaced(BitSource, "geometric", counted), replaced(Ledger, "append", booked)
        with intercepting(self), coins, geometrics, events:
            yield


@dataclass
class Played:
    """How one fit went."""

    tape: Tape
    model: Any = None  # None if it failed, or was ended
    refused: str = ""  # type and message of what it raised
    diverged: str = ""
    said: tuple[str, ...] = ()  # warnings and printed lines


def play(fit: Callable[[], Any], tape: Tape) -> Played:
    """Fit under a tape and return what came of it."""
    played = Played(tape)
    printed = io.StringIO()
    with (
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        tape.playing(),
    ):
        warnings.simplefilter("always")
        try:
            played.model = fit()
        except Enough:
            pass
        except Diverged as error:
            played.diverged = str(error)
        except Exception as error:  # also of a user's own class
            played.refused = f"{type(error).__name__}: {error}"
    played.said = (*(f"{w.category.__name__}: {w.message}" for w in caught), *printed.getvalue().splitlines())
    return played


def _short(call: MechanismCall) -> str:
    label = f" '{call.label}'" if call.label else ""
    return f"{call.mechanism}{label} {call.shape}, sensitivity {call.sensitivity:.9g}, scale {call.scale:.9g}"
