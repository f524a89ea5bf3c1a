"""The registry finds every card, in a file of its own, and the plan can import them all quickly."""

import pkgutil
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from marginalia import papers
from marginalia.card import Card, Comparison
from marginalia.papers import registry

ROOT = Path(__file__).parents[2]
HEAVY = ("matplotlib", "numba", "pandas", "scipy", "sklearn", "torch")
WINGS = [wing.name for wing in pkgutil.iter_modules(papers.__path__) if wing.ispkg]


def test_a_card_is_one_file_called_by_its_id():
    """So is a comparison, but for those that share a file with their like, and the verdicts, which judges make."""
    places, wrong = defaultdict(list), {}
    for module in registry._modules():
        own = {v.id: v for v in vars(module).values() if isinstance(v, Card | Comparison)}
        for name, value in own.items():
            places[name].append(module.__name__)
            _, _, wing, file = module.__name__.split(".")
            shares = isinstance(value, Comparison) and len(own) > 1
            if not (shares or file == name or (file == "judges" and name == f"{wing}_verdicts")):
                wrong[name] = module.__name__
    assert not wrong
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
    cards = {name for name, value in registry._registered().items() if isinstance(value, Card)}
    assert {name for name in cards if places[name][0].split(".")[2] not in name} == set()


def test_a_card_is_named_in_a_configuration_and_run_by_a_test():
    configured = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflow" / "configs").glob("*.yaml"))
    tested = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "papers").rglob("test_*.py"))
    missing = []
    for name in registry.cards():
        if not re.search(rf"^  {name}:", configured, re.MULTILINE):
            missing.append(f"no file of workflow/configs/ has '{name}:' under 'studies:'")
        if f'"{name}"' not in tested:
            missing.append(f"no test calls check_card('{name}', ...)")
    assert not missing


def test_two_cards_of_one_id_are_refused(monkeypatch):
    card = next(iter(registry.cards().values()))
    module = type(sys)("twin")
    module.TWIN = Card(card.id, "", "", {}, card.parts, card.run, card.tables, card.figure)
    modules = [*registry._modules(), module]
    monkeypatch.setattr(registry, "_modules", lambda: iter(modules))
    with pytest.raises(ValueError, match=f"two cards are called {card.id}; one of them is in twin"):
        registry._registered.__wrapped__()


@pytest.mark.slow
@pytest.mark.parametrize("wing", WINGS)
def test_importing_the_cards_stays_light(wing):
    """The plan imports all cards: no table, plotting, learning or compiling library comes with them."""
    code = (
        f"import sys, pkgutil, importlib, marginalia.papers.{wing} as wing\n"
        "for module in pkgutil.iter_modules(wing.__path__, wing.__name__ + '.'): importlib.import_module(module.name)\n"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_report_shows_verdicts_where_claims_stand_whatever_files_are_called():
    ids = list(registry.comparisons(["dd_ssp"]))
    assert ids.index("dd_ssp_cells") < ids.index("dd_ssp_verdicts") < ids.index("dd_ssp_figure3")
    assert ids.index("dd_ssp_figure6") < ids.index("dd_ssp_model_size")
