"""Whole rows of a synthetic table: impossible ones, and copies of real ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginalia.data.table import Table, zero_faults


@dataclass(frozen=True, slots=True)
class Copies:
    """Rows that are equal in all columns.

    Attributes
    ----------
    synthetic : float
        Share of the synthetic rows that equal a row of one random half of the real table.
    fresh : float
        The same share of the other half of the real table: what rows of people who are not in it would show.
    unique : int
        Real rows that no other real row equals.
    unique_found : int
        Those of them that some synthetic row equals (SDNist's unique exact matches).
    """

    synthetic: float
    fresh: float
    unique: int
    unique_found: int


def copies(real: Table, synthetic: Table, *, seed: int = 0) -> Copies:
    """Count synthetic rows that equal real ones; `seed` halves the real table."""
    ours, theirs = _keys(real), _keys(synthetic)
    order = np.random.default_rng(seed).permutation(len(ours))
    half, others = ours[order[: len(ours) // 2]], ours[order[len(ours) // 2 :]]
    distinct, counts = np.unique(ours, return_counts=True)
    alone = distinct[counts == 1]
    return Copies(
        synthetic=float(np.isin(theirs, half).mean()),
        fresh=float(np.isin(others, half).mean()),
        unique=len(alone),
        unique_found=int(np.isin(alone, theirs).sum()),
    )


def _keys(table: Table) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row: two different rows share one with a probability of about 10^-19."""
    import pandas as pd

    names = sorted(table.domain.names)
    frame = pd.DataFrame(table.project(names).codes.astype(np.int64), columns=names)
    return np.asarray(pd.util.hash_pandas_object(frame, index=False), dtype=np.uint64)


def impossible(table: Table) -> int:
    """Return the number of rows that lie in a structural zero of the domain."""
    faults = zero_faults(table.codes, table.domain)
    return len(set().union(*(fault.rows.tolist() for fault in faults)))
