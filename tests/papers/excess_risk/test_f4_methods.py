"""Card X-F4: what it runs, that it repeats, and how it compares."""

import math

import numpy as np
import pandas as pd
import pytest

from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.papers.registry import card as card_of
from marginalia.papers.reported import reported
from marginalia.sweep.protocols import Prepared, Task

CARD = card_of("excess_risk_f4")
SETTINGS = {**CARD.defaults, "sets": ("heart@dpml",), "trials": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.integers(0, [40, 2, 4], (303, 3))
    y = (rng.random(303) < 1 / (1 + np.exp(2.0 - 0.1 * x[:, 0]))).astype(int)
    folder = tmp_path_factory.mktemp("prepared") / "heart@dpml"
    table = Table(np.column_stack([x, y]), Domain.from_sizes({"age": 40, "sex": 2, "cp": 4, "output": 2}))
    Prepared("heart@dpml", table, (Task("logistic", "output"),)).save(folder)
    return {"heart@dpml": folder}


@pytest.fixture(scope="module")
def rows(data):
    return CARD.run("heart@dpml", SETTINGS, 0, data)


def test_every_method_runs_and_repeats(rows, data):
    first = rows[rows["trial"] == 0]
    pd.testing.assert_frame_equal(first, CARD.run("heart@dpml", {**SETTINGS, "trials": 1}, 0, data))
    assert list(zip(first["method"], first["variant"], first["n_teachers"], strict=True)) == [
        ("trivial", "", 0),
        ("logistic", "", 0),
        ("dp_sgd", "published", 0),
        ("dp_sgd", "published, no noise", 0),
        ("dp_sgd", "tight", 0),
        ("pate", "published", 10),
        ("pate", "published", 15),
        ("pate", "published", 20),
        ("pate", "tight", 20),
    ]
    spent = first[first["epsilon"] == 1].groupby(["method", "variant"])["epsilon_spent"].max()
    assert spent["dp_sgd", "published"] == pytest.approx(0.240, abs=1e-3)  # n = 242, as the paper's Heart
    assert spent["pate", "published"] == pytest.approx(0.6829, abs=2e-4)
    for method in ("dp_sgd", "pate"):
        assert spent[method, "tight"] == pytest.approx(1, abs=1e-3)
    assert rows["accuracy"].between(0, 1).all()
    assert rows[rows["method"] == "logistic"]["roc_auc"].mean() > 0.7


def test_the_settings_follow_documented_numbers_alone(data, tmp_path):
    """Under add/remove a row less changes neither what is asked for nor what it costs; it once changed both."""
    folder = tmp_path / "heart@dpml"
    whole = Prepared.load(data["heart@dpml"])
    Prepared(whole.name, whole.table.take(slice(280)), whole.tasks).save(folder)
    rows = CARD.run("heart@dpml", {**SETTINGS, "trials": 1}, 0, {"heart@dpml": folder}).query("method == 'dp_sgd'")
    spent = rows.set_index("variant")["epsilon_spent"]
    assert spent["published"] == pytest.approx(0.240, abs=1e-3)
    assert spent["tight"] == pytest.approx(1, abs=1e-3)


def test_the_table_compares_with_the_paper_and_the_reference_run(rows):
    table = CARD.tables(rows, SETTINGS)["excess_risk_f4"].set_index(["method", "variant", "n_teachers"])
    own = rows[(rows["method"] == "pate") & (rows["n_teachers"] == 15)]["accuracy"]
    line = table.loc["pate", "published", 15]
    assert line["mean"] == pytest.approx(own.mean(), rel=1e-5)
    assert line["stderr"] == pytest.approx(own.std() / math.sqrt(2), rel=1e-5)
    expected = (own.mean() - 0.521) / math.sqrt(own.var() * (1 / 2 + 1 / 10) + 0.0003**2)
    assert line["z"] == pytest.approx(expected, rel=1e-4)
    assert table.loc["logistic", "", 0]["reported"] == 0.802
    aim = table.loc["aim", "", 0]
    assert (aim["reported"], aim["n_trials"]) == (0.719, 0)
    assert math.isnan(aim["mean"])
    assert math.isnan(table.loc["dp_sgd", "tight", 0]["z"])


def test_the_figure_has_a_bar_for_each_method(rows):
    figure = CARD.figure(CARD.tables(rows, SETTINGS), SETTINGS)
    (axes,) = figure.axes
    assert len(axes.patches) == 8
    assert axes.get_ylim()[0] == 0
    heights = {round(p.get_height(), 4) for p in axes.patches}
    assert 0.719 in heights


@pytest.mark.parametrize(
    ("method", "variant", "name", "teachers", "value"),
    [
        ("dp_sgd", "published", "dutch", 0, (0.738, 10)),
        ("dp_sgd", "published, no noise", "heart", 0, (0.769, 10)),
        ("pate", "published", "adult", 500, (0.820, 3)),
        ("pate", "published", "heart", 10, (0.531, 10)),
        ("logistic", "", "law", 0, (0.9007, 60)),
    ],
)
def test_reference_values(method, variant, name, teachers, value):
    table = reported("excess_risk_f4_reference").fillna({"variant": ""})
    line = table.set_index(["dataset", "method", "variant", "n_teachers"]).loc[name, method, variant, teachers]
    assert tuple(line) == value


def test_an_unknown_set_is_one_line(data):
    with pytest.raises(InputError, match="did you mean") as caught:
        CARD.run("hart@dpml", SETTINGS, 0, data)
    assert "\n" not in str(caught.value)
