"""Public measures to draw the reduced space from: uniform, or built from what was released already.

A measure computed from the noisy statistics is post-processing and costs no budget. Measures never see private rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from marginalia.data.table import Table
from marginalia.methods.reduced_space.families import Array, Family

Codes = NDArray[np.int16]

TREE_SHARE, PRODUCT_SHARE, UNIFORM_SHARE = 0.8, 0.1, 0.1
PRODUCT_FLOOR, ROOT_FLOOR, CELL_FLOOR = 0.05, 0.02, 1e-3


class SamplingMeasure(Protocol):
    """A public probability measure on the domain.

    >>> measure: SamplingMeasure = TreeMeasure.uniform((2, 2))
    """

    def sample(self, m: int, rng: np.random.Generator) -> NDArray[np.integer]:
        """Return m points, shape (m, p)."""


@dataclass(frozen=True)
class TreeMeasure:
    """A Markov tree, or several (Chow and Liu 1968).

    >>> copy = TreeMeasure((0, 1), (-1, 0), (np.array([[0.5, 0.5]]), np.eye(2)))
    >>> copy.density(np.array([[0, 0], [0, 1]]))
    array([0.5, 0. ])
    """

    order: tuple[int, ...]  # attributes, every parent before its children
    parents: tuple[int, ...]  # of each in `order`; -1 for a root
    conditionals: tuple[Array, ...]  # of each in `order`: shape (1, size) for a root, else (size of the parent, size)

    @classmethod
    def product(cls, probabilities: Sequence[Array]) -> TreeMeasure:
        """Independent attributes: every one is a root."""
        p = len(probabilities)
        return cls(tuple(range(p)), (-1,) * p, tuple(q[None, :] for q in probabilities))

    @classmethod
    def uniform(cls, sizes: Sequence[int]) -> TreeMeasure:
        """The uniform measure, as in the paper's Corollary 2.4."""
        return cls.product([np.full(size, 1 / size) for size in sizes])

    def sample(self, m: int, rng: np.random.Generator) -> Codes:
        """Return m points, by ancestral sampling."""
        points = np.zeros((m, len(self.order)), dtype=np.int16)
        for j, parent, table in zip(self.order, self.parents, self.conditionals, strict=True):
            given = points[:, parent] if parent >= 0 else np.zeros(m, dtype=np.int16)
            points[:, j] = _draw(table[given], rng)
        return points

    def density(self, points: NDArray[np.integer]) -> Array:
        """Return μ(x)."""
        total: Array = np.ones(len(points))
        for j, parent, table in zip(self.order, self.parents, self.conditionals, strict=True):
            total *= table[points[:, parent] if parent >= 0 else 0, points[:, j]]
        return total


@dataclass(frozen=True)
class MixtureMeasure:
    """A mixture of trees, each with its share.

    >>> skewed, uniform = TreeMeasure.product([np.array([1.0, 0.0])]), TreeMeasure.uniform((2,))
    >>> MixtureMeasure(((0.5, skewed), (0.5, uniform))).density(np.array([[0], [1]]))
    array([0.75, 0.25])
    """

    parts: tuple[tuple[float, TreeMeasure], ...]

    def sample(self, m: int, rng: np.random.Generator) -> Codes:
        """Return m points: a multinomial number of each part, in order."""
        counts = rng.multinomial(m, [share for share, _ in self.parts])
        return np.concatenate([part.sample(int(c), rng) for c, (_, part) in zip(counts, self.parts, strict=True)])

    def density(self, points: NDArray[np.integer]) -> Array:
        """Return μ(x)."""
        return np.sum([share * part.density(points) for share, part in self.parts], axis=0)


AnyExplicit = TreeMeasure | MixtureMeasure


def product_measure(family: Family, averages: Array) -> TreeMeasure:
    """Return the product of the released one-way marginals, every probability at least 0.05 (or half a uniform one).

    >>> product_measure(Family("parities", (2, 2), 1), np.array([0.0, 0.98])).conditionals
    (array([[0.5, 0.5]]), array([[0.95, 0.05]]))
    """
    probabilities = []
    for j, size in enumerate(family.sizes):
        floor = min(PRODUCT_FLOOR, 0.5 / size)
        p = np.clip(family.marginals(averages, (j,)), floor, 1 - floor if size == 2 else None)
        probabilities.append(p / p.sum())
    return TreeMeasure.product(probabilities)


