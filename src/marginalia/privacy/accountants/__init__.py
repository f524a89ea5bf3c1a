"""The accountants, one a file: which compositions each covers, and what these cost by it."""
