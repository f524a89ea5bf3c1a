"""MWEM+PGM."""
