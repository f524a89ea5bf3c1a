"""Plain Private-PGM."""

from __future__ import annotations

from marginalia.methods.record import Arm, Method

METHOD = Method(
    "private_pgm",
    "synthesizer",
    {"": "marginalia.methods.private_pgm.private_pgm:PrivatePGM"},
    (Arm("private_pgm"),),
    in_sweeps=False,
    place=1000,
    intervals="kept",
)
