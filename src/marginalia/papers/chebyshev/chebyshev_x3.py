"""Experiment X3: what epsilon does to the error."""

from __future__ import annotations

from marginalia.papers.chebyshev.ablation import ablation

X3 = ablation(
    "chebyshev_x3",
    "What epsilon buys",
    "k = d = 2, n = 10,000, degree 16.",
    "epsilon",
    lambda s: [{"k": 2, "d": 2, "n": s["n"], "m": 16, "epsilon": e} for e in s["epsilons"]],
    n=10_000,
    epsilons=(0.25, 0.5, 1.0, 2.0, 4.0),
)
