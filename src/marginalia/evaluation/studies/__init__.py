"""Experiment cards that are no plain sweep of methods over epsilon: parts to run, tables and a figure each."""

from __future__ import annotations

import importlib

from marginalia.errors import unknown_name
from marginalia.evaluation.studies.base import Study

STUDIES: dict[str, str] = {}


def study(name: str) -> Study:
    """Return the study with id `name`, or raise an `InputError` with the nearest id."""
    try:
        module, attribute = STUDIES[name].split(":")
    except KeyError:
        raise unknown_name("study", name, STUDIES) from None
    return getattr(importlib.import_module(module), attribute)


__all__ = ["STUDIES", "Study", "study"]
