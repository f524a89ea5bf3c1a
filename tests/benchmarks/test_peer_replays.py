"""Replays of other libraries: on made-up ones in their places, whose noise is known; some are wrong."""

import ast
import json
import math
import sys
from pathlib import Path

import pytest
from peer_replays import CAUSES, HIDDEN, REPLAYED, attained, replay, row

from marginalia.audit.loss import transcript_epsilon
from marginalia.peers.record import facts_of

ADAPTER = """
import numpy as np
METHODS = {
    "good": {"tasks": [], "relations": ["add_remove"]},
    "selects": {"tasks": [], "relations": ["add_remove"]},
    "twice": {"tasks": [], "relations": ["add_remove"]},
    "shows": {"tasks": [], "relations": ["add_remove"]},
    "asks": {"tasks": [], "relations": ["add_remove"]},
    "entropy": {"tasks": [], "relations": ["add_remove"]},
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
    if request.method == "entropy":
        epsilon, score, free = 4.0, {"a": 1.0, "b": 1.0}, ["a", "b"]
        gain = [1.0 if (columns["a"] > 0).any() else 0.0, 0.0]
        scores = 0.5 * epsilon * np.array(gain) + rng.gumbel(size=len(free))
        return {n: np.full(request.rows, int(scores.argmax())) for n in columns}
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


# Modules as dpmm and smartnoise-synth have them, under the names of both; `how` says where a selection is drawn from.
SCRIPT = """
import sys
from types import ModuleType
import numpy as np
METHODS = {"mst": {"tasks": [], "relations": ["add_remove"]}}
NAMES = ("aim", "mst", "mechanism", "estimation")
made = {name: ModuleType(name) for name in NAMES}
PARENTS = {"dpmm.models": "aim mst", "dpmm.models.base.mechanisms": "mechanism", "snsynth.aim": "aim",
           "snsynth.mst": "mst", "mbi": "estimation"}
for parent, names in PARENTS.items():
    sys.modules[parent] = ModuleType(parent)
    for name in names.split():
        setattr(sys.modules[parent], name, made[name])
for parent in ("dpmm", "dpmm.models.base", "snsynth"):
    sys.modules[parent] = ModuleType(parent)
estimation, mst = made["estimation"], made["mst"]
estimation.mirror_descent = lambda noisy, iters: (np.asarray(noisy), iters)
for module in made.values():
    module.FactoredInference = lambda noisy, iters: (np.asarray(noisy), iters)


def exponential_mechanism(scores, random):
    p = np.exp(scores) / np.exp(scores).sum()
    return random.choice(p.size, p=p)


def measure(counts):
    x = counts
    return x + np.asarray(mst.gaussian_noise(4.0, x.size))


def fit(request):
    b = request.columns["b"]
    counts = np.bincount(b, minlength=4).astype(float)
    if request.library == "dpmm":
        random, estimate = np.random.RandomState(0), mst.FactoredInference
    else:
        np.random.seed(0)
        random, estimate = np.random, estimation.mirror_descent
    chosen = exponential_mechanism(0.25 * counts[2:], random)
    noisy, iterations = estimate(measure(counts), iters=5000)
    assert iterations < 5000
    order = random.choice(4, 4, True, np.full(4, 0.25))  # no selection of a mechanism
    return {n: np.full(request.rows, (int(noisy.sum() * 1000) + chosen + order[0]) % 2) for n in request.columns}
"""


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A working folder in which mbi is the adapter above, in the environment of the tests, and dpmm is the script."""
    (tmp_path / "envs" / "peers").mkdir(parents=True)
    for library, text in {"mbi": ADAPTER, "dpmm": SCRIPT, "smartnoise": SCRIPT, "gone": ADAPTER}.items():
        (tmp_path / "envs" / "peers" / f"{library}.py").write_text(text)
        home = tmp_path / ".peers" / library
        home.mkdir(parents=True)
        problem = "no such wheel" if library == "gone" else ""
        (home / "environment.json").write_text(json.dumps({"python": sys.executable, "problem": problem}))
    monkeypatch.chdir(tmp_path)


def played(method):
    return replay(f"peer/mbi/{method}", "", epsilon=1.0, delta=1e-5)


