"""Every example in a docstring runs, and every public class and function of the library's lower floors has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import marginalia

WITH_EXAMPLES = ("data", "privacy", "marginals", "synthesis", "learning")
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(marginalia.__path__, "marginalia.")
    if not module.name.endswith(".opacus")  # imports torch
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert not result.failed


@pytest.mark.parametrize("name", [n for n in MODULES if n.split(".")[1] in WITH_EXAMPLES])
def test_public_names_have_an_example(name):
    module = importlib.import_module(name)
    public = [
        thing
        for label, thing in vars(module).items()
        if not label.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(inspect.unwrap(thing)))
        and thing.__module__ == name
    ]
    assert [thing.__name__ for thing in public if ">>>" not in (thing.__doc__ or "")] == []
