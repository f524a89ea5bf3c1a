"""What a draft makes of raw columns, and that every draft is a domain file that its own table fits."""

import datetime
import re

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from marginalia.data import drafting
from marginalia.data.checking import check
from marginalia.data.coding import codes_of, numbers_of
from marginalia.data.domain import Domain
from marginalia.data.drafting import as_yaml, draft, questions
from marginalia.data.number_formats import NumberFormat
from marginalia.data.reading import read_raw
from marginalia.data.table import RawTable, Table
from marginalia.errors import InputError
from marginalia.synthesis import Independent

RNG = np.random.default_rng(0)
BINS = {"private": "adaptive", "bins": 16}


def drafted(values, name="x"):
    (column,) = draft(pd.DataFrame({name: pd.Series(values)})).columns
    return column


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        (["a", "b"] * 20, {"type": "string", "labels": "private"}),
        (["a", "?", "", None] * 20, {"type": "string", "labels": "private", "missing": ["?"]}),
        (["none", "NA", "b"] * 20, {"type": "string", "labels": "private", "missing": ["NA"]}),
        (["a", "", None] * 20, {"type": "string", "labels": "private"}),  # private columns have a code for gaps anyway
        ([1, 2, None] * 20, {"type": "integer", "edges": BINS}),
        (["yes", "no"] * 20, {"type": "boolean", "labels": ["no", "yes"]}),
        (["Yes", "No", "yes"] * 20, {"type": "boolean", "labels": ["No", "Yes"]}),
        (["true", "false", ""] * 20, {"type": "boolean", "labels": ["false", "true"], "missing": []}),
        (["N", "Y", "?"] * 20, {"type": "boolean", "labels": ["N", "Y"], "missing": ["?"]}),
        ([True, False] * 20, {"type": "boolean"}),
        ([True, None] * 20, {"type": "boolean", "missing": []}),
        ([0, 1] * 20, {"type": "boolean", "labels": ["0", "1"]}),
        ([0.0, 1.0, None] * 20, {"type": "boolean", "labels": ["0", "1"], "missing": []}),
        (["no"] * 20, {"type": "boolean", "labels": ["no", "yes"]}),
        ([0] * 20, {"type": "integer", "edges": BINS}),
        (["f"] * 20, {"type": "string", "labels": "private"}),
        (["f", "m"] * 20, {"type": "string", "labels": "private"}),
        (["yes", "no", "maybe"] * 20, {"type": "string", "labels": "private"}),
        (["1", "3", "-"] * 20, {"type": "integer", "edges": BINS, "missing": ["-"]}),
        (["0.5", "1.5"] * 20, {"type": "number", "decimals": 1, "edges": BINS}),
        ((np.arange(60) / 7).tolist(), {"type": "number", "edges": BINS}),
        ([7] * 3, {"type": "integer", "edges": BINS}),
        (["007", "012"] * 9, {"type": "string", "labels": "private"}),
        ([datetime.date(2000 + k, 5, 1) for k in range(24)], {"type": "date", "edges": BINS}),
        (["2024-01-31 10:00", "2024-01-31"] * 9, {"type": "timestamp", "unit": "hour", "edges": BINS}),
        (["2024-01-31T10:00:05Z"] * 9, {"type": "timestamp", "unit": "second", "zone": "UTC", "edges": BINS}),
        (["a"] * 30 + [f"b{k}" for k in range(60)] + ["a", "c"] * 40, {"type": "string", "labels": "private"}),
        ([f"A{k % 400:03d}" for k in range(4000)], {"type": "string", "labels": "private"}),  # codes that occur often
    ],
)
def test_columns_are_what_they_look_like(values, keys):
    inferred = ["type", "missing"] if "missing" in keys else ["type"]
    assert drafted(values).keys == {**keys, "inferred": inferred}


