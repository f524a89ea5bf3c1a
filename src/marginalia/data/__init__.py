"""Public domains, discrete tables, the catalogue of data sets and how raw files become tables."""

from typing import NoReturn

from marginalia.data.domain import Column, Domain, StructuralZeros
from marginalia.data.table import Table

__all__ = ["Column", "Domain", "StructuralZeros", "Table"]


def __getattr__(name: str) -> NoReturn:
    """Name the class that a program written for version 2 imports as `Attribute`."""
    if name == "Attribute":
        raise ImportError("marginalia.data has no 'Attribute' since 3.0: import Column, which takes the same facts")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
