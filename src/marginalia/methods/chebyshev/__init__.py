"""Private Chebyshev moment matching (Ding, He and Zhu)."""

from __future__ import annotations

from marginalia.methods.record import TRAINED_ON_ROWS, Arm, Audit, Limits, Method, trained_on_rows_of

METHOD = Method(
    "chebyshev",
    "synthesizer",
    {"": "marginalia.methods.chebyshev.chebyshev:ChebyshevMomentMatching"},
    (Arm("chebyshev"), Arm("chebyshev", "published"), *trained_on_rows_of("chebyshev")),
    about="Chebyshev moments (Ding, He, Zhu); up to four numeric, ordinal or two-valued columns",
    label="Chebyshev",
    colour="#AA4499",
    marker="*",
    variants=TRAINED_ON_ROWS,
    relations=("replace_one",),
    limits=Limits(columns=4, values="ordered"),
    gaussian=True,
    place=220,
    audit=Audit(sizes=(40, 60, 90), frames=("ordered", "line")),
    sweep={"datasets": ["compas_smooth3"]},  # up to four smooth columns
)
