"""Every example in a docstring runs, and every public class and function of the library's lower floors has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import marginalia

WITH_EXAMPLES = ("data", "privacy", "marginals", "synthesis", "learning", "methods")
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(marginalia.__path__, "marginalia.")
    if not module.name.endswith(".opacus")  # imports torch
)


PACKAGES = sorted({name.split(".")[1] for name in MODULES})


@pytest.mark.parametrize("package", PACKAGES)
def test_examples_run(package):
    """What an example prints instead goes to the captured output."""
    failed = []
    for name in MODULES:
        if name.split(".")[1] == package:
            module = importlib.import_module(name)
            if doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).failed:
                failed.append(name)
    assert failed == []


@pytest.mark.parametrize("package", WITH_EXAMPLES)
def test_public_names_have_an_example(package):
    without = []
    for name in MODULES:
        if name.split(".")[1] == package:
            module = importlib.import_module(name)
            without += [
                f"{name}.{thing.__name__}"
                for label, thing in vars(module).items()
                if not label.startswith("_")
                and (inspect.isclass(thing) or inspect.isfunction(inspect.unwrap(thing)))
                and thing.__module__ == name
                and ">>>" not in (thing.__doc__ or "")
            ]
    assert without == []
