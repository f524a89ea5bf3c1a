"""DD-SSP."""

from __future__ import annotations

from marginalia.methods.record import Arm, Method

METHOD = Method(
    "dd_ssp",
    "downstream",
    {
        "linear": "marginalia.methods.dd_ssp.dd_ssp:DDSSPRegressor",
        "logistic": "marginalia.methods.dd_ssp.dd_ssp:DDSSPClassifier",
    },
    tuple(
        Arm("dd_ssp", variant=s, source=s, tasks=("linear", "logistic")) for s in ("aim", "mst", "gaussian_marginals")
    ),
    about="regression from a synthesizer's marginals (Ferrando and Sheldon)",
    label="DD-SSP",
    colour="#0072B2",
    marker="o",
    variants={
        "aim": ("AIM", 0),
        "mst": ("MST", 1),
        "gaussian_marginals": ("Gaussian marginals", 2),
        "mixture": ("mixture", 3),
        "independent": ("independent", 4),
    },
    default=True,
    place=100,
)
