"""What a draft makes of raw columns, and that every draft is a domain that its own table fits."""

import datetime
import re

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from marginalia.data.checking import check
from marginalia.data.domain import Domain
from marginalia.data.drafting import as_yaml, draft, questions
from marginalia.data.reading import read_raw
from marginalia.data.table import Table
from marginalia.errors import InputError

RNG = np.random.default_rng(0)
N = 200


def drafted(values, name="x"):
    (column,) = draft(pd.DataFrame({name: pd.Series(values)}))
    return column


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        (["a", "b"] * 20, {"type": "string", "labels": ("a", "b"), "missing": None}),
        (["a", "?", "", None] * 20, {"type": "string", "labels": ("a",), "missing": ("?",)}),
        (["none", "NA", "b"] * 20, {"type": "string", "labels": ("b", "none"), "missing": ("NA",)}),
        (["yes", "no"] * 20, {"type": "string", "labels": ("no", "yes")}),
        (["true", "false", ""] * 20, {"type": "boolean", "labels": ("false", "true"), "missing": ()}),
        ([True, False] * 20, {"type": "boolean", "labels": None}),
        ([0, 1] * 20, {"type": "integer", "labels": ("0", "1"), "kind": "ordinal"}),
        (["1", "3", "-"] * 20, {"type": "integer", "labels": ("1", "2", "3"), "missing": ("-",)}),
        (["0.5", "1.5"] * 20, {"type": "number", "labels": ("0.5", "1.5")}),
        ([7] * 3, {"type": "integer", "labels": ("7",)}),
        (["007", "012"] * 9, {"type": "string", "labels": ("007", "012")}),
        ([*range(18, 81)] * 2, {"type": "integer", "edges": tuple(map(float, range(15, 90, 5))), "top": True}),
        (np.linspace(0, 0.99, 60).round(3), {"type": "number", "kind": "numeric"}),
        (["Jan 31, 2024", "Feb 28, 2023"] * 9, {"type": "date", "format": "%b %d, %Y"}),
        (["31.01.2024 5:30 PM", "1.2.2024 11:00 AM"] * 9, {"type": "timestamp", "format": "%d.%m.%Y %I:%M %p"}),
        (["2024-1-5", "2024-01-31"] * 9, {"type": "date", "format": "%Y-%m-%d"}),
        ([datetime.date(2000 + k, 5, 1) for k in range(24)], {"type": "date"}),
        (["a"] * 30 + [f"b{k}" for k in range(60)] + ["a", "c"] * 40, {"type": "string", "other": "other", "size": 51}),
    ],
)
def test_columns_are_what_they_look_like(values, facts):
    attribute = drafted(values).attribute
    assert {key: getattr(attribute, key) for key in facts} == facts
    assert "type" in attribute.inferred
    assert ("missing" in attribute.inferred) == (attribute.missing is not None)


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("x", [f"p{k}" for k in range(40)], "an identifier, or free text"),
        ("x", range(5, 45), "an identifier"),
        ("patient_id", RNG.permutation(10**6)[:40], "an identifier"),
        ("x", [None] * 30, "no values"),
        ("zip", [f"0{k}" for k in range(1000, 1040)], "an identifier"),
        ("x", ["05/02/2024", "03/02/2024", "06/07/2024"] * 9, "read in two ways"),
        ("x", ["?"] * 30, "no values"),
        ("x", [f"t{k // 2}" for k in range(400)], "free text"),
        ("x", [float(2**60 + 2**20 * k) for k in range(40)], "2\\^53"),
    ],
)
def test_columns_that_are_left_out_have_a_reason(name, values, reason):
    column = drafted(values, name)
    assert column.attribute is None
    assert re.search(reason, column.note)


@pytest.mark.parametrize(
    "values",
    [
        [f"{k} cm" for k in range(150, 190)],
        [f"${k},500" for k in range(40)],
        [f"{k} 000" for k in range(1, 41)],
        [f"{k}.5%" for k in range(40)],
        [f"{k}.5" if k % 3 else f"({k}.5)" for k in range(1, 41)],
        [f"{k:,}.50 €".replace(",", " ") for k in range(900, 1200)],
    ],
)
def test_numbers_that_a_person_reads_are_left_out_with_that_reason(values):
    """They would become fifty labels, or count as free text."""
    column = drafted(values * 5)
    assert column.attribute is None
    assert "more than their digits" in column.note


@pytest.mark.parametrize(
    "values",
    [
        [f"10.0.0.{k}" for k in range(40)],
        [f"{k:04d}" for k in range(40)],
        [f"A{k}" for k in range(40)],
        ["5 mg", "10 mg"] * 20,
        [f"{k}{'abcdefg'[k % 7]}" for k in range(40)],
    ],
)
def test_codes_with_digits_stay_texts(values):
    assert drafted(values * 5).attribute.type == "string"


