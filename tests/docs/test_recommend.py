"""The calibration that the documentation shows is that of the records that come with the library."""

import importlib.util
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginalia.recommend.benchmarks import read
from marginalia.reporting.documentation import fill

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("docs_recommend", DOCS / "recommend.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "function"), [("recommend", "calibration"), ("recommend_tables", "by_table")])
def test_the_tables_are_made_from_the_records(script, name, function):
    made = getattr(script, function)(read())
    text = made.to_csv(index=False, float_format="%.4g", lineterminator="\n")
    shown = pd.read_csv(DOCS / f"{name}.csv")
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(text)), shown, rtol=2e-3)


def test_the_page_shows_them():
    text = (DOCS / "recommend.md").read_text(encoding="utf-8")
    assert fill(text, DOCS.parent) == text


def test_the_models_that_are_not_used(script):
    """By hand: the mean of an arm, and the nearest settings, which far away are the nearest one."""
    records = [one for one in read() if one.setting.task == ""]
    arm = (records[0].method, records[0].variant)
    own = [one for one in records if (one.method, one.variant) == arm]
    assert script.ArmMean(records)(arm, own[0].setting) == pytest.approx(np.mean(np.log10([o.loss for o in own])))
    largest = max(own, key=lambda one: one.setting.rows * one.setting.epsilon)
    few = [largest, min(own, key=lambda one: one.setting.signal)]
    far = largest.setting._replace(rows=largest.setting.rows * 1000)
    assert script.Nearest(few)(arm, far) == pytest.approx(np.log10(largest.loss))
