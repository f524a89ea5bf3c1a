"""A public learner trained on AIM's synthetic rows: no class of its own, only the record."""

from __future__ import annotations

from marginalia.methods.record import LEARNERS, Arm, Method

METHOD = Method(
    "aim_synth",
    "downstream",
    {},
    tuple(Arm("aim_synth", tasks=(task,), source="aim", learner=learner) for task, learner in LEARNERS),
    about="a public learner trained on AIM's synthetic rows",
    label="AIM-Synth",
    colour="#56B4E9",
    marker="p",
    default=True,
    place=110,
)
