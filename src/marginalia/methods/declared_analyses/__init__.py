"""Declared analyses."""
