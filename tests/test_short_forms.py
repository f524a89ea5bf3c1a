"""What print shows of ledgers, models, encoders, domains, tables and certificates: a few lines that say something."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from marginalia.data.domain import Domain
from marginalia.data.encoding import Encoder
from marginalia.data.table import Table
from marginalia.methods.dd_ssp import DDSSPRegressor
from marginalia.methods.independent import Independent
from marginalia.methods.ols import OLSRegressor
from marginalia.methods.ssp import SSPRegressor
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.events import GaussianEvent
from marginalia.privacy.ledger import Ledger

DOMAIN = Domain.from_sizes({"a": 3, "b": 2, "c": 4})
TABLE = Table(np.random.default_rng(0).integers(0, 2, (300, 3)), DOMAIN)


def test_a_ledger_says_what_was_spent_on_what():
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    assert repr(ledger) == (
        "Ledger(add_remove: epsilon 0 of 1 spent at delta 1e-05; no release yet; "
        "no release was recorded: nothing is certified)"
    )
    ledger.append(GaussianEvent(sensitivity=1.0, sigma=6.0, label="age"))
    ledger.append(GaussianEvent(sensitivity=1.0, sigma=7.0, label="pay"))
    spent = f"{ledger.epsilon(1e-5):.4g}"
    assert str(ledger) == f"Ledger(add_remove: epsilon {spent} of 1 spent at delta 1e-05; 2 Gaussian; certified)"
    ledger.append(GaussianEvent(sensitivity=1.0, sigma=70.0), "seeded")
    assert repr(ledger).endswith("3 Gaussian; certified, seeded)")
    assert repr(Certificate(ledger.summary())).endswith("certified, seeded))")
    assert "no budget; no release yet" in repr(Ledger("replace_one"))
    over = Ledger("add_remove", epsilon=0.1, delta=1e-5, calibration="published")
    over.append(GaussianEvent(sensitivity=1.0, sigma=0.001))
    assert "not certified" in repr(over)


def test_models_say_what_they_were_fitted_on():
    made = Independent(epsilon=2.0, random_state=0)
    assert repr(made) == "Independent(epsilon=2.0, random_state=0)"
    lines = repr(made.fit(TABLE)).splitlines()
    assert lines[0] == "Independent(epsilon=2.0, random_state=0)"
    assert lines[2:] == [f"  {DOMAIN}", f"  {made.ledger_}"]
    assert "epsilon 2 of 2" in lines[3]
    learner = SSPRegressor(random_state=0).fit(TABLE, "c")
    assert repr(learner).splitlines()[1:] == [f"  fitted on {learner.encoder_}", f"  {learner.ledger_}"]
    assert repr(OLSRegressor().fit([[1.0], [2.0]], [1.0, 2.0])).endswith("fitted on arrays, 1 features\n  not private")
    nested = make_pipeline(DDSSPRegressor(marginals=made))
    assert repr(clone(nested)).count("\n") < 5
    assert repr(Certificate.of(made)) == f"Certificate(Independent: {Certificate.of(made).ledger})"
    assert repr(Encoder(DOMAIN, "b")) == ("Encoder('b' from 5 features of 2 columns, one-hot: a, c; norm bound 1.414)")


@pytest.mark.parametrize("columns", [3, 500])
def test_wide_domains_are_cut(columns):
    domain = Domain.from_sizes({f"column{i}": 2 for i in range(columns)})
    shown = repr(Table(np.zeros((1, columns)), domain))
    assert len(shown) < 400
    assert ("500 columns in all" in shown) == (columns == 500)
