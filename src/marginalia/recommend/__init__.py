"""Which private method for a table: from public facts and finished runs alone."""
