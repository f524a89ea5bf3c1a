"""Which cards there are: found by looking into the wings of `marginalia.papers`."""

from __future__ import annotations

import pkgutil
from collections.abc import Container, Iterable, Iterator
from functools import cache
from importlib import import_module
from types import ModuleType

from marginalia import papers
from marginalia.card import Card, Comparison
from marginalia.errors import InputError, unknown_name


@cache
def _registered() -> dict[str, Card | Comparison]:
    registered: dict[str, Card | Comparison] = {}
    for module in _modules():
        for value in vars(module).values():
            if isinstance(value, Card | Comparison) and registered.setdefault(value.id, value) is not value:
                raise ValueError(f"two cards are called {value.id}; one of them is in {module.__name__}")
    return registered


def _modules() -> Iterator[ModuleType]:
    for wing in pkgutil.iter_modules(papers.__path__, f"{papers.__name__}."):
        if wing.ispkg:
            found = [module.name for module in pkgutil.iter_modules(import_module(wing.name).__path__)]
            paper = wing.name.rpartition(".")[2]
            for name in sorted(found, key=lambda name: _place(name, paper)):
                yield import_module(f"{wing.name}.{name}")


def _place(module: str, paper: str) -> str:
    """Return what decides where a module's cards and comparisons stand in a report: its name, as a reader has it.

    >>> sorted(["dd_ssp_model_size", "figures", "judges"], key=lambda name: _place(name, "dd_ssp"))
    ['judges', 'figures', 'dd_ssp_model_size']
    """
    return "claims" if module == "judges" else module.removeprefix(f"{paper}_")


def cards() -> dict[str, Card]:
    """Return every card by its id."""
    return {name: card for name, card in _registered().items() if isinstance(card, Card)}


def card(name: str) -> Card:
    """Return the card with id `name`, or raise an `InputError` with the nearest id."""
    try:
        return cards()[name]
    except KeyError:
        raise unknown_name("study", name, cards()) from None


def comparison(name: str) -> Comparison:
    """Return the comparison with id `name`."""
    value = _registered()[name]
    assert isinstance(value, Comparison)
    return value


def comparisons(wanted: Iterable[str]) -> dict[str, Comparison]:
    """Return the comparisons of some papers by their id.

    Raises
    ------
    InputError
        A paper has no comparison.
    """
    if isinstance(wanted, str):
        raise InputError(f"config: comparisons: expected a list, got '{wanted}'")
    every = [c for c in _registered().values() if isinstance(c, Comparison)]
    for paper in wanted:
        if paper not in {c.paper for c in every}:
            raise unknown_name("comparison", paper, {c.paper for c in every})
    return {c.id: c for paper in wanted for c in every if c.paper == paper}


def cards_needed(compared: Iterable[Comparison], configured: Container[str]) -> list[str]:
    """Return the ids of the cards whose tables the comparisons need, of those that are configured."""
    return [name for name in dict.fromkeys(n for c in compared for n in c.needs) if name in configured]
