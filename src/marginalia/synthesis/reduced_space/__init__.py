"""Synthetic data in a reduced space (Boedihardjo, Strohmer and Vershynin)."""

from marginalia.synthesis.reduced_space.synthesizer import ReducedSpaceLP

__all__ = ["ReducedSpaceLP"]
