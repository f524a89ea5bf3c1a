"""Brute force on small domains: the full joint table."""

import itertools

import numpy as np

from marginalia.marginals.plan import Plan

# Every kind of graph that inference has to handle: (sizes, cliques).
GRAPHS = {
    "tree": ((2, 3, 4, 2, 3), [(0, 1), (1, 2), (1, 3), (3, 4)]),
    "cyclic": ((3, 2, 4, 3), [(0, 1), (1, 2), (2, 3), (0, 3)]),
    "missing": ((3, 2, 4, 2, 5), [(0, 1), (1, 3)]),
    "full": ((3, 2, 4), [(0, 1, 2)]),
    "singleton": ((3, 2, 4), [(0,), (1,), (2,)]),
    "permuted": ((4, 3, 2, 5), [(2, 3), (0, 3), (0, 1, 2)]),
    "disconnected": ((3, 2, 4, 2, 3, 2), [(0, 1), (2, 3), (3, 4), (2, 4)]),
    "empty": ((3, 2, 4), []),
    "nested": ((3, 4, 2, 3), [(0,), (0, 1), (0, 1, 2), (2,), (2, 3)]),
    "size one": ((1, 3, 1, 2), [(0, 1), (1, 2, 3), (0, 3)]),
    "four-way": ((3, 2, 3, 2, 4, 2), [(0, 1, 2, 3), (2, 3, 4), (1, 4, 5), (0, 5)]),
    "wide": ((30, 3, 25, 4, 40), [(0, 1), (0, 2), (2, 3), (2, 4), (1, 4), (0, 3)]),
}


def joint(plan: Plan, theta: np.ndarray) -> tuple[float, np.ndarray]:
    """Return log Z and the joint probabilities."""
    table = np.zeros(plan.sizes)
    for i, clique in enumerate(plan.cliques):
        part = theta[plan.theta_at[i] : plan.theta_at[i + 1]]
        table = table + part.reshape([m if a in clique else 1 for a, m in enumerate(plan.sizes)])
    top = table.max()
    log_z = top + np.log(np.exp(table - top).sum())
    return float(log_z), np.exp(table - log_z)


def project(probabilities: np.ndarray, clique: tuple[int, ...]) -> np.ndarray:
    """Sum a joint table onto attributes."""
    return probabilities.sum(axis=tuple(a for a in range(probabilities.ndim) if a not in clique))


def random_graph(rng: np.random.Generator, *, max_order: int = 4) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return sizes and cliques of a random small model."""
    d = int(rng.integers(1, 7))
    sizes = tuple(int(m) for m in rng.integers(1, 6, d))
    cliques = [
        tuple(sorted(rng.choice(d, int(rng.integers(1, min(d, max_order) + 1)), replace=False).tolist()))
        for _ in range(int(rng.integers(0, 8)))
    ]
    return sizes, list(dict.fromkeys(cliques))


def all_cliques(d: int) -> list[tuple[int, ...]]:
    """Return every non-empty set of attributes."""
    return [q for k in range(1, d + 1) for q in itertools.combinations(range(d), k)]
