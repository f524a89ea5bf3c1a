"""What result rows say of privacy: only our own ledger counts, and an own method is its author's word until audited."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from tiers import others_slow

from marginalia.data import Column, Domain, Table
from marginalia.methods.record import Arm, Method
from marginalia.methods.task import Task
from marginalia.privacy import GaussianEvent, Ledger, ObjectivePerturbationEvent
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.verify import verify
from marginalia.sweep import records
from marginalia.sweep.config import parse
from marginalia.sweep.plan import plan
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.run import run_job
from marginalia.sweep.version import is_audited, version_of
from marginalia.synthesis import Independent

HEAD = """
import numpy as np
from types import SimpleNamespace
from marginalia.learning.base import LinearRegressor, parameters
from marginalia.learning.private import BudgetedLearner
from marginalia.privacy import GaussianEvent, Ledger
"""
# Exact coefficients, and nothing in the ledger.
SILENT = (
    HEAD
    + """
@parameters
class Mine(BudgetedLearner, LinearRegressor):
    def _release(self, rows, session):
        return np.linalg.lstsq(rows.X, rows.y, rcond=None)[0]
"""
)
# Exact coefficients, and a ledger of its own making.
FOREIGN = (
    HEAD
    + """
class Mine:
    def __init__(self, epsilon, delta, random_state=None):
        self.epsilon, self.delta = epsilon, delta
    def fit(self, table, target):
        self.n_features_ = len(table.domain) - 1
        self.ledger_ = SimpleNamespace(certified=True, message="", events=(), epsilon=lambda delta: 0.0)
        return self
    def predict(self, table):
        return np.zeros(len(table))
"""
)
HONEST = (
    HEAD
    + """
@parameters
class Mine(BudgetedLearner, LinearRegressor):
    def _release(self, rows, session):
        sigma = 40.0 / self.epsilon
        return session.gaussian(np.zeros(rows.n_features, int), sensitivity=1.0, sigma=sigma)
