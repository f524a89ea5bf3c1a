"""DP-SGD."""

from __future__ import annotations

from marginalia.methods.record import Arm, Audit, Limits, Method

# Zhou et al., the published code of "Bounding the Excess Risk for Linear Models Trained on Marginal-Preserving,
# Differentially-Private, Synthetic Data": DP-SGD (their Algorithm 6) at epsilon 1, for each of its data sets.
_EXCESS_RISK = {
    name: {"batch_size": batch, "steps": steps, "learning_rate": rate, "decay": decay}
    for name, batch, steps, rate, decay in (
        ("adult", 1000, 500, 5.0, 0.1),
        ("churn", 100, 500, 1.0, 0.5),
        ("compas", 200, 500, 5.0, 0.1),
        ("dutch", 3000, 500, 5.0, 0.1),
        ("heart", 20, 1000, 5.0, 0.1),
        ("law", 500, 300, 1.0, 0.1),
    )
}

METHOD = Method(
    "dp_sgd",
    "learner",
    {
        "linear": "marginalia.methods.dp_sgd.dp_sgd:DPSGDRegressor",
        "logistic": "marginalia.methods.dp_sgd.dp_sgd:DPSGDClassifier",
    },
    (
        Arm("dp_sgd", "tight", tasks=("linear", "logistic")),
        Arm(
            "dp_sgd",
            "published",
            "excess_risk",
            ("logistic",),
            parameters=(
                ("clip", 1.0),
                ("decay", 0.1),
                ("fit_intercept", True),
                ("inputs", "codes"),
                ("learning_rate", 5.0),
                ("selection", "fixed"),
                ("steps", 500),
            ),
        ),
    ),
    named=(
        Arm(
            "dp_sgd",
            "tight",
            "private_selection",
            ("linear", "logistic"),
            parameters=(("selection", "random_stopping"),),
        ),
        # A point of Ferrando and Sheldon's grid, chosen on no data.
        Arm("dp_sgd", "tight", "fixed", ("linear", "logistic"), parameters=(("selection", "fixed"),)),
        Arm("dp_sgd", "published", "grid_on_test", ("linear", "logistic"), tuned_on_test=True),
    ),
    about="differentially private stochastic gradient descent (Abadi et al. 2016)",
    label="DP-SGD",
    colour="#CC79A7",
    marker="v",
    variants={
        "grid_on_test": ("grid tuned on test", 0),
        "excess_risk": ("excess-risk paper’s settings", 1),
        "private_selection": ("private selection", 1),
        "fixed": ("fixed setting", 2),
    },
    constants={("published", "excess_risk"): _EXCESS_RISK},
    default=True,
    limits=Limits(public_rows=True),
    place=70,
    audit=Audit(
        quick={"selection": "fixed", "steps": 12, "batch_size": 30}, in_full=("", "private_selection"), sizes=(48, 90)
    ),
)
