"""How a sweep could give away what its fits protect, or call certified what is not."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Column, Domain
from marginalia.data.table import Table
from marginalia.methods.fit import Budget, fit
from marginalia.methods.record import Arm, Method
from marginalia.methods.registry import BUILT_IN
from marginalia.methods.ssp import SSPRegressor
from marginalia.methods.task import Task
from marginalia.privacy.events import GaussianEvent
from marginalia.privacy.ledger import Ledger
from marginalia.reporting.tables import WORST_FIRST
from marginalia.sweep.cells import ARM_DEFAULTS, Cell, seed_key
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.records import certificate, declaration, to_frame, verdicts
from marginalia.sweep.run import Runner

TASK = Task("linear", "b")


def table(n=60):
    rng = np.random.default_rng(0)
    return Table(rng.integers(0, [3, 4], (n, 2)), Domain([Column("a", 3), Column("b", 4, "numeric")]))


CELL = Cell("e", "strict", "mine", Arm("ssp"), TASK, "add_remove", 1.0, 1e-5, 0, 0.2, 7)
OTHERS = {
    "experiment": "f",
    "protocol": "as_published",
    "dataset": "yours",
    "arm": Arm("ssp", "published"),
    "task": Task("logistic", "b"),
    "relation": "replace_one",
    "epsilon": 2.0,
    "delta": 1e-6,
    "trial": 1,
    "test_fraction": 0.3,
    "root_seed": 8,
}


@pytest.mark.parametrize("name", OTHERS)
def test_no_two_cells_share_their_noise(name):
    """Whatever tells two cells apart tells their noise apart: with the same noise the difference is exact."""
    assert set(OTHERS) == set(Cell.__slots__)
    assert replace(CELL, **{name: OTHERS[name]}).seed != CELL.seed
    assert replace(CELL).seed == CELL.seed
    for arm in (Arm("ssp", variant="x"), Arm("ada_ssp"), Arm("ssp", parameters=(("one_hot", ()),))):
        assert replace(CELL, arm=arm).seed != CELL.seed


def test_every_field_is_in_the_seed_key():
    """A field that `seed_key` lacks would give two runs that differ in it the same noise.

    Add a new field to the key where it differs from its default, so that published seeds stay.
    """
    key = json.loads(seed_key(CELL))
    assert key.keys() == set(Cell.__slots__)
    assert key["task"].keys() == set(Task.__slots__)
    assert {"method", *ARM_DEFAULTS} == set(Arm.__slots__)
    assert asdict(Arm("ssp")) == {"method": "ssp", **ARM_DEFAULTS}


@pytest.mark.parametrize(
    "change",
    [
        {"method": "ada_ssp"},
        {"calibration": "published"},
        {"variant": "x"},
        {"tasks": ("linear",)},
        {"source": "mst"},
        {"learner": "ols"},
        {"parameters": (("one_hot", ()),)},
        {"tuned_on_test": True},
    ],
)
def test_every_field_of_an_arm_changes_the_noise(change):
    assert replace(CELL, arm=replace(CELL.arm, **change)).seed != CELL.seed


@pytest.mark.parametrize("change", [{"task": "logistic"}, {"target": "a"}, {"drop": ("a",)}, {"one_hot": ("a",)}])
def test_every_field_of_a_task_changes_the_noise(change):
    assert replace(CELL, task=replace(CELL.task, **change)).seed != CELL.seed


def test_own_data_get_the_systems_noise():
    """And no seed stands in their rows; the catalogue's public ones repeat."""
    values, seeds = {}, {}
    for name in ("mine", "adult"):
        for _ in range(2):
            runner = Runner(Prepared(name, table(), (TASK,)), BUILT_IN)
            cell = replace(CELL, dataset=name)
            (row,) = runner.rows(cell, runner.outcome(cell))
            assert row.status == "ok", row.message
            values.setdefault(name, set()).add(row.value)
            seeds.setdefault(name, set()).add(row.seed)
    assert len(values["mine"]) == 2
    assert seeds["mine"] == {0}
    assert len(values["adult"]) == 1
    assert 0 not in seeds["adult"]


