"""The registry finds every experiment, in a file of its own, and the plan can import them all quickly."""

import pkgutil
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from marginalia import papers
from marginalia.experiment import Experiment
from marginalia.papers import registry

ROOT = Path(__file__).parents[2]
HEAVY = ("matplotlib", "numba", "pandas", "scipy", "sklearn", "torch")
STUDIES = [name for name, one in registry.experiments().items() if one.rows]
PAPERS = [paper.name for paper in pkgutil.iter_modules(papers.__path__) if paper.ispkg]


def test_an_experiment_is_one_file_called_by_its_id():
    """But for those on the records of a sweep that share a file, and the verdicts, which judges make."""
    places, wrong = defaultdict(list), {}
    for module in registry._modules():
        own = {v.id: v for v in vars(module).values() if isinstance(v, Experiment)}
        for name, value in own.items():
            places[name].append(module.__name__)
            _, _, paper, file = module.__name__.split(".")
            shares = value.rows is None and len(own) > 1
            if not (shares or file == name or (file == "judges" and name == f"{paper}_verdicts")):
                wrong[name] = module.__name__
    assert not wrong
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
    assert {name for name in STUDIES if places[name][0].split(".")[2] not in name} == set()


def test_an_experiment_has_runs_of_its_own_or_a_paper_to_ask_for_it():
    for one in registry.experiments().values():
        assert bool(one.rows) != bool(one.paper), one.id
        assert one.tables or one.keys, one.id


def test_an_experiment_is_named_in_a_configuration_and_run_by_a_test():
    configured = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflow" / "configs").glob("*.yaml"))
    tested = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "papers").rglob("test_*.py"))
    missing = []
    for name in STUDIES:
        if not re.search(rf"^  {name}:", configured, re.MULTILINE):
            missing.append(f"no file of workflow/configs/ has '{name}:' under 'studies:'")
        if f'"{name}"' not in tested:
            missing.append(f"no test calls check_experiment('{name}', ...)")
    assert not missing


def test_two_experiments_of_one_id_are_refused(monkeypatch):
    name = next(iter(registry.experiments()))
    module = type(sys)("twin")
    module.TWIN = Experiment(name)
    modules = [*registry._modules(), module]
    monkeypatch.setattr(registry, "_modules", lambda: iter(modules))
    with pytest.raises(ValueError, match=f"two experiments are called {name}; one of them is in twin"):
        registry.experiments.__wrapped__()


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_importing_the_experiments_stays_light(paper):
    """The plan imports all experiments: no table, plotting, learning or compiling library comes with them."""
    code = (
        f"import sys, pkgutil, importlib, marginalia.papers.{paper} as paper\n"
        "for module in pkgutil.iter_modules(paper.__path__, paper.__name__+'.'): importlib.import_module(module.name)\n"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_report_shows_verdicts_where_claims_stand_whatever_files_are_called():
    ids = [name for name, one in registry.experiments().items() if one.paper == "dd_ssp"]
    assert ids.index("dd_ssp_cells") < ids.index("dd_ssp_verdicts") < ids.index("dd_ssp_figure3")
    assert ids.index("dd_ssp_figure6") < ids.index("dd_ssp_model_size")
