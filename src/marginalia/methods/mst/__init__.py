"""MST."""

from __future__ import annotations

from marginalia.methods.record import TRAINED_ON_ROWS, Arm, Method, trained_on_rows_of

METHOD = Method(
    "mst",
    "synthesizer",
    {"": "marginalia.methods.mst.mst:MST"},
    (Arm("mst"), *trained_on_rows_of("mst")),
    about="a spanning tree of two-way marginals (McKenna, Miklau, Sheldon 2021)",
    label="MST",
    colour="#882255",
    marker="P",
    variants=TRAINED_ON_ROWS,
    default=True,
    place=160,
    intervals="kept",
)
