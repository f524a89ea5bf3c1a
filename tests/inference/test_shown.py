"""Answers in the units of their columns: dates, whole counts, decimals, and bins by their edges."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from marginalia.cli.app import app
from marginalia.inference import mean
from marginalia.inference.columns import shown

DOMAIN = """
attributes:
  - {name: admitted, type: date, edges: ["2020-01-01", "2020-07-01", "2021-01-01", "2022-01-01"], missing: []}
  - {name: cost, type: number, edges: [0, 100, 1000, 20000, 90000], decimals: 2, missing: ["999"]}
  - {name: days, type: integer, edges: [0, 1, 2, 5, 10, 41], top: true}
  - {name: ill, type: boolean}
  - {name: at, type: timestamp, unit: minute, format: "%H:%M", edges: ["00:00", "06:00", "12:00", "18:00", "24:00"]}
"""


@pytest.mark.parametrize(
    ("numbers", "quantity", "texts"),
    [
        ((40582.333, 40400.1, 40700.9), "number", ["40,582", "40,400", "40,701"]),
        ((4.27, 4.1934, 4.3521), "number", ["4.27", "4.19", "4.35"]),
        ((0.0123456, 0.01231, 0.01239), "number", ["0.012346", "0.012310", "0.012390"]),
        ((5.0, 5.0, 5.0), "number", ["5", "5", "5"]),
        ((1.0, -math.inf, math.inf), "number", ["1", "-inf", "inf"]),
        ((1234.4, 1200.6, 1268.2), "count", ["1,234", "1,201", "1,268"]),
        ((-7.2, -9.1, -3.0), "count", ["0", "0", "0"]),
        ((-7.2, -9.1, 3.4), "difference", ["-7", "-9", "3"]),
        ((-0.01, -0.03, 0.02), "share", ["0.00", "0.00", "0.02"]),
        ((0.5, -math.inf, math.inf), "share", ["0.5", "0.0", "1.0"]),
        ((18000.5, 17999.9, 18001.1), "day", ["2019-04-14", "2019-04-13", "2019-04-16"]),
        ((540.6, 539.9, 541.1), "minute of day", ["09:01", "08:59", "09:02"]),
        ((23.1, -4.0, 25.0), "hour of day", ["23:00", "00:00", "23:00"]),
        ((40.0, -math.inf, math.inf), "second of day", ["00:00:40", "00:00:00", "23:59:59"]),
        ((1.0e9, -math.inf, 1.0e9), "day", ["1e+09 days since 1970-01-01", "-inf", "1e+09 days since 1970-01-01"]),
    ],
)
def test_numbers_are_shown_in_their_units(numbers, quantity, texts):
    assert shown(numbers, quantity) == texts


def test_decimals_of_the_column_are_the_least():
    assert shown((40582.333, 40400.1, 40700.9), "number", 2) == ["40,582.33", "40,400.10", "40,700.90"]


def test_no_possible_day_or_count_is_lost_by_rounding():
    rng = np.random.default_rng(0)
    for low, length in zip(rng.uniform(0, 99, 50), rng.uniform(0, 5, 50), strict=True):
        _, first, last = shown((low, low, low + length), "count")
        assert int(first) <= math.ceil(low)
        assert math.floor(low + length) <= int(last)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("shown"), np.random.default_rng(0)
    days = np.datetime64("2020-01-01") + rng.integers(0, 700, 3000)
    costs = np.where(rng.random(3000) < 0.2, "999", np.round(rng.gamma(1.0, 4000.0, 3000), 2).astype(str))
    stays = rng.poisson(3, 3000)
    times = [f"{minute // 60:02}:{minute % 60:02}" for minute in rng.integers(360, 1200, 3000).tolist()]
    rows = "".join(f"{a},{c},{s},{s > 3},{t}\n" for a, c, s, t in zip(days, costs, stays, times, strict=True))
    (folder / "t.csv").write_text("admitted,cost,days,ill,at\n" + rows)
    (folder / "d.yaml").write_text(DOMAIN)
    made = run(
        *("synthesize", "--method", "residual_planner", "--data", folder / "t.csv", "--domain", folder / "d.yaml"),
        *("--epsilon", 2, "--seed", 0, "--out", folder / "s.csv", "--model", folder / "m.npz"),
    )
    assert made.exit_code == 0, made.output
    return folder / "m.npz"


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def asked(release, *question):
    result, content = run("infer", release, *question), run("infer", release, *question, "--json")
    assert result.exit_code == content.exit_code == 0, result.output
    return result.output.splitlines(), json.loads(content.output)


def test_the_mean_of_a_date_is_a_date_in_text_json_and_figure(release, tmp_path):
    lines, content = asked(release, "--mean", "admitted")
    (one,) = content["intervals"]
    assert "2020-12" < one["low"] <= one["estimate"] <= one["high"] < "2021-02"
    assert (
        f"mean of admitted, over rows with a value of admitted: {one['estimate']} [{one['low']}, {one['high']}] exact"
        in lines
    )
    assert "2020" in asked(release, "--quantile", "admitted,0.5")[1]["intervals"][0]["estimate"]
    assert run("infer", release, "--mean", "admitted", "--figure", tmp_path / "f.svg").exit_code == 0
    assert (tmp_path / "f.svg").stat().st_size > 1000


def test_the_mean_of_a_time_of_day_is_a_time_in_text_json_frame_and_figure(release, tmp_path):
    lines, content = asked(release, "--mean", "at")
    (one,) = content["intervals"]
    assert "11:00" < one["low"] <= one["estimate"] <= one["high"] < "15:00"
    assert f"mean of at: {one['estimate']} [{one['low']}, {one['high']}] exact" in lines
    assert asked(release, "--quantile", "at,0.5")[1]["intervals"][0]["estimate"] in ("08:59", "09:00", "14:59", "15:00")
    frame = mean(release, "at").to_frame()
    assert 11 < frame["estimate"].iloc[0].total_seconds() / 3600 < 15
    assert "at: counted in minutes since midnight" in asked(release, "days ~ at")[0]
    assert run("infer", release, "--mean", "at", "--figure", tmp_path / "f.svg").exit_code == 0


def test_an_answer_of_open_bins_says_that_values_were_clipped(release):
    lines, content = asked(release, "--mean", "days")
    assert lines[0].startswith("mean of days, values clipped at 40: ")
    assert content["intervals"][0]["clipped"] == mean(release, "days").to_frame()["clipped"].iloc[0] == "at 40"
    assert lines[1] == content["notes"][0]
    assert lines[1].startswith("days: values clipped at 40; a row counts as the middle of its bin, ")
    assert asked(release, "--quantile", "days,0.5")[1]["intervals"][0]["clipped"] == ""
    (last,) = asked(release, "--quantile", "days,0.9999")[1]["intervals"]
    assert (last["high"], last["clipped"]) == (25.0, "at 40")
    assert asked(release, "--mean", "admitted")[1]["intervals"][0]["clipped"] == ""


def test_money_and_durations_have_decimals_and_gaps_are_stated(release):
    (cost, gaps, *_), content = asked(release, "--mean", "cost")
    assert cost.startswith("mean of cost, over rows with a value of cost: ")
    assert len(cost.split(": ")[1].split()[0].partition(".")[2]) >= 2
    assert gaps.startswith("share of rows without a value of cost: 0.2")
    assert content["intervals"][0]["without_value"]["low"] < 0.21
    (days, *_), _ = asked(release, "--mean", "days")
    assert "." in days.split(": ")[1].split()[0]


def test_counts_are_whole_and_bins_are_named_by_their_edges(release):
    lines, content = asked(release, "--marginal", "admitted,days")
    names = [one["name"] for one in content["intervals"]]
    assert names[0] == "admitted=2020-01-01 to 2020-07-01, days=0 to 1"
    assert "days=10 and above" in names[4]
    assert all(isinstance(one[end], int) and one[end] >= 0 for one in content["intervals"] for end in ("low", "high"))
    assert lines[0].startswith(f"{names[0]}: {content['intervals'][0]['estimate']} [")
    difference = "admitted=2020-01-01 to 2020-07-01 - admitted=2020-07-01 to 2021-01-01"
    (line, *_), _ = asked(release, "--difference", difference)
    assert line.startswith("admitted=2020-01-01 to 2020-07-01 less admitted=2020-07-01 to 2021-01-01: ")


def test_terms_of_bins_are_named_by_their_edges_and_dates_count_in_days(release):
    lines, content = asked(release, "days ~ C(admitted)")
    assert content["coefficients"][1]["name"] == "C(admitted)[T.2020-07-01 to 2021-01-01]"
    assert any(line.startswith("C(admitted)[T.2020-07-01 to 2021-01-01] ") for line in lines)
    assert "admitted: counted in days since 1970-01-01" in asked(release, "days ~ admitted")[0]


def test_a_regression_states_the_share_of_rows_without_a_value(release):
    lines, content = asked(release, "days ~ cost")
    assert any(line.startswith("share of rows without a value of cost: 0.2") for line in lines)
    assert 0.18 < content["without_value"]["low"] < content["without_value"]["high"] < 0.22
    assert asked(release, "days ~ ill")[1]["without_value"] is None