@pytest.mark.parametrize(
    ("dates", "found"),
    [
        (["13/04/2024", "03/04/2024"], "%d/%m/%Y"),
        (["04-13-2024", "03-04-2024"], "%m-%d-%Y"),
        (["31.12.2024", "03.04.2024"], "%d.%m.%Y"),
        (["2024-12-31", "2024-04-03"], None),
        (["2024-12-31", "20240403"], None),
        (["2024-1-5", "2024-01-31"], "%Y-%m-%d"),
        (["2024/12/31", "2024/04/03"], "%Y/%m/%d"),
        (["Jan 31, 2024", "May 3, 2024"], "%b %d, %Y"),
        (["31 January 2024", "3 June 2024"], "%d %B %Y"),
        (["31.01.2024 5:30 PM", "1.2.2024 11:00 AM"], "%d.%m.%Y %I:%M %p"),
        (["31.01.2024 17:30:00", "1.2.2024 11:00:01"], "%d.%m.%Y %H:%M:%S"),
    ],
)
def test_a_format_is_proposed_where_all_dates_fit_one(dates, found):
    keys = drafted(dates * 20).keys
    assert keys["type"] == ("timestamp" if ":" in dates[0] else "date")
    assert keys.get("format") == found
    domain = Domain.from_dict({"attributes": [{"name": "x", **keys, "reviewed": True}]})
    rows = RawTable.of(pd.DataFrame({"x": dates * 500}), domain)
    model = Independent(epsilon=8.0, delta=1e-5, random_state=0).fit(rows.frame, domain=domain)
    assert model.sample(4)["x"].dt.year.eq(2024).all()


@pytest.mark.parametrize(
    ("dates", "reason"),
    [
        (["03/04/2024", "05/06/2024"], 'with? ?.*type: date and format: "%d/%m/%Y" or "%m/%d/%Y"'),
        (["03/04/2024", "13/06/2024", "06/13/2024"], "written in several ways"),
        (["31.01.2024", "2/28/2024", "2024-03-01"], "written in several ways"),
        ([*["01/02/2024"] * 18, "13/02/2024", "02/13/2024"], "written in several ways"),
        (["May 3, 2024", "May 31, 2024"], '"%b %d, %Y" or "%B %d, %Y"'),
        ([f"{k % 28 + 1:02d}.0{k % 9 + 1}.23" for k in range(120)], "two digits"),
    ],
)
def test_dates_that_have_no_one_format_are_left_to_the_user(dates, reason):
    column = drafted(dates * 20)
    assert column.keys is None
    assert re.search(reason, column.note)


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("x", [f"p{k}" for k in range(40)], "an identifier, or free text"),
        ("x", range(5, 45), "an identifier"),
        ("patient_id", RNG.permutation(10**6)[:40], "an identifier"),
        ("x", [None] * 30, "no values"),
        ("zip", [f"0{k}" for k in range(1000, 1040)], "an identifier"),
        ("x", ["?"] * 30, "no values"),
        ("x", [f"t{k // 2}" for k in range(400)], "free text"),
        ("x", [float(2**60 + 2**20 * k) for k in range(40)], "2\\^53"),
        ("x", [2**53 + 1] * 30 + [2**53 + 2] * 30, "2\\^53"),
        ("stay", [f"S{k // 100 * 100 + max(1, k % 100)}" for k in range(1000)], "990 different texts"),
        ("x", [*range(995), *range(5)], "an identifier"),
        ("order_nr", [*range(1000, 1990), *range(1000, 1010)], "990 different whole numbers in 1000 rows: an identif"),
        ("dose", [f"{k} IE" for k in range(150, 190)] * 5, "more than their digits"),
        ("x", ["1,234.50", "1.234,50", "77"] * 20, r"1,234\.50. and .1\.234,50"),
        ("x", ["1.5", "2,5"] * 30, "decimal points and numbers with decimal commas"),
        ("x", ["1.234", "1,234"] * 30, "decimal points and numbers with decimal commas"),
    ],
)
def test_columns_that_are_left_out_have_a_reason(name, values, reason):
    column = drafted(values, name)
    assert column.keys is None
    assert re.search(reason, column.note)


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
    assert drafted(values * 5).keys["type"] == "string"


