"""The book of a table: nothing is released that is not entered, whatever a process dies of."""

import json
import multiprocessing
import os
import pickle
import random
import signal
import threading
import time

import numpy as np
import pytest

from marginalia.data import Attribute, Domain, Table
from marginalia.errors import InputError, PrivacyError
from marginalia.methods.fit import Budget, fit_learner, fit_synthesizer
from marginalia.methods.registry import BUILT_IN
from marginalia.privacy.accountants.composition import composed_epsilon
from marginalia.privacy.book import Book, Booking, booked
from marginalia.privacy.events import CompositionEvent, GaussianEvent, PoissonGaussianEvent, rebuild
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import gaussian
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Neighbours, Relation

ADD = Relation.ADD_REMOVE
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def book(tmp_path):
    return Book.create(tmp_path / "t.book", ADD, epsilon=1.0, delta=1e-5)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    domain = Domain([Attribute("a", 2), Attribute("b", 2, "numeric"), Attribute("y", 2)])  # all methods take bits
    return Table(np.column_stack([rng.integers(0, size, 400) for size in domain.sizes]), domain)


def entries(path):
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


def release_without_end(path, out, start):
    """Make releases as a fit does, each with a name of its own; note a name as soon as its noise is drawn."""
    with booked(Book(path), "loop"):
        ledger = Ledger(ADD, booking=Booking.now)
        for i in range(10**6):
            label = f"{start}.{i}"
            gaussian([i], sensitivity=1, sigma=1e5, ledger=ledger, randomness=Randomness(None), label=label)
            os.write(out, f"{label}\n".encode())


@pytest.mark.slow
def test_fifty_kills_leave_no_release_that_is_not_in_the_book(book, tmp_path):
    rng = random.Random(0)
    gaussian([0], sensitivity=1, sigma=1e5, ledger=Ledger(ADD), randomness=Randomness(None))  # compiles it once
    assert composed_epsilon((GaussianEvent(1.0, 1e5),), ADD, 1e-5) < 1  # and imports what prices it
    released = os.open(tmp_path / "released", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for start in range(50):
        process = FORK.Process(target=release_without_end, args=(book.path, released, start))
        process.start()
        before, end = os.fstat(released).st_size, time.monotonic() + 20
        while os.fstat(released).st_size <= before + 2 * len(f"{start}.0\n") and time.monotonic() < end:  # two releases
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.02))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    names = (tmp_path / "released").read_text().split()
    known = {entry["event"]["label"] for entry in entries(book.path)}
    assert len(names) > 100
    assert set(names) <= known
    assert len(known) <= len(names) + 50  # a kill costs one entry at most
    assert Book(book.path).ledger.epsilon_spent == pytest.approx(
        composed_epsilon((CompositionEvent((GaussianEvent(1.0, 1e5),), len(known)),), ADD, 1e-5)
    )


