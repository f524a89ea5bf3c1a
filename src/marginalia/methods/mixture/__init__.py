"""AIM's selection with a mixture of products."""

from __future__ import annotations

from marginalia.methods.record import TRAINED_ON_ROWS, Arm, Audit, Method, trained_on_rows_of

METHOD = Method(
    "mixture",
    "synthesizer",
    {"": "marginalia.methods.mixture.mixture:MixtureInference"},
    (Arm("mixture"), *trained_on_rows_of("mixture")),
    about="AIM's selection with mixture inference",
    label="Mixture",
    colour="#44AA99",
    marker=(4, 1, 0),
    variants=TRAINED_ON_ROWS,
    cost="slow",
    place=170,
    audit=Audit(quick={"rounds": 4, "components": 5}),
    sweep={"datasets": ["compas", "compas_smooth3"]},  # minutes on larger tables
)
