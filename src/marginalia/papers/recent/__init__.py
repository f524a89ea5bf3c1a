"""Claims of 2025 and 2026 about private tables: Tab-PE, AIM+GReM, MargNet, tab_bench."""