"""
)
GREEDY = HONEST.replace("40.0", "0.1")


TASKS = (Task("linear", "b"), Task("logistic", "y"))


def run(methods, trials, tmp_path):
    rng = np.random.default_rng(0)
    domain = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("y", 2)])
    table = Table(np.column_stack([rng.integers(0, size, 200) for size in domain.sizes]), domain)
    Prepared("toy", table, TASKS, None, None).save(tmp_path / "data")
    config = parse(
        {"relation": "add_remove", "datasets": ["toy"], "trials": trials, "epsilons": [1], "methods": methods}
    )
    (job,) = plan(config, {block.name: {"toy": TASKS} for block in config.blocks()}).jobs.values()
    out = tmp_path / "records.parquet"
    run_job(job.settings(), data=tmp_path / "data", seed=3, out=out)
    return pd.read_parquet(out)


def rows_of(text, tmp_path, **choice):
    path = tmp_path / "mine.py"
    path.write_text(text)
    own = {"id": "mine", "file": str(path), "class": "Mine", "tasks": ["linear"], **choice}
    return path, run([own], 1, tmp_path)


@pytest.mark.parametrize(
    ("text", "message", "verdict"),
    others_slow(
        [
            (SILENT, "no release was recorded: nothing is certified", "no"),
            (FOREIGN, "declared by its author: the ledger is not marginalia's", "declared"),
        ]
    ),
)
def test_an_own_method_without_a_ledger_is_not_certified(tmp_path, text, message, verdict):
    _, frame = rows_of(text, tmp_path)
    assert (frame["status"] == "ok").all(), frame["message"].tolist()
    assert frame["message"].tolist() == [message]
    assert math.isinf(frame["epsilon_spent"].item())
    assert records.verdicts(frame).tolist() == [verdict]


@pytest.mark.slow
def test_an_own_method_is_its_authors_word_until_it_was_audited(tmp_path):
    path, frame = rows_of(HONEST, tmp_path)
    assert frame["message"].tolist() == [f"declared by its author: run `marginalia audit {path}` on it"]
    assert records.verdicts(frame).tolist() == ["declared"]
    assert 0 < frame["epsilon_spent"].item() < 1
    record = tmp_path / "mine.py.audit.json"
    record.write_text(json.dumps({"version": version_of(str(path)), "findings": 0}))
    assert is_audited(path)
    _, frame = rows_of(HONEST, tmp_path)
    assert frame["message"].tolist() == [""]
    assert records.verdicts(frame).tolist() == ["yes"]
    path.write_text(HONEST + "MORE = 1\n")
    assert not is_audited(path)


@pytest.mark.parametrize(
    "content", ['{"version": "0.0", "findings": 0}', '{"version": VERSION, "findings": 1}', "[]", "{", "{}"]
)
def test_an_audit_of_other_code_or_with_findings_counts_for_nothing(tmp_path, content):
    path = tmp_path / "mine.py"
    path.write_text(HONEST)
    assert not is_audited(path)
    (tmp_path / "mine.py.audit.json").write_text(content.replace("VERSION", json.dumps(version_of(str(path)))))
    assert not is_audited(path)


@pytest.mark.slow
def test_an_overspending_own_method_fails_before_it_releases(tmp_path):
    _, frame = rows_of(GREEDY, tmp_path)
    assert frame["status"].tolist() == ["failed"]
    assert frame["message"].item().startswith("PrivacyError: refused: ")
    _, frame = rows_of(GREEDY, tmp_path, calibration="published")
    assert frame["status"].tolist() == ["ok"]
    assert frame["message"].item().startswith("not certified: requested epsilon 1")
    assert records.verdicts(frame).tolist() == ["no"]


def test_every_private_run_has_its_certificate(tmp_path):
    frame = run(["ssp", "ols"], 2, tmp_path)
    private = frame["method"] == "ssp"
    assert frame.loc[~private, "certificate"].isna().all()
    texts = frame[private].groupby(["trial", "task"])["certificate"].unique()
    assert texts.map(len).tolist() == [1] * 4
    for (text,) in texts:
        certificate = Certificate(json.loads(text))
        assert certificate.content["method"] in ("SSPRegressor", "SSPClassifier")
        assert verify(certificate).confirmed


def model(ledger):
    return SimpleNamespace(ledger_=ledger)


def charged(*events, **budget):
    ledger = Ledger("add_remove", calibration="published", **budget, planned=True)
    for event in events:
        ledger.append(event)
    return model(ledger)


def test_a_ledger_is_held_to_what_was_asked_for():
    own = charged(GaussianEvent(1, 1, arithmetic="exact"), epsilon=100, delta=1e-5)
    assert own.ledger_.certified
    spent, message = records.certificate(own, 1e-5, epsilon=1)
    assert spent > 4
    assert message.startswith("not certified: requested epsilon 1 at delta 1e-05, spent 4.37")
    assert records.certificate(own, 1e-5, epsilon=5)[1] == ""
    ideal = charged(GaussianEvent(1, 1), epsilon=100, delta=1e-5)
    assert records.certificate(ideal, 1e-5, epsilon=5)[1] == records.IDEAL
    assert records.certificate(charged(GaussianEvent(1, 10)), 1e-5)[1] == "not certified: no budget was set"
    uncovered = charged(*[ObjectivePerturbationEvent(1, 5, 2)] * 2, epsilon=100, delta=1e-5)
    assert records.certificate(uncovered, 1e-5)[0] == math.inf
    assert "no accountant covers" in records.certificate(uncovered, 1e-5)[1]


def test_a_foreign_ledger_counts_for_nothing():
    class Free(Ledger):
        certified = True

        def epsilon(self, delta):
            return 0.0

    for ledger in (Free("add_remove"), SimpleNamespace(certified=True, epsilon=lambda delta: 0.0), None):
        assert records.certificate(model(ledger), 1e-5) == (
            math.inf,
            "declared by its author: the ledger is not marginalia's",
        )
    assert records.certificate(SimpleNamespace(), 1e-5)[0] == math.inf


def test_verdicts():
    messages = ["", "not certified: x", "declared by its author: y", "protects some rows only", "tuned on test", "", ""]
    frame = pd.DataFrame({"message": messages, "status": "ok", "calibration": "tight"})
    frame.loc[5, "calibration"], frame.loc[6, "status"] = "none", "failed"
    assert records.verdicts(frame).tolist() == ["yes", "no", "declared", "part", "no", "", ""]
    claimed = frame.assign(calibration="claimed")
    assert records.verdicts(claimed).tolist() == [*["declared"] * 6, ""]  # whatever its rows say


def test_rows_of_a_draft_say_that_it_is_one():
    """A report must not say that they spend more than asked for, nor that they are certified."""
    ward = Column("ward", 2, labels=("a", "b"), type="string", inferred=("labels",))
    table = Table(np.arange(60).reshape(-1, 1) % 2, Domain([ward]))
    spent, message = records.certificate(
        Independent(random_state=0, relation="add_remove").fit(table), 1e-5, epsilon=1.0
    )
    frame = pd.DataFrame({"message": [message], "status": "ok", "calibration": "tight"})
    assert spent == pytest.approx(1.0)
    assert message.startswith("not certified: 1 column's labels were read off the rows (ward)")
    assert records.verdicts(frame).tolist() == ["draft"]
    assert not records.is_claimed(message)


@pytest.mark.parametrize(("findings", "end"), [(20, "20 findings; do not publish"), (1, "1 finding; do not publish")])
def test_what_an_audit_found_is_in_the_message_of_a_row(tmp_path, findings, end):
    path = tmp_path / "mine.py"
    path.write_text("class Mine: ...\n")
    mine = Method("mine", "synthesizer", {"": f"{path}:Mine"}, (Arm("mine"),))
    record = {"version": version_of(str(path)), "findings": findings}
    (tmp_path / "mine.py.audit.json").write_text(json.dumps(record))
    assert records.declaration(mine) == f"declared by its author: the audit of {path} has {end}"
    frame = pd.DataFrame({"message": [records.declaration(mine)], "status": "ok", "calibration": "tight"})
    assert records.verdicts(frame).tolist() == ["refuted"]
    (tmp_path / "mine.py.audit.json").unlink()
    assert records.declaration(mine) == f"declared by its author: run `marginalia audit {path}` on it"
    frame["message"] = records.declaration(mine)
    assert records.verdicts(frame).tolist() == ["declared"]
