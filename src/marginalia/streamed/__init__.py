"""Data sets that stay where they are: counted in shards, split by a hash while they stream, fitted by counts."""
