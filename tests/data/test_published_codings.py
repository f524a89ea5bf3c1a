"""The published coded files, coded again from the raw files, and what our codings keep of them.

The recipes of the files of the excess-risk paper (Zhou et al.) are documented nowhere. These reproduce the files, up to
a relabelling of categories. Their codes are dense ranks of the values that occur.
"""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from tiers import others_slow

from marginalia.data.catalogue import catalogue
from marginalia.data.datasets import load, reader_module
from marginalia.data.download import fetch

_ADULT_RANGES = {"fnlwgt": (10_000, 1_500_000), "capital-gain": (0, 100_000), "capital-loss": (0, 5_000)}
_JUVENILE = ["juv_fel_count", "juv_misd_count", "juv_other_count"]
_COMPAS_COLUMNS = ["race", "age", "sex", *_JUVENILE, "priors_count", "c_charge_degree", "two_year_recid"]


def dpml_adult(raw):
    codes = raw.drop(columns="education")
    for name, (low, high) in _ADULT_RANGES.items():
        codes[name] = pd.cut(codes[name], np.linspace(low, high, 101), include_lowest=True, labels=False)
    return codes.apply(dense_rank)


def dpml_compas(raw):
    return raw[_COMPAS_COLUMNS].apply(numbers_if_possible).apply(dense_rank)


def dpml_dutch(raw):
    return raw.rename(columns={"Marital_status": "marital_status"}).apply(dense_rank)


def dense_rank(values):
    return np.unique(np.asarray(values), return_inverse=True)[1].reshape(-1).astype(np.int64)


def numbers_if_possible(column):
    numbers = pd.to_numeric(column, errors="coerce")
    return column if numbers.isna().any() else numbers


def compare(ours, published):
    """Say how two codings of the same rows relate: `coarser` means that ours is a function of the other."""
    ours, published = np.asarray(ours), np.asarray(published)
    if np.array_equal(ours, published):
        return "identical"
    pairs = len(np.unique(np.stack([ours, published]), axis=1).T)
    by_published, by_ours = pairs == len(np.unique(published)), pairs == len(np.unique(ours))
    if by_published and by_ours:
        return "relabelled"
    return "coarser" if by_published else "finer" if by_ours else "different"


def raw_frame(name):
    entry = catalogue.entry(name)
    return import_module(reader_module(name)).read(entry, {role: fetch(file) for role, file in entry.files.items()})


def test_compare_knows_its_five_answers():
    base = [0, 1, 2, 0]
    assert compare(base, base) == "identical"
    assert compare([5, 3, 4, 5], base) == "relabelled"
    assert compare([0, 0, 1, 0], base) == "coarser"
    assert compare([0, 1, 2, 3], base) == "finer"
    assert compare([0, 0, 1, 1], base) == "different"


@pytest.fixture
def real(mirror, monkeypatch, tmp_path):
    monkeypatch.setenv("MARGINALIA_CACHE", str(tmp_path))
    return mirror


def test_adult_is_adult_clean_code_by_code(real):
    ours, clean = load("adult").table, load("adult@clean").table
    assert ours.domain.names == clean.domain.names
    assert ours.domain.sizes == clean.domain.sizes
    assert [a.kind for a in ours.domain] == [a.kind for a in clean.domain]
    np.testing.assert_array_equal(ours.codes, clean.codes)


@pytest.mark.parametrize(
    ("name", "recipe", "rows"),
    others_slow(
        [
            ("compas", dpml_compas, 7214),
            ("adult", dpml_adult, 48842),
            ("dutch", dpml_dutch, 60420),
        ]
    ),
)
def test_recipes_reproduce_the_published_files_row_by_row(real, name, recipe, rows):
    recoded, published = recipe(raw_frame(name)), load(f"{name}@dpml").table
    assert len(recoded) == published.n_rows == rows
    assert list(recoded.columns) == list(published.domain.names)
    for column in published.domain.names:
        assert compare(recoded[column], published.column(column)) in ("identical", "relabelled"), column
        assert recoded[column].nunique() == published.domain[column].size
        if published.domain[column].kind != "categorical":  # ranks keep the order
            np.testing.assert_array_equal(recoded[column], published.column(column))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compas", "dutch"])
def test_our_codings_lose_only_what_their_public_bins_merge(real, name):
    ours, published = load(name).table, load(f"{name}@dpml").table
    for column in published.domain.names:
        relation = compare(ours.column(column), published.column(column))
        assert relation in ("identical", "relabelled", "coarser"), column
