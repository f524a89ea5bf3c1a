"""How good one synthetic table is: measured against the real rows, without noise, for their owner."""
