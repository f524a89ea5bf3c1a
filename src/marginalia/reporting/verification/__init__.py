"""Results kept as rows, and made again from them."""
