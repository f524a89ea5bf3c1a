"""The trivial predictor."""
