"""What a job prints goes to its log file; an error that the user can repair is one line there and on the terminal."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import TextIO

from marginalia.errors import OF_THE_DISK, InputError, one_line
from marginalia.sweep.isolate import end_with_parent, ended_by_signals


@contextmanager
def logged(path: str | os.PathLike[str]) -> Iterator[None]:
    """Send what the body prints to a log file; an error ends the process after it was written there.

    The process ends with the Snakemake that started it: the next one would start the same job beside it.
    """
    end_with_parent(os.getppid())
    with _log(path) as log, redirect_stdout(log), redirect_stderr(log), ended_by_signals():
        try:
            yield
        except Exception as error:
            line = _line(error)
            if not line:
                traceback.print_exc()
                sys.exit(1)
            for stream in (log, sys.__stderr__):
                say(f"marginalia: {line}", stream)
            sys.exit(2)
        except (KeyboardInterrupt, SystemExit) as end:
            code = end.code if isinstance(end, SystemExit) else 128 + signal.SIGINT
            if isinstance(code, int) and code > 128:
                for stream in (log, sys.__stderr__):
                    say(f"marginalia: stopped by {signal.Signals(code - 128).name}", stream)
            sys.exit(code)


def say(line: str, stream: TextIO | None = None) -> None:
    """Print a line, where that can be done."""
    with suppress(OSError, ValueError):
        print(line, file=stream, flush=True)


@contextmanager
def _log(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    log = open(path, "w", buffering=1, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    try:
        yield log
    finally:
        with suppress(OSError):  # of a full disk: it has been said
            log.close()


def _line(error: Exception) -> str:
    """Return the one line to show of a bad input or a full disk; of any other error nothing."""
    if isinstance(error, OSError) and error.errno in OF_THE_DISK:
        return one_line(f"cannot go on: {error}; free the disk and run the same command again")
    return str(error) if isinstance(error, InputError) else ""
