"""Exhaustive search."""
