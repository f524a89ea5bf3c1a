"""Replays of other libraries: on made-up ones in the place of mbi, whose noise is known; some are wrong."""

import json
import math
import sys

import pytest

from marginalia.audit.loss import transcript_epsilon
from marginalia.audit.peers import attained, replay

ADAPTER = """
import numpy as np
METHODS = {
    "good": {"tasks": [], "relations": ["add_remove"]},
    "selects": {"tasks": [], "relations": ["add_remove"]},
    "twice": {"tasks": [], "relations": ["add_remove"]},
    "shows": {"tasks": [], "relations": ["add_remove"]},
    "asks": {"tasks": [], "relations": ["add_remove"]},
    "scales": {"tasks": [], "relations": ["add_remove"]},
}


def fit(request):
    rng, columns = np.random.default_rng(request.seed), request.columns
    true = {n: np.bincount(columns[n], minlength=size).astype(float) for n, size in request.sizes.items()}
    sigma = 4.0 + (len(columns["a"]) * 0.01 if request.method == "scales" else 0.0)
    noisy = lambda q: true[q] + rng.normal(0, sigma, true[q].size)
    if request.method == "twice":
        true = {q: 2 * counts for q, counts in true.items()}
    names = list(true)
    if request.method == "asks" and (columns["b"] == 3).any():
        names.append("b")
    if request.method == "selects":
        epsilon, score, free, gain = 0.5, {"a": 1.0, "b": 1.0}, ["a", "b"], [true["a"][0], true["b"][3]]
        scores = 0.5 * epsilon * np.array(gain) + rng.gumbel(size=len(free))
        names = [free[int(scores.argmax())]]
    counts = {q: noisy(q) for q in names}
    shown = len(columns["a"]) if request.method == "shows" else 0
    first = next(iter(counts.values()))
    return {n: np.full(request.rows, (int(first[0] * 1000) + shown) % request.sizes[n]) for n in columns}
"""


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A working folder in which mbi is the adapter above, in the environment of the tests."""
    (tmp_path / "envs" / "peers").mkdir(parents=True)
    (tmp_path / "envs" / "peers" / "mbi.py").write_text(ADAPTER)
    (tmp_path / ".peers" / "mbi").mkdir(parents=True)
    place = tmp_path / ".peers" / "mbi" / "environment.json"
    place.write_text(json.dumps({"python": sys.executable, "problem": ""}))
    monkeypatch.chdir(tmp_path)


def played(method):
    return replay(f"peer/mbi/{method}", "", epsilon=1.0, delta=1e-5)


def test_what_counts_attain_is_that_of_their_gaussians(made_up):
    """A row is in one cell of each of four columns: mu is 2 / sigma."""
    found = played("good")
    assert found.epsilon == pytest.approx(transcript_epsilon(2 / 4.0, [], 1e-5), rel=1e-9)
    assert (found.releases, found.pairs, found.says) == (4, 3, ())


def test_a_sensitivity_that_is_twice_the_declared_one_is_attained(made_up):
    assert played("twice").epsilon == pytest.approx(transcript_epsilon(2 * 2 / 4.0, [], 1e-5), rel=1e-9)


def test_a_selection_adds_to_what_is_attained(made_up):
    found = played("selects")
    assert found.says == ()
    assert found.releases == 2
    counts = transcript_epsilon(1 / 4.0, [], 1e-5)
    assert counts < found.epsilon < counts + 0.25  # half of its epsilon: one of two scores moves by 1


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ("shows", "shows more than it releases"),
        ("asks", "releases another number of times, or by another mechanism"),
        ("scales", "its noise depends on the rows"),
    ],
)
def test_what_passes_by_the_noise_is_said(made_up, method, says):
    assert says in played(method).says


def test_laws_are_told_apart_by_kind():
    assert attained([["laplace", 2.0, 2.0, [3.0, 5.0], [2.0, 5.0]]], 0.0) == pytest.approx(0.5)
    halves = [math.log(0.5)] * 2
    assert attained([["selection", 1.0, 1.0, halves, [math.log(0.25), math.log(0.75)]]], 0.0) == pytest.approx(
        math.log(2)
    )
