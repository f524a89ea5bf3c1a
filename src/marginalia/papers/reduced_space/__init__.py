"""Boedihardjo, Strohmer and Vershynin, synthetic data by a fit over a reduced space."""
