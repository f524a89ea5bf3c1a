"""Certificates travel with the rows of a sweep."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError
from marginalia.methods.task import Task
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.verify import verify
from marginalia.sweep import metrics
from marginalia.sweep.config import parse
from marginalia.sweep.plan import plan
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.records import (
    COLUMNS,
    RUN,
    read_certificates,
    read_records,
    verdicts,
    write_records,
)
from marginalia.sweep.run import run_job

TASKS = (Task("linear", "b"), Task("logistic", "y"))


def run(tmp_path, group, **content):
    """Run one job of a small sweep; return the path of its records."""
    rng = np.random.default_rng(0)
    domain = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("y", 2)])
    table = Table(np.column_stack([rng.integers(0, size, 200) for size in domain.sizes]), domain)
    Prepared("toy", table, TASKS).save(tmp_path / "data")
    config = parse({"relation": "add_remove", "datasets": ["toy"], "trials": 2, "epsilons": [1], **content})
    jobs = plan(config, {block.name: {"toy": TASKS} for block in config.blocks()}).jobs.values()
    (job,) = (job for job in jobs if job.group == group)
    out = tmp_path / f"{group}.parquet"
    run_job(job.settings(), data=tmp_path / "data", seed=3, out=out)
    return out


def test_each_private_run_has_its_certificate_in_the_file_of_its_rows(tmp_path):
    path = run(tmp_path, "learners", methods=["ssp", "ols"], epsilons=[1, 2])
    frame = read_records([path])
    assert list(pd.read_parquet(path).columns) == [*COLUMNS, "certificate"]
    found = read_certificates([path])
    private = frame[frame["method"] == "ssp"].drop_duplicates(list(RUN))
    assert {one.run for one in found} == set(private[list(RUN)].itertuples(index=False, name=None))
    assert len(found) == len(private) == 8  # two tasks, epsilons and trials
    for one in found:
        assert verify(Certificate(one.content)).confirmed
        assert one.content["epsilon"] == one.run[RUN.index("epsilon")]


def test_a_job_that_runs_again_writes_the_same_certificates(tmp_path):
    first, second = (read_certificates([run(tmp_path, "learners", methods=["ssp"])]) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("choice", "source"),
    [({"id": "dd_ssp", "variant": "mst"}, "MST"), ("aim_synth", "AIM")],
)
def test_post_processing_has_the_certificate_of_its_source_and_names_it(tmp_path, choice, source):
    path = run(tmp_path, "synthesizers", methods=[choice], trials=1)
    assert (read_records([path])["status"] == "ok").all()
    certificates = read_certificates([path])
    released = [one.content["events"] for one in certificates if one.content["method"] == source]
    found = [one for one in certificates if "marginals" in one.content["parameters"]]
    assert found
    for one in found:
        assert one.content["parameters"]["marginals"]["method"] == source
        assert verify(Certificate(one.content)).confirmed
        assert one.content["events"] in released


def test_a_run_that_failed_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "scores", lambda *_, **__: 1 / 0)  # after the fit, whose certificate is stored
    path = run(tmp_path, "learners", methods=["ssp"], trials=1)
    assert set(read_records([path])["status"]) == {"failed"}
    assert read_certificates([path]) == []


def test_files_without_certificates_and_broken_ones(tmp_path):
    write_records(tmp_path / "none.parquet", [])
    assert read_certificates([tmp_path / "none.parquet"]) == []
    rows = pa.Table.from_pandas(read_records([run(tmp_path, "learners", methods=["ssp"], trials=1)]))
    (first, *_) = rows.to_pylist()
    old = json.dumps([{"certificate": {"method": "SSP"}, "rows": [{name: first[name] for name in RUN}]}])
    pq.write_table(rows.replace_schema_metadata({"marginalia.certificates": old}), tmp_path / "older.parquet")
    (one,) = read_certificates([tmp_path / "older.parquet"])  # as version 2.0 wrote them
    assert (one.content, one.run) == ({"method": "SSP"}, tuple(first[name] for name in RUN))
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(InputError, match=r"cannot read the certificates of .*text\.parquet"):
        read_certificates([tmp_path / "text.parquet"])
    with pytest.raises(InputError, match=r"cannot read .*absent.parquet: No such file"):
        read_certificates([tmp_path / "absent.parquet"])


@pytest.mark.slow
def test_an_own_method_in_ideal_arithmetic_is_its_authors_word_too(tmp_path):
    """It was certified, "in ideal arithmetic", without any audit."""
    (tmp_path / "mine.py").write_text(IDEAL)
    own = {"id": "mine", "file": str(tmp_path / "mine.py"), "class": "Mine", "tasks": ["linear"]}
    frame = read_records([run(tmp_path, "mine", methods=[own], trials=1)])
    assert frame["status"].tolist() == ["ok"], frame["message"].tolist()
    assert verdicts(frame).tolist() == ["declared"]


IDEAL = """
import numpy as np
from marginalia.learning.base import LinearRegressor, parameters
from marginalia.learning.private import BudgetedLearner
from marginalia.privacy import GaussianEvent

@parameters
class Mine(BudgetedLearner, LinearRegressor):
    def _release(self, rows, session):
        session.ledger.append(GaussianEvent(1.0, 40.0 / self.epsilon), "system")
        return np.zeros(rows.n_features)
"""
