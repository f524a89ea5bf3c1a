"""Bars: nothing unless somebody looks on or asks, and then the part that is done."""

import io
import subprocess
import sys

import pytest

from marginalia import progress
from marginalia.data import Domain, Table
from marginalia.synthesis import AIM


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def work(**options):
    with progress.bar("columns learned", 2, **options) as advance:
        advance(1)
        advance(1)


def test_nothing_is_shown_by_itself(capsys):
    work()
    with progress.showing("fitting"):  # standard error is no terminal here
        work()
    assert capsys.readouterr() == ("", "")


def test_who_asks_is_shown_the_part_that_is_done(capsys):
    work(verbose=True)
    assert "columns learned" in (shown := capsys.readouterr().err)
    assert "100%" in shown


def test_a_terminal_shows_what_runs_and_its_bars_and_is_left_clean(monkeypatch):
    shown = terminal(monkeypatch)
    with progress.showing("fitting"):
        work()
    assert "fitting" in shown.getvalue()
    assert "columns learned" in shown.getvalue()
    assert progress._display.get() is None


def test_quiet_is_quiet(monkeypatch):
    shown = terminal(monkeypatch)
    with progress.no_progress(), progress.showing("fitting"):
        work(verbose=True)
    assert shown.getvalue() == ""
    with progress.showing("fitting"):
        work()
    assert "fitting" in shown.getvalue()


def test_the_rounds_of_aim_show_the_budget_that_is_spent(capsys):
    table = Table([[0, 1], [1, 0], [1, 1]] * 50, Domain.from_sizes({"a": 2, "b": 2}))
    AIM(epsilon=1.0, random_state=0, verbose=True, relation="add_remove").fit(table)
    assert "budget spent" in (shown := capsys.readouterr().err)
    assert "100%" in shown


@pytest.mark.slow
def test_a_compilation_is_said_once():
    code = """
from numba import njit
from marginalia.progress import say_when_compiling
say_when_compiling()
njit(lambda x: x + 1)(1)
njit(lambda x: x + 2)(1)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr.splitlines() == [progress.COMPILING]
