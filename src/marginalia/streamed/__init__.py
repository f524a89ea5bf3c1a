"""Data sets that stay where they are: counted in shards, split by a hash, fitted by counts."""
