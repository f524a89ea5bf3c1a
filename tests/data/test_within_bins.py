"""Decimals, points and steps of declared edges, and how values lie inside bins."""

import json
import math
from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginalia.data import values
from marginalia.data.coding import as_text, codes_of, original_values
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError

ALARM = 1e-6


def column(**facts):
    [column] = Domain.from_dict({"attributes": [{"name": "x", **facts}]}).columns
    return column


def price(**facts):
    return column(type="number", decimals=2, edges=[0, 1, 5, 100], missing=["-1"], **facts)


# -- decimals -------------------------------------------------------------------------------------------------------


@given(st.floats(-1e12, 1e12), st.integers(0, 6))
def test_a_number_is_rounded_by_its_shortest_decimal(number, decimals):
    """Against decimal arithmetic, and for ties too."""
    step = Decimal(1).scaleb(-decimals)
    for x in (number, round(number, decimals) + 0.5 * 10.0**-decimals):
        expected = float(Decimal(repr(x)).quantize(step, ROUND_HALF_EVEN))
        assert values.rounded(x, decimals) == expected
        if abs(Decimal(repr(x))) / step < 2**50:  # beyond, doubles are no longer apart enough for the product
            assert values.steps_from(x, decimals) == math.ceil(Decimal(repr(x)) / step)


@given(st.integers(-(10**9), 10**9), st.integers(0, 6))
def test_decimals_are_those_of_the_text(steps, decimals):
    number = Decimal(steps).scaleb(-decimals).normalize()
    assert values.decimals_of([float(number)]).tolist() == [max(0, -number.as_tuple().exponent)]


def test_a_number_has_one_code_however_it_is_written():
    for written, code in (("4.90", 1), ("0.995", 1), ("0.985", 0), ("4.995", 2), ("4.985", 1), ("0.004", 0)):
        cells = pd.Series([written, float(written), Decimal(written), f"{written}00"], dtype=object)
        codes, faults = codes_of(cells, price())
        assert not faults
        assert codes.tolist() == [code] * 4
        assert codes_of(pd.Series([written]).astype("float32"), price())[0].tolist() == [code]
    assert codes_of(pd.Series([4.9, -1.0]), price())[0].tolist() == [1, 3]


def test_drawn_numbers_have_the_decimals_and_so_does_their_text():
    exact = price(within=[[], [[4.9, 0.2], [4.91, 0.8]], []])
    for column in (price(), price(within="log"), exact):
        codes = np.repeat([0, 1, 2, 3], 500)
        drawn = original_values(codes, column, np.random.default_rng(0))
        assert (values.rounded(drawn, 2) == drawn).all()
        assert codes_of(drawn, column)[0].tolist() == codes.tolist()
        text = as_text(drawn, column)
        assert text[:1500].str.fullmatch(r"\d+\.\d\d").all()
        assert codes_of(text, column)[0].tolist() == codes.tolist()


