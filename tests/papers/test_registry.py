"""The registry finds every card, in a file of its own, and the plan can import them all quickly."""

import pkgutil
import subprocess
import sys
from collections import defaultdict

import pytest

from marginalia import papers
from marginalia.papers import registry
from marginalia.papers.card import Card

HEAVY = ("matplotlib", "numba", "pandas", "scipy", "sklearn", "torch")
WINGS = [wing.name for wing in pkgutil.iter_modules(papers.__path__) if wing.ispkg]


@pytest.mark.parametrize("wing", WINGS)
def test_a_card_lies_in_one_file_named_after_it(wing):
    """Cards that are calls of one factory, a function of their file, may share a file with a name of its own."""
    places = defaultdict(set)
    for module in registry._modules():
        for value in vars(module).values():
            if isinstance(value, Card) and value.id.startswith(f"{wing}_"):
                places[value.id].add(module.__name__)
    assert places or wing == "cross_paper"  # it has comparisons only
    for name, modules in places.items():
        assert len(modules) == 1, f"{name} lies in {modules}"
        _, _, folder, file = modules.pop().split(".")
        own = name.removeprefix(f"{wing}_")
        made_by_factory = ".<locals>." in registry.card(name).run.__qualname__
        assert folder == wing
        assert made_by_factory or file == own or file.startswith(f"{own}_"), f"{name} lies in {file}.py"


def test_two_cards_of_one_id_are_refused(monkeypatch):
    card = next(iter(registry.cards().values()))
    module = type(sys)("twin")
    module.TWIN = Card(card.id, "", "", {}, card.parts, card.run, card.tables, card.figure)
    modules = [*registry._modules(), module]
    monkeypatch.setattr(registry, "_modules", lambda: iter(modules))
    with pytest.raises(ValueError, match=f"two cards are called {card.id}; one of them is in twin"):
        registry._registered.__wrapped__()


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
