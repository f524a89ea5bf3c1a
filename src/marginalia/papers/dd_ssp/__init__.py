"""Ferrando and Sheldon, private regression from sufficient statistics of released marginals (DD-SSP)."""