@pytest.mark.parametrize(
    ("values", "special", "type"),
    [
        ([*range(18, 81), -999], "-999", "integer"),
        ([5.0, 10.0, 20.0, 9999.0] * 20, "9999", "integer"),
        ([*range(18, 81), -1], "-1", "integer"),
        ([0.25, 1.5, 1.75, -9] * 20, "-9", "number"),
        ([f"2024-01-{k:02d}" for k in range(1, 29)] + ["9999-12-31"], "9999-12-31", "date"),
        ([f"{k:02d}.01.2024" for k in range(1, 29)] + ["31.12.9999"], "31.12.9999", "date"),
        ([f"2024-01-{k:02d} 10:30" for k in range(1, 29)] + ["9999-12-31 23:59"], "9999-12-31T23:59", "timestamp"),
    ],
)
def test_a_code_of_no_value_is_proposed_as_a_special_value(values, special, type):
    """The file names it under `inferred`; the lines for the owner count its rows; without its line it is ordinary."""
    frame = pd.DataFrame({"x": values * 2, "other": ["a", "b"] * len(values)})
    found = draft(frame)
    text = as_yaml(found, "t.csv")
    content = yaml.safe_load(text)["attributes"][0]
    assert (content["type"], content["special"], content["inferred"]) == (type, [special], ["type", "special"])
    n = 2 * values.count(values[-1])
    assert [line for line in questions(found) if line.startswith("special")] == [
        f"special values: x ({special} in {n} rows)"
    ]
    column = Domain.from_dict(yaml.safe_load(text)).placeholder()["x"]
    assert (codes_of(frame["x"], column)[0] == column.special_codes[0]).sum() == n
    undone = re.sub(r" +special:.*\n", "", text)
    column = Domain.from_dict(yaml.safe_load(undone)).placeholder()["x"]
    assert (column.special, set(codes_of(frame["x"], column)[0])) == ((), {0})


@pytest.mark.parametrize("values", [[*range(100)], [0, 1, -1] * 20, [*range(18, 81), 120]])
def test_ordinary_numbers_are_no_special_values(values):
    column = drafted(values * 2)
    assert "special" not in column.keys
    assert "alone" not in column.note


def test_a_code_makes_no_number_a_decimal_and_no_identifier_a_number():
    assert drafted([*range(40), 99.9] * 3).keys["type"] == "integer"
    assert drafted([*range(1000, 1040), 999999], "patient_id").keys is None


@pytest.mark.parametrize(
    ("name", "values", "keys"),
    [
        ("SEX", [1, 2], {"type": "integer", "labels": "private"}),
        ("MIGRATE1", [0, 1, 2, 3, 4], {"type": "integer", "labels": "private"}),
        ("RAC1P", [1, 2, 6, 8, 9], {"type": "integer", "labels": "private"}),
        ("marital_status", [1, 2, 3, 9], {"type": "integer", "labels": "private", "special": ["9"]}),
        ("region", [1, 2, 3, 99], {"type": "integer", "labels": "private", "special": ["99"]}),
        ("sex", [0, 1], {"type": "boolean", "labels": ["0", "1"]}),
        ("ill", [0, 1, 9], {"type": "boolean", "labels": ["0", "1"], "special": ["9"]}),
        ("children", [0, 1, 2, 3], {"type": "integer", "edges": BINS}),
        ("income_group_mean", [0, 1, 2, 3], {"type": "integer", "edges": BINS}),
    ],
)
def test_codes_with_a_usual_name_are_categories(name, values, keys):
    found = drafted(values * 50, name).keys
    assert {key: value for key, value in found.items() if key != "inferred"} == keys


def test_a_person_is_asked_about_few_whole_numbers_of_any_other_name():
    assert drafted([0, 1, 2, 3] * 50, "children").remark.startswith("few whole numbers; if they are codes")
    assert drafted([0.5, 1, 2, 3] * 50, "children").remark == ""
    assert drafted([*range(60)] * 50, "age").remark == ""


