import inspect
import os
import sys

import pytest

from marginalia.errors import InputError
from marginalia.methods.record import Arm, class_from_file
from marginalia.methods.registry import BUILT_IN, DEFAULT, method
from marginalia.sweep.choices import MethodChoice, select

OWN = """
class Mine:
    def __init__(self, *, epsilon=1.0, delta=1e-5, random_state=None): ...
    def fit(self, table, target): return self
    def predict(self, table): return 0
"""


def test_every_class_can_be_imported():
    for entry in BUILT_IN.values():
        for task in entry.classes:
            assert isinstance(entry.load(task), type)


def test_every_arm_belongs_to_its_method_and_its_sources_exist():
    for entry in BUILT_IN.values():
        assert entry.arms
        for arm in entry.arms:
            assert arm.method == entry.id
            assert not arm.source or BUILT_IN[arm.source].kind == "synthesizer"
            assert not arm.learner or arm.tasks


def test_defaults_are_built_in():
    assert set(DEFAULT) <= set(BUILT_IN)


def test_sources_of_a_chosen_arm_are_added():
    _, arms = select([MethodChoice(id="dd_ssp", variant="mst")])
    assert {(a.method, a.source) for a in arms} == {("dd_ssp", "mst"), ("mst", "")}


def test_dd_ssp_stands_on_any_synthesizer():
    _, arms = select([MethodChoice(id="dd_ssp", source="independent")])
    assert {(a.method, a.variant) for a in arms} == {("dd_ssp", "independent"), ("independent", "")}


def test_calibration_and_variant_filter_arms():
    _, arms = select([MethodChoice(id="ada_ssp", calibration="published", variant="paper_constants")])
    assert [(a.calibration, a.variant) for a in arms] == [("published", "paper_constants")]


def test_parameters_may_name_a_new_variant():
    _, arms = select([MethodChoice(id="aim"), MethodChoice(id="aim", variant="small", parameters={"max_model_mb": 1})])
    assert Arm("aim", variant="small", parameters=(("max_model_mb", 1),)) in arms


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (MethodChoice(id="ada_spp"), "unknown method 'ada_spp'; did you mean 'ada_ssp'?"),
        (MethodChoice(id="ssp", calibration="tigth"), "did you mean 'tight'?"),
        (MethodChoice(id="ada_ssp", variant="paper_constant"), "did you mean 'paper_constants'?"),
        (MethodChoice(id="ols", source="aim"), "takes no source"),
        (MethodChoice(id="dd_ssp", source="ols"), "is no synthesizer"),
        (MethodChoice(id="ols", file="nowhere.py", class_name="A"), "taken by a built-in"),
        (MethodChoice(id="mine", file="nowhere.py", class_name="A"), "does not exist"),
    ],
)
def test_bad_choices_are_one_line(choice, said):
    with pytest.raises(InputError) as error:
        select([choice])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_one_name_with_two_settings_is_refused():
    with pytest.raises(InputError, match="chosen twice"):
        select([MethodChoice(id="aim"), MethodChoice(id="aim", parameters={"max_model_mb": 1})])


def test_own_method_from_a_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    registry, arms = select([MethodChoice(id="mine", file=str(path), class_name="Mine", tasks=("linear",))])
    assert [a.method for a in arms] == ["mine"]
    assert registry["mine"].load("linear").__name__ == "Mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "unknown class"),
        ("import nothing_like_this\n", "cannot be imported: ModuleNotFoundError"),
        ("class Mine:\n    def fit(self): ...\n", "has no method predict()"),
        ("class Mine:\n    def fit(self): ...\n    def predict(self): ...\n", "does not take the parameter 'epsilon'"),
    ],
)
def test_unusable_own_method_is_one_line(tmp_path, text, said):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        select([MethodChoice(id="mine", file=str(path), class_name="Mine", tasks=("linear",))])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_unknown_task_names_what_there_is():
    with pytest.raises(InputError, match="has no logistic form; it does linear"):
        method("ols").load("logistic")


def test_an_own_file_is_read_each_time_and_nothing_is_left_beside_it(tmp_path, monkeypatch):
    """Two versions of one size, saved in one second: bytecode of the first would pass for that of the second."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "mine.py"
    for default in ("1.0", "2.0"):
        path.write_text(OWN.replace("epsilon=1.0", f"epsilon={default}"))
        os.utime(path, (1e9, 1e9))
        mine = class_from_file(path, "Mine")
        assert inspect.signature(mine).parameters["epsilon"].default == float(default)
    assert list(tmp_path.iterdir()) == [path]
