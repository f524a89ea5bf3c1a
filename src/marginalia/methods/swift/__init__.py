"""SWIFT."""
