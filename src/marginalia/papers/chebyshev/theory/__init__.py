"""The theory of the paper with explicit constants: smooth distances, and the lower bound on all private methods."""