def test_processes_and_threads_enter_one_after_the_other(book, monkeypatch, tmp_path):
    """As many as there is room for, whoever comes first: never one more, and no entry is lost."""
    room = 0
    while composed_epsilon((CompositionEvent((GaussianEvent(1.0, 20.0),), room + 1),), ADD, 1e-5) <= 1.0:
        room += 1

    fsync, together = os.fsync, FORK.Barrier(8)
    entered = os.open(tmp_path / "entered", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    monkeypatch.setattr(os, "fsync", lambda file: (time.sleep(0.005), fsync(file)))  # a slow disk: time to interfere

    def enter_until_refused(start):
        mine = Book(book.path)
        together.wait()
        try:
            for i in range(room):
                mine.enter(GaussianEvent(1.0, 20.0, f"{start}.{i}"), Neighbours(ADD), "system", "all")
                os.write(entered, f"{start}.{i}\n".encode())
        except PrivacyError:
            pass

    processes = [FORK.Process(target=enter_until_refused, args=(i,)) for i in range(4)]
    threads = [threading.Thread(target=enter_until_refused, args=(f"t{i}",)) for i in range(4)]
    for one in (*processes, *threads):
        one.start()
    for one in (*processes, *threads):
        one.join()
    names = [entry["event"]["label"] for entry in entries(book.path)]
    assert sorted(names) == sorted((tmp_path / "entered").read_text().split())
    assert len(names) == room
    assert book.ledger.certified


def test_what_goes_beyond_the_total_is_refused_before_noise_is_drawn(book, table):
    budget = Budget(0.8, 1e-5, "add_remove", 0)
    with booked(book, "first"):
        first = fit_learner("ssp", table, "b", budget)
    assert [rebuild(entry["event"]) for entry in entries(book.path)] == list(first.ledger_.events)
    assert Booking.now is None
    before = book.path.read_bytes()
    with booked(book, "second"), pytest.raises(PrivacyError, match=r"t\.book: refused: with .* of 1 at delta 1e-05"):
        fit_learner("ssp", table, "b", budget)
    assert book.path.read_bytes() == before
    with pytest.raises(PrivacyError, match=r"refused: epsilon 0\.8 at delta 1e-05 is asked for, epsilon 0\.4"):
        book.check_room(0.8, 1e-5)
    left, delta = book.left()
    assert composed_epsilon((*first.ledger_.events, GaussianEvent(1.0, 1e9)), ADD, delta) < 1
    book.check_room(left * 0.999, 1e-5)


@pytest.mark.parametrize("method", [m.id for m in BUILT_IN.values() if any(arm.is_private for arm in m.arms)])
def test_every_private_method_enters_all_that_it_releases(tmp_path, table, method):
    relation = BUILT_IN[method].relations[0]
    book = Book.create(tmp_path / "t.book", relation, epsilon=1.0, delta=1e-5)
    budget = Budget(0.5, 1e-5, relation, 0, n_public=400 if relation == "add_remove" else None)
    with booked(book, method) as page:
        if BUILT_IN[method].kind == "synthesizer":
            model = fit_synthesizer(method, table, budget)
        else:
            model = fit_learner(method, table, "y" if "logistic" in BUILT_IN[method].classes else "b", budget)
    assert page.entered == len(model.ledger_.events) > 0
    assert [rebuild(entry["event"]) for entry in entries(book.path)] == list(model.ledger_.events)


def test_a_line_that_a_kill_cut_off_is_written_over(book):
    book.enter(GaussianEvent(1.0, 40.0, "whole"), Neighbours(ADD), "system", "x")
    with open(book.path, "a") as file:
        file.write('{"release": "x", "ev')
    again = Book(book.path)
    assert len(again.ledger.events) == 1
    again.enter(GaussianEvent(1.0, 40.0, "next"), Neighbours(ADD), "system", "x")
    assert [entry["event"]["label"] for entry in entries(book.path)] == ["whole", "next"]
    assert book.releases() == [("x", 2)]  # another's entry is seen
    assert len(pickle.loads(pickle.dumps(book)).ledger.events) == 2


def test_a_thread_enters_nothing_in_the_book_of_another(book, tmp_path):
    """The fit of another thread would be in the wrong file, and could use up its total."""
    own = Book.create(tmp_path / "own.book", ADD, epsilon=1.0, delta=1e-5)
    seen = []

    def fit():
        seen.append(Booking.now)
        Ledger(ADD, booking=Booking.now).append(GaussianEvent(1.0, 40.0), "system")
        with booked(own, "own"):
            Ledger(ADD, booking=Booking.now).append(GaussianEvent(1.0, 40.0), "system")

    with booked(book, "mine") as page:
        thread = threading.Thread(target=fit)
        thread.start()
        thread.join()
        assert Booking.now is page
    assert (seen, book.releases(), own.releases()) == ([None], [], [("own", 1)])


def test_relations_in_a_book(tmp_path, book):
    public_n = Book.create(tmp_path / "n.book", "replace_one", epsilon=1.0, delta=1e-5)
    public_n.enter(GaussianEvent(1.0, 16.0), Neighbours(ADD), "system", "x")
    public_n.enter(PoissonGaussianEvent(0.01, 4.0, 10), Neighbours(Relation.REPLACE_ONE), "system", "x")
    assert public_n.ledger.events[0].sensitivity == 2.0
    assert Book(public_n.path).ledger.events == public_n.ledger.events  # as another process reads it
    with pytest.raises(InputError, match="promises nothing under add_remove"):
        book.enter(GaussianEvent(1.0, 16.0), Neighbours(Relation.REPLACE_ONE), "system", "x")


def test_what_others_have_entered_is_no_longer_left(book):
    other = Book(book.path)
    before = other.left()
    book.enter(GaussianEvent(1.0, 8.0), Neighbours(ADD), "system", "x")
    assert other.left()[0] < 0.9 * before[0]
    book.enter(GaussianEvent(1.0, 8.0), Neighbours(ADD), "system", "x")  # the same again counts again
    assert len(other.ledger.events) == len(Book(book.path).ledger.events) == 2
    other.check_room(0.1, 1e-6)
    for epsilon, delta in ((0.9, 1e-6), (0.1, 1e-3)):
        with pytest.raises(PrivacyError, match="is left"):
            other.check_room(epsilon, delta)


def test_a_book_that_has_become_shorter_is_refused(book):
    for label in "ab":
        book.enter(GaussianEvent(1.0, 32.0), Neighbours(ADD), "system", label)
    lines = book.path.read_bytes().splitlines(keepends=True)
    book.path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(InputError, match="has become shorter"):
        book.left()


def test_one_book_is_open_at_a_time(book, tmp_path):
    other = Book.create(tmp_path / "other.book", ADD, epsilon=1.0, delta=1e-5)
    with booked(book, "x"):
        with pytest.raises(InputError, match="a release is entered once"), booked(other, "y"):
            pass
        assert Booking.now.book is book
    assert Booking.now is None


def test_a_disk_that_refuses_an_entry_refuses_the_release(book, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ledger = Ledger(ADD, booking=Booking(book, "x"))
    with pytest.raises(InputError, match="No space left on device; nothing is released"):
        ledger.append(GaussianEvent(1.0, 16.0))
    assert ledger.events == ()


@pytest.mark.parametrize("content", ["", "x\n", "{}\n", '{"format": "marginalia-book", "version": 2}\n', "[]\n"])
def test_what_is_no_book_is_one_line(tmp_path, content):
    (tmp_path / "t.book").write_text(content)
    with pytest.raises(InputError, match="is no book"):
        Book(tmp_path / "t.book")
    with pytest.raises(InputError, match="cannot open the book"):
        Book(tmp_path / "none")
    with pytest.raises(InputError, match="never overwritten"):
        Book.create(tmp_path / "t.book", ADD, epsilon=1.0, delta=1e-5)


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
    assert found["spent"] == pytest.approx(together["epsilon"])
    assert 0.5 < found["spent"] < 1
    for refused in (
        ("fit", "--method", "ssp", *data, "--target", "b", "--epsilon", 0.9, "--out", "no.json"),
        ("fit", "--method", "ols", *data, "--target", "b", "--epsilon", 0.1, "--out", "no.json"),
        ("fit", "--method", "ssp", *data, "--target", "b", "--epsilon", 0.1, "--relation", "replace_one"),
        ("budget", "open", "t.book", "--epsilon", 9),
    ):
        code, out, err = call(*refused)
        assert (code, out, err.count("\n")) == (2, "", 1), err
    assert not (tmp_path / "no.json").exists()
    assert json.loads(call("budget", "show", "t.book", "--json")[1]) == found
