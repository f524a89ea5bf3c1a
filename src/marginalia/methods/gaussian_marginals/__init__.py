"""Gaussian marginals."""
