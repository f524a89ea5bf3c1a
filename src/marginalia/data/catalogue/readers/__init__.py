"""A module a format: `load(entry, files)` makes the table of an entry whose `source` names the module."""