def test_years_of_two_digits_are_named():
    assert "two digits" in drafted([f"{k % 28 + 1:02d}.0{k % 9 + 1}.23" for k in range(120)]).note


@pytest.mark.parametrize(
    ("values", "far"),
    [
        ([*range(18, 81), -999], "-999"),
        ([5.0, 10.0, 20.0, 9999.0] * 20, "9999"),
        ([*range(18, 81), -1], None),
        ([*range(100)], None),
        ([0, 1, -1] * 20, None),
    ],
)
def test_a_number_that_may_mark_missing_values_is_named(values, far):
    """With -999 among the ages all of them would fall into one bin."""
    note = drafted(values * 2).note
    assert note.startswith(f"{far} lies far") if far else note == ""


def test_salaries_that_all_differ_are_no_identifier():
    assert drafted(RNG.permutation(10**6)[:40], "salary").attribute.edges is not None


def test_a_draft_of_small_numbers_can_be_read(tmp_path):
    """YAML takes 1e-08 for a text."""
    columns = draft(pd.DataFrame({"x": np.arange(60) * 3e-9}))
    (tmp_path / "d.yaml").write_text(as_yaml(columns, "t.csv", 60))
    assert "e-0" in (tmp_path / "d.yaml").read_text()
    assert Domain.from_yaml(tmp_path / "d.yaml")["x"] == columns[0].attribute


def test_a_few_odd_cells_do_not_make_a_number_a_text():
    column = drafted([str(k / 7) for k in range(60)] + ["12 kg"])
    assert column.attribute.type == "number"
    assert "1 cells are no number (first: '12 kg' in row 60)" in column.note


@pytest.mark.parametrize("values", [["1,5", "2,25"] * 20, ["900"] * 20 + ["1,234"] * 3])
def test_numbers_with_commas_are_refused_with_their_row(values):
    with pytest.raises(InputError, match=r"column 'x', row (0|20): '1,(5|234)' has a comma"):
        drafted(values)


@pytest.mark.parametrize(
    "dates", [("0125-01-01", "2000-01-01"), ("0001-01-01", "9999-12-31"), ("9999-12-31",), ("9999-12-01", "9999-12-31")]
)
def test_dates_at_the_ends_of_the_calendar_have_codes(dates):
    attribute = drafted([*dates] * 20).attribute
    assert Table.from_frame(pd.DataFrame({"x": dates}), Domain([attribute])).n_rows == len(dates)


CELLS = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.dates().map(str),
    st.sampled_from(
        ["", "?", "NA", "yes", "no", "true", "false", "null", "a", "b", "#", "- x", "a: b", "'q'", '"', "~"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r,"), max_size=5),
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=3, max_size=3), st.integers(1, 30))
def test_every_draft_is_a_domain_that_its_table_fits(tmp_path_factory, kinds, n):
    """Columns mix up to four values of any kind; a note says where cells do not fit the type of the others."""
    folder = tmp_path_factory.mktemp("draft")
    frame = pd.DataFrame({f"c {j}": [cells[k % len(cells)] for k in range(n)] for j, cells in enumerate(kinds)})
    frame.to_csv(folder / "t.csv", index=False)
    raw = read_raw(folder / "t.csv")
    columns = draft(raw)
    if all(c.attribute is None for c in columns):
        return
    (folder / "d.yaml").write_text(as_yaml(columns, "t.csv", n), encoding="utf-8")
    domain = Domain.from_yaml(folder / "d.yaml")
    assert {a.name: a for a in domain} == {c.name: c.attribute for c in columns if c.attribute is not None}
    assert domain.source == "inferred"
    noted = [c.name for c in columns if c.note]
    assert [p for p in check(folder / "t.csv", domain) if not any(f"'{name}'" in p for name in noted)] == []


def test_the_draft_says_what_each_inferred_fact_means_and_how_it_is_bought():
    frame = pd.DataFrame({"age": [*range(20, 90)] * 2, "ward": ["no", "b"] * 70})
    text = as_yaml(draft(frame), "t.csv", 140)
    assert 'labels: [b, "no"]' in text
    for line in ("#   confirm", "#   edit", "#   buy", "# edges: {private: adaptive, bins: 16}", "# labels: private"):
        assert line in text
    assert yaml.safe_load(text)["source"] == "declared"


