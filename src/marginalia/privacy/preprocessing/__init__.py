"""Bins and categories of raw columns, bought from the private rows in the ledger of the method that comes next."""