@pytest.mark.slow
def test_what_counts_attain_is_that_of_their_gaussians(made_up):
    """A row is in one cell of each of four columns: mu is 2 / sigma."""
    found = played("good")
    assert found.epsilons == pytest.approx([transcript_epsilon(2 / 4.0, [], 1e-5)] * 3, rel=1e-9)
    assert (found.releases, found.says) == (4, ())


@pytest.mark.slow
def test_a_sensitivity_that_is_twice_the_declared_one_is_attained(made_up):
    assert max(played("twice").epsilons) == pytest.approx(transcript_epsilon(2 * 2 / 4.0, [], 1e-5), rel=1e-9)


@pytest.mark.slow
def test_a_selection_adds_to_what_is_attained(made_up):
    found = played("selects")
    assert found.says == ()
    assert found.releases == 2
    counts = transcript_epsilon(1 / 4.0, [], 1e-5)
    assert counts < max(found.epsilons) < counts + 0.25  # half of its epsilon: one of two scores moves by 1


@pytest.mark.slow
def test_a_score_that_moves_by_more_where_a_column_is_almost_constant_is_met_there(made_up):
    """As that of dpmm's PrivBayes: an entropy is 0 without the one row that has another value."""
    few, many = (replay("peer/mbi/entropy", "", epsilon=1.0, delta=1e-5, flat=flat) for flat in (False, True))
    assert max(few.epsilons) < 0.1
    both_alike = math.log((1 + math.exp(2)) / 2)  # without the row
    assert many.epsilons[0] == pytest.approx(both_alike, abs=1e-3)
    assert max(many.epsilons[1:]) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("library", ["dpmm", "smartnoise"])
def test_of_the_script_that_both_come_from_noise_and_selections_are_reached(made_up, library):
    """Where a selection draws from a state of its own, and where from the global one; other draws are let alone."""
    found = replay(f"peer/{library}/mst", "", epsilon=1.0, delta=1e-5)
    assert (found.releases, found.says) == (2, ())
    counts = transcript_epsilon(1 / 4.0, [], 1e-5)
    assert found.epsilons[0] > counts + 1e-3  # the row with b = 3 moves one of two scores by a quarter
    assert found.epsilons[0] < counts + 0.25


def row_of(monkeypatch, name, **settings):
    monkeypatch.setitem(REPLAYED, name, ((0,), ()))
    return row(name, "", 1.0)


def test_a_row_says_how_many_pairs_attain_more_than_the_claim_and_why(made_up, monkeypatch):
    monkeypatch.setitem(CAUSES, ("peer/mbi/twice", ""), "counts are doubled")
    monkeypatch.setitem(CAUSES, ("peer/mbi/good", ""), "never said")
    wrong, right = row_of(monkeypatch, "peer/mbi/twice"), row_of(monkeypatch, "peer/mbi/good")
    assert (wrong["pairs"], wrong["above"], wrong["says"]) == (3, 3, "counts are doubled")
    assert float(wrong["attained"]) > 1.0
    epsilon = transcript_epsilon(2 / 4.0, [], 1e-5)
    assert (float(right["attained"]), right["above"]) == (pytest.approx(epsilon, rel=1e-3), 3 if epsilon > 1 else 0)


@pytest.mark.slow
def test_a_replay_that_cannot_be_done_is_a_row_with_the_reason(made_up, monkeypatch):
    found = row_of(monkeypatch, "peer/gone/good")
    assert (found["attained"], found["says"]) == ("", "not replayed: peer 'gone' is not installed: no such wheel")
    (Path("envs") / "peers" / "mbi.py").write_text(ADAPTER.replace("sigma = 4.0", "sigma = 4.0 / 0 #"))
    assert "ZeroDivisionError" in row_of(monkeypatch, "peer/mbi/good")["says"]


def test_each_private_method_of_a_peer_is_replayed_or_says_why_not():
    names = set()
    for path in Path("envs/peers").glob("*.py"):
        assigned = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
        [methods] = [ast.literal_eval(node.value) for node in assigned if node.targets[0].id == "METHODS"]
        names |= {f"peer/{path.stem}/{method}" for method in methods if facts_of(path.stem, method)["private"]}
    assert names == {*REPLAYED, *HIDDEN}
    assert not {*REPLAYED} & {*HIDDEN}


@pytest.mark.slow
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