@pytest.mark.parametrize(
    ("dates", "found"),
    [
        (["13/04/2024", "03/04/2024"], "%d/%m/%Y"),
        (["04-13-2024", "03-04-2024"], "%m-%d-%Y"),
        (["31.12.2024", "03.04.2024"], "%d.%m.%Y"),
        (["2024-12-31", "2024-04-03"], None),
        (["2024/12/31", "2024/04/03"], "%Y/%m/%d"),
    ],
)
def test_a_format_is_proposed_where_all_dates_fit_one(dates, found):
    [seen] = draft(pd.DataFrame({"seen": dates * 20}))
    assert (seen.attribute.type, seen.attribute.format) == ("date", found)
    text = as_yaml([seen], "t.csv", 40)
    domain = Domain.from_dict(yaml.safe_load(text))
    assert domain["seen"] == seen.attribute
    table = Table.from_frame(pd.DataFrame({"seen": dates}), domain)
    assert table.codes[0, 0] > table.codes[1, 0]


@pytest.mark.parametrize(
    ("dates", "said"),
    [
        (["03/04/2024", "05/06/2024"], 'with type: date and format: "%d/%m/%Y" or "%m/%d/%Y"'),
        (["03/04/2024", "13/06/2024", "06/13/2024"], "written in several ways"),
        (["31.01.2024", "2/28/2024", "2024-03-01"], "written in several ways"),
    ],
)
def test_dates_that_can_be_read_in_two_ways_are_left_to_the_user(dates, said):
    [seen] = draft(pd.DataFrame({"seen": dates * 20}))
    assert seen.attribute is None
    assert said in seen.note


def test_numbers_that_doubles_do_not_tell_apart_are_left_out():
    [drafted] = draft(pd.DataFrame({"account": [2**53 + 1] * 30 + [2**53 + 2] * 30}))
    assert (drafted.attribute, drafted.note[:27]) == (None, "whole numbers of 2^53 and m")


MANY_ROWS = 4000


def money(name):
    rng = np.random.default_rng(5)
    positive = np.exp(rng.normal(3, 2, MANY_ROWS))
    shipping = np.where(rng.random(MANY_ROWS) < 0.3, rng.choice([0, 9.99], MANY_ROWS), rng.gamma(2, 4, MANY_ROWS))
    return {
        "lognormal": np.round(positive, 2),
        "pareto": np.round(rng.pareto(1.1, MANY_ROWS), 2),
        "unrounded": positive,
        "whole": np.ceil(positive).astype(int),
        "outlier": np.append(rng.integers(100, 200, MANY_ROWS - 1), 10**9),
        "both signs": np.round(positive * rng.choice([-1, 1], MANY_ROWS), 2),
        "losses": -np.round(positive, 2),
        "points": np.round(shipping, 2),
        "nearly all zero": np.where(rng.random(MANY_ROWS) < 0.9, 0, np.round(positive, 2)),
        "tiny": positive * 1e-30,
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        "lognormal",
        "pareto",
        "unrounded",
        "whole",
        "outlier",
        "both signs",
        "losses",
        "points",
        "nearly all zero",
        "tiny",
    ],
)
def test_no_bin_of_a_skewed_column_swallows_the_rows(name):
    """Equal widths over [0, max] put 97 % of the rows in the first bin, in silence."""
    raw = money(name)
    column = drafted(raw)
    edges = np.array(column.attribute.edges)
    assert 6 <= edges.size <= 2 * 16 + 4
    codes = Table.from_frame(pd.DataFrame({"x": raw}), Domain([column.attribute])).codes[:, 0]
    point = np.isin(raw, [v for v, n in zip(*np.unique(raw, return_counts=True), strict=True) if n > MANY_ROWS / 20])
    masses = np.bincount(codes[~point]) / (~point).sum()
    assert masses.max() < 0.5
    assert column.note.startswith("skewed: ") or name == "points"


@pytest.mark.parametrize(("name", "points"), [("points", [0, 9.99]), ("nearly all zero", [0])])
def test_a_value_with_many_rows_has_a_bin_of_its_own(name, points):
    raw = money(name)
    column = drafted(raw)
    codes = Table.from_frame(pd.DataFrame({"x": raw}), Domain([column.attribute])).codes[:, 0]
    for point in points:
        assert f"{point} (" in column.note
        (code,) = set(codes[raw == point])
        assert set(raw[codes == code]) == {point}


def test_plain_columns_keep_equal_widths():
    for values in (RNG.normal(70, 12, 2000).round(1), RNG.integers(0, 99, 2000), RNG.random(2000)):
        column = drafted(values)
        assert np.allclose(np.diff(column.attribute.edges), np.diff(column.attribute.edges)[0])
        assert column.note == ""


@pytest.mark.parametrize("numbers", [[0.0, 1.0, -1.0, 9.999999999999346e270, 0.0625], [0.0, 0.5, 1e300, 1e307, 3.0]])
def test_numbers_beyond_the_steps_of_their_decimals_are_left_out(numbers):
    """So many steps are infinite in floating point: drafting ended in an `OverflowError`."""
    assert "below 2^53 steps" in drafted(numbers).note