@pytest.mark.parametrize(
    ("blank", "date"),
    [("0000-00-00", "%Y-%m-%d"), ("00.00.0000", "%d.%m.%Y"), ("99/99/9999", "%d/%m/%Y"), ("9999-99-99", "%Y-%m-%d")],
)
def test_dates_of_zeros_and_nines_are_special_values(blank, date):
    days = [(datetime.date(2024, 1, 1) + datetime.timedelta(days=k)).strftime(date) for k in range(60)]
    column = drafted([*days, *[blank] * 30])
    assert (column.keys["type"], column.keys["special"], column.special) == ("date", [blank], {blank: 30})
    assert column.remark == ""


def test_texts_that_will_become_other_are_named():
    """On COMPAS, a third of the rows have one of 400 rare charges, and no private release can show these."""
    assert drafted([f"A{k % 400:03d}" for k in range(4000)]).remark.startswith("more than 50 different texts")
    assert drafted([f"A{k % 40:03d}" for k in range(4000)]).remark == ""


def test_salaries_that_all_differ_are_no_identifier():
    assert drafted(RNG.permutation(10**6)[:40], "salary").keys["edges"] == BINS


def test_a_few_odd_cells_do_not_make_a_number_a_text():
    column = drafted([str(k / 7) for k in range(60)] + ["12 kg"])
    assert column.keys["type"] == "number"
    assert "1 cells are no number (first: '12 kg' in row 60)" in column.note
    column = drafted(["2024-01-31"] * 60 + ["31.01.2024"])
    assert (column.keys["type"], column.keys.get("format")) == ("date", None)
    assert "1 cells are no date (first: '31.01.2024' in row 60)" in column.note


def test_a_column_of_one_value_is_named():
    assert drafted(["a"] * 40).remark.startswith("one value in all rows")
    assert drafted([5] * 40).remark.startswith("one value in all rows")
    assert drafted([5] * 3).remark == ""


# --- numbers as files write them, dates as whole numbers ---

WHOLE = RNG.integers(1, 3_000_000, 300)
CENTS = WHOLE / 100


def written(form, numbers=CENTS):
    return [NumberFormat.parse(form).write(number) for number in numbers]


@pytest.mark.parametrize(
    ("values", "form"),
    [
        (written("#.##0,00"), "#.##0,00"),
        ([*written("#.##0,00"), "12", "7"], "#.##0,00"),
        (written("#,##0.00"), "#,##0.00"),
        (written("#'##0.00"), "#'##0.00"),
        (written("#\u2019##0.00"), "#\u2019##0.00"),
        (written("# ##0,00"), "# ##0,00"),
        (written("#\u00a0##0,00"), "#\u00a0##0,00"),
        (written("#\u202f##0", WHOLE), "#\u202f##0"),
        (written("#.##0", WHOLE % 20_000), "#.##0"),  # 7.889 beside 870
        (written("#,##0", WHOLE % 20_000), "#,##0"),
        (["1,5", "2,25"] * 20, "0,00"),
        (written("0,0", WHOLE % 400 / 10), "0,0"),
        (written("$#,##0.00"), "$#,##0.00"),
        (written("#.##0,00 €"), "#.##0,00 €"),
        (written("CHF #'##0.00"), "CHF #'##0.00"),
        (written("0 %", WHOLE % 101), "0 %"),
        (written("0.0%", WHOLE % 400 / 10), "0.0%"),
        (written("0 cm", WHOLE % 60 + 140), "0 cm"),
        (written("(#,##0)", WHOLE % 20_000 - 9000), "(#,##0)"),
        (written("($#,##0.00)", CENTS - 9000), "($#,##0.00)"),
        (written("0.00-", WHOLE % 90 / 4 - 9), "0.00-"),
        (written("\u22120", WHOLE % 60 - 30), "\u22120"),
        (written("00000", WHOLE % 1000), "00000"),
        (written("0.0", WHOLE % 400 / 10), None),
        (written("0.000", WHOLE % 5000 / 1000), None),  # 0.123 has no thousands
        ([*written("0", WHOLE % 90_000), "7.889", "1.234"], None),
    ],
)
def test_the_format_of_numbers_is_found_over_all_cells(values, form):
    column = drafted(values)
    of = NumberFormat.parse(form or "0.0")
    assert column.keys.get("format") == form
    assert column.keys["type"] == ("number" if of.decimals or form is None else "integer")
    assert column.keys.get("decimals", 0) == of.decimals or form is None
    domain = Domain.from_dict({"attributes": [{"name": "x", **column.keys}]})
    assert check_frame(values, domain) == []


