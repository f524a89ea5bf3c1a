"""The papers that are rerun: a package for each, with its experiments, its theory and its published values."""
