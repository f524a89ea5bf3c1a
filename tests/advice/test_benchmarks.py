"""The records behind a recommendation: what they say, and how they are gathered."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from marginalia.advice import benchmarks
from marginalia.advice.benchmarks import frame_of, gather, read, setting
from marginalia.data.datasets import load
from marginalia.data.domain import Attribute, Domain
from marginalia.data.encoding import Encoder, widths
from marginalia.errors import InputError
from marginalia.methods.registry import BUILT_IN
from marginalia.privacy.calibration import gdp_mu
from marginalia.sweep.metrics import HEADLINES


def test_a_setting_counts_codes_features_and_cells():
    domain = Domain([Attribute("a", 4), Attribute("b", 10, "numeric"), Attribute("y", 2)])
    budget = {"rows": 500, "relation": "replace_one", "epsilon": 2.0, "delta": 1e-5}
    of_y = setting(domain, task="logistic", target="y", **budget)
    assert (of_y.columns, of_y.codes, of_y.width) == (3, 16, 3 + 1)
    assert of_y.pair_cells == pytest.approx((40 + 8 + 20) / 3)
    assert of_y.size == 4
    assert setting(domain, **budget).size == of_y.pair_cells
    assert of_y.signal == pytest.approx(500 * gdp_mu(2.0, 1e-5) / math.sqrt(2))


@pytest.mark.parametrize("name", ["diabetes", "breast_cancer"])
def test_the_width_is_that_of_the_encoder(name):
    found = load(name)
    for task, spec in found.tasks.items():
        domain = found.table.domain
        one = setting(domain, task=task, target=spec.target, rows=9, relation="add_remove", epsilon=1.0, delta=1e-5)
        assert one.width == Encoder(domain, spec.target).n_features
    gaps = Attribute("e", 4, "numeric", edges=(0, 1, 2, 3), type="number", missing=())  # a number and an indicator
    mixed = Domain([Attribute("a", 4), Attribute("b", 7, "ordinal"), Attribute("c", 2), Attribute("d", 1), gaps])
    for target in ("a", "b", "c"):
        for one_hot in (None, (), ("b",), ("a", "c")):
            expected = Encoder(mixed, target, one_hot=one_hot).n_features
            assert sum(widths(mixed.drop(target), one_hot).values()) == expected


def test_losses_of_the_three_tasks(record):
    assert record(0.25, task="linear").loss == pytest.approx(0.25)  # of the gain from 0.5 to 0.1
    assert record(0.25, task="linear").value == pytest.approx(0.2)
    assert record(0.07, task="logistic").loss == pytest.approx(0.07)
    assert record(0.07, task="logistic").trivial_loss == pytest.approx(0.4)
    assert record(0.3).loss == pytest.approx(0.3)
    assert record(-0.5, task="linear").loss == benchmarks.SMALLEST_LOSS


def finished_run(folder, *, epsilon_spent=1.0, k=3, config=True):
    (folder / "tables").mkdir(parents=True)
    facts = {"config": {"test_fraction": 0.25, "experiments": {"e": {"methods": []}}}} if config else {}
    (folder / "provenance.json").write_text(json.dumps(facts))
    key = {"protocol": "strict", "relation": "add_remove", "split": "random", "n_trials": 3, "stderr": 0.0}
    private = {"calibration": "tight", "epsilon": 1.0, "delta": 1e-5, "k": k, "epsilon_spent": epsilon_spent}
    public = {"calibration": "none", "epsilon": np.inf, "delta": 0.0, "k": 3, "epsilon_spent": np.inf}
    one = {"experiment": "e", "dataset": "diabetes", "task": "linear", "target": "progression", "variant": ""}
    rows = [
        {**key, **one, **public, "method": "ols", "mean": 0.2},
        {**key, **one, **public, "method": "trivial", "mean": 0.6},
        {**key, **one, **private, "method": "ssp", "mean": 0.3},
        {**key, **one, **private, "method": "ada_ssp", "mean": 0.3, "calibration": "published"},
        {**key, **one, **private, "method": "dp_sgd", "mean": None, "epsilon_spent": None, "k": 0},  # none succeeded
    ]
    pd.DataFrame(rows).to_csv(folder / "tables" / "mse.csv", index=False)
    pd.DataFrame(rows[:0], columns=list(rows[0])).to_csv(folder / "tables" / "auc.csv", index=False)
    table = {**rows[2], "task": "", "target": "", "method": "aim", "mean": 0.05}
    answers = {**table, "method": "gaussian_marginals"}  # of which the rows are not benchmarked
    pd.DataFrame([table, answers]).to_csv(folder / "tables" / "marginal_error.csv", index=False)


@pytest.mark.parametrize(("config", "train"), [(True, 442 - 111), (False, 442 - 89)])
def test_records_are_gathered_from_tables_and_provenance(tmp_path, config, train):
    finished_run(tmp_path / "block", config=config)
    ssp, aim = gather(tmp_path / "block")
    assert (ssp.arm, ssp.dataset, ssp.family) == (("ssp", ""), "diabetes", "diabetes")
    assert ssp.loss == pytest.approx(0.25)
    assert (ssp.setting.rows, ssp.setting.epsilon) == (train, 1.0)
    assert ssp.setting.width > 0
    assert (aim.method, aim.setting.width, aim.loss) == ("aim", 0, 0.05)


@pytest.mark.parametrize("flaw", [{"epsilon_spent": 1.1}, {"k": 2}])
def test_runs_without_certificate_or_trials_are_no_records(tmp_path, flaw):
    finished_run(tmp_path / "block", **flaw)
    with pytest.raises(InputError, match="no certified result"):
        gather(tmp_path / "block")
    with pytest.raises(InputError, match="no finished run"):
        gather(tmp_path)


def test_the_file_reads_as_it_was_written(tmp_path):
    finished_run(tmp_path / "block")
    records = gather(tmp_path / "block")
    frame_of(records).to_csv(tmp_path / "records.csv", index=False)
    assert read(tmp_path / "records.csv") == records


def test_the_records_that_come_with_the_library_are_of_its_methods():
    records = read()
    assert {one.method for one in records} <= set(BUILT_IN)
    assert not any(BUILT_IN[one.method].raw_answers for one in records if not one.setting.task)
    for task, metric in benchmarks.MEASURES.items():
        assert metric.id in HEADLINES
        mine = [one for one in records if one.setting.task == task]
        assert len({one.family for one in mine}) >= 3
        assert all(math.isfinite(one.loss) and one.loss > 0 for one in mine)
    assert len({(one.where, one.arm) for one in records}) == len(records)