def test_a_table_of_decimals_keeps_its_codes_through_files(tmp_path):
    table = Table(np.array([[0], [1], [2], [3]]), Domain([price()]))
    table.to_csv(tmp_path / "t.csv", original=True, random_state=0)
    again = Table.from_csv(tmp_path / "t.csv", domain=table.domain)
    assert again.codes.tolist() == table.codes.tolist()


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"type": "integer", "decimals": 1, "edges": [0, 1]}, "'decimals' is for type number"),
        ({"type": "number", "decimals": 7, "edges": [0, 1]}, "whole number from 0 to 6"),
        ({"type": "number", "decimals": "2", "edges": [0, 1]}, "decimals are a whole number"),
        ({"type": "number", "decimals": 1, "edges": [0, 0.11, 0.12, 1]}, "from 0.11 to 0.12 holds no number"),
        ({"type": "number", "decimals": 1, "labels": ["0.25"]}, "more than 1 decimals"),
        ({"type": "number", "edges": [0, 1], "points": [0.5]}, "needs `decimals`"),
        ({"type": "number", "decimals": 1, "edges": [0, 1], "points": [0.55]}, "more than 1 decimals"),
        ({"type": "integer", "edges": [0, 9], "points": [9], "top": True}, "no bin of its own beside `top: true`"),
        ({"type": "integer", "labels": ["1"], "points": [1]}, "'points' go with edges"),
        ({"type": "string", "labels": ["a"], "points": [1]}, "'points' are for"),
        ({"type": "integer", "edges": {"from": 0, "to": 9, "steps": "1-5-2"}}, "digits that ascend"),
        ({"type": "integer", "edges": {"from": 0, "steps": "1-2-5"}}, "steps of numbers need both ends"),
        ({"type": "number", "edges": [0, 1, 2], "within": [[]]}, "for each of the 2 bins"),
        ({"type": "number", "edges": [0, 1], "within": [[[2, 0.5]]]}, "do not ascend inside it"),
        ({"type": "number", "edges": [0, 1], "within": "flat"}, "within: is log"),
        ({"type": "string", "labels": ["a"], "within": "log"}, "'within' goes with edges"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(facts, said):
    with pytest.raises(InputError, match=said.replace("(", r"\(")) as error:
        column(**facts)
    assert "\n" not in str(error.value)


# -- points and steps -----------------------------------------------------------------------------------------------


def test_a_point_is_a_bin_of_one_value():
    cents = column(type="number", decimals=2, edges=[0, 5, 50], points=[0, 9.99])
    assert cents.edges == (0, 0.01, 5, 9.99, 10, 50)
    assert codes_of(pd.Series(["0", "0.004", "9.99", "9.985", "10"]), cents)[0].tolist() == [0, 0, 3, 2, 4]
    assert set(original_values(np.array([0, 3] * 50), cents, np.random.default_rng(0))) == {0.0, 9.99}
    rain = column(type="number", edges=[-1, 1, 9], points=[0])
    assert codes_of(pd.Series([0.0, -0.0, 1e-300, -1e-300]), rain)[0].tolist() == [1, 1, 2, 0]
    assert set(original_values(np.ones(50, dtype=int), rain, np.random.default_rng(0))) == {0.0}
    assert column(type="integer", edges=[0, 9], points=[0, 4]).edges == (0, 1, 4, 5, 9)
    assert column(type="date", edges=["1970-01-01", "1971-01-01"], points=["1970-01-03"]).edges == (0, 2, 3, 365)


def test_steps_are_the_same_in_each_power_of_ten():
    assert column(type="integer", edges={"from": 0, "to": 100, "steps": "1-2-5"}).edges == (
        *(0, 1, 2, 5, 10, 20, 50, 100),
    )
    assert column(type="number", decimals=1, edges={"from": -2, "to": 1, "steps": "1-3"}).edges == (
        *(-2, -1, -0.3, -0.1, 0, 0.1, 0.3, 1),
    )
    assert column(type="number", edges={"from": 3, "to": "1e3", "steps": 1}).edges == (3, 10, 100, 1000)
    wide = column(type="number", edges={"from": 0, "to": 1e6, "steps": "1-2-5"})
    assert wide.edges[:4] == (0, 1, 2, 5)
    assert wide.n_values == 19


# -- how values lie inside a bin ------------------------------------------------------------------------------------


def test_values_are_drawn_as_within_says():
    """Kolmogorov-Smirnov tests against the law that is declared. False alarm 1e-6."""
    from scipy.stats import kstest

    n, rng = 20_000, np.random.default_rng(0)
    places = [[2.0, 0.5], [3.0, 0.9]]
    parts = column(type="number", edges=[0, 10], within=[places])
    drawn = original_values(np.zeros(n, dtype=int), parts, rng)
    assert kstest(drawn, lambda x: np.interp(x, [0, 2, 3, 10], [0, 0.5, 0.9, 1])).pvalue > ALARM
    log = column(type="number", edges=[-100, -1, 1, 1000], within="log")
    for code, law in (
        (0, lambda x: 1 - np.log(-x) / math.log(100)),
        (1, lambda x: (x + 1) / 2),
        (2, lambda x: np.log(x) / math.log(1000)),
    ):
        drawn = original_values(np.full(n, code), log, rng) + rng.uniform(-1, 1, n) * (0, 0, 0.5)[code]
        assert kstest(np.clip(drawn, (-100, -1, 1)[code], (-1, 1, 1000)[code]), law).statistic < 0.05
    whole = column(type="integer", edges=[0, 10], within=[[[4.0, 0.1], [5.0, 0.9]]])
    shares = np.bincount(original_values(np.zeros(n, dtype=int), whole, rng), minlength=10) / n
    assert shares == pytest.approx([0.025] * 4 + [0.8] + [0.02] * 5, abs=0.02)


def test_marks_of_missing_values_are_not_drawn():
    marked = column(type="integer", edges=[0, 3], missing=["1"], within=[[[1.0, 0.1], [2.0, 0.9]]])
    assert set(original_values(np.zeros(500, dtype=int), marked, np.random.default_rng(0))) == {0, 2}


def test_what_lies_within_bins_is_written_and_read(tmp_path):
    domain = Domain([price(within=[[], [[4.9, 0.2], [4.91, 0.8]], []])])
    domain.to_json(tmp_path / "domain.json")
    assert Domain.from_json(tmp_path / "domain.json") == domain
    assert json.loads((tmp_path / "domain.json").read_text())["attributes"][0]["decimals"] == 2
    old = {k: v for k, v in domain.to_dict()["attributes"][0].items() if k not in ("within", "decimals")}
    assert Domain.from_dict({"attributes": [old]})["x"].within is None
    wanted = {"attributes": [{"name": "x", "type": "number", "decimals": 0, "points": [0, 3],
                              "edges": {"private": "adaptive", "bins": 4}}]}  # fmt: skip
    schema = Domain.from_dict(wanted)
    assert Domain.from_dict(schema.to_dict()) == schema
    assert schema.to_dict()["attributes"][0]["decimals"] == 0


def test_even_bins_are_drawn_as_before():
    """The numbers of a seed stay: these are of version 1.0."""
    plain = Column("x", 2, edges=(0.0, 1.0, 5.0), type="number")
    drawn = original_values(np.array([0, 1, 1]), plain, np.random.default_rng(0))
    assert drawn.tolist() == [0.64, 2.08, 1.16]
