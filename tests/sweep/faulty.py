"""A method of one's own that does everything wrong, one way at a time: ``how`` names a function below."""

import contextlib
import ctypes
import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import numpy as np

from marginalia.data import Table

MB = 2**20
# what is done -> status of its row and the start of its message, with a limit of 700 MB, and for the last ones of 2 s
FAULTS = {
    "does_well": ("ok", ""),
    "raises": ("failed", "ValueError: first line"),
    "has_a_broken_library": ("failed", "ModuleNotFoundError: No module named 'half_installed'"),
    "raises_what_is_no_exception": ("failed", "Odd: no subclass of Exception"),
    "raises_what_has_no_text": ("failed", "MuteError: (its text raises SystemExit)"),
    "raises_a_book": ("failed", "ValueError: xxxx"),
    "raises_half_a_character": ("failed", "ValueError: \\udc80"),
    "calls_exit": ("failed", "SystemExit: 3"),
    "recurses": ("failed", "RecursionError: maximum recursion depth exceeded"),
    "asks_for_too_much": ("memory", "Unable to allocate"),
    "grows": ("memory", ""),
    "reads_its_input": ("failed", "EOFError"),
    "prints": ("ok", ""),
    "writes_to_every_file": ("ok", ""),
    "moves_away": ("ok", ""),
    "looks_around": ("ok", ""),
    "leaves_a_thread": ("ok", ""),
    "leaves_a_process": ("ok", ""),
    "forks": ("ok", ""),
    "forks_and_the_copy_raises": ("ok", ""),
    "forks_when_it_answers": ("ok", ""),
    "answers_nothing_known": ("failed", "InputError: a marginal holds NaN or infinity"),
    "answers_in_another_shape": ("failed", "InputError: a marginal has shape (4,) instead of (3, 4)"),
    "closes_its_output": ("ok", ""),
    "opens_too_many_files": ("failed", "after the fit: its process could not write"),
    "gives_up_its_rights": ("failed", "after the fit: its process could not write"),
    "breaks_the_clock": ("failed", "TypeError"),
    # What follows takes its process along.
    "ends_its_process": ("failed", "the fit ended its process with exit code 3"),
    "follows_a_null_pointer": ("failed", "the process of the fit died: SIGSEGV (Segmentation fault)"),
    "overflows_the_stack": ("failed", ""),
    "aborts": ("failed", "the process of the fit died: SIGABRT (Aborted)"),
    "interrupts_itself": ("failed", "KeyboardInterrupt"),
    "kills_itself": ("failed", "the process of the fit died: SIGKILL (Killed)"),
    "closes_all_files": ("ok", ""),
    "grows_where_no_limit_holds": ("memory", "needed more than 700 MB (memory_mb)"),
    "has_a_child_that_grows": ("memory", "needed more than 700 MB (memory_mb)"),
    "sleeps": ("timeout", "took longer than 2 s"),
    "stays_in_lapack": ("timeout", "took longer than 2 s"),
    "holds_the_interpreter": ("timeout", "took longer than 2 s"),
    "ignores_signals": ("timeout", "took longer than 2 s"),
    "stops_itself": ("timeout", "took longer than 2 s"),
}


class Faulty:
    """A synthesizer that answers with equal counts, after it has misbehaved."""

    def __init__(self, *, epsilon=1.0, delta=1e-5, random_state=None, how="does_well", told=""):
        self.how, self.told = how, told
        self.ledger_ = None

    def fit(self, table):
        self.domain = table.domain
        globals()[self.how](*([self.told] if self.told else []))
        return self

    def sample(self, n_rows=None):
        return Table(np.zeros((n_rows, len(self.domain)), dtype=int), self.domain)

    def marginal(self, attributes):
        counts = np.ones([self.domain[name].size for name in attributes])
        return ANSWERS.get(self.how, lambda same: same)(counts)


def with_a_copy(counts):
    os.fork()
    return counts


ANSWERS = {
    "forks_when_it_answers": with_a_copy,
    "answers_nothing_known": lambda counts: counts * np.nan,
    "answers_in_another_shape": lambda counts: counts[0],
}


def does_well():
    """Nothing."""


def raises():
    """Raises an exception."""
    raise ValueError("first line\nsecond line")


def has_a_broken_library():
    """Needs a package that cannot be imported."""
    __import__("half_installed")


def raises_what_is_no_exception():
    """Raises a `BaseException` of its own."""

    class Odd(BaseException):
        pass

    raise Odd("no subclass of Exception")


def raises_what_has_no_text():
    """Raises an exception that cannot be pickled and whose text calls `sys.exit`."""

    class MuteError(Exception):
        def __str__(self):
            sys.exit(5)

        def __reduce__(self):
            raise TypeError("cannot be pickled")

    raise MuteError


def raises_a_book():
    """Raises an exception with a text of 10 MB."""
    raise ValueError("x" * 10**7)


def raises_half_a_character():
    """Raises an exception whose text is no valid Unicode."""
    raise ValueError("\udc80")


def calls_exit():
    """`sys.exit(3)`."""
    sys.exit(3)


def interrupts_itself():
    """Raises `KeyboardInterrupt`."""
    raise KeyboardInterrupt


