import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from marginalia.learning import TrivialClassifier, TrivialRegressor


def test_nothing_is_learnt(table):
    model = TrivialRegressor().fit(table, "pay")
    assert not model.predict(table).any()
    model = TrivialClassifier().fit(table, "rich")
    assert np.all(model.predict_proba(table) == 0.5)
    assert roc_auc_score(table.column("rich"), model.decision_function(table)) == 0.5
    assert set(model.predict(table)) == {0}


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    [("adult", "education-num", 0.1601422222), ("ACSincome-LIN", "PINCP", 0.3794570637)],
)
def test_golden_mean_square(released, name, target, expected):
    data = released(name)
    model = TrivialRegressor(one_hot=data.one_hot).fit(data.train, target)
    y = model.encoder_.target_values(data.test)
    assert np.mean((model.predict(data.test) - y) ** 2) == pytest.approx(expected, abs=1e-9)
