"""Plain Private-PGM."""
