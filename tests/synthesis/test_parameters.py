"""Synthesizers are estimators to scikit-learn's tools, which they do not import."""

import numpy as np
import pytest
from sklearn.base import clone

from marginalia.errors import InputError
from marginalia.learning import DDSSPRegressor
from marginalia.methods.registry import EVERY
from marginalia.synthesis import AIM, MST

SYNTHESIZERS = [m.load() for m in EVERY.values() if m.kind == "synthesizer"]


@pytest.mark.parametrize("cls", SYNTHESIZERS, ids=lambda cls: cls.__name__)
def test_a_clone_has_the_same_parameters_and_no_fit(cls):
    seed = np.random.SeedSequence(3)
    model = cls(epsilon=0.5, random_state=seed)
    model.ledger_ = "fitted"
    again = clone(model)
    assert again is not model
    assert again.get_params() | {"random_state": 0} == model.get_params() | {"random_state": 0}
    assert not hasattr(again, "ledger_")


def test_parameters_are_reached_through_an_estimator_that_holds_a_synthesizer():
    model = DDSSPRegressor(marginals=AIM(epsilon=1.0)).set_params(marginals__epsilon=2.0)
    assert model.get_params()["marginals__epsilon"] == 2.0
    assert clone(model).marginals.epsilon == 2.0
    assert "AIM(epsilon=2.0)" in repr(model)
    assert "AIM" in model._repr_html_()


def test_an_unknown_parameter_sets_nothing():
    model = MST()
    with pytest.raises(InputError, match=r"unknown parameter of MST 'epsilom'; did you mean 'epsilon'\?"):
        model.set_params(delta=0.1, epsilom=1.0)
    assert model.delta == 1e-5


def test_a_repr_shows_what_differs_from_the_defaults_and_stays_short():
    assert repr(MST()) == "MST()"
    assert repr(AIM(delta=1e-9, epsilon=2.0)) == "AIM(delta=1e-09, epsilon=2.0)"
    assert len(repr(AIM(epsilon=1.0, workload=[("a", "b")] * 1000))) < 200
