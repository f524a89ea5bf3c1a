import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from marginalia.learning import TrivialClassifier, TrivialRegressor


def test_nothing_is_learnt_but_a_mean(table):
    model = TrivialRegressor().fit(table, "pay")
    y = model.encoder_.target_values(table)
    assert model.predict(table) == pytest.approx(np.full(len(y), y.mean()), abs=1e-12)
    assert TrivialRegressor().fit(np.zeros((len(y), 1)), y).intercept_ == pytest.approx(y.mean(), abs=1e-12)
    model = TrivialClassifier().fit(table, "rich")
    assert np.all(model.predict_proba(table) == 0.5)
    assert roc_auc_score(table.column("rich"), model.decision_function(table)) == 0.5
    assert set(model.predict(table)) == {0}


@pytest.mark.parametrize(
    ("name", "target"),
    [("adult", "education-num"), ("ACSincome-LIN", "PINCP")],
)
def test_its_error_is_the_variance_and_less_than_that_of_the_middle(released, name, target):
    data = released(name)
    model = TrivialRegressor(one_hot=data.one_hot).fit(data.train, target)
    y = model.encoder_.target_values(data.test)
    error = np.mean((model.predict(data.test) - y) ** 2)
    assert error == pytest.approx(np.var(y), rel=0.02)
    assert error < np.mean(y**2)
