"""Advice before anything is fitted or run: which method, what epsilon allows, how long a run takes."""
