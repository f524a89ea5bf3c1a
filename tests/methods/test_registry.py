import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import marginalia
from marginalia import user_code
from marginalia.audit import tables
from marginalia.errors import InputError
from marginalia.methods.record import Arm
from marginalia.methods.registry import BUILT_IN, DEFAULT, EVERY, method
from marginalia.sweep.choices import MethodChoice, select
from marginalia.user_code import class_from_file, try_import

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


def test_reading_the_catalogue_imports_no_method():
    code = "import sys, marginalia.methods.registry; print({'numpy', 'scipy', 'sklearn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_records_say_what_tables_need():
    """A new record is told here what it lacks; its look is checked in tests/reporting/test_style.py."""
    said = []
    for name, entry in EVERY.items():
        modules = {path.partition(":")[0] for path in entry.classes.values()}
        said += [f"{name}: its class is in {m}, no module of that name" for m in modules if not m.endswith(f".{name}")]
        if entry.in_sweeps != "no" and not entry.about:
            said.append(f"{name}: `about` is empty: one line for `marginalia methods list` and docs/methods.md")
        said += [
            f"{name}: audit frame '{f}' is not in audit.tables"
            for f in entry.audit.frames
            if not hasattr(tables, f.upper())
        ]
        if entry.audit.queries not in {"", *entry.audit.quick}:
            said.append(f"{name}: `audit.queries` needs its number among `audit.quick`")
        said += [f"{name}: unknown key '{k}' in `sweep`" for k in entry.sweep if k not in MethodChoice.model_fields]
    assert not said, "\n".join(said)


# Where a method is named outside its folder, `papers` apart, which is about methods; "logistic" is a task, too.
NAMED = {
    "methods/record.py": {"ols"},  # the public learners that are trained on synthetic rows
    "peers/opacus.py": {"dp_sgd"},  # the method of that library
    "privacy/mechanisms/__init__.py": {"objective_perturbation"},  # a mechanism of that name
    "reporting/figures.py": {"trivial"},  # a line, not a curve
    "sweep/choices.py": {"dp_sgd"},  # what a removed parameter became
}


@pytest.mark.slow
def test_nothing_else_names_methods():
    root = Path(marginalia.__file__).parent
    named = {}
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        of_a_method = place.parts[0] == "methods" and place.with_suffix("").parts[1] in EVERY
        if place.parts[0] == "papers" or of_a_method:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        typing = {n for node in ast.walk(tree) if isinstance(node, ast.If) for n in ast.walk(node)}
        words = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node not in typing and str(node.module).count(".") >= 2:
                words |= {node.module.split(".")[2]} if node.module.startswith("marginalia.methods.") else set()
        if found := (words & set(EVERY)) - {"logistic"}:
            named[place.as_posix()] = found
    assert named == NAMED


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


def test_a_file_is_tried_in_a_process_that_is_no_copy_of_this_one(tmp_path, monkeypatch):
    """A copy of a process whose linear algebra has threads can hang; the new one finds what this one finds."""
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "helper_of_mine.py").write_text("x = 1\n")
    (tmp_path / "mine.py").write_text("import helper_of_mine\nprint('noise')\n")
    if hasattr(os, "fork"):
        monkeypatch.setattr(os, "fork", None)
    with pytest.raises(InputError, match="ModuleNotFoundError: No module named 'helper_of_mine'"):
        try_import(tmp_path / "mine.py")
    monkeypatch.syspath_prepend(tmp_path / "beside")
    user_code._try_import.cache_clear()
    try_import(tmp_path / "mine.py")
