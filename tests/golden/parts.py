"""All parts of the corpus by name."""

from tests.golden import codes, fits, interface, quality, saved, sweeps, written
from tests.golden.corpus import Part

PARTS: dict[str, Part] = {
    part.name: part for module in (fits, codes, written, saved, sweeps, quality, interface) for part in module.PARTS
}
