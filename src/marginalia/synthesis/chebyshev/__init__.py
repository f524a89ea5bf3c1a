"""Synthetic data for smooth queries by private Chebyshev moment matching (Ding, He and Zhu)."""

from marginalia.synthesis.chebyshev.synthesizer import ChebyshevMomentMatching

__all__ = ["ChebyshevMomentMatching"]
