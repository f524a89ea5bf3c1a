"""Metrics, protocols, the method registry and result records."""
