"""Ding, He and Zhu, private Chebyshev moment matching."""
