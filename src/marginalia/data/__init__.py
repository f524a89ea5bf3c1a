"""Public domains, discrete tables, the catalogue of data sets and how raw files become tables."""

from marginalia.data.domain import Attribute, Domain, StructuralZeros
from marginalia.data.table import Table

__all__ = ["Attribute", "Domain", "StructuralZeros", "Table"]
