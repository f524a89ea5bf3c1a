"""Put every deliberate bug into the library, one at a time, and see whether the tests notice.

    python tests/mutants/run.py              all of them: the catalogue, and changed calls of mechanisms
    python tests/mutants/run.py A4 L7        these
    python tests/mutants/run.py --catalogue  without the changed calls
    python tests/mutants/run.py --calls      the changed calls alone
    python tests/mutants/run.py --audits     the audit alone, against every mutant in its reach
    python tests/mutants/run.py --list       what there is

With --out FILE.csv the answers are kept as the column "tests" (or "audits") of a table; its other column stays.

No file is written. A process that has loaded all modules is forked for each mutant. It forgets the module with the bug
and the modules that import it, and compiles the changed syntax tree when it imports them again. The tests that must
catch the mutant then run there until the first one fails. Before the first mutant, these tests run once without any bug
and must pass. No external data is used. The exit status is 0 if every mutant was caught.
"""

from __future__ import annotations

import argparse
import ast
import csv
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mutants import ROOT, SOURCE, TESTS, Mutant, audited, call_mutants, catalogue

LIMIT = 90.0  # seconds for the tests of one mutant: some bugs make a loop endless, which is being caught too
BROKEN = 99  # exit status of a mutant that cannot be imported


@dataclass
class Outcome:
    """What became of one mutant."""

    mutant: Mutant
    verdict: str  # caught, SURVIVED or BROKEN
    by: str  # the test that failed, or what went wrong
    seconds: float


