"""Experiment X6: what the solver's tolerance does to the error."""

from __future__ import annotations

from marginalia.papers.chebyshev.ablation import ablation

X6 = ablation(
    "chebyshev_x6",
    "Solving harder than the noise does not help",
    "Error over the duality gap at which the solver stops, in units of half the expected squared noise.",
    "tolerance",
    lambda s: [
        {"k": 2, "d": d, "n": s["n"], "m": m, "tolerance": t} for d, m in ((2, 16), (1, 33)) for t in s["tolerances"]
    ],
    n=10_000,
    tolerances=(10.0, 1.0, 0.1, 0.01, 1e-4),
)
