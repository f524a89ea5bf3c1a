"""Our engine against the reference implementation, run in its own environment."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from aim import REFERENCE_PYTHON
from aim_worker import objective, write_problem
from harness import in_own_process

from marginalia.data import Domain
from marginalia.marginals import FitSettings, Measurement, eliminate, estimate

pytestmark = pytest.mark.slow

SIZES = {"a": 4, "b": 3, "c": 2, "d": 5, "e": 3, "f": 1}
STRUCTURES = {
    "tree": ["ab", "bc", "cd", "de"],
    "cycle": ["ab", "bc", "cd", "ad"],
    "missing": ["ab", "bc"],
    "three-way": ["abc", "cde", "ae"],
    "disconnected": ["ab", "de"],
    "singletons": ["a", "b", "c", "d", "e", "f"],
}


@pytest.fixture(scope="module")
def reference():
    python = Path(os.environ.get("MARGINALIA_REFERENCE_PYTHON", REFERENCE_PYTHON))
    if not python.exists():
        pytest.skip(f"needs mbi 2.0.0: 'python benchmarks/aim.py setup' makes its environment at {REFERENCE_PYTHON}")
    worker = Path(__file__).parents[2] / "benchmarks" / "aim_reference.py"
    return lambda problem, *arguments: in_own_process([python, worker, problem, *arguments])


@pytest.mark.parametrize("cliques", STRUCTURES.values(), ids=list(STRUCTURES))
def test_fits_agree_where_both_have_converged(reference, tmp_path, cliques):
    rng = np.random.default_rng(0)
    domain = Domain.from_sizes(SIZES)
    measurements = [Measurement(tuple(c), rng.gamma(1.0, 40.0, [SIZES[a] for a in c]), 3.0) for c in cliques]
    write_problem(tmp_path / "p.npz", domain, measurements)
    theirs = reference(tmp_path / "p.npz", "estimate", "--iterations", "20000")
    settings = FitSettings(t=1.0, gap=1e-9, decrease=1e-9, passes=20_000)
    ours = estimate(domain, measurements, settings=settings)
    assert objective(ours, measurements) <= theirs["curve"][-1][2] * (1 + 1e-6)
    for m, mu in zip(measurements, theirs["marginals"], strict=True):
        np.testing.assert_allclose(ours.marginal(m.attributes).ravel(), mu, atol=0.02 * m.sigma)


def test_size_rule_counts_the_same_cells(reference, tmp_path):
    rng = np.random.default_rng(1)
    names = list(SIZES)
    sets = []
    for _ in range(40):
        cliques = [tuple(rng.choice(names[:-1], size=rng.integers(1, 4), replace=False)) for _ in range(6)]
        sets.append([*((a,) for a in names), *(tuple(sorted(str(a) for a in c)) for c in cliques)])
    domain = Domain.from_sizes(SIZES)
    write_problem(tmp_path / "p.npz", domain, [], clique_sets=sets)
    theirs = reference(tmp_path / "p.npz", "sizes")["megabytes"]
    ours = [eliminate(sorted({tuple(names.index(a) for a in c) for c in s}), domain.sizes).megabytes for s in sets]
    # The reference takes another elimination order where the graph of the pairs is a tree: there, none is larger.
    differ = [(o, t) for o, t in zip(ours, theirs, strict=True) if o != pytest.approx(t)]
    assert not differ


def test_pair_cliques_of_a_grid_count_the_same_cells(reference, tmp_path):
    names = [f"x{i}" for i in range(9)]
    domain = Domain.from_sizes({n: 2 + i % 3 for i, n in enumerate(names)})
    edges = [(i, j) for i, j in itertools.combinations(range(9), 2) if abs(i // 3 - j // 3) + abs(i % 3 - j % 3) == 1]
    write_problem(tmp_path / "p.npz", domain, [], clique_sets=[[[names[i], names[j]] for i, j in edges]])
    theirs = reference(tmp_path / "p.npz", "sizes")["megabytes"]
    assert eliminate(edges, domain.sizes).megabytes == pytest.approx(theirs[0])