def check_frame(values, domain):
    """Return the cells that the column of a drafted domain cannot read."""
    numbers = numbers_of(pd.Series(values), domain.placeholder()["x"])
    return [value for value, number in zip(values, numbers, strict=True) if np.isnan(number)]


def test_an_unclear_separator_is_decided_by_other_columns_or_named():
    unclear = {"dot": [f"{k + 1}.{k * 7 % 1000:03d}" for k in range(300)]}
    unclear["comma"] = [text.replace(".", ",") for text in unclear["dot"]]
    columns = {c.name: c for c in draft(pd.DataFrame(unclear)).columns}
    assert "format" not in columns["dot"].keys
    assert 'format: "#.##0"' in columns["dot"].remark
    assert columns["comma"].keys["format"] == "#,##0"
    assert 'format: "0,000"' in columns["comma"].remark
    for other, forms in ((written("0,0"), ("#.##0", "0,000")), (written("0.0"), (None, "#,##0"))):
        found = draft(pd.DataFrame({**unclear, "other": other})).columns
        assert tuple(c.keys.get("format") for c in found[:2]) == forms
        assert [c.remark for c in found[:2]] == ["", ""]


@pytest.mark.parametrize(
    ("values", "special"),
    [
        ([*map(str, WHOLE % 90), *["A"] * 5], ["A"]),
        ([*map(str, WHOLE % 90), *["A12", "B"] * 5], ["A12", "B"]),
        ([*map(str, WHOLE % 90), *["<5"] * 200], ["<5"]),
        ([*written("0,0", WHOLE % 90 / 4), *["<0,5"] * 200], ["<0,5"]),
        ([*map(str, WHOLE % 90), "A"], None),  # a slip of one row
        ([*map(str, WHOLE % 90), *["twelve"] * 5], None),
    ],
)
def test_short_codes_among_numbers_are_special_values_of_the_column(values, special):
    column = drafted(values)
    assert column.keys["type"] in ("integer", "number")
    assert column.keys.get("special") == special
    assert ("special" in column.keys["inferred"]) == (special is not None)
    assert ("cells are no" in column.note) == (special is None)
    assert special is None or sum(column.special.values()) == len(values) - 300


@pytest.mark.parametrize("values", [["1", "2", "A", "B"] * 20, [f"{'AB'[k % 2]}{k % 40}" for k in range(300)]])
def test_codes_among_few_numbers_stay_texts(values):
    assert drafted(values).keys["type"] == "string"


DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(int(k)) for k in WHOLE % 1500]
CLOCKS = [datetime.time(int(k) % 24, int(k) % 4 * 15) for k in WHOLE // 7]


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ([f"{d:%Y%m%d}" for d in DAYS], {"type": "date", "format": "%Y%m%d"}),
        ([int(f"{d:%Y%m%d}") for d in DAYS], {"type": "date", "format": "%Y%m%d"}),
        ([f"{d:%d%m%Y}" for d in DAYS], {"type": "date", "format": "%d%m%Y"}),
        ([int(f"{d:%d%m%Y}") for d in DAYS], {"type": "date", "format": "%d%m%Y"}),
        ([f"{d:%m%d%Y}" for d in DAYS], {"type": "date", "format": "%m%d%Y"}),
        ([f"{d:%Y%m%d}0830" for d in DAYS], {"type": "timestamp", "unit": "minute", "format": "%Y%m%d%H%M"}),
        ([f"{d:%Y%m%d}T083015" for d in DAYS], {"type": "timestamp", "unit": "second", "format": "%Y%m%dT%H%M%S"}),
        ([f"{d:%d.%m.%Y} 0830" for d in DAYS], {"type": "timestamp", "unit": "minute", "format": "%d.%m.%Y %H%M"}),
        ([f"{d}T08:30" for d in DAYS], {"type": "timestamp", "unit": "minute"}),
        ([f"{t:%H%M}" for t in CLOCKS], {"type": "timestamp", "unit": "minute", "format": "%H%M"}),
        ([f"{t:%H:%M}" for t in CLOCKS], {"type": "timestamp", "unit": "minute", "format": "%H:%M"}),
        ([f"{t:%I:%M %p}" for t in CLOCKS], {"type": "timestamp", "unit": "minute", "format": "%I:%M %p"}),
        (CLOCKS, {"type": "timestamp", "unit": "minute", "format": "%H:%M:%S"}),
        (WHOLE % 80 + 1930, {"type": "integer"}),
        (WHOLE % 900_000 + 100_000, {"type": "integer"}),
        (WHOLE % 24 * 100, {"type": "integer"}),
    ],
)
def test_dates_and_times_may_be_digits(values, keys):
    column = drafted(values)
    bounds = {"bounds": ["00:00", "24:00"]} if "day" not in keys and "%d" not in keys.get("format", "%d") else {}
    assert column.keys == {**keys, "edges": BINS | bounds, "inferred": ["type"]}
    assert column.remark == ""
    domain = Domain.from_dict({"attributes": [{"name": "x", **column.keys}]})
    assert check_frame(values, domain) == []


def test_what_stands_for_no_date_is_a_special_value():
    days = [f"{d:%Y%m%d}" for d in DAYS]
    column = drafted([*days, *["99999999", "0"] * 5])
    assert (column.keys["format"], column.keys["special"]) == ("%Y%m%d", ["99999999", "0"])
    assert drafted([*days, *["99991231"] * 5]).keys["special"] == ["99991231"]


def test_a_time_that_no_clock_shows_is_named():
    column = drafted([*[f"{d} 08:30" for d in DAYS], "2024-01-01 24:00"])
    assert column.keys["unit"] == "minute"
    assert "1 cells are no timestamp (first: '2024-01-01 24:00' in row 300)" in column.note


@pytest.mark.parametrize("form", ["%d.%m.%y", "%m/%d/%y", "%d%m%y"])
def test_years_of_two_digits_are_left_to_the_user_with_the_keys_to_declare(form):
    column = drafted([f"{d:{form}}" for d in DAYS])
    assert column.keys is None
    assert f'"{form}"' in column.remark
    assert "pivot: the first of the hundred years" in column.remark


# --- the privacy unit ---


def test_a_key_that_several_rows_share_is_proposed_as_the_privacy_unit():
    """Which columns are keys: see test_keys."""
    found = draft(pd.DataFrame({"customer_id": [k % 300 for k in range(1000)], "ill": ["yes", "no"] * 500}))
    content = yaml.safe_load(as_yaml(found, "t.csv"))
    assert (content["unit"], content["unit_type"]) == ("customer_id", "integer")
    assert content["rows_per_unit"] == {"private": 0.9, "most": 64}
    assert "ignored" not in content
    assert next(questions(found)).startswith("unit: customer_id (")
    assert Domain.from_dict(content).unit.column == "customer_id"


def test_other_keys_are_ignored_with_a_question():
    keys = {"customer_id": [k % 300 for k in range(1000)], "stay_id": [k % 700 for k in range(1000)]}
    found = draft(pd.DataFrame({**keys, "ill": ["yes", "no"] * 500}))
    content = found.content()
    assert (content["unit"], content["ignored"]) == ("customer_id", ["stay_id"])
    assert "a key that several rows share: it seems to name a stay" in list(questions(found))[1]


def test_a_key_of_which_all_rows_have_their_own_is_no_unit():
    assert drafted(range(100, 500), "customer_id").key is None
    assert drafted([k % 12 for k in range(100)], "ward_id").keys["type"] == "integer"


# --- the file ---

