"""Rows for the reduced-space cards: laws that are known exactly, and splits of Boolean tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginalia.data.splits import random_split
from marginalia.data.table import Table
from marginalia.papers.card import Folders, Settings, part_name
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.seeds import seed_sequence

SETS = ("adult_bool20", "compas_bool13", "law_bool13", "dutch_bool16")


def half_and_half(n: int, p: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return n rows of ½ Π Bern(q_j) + ½ Π Bern(1-q_j), q = linspace(.3, .7, p): κ = 1.118 against uniform at p = 8."""
    q = np.linspace(0.3, 0.7, p)
    side = rng.random((n, 1)) < 0.5
    return (rng.random((n, p)) < np.where(side, q, 1 - q)).astype(np.int64)


def bernoulli(n: int, p: int, q: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return n rows of Bern(q)^p: κ = (2(q² + (1-q)²))^p against uniform."""
    return (rng.random((n, p)) < q).astype(np.int64)


def one_part_a_split(settings: Settings) -> list[str]:
    """Return one part for each table and trial."""
    return [part_name(name, trial) for name in settings["sets"] for trial in range(settings["trials"])]


def split(name: str, trial: int, root_seed: int, data: Folders) -> tuple[Table, Table]:
    """Return training and held-out rows of a table; all cards split it the same way."""
    prepared = Prepared.load(data[name])
    rows = prepared.table if prepared.test is None else prepared.table.append(prepared.test)
    halves = random_split(rows, test_fraction=0.2, seed=seed_sequence(root_seed, "reduced_space_epsilon", name, trial))
    return halves.train, halves.test
