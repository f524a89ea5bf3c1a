"""The README's findings are those of the committed results, and its picture's names do not meet."""

import importlib.util
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

DOCS = Path(__file__).parents[2] / "docs"
spec = importlib.util.spec_from_file_location("docs_front", DOCS / "front.py")
front = importlib.util.module_from_spec(spec)
spec.loader.exec_module(front)


def test_committed_findings_are_those_of_the_results():
    """After a new run: python docs/front.py."""
    assert (DOCS / "front.csv").read_text() == front.findings().to_csv(index=False, lineterminator="\n")


def test_the_readme_states_the_findings():
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    for row in front.findings().itertuples():
        assert f"- {row.finding}. {row.more}\n" in text


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=12))
def test_names_are_apart_in_order_and_not_far(places):
    places = sorted(places)
    moved = front.apart(places, 11)
    assert (np.diff(moved) >= 11 - 1e-6).all()
    assert np.abs(np.subtract(moved, places)).max() <= 11 * len(places)


@pytest.mark.slow
def test_every_curve_is_in_all_pictures(tmp_path):
    for theme, shape in product(front.THEMES, front.SHAPES):
        front.draw(theme, shape, tmp_path / "drawn.svg")
        # An error bar for each setting, in a group of its own per arm.
        text = (tmp_path / "drawn.svg").read_text()
        auc, error = front.means("auc"), front.means("marginal_error")
        arms = sum(((auc["method"] == m) & (auc["variant"] == v)).any() for m, v in front.LEARNERS.items())
        arms += error["method"][error["method"].isin(front.RELEASES)].nunique()
        assert text.count('id="LineCollection_') == arms
