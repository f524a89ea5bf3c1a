"""Recording the releases of one fit, and forcing them on another fit.

A fit draws everything from its seed, except the releases and the Poisson samples, which the tape supplies. So two fits
with one seed and one list of forced releases differ by their rows alone.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.privacy.events import Event
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import Exact, MechanismCall, intercepting
from marginalia.privacy.noise.samplers import BitSource


@contextlib.contextmanager
def replaced(owner: Any, name: str, by: Callable[..., Any]) -> Iterator[None]:
    """Replace a function of a class or a module inside the ``with`` block.

    The audit watches code that it does not own, a user's too, and that was not written to be watched.
    """
    before = vars(owner)[name]  # not getattr: that would bind a class method
    setattr(owner, name, by)
    try:
        yield
    finally:
        setattr(owner, name, before)


class StopReplay(BaseException):
    """Ends a fit of which only the first releases are wanted."""


class Diverged(BaseException):
    """A fit requested another release than the recorded one."""


@dataclass(frozen=True)
class Release:
    """One release: the call of the mechanism, the exact value where it was evaluated, and the released value."""

    call: MechanismCall
    exact: NDArray[np.int64] | dict[str, int] | None  # of a partition by category
    value: Any


@dataclass
class Tape:
    """Records the releases of one fit. With `forced`, the fit releases these values in place of its own.

    Attributes
    ----------
    forced : sequence of Release, optional
    exact : bool
        Whether exact values are evaluated. Those of a selection are then all evaluated; without, as few as it needs.
    most : int, optional
        Ends the fit (`StopReplay`) after this many releases.
    ids : ndarray of int, optional
        Who each row is. With it, Poisson samples take rows by who they are and not by where they stand.
    secret : int
        Seed of these samples.
    always : int or array of int, optional
        Rows that are in every sample: by `ids`, or by their places.
    """

    forced: Sequence[Release] | None = None
    exact: bool = False
    most: int | None = None
    ids: NDArray[np.int64] | None = None
    secret: int = 0
    always: ArrayLike | None = None
    releases: list[Release] = field(default_factory=list)
    samples: list[tuple[int, float]] = field(default_factory=list)  # rows and rate of each Poisson sample
    runs: list[int] = field(default_factory=list)  # geometric draws
    charges: int = 0  # events
    uncharged: bool = False  # whether a release came before anything was charged

    def __call__(self, call: MechanismCall, exact: Exact, draw: Callable[[], Any]) -> Any:
        """Record one release (a hook of `hooks.intercepting`)."""
        number = len(self.releases)
        self.uncharged |= not self.charges
        if self.forced is None:
            value = draw()
        else:
            if number >= len(self.forced):
                raise Diverged(f"asks for release {number + 1} ({_short(call)}), which the first table did not")
            if call != (recorded := self.forced[number].call):
                raise Diverged(f"release {number + 1} is {_short(call)}; on the first table {_short(recorded)}")
            value = self.forced[number].value
            if not self.exact or call.mechanism == "objective":
                draw()  # for what drawing leaves behind
        evaluated: Any = None
        if self.exact and call.mechanism != "objective":
            content = exact()
            evaluated = dict(content) if call.mechanism == "partition" else np.array(content, dtype=np.int64)
        value = np.array(value) if isinstance(value, np.ndarray) else value
        self.releases.append(Release(call, evaluated, value))
        if self.most is not None and len(self.releases) >= self.most:
            raise StopReplay
        return np.array(value) if isinstance(value, np.ndarray) else value

    def coins(self, n: int, rate: float) -> NDArray[np.intp]:
        """Return a Poisson sample of the rows, the same rows whatever other rows there are."""
        rng = np.random.default_rng([self.secret, len(self.samples)])
        self.samples.append((n, float(rate)))
        known = self.ids is not None and len(self.ids) == n
        ids = self.ids if known and self.ids is not None else np.arange(n)
        sampled = rng.random(int(ids.max(initial=0)) + 1)[ids] < rate
        if self.always is not None:
            sampled |= np.isin(ids, self.always)
        return np.flatnonzero(sampled)

    @contextlib.contextmanager
    def playing(self) -> Iterator[None]:
        """Intercept all releases, Poisson samples, geometric draws and charges inside the ``with`` block."""
        geometric, append = BitSource.geometric, Ledger.append

        def counted_geometric(source: BitSource, r: float) -> int:
            self.runs.append(geometric(source, r))
            return self.runs[-1]

        def counted_append(ledger: Ledger, event: Event, randomness: str = "") -> None:
            append(ledger, event, randomness)
            self.charges += 1

        with (
            intercepting(self),
            replaced(BitSource, "coins", lambda source, n, rate: self.coins(n, rate)),
            replaced(BitSource, "geometric", counted_geometric),
            replaced(Ledger, "append", counted_append),
        ):
            yield


@dataclass
class ReplayResult:
    """The outcome of one fit under a tape."""

    tape: Tape
    model: Any = None  # None if the fit failed, or was ended
    error: str = ""  # type and message of the exception
    divergence: str = ""
    messages: tuple[str, ...] = ()  # warnings and printed lines

    @property
    def releases(self) -> list[Release]:
        """The releases of the fit."""
        return self.tape.releases

    @property
    def failure(self) -> str:
        """Why there is no model; empty if there is one, or the fit was ended."""
        return self.error or self.divergence

    def with_exact(self, forced: ReplayResult) -> list[Release]:
        """Return the releases with the exact values of a second fit, on which they were forced."""
        exact = [release.exact for release in forced.releases]
        exact += [None] * (len(self.releases) - len(exact))
        return [replace(one, exact=value) for one, value in zip(self.releases, exact, strict=True)]


def play(fit: Callable[[], Any], tape: Tape) -> ReplayResult:
    """Fit under a tape and return the outcome."""
    result = ReplayResult(tape)
    printed = io.StringIO()
    with (
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        tape.playing(),
    ):
        warnings.simplefilter("always")
        try:
            result.model = fit()
        except StopReplay:
            pass
        except Diverged as error:
            result.divergence = str(error)
        except Exception as error:  # also of a user's own class
            result.error = f"{type(error).__name__}: {error}"
    result.messages = (*(f"{w.category.__name__}: {w.message}" for w in caught), *printed.getvalue().splitlines())
    return result


def exact_releases(fit: Callable[[], Any], ids: NDArray[np.int64] | None = None) -> list[Release]:
    """Return the releases of one fit with their exact values, which a second, forced fit evaluates."""
    recorded = play(fit, Tape(ids=ids))
    return recorded.with_exact(play(fit, Tape(recorded.releases, exact=True, ids=ids)))


def _short(call: MechanismCall) -> str:
    label = f" '{call.label}'" if call.label else ""
    return f"{call.mechanism}{label} {call.shape}, sensitivity {call.sensitivity:.9g}, scale {call.scale:.9g}"
