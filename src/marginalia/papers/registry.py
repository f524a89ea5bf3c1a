"""Which experiments there are: found by looking into the packages of the papers, and in Python files of the user's."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType

from marginalia import papers
from marginalia.experiment import Experiment, own_experiment


@cache
def experiments() -> dict[str, Experiment]:
    """Return every experiment of the papers by its id, in the order of a report."""
    found: dict[str, Experiment] = {}
    for module in _modules():
        for value in vars(module).values():
            if isinstance(value, Experiment) and found.setdefault(value.id, value) is not value:
                raise ValueError(f"two experiments are called {value.id}; one of them is in {module.__name__}")
    return found


def experiment(name: str, file: str = "") -> Experiment:
    """Return the experiment with id `name`: of a paper, or in a Python file of the user's."""
    return own_experiment(file, ()) if file else experiments()[name]


def _modules() -> Iterator[ModuleType]:
    for package in pkgutil.iter_modules(papers.__path__, f"{papers.__name__}."):
        if package.ispkg:
            found = [module.name for module in pkgutil.iter_modules(import_module(package.name).__path__)]
            paper = package.name.rpartition(".")[2]
            for name in sorted(found, key=lambda name: _place(name, paper)):
                yield import_module(f"{package.name}.{name}")


def _place(module: str, paper: str) -> str:
    """Return what decides where the experiments of a module stand in a report: its name, as a reader has it.

    >>> sorted(["dd_ssp_model_size", "figures", "judges"], key=lambda name: _place(name, "dd_ssp"))
    ['judges', 'figures', 'dd_ssp_model_size']
    """
    return "claims" if module == "judges" else module.removeprefix(f"{paper}_")
