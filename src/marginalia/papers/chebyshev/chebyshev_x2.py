"""Experiment X2: what smoothness does to the error."""

from __future__ import annotations

from marginalia.papers.chebyshev.ablation import ablation

X2 = ablation(
    "chebyshev_x2",
    "What smoothness buys",
    "Error over the smoothness k at n = 10,000, in d dimensions, each in its own distance d_k.",
    "k",
    lambda s: [{"k": k, "d": d, "n": s["n"]} for d in s["dimensions"] for k in s["smoothness"]],
    n=10_000,
    dimensions=(2, 3),
    smoothness=(1, 2, 3, 4),
)
