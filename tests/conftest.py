import faulthandler
import gc
import os
import signal
import sys
from pathlib import Path

import hypothesis
import pytest

from marginalia.kernels import pin

pin()  # before a test loads NumPy

# A run in the background ignores these, and so would the processes that tests start and stop.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

# Shared machines are slow at times, and a test that fails must fail again: no deadline, fixed examples.
# A step of .ci/nightly explores instead, with a seed that it prints.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.register_profile("exploring", deadline=None, derandomize=False, database=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


# A test that hangs ends its process, with a traceback, after this many seconds; `time_limit` of a test replaces them.
LIMIT, LIMIT_OF_SLOW = 300, 3600
SLOW = ("slow", "mutants", "databases")
STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the terminal, for what is said of a test that hangs while its output is captured."""
    config.stash[STDERR] = os.dup(2)
    config.add_cleanup(lambda: os.close(config.stash[STDERR]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item):
    """End the process of a test that takes longer than its limit."""
    marked = item.get_closest_marker("time_limit")
    seconds = marked.args[0] if marked else LIMIT_OF_SLOW if any(map(item.get_closest_marker, SLOW)) else LIMIT
    faulthandler.dump_traceback_later(seconds, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder with copies of the published data files."""
    root = os.environ.get("MARGINALIA_MIRROR", "")
    if not Path(root or "/no/mirror").is_dir():
        pytest.skip("needs the data mirror: set MARGINALIA_MIRROR to its folder")
    return Path(root)


@pytest.fixture(scope="session")
def records():
    """Made-up result rows with the shape of a real sweep."""
    from made_records import make_records

    return make_records()


@pytest.fixture
def call(capsys, monkeypatch):
    """Run the command line: ``call(*arguments)`` returns exit code, stdout and stderr."""
    from marginalia import cli, progress

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["marginalia", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        # The first fit of a process compiles what is not in numba's cache, or what another process is writing there.
        return end.value.code, captured.out, captured.err.replace(f"{progress.COMPILING}\n", "")

    return run


@pytest.fixture(scope="session")
def each():
    """Try all of many small cases: ``each(check, cases)`` calls ``check(*case)`` and fails with all that failed."""

    def run(check, cases) -> None:
        wrong = {}
        for case in cases:
            try:
                check(*case)
            except (Exception, pytest.fail.Exception) as error:
                wrong[str(case)[:200]] = f"{type(error).__name__}: {error}"
        assert wrong == {}

    return run


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Leave modules and tests out of garbage collection: each full pass would look at a million objects that stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


FIRST = (
    *("test_workflow.py", "test_isolation.py"),  # of the slow tests
    *(
        "test_remaining_budget.py",
        "test_learning_leaks.py",
        "test_synthesis_leaks.py",
        "test_plan.py",
        "test_contract.py",
    ),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: files are dealt out to two processes in this order, and none shall end alone."""
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))


def pytest_unconfigure() -> None:
    """Let extension modules see at their end that nothing leaks."""
    gc.unfreeze()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail the session where a test was skipped although MARGINALIA_NO_SKIPS says that all must run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if skipped and os.environ.get("MARGINALIA_NO_SKIPS") == "1" and exitstatus == 0:
        for report in skipped:
            reporter.write_line(f"skipped: {report.nodeid}: {report.longrepr[-1]}", red=True)
        reporter.write_line("MARGINALIA_NO_SKIPS=1 forbids that", red=True)
        session.exitstatus = 1
