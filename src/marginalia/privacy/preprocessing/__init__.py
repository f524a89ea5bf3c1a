"""Bins and categories of raw columns, learned privately in the ledger of the method that comes next."""
