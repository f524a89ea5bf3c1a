"""Wang, Zhu and Wang, private halfspaces for a grid of margins."""
