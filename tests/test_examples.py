"""Every example in a docstring runs, and every public class and function of the lower packages has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import marginalia

PUBLIC_BY_ALL = ("marginals",)  # packages whose modules are internal: `__all__` lists the public names
WITH_EXAMPLES = ("data", "privacy", "marginals", "synthesis", "learning", "methods")
MODULES = sorted(module.name for module in pkgutil.walk_packages(marginalia.__path__, "marginalia."))


@pytest.mark.slow
def test_examples_run():
    """What differs is printed where it differs; here stands in which modules."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert [name for name in MODULES if doctest.testmod(importlib.import_module(name), optionflags=flags).failed] == []


def test_public_names_have_an_example():
    without = [
        f"{name}.{label}"
        for name in MODULES
        if name.split(".")[1] in WITH_EXAMPLES
        for label, thing in vars(importlib.import_module(name)).items()
        if not label.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(inspect.unwrap(thing)))
        and thing.__module__ == name
        and (
            name.split(".")[1] not in PUBLIC_BY_ALL
            or label in importlib.import_module(".".join(name.split(".")[:2])).__all__
        )
        and not (inspect.isclass(thing) and (issubclass(thing, Exception) or getattr(thing, "_is_protocol", False)))
        and ">>>" not in (thing.__doc__ or "")
    ]
    assert without == []
