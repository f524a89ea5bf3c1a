"""Exhaustive search."""

from __future__ import annotations

from marginalia.methods.record import Arm, Audit, Method

METHOD = Method(
    "exhaustive",
    "synthesizer",
    {"": "marginalia.methods.exhaustive.exhaustive:Exhaustive"},
    (Arm("exhaustive"),),
    in_sweeps=False,
    place=1010,
    intervals="kept",
    relations=("replace_one",),
    audit=Audit(sizes=(40, 60, 90), frames=("ordered", "boolean")),
)
