"""The page of faults says what the tests inject and expect."""

import ast
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
house = runpy.run_path(str(ROOT / "docs" / "faults.py"))
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")


def names_in(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_the_table_of_fits_is_that_of_the_tests():
    """After a change: python docs/faults.py."""
    assert house["page"]() == PAGE


def test_every_fault_has_words():
    faulty = runpy.run_path(str(ROOT / "tests" / "sweep" / "faulty.py"))
    assert all(faulty[name].__doc__ for name in faulty["FAULTS"])


@pytest.mark.slow
def test_every_test_that_the_page_names_is_there():
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGE)
    assert len(named) > 20
    for file, name in named:
        (path,) = (ROOT / "tests").rglob(file)
        assert name in names_in(path), f"{file} has no {name}"


def test_every_row_names_its_test_and_loses_nothing():
    faults = PAGE.split("## What it costs")[0]
    rows = [line.split("|")[1:-1] for line in faults.splitlines() if line.startswith("| ") and "rows lost" not in line]
    assert len(rows) > 50
    for row in rows:
        assert row[-2].strip() == "0", row
        assert re.fullmatch(r"`(test_\w+\.py::test_)?\w+`", row[-1].strip()), row
