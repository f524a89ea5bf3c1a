"""Regressions that are declared before any row is read: noise is planned for their sums, widths are known before."""
