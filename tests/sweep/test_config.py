import json
import re
from pathlib import Path

import pytest
import yaml

from marginalia.data.catalogue.catalogue import AUTO, entry
from marginalia.errors import InputError
from marginalia.methods.registry import BUILT_IN, DEFAULT
from marginalia.papers import registry
from marginalia.sweep import resolve
from marginalia.sweep.choices import Presentation, check_parameters, select
from marginalia.sweep.config import Config, epsilon_text, parse, read
from marginalia.sweep.plan import plan
from marginalia.sweep.protocols import tasks_of

ROOT = Path(__file__).parents[2]


def test_an_empty_configuration_runs_what_fits_any_table():
    config = parse({})
    (block,) = config.blocks()
    assert block.name == "sweep"
    assert block.epsilons == (0.05, 0.1, 0.5, 1.0, 2.0)
    assert [m.id for m in block.methods] == list(DEFAULT)
    assert block.delta == 1e-5


@pytest.mark.parametrize("path", ["config.yaml", ".test/config/config.yaml"])
def test_committed_configurations_are_valid(path):
    assert read(ROOT / path).blocks()


@pytest.mark.parametrize(
    "path",
    [ROOT / ".test/config/config.yaml", *sorted((ROOT / "workflow/configs").glob("*.yaml"))],
    ids=lambda path: path.stem,
)
def test_committed_configurations_can_be_run(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if "configs" in content:  # of several, each of which is here
        assert {ROOT / name for name in content["configs"]} < set(path.parent.iterdir())
    else:
        assert resolve.resolve(content, registry.experiments(), probe=False).config.results_dir


def test_parameters_of_a_learner_on_synthetic_rows_are_the_learners():
    choice = {"id": "aim_synth", "parameters": {"fit_intercept": False}}
    (block,) = parse({"methods": [choice]}).blocks()
    check_parameters(*select(block.methods), ["linear", "logistic"])
    (block,) = parse({"methods": [choice | {"parameters": {"fit_intercep": False}}]}).blocks()
    with pytest.raises(InputError, match="parameter of method 'ols' 'fit_intercep'"):
        check_parameters(*select(block.methods), ["linear"])


def test_the_default_sweep_holds_every_method():
    (block,) = read(ROOT / "config.yaml").blocks()
    assert {choice.id for choice in block.methods} == {
        *(m.id for m in BUILT_IN.values() if m.in_sweeps == "all"),
        "peer/opacus/dp_sgd",
    }
    plan(read(ROOT / "config.yaml"), {"sweep": {name: tasks_of(entry(name)) for name in AUTO}})


def test_a_list_of_methods_may_hold_the_words_for_several():
    alone, listed = (parse({"methods": methods}).methods for methods in ("all", ["all", {"id": "peer/opacus/dp_sgd"}]))
    assert listed[:-1] == alone
    assert listed[-1].id == "peer/opacus/dp_sgd"
    assert [m.id for m in parse({"methods": ["default", "pate"]}).methods] == [*DEFAULT, "pate"]


def test_a_removed_parameter_is_one_line_with_the_alternative():
    (block,) = parse({"methods": [{"id": "dp_sgd", "parameters": {"backend": "opacus"}}]}).blocks()
    with pytest.raises(InputError, match=r"'backend' was removed in 3.0; take it out, or take .* peer/opacus/dp_sgd"):
        check_parameters(*select(block.methods), ["linear"])


def test_experiments_override_the_defaults():
    config = parse({"trials": 3, "experiments": {"a": {}, "b": {"trials": 7, "methods": ["ols"]}}})
    a, b = config.blocks()
    assert (a.name, a.trials, b.name, b.trials) == ("a", 3, "b", 7)
    assert [m.id for m in b.methods] == ["ols"]


def test_epsilons_are_sorted_and_unique():
    assert parse({"epsilons": [2, 0.1, 2.0]}).epsilons == (0.1, 2.0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"epsilons": [-1]}, "config: epsilons.0: input should be greater than 0 (got -1)"),
        ({"epsilons": [float("nan")]}, "epsilons.0"),
        ({"epsilons": []}, "epsilons"),
        ({"delta": 0}, "delta: input should be greater than 0 (got 0)"),
        ({"delta": 1}, "delta: input should be less than or equal to 0.01 (got 1)"),
        ({"trial": 3}, "unknown key in config 'trial'; did you mean 'trials'?"),
        ({"protocol": "strikt"}, "unknown protocol 'strikt'; did you mean 'strict'?"),
        ({"methods": [{"id": "mine", "file": "a.py"}]}, "'file' and 'class' of an own method must be given together"),
        ({"experiments": {"a": {"epsilon": [1]}}}, "unknown key in experiments.a 'epsilon'; did you mean 'epsilons'?"),
        ({"results_dir": ""}, "results_dir"),
        ({"trials": 0}, "trials"),
        ({"test_fraction": 1.5}, "test_fraction"),
        ({"methods": [{"id": "ssp", "limits": {"columns": 3}}]}, "'limits' are those of an own method"),
        ({"methods": [{"id": "m", "file": "m.py", "class": "M", "limits": {"colums": 3}}]}, "did you mean 'columns'"),
    ],
)
def test_bad_configuration_is_one_clear_line(content, said):
    with pytest.raises(InputError) as error:
        parse(content)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_unreadable_file_is_one_line(tmp_path):
    (tmp_path / "c.yaml").write_text("a: [1")
    for path in (tmp_path / "c.yaml", tmp_path / "missing.yaml"):
        with pytest.raises(InputError) as error:
            read(path)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (
            [{"id": "ssp", "colour": "blu"}],
            "methods.0.colour: input should be a colour of Matplotlib, such as crimson or '#dc143c' (got 'blu')",
        ),
        ([{"id": "ssp", "colour": "none"}], "input should be a colour of Matplotlib"),
        ([{"id": "ssp", "colour": 3}], "methods.0.colour: input should be a valid string"),
        ([{"id": "ssp", "label": "_a"}], "methods.0.label: a label begins with a letter or digit"),
        ([{"id": "ssp", "label": "a$x"}], "methods.0.label: a label begins with a letter or digit"),
        ([{"id": "ssp", "label": ""}], "methods.0.label: a label begins with a letter or digit"),
        ([{"id": "ssp", "label": "a\nb"}], "has neither '$' nor line ends"),
        ([{"id": "ssp", "label": "a" * 61}], "methods.0.label: string should have at most 60 characters"),
        ([{"id": "ssp", "highlight": "top"}], "methods.0.highlight: input should be a valid boolean"),
        ([{"id": "ssp", "color": "red"}], "unknown key in config 'color'; did you mean 'colour'?"),
        ([{"id": "ssp", "label": "A"}, {"id": "mst", "label": "A"}], "the label 'A' is given to 2 methods"),
        ([{"id": "ssp", "colour": "red"}, {"id": "ssp", "colour": "blue"}], "method 'ssp': two entries have different"),
    ],
)
def test_what_an_entry_says_of_its_look_is_checked(methods, message):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        parse({"methods": methods})
    assert "\n" not in str(error.value)


def test_experiments_can_share_a_look():
    entry = {"id": "mine", "file": "m.py", "class": "M", "label": "Mine", "colour": "red"}
    blocks = {"a": {"methods": [entry, "ssp"]}, "b": {"methods": [{**entry, "highlight": True}]}}
    assert parse({"experiments": blocks}).presentations() == [
        Presentation("mine", label="Mine", colour="#ff0000", highlight=True)
    ]
    assert parse({}).presentations() == []


def test_epsilons_are_spelled_shortest():
    assert [epsilon_text(e) for e in (0.05, 1.0, 2, 1e-3, float("inf"))] == ["0.05", "1", "2", "0.001", "inf"]


def test_committed_schema_is_the_models():
    """Editors read the schema file; `python -m marginalia.sweep.config > FILE` writes it."""
    committed = json.loads((ROOT / "workflow/schemas/config.schema.json").read_text())
    assert committed == json.loads(json.dumps(Config.model_json_schema(by_alias=True)))
