"""What a long piece of work shows on standard error: a bar with the part that is done and the time that is left.

Nothing is shown unless the command line finds somebody looking on (`showing`), or a caller asks for it (``verbose``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from threading import Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

COMPILING = "marginalia: compiling for this machine, once; it takes up to a minute"

_quiet = False
_display: ContextVar[Progress | None] = ContextVar("display", default=None)


@contextmanager
def no_progress() -> Iterator[None]:
    """Show nothing in the body, as `--quiet` of every verb says."""
    global _quiet
    before, _quiet = _quiet, True
    try:
        yield
    finally:
        _quiet = before


@contextmanager
def showing(label: str = "", *, quiet: bool = False, stay: bool = False, after: float = 0.0) -> Iterator[None]:
    """Show `label` with the time since, and under it the bars of the body, where standard error is a terminal.

    Parameters
    ----------
    label : str
    quiet : bool
        Show nothing.
    stay : bool
        Show them anywhere, and leave them there at the end.
    after : float, default 0.0
        Seconds before they are shown. A body that ends earlier shows nothing.

    >>> with showing("fitting", quiet=True):
    ...     pass
    """
    if quiet or _quiet or _display.get() is not None or not (stay or sys.stderr.isatty()):
        yield
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        *(SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn()),
        *(TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()),
    )
    where = Console(stderr=True)
    display = Progress(*columns, console=where, transient=not stay, refresh_per_second=4)
    if label:
        display.add_task(label, total=None)
    start = Timer(after, display.start)
    start.daemon = True
    before = _display.set(display)
    try:
        start.start() if after else display.start()
        yield
    finally:
        if after:
            start.cancel()
            start.join()
        display.stop()
        _display.reset(before)


@contextmanager
def bar(what: str, total: float | None, *, verbose: bool = False) -> Iterator[Callable[[float], None]]:
    """Yield a function that says how much more of `total` is done; None: how much there is to do is not known.

    >>> with bar("columns", 2) as advance:
    ...     advance(1)
    """
    with showing(stay=True) if verbose else nullcontext():
        display = _display.get()
        if display is None:
            yield lambda done: None
            return
        task = display.add_task(what, total=total)
        try:
            yield lambda done: display.advance(task, done)
        finally:
            if not verbose:
                display.remove_task(task)


@cache
def say_when_compiling() -> None:
    """Say once, in one line on standard error, when numba begins to compile: without it a first fit seems to hang."""
    from numba.core import event

    said = False

    class Listener(event.Listener):
        def on_start(self, event: object) -> None:
            nonlocal said
            if not (said or _quiet):
                said = True
                print(COMPILING, file=sys.stderr)

        def on_end(self, event: object) -> None:
            pass

    event.register("numba:compile", Listener())
