"""Numbers as files write them: every format reads what it writes, cell by cell, and refuses what it does not mean."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import others_slow

from marginalia.data.checking import check
from marginalia.data.coding import codes_of, numbers_of
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.encode import losses_of
from marginalia.data.number_formats import NumberFormat, read_number
from marginalia.data.reading import read_raw
from marginalia.data.table import RawTable, Table
from marginalia.data.units import content_hashes
from marginalia.errors import InputError
from marginalia.quality.raw_rows import values_of
from marginalia.synthesis import Independent

FORMATS = [
    "0",
    "0,0",
    "0.00",
    "#,##0",
    "#.##0",
    "#,##0.00",
    "#.##0,00 €",
    "#'##0.00",
    "#\u2019##0.00",
    "# ##0,00",
    "#\u00a0##0,00",
    "#\u202f##0",
    "$#,##0.00",
    "CHF 0.00",
    "0 %",
    "0,0%",
    "(#,##0)",
    "($#,##0.00)",
    "0.00-",
    "\u22120",
    "00000",
    "000,0",
    "0,#",
]


@pytest.mark.parametrize(
    ("format", "text", "number"),
    [
        ("#.##0,00", "1.234,56", 1234.56),
        ("#.##0,00", "12", 12.0),
        ("#.##0,00", "-1234567,5", -1234567.5),
        ("#.##0", "7.889", 7889.0),
        ("#.##0", "1.234.567,5", 1234567.5),
        ("#,##0", "1,234", 1234.0),
        ("#'##0.00", "1\u2019234.50", 1234.5),
        ("# ##0,00", "1\u202f234,5", 1234.5),
        ("# ##0,00", "1\u00a0234\u00a0567", 1234567.0),
        ("$#,##0.00", "-$1,234.50", -1234.5),
        ("$#,##0.00", "$-1,234.50", -1234.5),
        ("0,00 €", "12,5€", 12.5),
        ("0,00 €", "12,5", 12.5),
        ("0 %", "12%", 12.0),
        ("(#,##0)", "(1,234)", -1234.0),
        ("(#,##0)", "-5", -5.0),
        ("($#,##0.00)", "$(1,234.50)", -1234.5),
        ("($#,##0.00)", "($1,234.50)", -1234.5),
        ("0.00-", "12.50-", -12.5),
        ("0", "\u22125", -5.0),
        ("00000", "00042", 42.0),
        ("0,0", "+1,5E+03", 1500.0),
        ("0,0", ",5", 0.5),
        ("0,0", "-0,0", 0.0),
    ],
)
def test_a_text_is_read_by_its_format(format, text, number):
    assert NumberFormat.parse(format).read(text) == number


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("#.##0,00", "1.23"),
        ("#.##0,00", "1,234.56"),
        ("#.##0,00", "0.123"),
        ("#,##0", "1,23"),
        ("#,##0", "1,2345"),
        ("#,##0", "(1,234)"),
        ("0,0", "1.5"),
        ("0,0", "1,5,6"),
        ("0 €", "$5"),
        ("0", "5-"),
        ("0", "--5"),
        ("(0)", "(5"),
        ("(0)", "(-5)"),
        ("0", "five"),
        ("0", "\u0665"),
        ("0,0", "9e999"),
        ("0", ""),
        ("0", "nan"),
        ("0", "1_000"),
    ],
)
def test_a_text_of_another_form_is_no_number(format, text):
    with pytest.raises(ValueError, match="is not a number of this format"):
        NumberFormat.parse(format).read(text)


@pytest.mark.parametrize("format", ["", "1.234,56", "0.00.0", "#.##0.00", "%d.%m.%Y", "((0)", "(0", "-(0)", "##0", "x"])
def test_what_is_no_format_of_numbers_is_refused(format):
    with pytest.raises(InputError, match=r"column 'x': format .* (is no format of numbers, such as|has '\.' between)"):
        Column("x", 1, edges=(0, 9), type="number", format=format)


@given(st.sampled_from(FORMATS), st.integers(-(10**9), 10**9), st.integers(0, 6))
def test_a_format_reads_what_it_writes(format, whole, decimals):
    number = whole / 10**decimals
    of = NumberFormat.parse(format)
    assert of.read(of.write(number, decimals)) == number
    assert not of.write(-0.0, decimals).startswith(("-", "(", "\u2212"))


def test_numbers_with_a_type_are_read_as_they_are():
    """A format says how texts are written: 1.234 as a number is no thousand."""
    assert [read_number(value, "#.##0") for value in ("1.234", 1.234, np.float32(0.5))] == [1234.0, 1.234, 0.5]


def test_the_code_of_a_cell_does_not_depend_on_other_cells():
    column = Column("x", 3, "numeric", edges=(0, 10, 1000, 10_000), type="number", format="#.##0", decimals=0)
    cells = ["7.889", "870", "7", "12,5", "1.5"]
    together, problems = codes_of(pd.Series(cells), column)
    assert together.tolist() == [2, 1, 0, 1, -1]
    assert [p.line for p in problems] == [
        "column 'x', row 4: '1.5' is not a number of format #.##0; correct the file, or the domain (rows count from 0)"
    ]
    assert [codes_of(pd.Series([cell]), column)[0].tolist() for cell in cells] == [[code] for code in together]


def test_marks_and_labels_may_be_written_either_way():
    facts = {"type": "number", "format": "#.##0,0", "missing": ["-9,9"], "special": ["9.999,9", "k.A."]}
    column = Column.from_dict({"name": "x", "edges": [0, 10, 100], **facts})
    assert column.mark_values == {-9.9, 9999.9}
    codes, _ = codes_of(pd.Series(["-9,9", "9999,9", "k.A.", "10,0", "-9,90"]), column)
    assert codes.tolist() == [4, 2, 3, 1, 4]
    labels = Column.from_dict({"name": "x", "type": "integer", "format": "#.##0", "labels": [500, "1.000"]})
    assert labels.label_values == (500, 1000)


def test_a_format_with_decimals_gives_their_number():
    item = {"name": "x", "type": "number", "edges": [0, 9]}
    assert Column.from_dict({**item, "format": "0,00"}).decimals == 2
    assert Column.from_dict({**item, "format": "0,#"}).decimals is None
    assert Column.from_dict({**item, "format": "0,#", "decimals": 1}).decimals == 1
    with pytest.raises(InputError, match="format '0,00' has 2 decimals, 'decimals' has 1"):
        Column.from_dict({**item, "format": "0,00", "decimals": 1})
    with pytest.raises(InputError, match="'format' is for integers, numbers, dates and timestamps"):
        Column.from_dict({"name": "x", "type": "string", "labels": ["a"], "format": "0"})


@pytest.mark.parametrize("format", others_slow(FORMATS, "0", "#.##0,00 €", "($#,##0.00)", "0,#"))
def test_synthetic_rows_are_written_as_the_file_is_and_fit_the_domain(tmp_path, format):
    of, rng = NumberFormat.parse(format), np.random.default_rng(0)
    decimals = of.decimals if of.decimals is not None else 3
    numbers = np.round(rng.normal(2000, 1500, 400), decimals)
    texts = [of.write(number, decimals) for number in numbers]
    pd.DataFrame({"x": [*texts, "refused", ""], "y": "a"}).to_csv(tmp_path / "t.csv", index=False, sep=";")
    item = {"name": "x", "type": "number" if decimals else "integer", "format": format, "special": ["refused"]}
    bins = {"edges": [-1000, 0, 1000, 2000, 5000], "bottom": True, "top": True, "missing": []}
    extra = {"decimals": 3} if of.decimals is None else {}
    domain = Domain.from_dict({"ignored": ["y"], "attributes": [item | bins | extra]})
    assert check(tmp_path / "t.csv", domain) == []
    frame = read_raw(tmp_path / "t.csv")
    assert np.array_equal(numbers_of(frame["x"], domain["x"])[:400], numbers)
    assert losses_of(frame, domain) == []
    table = Table.read(tmp_path / "t.csv", domain=domain)
    table.to_csv(tmp_path / "s.csv", random_state=0)
    written = read_raw(tmp_path / "s.csv")["x"]
    assert Table.read(tmp_path / "s.csv", domain=domain).codes.tolist() == table.codes.tolist()
    assert (written == "refused").sum() == 1
    shown = [text for text in written if text and text != "refused"]
    assert [of.write(of.read(text), decimals) for text in shown] == shown
    made = values_of(written, domain["x"]).numbers
    assert np.isfinite(made).sum() == 400


def test_learned_bins_are_in_the_unit_of_the_file():
    texts = [f"{k % 90 / 10:.1f} %".replace(".", ",") for k in range(3000)]
    item = {"name": "x", "type": "number", "format": "0,0 %", "edges": {"private": "adaptive", "bins": 8}}
    domain = Domain.from_dict({"attributes": [item]})
    rows = RawTable.of(pd.DataFrame({"x": texts}), domain)
    model = Independent(epsilon=8.0, delta=1e-5, random_state=0).fit(rows.frame, domain=domain)
    sample = model.sample(200)["x"]
    assert sample.dtype == float
    assert 0 <= sample.quantile(0.05) < sample.quantile(0.95) < 10


def test_equal_numbers_are_equal_rows_of_a_unit():
    column = Column("x", 1, edges=(0, 9999), type="number", format="#.##0,00 €", decimals=2)
    assert len(set(content_hashes(pd.Series(["1.234,50 €", "1234,5", 1234.5]), column).tolist())) == 1
