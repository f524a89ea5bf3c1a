"""What scikit-learn's users expect of every class: documented parameters, common defaults, the error before a fit."""

import functools
import importlib
import inspect
import re

import pytest
import typer
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator
from tiers import others_slow

from marginalia import learning, synthesis
from marginalia.advice.recommend import recommend
from marginalia.cli.app import app
from marginalia.inference import Release
from marginalia.learning.base import LinearLearner
from marginalia.methods.models import save_model
from marginalia.methods.registry import BUILT_IN
from marginalia.peers.models import PeerSynthesizer
from marginalia.sweep.config import Settings

LEARNERS = [getattr(learning, name) for name in learning.__all__]
SYNTHESIZERS = [getattr(synthesis, name) for name in synthesis.__all__]
CLASSES = LEARNERS + SYNTHESIZERS
# Their proof holds for replace_one alone.
ONE_RELATION = {"AdaptiveMarginClassifier", "ChebyshevMomentMatching", "Exhaustive", "PATEClassifier"}
# They take both, and add_remove asks for a public number of rows.
NEED_N = {"DPSGDClassifier", "DPSGDRegressor", "PreconditionedGDClassifier", "PreconditionedGDRegressor"}
PACKAGES = ("data", "privacy", "marginals", "synthesis", "learning", "inference")


def documented(text) -> set[str] | None:
    """Return the names under `Parameters` of a numpydoc text, None where there is no such section."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}\n|\Z)", inspect.cleandoc(text or ""), re.S | re.M)
    if section is None:
        return None
    heads = [line.split(" : ")[0] for line in section[1].splitlines() if line and not line[0].isspace()]
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


# Described once, in `LinearLearner`; `fit` takes **unknown to refuse weights of rows in one line.
DESCRIBED_ONCE = {"domain", "target", "unknown"}


def parameters(thing) -> list[str]:
    names = [name for name in inspect.signature(thing).parameters if name not in ("self", "cls")]
    is_learner = "unknown" in names or (inspect.isclass(thing) and issubclass(thing, LinearLearner))
    return [name for name in names if not is_learner or name not in DESCRIBED_ONCE]


def own_methods(cls):
    for name in dir(cls):
        method = getattr(cls, name)
        if (
            not name.startswith("_")
            and callable(method)
            and str(getattr(method, "__module__", "")).startswith("margin")
        ):
            yield name, method


def test_the_reader_of_sections_sees_what_is_missing():
    lines = ("Sum.", "", "Parameters", "----------", "a, b : int", "*rest", "    More.", "", "Returns", "-------", "c")
    assert documented("\n".join(lines)) == {"a", "b", "rest"}
    assert documented("Sum of a and b.") is None


@pytest.mark.parametrize("cls", CLASSES)
def test_every_parameter_of_a_constructor_and_of_fit_is_documented(cls):
    assert set(parameters(cls)) - (documented(cls.__doc__) or set()) == set()
    assert set(parameters(cls.fit)) - (documented(cls.fit.__doc__) or set()) == set()


def test_a_section_of_parameters_leaves_none_out():
    missing = {}
    for package in PACKAGES:
        module = importlib.import_module(f"marginalia.{package}")
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.isfunction(thing) and not inspect.isclass(thing):
                continue
            things = {name: thing}
            if inspect.isclass(thing):
                things |= {f"{name}.{of}": method for of, method in own_methods(thing)}
            for where, one in things.items():
                # A mechanism is a function of a session, and a method of `Session`: its first is `self`.
                told = documented(one.__doc__)
                if told is not None and (left := set(parameters(one)) - told - {"session"}):
                    missing[f"{package}.{where}"] = sorted(left)
    assert missing == {}


@pytest.mark.parametrize("cls", CLASSES)
def test_budgets_have_the_same_defaults(cls):
    default = {name: p.default for name, p in inspect.signature(cls).parameters.items()}
    assert default.get("epsilon", 1.0) == 1.0
    assert default.get("delta", 1e-5) == (0.0 if cls is synthesis.ReducedSpaceLP else 1e-5)  # that one is pure
    if "relation" in default:
        assert default["relation"] == "replace_one"
    assert ("n_public" in default) == (cls.__name__ in NEED_N)


def test_verbs_and_configurations_have_the_same_default():
    verb = typer.main.get_command(app)
    paths = [("fit",), ("synthesize",), ("release",), ("recommend",), ("budget", "open")]
    for path in paths:
        command = functools.reduce(lambda group, word: group.commands[word], path, verb)
        (option,) = [option for option in command.params if option.name == "relation"]
        assert option.default == "replace_one", path
    assert Settings().relation == PeerSynthesizer().relation == "replace_one"
    assert inspect.signature(recommend).parameters["relation"].default == "replace_one"


def test_the_methods_of_one_relation_are_those_of_the_records():
    one = {m.load(task).__name__ for m in BUILT_IN.values() for task in m.classes if m.relations == ("replace_one",)}
    assert one | {"Exhaustive"} == ONE_RELATION  # that one is a reference of a paper, no method of sweeps


@pytest.mark.parametrize("cls", SYNTHESIZERS)
def test_a_synthesizer_before_its_fit(cls, tmp_path):
    model = cls()
    asked = {
        "sample": (3,),
        "marginal": (["a"],),
        "save": (tmp_path / "m.npz",),
        "write_sample": (tmp_path / "s.csv",),
    }
    for name, arguments in asked.items():
        with pytest.raises(NotFittedError, match=f"this {cls.__name__} is not fitted; call fit"):
            getattr(model, name)(*arguments)
    with pytest.raises(NotFittedError):
        list(model.sample_batches(3))  # they are made when they are asked for
    with pytest.raises(NotFittedError):
        Release.of(model)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cls", LEARNERS)
def test_a_learner_before_its_fit(cls, tmp_path):
    for name in ("predict", "predict_proba", "decision_function"):
        if hasattr(cls, name):
            with pytest.raises(NotFittedError, match=f"this {cls.__name__} is not fitted; call fit"):
                getattr(cls(), name)([[0.5]])
    with pytest.raises(NotFittedError):
        save_model(cls(), tmp_path / "m.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::marginalia.errors.PrivacyWarning")
@pytest.mark.parametrize("cls", others_slow(LEARNERS, learning.OLSRegressor, learning.SSPRegressor))
def test_scikit_learn_checks(cls):
    """Every check passes, but for the one that needs an experimental array library."""
    report = check_estimator(cls(), on_skip=None, on_fail="raise")
    assert {one["check_name"] for one in report if one["status"] != "passed"} <= {"check_array_api_input"}
    assert len(report) > 50
