"""Populations with everything known: rows, density, averages, and their Rényi condition number against uniform."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from marginalia.methods.reduced_space.families import Array, Family


@dataclass(frozen=True)
class Law:
    """Independent bits, Π Bern(q_j); or mirrored, ½ Π Bern(q_j) + ½ Π Bern(1-q_j)."""

    q: tuple[float, ...]
    mirrored: bool = False

    @classmethod
    def half_and_half(cls, p: int) -> Law:
        """Return the mirrored law with q = linspace(.3, .7, p): κ = 1.118 at p = 8."""
        return cls(tuple(np.linspace(0.3, 0.7, p).tolist()), mirrored=True)

    @property
    def condition_number(self) -> float:
        """κ(ν‖μ) = 2^p Σ ν(x)² for uniform μ."""
        same = prod(2 * (q * q + (1 - q) ** 2) for q in self.q)
        return 0.5 * same + 0.5 * prod(4 * q * (1 - q) for q in self.q) if self.mirrored else same

    @property
    def name(self) -> str:
        """Short name for legends and tables."""
        return "half and half" if self.mirrored else "one point" if self.q[0] == 1 else f"Bern({self.q[0]:g})"

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return n rows, shape (n, p)."""
        q = np.array(self.q)
        if self.mirrored:
            q = np.where(rng.random((n, 1)) < 0.5, q, 1 - q)
        return (rng.random((n, len(self.q))) < q).astype(np.int64)

    def density(self, points: NDArray[np.integer]) -> Array:
        """Return ν(x) of each point."""
        q = np.array(self.q)
        one: Array = np.where(points == 1, q, 1 - q).prod(axis=1)
        return 0.5 * one + 0.5 * np.where(points == 1, 1 - q, q).prod(axis=1) if self.mirrored else one

    def averages(self, family: Family) -> Array:
        """Return ⟨f,ν⟩ of monomials or parities, without the constant, shape (|F| - 1,)."""
        q = np.array(self.q)
        sides = (q, 1 - q) if self.mirrored else (q,)
        factors = [side if family.kind == "monomials" else 1 - 2 * side for side in sides]
        return np.array([np.mean([f[list(s)].prod() for f in factors]) for s in family.sets])
