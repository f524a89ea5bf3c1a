"""A table and its certificate are written as one unit: no certificate lies next to another table, also after a kill."""

import json
import os
import random
import resource
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.privacy.certificate import HASH, Certificate, certificate_path, write_with_certificate
from marginalia.synthesis import Independent

ROWS = {0.1: 50, 10.0: 70}  # of the table that is released at each epsilon: they tell whose it is


@pytest.fixture(scope="module")
def models():
    table = Table(np.random.default_rng(0).integers(0, 2, (200, 3)), Domain.from_sizes({"a": 2, "b": 2, "c": 2}))
    return {epsilon: Independent(epsilon=epsilon, random_state=0, relation="add_remove").fit(table) for epsilon in ROWS}


def write(model, out):
    with write_with_certificate(model, out) as path:
        path.write_text("a,b,c\n" + "0,1,0\n" * ROWS[model.epsilon])


def pair(out):
    """Return the epsilons that the table and the certificate are of, without a look at any hash."""
    rows = out.read_text().count("\n") - 1 if out.exists() else None
    of = {n: epsilon for epsilon, n in ROWS.items()}[rows] if rows is not None else None
    return of, json.loads(certificate_path(out).read_text())["epsilon"] if certificate_path(out).exists() else None


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_no_certificate_beside_another_table(models, tmp_path):
    out, dice, seen = tmp_path / "s.csv", random.Random(0), set()
    write(models[0.1], out)
    for first in [1, -1] * 50:
        before = out.stat().st_ctime_ns
        child = os.fork()
        if child == 0:
            try:
                while True:
                    for model in list(models.values())[::first]:
                        write(model, out)
            finally:
                os._exit(1)
        while out.stat().st_ctime_ns == before:  # a table has come, however slow the machine is
            time.sleep(0.001)
        time.sleep(dice.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        table, certificate = pair(out)
        seen.add((table, certificate))
        assert certificate is None or certificate == table
        if certificate is not None:
            assert not Certificate.read(certificate_path(out)).hash_mismatch(out)
    assert {(0.1, 0.1), (10.0, 10.0)} <= seen  # kills did come between whole releases, too


def test_the_old_certificate_goes_before_the_new_table_comes(models, tmp_path, monkeypatch):
    """Also one without a hash, of an older version, which nothing would give away."""
    out = tmp_path / "s.csv"
    write(models[0.1], out)
    replace = Path.replace

    def stop(path, target):
        if target == certificate_path(out):
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        write(models[10.0], out)
    assert pair(out) == (10.0, None)


@pytest.mark.parametrize(("room", "of"), [(64, Path), (500, certificate_path)])
def test_a_table_or_certificate_that_could_not_be_written_leaves_the_old_pair(room, of, models, tmp_path):
    """There is room for the table, and none for its certificate; before, the new table came and the pair was lost."""
    out = tmp_path / "s.csv"
    write(models[0.1], out)
    before = out.read_bytes(), certificate_path(out).read_bytes()
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, old[1]))  # as a full disk: the write fails in the middle
    try:
        with pytest.raises(InputError) as caught, write_with_certificate(models[10.0], out) as path:
            models[10.0].write_sample(path, 70)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert str(caught.value) == f"cannot write {of(out)}: File too large"
    assert (out.read_bytes(), certificate_path(out).read_bytes()) == before
    assert {p.name for p in tmp_path.iterdir()} == {out.name, certificate_path(out).name}


def test_a_release_over_an_old_one_is_bound_to_the_new_bytes(models, tmp_path):
    for model in models.values():
        write(model, tmp_path / "s.csv")
        assert not Certificate.read(certificate_path(tmp_path / "s.csv")).hash_mismatch(tmp_path / "s.csv")


def test_a_certificate_is_bound_to_the_bytes(models, tmp_path):
    out = tmp_path / "s.csv"
    write(models[0.1], out)
    certificate = Certificate.read(certificate_path(out))
    assert len(certificate.content[HASH]) == 64
    assert not certificate.hash_mismatch(out)
    for at in (0, 31, 63):  # every digit counts
        told = certificate.content[HASH]
        other = told[:at] + "0123456789abcdef"[int(told[at], 16) - 1] + told[at + 1 :]
        assert Certificate({**certificate.content, HASH: other}).hash_mismatch(out)
    out.write_bytes(out.read_bytes() + b"\n")
    assert certificate.hash_mismatch(out)
