"""The odometer of a table: nothing is released that is not in the budget file, whenever a process dies."""

import json
import math
import multiprocessing
import os
import pickle
import random
import signal
import threading
import time

import numpy as np
import pytest

from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError, PrivacyError
from marginalia.methods.fit import Budget, fit_learner, fit_synthesizer
from marginalia.methods.registry import BUILT_IN
from marginalia.privacy.costs import composed_epsilon
from marginalia.privacy.events import CompositionEvent, GaussianEvent, PoissonGaussianEvent, rebuild
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.odometer import PrivacyOdometer, RefusedError, ReleaseRecorder, charging, current_recorder
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.session import Session

ADD = Relation.ADD_REMOVE
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def odometer(tmp_path):
    return PrivacyOdometer.create(tmp_path / "t.book", ADD, epsilon=1.0, delta=1e-5)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    domain = Domain([Column("a", 2), Column("b", 2, "numeric"), Column("y", 2)])  # all methods take bits
    return Table(np.column_stack([rng.integers(0, size, 400) for size in domain.sizes]), domain)


def entries(path):
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


def release_without_end(path, out, start):
    """Make releases as a fit does, each with a name of its own; note a name as soon as its noise is drawn."""
    with charging(PrivacyOdometer(path), "loop"):
        ledger = Ledger(ADD, recorder=current_recorder())
        for i in range(10**6):
            label = f"{start}.{i}"
            Session(ledger, Randomness(None)).gaussian([i], sensitivity=1, sigma=1e5, label=label)
            os.write(out, f"{label}\n".encode())


@pytest.mark.slow
def test_fifty_kills_leave_no_release_that_is_not_in_the_file(odometer, tmp_path):
    rng = random.Random(0)
    Session(Ledger(ADD), Randomness(None)).gaussian([0], sensitivity=1, sigma=1e5)  # compiles it once
    assert composed_epsilon((GaussianEvent(1.0, 1e5),), ADD, 1e-5) < 1  # and imports what prices it
    released = os.open(tmp_path / "released", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for start in range(50):
        process = FORK.Process(target=release_without_end, args=(odometer.path, released, start))
        process.start()
        before, end = os.fstat(released).st_size, time.monotonic() + 20
        while os.fstat(released).st_size <= before + 2 * len(f"{start}.0\n") and time.monotonic() < end:  # two releases
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.02))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    names = (tmp_path / "released").read_text().split()
    known = {entry["event"]["label"] for entry in entries(odometer.path)}
    assert len(names) > 100
    assert set(names) <= known
    assert len(known) <= len(names) + 50  # a kill costs one entry at most
    assert PrivacyOdometer(odometer.path).ledger.epsilon_spent == pytest.approx(
        composed_epsilon((CompositionEvent((GaussianEvent(1.0, 1e5),), len(known)),), ADD, 9e-6)
    )


