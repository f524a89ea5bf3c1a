"""SWIFT."""

from __future__ import annotations

from marginalia.methods.record import TRAINED_ON_ROWS, Arm, Method, trained_on_rows_of

METHOD = Method(
    "swift",
    "synthesizer",
    {"": "marginalia.methods.swift.swift:SWIFT"},
    (Arm("swift"), *trained_on_rows_of("swift")),
    about="one selection, a tree of cliques, one measurement of what pays in it (google/dpsynth 2026)",
    label="SWIFT",
    colour="#E6194B",
    marker=(3, 1, 0),
    variants=TRAINED_ON_ROWS,
    cost="slow",
    gaussian=True,
    place=130,
    intervals="kept",
)
