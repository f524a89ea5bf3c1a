"""The published coded files, re-derived from the raw ones, and the page that reports it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import others_slow

from marginalia.data.datasets import load

spec = importlib.util.spec_from_file_location("agreement", Path(__file__).parents[2] / "docs" / "agreement.py")
agreement = importlib.util.module_from_spec(spec)
spec.loader.exec_module(agreement)
compare, rewrite = agreement.compare, agreement.rewrite


def test_compare_knows_its_five_answers():
    base = [0, 1, 2, 0]
    assert compare(base, base) == "identical"
    assert compare([5, 3, 4, 5], base) == "relabelled"
    assert compare([0, 0, 1, 0], base) == "coarser"
    assert compare([0, 1, 2, 3], base) == "finer"
    assert compare([0, 0, 1, 1], base) == "different"


@pytest.mark.slow
@given(st.lists(st.floats(-10, 10), min_size=1))
def test_dense_ranks_are_contiguous_and_keep_order(values):
    codes = agreement.dense_rank(values)
    assert sorted(set(codes.tolist())) == list(range(len(set(values))))
    for i, j in zip(range(len(values)), range(1, len(values)), strict=False):
        assert (values[i] < values[j]) == (codes[i] < codes[j])


def test_generated_parts_of_a_page_are_replaced():
    page = "head\n<!-- a: begin -->\nold\n<!-- a: end -->\ntail\n"
    assert rewrite(page, {"a": "new"}) == "head\n<!-- a: begin -->\nnew\n<!-- a: end -->\ntail\n"


@pytest.fixture
def real(mirror, monkeypatch, tmp_path):
    monkeypatch.setenv("MARGINALIA_CACHE", str(tmp_path))
    return mirror


def test_house_adult_is_adult_clean_code_by_code(real):
    house, clean = load("adult").table, load("adult@clean").table
    assert house.domain.names == clean.domain.names
    assert house.domain.sizes == clean.domain.sizes
    assert [a.kind for a in house.domain] == [a.kind for a in clean.domain]
    np.testing.assert_array_equal(house.codes, clean.codes)


@pytest.mark.parametrize(
    ("name", "recipe", "rows"),
    others_slow(
        [
            ("compas", agreement.dpml_compas, 7214),
            ("adult", agreement.dpml_adult, 48842),
            ("dutch", agreement.dpml_dutch, 60420),
        ]
    ),
)
def test_recipes_reproduce_the_published_files_row_by_row(real, name, recipe, rows):
    recoded, published = recipe(agreement.raw_frame(name)), load(f"{name}@dpml").table
    assert len(recoded) == published.n_rows == rows
    assert list(recoded.columns) == list(published.domain.names)
    for column in published.domain.names:
        assert compare(recoded[column], published.column(column)) in ("identical", "relabelled"), column
        assert recoded[column].nunique() == published.domain[column].size
        if published.domain[column].kind != "categorical":  # ranks keep the order
            np.testing.assert_array_equal(recoded[column], published.column(column))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "recipe"), [("compas", agreement.dpml_compas), ("dutch", agreement.dpml_dutch)])
def test_house_codings_lose_only_what_their_public_bins_merge(real, name, recipe):
    columns = agreement.column_agreement(name, f"{name}@dpml", recipe)
    assert set(columns["house coding"]) <= {"identical", "relabelled", "coarser"}


@pytest.mark.slow
def test_law_differs_in_rows_and_every_row_is_accounted_for(real):
    rows, columns = agreement.law_agreement()
    assert (rows["raw_rows"], rows["published_rows"]) == (18692, 20798)
    assert rows["raw_white"] == rows["published_white"] == rows["white_in_common"] == 17491
    assert rows["raw_other"] == 1201
    assert rows["published_other"] == 3307
    assert rows["other_in_common"] + rows["other_undecidable"] == rows["raw_other"]
    assert rows["other_in_common"] > 1000
    assert (columns["white students' counts"] == "equal").all()


def test_the_page_lists_the_catalogue_as_it_is():
    text = agreement.PAGE.read_text(encoding="utf-8")
    assert rewrite(text, {"catalogue": agreement.catalogue_markdown()}) == text


@pytest.mark.slow
def test_the_page_shows_the_agreement_as_computed(real):
    text = agreement.PAGE.read_text(encoding="utf-8")
    assert rewrite(text, {"agreement": agreement.agreement_markdown()}) == text