class Patched(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds and loads one module from the syntax tree with the bug."""

    def __init__(self, mutant: Mutant) -> None:
        super().__init__(mutant.module, str(mutant.path))
        self.tree = mutant.tree()
        # Numba would load compiled functions without the bug: it checks the date of the file, which does not change.
        for call in ast.walk(self.tree):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("njit"):
                call.keywords = [keyword for keyword in call.keywords if keyword.arg != "cache"]

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        return (
            importlib.util.spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None
        )

    def get_code(self, fullname: str) -> Any:
        return compile(self.tree, self.path, "exec", dont_inherit=True)


class Failures:
    """A pytest plugin that remembers what failed, and how many tests ran."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.passed = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        self.passed += report.when == "call" and report.passed


def run_tests(checks: Iterable[str], *options: str) -> tuple[int, Failures]:
    """Run tests in this process, by their names below tests/; return pytest's exit status and what failed."""
    import pytest

    plugin = Failures()
    fixed = [
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "--import-mode=importlib",
        "-m",
        "not slow",
    ]
    status = pytest.main([*fixed, *options, *(f"tests/{check}" for check in checks)], plugins=[plugin])
    return int(status), plugin


@cache
def importers() -> dict[str, set[str]]:
    """Return who imports a module, inside functions too; read once, before processes are forked for mutants."""
    importers: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(("marginalia", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            for other in imported:
                importers.setdefault(other, set()).add(name)
    return importers


def dependents(module: str) -> set[str]:
    """Return the module and all that import it, directly or not."""
    found, new = {module}, [module]
    while new:
        more = importers().get(new.pop(), set()) - found
        found |= more
        new += more
    return found


def forget(module: str) -> None:
    """Drop from memory a module, those that import it, all tests, and what `shared` functions have computed."""
    if usage := sys.modules.get("marginalia.usage"):
        usage._values.clear()
    gone = dependents(module)
    # A package comes before what is in it: one that goes takes along the packages inside it, or these would import it.
    packages = [name for name, loaded in list(sys.modules.items()) if hasattr(loaded, "__path__")]
    gone |= {name for name in packages if any(name.startswith(f"{other}.") for other in gone)}
    for name in gone:
        sys.modules.pop(name, None)
        package, _, last = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(last, None)  # else `from package import last` finds the old one
    for name, loaded in list(sys.modules.items()):
        if str(getattr(loaded, "__file__", None) or "").startswith(f"{TESTS}{os.sep}") and name != "__main__":
            del sys.modules[name]


def audit_findings(methods: Iterable[str], result: Path) -> int:
    """Audit methods in all their forms until something is found; return 1 then, and write down what."""
    from marginalia.kernels import pin

    pin()  # before NumPy is loaded
    from marginalia.audit.audit import QUICK, audit
    from marginalia.audit.subject import subjects

    for subject in (subject for method in methods for subject in subjects(method)):
        if findings := audit(subject, QUICK).findings:
            result.write_text(f"{subject.title}: {', '.join(sorted({finding.check for finding in findings}))}")
            return 1
    result.write_text("nothing is found")
    return 0


def become(mutant: Mutant, result: Path, *, audits: bool = False) -> int:
    """Turn this process into one with the bug, run the tests, write down what failed, return an exit status."""
    forget(mutant.module)
    sys.meta_path.insert(0, Patched(mutant))
    try:
        importlib.import_module(mutant.module)
    except Exception as error:
        result.write_text(f"{type(error).__name__}: {error}")
        return BROKEN
    if audits:
        return audit_findings(audited(mutant), result)
    status, plugin = run_tests(mutant.caught_by, "-x", "--tb=short")
    result.write_text(", ".join(plugin.failed) or f"pytest ended with {status}, {plugin.passed} tests passed")
    return status


def outcomes(mutants: Sequence[Mutant], jobs: int, folder: Path, *, audits: bool = False) -> Iterator[Outcome]:
    """Fork a process for each mutant, `jobs` at a time, and yield what became of them as they end."""
    importers()
    waiting, running = list(enumerate(mutants))[::-1], {}
    while waiting or running:
        while waiting and len(running) < jobs:
            number, mutant = waiting.pop()
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                _child(mutant, folder / str(number), audits=audits)
            running[child] = number, mutant, time.monotonic()
        time.sleep(0.02)
        for child in list(running):
            number, mutant, start = running[child]
            ended, status = os.waitpid(child, os.WNOHANG)
            seconds = time.monotonic() - start
            if not ended and seconds > LIMIT:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                del running[child]
                yield Outcome(mutant, "caught", f"no end after {LIMIT:g} s", seconds)
            elif ended:
                del running[child]
                yield _outcome(mutant, status, folder / str(number), seconds)


def _child(mutant: Mutant, result: Path, *, audits: bool) -> None:
    try:
        log = os.open(result.with_suffix(".log"), os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        status = become(mutant, result, audits=audits)
        sys.stdout.flush()
        os._exit(status)
    except BaseException as error:
        result.write_text(f"{type(error).__name__}: {error}")
        os._exit(BROKEN)


def _outcome(mutant: Mutant, status: int, result: Path, seconds: float) -> Outcome:
    text = result.read_text() if result.exists() else f"the process ended with status {status}"
    code = os.waitstatus_to_exitcode(status)
    verdict = {0: "SURVIVED", 1: "caught"}.get(code, "BROKEN")
    return Outcome(mutant, verdict, text.replace("tests/", ""), seconds)


def keep(ended: Iterable[Outcome], path: Path, column: str) -> None:
    """Write what became of mutants as a column of a table, in the order of the catalogue and of the sources."""
    known: dict[str, dict[str, str]] = {}
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            known = {row["mutant"]: row for row in csv.DictReader(file)}
    answers = {o.mutant.id: o.verdict if o.verdict != "caught" and column == "tests" else o.by for o in ended}
    kinds = {"catalogue": catalogue(), "changed": list(call_mutants())}
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, ["mutant", "kind", "file", "breaks", "tests", "audits"], lineterminator="\n")
        table.writeheader()
        for kind, mutants in kinds.items():
            for m in mutants:
                kept = {name: known.get(m.id, {}).get(name, "") for name in ("tests", "audits")}
                if m.id in answers:
                    kept[column] = answers[m.id]
                if any(kept.values()):  # else nobody has asked yet
                    table.writerow({"mutant": m.id, "kind": kind, "file": m.file, "breaks": m.breaks, **kept})


def chosen(arguments: argparse.Namespace) -> list[Mutant]:
    """Return the mutants that the command line asks for."""
    calls = [] if arguments.catalogue else list(call_mutants())
    mutants = [*([] if arguments.calls else catalogue()), *calls]
    if arguments.audits:
        mutants = [mutant for mutant in mutants if audited(mutant)]
    if not arguments.ids:
        return mutants
    named = [m for m in mutants if m.id in arguments.ids or any(m.id.startswith(f"{i}:") for i in arguments.ids)]
    if not named:
        raise SystemExit(f"no mutant is called {' or '.join(arguments.ids)}; see --list")
    return named


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "ids", nargs="*", help="ids of the catalogue; or files, or file::symbol, whose calls are changed"
    )
    parser.add_argument("--catalogue", action="store_true", help="the catalogue alone")
    parser.add_argument("--calls", action="store_true", help="the changed calls alone")
    parser.add_argument("--audits", action="store_true", help="by audits in place of tests")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", type=Path, help="CSV file for the answers")
    parser.add_argument("--logs", type=Path, help="folder for what the tests of each mutant printed")
    arguments = parser.parse_args()
    mutants = chosen(arguments)
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.id}: {mutant.breaks} [{', '.join(mutant.caught_by)}]")
        return 0
    if arguments.out:
        arguments.out = arguments.out.resolve()
    os.chdir(ROOT)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"  # before numpy is loaded: forked processes must not share a pool of threads
    os.environ.pop("MARGINALIA_MIRROR", None)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["MARGINALIA_CACHE"] = str(Path(scratch) / "empty")
        folder = arguments.logs or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("[0-9]*"):
            old.unlink()
        if arguments.audits:
            control = Path(scratch) / "control"
            status = audit_findings(dict.fromkeys(method for mutant in mutants for method in audited(mutant)), control)
            found = control.read_text()
        else:
            status, plugin = run_tests(dict.fromkeys(check for mutant in mutants for check in mutant.caught_by))
            found = ", ".join(plugin.failed) or f"{plugin.passed} tests pass"
        print(f"the sources as they are: {found}, in {time.monotonic() - start:.0f} s", flush=True)
        if status:
            return 2
        ended = []
        for outcome in outcomes(mutants, arguments.jobs, folder, audits=arguments.audits):
            ended.append(outcome)
            print(f"{outcome.verdict:8} {outcome.mutant.id:6} {outcome.seconds:5.1f} s  {outcome.by[:150]}", flush=True)
        if arguments.out:
            keep(ended, arguments.out, "audits" if arguments.audits else "tests")
    left = [o for o in ended if o.verdict != "caught"]
    for outcome in left:
        print(
            f"\n{outcome.verdict}: {outcome.mutant.id} ({outcome.mutant.file}): {outcome.mutant.breaks}\n  {outcome.by}"
        )
    caught = len(ended) - len(left)
    share = f"{caught} of {len(ended)} mutants caught ({caught / max(1, len(ended)):.1%})"
    print(f"\n{share} in {time.monotonic() - start:.0f} s")
    return 1 if left else 0


if __name__ == "__main__":
    raise SystemExit(main())
