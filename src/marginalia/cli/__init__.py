"""The command line: data sets, fits, synthetic tables and their evaluation."""

from marginalia.cli.verbs import main

__all__ = ["main"]
