"""Regressions that are declared before any row is read, so that noise is planned for their sums."""
