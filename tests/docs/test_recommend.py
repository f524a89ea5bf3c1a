"""The calibration that the documentation shows is that of the records that come with the library."""

import importlib.util
import io
from pathlib import Path

import pandas as pd
import pytest
from tiers import others_slow

from marginalia.advice.benchmarks import read
from marginalia.reporting.documentation import fill

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("docs_recommend", DOCS / "recommend.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", others_slow(["_methods", "", "_intervals", "_tables"]))
def test_the_tables_are_made_from_the_records(script, name):
    made = script.TABLES[name](read())
    text = made.to_csv(index=False, float_format="%.4g", lineterminator="\n")
    shown = pd.read_csv(DOCS / f"recommend{name}.csv")
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(text)), shown, rtol=2e-3)


def test_the_page_shows_them():
    text = (DOCS / "recommend.md").read_text(encoding="utf-8")
    assert fill(text, DOCS.parent) == text


def test_arms_are_told_apart_by_what_differs_on_the_same_splits(script):
    """Splits move both arms by .1 and the arms differ by .01: seen in pairs only."""
    splits = pd.Series([0.1, -0.1, 0.05, -0.05, 0.0])
    arm = 0.8 + splits
    assert script.told_apart(arm, arm + 0.01 + splits / 100)
    assert not script.told_apart(arm, arm + 0.01 + splits)
    assert not script.told_apart(arm, arm)
