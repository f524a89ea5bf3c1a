"""The excess-risk paper's constants, for its data sets and no others."""

import pytest

from marginalia.data.catalogue.catalogue import uncoded
from marginalia.methods.registry import BUILT_IN
from marginalia.sweep.choices import MethodChoice, select


def for_dataset(arm, dataset):
    return BUILT_IN[arm.method].for_dataset(arm, uncoded(dataset))


def arm(method, calibration, variant=""):
    return next(a for a in BUILT_IN[method].arms if (a.calibration, a.variant) == (calibration, variant))


@pytest.mark.parametrize(
    ("dataset", "batch", "steps", "rate", "decay"),
    [
        ("adult", 1000, 500, 5, 0.1),
        ("churn@dpml", 100, 500, 1, 0.5),
        ("compas", 200, 500, 5, 0.1),
        ("dutch@dpml", 3000, 500, 5, 0.1),
        ("heart@dpml", 20, 1000, 5, 0.1),
        ("law", 500, 300, 1, 0.1),
    ],
)
def test_dp_sgd(dataset, batch, steps, rate, decay):
    found = dict(for_dataset(arm("dp_sgd", "published", "excess_risk"), dataset).parameters)
    assert {k: found[k] for k in ("batch_size", "steps", "learning_rate", "decay")} == {
        "batch_size": batch,
        "steps": steps,
        "learning_rate": rate,
        "decay": decay,
    }
    assert (found["clip"], found["inputs"], found["fit_intercept"]) == (1.0, "codes", True)


def test_pate():
    assert dict(for_dataset(arm("pate", "published"), "heart@dpml").parameters) == {"n_queries": 20, "n_teachers": 20}
    assert dict(for_dataset(arm("pate", "published"), "dutch").parameters) == {"n_queries": 100, "n_teachers": 800}


def test_other_arms_other_sets_and_own_parameters_stay():
    _, own = select([MethodChoice(id="dp_sgd", variant="excess_risk", parameters={"steps": 7})])
    for unchanged, dataset in [
        (arm("dp_sgd", "tight"), "adult"),
        (arm("pate", "tight"), "adult"),
        (arm("ssp", "tight"), "adult"),
        (arm("dp_sgd", "published", "excess_risk"), "acs_mobility"),
        (own[0], "adult"),
    ]:
        assert for_dataset(unchanged, dataset) == unchanged
