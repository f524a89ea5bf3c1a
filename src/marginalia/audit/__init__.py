"""Replays of a method on made-up tables, which find what its certificate does not say."""
