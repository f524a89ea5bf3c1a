"""SWIFT: all marginals chosen at once, within a tree of cliques, and measured at once."""
