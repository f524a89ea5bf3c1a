"""Rules that a table obeys: derived columns, orders, implications, sets of values that never stand together."""
