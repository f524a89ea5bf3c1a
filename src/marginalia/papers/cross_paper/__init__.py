"""The methods of all papers on the same tables: ranked, and weighed against what they cost."""
