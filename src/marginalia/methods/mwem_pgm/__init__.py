"""MWEM+PGM."""

from __future__ import annotations

from marginalia.methods.record import TRAINED_ON_ROWS, Arm, Method, trained_on_rows_of

METHOD = Method(
    "mwem_pgm",
    "synthesizer",
    {"": "marginalia.methods.mwem_pgm.mwem_pgm:MWEM"},
    (Arm("mwem_pgm"), *trained_on_rows_of("mwem_pgm")),
    about="the workload's worst marginal, a few rounds (Hardt et al. 2012, McKenna et al. 2019)",
    label="MWEM+PGM",
    colour="#8833EE",
    marker=(4, 1, 45),
    variants=TRAINED_ON_ROWS,
    cost="slow",
    place=140,
    intervals="kept",
)