def tree_measure(family: Family, averages: Array, sigma: float) -> TreeMeasure:
    """Return the Chow–Liu tree of the released pair marginals (the product, where only one-way ones were released).

    Pair tables are clipped below at max(sigma/4, 0.001) and normalised before the maximum spanning tree of their mutual
    information is taken; `sigma` is the scale of the noise on the averages.

    >>> tree_measure(Family("parities", (2, 2, 2), 2), np.array([0, 0, 0, 0.1, 0.8, 0.7]), 0.01).parents
    (-1, 0, 2)
    """
    p = len(family.sizes)
    pairs = {}
    if family.order >= 2:
        for i, j in itertools.combinations(range(p), 2):
            table = np.maximum(family.marginals(averages, (i, j)), max(sigma / 4, CELL_FLOOR))
            pairs[i, j] = table / table.sum()
            pairs[j, i] = pairs[i, j].T
    edges = _spanning_tree(p, lambda i, j: _information(pairs[i, j])) if pairs else [(-1, j) for j in range(p)]
    conditionals = []
    for parent, j in edges:
        floor = min(ROOT_FLOOR, 0.5 / family.sizes[j])
        root = np.clip(family.marginals(averages, (j,)), floor, 1 - floor)[None, :]
        table = pairs.get((parent, j), root)
        conditionals.append(table / table.sum(axis=1, keepdims=True))
    parents, order = zip(*edges, strict=True)
    return TreeMeasure(order, parents, tuple(conditionals))


def released_measure(name: str, family: Family, averages: Array, sigma: float) -> AnyExplicit:
    """Return the measure a name stands for; `averages` are as released, `sigma` is the scale of their noise.

    ``tree``: 0.8 tree + 0.1 product + 0.1 uniform, which keeps every point possible; ``product``; ``uniform``.

    >>> released_measure("uniform", Family("parities", (2, 2), 1), np.zeros(2), 0.1).density(np.array([[0, 1]]))
    array([0.25])
    """
    uniform, product = TreeMeasure.uniform(family.sizes), product_measure(family, averages)
    if name in ("uniform", "product"):
        return uniform if name == "uniform" else product
    tree = tree_measure(family, averages, sigma)
    return MixtureMeasure(((TREE_SHARE, tree), (PRODUCT_SHARE, product), (UNIFORM_SHARE, uniform)))


def renyi_condition_number(table: Table, measure: AnyExplicit) -> float:
    """Return the U-statistic of κ(ν‖μ) = Σ ν(x)²/μ(x), rows against a measure: how many points m must grow by.

    It reads private rows: for evaluation only, never to be released.

    >>> from marginalia.data.domain import Domain
    >>> table = Table([[0, 0]] * 50 + [[1, 1]] * 50, Domain.from_sizes({"a": 2, "b": 2}))
    >>> round(renyi_condition_number(table, TreeMeasure.uniform((2, 2))), 3)
    1.98
    """
    points, counts = np.unique(np.asarray(table.codes), axis=0, return_counts=True)
    n = counts.sum()
    return float((counts * (counts - 1) / (n * (n - 1)) / measure.density(points)).sum())


def _draw(probabilities: Array, rng: np.random.Generator) -> Codes:
    """Draw one code for each row of probabilities."""
    thresholds = np.cumsum(probabilities[:, :-1], axis=1)
    return (rng.random(len(probabilities))[:, None] >= thresholds).sum(axis=1).astype(np.int16)


def _information(table: Array) -> float:
    independent = np.outer(table.sum(axis=1), table.sum(axis=0))
    return float((table * np.log(table / independent)).sum())


def _spanning_tree(p: int, weight: Callable[[int, int], float]) -> list[tuple[int, int]]:
    """Prim's algorithm from attribute 0: (parent, child) in the order they join; ties to the smaller child."""
    best, parent = [math.inf] + [-math.inf] * (p - 1), [-1] * p
    left, edges = list(range(p)), []
    while left:
        j = max(left, key=lambda i: (best[i], -i))
        left.remove(j)
        edges.append((parent[j], j))
        for i in left:
            if (w := weight(j, i)) > best[i]:
                best[i], parent[i] = w, j
    return edges
