"""Private evolution for tables."""

from __future__ import annotations

from marginalia.methods.record import TRAINED_ON_ROWS, Arm, Audit, Method, trained_on_rows_of

METHOD = Method(
    "tab_pe",
    "synthesizer",
    {"": "marginalia.methods.tab_pe.tab_pe:TabPE"},
    (Arm("tab_pe"), *trained_on_rows_of("tab_pe")),
    about="random rows that the private rows vote for, again and again (Tab-PE, Tran et al. 2026)",
    label="Tab-PE",
    colour="#AA6633",
    marker=(5, 0, 0),
    variants=TRAINED_ON_ROWS,
    cost="slow",
    sweep={"datasets": ["compas"]},  # every row votes in every round: many seconds on larger tables
    gaussian=True,
    place=175,
    audit=Audit(quick={"rounds": 7, "n_points": 20}),
)
