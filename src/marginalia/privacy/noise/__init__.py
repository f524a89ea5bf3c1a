"""Exact noise in whole numbers, from a stream of random words."""
