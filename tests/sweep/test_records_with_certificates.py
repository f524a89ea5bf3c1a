"""Certificates travel with the rows of a sweep."""

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from marginalia.data import Attribute, Domain, Table
from marginalia.errors import InputError
from marginalia.methods.task import Task
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.verify import verify
from marginalia.sweep import metrics
from marginalia.sweep.config import parse
from marginalia.sweep.jobs import run_method
from marginalia.sweep.plan import plan
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.records import (
    CERTIFICATES,
    COLUMNS,
    RUN,
    read_certificates,
    read_records,
    verdicts,
    write_records,
)

TASKS = (Task("linear", "b"), Task("logistic", "y"))


def run(tmp_path, group, **content):
    """Run one job of a small sweep; return the path of its records."""
    rng = np.random.default_rng(0)
    domain = Domain([Attribute("a", 3), Attribute("b", 4, "numeric"), Attribute("y", 2)])
    table = Table(np.column_stack([rng.integers(0, size, 200) for size in domain.sizes]), domain)
    Prepared("toy", table, TASKS).save(tmp_path / "data")
    config = parse({"datasets": ["toy"], "trials": 2, "epsilons": [1], **content})
    jobs = plan(config, {block.name: {"toy": TASKS} for block in config.blocks()}).jobs.values()
    (job,) = (job for job in jobs if job.group == group)
    out = tmp_path / f"{group}.parquet"
    run_method(job.settings(), data=tmp_path / "data", seed=3, store=tmp_path / "cells", out=out)
    return out


def metadata(path):
    return pq.read_schema(path).metadata[CERTIFICATES]


def test_each_private_run_has_its_certificate_in_the_file_of_its_rows(tmp_path):
    path = run(tmp_path, "learners", methods=["ssp", "ols"], epsilons=[1, 2])
    frame = read_records([path])
    assert list(pd.read_parquet(path).columns) == list(COLUMNS)
    found = read_certificates([path])
    private = frame[frame["method"] == "ssp"].drop_duplicates(list(RUN))
    assert {one.run for one in found} == set(private[list(RUN)].itertuples(index=False, name=None))
    assert len(found) == len(private) == 8  # two tasks, epsilons and trials
    for one in found:
        assert verify(Certificate(one.content)).confirmed
        assert one.content["epsilon"] == one.run[RUN.index("epsilon")]


def test_equal_certificates_are_stored_once(tmp_path):
    entries = json.loads(metadata(run(tmp_path, "learners", methods=["ssp"], epsilons=[1], trials=2)))
    assert [len(entry["rows"]) for entry in entries] == [2, 2]  # one for each task, of two trials
    assert entries[0]["certificate"]["method"] != entries[1]["certificate"]["method"]


def test_rows_from_the_store_bring_theirs_along(tmp_path):
    first = metadata(run(tmp_path, "learners", methods=["ssp"]))
    second = run(tmp_path, "learners", methods=["ssp"])  # every cell is served from the store
    assert metadata(second) == first
    shutil.rmtree(tmp_path / "cells")
    assert metadata(run(tmp_path, "learners", methods=["ssp"])) == first  # seeded: a new fit says the same


@pytest.mark.parametrize(
    ("choice", "source"),
    [({"id": "dd_ssp", "variant": "mst"}, "MST"), ("aim_synth", "AIM")],
)
def test_post_processing_has_the_certificate_of_its_source_and_names_it(tmp_path, choice, source):
    path = run(tmp_path, "downstream", methods=[choice], trials=1)
    assert (read_records([path])["status"] == "ok").all()
    found = read_certificates([path])
    assert found
    for one in found:
        assert one.content["parameters"]["marginals"]["method"] == source
        assert verify(Certificate(one.content)).confirmed
        cells = (tmp_path / "cells").glob("*/*.certificate.json")
        released = [Certificate.read(cell).content for cell in cells]
        assert one.content["events"] in [r["events"] for r in released if r["method"] == source]


def test_a_run_that_failed_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "scores", lambda *_, **__: 1 / 0)  # after the fit, whose certificate is stored
    path = run(tmp_path, "learners", methods=["ssp"], trials=1)
    assert set(read_records([path])["status"]) == {"failed"}
    assert read_certificates([path]) == []


def test_files_without_certificates_and_broken_ones(tmp_path):
    write_records(tmp_path / "none.parquet", [])
    assert read_certificates([tmp_path / "none.parquet"]) == []
    read_records([tmp_path / "none.parquet"]).to_parquet(tmp_path / "older.parquet")
    assert read_certificates([tmp_path / "older.parquet"]) == []
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(InputError, match=r"cannot read the certificates of .*text\.parquet"):
        read_certificates([tmp_path / "text.parquet"])
    with pytest.raises(InputError, match=r"cannot read .*absent.parquet: No such file"):
        read_certificates([tmp_path / "absent.parquet"])


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
