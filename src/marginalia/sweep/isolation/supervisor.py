"""Run a job in a process of its own, which a fit may take down without taking the sweep along.

The supervisor imports none of the libraries that fit: it starts a worker, hears from it which fit it is at, and ends it
when that fit takes too long or too much memory. Whatever ends a worker, the fit that it was at gets rows that say so,
and another worker goes on after it; what had been finished lies in the cell store.

A pool of a library (pebble, loky) would bring the start of a process and its pipe, and a limit of time. It would leave
to be done here what most of this file is about: the memory of a fit with all that it started, their end, the end of a
worker whose supervisor is killed, what ended it (the system's want of memory, a signal, an exit), and its CPU seconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from marginalia.errors import InputError
from marginalia.peers import exchange
from marginalia.sweep.isolation.worker import CUT

LOOK_SECONDS = 0.05  # between two looks at the worker's memory
FAMILY_SECONDS = 1.0  # between two looks at the processes that it has started
END_SECONDS = 5.0  # that a worker has to end, once it has told everything
LONGEST_LINE = 1 << 20  # characters that a worker tells at once
ENDS = ("done", "error", "broken")
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER of Linux: what a dead worker leaves behind becomes a child of this process


class WorkerError(RuntimeError):
    """The process of a job failed, and not in a fit."""


def run_isolated(
    settings: Mapping[str, Any],
    *,
    data: str | os.PathLike[str],
    seed: int,
    store: str | os.PathLike[str],
    out: str | os.PathLike[str],
) -> None:
    """Do what `marginalia.sweep.jobs.run_method` does with the same arguments, in a process that may die.

    Raises
    ------
    InputError
        As `run_method`; and when libraries and data alone need more than the memory of a fit.
    WorkerError
        The process failed outside of any fit, twice where it did not say why.
    """
    places = {name: str(Path(place).absolute()) for name, place in (("data", data), ("store", store), ("out", out))}
    job = {"settings": settings, "seed": seed, **places}
    block = settings["experiment"]
    attempt: dict[str, Any] = {"settled": 0, "verdict": None, "again": False}
    repeated: Any = ""
    with _asked_to_end(), _adopting():
        while True:
            with Worker({"job": job, **attempt}, block["timeout_seconds"], block["memory_mb"]) as worker:
                worker.follow()
            if worker.end == "done":
                return
            # What fails after a fit has begun may be its doing: it takes away files, memory, rights of its process.
            if worker.end and worker.phase != "fit":
                raise (InputError if worker.end == "error" else WorkerError)(worker.message)
            in_a_fit = worker.phase in ("load", "fit")
            # An earlier fit of the process may have done the harm, or somebody from outside: once more, in a new one.
            doubtful = worker.fits > 1 or worker.killed or worker.end or not in_a_fit
            again = bool(doubtful) and worker.status != "timeout" and repeated != worker.step
            if again:
                repeated = worker.step
            elif not in_a_fit and worker.status == "memory":
                raise InputError(f"libraries and data alone need more than {block['memory_mb']} MB; raise memory_mb")
            elif not in_a_fit:
                raise WorkerError(f"the process of this job failed outside of any fit: {worker.message}")
            if in_a_fit:
                cost = {"seconds": worker.seconds, "peak_mb": worker.peak_mb}
                message = f"after the fit: {worker.message}" if worker.end else worker.message
                verdict = {"status": worker.status, "message": message, "cost": cost}
                # Stored also where the fit is tried again: a disk that is full ends the job, and is no fault of a fit.
                attempt = {"settled": worker.step, "verdict": verdict, "again": again}


@dataclass
class Worker:
    """A process that runs the fits of a job from some step on.

    Attributes
    ----------
    request : dict
        The job, and what became of earlier workers.
    timeout_seconds : float or None
        Wall time of a fit.
    memory_mb : int
        Memory of the process and of those that it starts, in MB (2**20 bytes).
    phase : str
        What it is at: ``start``, ``load``, ``fit`` or ``write``.
    step : int
        Which fit.
    end : str
        How it ended by itself: ``done``, ``error`` (the user can mend it) or ``broken``; empty if it did not.
    fits : int
        How many it has begun.
    status, message : str
        For the rows of the fit that it was at when it ended.
    killed : bool
        Whether somebody else ended it.
    seconds, peak_mb : float
        CPU time of that fit, and the most memory that was seen.
    """

    request: dict[str, Any]
    timeout_seconds: float | None
    memory_mb: int
    phase: str = "start"
    step: int = 0
    end: str = ""
    fits: int = 0
    status: str = "failed"
    message: str = ""
    killed: bool = False
    seconds: float = 0.0
    peak_mb: float = 0.0
    _begun: float = 0.0
    _cpu_before: float = 0.0
    _elsewhere: float = 0.0  # CPU seconds of the processes that it has started and that live
    _word: str = ""
    _unread: bytes = b""
    _others: set[psutil.Process] = field(default_factory=set)

    def __enter__(self) -> Worker:
        self._others = set(psutil.Process().children(recursive=True))
        self._out_of_memory_before = _out_of_memory_kills()
        self._channel, theirs = os.pipe()
        self._word = secrets.token_hex()
        own = {"channel": theirs, "word": self._word, "supervisor": os.getpid(), "memory_mb": self.memory_mb}
        # -P: what lies in the working folder is nothing to import; -u: the log shows what was printed before a death.
        command = [sys.executable, "-P", "-u", "-m", "marginalia.sweep.isolation.worker"]
        log = _log_file()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=(theirs,), start_new_session=True
        )
        os.close(theirs)
        self._seen = psutil.Process(self._process.pid)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has died already, and `follow` finds that out
            self._process.stdin.write(json.dumps({**own, **self.request}).encode() + b"\n")
            self._process.stdin.flush()  # left open: its end is our end
        return self

    def __exit__(self, *_: object) -> None:
        self._kill_all()
        exchange.sweep()  # rows that a peer was given
        os.close(self._channel)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def follow(self) -> None:
        """Return when the worker has ended, or has to be ended."""
        next_family = time.monotonic() + FAMILY_SECONDS
        while True:
            ready, _, _ = select.select([self._channel], [], [], LOOK_SECONDS)
            told = not ready or self._listen()
            now = time.monotonic()
            if self.end:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(END_SECONDS)
                return
            if not told or not self._look(with_family=now >= next_family):
                self._wait()
                return
            if now >= next_family:
                next_family = now + FAMILY_SECONDS
            if self.peak_mb > self.memory_mb:
                self.status, self.message = "memory", f"needed more than {self.memory_mb} MB (memory_mb)"
                return
            if self.phase == "fit" and self.timeout_seconds and now - self._begun > self.timeout_seconds:
                self.status, self.message = "timeout", f"took longer than {self.timeout_seconds:g} s"
                return

    def _listen(self) -> bool:
        """Read what the worker tells; return whether it can go on telling."""
        received = os.read(self._channel, 1 << 16)
        *lines, self._unread = (self._unread + received).split(b"\n")
        self._unread = self._unread[-LONGEST_LINE:]
        for line in lines:
            word, _, said = line.partition(b" ")
            if word != self._word.encode():
                continue  # a fit wrote to the pipe
            with suppress(ValueError):  # or has changed how others write
                self._hear(*json.loads(said))
        return bool(received)

    def _hear(self, phase: str, step: Any, cpu: float) -> None:
        if phase in ENDS:
            self.end, self.message = phase, step
            return
        self.phase, self.step, self._cpu_before = phase, step, cpu
        self._begun = time.monotonic()
        self.fits += phase == "fit"
        self.seconds = self.peak_mb = self._elsewhere = 0.0

    def _look(self, *, with_family: bool) -> bool:
        """Note what the worker has used; return whether it lives."""
        try:
            with self._seen.oneshot():
                if self._seen.status() == psutil.STATUS_ZOMBIE:
                    return False
                used = self._seen.cpu_times()
                memory = self._seen.memory_info().rss
            if with_family and (family := self._seen.children(recursive=True)):
                memory = sum(map(_own_share, (self._seen, *family)))
                self._elsewhere = sum(map(_cpu_of, family))
        except psutil.NoSuchProcess:
            return False
        self.seconds = max(0.0, used.user + used.system - self._cpu_before) + self._elsewhere
        self.peak_mb = max(self.peak_mb, memory / 2**20)
        return True

    def _wait(self) -> None:
        """Let the worker end, which tells nothing any more, and say how it did."""
        try:
            code = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            code = CUT
        if code == CUT:
            self.message = "the fit cut the connection of its process to the sweep"
        elif code >= 0:
            self.message = f"the fit ended its process with exit code {code}"
        elif -code == signal.SIGKILL and _out_of_memory_kills() > self._out_of_memory_before:
            self.status, self.message = "memory", "the system ran out of memory and ended the process of the fit"
        else:
            self.killed = -code == signal.SIGKILL
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            self.message = f"the process of the fit died: {name} ({signal.strsignal(-code)})"

    def _kill_all(self) -> None:
        """End the worker and every process that it started, also those that left its group or lost their parent."""
        for _ in range(100):  # what one of them starts meanwhile is found in the next round
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.1)
            left = [p for p in psutil.Process().children(recursive=True) if p not in self._others]
            if not left and self._process.returncode is not None:
                return
            for process in left:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, timeout=0.1)


def _cpu_of(process: psutil.Process) -> float:
    """Return the CPU seconds of a process."""
    try:
        used = process.cpu_times()
        return float(used.user + used.system)
    except psutil.Error:
        return 0.0


def _own_share(process: psutil.Process) -> int:
    """Return the memory of a process in bytes; pages that it shares with others count in part."""
    try:
        info = process.memory_full_info()
        return int(getattr(info, "pss", info.uss))
    except psutil.Error:
        return 0


def _out_of_memory_kills() -> int:
    """Return how many processes the system has ended for want of memory."""
    try:
        with open("/proc/vmstat") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0


def _log_file() -> Any:
    """Return where the worker shall print: to the log of this process, or, where that is no file, as this process."""
    try:
        sys.stdout.flush()
        sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return None
    return sys.stdout


@contextmanager
def _asked_to_end() -> Iterator[None]:
    """Take the worker along when this process is asked to end."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        with suppress(ValueError):  # not the main thread
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _adopting() -> Iterator[None]:
    """Become the parent of processes whose own has died, where the system can do that."""
    if sys.platform != "linux":
        yield
        return
    prctl = ctypes.CDLL(None).prctl
    prctl(_ADOPT, 1)
    try:
        yield
    finally:
        prctl(_ADOPT, 0)