def test_series_of_edges_end_where_floating_point_numbers_do():
    edges = drafted([0.25, 3.0, 1e-5, 1.0, 1e-324, -1.5e308, 1.7e308]).attribute.edges
    assert np.isfinite(edges).all()
    assert (np.diff(edges) > 0).all()


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(-(10**6), 10**6).map(float),
            st.floats(allow_nan=False, allow_infinity=False),
            st.decimals(-(10**4), 10**4, places=2).map(float),
        ),
        min_size=1,
        max_size=30,
    ),
    st.integers(0, 400),
)
def test_any_numbers_have_codes_by_their_draft(numbers, zeros):
    column = drafted([*numbers, *[0.0] * zeros])
    if column.attribute is not None:
        Table.from_frame(pd.DataFrame({"x": [*numbers, 0.0][: len(numbers) + (zeros > 0)]}), Domain([column.attribute]))


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("order_id", [*range(1000, 1990), *range(1000, 1010)], "990 different whole numbers in 1000 rows: an identif"),
        ("customer_id", [k % 300 for k in range(1000)], "300 different whole numbers in 1000 rows: a key, by its name"),
        ("stay", [f"S{k // 100 * 100 + max(1, k % 100)}" for k in range(1000)], "990 different texts"),
        ("x", [*range(995), *range(5)], "an identifier"),
    ],
)
def test_identifiers_with_a_few_duplicates_are_seen(name, values, reason):
    column = drafted(values, name)
    assert column.attribute is None
    assert reason in column.note


def test_codes_that_stand_often_are_kept():
    """Of 2,000 diagnoses the 50 most frequent are 41 % of the rows: they were left out as free text."""
    column = drafted([f"A{k % 400:03d}" for k in range(4000)])
    assert (column.attribute.size, column.attribute.other) == (51, "other")


def test_decimals_that_numbers_have_are_kept():
    assert drafted(np.arange(100) / 100).attribute.decimals == 2
    assert drafted(np.append(np.arange(90) / 7, np.arange(10))).attribute.decimals is None


@pytest.mark.parametrize(
    ("label", "written"),
    [
        ('24" monitor', "'24\" monitor'"),
        ("café", '"café"'),
        ("日本", '"日本"'),
        ("it's 5\" \\ 'x'", "'it''s 5\" \\ ''x'''"),
        ("a: b # c", '"a: b # c"'),
        ("👍", '"👍"'),
        ("\ta", '"\\U00000009a"'),
        ("no", '"no"'),
    ],
)
def test_labels_are_written_as_they_are(label, written):
    text = as_yaml([drafted([label.strip() + "x", f"x{label}"] * 20)], "t.csv", 40)
    assert yaml.safe_load(text)["attributes"][0]["labels"] == sorted([label.strip() + "x", f"x{label}"])
    text = as_yaml([drafted([f"x{label}", "a"] * 20)], "t.csv", 40)
    assert written[:1] + ("x" if written[0] in "\"'" else "") + written[1:] in text or label == "no"


def test_marks_that_are_given_are_public_in_all_columns(tmp_path):
    frame = pd.DataFrame({"a": ["1", "2", "don't know"] * 20, "b": ["x", "y", "z"] * 20, "c": ["?", "1.5", "9"] * 20})
    columns = draft(frame, missing=["don't know", "-"])
    assert [c.attribute.missing for c in columns] == [
        ("don't know", "-"),
        ("don't know", "-"),
        ("don't know", "-", "?"),
    ]
    assert [("missing" in c.attribute.inferred) for c in columns] == [False, False, True]
    assert [c.note for c in columns] == ["", "", ""]
    text = as_yaml(columns, "t.csv", 60, missing=["don't know", "-"])
    assert 'defaults: {missing: ["don\'t know", "-"]}' in text
    assert text.count("missing: [") == 2
    (tmp_path / "d.yaml").write_text(text)
    assert list(Domain.from_yaml(tmp_path / "d.yaml")) == [c.attribute for c in columns]


@pytest.mark.slow
def test_what_is_asked_of_many_columns_is_asked_once():
    answers = ["1", "2", "3", "4", "5"] * 40
    frame = pd.DataFrame({f"q{k}": [*answers[k:], *answers[:k], f"don't know{'' if k else '!'}"] for k in range(100)})
    said = list(questions(draft(frame)))
    assert len(said) == 3
    assert "look at: q1, q2, q3 and 96 more (cells that are no integer, such as" in said[1]
    assert said[2] == "public? the labels 1, 2, 3, 4, 5 of q0, q1, q2 and 97 more: then say `reviewed: true` there"
    text = as_yaml(draft(frame), "t.csv", 201)
    assert text.count("correct the file") == 2
    assert text.count("# see q1\n") == 98
