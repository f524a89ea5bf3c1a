"""The reduced-space method (Boedihardjo, Strohmer and Vershynin)."""
