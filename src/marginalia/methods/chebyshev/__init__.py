"""Private Chebyshev moment matching (Ding, He and Zhu)."""
