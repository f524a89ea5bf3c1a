"""What is promised to stay (docs/file-formats.md), line by line in surface.txt.

A line that goes or changes is a change for users: CHANGELOG.md says so. Then: python tests/test_compatibility.py.
"""

import importlib
import inspect
from collections.abc import Iterator
from enum import EnumType
from pathlib import Path

import typer

from marginalia.cli.app import app
from marginalia.methods import models
from marginalia.privacy import certificate
from marginalia.sweep.config import Config, MethodChoice
from marginalia.sweep.records import COLUMNS
from marginalia.synthesis import files as synthesizers

LIST = Path(__file__).with_name("surface.txt")


def surface() -> Iterator[str]:
    for name in ("data", "privacy", "marginals", "synthesis", "learning"):
        package = importlib.import_module(f"marginalia.{name}")
        for public in sorted(package.__all__):
            yield f"import marginalia.{name} {public}{called(getattr(package, public))}"
    yield from verbs(typer.main.get_command(app), "marginalia")
    for model, where in ((Config, "config"), (MethodChoice, "config methods")):
        yield from (
            f"{where} {key}" for key in sorted(field.alias or name for name, field in model.model_fields.items())
        )
    for module in (certificate, models, synthesizers):
        yield f"file {module.FORMAT} {module.FORMAT_VERSION}"
    yield f"records {' '.join(COLUMNS)}"


def called(thing) -> str:
    """Return the parameters of a class or function, and the public methods of a class that are defined here."""
    if isinstance(thing, EnumType):
        return f": {' '.join(one.value for one in thing)}"
    if not callable(thing):
        return ""
    names = ", ".join(inspect.signature(thing).parameters)
    own = (m for m in dir(thing) if not m.startswith("_") and callable(getattr(thing, m)))
    methods = sorted(m for m in own if str(getattr(getattr(thing, m), "__module__", "")).startswith("marginalia"))
    return f"({names}) {' '.join(methods) if inspect.isclass(thing) else ''}".rstrip()


def verbs(group, name) -> Iterator[str]:
    for word, verb in sorted(group.commands.items()):
        if hasattr(verb, "commands"):
            yield from verbs(verb, f"{name} {word}")
        else:
            yield " ".join((name, word, *sorted(o for p in verb.params for o in p.opts)))


def test_the_surface_is_the_one_that_is_listed():
    assert list(surface()) == LIST.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in surface()), encoding="utf-8")
