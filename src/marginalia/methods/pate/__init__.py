"""PATE."""

from __future__ import annotations

from marginalia.methods.record import Arm, Audit, Method

# Zhou et al., the published code of "Bounding the Excess Risk for Linear Models Trained on Marginal-Preserving,
# Differentially-Private, Synthetic Data": PATE at epsilon 1, for each of its data sets.
_EXCESS_RISK = {  # Heart: of the paper itself, its code has 15 teachers
    name: {"n_teachers": teachers, "n_queries": queries}
    for name, teachers, queries in (
        ("adult", 500, 100),
        ("churn", 200, 100),
        ("compas", 300, 100),
        ("dutch", 800, 100),
        ("heart", 20, 20),
        ("law", 200, 100),
    )
}

METHOD = Method(
    "pate",
    "learner",
    {"logistic": "marginalia.methods.pate.pate:PATEClassifier"},
    (Arm("pate", "tight", tasks=("logistic",)), Arm("pate", "published", tasks=("logistic",))),
    about="private aggregation of teacher ensembles (Papernot et al. 2017, 2018)",
    label="PATE",
    colour="#8C510A",
    marker=(6, 1, 0),
    constants={("published", ""): _EXCESS_RISK},
    relations=("replace_one",),
    gaussian=True,
    place=90,
    audit=Audit(quick={"n_teachers": 15, "n_queries": 6}, queries="n_queries"),
    sweep={"calibration": "tight"},
)
