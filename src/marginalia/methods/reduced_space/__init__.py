"""The reduced-space method (Boedihardjo, Strohmer and Vershynin)."""

from __future__ import annotations

from marginalia.methods.record import TRAINED_ON_ROWS, Arm, Audit, Limits, Method, trained_on_rows_of

METHOD = Method(
    "reduced_space",
    "synthesizer",
    {"": "marginalia.methods.reduced_space.reduced_space:ReducedSpaceLP"},
    (
        Arm("reduced_space"),
        Arm(
            "reduced_space",
            "published",
            parameters=(
                ("family", "monomials"),
                ("measure", "uniform"),
                ("sampling", "iid"),
                ("solution", "lp"),
                ("space", "sampled"),
            ),
        ),
        *trained_on_rows_of("reduced_space"),
    ),
    about="reduced-space fit (Boedihardjo, Strohmer, Vershynin); about 20 Boolean columns",
    label="Reduced space",
    colour="#117733",
    marker="d",
    variants=TRAINED_ON_ROWS,
    # The paper's Algorithm 1; and our own fit, which has neither its functions, its points nor its objective.
    names={"published": "Reduced-space LP", "tight": "Max-entropy parities"},
    relations=("replace_one", "add_remove"),
    pure=True,
    limits=Limits(values="boolean"),
    place=230,
    audit=Audit(frames=("boolean", "boolean_6")),
    sweep={"datasets": ["compas_bool13"]},  # up to about 20 Boolean columns
)
