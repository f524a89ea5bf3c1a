"""Any number of rows, in batches and in files."""

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from tiers import others_slow

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.marginals import sampling
from marginalia.methods.aim import AIM
from marginalia.methods.chebyshev.chebyshev import ChebyshevMomentMatching
from marginalia.methods.gaussian_marginals import GaussianMarginals
from marginalia.methods.independent import Independent
from marginalia.methods.mst import MST
from marginalia.methods.mwem_pgm import MWEM
from marginalia.methods.private_pgm import PrivatePGM
from marginalia.methods.privbayes import PrivBayes
from marginalia.methods.reduced_space.reduced_space import ReducedSpaceLP
from marginalia.methods.residual_planner import ResidualPlanner
from marginalia.methods.swift import SWIFT
from marginalia.papers.dd_ssp.methods.mixture import MixtureInference
from marginalia.papers.excess_risk.methods.exhaustive import Exhaustive
from marginalia.papers.recent.methods.aim_residual import ResidualAIM
from marginalia.papers.recent.methods.tab_pe import TabPE
from marginalia.synthesis import base
from marginalia.synthesis.base import Synthesizer

DOMAIN = Domain.from_dict(
    {
        "attributes": [
            {"name": "age", "type": "integer", "edges": [0, 30, 60, 90], "missing": []},
            {"name": "ward", "type": "string", "labels": ["a", 'b"', "c"], "other": True},
            {"name": "ill", "type": "boolean"},
            {"name": "born", "type": "date", "edges": ["1950-01-01", "1980-01-01", "2010-01-01"]},
        ]
    }
)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return Table(np.column_stack([rng.binomial(a.size - 1, 0.4, 900) for a in DOMAIN]), DOMAIN)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(sampling, "BLOCK", 128)
    monkeypatch.setattr(base, "BLOCK", 128)
    monkeypatch.setattr(base, "STREAMED", 500)


def fitted(cls, table):
    boolean = Table(np.minimum(table.codes[:, :3], 1), Domain.from_sizes({"a": 2, "b": 2, "c": 2}))
    return cls(epsilon=1.0, random_state=3, relation="replace_one").fit(
        table if cls not in (Exhaustive, ChebyshevMomentMatching, ReducedSpaceLP) else boolean
    )


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "cls",
    others_slow([
        AIM, MixtureInference, MST, Independent, GaussianMarginals, PrivatePGM,
        ResidualPlanner, ResidualAIM, SWIFT, MWEM, PrivBayes, TabPE, Exhaustive,
        ChebyshevMomentMatching, ReducedSpaceLP,
    ], AIM, Independent, SWIFT),
)  # fmt: skip
def test_every_synthesizer_rounds_once_for_all_batches(cls, table):
    """One-way counts of 1,000 rows are as close to those of a whole sample as two whole samples are: rounding only."""
    model = fitted(cls, table)
    batches = list(model.sample_batches(1000))
    assert [len(b) for b in batches] == [128] * 7 + [104]
    whole = model.sample(1000)
    for name in model.domain_.names:
        drawn = sum(b.counts([name]) for b in batches)
        # A component of a mixture, or a group of an earlier column, is rounded for itself: a few rows in all.
        assert np.abs(drawn - whole.counts([name])).max() <= (40 if cls is MixtureInference else 12), name
    again = list(model.sample_batches(1000))
    assert all(a == b for a, b in zip(batches, again, strict=True))


def test_a_class_of_ones_own_is_drawn_batch_by_batch(monkeypatch, table):
    monkeypatch.setattr(base, "BLOCK", 128)

    class Own(Independent):
        _batches = Synthesizer._batches

    assert [len(b) for b in Own(random_state=0).fit(table).sample_batches(300)] == [128, 128, 44]


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_a_file_of_batches_holds_the_rows_of_the_batches_with_the_types_of_the_domain(table, tmp_path):
    model = MST(random_state=3, relation="add_remove").fit(table)
    assert model.write_sample(tmp_path / "t.parquet", 1000) == 1000
    model.write_sample(tmp_path / "again.parquet", 1000)
    assert (tmp_path / "t.parquet").read_bytes() == (tmp_path / "again.parquet").read_bytes()
    schema = parquet.read_schema(tmp_path / "t.parquet")
    assert [str(schema.field(n).type) for n in DOMAIN.names][::2] == ["int64", "bool"]
    codes = np.concatenate([b.codes for b in model.sample_batches(1000)])
    model.write_sample(tmp_path / "t.csv", 1000)
    for name in ("t.parquet", "t.csv"):
        np.testing.assert_array_equal(Table.read(tmp_path / name, domain=DOMAIN).codes, codes)


def test_a_small_file_is_what_it_was(table, tmp_path):
    """Up to 2**20 rows: the rows of `sample`, written at once."""
    model = Independent(random_state=3, relation="add_remove").fit(table)
    assert base.STREAMED == 2**20
    path = tmp_path / "new" / "folder" / "t.parquet"
    model.write_sample(path, 700)
    assert Table.read(path, domain=DOMAIN) == model.sample(700)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_run_that_is_stopped_leaves_nothing(table, tmp_path, monkeypatch, ending):
    model = Independent(random_state=3, relation="add_remove").fit(table)
    shown, seen = Table.to_frame, []

    def stopped(self, **how):
        seen.append(sorted(p.name for p in tmp_path.iterdir()))
        if len(seen) == 3:
            raise SystemExit(143)
        return shown(self, **how)

    monkeypatch.setattr(Table, "to_frame", stopped)
    with pytest.raises(SystemExit):
        model.write_sample(tmp_path / f"t.{ending}", 1000)
    assert len(seen[2]) == 1  # a temporary file
    assert f"t.{ending}" not in seen[2]
    assert list(tmp_path.iterdir()) == []


def test_a_frame_comes_back_in_frames():
    frame = pd.DataFrame({"ward": ["A", "B", "B"] * 50})
    domain = {"attributes": [{"name": "ward", "type": "string", "labels": ["A", "B"]}]}
    (batch,) = Independent(random_state=0, relation="add_remove").fit(frame, domain=domain).sample_batches(10)
    assert sorted(batch["ward"].unique()) == ["A", "B"]


def test_a_model_of_more_rows_than_memory_holds_is_read_and_asked_for_batches(table, tmp_path):
    model = Independent(random_state=0, relation="add_remove").fit(table)
    model.n_rows_ = 10**13
    model.save(tmp_path / "m.npz")
    again = Independent.load(tmp_path / "m.npz")
    assert len(next(iter(again.sample_batches()))) == sampling.BLOCK
    with pytest.raises(InputError, match="sample_batches"):
        again.sample()
    with pytest.raises(InputError, match="non-negative integer"):
        again.sample_batches(-1)
