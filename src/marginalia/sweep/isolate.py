"""Run a function in a process of its own: what becomes of it, whatever it does.

The process is forked, so that it starts in milliseconds with all that its parent has loaded. Forking is safe here: a
job has one thread, as linear algebra is limited to one, and Arrow's pools survive a fork.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import psutil

from marginalia.errors import InputError

LOOK_SECONDS = 0.05  # between two looks at the memory of the process
FAMILY_SECONDS = 1.0  # between two looks at the processes that it has started
CANNOT_WRITE = 74  # exit code of a process that cannot write its answer
_DIE_WITH_PARENT, _ADOPT = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER of Linux


@dataclass(slots=True)
class Ended:
    """How a process ended.

    Attributes
    ----------
    value : object
        What the function returned; None unless the status is ``ok``.
    status : str
        ``ok``, ``failed``, ``timeout`` or ``memory``.
    message : str
        Why there is no value.
    seconds, peak_mb : float
        CPU time, and the most memory that was seen (2**20 bytes), of the process and those that it started.
    """

    value: Any = None
    status: str = "ok"
    message: str = ""
    seconds: float = 0.0
    peak_mb: float = 0.0


def in_child(function: Callable[[], Any], *, timeout_seconds: float | None = None, memory_mb: int = 4000) -> Ended:
    """Call a function in a forked process, and return how that ended; nothing that it started is left behind.

    Parameters
    ----------
    function : callable
        Its value must be picklable. It handles its own exceptions.
    timeout_seconds : float, optional
        Wall time after which the process is ended.
    memory_mb : int
        Memory of the process and of those that it starts, in MB (2**20 bytes).

    Raises
    ------
    InputError
        The disk is full, or may not be written.

    Examples
    --------
    >>> in_child(lambda: 6 * 7).value
    42
    >>> in_child(lambda: os._exit(3)).message
    'the fit ended its process with exit code 3'
    """
    with tempfile.TemporaryDirectory(prefix="marginalia-fit-") as folder, _adopting(), ended_by_signals():
        answer = Path(folder) / "answer"
        others = _children()
        kills = _out_of_memory_kills()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        parent, child = os.getpid(), os.fork()
        if child == 0:
            _answer(function, answer, parent, memory_mb)
        try:
            ended, status = _watch(child, timeout_seconds, memory_mb)
        finally:
            _end_all(child, others)
        if ended.status != "ok":
            return ended
        if os.waitstatus_to_exitcode(status) == 0 and answer.exists():
            ended.value = pickle.loads(answer.read_bytes())
            return ended
        ended.status, ended.message = _why(os.waitstatus_to_exitcode(status), kills)
        if ended.message == _UNWRITTEN:
            try:
                answer.write_bytes(b"x" * 10_000)  # is it the machine, or did the fit give up its rights?
            except OSError as error:
                raise InputError(
                    f"cannot write to {tempfile.gettempdir()}: {error.strerror}; free the disk (or set TMPDIR) and run "
                    "the same command again"
                ) from None
        return ended


@contextmanager
def frozen() -> Iterator[None]:
    """Leave all present objects out of the garbage collections of the body and of its forks; enable these.

    A collection in a fork would write to each object that its parent has loaded, and so copy all of their memory.
    """
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()


_UNWRITTEN = "after the fit: its process could not write its result"


def _answer(function: Callable[[], Any], answer: Path, parent: int, memory_mb: int) -> NoReturn:
    """Be the child: write what the function returns, and end, whatever happens."""
    code, me = 1, os.getpid()
    try:
        os.setsid()
        end_with_parent(parent)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _redirect()
        _close_other_files()
        with suppress(OSError, ValueError, RuntimeError):
            faulthandler.enable()  # a segmentation fault leaves its place in the log
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # and no copy of the memory on the disk
        _first_to_go()
        _limit_memory(memory_mb)
        np.random.seed()  # noqa: NPY002  (a fork has its parent's state: the fits of a job would draw the same noise)
        value = pickle.dumps(function())
        if os.getpid() != me:  # the function forked, and this is the copy
            os._exit(0)
        try:
            answer.write_bytes(value)
        except OSError:
            os._exit(CANNOT_WRITE)
        code = 0
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code)


def _watch(child: int, timeout_seconds: float | None, memory_mb: int) -> tuple[Ended, int]:
    """Wait until the child ends, or has to be ended; return what was seen, and its exit status."""
    ended, begun = Ended(), time.monotonic()
    process, elsewhere, next_family = psutil.Process(child), 0.0, begun + FAMILY_SECONDS
    pause = 0.001
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return ended, status
        now = time.monotonic()
        with suppress(psutil.Error):
            with process.oneshot():
                used, memory = process.cpu_times(), process.memory_info().rss
            if now >= next_family:
                next_family = now + FAMILY_SECONDS
                if family := process.children(recursive=True):
                    memory = sum(map(_own_share, (process, *family)))
                    elsewhere = sum(map(_cpu_of, family))
            ended.seconds = used.user + used.system + elsewhere
            ended.peak_mb = max(ended.peak_mb, memory / 2**20)
        if ended.peak_mb > memory_mb:
            ended.status, ended.message = "memory", f"needed more than {memory_mb} MB (memory_mb)"
            return ended, 0
        if timeout_seconds and now - begun > timeout_seconds:
            ended.status, ended.message = "timeout", f"took longer than {timeout_seconds:g} s"
            return ended, 0
        time.sleep(pause)
        pause = min(2 * pause, LOOK_SECONDS)


def _why(code: int, kills: int) -> tuple[str, str]:
    """Return the status and the message of a process that ended without an answer."""
    if code == CANNOT_WRITE:
        return "failed", _UNWRITTEN
    if code >= 0:
        return "failed", f"the fit ended its process with exit code {code}"
    if -code == signal.SIGKILL and _out_of_memory_kills() > kills:
        return "memory", "the system ran out of memory and ended the process of the fit"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return "failed", f"the process of the fit died: {name} ({signal.strsignal(-code)})"


def _end_all(child: int, others: set[psutil.Process]) -> None:
    """End the child and every process that it started, also those that left its group or lost their parent."""
    for _ in range(100):  # what one of them starts meanwhile is found in the next round
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        left = _children() - others
        if not left:
            return
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=0.1)


def _children() -> set[psutil.Process]:
    """Return all that descends from this process; that it has no child is known without a look at every process."""
    with suppress(AttributeError):  # of a system without waitid
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return set()
    return set(psutil.Process().children(recursive=True))


def _cpu_of(process: psutil.Process) -> float:
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


def _redirect() -> None:
    """Read from nowhere, and let compiled code print where Python does."""
    sys.stdin = open(os.devnull)  # noqa: SIM115
    os.dup2(sys.stdin.fileno(), 0)
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(stream.fileno(), number)


def _close_other_files() -> None:
    """Keep the standard streams alone: a fit that writes where it should not reaches no file or pipe of its job."""
    kept = {0, 1, 2}
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            kept.add(stream.fileno())
    ends = [*sorted(kept), resource.getrlimit(resource.RLIMIT_NOFILE)[0]]
    for below, above in pairwise(ends):
        os.closerange(below + 1, above)


def end_with_parent(parent: int) -> None:
    """End this process as soon as its parent has ended, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _first_to_go() -> None:
    """Of all processes of a machine without memory let the fit be the one that is ended."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _limit_memory(megabytes: int) -> None:
    """Let the process allocate so much beside what is there already: more is a `MemoryError` at once.

    The parent watches what is really used; on Linux alone there is a limit that knows reserved from allocated memory,
    and an allocation that is much too large fails before it fills the machine.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError, ValueError, KeyError), open("/proc/self/status") as file:
        sizes = {row.split(":")[0]: int(row.split()[1]) * 1024 for row in file if row.startswith(("VmData", "VmRSS"))}
        most = sizes["VmData"] - sizes["VmRSS"] + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Make a `SystemExit` of a signal that asks this process to end, so that it takes its fit along."""

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