def test_processes_and_threads_record_one_after_the_other(odometer, monkeypatch, tmp_path):
    """As many as there is room for, whoever comes first: never one more, and no entry is lost."""
    room = 0
    while composed_epsilon((CompositionEvent((GaussianEvent(1.0, 20.0),), room + 1),), ADD, 1e-5) <= 1.0:
        room += 1

    fsync, together = os.fsync, FORK.Barrier(8)
    entered = os.open(tmp_path / "entered", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    monkeypatch.setattr(os, "fsync", lambda file: (time.sleep(0.005), fsync(file)))  # a slow disk: time to interfere

    def record_until_refused(start):
        mine = PrivacyOdometer(odometer.path)
        together.wait()
        try:
            for i in range(room):
                mine.record(GaussianEvent(1.0, 20.0, f"{start}.{i}"), Neighbours(ADD), "system", "all")
                os.write(entered, f"{start}.{i}\n".encode())
        except PrivacyError:
            pass

    processes = [FORK.Process(target=record_until_refused, args=(i,)) for i in range(4)]
    threads = [threading.Thread(target=record_until_refused, args=(f"t{i}",)) for i in range(4)]
    for one in (*processes, *threads):
        one.start()
    for one in (*processes, *threads):
        one.join()
    names = [entry["event"]["label"] for entry in entries(odometer.path)]
    assert sorted(names) == sorted((tmp_path / "entered").read_text().split())
    assert len(names) == room
    assert odometer.ledger.certified


def test_what_goes_beyond_the_total_is_refused_before_noise_is_drawn(odometer, table):
    budget = Budget(0.8, 1e-5, "add_remove", None)
    with charging(odometer, "first"):
        first = fit_learner("ssp", table, "b", budget)
    assert [rebuild(entry["event"]) for entry in entries(odometer.path)] == list(first.ledger_.events)
    assert current_recorder() is None
    before = odometer.path.read_bytes()
    with (
        charging(odometer, "second"),
        pytest.raises(PrivacyError, match=r"t\.book: refused: with .* of 1 at delta 9e-06"),
    ):
        fit_learner("ssp", table, "b", budget)
    assert odometer.path.read_bytes() == before
    with pytest.raises(PrivacyError, match=r"refused: epsilon 0\.8 at delta 1e-05 is asked for, epsilon 0\.5"):
        odometer.check_room(0.8, 1e-5)
    left, delta = odometer.remaining_budget()
    assert composed_epsilon((*first.ledger_.events, GaussianEvent(1.0, 1e9)), ADD, delta) < 1
    odometer.check_room(left * 0.999, 1e-5)


@pytest.mark.parametrize("method", [m.id for m in BUILT_IN.values() if any(arm.is_private for arm in m.arms)])
def test_every_private_method_records_all_its_releases(tmp_path, table, method):
    relation = BUILT_IN[method].relations[0]
    odometer = PrivacyOdometer.create(
        tmp_path / "t.book", relation, epsilon=3.0, delta=1e-5, experiments=True, reserve=1.5
    )
    budget = Budget(0.5, 1e-5, relation, 0, n_public=400 if relation == "add_remove" else None)
    with charging(odometer, method) as recorder:
        if BUILT_IN[method].kind == "synthesizer":
            model = fit_synthesizer(method, table, budget)
        else:
            model = fit_learner(method, table, "y" if "logistic" in BUILT_IN[method].classes else "b", budget)
    assert recorder.n_recorded == len(model.ledger_.events) > 0
    assert [rebuild(entry["event"]) for entry in entries(odometer.path)] == list(model.ledger_.events)


@pytest.mark.parametrize("beside", [False, True])
def test_a_fit_whose_releases_are_not_in_the_file_is_refused(odometer, beside):
    class Model:
        """A method whose ledger is told of the budget file, or not."""

    with charging(odometer, "own") as recorder:
        model = Model()
        model.ledger_ = Ledger(ADD, recorder=None if beside else current_recorder())
        Session(model.ledger_, Randomness(None)).gaussian([1], sensitivity=1, sigma=1e4, label="x")
    if not beside:
        recorder.check_complete(model, "own")
        return
    with pytest.raises(RefusedError, match="method 'own' does not record its releases in the budget file"):
        recorder.check_complete(model, "own")
    assert entries(odometer.path) == []


def record(odometer, *labels, randomness="system"):
    for label in labels:
        odometer.record(GaussianEvent(1.0, 40.0, label), Neighbours(ADD), randomness, label)


def labels(path):
    return [entry["event"]["label"] for entry in entries(path)]


def lines_of(odometer):
    return odometer.path.read_text().splitlines(keepends=True)


def test_entries_of_others_are_seen(odometer):
    other = pickle.loads(pickle.dumps(odometer))
    record(other, "one")
    record(odometer, "two")
    assert other.releases() == odometer.releases() == [("one", 1), ("two", 1)]
    assert len(pickle.loads(pickle.dumps(odometer)).ledger.events) == 2


CHANGES = {
    "total": (1, lambda lines: [lines[0].replace('"epsilon": 1.0', '"epsilon": 9.0'), *lines[1:]]),
    "purpose": (1, lambda lines: [lines[0].replace("false", "true"), *lines[1:]]),
    "first": (2, lambda lines: [lines[0], lines[1].replace("40.0", "400.0"), *lines[2:]]),
    "last": (5, lambda lines: [*lines[:-1], lines[-1].replace("40.0", "400.0")]),
    "randomness": (3, lambda lines: [*lines[:2], lines[2].replace("system", "seeded"), *lines[3:]]),
    "removed": (3, lambda lines: [*lines[:2], *lines[3:]]),
    "emptied": (4, lambda lines: [*lines[:2], "\n", *lines[3:]]),
    "swapped": (3, lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]]),
    "twice": (4, lambda lines: [*lines[:3], lines[2], *lines[3:]]),
    "without its hash": (3, lambda lines: [*lines[:2], lines[2].split(', "chain"')[0] + "}\n", *lines[3:]]),
    "without any hash": (1, lambda lines: [line.split(', "chain"')[0] + "}\n" for line in lines]),
    "cut": (3, lambda lines: [*lines[:2], lines[2][:40] + "\n", *lines[3:]]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_line_is_an_error_with_its_number(odometer, change):
    record(odometer, "a", "b", "c", "d")
    number, changed = CHANGES[change]
    odometer.path.write_text("".join(changed(lines_of(odometer))))
    with pytest.raises(InputError, match=rf"t\.book: line {number} was changed, or a line before it") as error:
        PrivacyOdometer(odometer.path)
    assert "\n" not in str(error.value)


def test_a_last_line_without_an_end_counts(odometer):
    record(odometer, "whole", "unfinished")
    other = PrivacyOdometer(odometer.path)
    odometer.path.write_text(odometer.path.read_text().rstrip("\n"))
    again = PrivacyOdometer(odometer.path)
    assert len(again.ledger.events) == 2
    record(again, "next")
    record(again, "last")
    assert labels(odometer.path) == ["whole", "unfinished", "next", "last"]
    assert [len(one.ledger.events) for one in (again, PrivacyOdometer(odometer.path), PrivacyOdometer(other.path))] == [
        4,
        4,
        4,
    ]
    odometer.path.write_text(odometer.path.read_text().replace("last", "lost"))
    with pytest.raises(InputError, match="line 5 was changed"):
        PrivacyOdometer(odometer.path)


def test_no_total_is_exceeded_after_a_lost_line_end(odometer):
    """A budget of 1 paid for 1.17: the entry without a line end was forgotten, and then cut off."""
    odometer.record(GaussianEvent(1.0, 4.6), Neighbours(ADD), "system", "first")
    odometer.path.write_text(odometer.path.read_text().rstrip("\n"))
    with pytest.raises(PrivacyError, match="of 1 at delta 9e-06"):
        PrivacyOdometer(odometer.path).record(GaussianEvent(1.0, 4.6), Neighbours(ADD), "system", "second")
    assert PrivacyOdometer(odometer.path).releases() == [("first", 1)]


@pytest.mark.parametrize("tail", ['{"release": "x", "ev', "\0\0", '{"release": "x"'])
def test_a_last_line_that_cannot_be_read_spends_all(odometer, tail):
    record(odometer, "whole")
    before = odometer.path.read_text()
    odometer.path.write_text(before + tail)
    for one in (odometer, PrivacyOdometer(odometer.path)):
        assert one.epsilon_spent == math.inf
        assert one.releases() == [("whole", 1)]
        with pytest.raises(PrivacyError, match="nothing is left: line 3 is unfinished"):
            one.remaining_budget()
        with pytest.raises(PrivacyError, match=r"t\.book: refused: nothing is left: line 3 is unfinished"):
            one.check_room(1e-3, 1e-9)
        with pytest.raises(PrivacyError, match="line 3 is unfinished"):
            record(one, "next")
    assert odometer.path.read_text() == before + tail
    odometer.path.write_text(before)
    assert odometer.problem == ""
    record(odometer, "next")


@pytest.mark.parametrize("blank", ["\n", "\n\n \n", "  ", "\r\n"])
def test_blank_lines_at_the_end_are_accepted(odometer, blank):
    record(odometer, "a")
    with open(odometer.path, "a") as file:
        file.write(blank)
    for one in (odometer, PrivacyOdometer(odometer.path)):
        assert len(one.ledger.events) == 1
    record(PrivacyOdometer(odometer.path), "b")
    record(odometer, "c")
    assert PrivacyOdometer(odometer.path).releases() == odometer.releases() == [("a", 1), ("b", 1), ("c", 1)]


def old_file(path, *kinds):
    """Write a budget file as version 2.0.0 did."""
    head = {"format": "marginalia-book", "version": 1, "id": "1", "epsilon": 1.0, "delta": 1e-5, "relation": ADD}
    event = {"type": "GaussianEvent", "sensitivity": 1.0, "sigma": 40.0, "label": "", "arithmetic": "exact"}
    entry = {"release": "x", "at": "2026-11-27T06:08:25+00:00", "relation": ADD, "event": event}
    lines = [head, *({**entry, "randomness": kind} for kind in kinds)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return PrivacyOdometer(path)


def test_a_file_of_an_earlier_version_has_hashes_from_the_next_entry_on(tmp_path):
    odometer = old_file(tmp_path / "t.book", "system", "system")
    assert (odometer.releases(), odometer.problem, odometer.experiments) == ([("x", 2)], "", False)
    record(odometer, "new", "newer")
    lines = lines_of(odometer)
    assert ["chain" in line for line in lines] == [False, False, False, True, True]
    assert len(PrivacyOdometer(odometer.path).ledger.events) == 4
    for number, changed in (
        (4, [lines[0], lines[1].replace("40.0", "400.0"), *lines[2:]]),  # the first hash is of all lines before it
        (3, [*lines[:1], *lines[2:]]),
        (5, [*lines[:4], lines[4].replace("40.0", "400.0")]),
        (6, [*lines, lines[1]]),  # as an earlier version adds to it
    ):
        odometer.path.write_text("".join(changed))
        with pytest.raises(InputError, match=f"line {number} was changed"):
            PrivacyOdometer(odometer.path)


def test_a_blank_line_between_lines_without_hashes_is_an_error(tmp_path):
    odometer = old_file(tmp_path / "t.book", "system", "system")
    lines = lines_of(odometer)
    odometer.path.write_text("".join([*lines[:2], "\n", lines[2]]))
    with pytest.raises(InputError, match="line 4 was changed, or a line before it"):
        PrivacyOdometer(odometer.path)
    odometer.path.write_text("".join([*lines, "\n"]))
    assert len(PrivacyOdometer(odometer.path).ledger.events) == 2


def test_a_last_line_of_an_earlier_version_without_an_end_counts(tmp_path):
    odometer = old_file(tmp_path / "t.book", "system", "system")
    odometer.path.write_text(odometer.path.read_text().rstrip("\n"))
    record(PrivacyOdometer(odometer.path), "new")
    assert PrivacyOdometer(odometer.path).releases() == [("x", 2), ("new", 1)]


@pytest.mark.parametrize("kinds", [("seeded", "system", "seeded"), ("seeded", ""), ("", "")])
def test_seeded_releases_in_a_file_of_an_earlier_version_spend_all(tmp_path, kinds):
    odometer = old_file(tmp_path / "t.book", *kinds)
    assert odometer.epsilon_spent == math.inf
    assert odometer.ledger.events  # it can be read
    with pytest.raises(PrivacyError, match=r"nothing is left: 2 entries, the first in line 2, are seeded") as error:
        record(odometer, "new")
    assert "\n" not in str(error.value)
    with pytest.raises(PrivacyError, match="nothing is left"):
        odometer.remaining_budget()


def test_one_seeded_entry_of_an_earlier_version_adds_up(tmp_path):
    odometer = old_file(tmp_path / "t.book", "seeded", "system")
    record(odometer, "new")
    assert odometer.epsilon_spent == odometer.ledger.epsilon_spent


@pytest.mark.parametrize(("kind", "said"), [("seeded", "a seeded release"), ("", "does not say where its noise")])
def test_seeded_releases_are_refused_unless_it_was_opened_for_experiments(odometer, tmp_path, kind, said):
    before = odometer.path.read_bytes()
    with pytest.raises(PrivacyError, match=rf"t\.book: refused: .*{said}.* was not opened for experiments; leave the"):
        record(odometer, "x", randomness=kind)
    assert odometer.path.read_bytes() == before
    trial = PrivacyOdometer.create(tmp_path / "trial.book", ADD, epsilon=1.0, delta=1e-5, experiments=True)
    record(trial, "a", "b", randomness=kind)
    record(trial, "c")
    again = PrivacyOdometer(trial.path)
    assert (again.experiments, again.n_seeded, len(again.ledger.events), again.problem) == (True, 2, 3, "")
    assert odometer.experiments is False


def test_the_verbs_say_what_is_for_experiments(call, tmp_path):
    plain, trial = tmp_path / "t.book", tmp_path / "trial.book"
    assert "experiments" not in call("budget", "open", plain, "--epsilon", 1)[1]
    code, out, _ = call("budget", "open", trial, "--epsilon", 1, "--experiments")
    assert (code, "for experiments: accepts seeded releases, and the sum is no guarantee" in out) == (0, True)
    record(PrivacyOdometer(trial), "a", "b", randomness="seeded")
    out = call("budget", "show", trial)[1]
    assert "for experiments: 2 of 2 events are seeded; the sum is no guarantee" in out
    found = json.loads(call("budget", "show", trial, "--json")[1])
    assert (found["experiments"], found["seeded_events"], found["problem"]) == (True, 2, None)
    assert "experiments" not in call("budget", "show", plain)[1]
    plain.write_text(plain.read_text() + "{")
    out = call("budget", "show", plain)[1]
    assert "spent: all of epsilon 1 at delta 1e-05, as line 2 is unfinished" in out
    assert "replace_one: the number of rows is public" in out
    assert "left: about epsilon 0 " in out
    found = json.loads(call("budget", "show", plain, "--json")[1])
    assert (found["spent"], found["left"], "line 2" in found["problem"]) == (None, [0.0, 0.0], True)


def test_a_seeded_fit_says_so_next_to_its_certificate(call, tmp_path, table):
    table.domain.to_json(tmp_path / "d.json")
    table.to_csv(tmp_path / "t.csv")
    data = ("--data", tmp_path / "t.csv", "--domain", tmp_path / "d.json", "--epsilon", 1)
    fit = ("synthesize", "--method", "independent", *data, "--out", tmp_path / "s.csv")
    assert (
        "-DP, replace_one: the number of rows is public; seeded, for experiments only\n" in call(*fit, "--seed", 0)[1]
    )
    assert json.loads(call(*fit, "--seed", 0, "--json")[1])["randomness"] == "seeded"
    assert "-DP, replace_one: the number of rows is public\n" in call(*fit)[1]
    budget = ("budget", "open", tmp_path / "t.book", "--epsilon", 2)
    assert call(*budget)[0] == 0
    code, out, err = call(*fit, "--seed", 0, "--budget", tmp_path / "t.book")
    assert (code, out, err.count("\n"), "a seeded release, and the file was not opened for" in err) == (2, "", 1, True)


def test_a_thread_records_nothing_in_the_file_of_another(odometer, tmp_path):
    """The fit of another thread would be in the wrong file, and could use up its total."""
    own = PrivacyOdometer.create(tmp_path / "own.book", ADD, epsilon=1.0, delta=1e-5)
    seen = []

    def fit():
        seen.append(current_recorder())
        Ledger(ADD, recorder=current_recorder()).append(GaussianEvent(1.0, 40.0), "system")
        with charging(own, "own"):
            Ledger(ADD, recorder=current_recorder()).append(GaussianEvent(1.0, 40.0), "system")

    with charging(odometer, "mine") as recorder:
        thread = threading.Thread(target=fit)
        thread.start()
        thread.join()
        assert current_recorder() is recorder
    assert (seen, odometer.releases(), own.releases()) == ([None], [], [("own", 1)])


def test_relations_in_a_file(tmp_path, odometer):
    public_n = PrivacyOdometer.create(tmp_path / "n.book", "replace_one", epsilon=1.0, delta=1e-5, reserve=0.1)
    public_n.record(GaussianEvent(1.0, 16.0), Neighbours(ADD), "system", "x")
    public_n.record(PoissonGaussianEvent(0.01, 4.0, 10), Neighbours(Relation.REPLACE_ONE), "system", "x")
    assert public_n.ledger.events[0].sensitivity == 2.0
    assert PrivacyOdometer(public_n.path).ledger.events == public_n.ledger.events  # as another process reads it
    with pytest.raises(InputError, match="promises nothing under add_remove"):
        odometer.record(GaussianEvent(1.0, 16.0), Neighbours(Relation.REPLACE_ONE), "system", "x")


def test_what_others_have_recorded_is_no_longer_left(odometer):
    other = PrivacyOdometer(odometer.path)
    before = other.remaining_budget()
    odometer.record(GaussianEvent(1.0, 8.0), Neighbours(ADD), "system", "x")
    assert other.remaining_budget()[0] < 0.9 * before[0]
    odometer.record(GaussianEvent(1.0, 8.0), Neighbours(ADD), "system", "x")  # the same again counts again
    assert len(other.ledger.events) == len(PrivacyOdometer(odometer.path).ledger.events) == 2
    other.check_room(0.1, 1e-6)
    for epsilon, delta, said in ((0.9, 1e-6, "is left"), (0.1, 1e-3, "the delta of the file is 1e-05")):
        with pytest.raises(PrivacyError, match=said):
            other.check_room(epsilon, delta)


def test_a_file_that_has_become_shorter_is_an_error(odometer):
    for label in "ab":
        odometer.record(GaussianEvent(1.0, 32.0), Neighbours(ADD), "system", label)
    lines = odometer.path.read_bytes().splitlines(keepends=True)
    odometer.path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(InputError, match="has become shorter"):
        odometer.remaining_budget()


def test_one_file_is_open_at_a_time(odometer, tmp_path):
    other = PrivacyOdometer.create(tmp_path / "other.book", ADD, epsilon=1.0, delta=1e-5)
    with charging(odometer, "x"):
        with pytest.raises(InputError, match="a release is recorded once"), charging(other, "y"):
            pass
        assert current_recorder().odometer is odometer
    assert current_recorder() is None


def test_a_disk_that_refuses_an_entry_refuses_the_release(odometer, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    before = odometer.path.read_bytes()
    ledger = Ledger(ADD, recorder=ReleaseRecorder(odometer, "x"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="No space left on device; nothing is released"):
            ledger.append(GaussianEvent(1.0, 16.0), "system")
    assert ledger.events == ()
    assert odometer.path.read_bytes() == before  # else a line that the disk cut off would count as all that is left
    ledger.append(GaussianEvent(1.0, 16.0), "system")
    assert PrivacyOdometer(odometer.path).releases() == [("x", 1)]


@pytest.mark.parametrize(
    "content", ["", "x\n", "{}\n", '{"format": "marginalia-book", "version": 3}\n', "[]\n", "[]", "{"]
)
def test_another_file_is_an_error_of_one_line(tmp_path, content):
    (tmp_path / "t.book").write_text(content)
    with pytest.raises(InputError, match="is not a budget file"):
        PrivacyOdometer(tmp_path / "t.book")
    with pytest.raises(InputError, match="cannot open the budget file"):
        PrivacyOdometer(tmp_path / "none")
    with pytest.raises(InputError, match="never overwritten"):
        PrivacyOdometer.create(tmp_path / "t.book", ADD, epsilon=1.0, delta=1e-5)


@pytest.mark.slow
def test_the_verbs(call, tmp_path, monkeypatch, table):
    monkeypatch.chdir(tmp_path)
    table.domain.to_json("d.json")
    table.to_csv("t.csv")
    data = ("--data", "t.csv", "--domain", "d.json", "--budget", "t.book")
    assert call("budget", "open", "t.book", "--epsilon", 1)[0] == 0
    assert call("synthesize", "--method", "aim", *data, "--epsilon", 0.5, "--out", "s.csv")[0] == 0
    assert call("fit", "--method", "ssp", *data, "--target", "b", "--epsilon", 0.5, "--out", "m.json")[0] == 0
    code, out, _ = call("budget", "show", "t.book")
    assert code == 0
    assert "aim on t.csv, epsilon 0.5" in out
    found = json.loads(call("budget", "show", "t.book", "--json")[1])
    together = json.loads(call("certify", "s.csv", "m.json", "--together", "--json")[1])
    assert together["epsilon"] < found["spent"] < 1.02 * together["epsilon"]  # at nine tenths of the delta
    assert found["spent"] > 0.5
    assert call("budget", "open", "private_n.book", "--epsilon", 1, "--relation", "add_remove")[0] == 0
    for refused in (
        ("fit", "--method", "ssp", *data, "--target", "b", "--epsilon", 0.9, "--out", "no.json"),
        ("fit", "--method", "ols", *data, "--target", "b", "--epsilon", 0.1, "--out", "no.json"),
        ("fit", "--method", "ssp", *data, "--target", "b", "--epsilon", 0.1, "--budget", "private_n.book"),
        ("budget", "open", "t.book", "--epsilon", 9),
    ):
        code, out, err = call(*refused)
        assert (code, out, err.count("\n")) == (2, "", 1), err
    assert not (tmp_path / "no.json").exists()
    assert json.loads(call("budget", "show", "t.book", "--json")[1]) == found


def test_the_odometer_has_a_short_name():
    import marginalia

    assert marginalia.Odometer is PrivacyOdometer
    with pytest.raises(AttributeError, match="no attribute 'Odometers'"):
        _ = marginalia.Odometers
