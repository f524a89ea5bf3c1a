"""The methods: one module or folder each, the catalogue of their records, and how one is fitted."""
