"""Public measures to draw the reduced space from: uniform, or built from what was released already.

A measure computed from the noisy statistics is post-processing and costs no budget. Measures never see private rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from marginalia.data import Table
from marginalia.synthesis.reduced_space.families import Family

Array = NDArray[np.float64]
Codes = NDArray[np.int16]

TREE_SHARE, PRODUCT_SHARE, UNIFORM_SHARE = 0.8, 0.1, 0.1
PRODUCT_FLOOR, ROOT_FLOOR, CELL_FLOOR = 0.05, 0.02, 1e-3


@runtime_checkable
class SamplingMeasure(Protocol):
    """A public probability measure on the domain."""

    def sample(self, m: int, rng: np.random.Generator) -> NDArray[np.integer]:
        """Return m points, shape (m, p)."""


@dataclass(frozen=True)
class ProductMeasure:
    """Independent attributes.

    Attributes
    ----------
    probabilities : tuple of ndarray
        One distribution for each attribute.
    """

    probabilities: tuple[Array, ...]

    @classmethod
    def uniform(cls, sizes: Sequence[int]) -> ProductMeasure:
        """The uniform measure, as in the paper's Corollary 2.4."""
        return cls(tuple(np.full(size, 1 / size) for size in sizes))

    def sample(self, m: int, rng: np.random.Generator) -> Codes:
        """Return m points."""
        return np.stack([_draw(np.broadcast_to(p, (m, p.size)), rng) for p in self.probabilities], axis=1)

    def density(self, points: NDArray[np.integer]) -> Array:
        """Return μ(x)."""
        return np.prod([p[points[:, j]] for j, p in enumerate(self.probabilities)], axis=0)


@dataclass(frozen=True)
class TreeMeasure:
    """A Markov tree (Chow and Liu 1968).

    Attributes
    ----------
    order : tuple of int
        Attributes, every parent before its children.
    parents : tuple of int
        Of each in `order`; -1 for the root.
    conditionals : tuple of ndarray
        Of each in `order`: shape (1, size) for the root, else (size of the parent, size).
    """

    order: tuple[int, ...]
    parents: tuple[int, ...]
    conditionals: tuple[Array, ...]

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


Explicit = ProductMeasure | TreeMeasure


@dataclass(frozen=True)
class MixtureMeasure:
    """A mixture of explicit measures.

    Attributes
    ----------
    parts : tuple of (share, measure)
    """

    parts: tuple[tuple[float, Explicit], ...]

    def sample(self, m: int, rng: np.random.Generator) -> Codes:
        """Return m points: a multinomial number of each part, in order."""
        counts = rng.multinomial(m, [share for share, _ in self.parts])
        return np.concatenate([part.sample(int(c), rng) for c, (_, part) in zip(counts, self.parts, strict=True)])

    def density(self, points: NDArray[np.integer]) -> Array:
        """Return μ(x)."""
        return np.sum([share * part.density(points) for share, part in self.parts], axis=0)


AnyExplicit = ProductMeasure | TreeMeasure | MixtureMeasure


def product_measure(family: Family, averages: Array) -> ProductMeasure:
    """Return the product of the released one-way marginals, every probability at least 0.05 (or half a uniform one)."""
    probabilities = []
    for j, size in enumerate(family.sizes):
        floor = min(PRODUCT_FLOOR, 0.5 / size)
        p = np.maximum(family.marginals(averages, (j,)), floor)
        if size == 2:
            p = np.clip(family.marginals(averages, (j,)), floor, 1 - floor)
        probabilities.append(p / p.sum())
    return ProductMeasure(tuple(probabilities))


def tree_measure(family: Family, averages: Array, sigma: float) -> TreeMeasure:
    """Return the Chow–Liu tree of the released pair marginals (the product, where only one-way ones were released).

    Pair tables are clipped below at max(sigma/4, 0.001) and normalised before the maximum spanning tree of their mutual
    information is taken; `sigma` is the scale of the noise on the averages.
    """
    p = len(family.sizes)
    pairs = {}
    if family.order >= 2:
        for i in range(p):
            for j in range(i + 1, p):
                table = np.maximum(family.marginals(averages, (i, j)), max(sigma / 4, CELL_FLOOR))
                pairs[i, j] = table / table.sum()
                pairs[j, i] = pairs[i, j].T
    edges = _spanning_tree(p, lambda i, j: _information(pairs[i, j])) if pairs else [(-1, j) for j in range(p)]
    order, parents, conditionals = [], [], []
    for parent, j in edges:
        if parent < 0:
            floor = min(ROOT_FLOOR, 0.5 / family.sizes[j])
            root = np.clip(family.marginals(averages, (j,)), floor, 1 - floor)
            table = root[None, :]
        else:
            table = pairs[parent, j]
        order.append(j)
        parents.append(parent)
        conditionals.append(table / table.sum(axis=1, keepdims=True))
    return TreeMeasure(tuple(order), tuple(parents), tuple(conditionals))


def released_measure(name: str, family: Family, averages: Array, sigma: float) -> AnyExplicit:
    """Return the measure a name stands for.

    Parameters
    ----------
    name : {"tree", "product", "uniform"}
        ``tree``: 0.8 tree + 0.1 product + 0.1 uniform, which keeps every point possible.
    family : Family
    averages : ndarray of shape (|F| - 1,)
        As released.
    sigma : float
        Scale of their noise.
    """
    uniform = ProductMeasure.uniform(family.sizes)
    if name == "uniform":
        return uniform
    if name == "product":
        return product_measure(family, averages)
    tree = tree_measure(family, averages, sigma)
    product = product_measure(family, averages)
    return MixtureMeasure(((TREE_SHARE, tree), (PRODUCT_SHARE, product), (UNIFORM_SHARE, uniform)))


def renyi_condition_number(table: Table, measure: AnyExplicit, *, unbiased: bool = True) -> float:
    """Return κ(ν‖μ) = Σ ν(x)²/μ(x) of the rows against a measure: how many points m must grow by.

    It reads private rows: for evaluation only, never to be released.

    Parameters
    ----------
    table : Table
    measure : explicit measure
    unbiased : bool, default True
        The U-statistic for the population's κ; False: κ of the empirical measure itself.
    """
    points, counts = np.unique(np.asarray(table.codes), axis=0, return_counts=True)
    n = counts.sum()
    squares = counts * (counts - 1) / (n * (n - 1)) if unbiased else (counts / n) ** 2
    return float((squares / measure.density(points)).sum())


def _draw(probabilities: Array, rng: np.random.Generator) -> Codes:
    """Draw one code for each row of probabilities."""
    thresholds = np.cumsum(probabilities[:, :-1], axis=1)
    return (rng.random(len(probabilities))[:, None] >= thresholds).sum(axis=1).astype(np.int16)


def _information(table: Array) -> float:
    independent = np.outer(table.sum(axis=1), table.sum(axis=0))
    return float((table * np.log(table / independent)).sum())


def _spanning_tree(p: int, weight: Callable[[int, int], float]) -> list[tuple[int, int]]:
    """Prim's algorithm from attribute 0: (parent, child) in the order they join; ties to the smaller child."""
    best = [-math.inf] * p
    parent = [-1] * p
    left = list(range(p))
    edges = []
    best[0] = math.inf
    while left:
        j = max(left, key=lambda i: (best[i], -i))
        left.remove(j)
        edges.append((parent[j], j))
        for i in left:
            w = weight(j, i)
            if w > best[i]:
                best[i], parent[i] = w, j
    return edges