def ends_its_process():
    """`os._exit(3)`."""
    os._exit(3)


def follows_a_null_pointer():
    """A segmentation fault in compiled code."""
    ctypes.string_at(0)


def aborts():
    """`abort()`, as C++ libraries do."""
    os.abort()


def kills_itself():
    """`kill -9` of its own process."""
    os.kill(os.getpid(), signal.SIGKILL)


def recurses():
    """Recursion without end."""
    recurses()


def overflows_the_stack():
    """Recursion without end through C code, with Python's limit lifted."""

    class Endless:
        def __repr__(self):
            return repr(self)

    sys.setrecursionlimit(10**8)
    repr(Endless())


def asks_for_too_much():
    """Asks for an array of 73 TiB."""
    np.ones(10**13)


def grows():
    """Allocates without end."""
    kept = []
    while True:
        kept.append(np.ones(MB))  # 8 MB


def grows_where_no_limit_holds():
    """Fills shared memory, which no limit of a process counts."""
    shared = mmap.mmap(-1, 2000 * MB)
    while True:
        shared.write(b"x" * MB)
        time.sleep(0.001)


def has_a_child_that_grows():
    """Forks a process that fills memory."""
    if os.fork() == 0:
        grows_where_no_limit_holds()
    time.sleep(1000)


def sleeps():
    """Sleeps."""
    time.sleep(1000)


def stays_in_lapack():
    """One long call of LAPACK, deaf to signals."""
    np.linalg.eigvals(np.random.default_rng(0).random((3000, 3000)))


def holds_the_interpreter():
    """Compiled code that holds the interpreter's lock."""
    ctypes.PyDLL(None).sleep(1000)


def ignores_signals():
    """Ignores every signal that can be ignored."""
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1000)


def stops_itself():
    """Stops its process (`SIGSTOP`)."""
    os.kill(os.getpid(), signal.SIGSTOP)


def reads_its_input():
    """Waits for input."""
    input()


def closes_all_files():
    """Closes every file descriptor."""
    os.closerange(0, 1000)


def closes_its_output():
    """Closes the standard output and loses the error output."""
    sys.stdout.close()
    sys.stderr = None


def prints():
    """Prints 150 kB, and from compiled code."""
    print("a line of text " * 10_000)
    os.write(1, b"and one from below\n")


def writes_to_every_file():
    """Writes rubbish to every open file descriptor, that of the sweep too."""
    for number in range(3, 50):
        with contextlib.suppress(OSError):
            os.write(number, b'not for you\n[1, 2]\n["done", null, 0]\n["fit", 1, "two"]\n"abc"\nand no end of line')


def moves_away():
    """Changes working folder, environment, global random state and error handling."""
    os.chdir("/")
    os.environ["HOME"] = "/nowhere"
    os.environ["LEFT_BEHIND"] = "1"
    np.random.seed(1)  # noqa: NPY002
    np.seterr(all="ignore")


def looks_around():
    """(the fit after that one looks for traces)."""
    assert os.getcwd() != "/"
    assert os.environ["HOME"] != "/nowhere"
    assert "LEFT_BEHIND" not in os.environ
    assert np.geterr()["over"] == "warn"


def leaves_a_thread():
    """Leaves a thread that never ends."""
    threading.Thread(target=time.sleep, args=(1000,)).start()


def forks():
    """Forks, and both copies return."""
    os.fork()


def forks_and_the_copy_raises():
    """Forks, and the copy raises an exception."""
    if os.fork() == 0:
        raise ValueError("of the copy")


def forks_when_it_answers():
    """Forks when it is asked for a marginal, six times: 64 processes."""


def answers_nothing_known():
    """Answers with NaN."""


def answers_in_another_shape():
    """Answers with an array of another shape."""


def opens_too_many_files():
    """Leaves so many files open that no other can be opened."""
    with contextlib.suppress(OSError):
        while True:
            LEFT_OPEN.append(os.open(os.devnull, os.O_RDONLY))


LEFT_OPEN = []


def gives_up_its_rights():
    """Lets its process write no file that is longer than nothing."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def breaks_the_clock():
    """Puts a function of its own in the place of one of the standard library's."""
    time.process_time = lambda: "noon"


def leaves_a_process(told):
    """Leaves a process in another session whose parent has ended."""
    """One that nobody's group, session or parent knows: it was started by a process that has ended."""
    start = "subprocess.Popen(['sleep', '1000'], start_new_session=True).pid"
    code = f"import subprocess; print({start}, file=open({told!r}, 'w'))"
    subprocess.run([sys.executable, "-c", code], check=True, start_new_session=True)


def sleeps_once(told):
    """Sleeps, the first time."""
    if not os.path.exists(told):
        open(told, "w").close()
        time.sleep(1000)


def sleeps_beside_a_process(told):
    """Sleeps, and has started a process in another session."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(f"{told}.part", "w") as file:
        file.write(str(process.pid))
    os.rename(f"{told}.part", told)
    time.sleep(1000)


def told_and_dies(told):
    """Notes that it was called, and ends its process."""
    with open(told, "a") as file:
        file.write("x")
    os._exit(3)
