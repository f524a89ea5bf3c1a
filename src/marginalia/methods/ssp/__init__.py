"""SSP."""

from __future__ import annotations

from marginalia.methods.record import Arm, Method

METHOD = Method(
    "ssp",
    "learner",
    {
        "linear": "marginalia.methods.ssp.ssp:SSPRegressor",
        "logistic": "marginalia.methods.ssp.ssp:SSPClassifier",
    },
    (Arm("ssp", "tight", tasks=("linear", "logistic")),),
    named=(Arm("ssp", "published", tasks=("linear", "logistic")),),
    about="sufficient-statistic perturbation, one Gaussian release calibrated exactly",
    label="SSP",
    colour="#D55E00",
    marker="s",
    default=True,
    gaussian=True,
    place=40,
)
