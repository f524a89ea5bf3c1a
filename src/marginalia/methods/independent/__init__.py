"""Independent columns."""
