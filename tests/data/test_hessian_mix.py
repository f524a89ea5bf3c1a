"""The regression tables of Lev et al. (2026), as their code prepares them."""

import numpy as np
import pandas as pd
import pytest

from marginalia.data.catalogue import catalogue
from marginalia.data.catalogue.readers.hessian_mix import read
from marginalia.data.datasets import load
from marginalia.learning import SSPRegressor

NAMES = [name for name in catalogue.names() if name.endswith("@hessian_mix")]


def test_there_are_26_tables():
    assert len(NAMES) == 26


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_table_holds_numbers_in_its_public_range(name, mirror, monkeypatch):
    monkeypatch.setenv("MARGINALIA_MIRROR", str(mirror))
    rows = load(name).table
    edges = rows.domain["y"].edges
    assert np.isfinite(rows.frame.to_numpy(float)).all()
    assert edges[0] <= rows.frame["y"].min() < rows.frame["y"].max() <= edges[-1]
    assert [column.name for column in rows.domain.open_columns] == [f"x{j + 1}" for j in range(rows.frame.shape[1] - 1)]


def lines(path, *texts):
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return {"table": path}


def test_a_target_may_stand_before_the_features(tmp_path):
    """The months until the cancer came back are the third column, and the last column is left out."""
    row = ",".join(str(float(j)) for j in range(35))
    found = read(catalogue.entry("breastcancer@hessian_mix"), lines(tmp_path / "t", row))
    assert found.iloc[0].tolist() == [0.0, 1.0, *range(3, 34), 2.0]


def test_parts_of_the_date_and_one_hot_columns_of_the_bicycles(tmp_path):
    header = "datetime,season,holiday,workingday,weather,temp,atemp,humidity,windspeed,casual,registered,count"
    dates = ("2011-01-01 00:00:00", "2012-02-07 13:00:00", "2011-01-01 00:00:00", "2011-01-01 00:00:00")
    rows = (f"{date},{i + 1},0,1,{i + 1},9.8,14.4,81,0,3,13,{16 + i}" for i, date in enumerate(dates))
    found = read(catalogue.entry("bike@hessian_mix"), lines(tmp_path / "t", header, *rows))
    assert found.iloc[1].tolist() == [0, 1, 9.8, 14.4, 81, 0, *[0, 1, 0, 0] * 2, 13, 1, 2, 1, 17]
    assert found.shape == (4, 19)


def test_communities_are_those_with_a_tenth_of_black_people(tmp_path):
    """Without the share itself, and without columns that have an unknown cell, except the income that one lacks."""
    cells = np.round(np.arange(3 * 128).reshape(3, 128) / 1000, 3).astype(str).astype(object)
    cells[:, 7] = ["0.05", "0.1", "0.9"]
    cells[0, 101] = cells[1, 30] = "?"
    found = read(catalogue.entry("crime@hessian_mix"), lines(tmp_path / "t", *map(",".join, cells)))
    assert len(found) == 2
    kept = [j for j in range(5, 127) if j not in (7, 101)]
    expected = pd.DataFrame(cells[1:]).replace("?", (0.03 + 0.286) / 2).astype(float)
    assert found.to_numpy()[:, :-1] == pytest.approx(expected[kept[:99]].to_numpy())
    assert found["y"].tolist() == expected[127].tolist()


def test_a_fit_learns_the_bins(mirror, monkeypatch):
    monkeypatch.setenv("MARGINALIA_MIRROR", str(mirror))
    rows = load("servo@hessian_mix").table
    model = SSPRegressor(epsilon=10, random_state=0).fit(rows, "y")
    assert model.encoder_.domain.source == "released"
    assert model.ledger_.certified
