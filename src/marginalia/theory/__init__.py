"""Bounds, polynomials and hard instances of the papers, as functions."""
