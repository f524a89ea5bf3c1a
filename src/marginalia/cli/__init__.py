"""The command line: data sets, fits, synthetic tables and their evaluation."""

from marginalia.cli.app import main

__all__ = ["main"]
