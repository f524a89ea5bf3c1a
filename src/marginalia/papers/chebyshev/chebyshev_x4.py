"""Experiment X4: what the highest degree does to the error."""

from __future__ import annotations

from marginalia.papers.chebyshev.ablation import ablation

X4 = ablation(
    "chebyshev_x4",
    "The highest degree m",
    "Too small a degree hurts by bias, too large a one hardly does.",
    "m",
    lambda s: [{"k": int(k), "d": int(d), "n": n, "m": m} for k, d, n, ms in s["grid"] for m in ms],
    grid=(
        (2, 1, 10_000, (8, 16, 33, 66, 132)),
        (1, 1, 1600, (16, 66, 264)),
        (2, 2, 10_000, (4, 8, 16, 33)),
        (2, 2, 100_000, (16, 33, 48)),
    ),
)
