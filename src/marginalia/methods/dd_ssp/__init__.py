"""DD-SSP."""
