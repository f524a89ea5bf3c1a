"""Methods that only the experiments of this paper use."""
