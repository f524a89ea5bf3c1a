"""The adaptive-margin classifier."""