@pytest.mark.parametrize("protocol", ["strict", "as_published"])
def test_an_undocumented_number_of_rows_stays_private(protocol):
    for n in (60, 50):
        assert Prepared("mine", table(n), (TASK,)).public_training_rows(protocol, 0.2) is None
        assert Prepared("mine", table(n), (TASK,), n_public=100).public_training_rows("strict", 0.2) == 80


class Overspent:
    """A model whose ledger refuses."""

    def __init__(self, sigma):
        self.ledger_ = Ledger("add_remove", epsilon=1.0, delta=1e-5, calibration="published")
        if sigma:
            self.ledger_.append(GaussianEvent(1.0, sigma))


@pytest.mark.parametrize("model", [Overspent(0.5), Overspent(None)])
def test_rows_repeat_what_the_ledger_refuses(model):
    message = certificate(model, 1e-5)[1]
    assert message == model.ledger_.message != ""
    assert "ideal arithmetic" in certificate(Overspent(100.0), 1e-5)[1]


class FreeLedger(Ledger):
    """Says that nothing was spent."""

    certified, message = True, ""

    def epsilon(self, delta):
        return 0.0


def test_only_our_own_ledger_counts():
    class Cheap:
        ledger_ = FreeLedger("add_remove", epsilon=1.0, delta=1e-5)

    spent, message = certificate(Cheap(), 1e-5, epsilon=1.0)
    assert spent == math.inf
    assert "declared by its author" in message


def test_a_larger_budget_of_the_models_own_is_not_what_was_asked():
    class Larger:
        ledger_ = Ledger("add_remove", epsilon=9.0, delta=1e-5)

    Larger.ledger_.append(GaussianEvent(1.0, 1.0, arithmetic="exact"), "system")
    assert certificate(Larger(), 1e-5)[1] == ""
    assert "requested epsilon 1" in certificate(Larger(), 1e-5, epsilon=1.0)[1]


def test_a_method_of_ones_own_is_its_authors_word(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("class Mine:\n    pass\n")
    assert "declared by its author" in declaration(Method("mine", "synthesizer", {"": f"{file}:Mine"}, (Arm("mine"),)))
    assert declaration(BUILT_IN["mst"], BUILT_IN["dd_ssp"]) == ""


def test_an_overspent_fit_is_not_certified_in_its_rows():
    runner = Runner(Prepared("adult", table(), (TASK,)), BUILT_IN)
    cells = [replace(CELL, dataset="adult", arm=Arm("ssp", c)) for c in ("published", "tight")]
    rows = [runner.rows(cell, runner.outcome(cell))[0] for cell in cells]
    assert verdicts(to_frame(rows)).tolist() == ["no", "yes"]
    assert rows[0].epsilon_spent > 1


def test_one_uncertified_run_makes_its_setting_uncertified():
    runs = {"a": ["yes", "no", "yes"], "b": ["", "yes"], "c": ["", ""], "d": ["part", "draft", "ideal"]}
    rows = pd.DataFrame([(arm, word) for arm, words in runs.items() for word in words], columns=["arm", "certified"])
    worst = rows.astype({"certified": WORST_FIRST}).groupby("arm")["certified"].min()
    assert worst.to_dict() == {"a": "no", "b": "yes", "c": "", "d": "draft"}


def test_post_processing_carries_the_ledger_of_its_source():
    source = fit(Arm("independent"), BUILT_IN, Budget(1.0, 1e-5, "add_remove", 3), table())
    for arm in (Arm("independent", variant="ols", source="independent", learner="ols"), Arm("dd_ssp", source="mst")):
        given = source if arm.learner else fit(Arm("mst"), BUILT_IN, Budget(1.0, 1e-5, "add_remove", 3), table())
        model = fit(arm, BUILT_IN, Budget(1.0, 1e-5, "add_remove", 3), table(), TASK, given)
        assert model.ledger_ is given.ledger_


def test_a_fit_through_the_library_is_that_of_the_sweep():
    """The seed of a budget reaches the noise, and nothing else does."""
    models = [
        fit(Arm("ssp"), BUILT_IN, Budget(1.0, 1e-5, "add_remove", seed), table(), TASK).coef_ for seed in (3, 3, 4)
    ]
    assert (models[0] == models[1]).all()
    assert (models[0] != models[2]).all()
    direct = SSPRegressor(epsilon=1.0, random_state=3, relation="add_remove").fit(table(), "b").coef_
    np.testing.assert_array_equal(models[0], direct)