CELLS = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.dates().map(str),
    st.dates().map(lambda day: day.strftime("%d.%m.%Y")),
    st.sampled_from(
        ["", "?", "NA", "yes", "no", "true", "false", "null", "a", "b", "#", "- x", "a: b", "'q'", '"', "~"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r,"), max_size=5),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=3, max_size=3), st.integers(1, 30))
def test_every_draft_is_a_domain_that_its_table_fits(tmp_path_factory, kinds, n):
    """Columns mix up to four values of any kind."""
    folder = tmp_path_factory.mktemp("draft")
    frame = pd.DataFrame({f"c {j}": [cells[k % len(cells)] for k in range(n)] for j, cells in enumerate(kinds)})
    frame.to_csv(folder / "t.csv", index=False)
    found = draft(read_raw(folder / "t.csv"))
    if all(c.keys is None for c in found.columns):
        return
    (folder / "d.yaml").write_text(as_yaml(found, "t.csv"), encoding="utf-8")
    assert yaml.safe_load((folder / "d.yaml").read_text(encoding="utf-8")) == found.content()
    assert check(folder / "t.csv", folder / "d.yaml") == []


SECRETS = {"age": "97", "ward": "leprosy", "pay": "987654.25", "seen": "1931-05-07", "mark": "-12345", "odd": "12 kg"}


def test_the_file_holds_no_value_of_the_rows():
    """Neither as a label or an edge nor in a comment, whatever is asked about the column."""
    n = 400
    frame = pd.DataFrame(
        {
            "age": [*map(str, RNG.integers(20, 60, n - 1)), SECRETS["age"]],
            "ward": [*["a", "b", "c"] * 133, SECRETS["ward"]],
            "pay": [*map(str, np.round(RNG.normal(100, 9, n - 1), 2)), SECRETS["pay"]],
            "seen": ["2024-01-31"] * (n - 1) + [SECRETS["seen"]],
            "mark": [*map(str, RNG.integers(20, 60, n - 1)), SECRETS["mark"]],
            "odd": [*map(str, RNG.integers(20, 60, n - 1)), SECRETS["odd"]],
            "code": [*map(str, RNG.integers(20, 60, n - 1)), "-99999"],
            "free": [f"text {k}" for k in range(n)],
            "id": [f"secret{k // 2}" for k in range(n)],
        }
    )
    found = draft(frame)
    text = as_yaml(found, "t.csv")
    assert [secret for secret in (*SECRETS.values(), "text ", "secret", f"{n}", "399") if secret in text] == []
    said = " ".join(questions(found))
    assert all(secret in said for secret in (SECRETS["odd"], f"in {n} rows", "code (-99999 in 1 rows)"))
    assert text.count("-99999") == 1  # one of a public list, under `special`


def test_two_tables_of_the_same_types_have_the_same_draft():
    """What is not a choice from a public list is not in the file: other rows, another number of rows, other values."""
    one, other = (
        pd.DataFrame(
            {
                "age": rng.integers(20, high, n),
                "ward": rng.choice(wards, n),
                "pay": np.round(rng.normal(scale, 9, n), 2),
                "seen": pd.Timestamp(day) + pd.to_timedelta(rng.integers(0, 900, n), "D"),
                "ill": rng.choice(["yes", "no"], n),
            }
        )
        for rng, n, high, wards, scale, day in (
            (np.random.default_rng(0), 500, 60, ["a", "b", "c"], 100, "2020-01-01"),
            (np.random.default_rng(1), 900, 99, ["x", "y"], 5000, "1990-05-05"),
        )
    )
    assert as_yaml(draft(one), "t.csv") == as_yaml(draft(other), "t.csv")


def test_taking_away_one_sign_makes_a_fit_certified():
    ages = [*range(20, 89), 999]
    frame = pd.DataFrame({"age": ages * 9, "ward": ["no", "b"] * 315, "ill": ["yes", "no", "no"] * 210})
    text = as_yaml(draft(frame), "t.csv")
    for reviewed, certified in ((text, False), (text.replace("# defaults:", "defaults:"), True)):
        model = Independent(epsilon=1.0, delta=1e-5).fit(frame, domain=yaml.safe_load(reviewed))
        assert model.ledger_.certified is certified
        assert ("1 column's special values" in model.ledger_.message) is not certified


def test_marks_that_are_given_are_public_in_all_columns():
    frame = pd.DataFrame({"a": ["1", "2", "don't know"] * 20, "b": ["x", "y", "z"] * 20, "c": ["?", "1.5", "9"] * 20})
    found = draft(frame, missing=["don't know", "-"])
    assert [c.keys.get("missing") for c in found.columns] == [None, None, ["don't know", "-", "?"]]
    assert [c.keys["inferred"] for c in found.columns] == [["type"], ["type"], ["type", "missing"]]
    assert [c.note for c in found.columns] == ["", "", ""]
    text = as_yaml(found, "t.csv")
    assert 'defaults: {missing: ["don\'t know", "-"]}' in text
    assert '# defaults: {missing: ["don\'t know", "-"], reviewed: true}' in text
    columns = Domain.from_dict(yaml.safe_load(text)).columns
    assert [c.missing for c in columns] == [("don't know", "-"), ("don't know", "-"), ("don't know", "-", "?")]


@pytest.mark.parametrize("name", ['24" monitor', "café", "it's 5\" \\ 'x'", "a: b # c", "👍", "x\ty", "no", "null"])
def test_names_are_written_as_they_are(name):
    text = as_yaml(draft(pd.DataFrame({name: ["a", "b"] * 20, f"{name} id": range(40)})), "t.csv")
    content = yaml.safe_load(text)
    assert (content["attributes"][0]["name"], content["ignored"]) == (name, [f"{name} id"])


def test_what_is_asked_of_many_columns_is_asked_once():
    answers = ["1", "2", "3", "4", "5"] * 40
    frame = pd.DataFrame({f"q{k}": [*answers[k:], *answers[:k], f"don't know{'' if k else '!'}"] for k in range(50)})
    said = list(questions(draft(frame)))
    assert len(said) == 1
    assert "look at: q0, q1, q2 and 47 more (some cells are no integer: every fit counts them as missing" in said[0]


@pytest.mark.parametrize("words", [("nein", "ja"), ("N", "J"), ("Non", "Oui"), ("no", "yes")])
def test_yes_and_no_of_other_languages_are_declared_and_read(words):
    frame = pd.DataFrame({"ill": [*words, *words, "k.A.", words[1]] * 9})
    found = draft(frame)
    assert found.columns[0].keys == {
        "type": "boolean",
        "labels": list(words),
        "missing": ["k.A."],
        "inferred": ["type", "missing"],
    }
    codes = Table.from_frame(frame, Domain.from_dict(found.content())).column("ill")
    assert codes[:6].tolist() == [0, 1, 0, 1, 2, 1]


def test_the_lists_that_a_draft_chooses_from_are_short():
    assert len(drafting.NUMBER_MARKS) < 20


def test_a_draft_in_python_is_that_of_a_file():
    """It is certified only after a person has declared or reviewed what was read off the rows."""
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(0, 90, 900), "ward": rng.choice(list("abc"), 900), "ill": rng.choice(["yes", "no"], 900)}
    )
    drafted = Domain.draft(frame, missing=["?"])
    assert drafted == Domain.from_dict(yaml.safe_load(as_yaml(draft(frame, missing=["?"]), "t.csv")))
    assert drafted == Domain.draft(polars.from_pandas(frame), missing=["?"])
    fitted = Independent(epsilon=1.0, random_state=0).fit(frame, domain=drafted)
    assert "types were read off the rows" in fitted.ledger_.message
    assert not fitted.ledger_.certified
    content = drafted.to_dict()
    reviewed = {**content, "attributes": [{**column, "reviewed": True} for column in content["attributes"]]}
    assert Independent(epsilon=1.0, random_state=0).fit(frame, domain=reviewed).ledger_.certified
    for other, said in (([1], "needs a data frame, not list"), (polars.from_pandas(frame).lazy(), "call .collect")):
        with pytest.raises(InputError, match=said):
            Domain.draft(other)
