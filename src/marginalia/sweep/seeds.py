"""Seeds that depend on what is run, never on the order or the core it is run on."""

import hashlib

import numpy as np
from numpy.random import SeedSequence


def seed_sequence(root: int, *keys: str | int | float) -> SeedSequence:
    """Return the seed sequence of one random stream.

    Parameters
    ----------
    root : int
        The configuration's seed.
    *keys : str, int or float
        What tells this stream from every other: (experiment, dataset, trial) for data splits, and all that a
        cell is made of for noise. No two fits of a sweep share noise: their difference would be free of it.
    """
    words = []
    for key in keys:
        digest = hashlib.sha256(f"{type(key).__name__}:{key!r}".encode()).digest()
        words.append(int.from_bytes(digest[:8], "little"))
    return SeedSequence([root, *words])


def seed_of(root: int, *keys: str | int | float) -> int:
    """Return one integer below 2**32 drawn from `seed_sequence`, to write down and pass as ``random_state``."""
    return int(seed_sequence(root, *keys).generate_state(1)[0])


def wide_seed_of(root: int, *keys: str | int | float) -> int:
    """Return one integer below 2**63: no two of a million keys meet (chance 1e-7; below 2**32 they would)."""
    return int(seed_sequence(root, *keys).generate_state(1, np.uint64)[0] >> np.uint64(1))
