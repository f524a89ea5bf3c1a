"""The papers that are rerun: a wing for each, with its cards, its theory and its published values."""
