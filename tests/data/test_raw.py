"""Raw values to codes and back: every kind of column, every way of writing a value, every bad cell by its row."""

import datetime
import gc
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginalia.data import values
from marginalia.data.cells import cells_of
from marginalia.data.column import Column, StructuralZeros
from marginalia.data.domain import Domain
from marginalia.data.reading import read_raw
from marginalia.data.table import Table, write_batches
from marginalia.errors import InputError

FREE_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
WORDS = FREE_TEXT.map(str.strip).filter(bool)


def days(text):
    return (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days


@st.composite
def attributes(draw, name="x"):
    """Any column that files may hold."""
    kind = draw(st.sampled_from(["string", "integer", "number", "boolean", "date", "timestamp", "code"]))
    facts, labels, edges = {"type": kind}, None, None
    if kind == "string":
        words = draw(st.lists(WORDS, min_size=3, max_size=7, unique=True))
        labels, facts["missing"] = tuple(words[2:]), draw(st.sampled_from([None, (), (words[0],)]))
        facts["other"] = draw(st.sampled_from([None, words[1]]))
    elif kind == "code":
        facts["missing"] = draw(st.sampled_from([None, ()]))
    else:
        facts["missing"] = draw(st.sampled_from([None, (), ("?",), ("?", "n/a")]))
    n_values = 2 if kind == "boolean" else draw(st.integers(1, 5))
    if kind == "timestamp":
        facts["unit"] = draw(st.sampled_from(["day", "hour", "minute", "second"]))
    if kind in ("date", "timestamp"):
        facts["zone"] = draw(st.sampled_from([None, "Europe/Berlin", "Asia/Kathmandu"]))
    if kind in ("integer", "date", "timestamp"):
        numbers = sorted(draw(st.sets(st.integers(-700_000, 700_000), min_size=n_values + 1, max_size=n_values + 1)))
    elif kind == "number":
        some = st.floats(-1e9, 1e9).map(lambda x: x + 0.0)
        numbers = sorted(draw(st.sets(some, min_size=n_values + 1, max_size=n_values + 1)))
    if kind in ("integer", "date", "timestamp", "number"):
        if draw(st.booleans()):
            edges = tuple(map(float, numbers))
            facts |= {"bottom": draw(st.booleans()), "top": draw(st.booleans())}
        else:
            write = {"integer": str, "number": repr, "date": values.iso}.get(
                kind, lambda count: values.iso(count, facts["unit"])
            )
            labels = tuple(write(v) for v in draw(st.permutations(numbers[1:])))
        if draw(st.booleans()):
            mark = {"integer": "1234567", "number": "-99e11"}.get(kind, "9999-12-31")
            facts["missing"] = (mark,)
    if kind == "boolean" and draw(st.booleans()):
        labels = tuple(
            draw(st.lists(st.sampled_from(["ja", "nein", "oui", "non"]), min_size=2, max_size=2, unique=True))
        )
    words = {*(labels or ()), facts.get("other"), *(facts["missing"] or ())}
    apart = ["<0.1", "refused", *(["-7654321"] if kind in ("integer", "number") else []), "0001-01-02"]
    facts["special"] = tuple(
        t for t in draw(st.lists(st.sampled_from(apart), max_size=3, unique=True)) if t not in words
    )
    known = len(labels) if labels else n_values
    size = known + len(facts["special"]) + (facts.get("other") is not None) + (facts["missing"] is not None)
    return Column(name, size, "numeric" if edges else "categorical", labels, edges, **facts)


@st.composite
def tables(draw):
    domain = Domain([draw(attributes("a")), draw(attributes("b b"))])
    n = draw(st.integers(1, 12))
    columns = [draw(st.lists(st.integers(0, m - 1), min_size=n, max_size=n)) for m in domain.sizes]
    return Table(np.array(columns).T, domain)


@pytest.mark.slow
@given(tables(), st.integers(0, 99))
def test_what_is_written_reads_back_as_the_same_codes(tmp_path_factory, table, seed):
    folder = tmp_path_factory.mktemp("round")
    table.to_csv(folder / "t.csv", random_state=seed)
    table.to_parquet(folder / "t.parquet", random_state=seed)
    frame = table.to_frame(original=True, random_state=seed)
    for again in (
        Table.read(folder / "t.csv", domain=table.domain),
        Table.read(folder / "t.parquet", domain=table.domain),
        Table.from_frame(frame, table.domain),
    ):
        assert again == table
    table.to_csv(folder / "again.csv", random_state=seed)
    assert (folder / "again.csv").read_bytes() == (folder / "t.csv").read_bytes()


@pytest.mark.parametrize("special", [(), ("refused", "0001-01-02")])
@pytest.mark.parametrize("missing", [(), ("9999-12-31",)])
def test_a_column_of_one_code_alone_reads_back(tmp_path, special, missing):
    """Pandas knows no type of dates that are all missing."""
    facts = {"labels": ("1970-01-02",), "type": "date", "missing": missing, "special": special}
    day = Column("day", 2 + len(special), **facts)
    for code in range(day.size):
        table = Table(np.full((3, 1), code), Domain([day]))
        table.to_csv(tmp_path / f"{code}.csv", random_state=0)
        assert Table.read(tmp_path / f"{code}.csv", domain=table.domain) == table


@pytest.mark.slow
@given(attributes())
def test_what_is_known_of_an_attribute_is_written_and_read(tmp_path_factory, column):
    path = tmp_path_factory.mktemp("domain") / "d.json"
    Domain([column], ignored=["id"]).to_json(path)
    again = Domain.from_json(path)
    assert (again["x"], again.ignored) == (column, ("id",))


def column(raw, **facts):
    labels, edges = facts.pop("labels", None), facts.pop("edges", None)
    known = len(labels) if labels else len(edges) - 1 if edges else 2
    size = known + ("other" in facts) + ("missing" in facts)
    labels = None if labels is None else tuple(labels)
    domain = Domain([Column("x", size, "categorical", labels, None if edges is None else tuple(edges), **facts)])
    return Table.from_frame(pd.DataFrame({"x": pd.Series(raw)}), domain).codes[:, 0].tolist()


@pytest.mark.parametrize(
    ("names", "facts"),
    [
        (["x"], {"type": "string", "labels": ("a\rb", "c"), "missing": ()}),  # a row ends there, for some
        (["x;y;z", "w"], {"type": "string", "labels": ("a;b;c", "d"), "missing": ("e",)}),
        (["sep=;"], {"type": "string", "labels": ("a", "b"), "other": "c"}),
        (["\ufeffx", "y"], {"type": "string", "labels": ("a", "b"), "other": "c"}),
        (["x"], {"type": "boolean", "labels": ("True", "None"), "missing": ()}),
    ],
)
def test_odd_columns_read_back_as_the_same_codes(tmp_path, names, facts):
    table = Table([[0] * len(names), [1] * len(names), [2] * len(names)], Domain(Column(n, 3, **facts) for n in names))
    table.to_csv(tmp_path / "t.csv", random_state=0)
    table.to_parquet(tmp_path / "t.parquet", random_state=0)
    assert Table.read(tmp_path / "t.csv", domain=table.domain) == table
    assert Table.read(tmp_path / "t.parquet", domain=table.domain) == table


@pytest.mark.parametrize(
    ("raw", "facts", "codes"),
    [
        (["a", " b ", "c"], {"type": "string", "labels": "abc"}, [0, 1, 2]),
        ([1.0, "2", 3], {"type": "string", "labels": "123"}, [0, 1, 2]),
        (["a", "z", None, "?"], {"type": "string", "labels": "ab", "other": "else", "missing": ("?",)}, [0, 2, 3, 3]),
        (["none", "NA", "nan"], {"type": "string", "labels": ("NA", "none", "nan")}, [1, 0, 2]),
        (["7", "7.0", "1e1"], {"type": "integer", "labels": ("7", "10")}, [0, 0, 1]),
        ([7, 10, -1], {"type": "integer", "labels": ("7", "10"), "missing": ("-1",)}, [0, 1, 2]),
        ([7.0, np.nan], {"type": "integer", "labels": ("7", "10"), "missing": ()}, [0, 2]),
        (["-3", "18", "99"], {"type": "integer", "edges": (0, 18, 65), "bottom": True, "top": True}, [0, 1, 1]),
        (np.float32([0.1, 0.3]), {"type": "number", "labels": (".1", ".3")}, [0, 1]),
        ([0.3, 0.1, 0.2], {"type": "number", "edges": (0.1, 0.2, 0.3), "top": True}, [1, 0, 1]),
        (["0.3", "0.1", ".2"], {"type": "number", "edges": (0.1, 0.2, 0.3), "top": True}, [1, 0, 1]),
        ([True, False], {"type": "boolean"}, [1, 0]),
        (["TRUE", "false", "0", "1"], {"type": "boolean"}, [1, 0, 0, 1]),
        (["yes", "No", None], {"type": "boolean", "labels": ("no", "yes"), "missing": ()}, [1, 0, 2]),
        ([1, 0], {"type": "boolean", "labels": ("no", "yes")}, [1, 0]),
        (
            ["2024-01-31", "2024-02-01T23:59", "20240131", "2024-02-28"],
            {"type": "date", "edges": (days("2024-01-01"), days("2024-02-01"), days("2024-03-01"))},
            [0, 1, 0, 1],
        ),
        (pd.to_datetime(["1970-01-31 10:00", None]), {"type": "date", "edges": (0, 31), "missing": ()}, [0, 1]),
        ([datetime.date(2024, 1, 31)], {"type": "date", "edges": (0, days("2024-02-01"))}, [0]),
        (pd.array([1, None], dtype="Int64"), {"type": "integer", "edges": (0, 5), "missing": ()}, [0, 1]),
        (pd.Categorical(["b", "a", None]), {"type": "string", "labels": "ab", "missing": ()}, [1, 0, 2]),
        (pd.Categorical([20, 10]), {"type": "integer", "labels": ("10", "20")}, [1, 0]),
    ],
)  # fmt: skip
def test_every_way_of_writing_a_value(raw, facts, codes):
    assert column(raw, **facts) == codes


@pytest.mark.parametrize(
    ("raw", "facts", "said"),
    [
        (["a", "b", "x"], {"type": "string", "labels": "ab"}, "row 2: 'x' is not among the labels a, b; "),
        (
            np.array(["1970-01-02", "82269-12-28"], dtype="datetime64[s]"),
            {"type": "date", "edges": (0, 9)},
            "row 1: '82269-12-28 00:00:00' is a date outside the years 1 to 9999",
        ),
        (["a", None], {"type": "string", "labels": "ab"}, "row 1: an empty cell has no code; .*missing"),
        (["1", "1,5"], {"type": "number", "edges": (0, 9)}, "row 1: '1,5' has a comma: `format` declares"),
        (["1,234,567"], {"type": "integer", "edges": (0, 9)}, "row 0: '1,234,567' has a comma"),
        (["1", "2.5"], {"type": "integer", "edges": (0, 9)}, "row 1: '2.5' is not a whole number"),
        ([1.0, 2.5], {"type": "integer", "edges": (0, 9)}, "row 1: '2.5' is not a whole number"),
        (["1", "12 kg"], {"type": "number", "edges": (0, 9)}, "row 1: '12 kg' is not a number"),
        (["1", "nan"], {"type": "number", "edges": (0, 9)}, "row 1: 'nan' is not a number"),
        ([1.0, np.inf], {"type": "number", "edges": (0, 9), "top": True}, "row 1: 'inf' is not a number"),
        ([True], {"type": "number", "edges": (0, 9)}, "row 0: 'True' is not a number"),
        (["1", "9"], {"type": "number", "edges": (0, 9)}, r"row 1: '9' is outside the bins from 0 to 9 .*top: true"),
        (["yes", "ja"], {"type": "boolean", "labels": ("no", "yes")}, "row 1: 'ja' is neither no nor yes"),
        (["2"], {"type": "boolean"}, "row 0: '2' is neither False nor True"),
        (["2024-01-02", "03/04/2024"], {"type": "date", "edges": (0, 1e5)}, "row 1: .*`format: .%d/%m/%Y. or "),
        (["31.01.2024"], {"type": "date", "edges": (0, 1e5)}, "row 0: .*: declare `format: .%d.%m.%Y.`"),
        (["2024-02-30"], {"type": "date", "edges": (0, 1e5)}, "row 0: '2024-02-30' is not a date"),
        (["1/2/24"], {"type": "date", "edges": (0, 1e5)}, "row 0: '1/2/24' is not a date"),
        (["0", "1", "x"], {"type": "code"}, "row 2: 'x' is not an integer code; say by `type`"),
        (["0", "2"], {"type": "code"}, r"row 1: '2' is outside the codes 0..1"),
        ([[1], [2]], {"type": "code"}, "values of type list"),
        (["b" * 999], {"type": "string", "labels": "ab"}, "row 0: 'b{40}...' is not among"),
    ],
)
def test_the_bad_cell_is_named_with_its_row_in_one_line(raw, facts, said):
    with pytest.raises(InputError, match=f"table: column 'x'.*{said}") as error:
        column(raw, **facts)
    assert "\n" not in str(error.value)


def test_raw_numbers_never_pass_as_codes():
    """A file of ages 0 to 5 was once read as codes of the six bins."""
    for facts in ({"edges": (0, 18, 65)}, {"labels": ("1", "2")}, {"labels": ("none", "2")}):
        with pytest.raises(InputError, match="does not say what column 'x' holds: add `type: code`"):
            column([0, 1], **facts)
    assert column([0, 1], labels=("0", "1")) == column([0, 1], labels=("no", "yes")) == [0, 1]
    assert column([0, 1], edges=(0, 18, 65), type="integer") == [0, 0]


def test_a_row_in_a_structural_zero_is_named():
    zeros = [StructuralZeros(("age", "ward"), ((0, 1),))]
    columns = [
        Column("age", 2, edges=(0, 18, 99), type="integer"),
        Column("ward", 2, labels=("a", "b"), type="string"),
    ]
    frame = pd.DataFrame({"age": [30, 3, 3], "ward": ["b", "a", "b"]})
    with pytest.raises(InputError, match="column 'age', row 2: age=0 with ward=b is a structural zero"):
        Table.from_frame(frame, Domain(columns, structural_zeros=zeros))
    assert len(Table.from_frame(frame[:2], Domain(columns, structural_zeros=zeros))) == 2


def test_values_of_a_bin_are_uniform_inside_it():
    """Chi-square of 4,000 draws on ten whole numbers: false alarm at 1 in 10^6."""
    from scipy.stats import chisquare

    domain = Domain([
        Column("n", 1, edges=(0.5, 10.5), type="integer"),
        Column("x", 1, edges=(20.0, 67.0), type="number"),
        Column("d", 1, edges=(0.0, 10.0), type="date"),
    ])  # fmt: skip
    frame = Table(np.zeros((4000, 3), int), domain).to_frame(original=True, random_state=3)
    assert set(frame["n"]) == set(range(1, 11))
    assert chisquare(frame["n"].value_counts()).pvalue > 1e-6
    assert chisquare(frame["d"].value_counts()).pvalue > 1e-6
    assert frame["x"].between(20, 67, inclusive="left").all()
    assert (np.round(frame["x"], 1) == frame["x"]).all()  # three digits of a width of 47
    assert str(frame["n"].dtype) == "int64"
    assert str(frame["d"].dtype).startswith("datetime64")


def test_gaps_come_back_as_pandas_own(tmp_path):
    domain = Domain([
        Column("n", 2, edges=(5, 6), type="integer", missing=()),
        Column("b", 3, type="boolean", missing=("?",)),
        Column("s", 2, labels=("a",), type="string", missing=("?",)),
        Column("d", 2, labels=("2024-01-05",), type="date", missing=()),
        Column("m", 2, labels=("3",), type="integer", missing=("-9",)),
    ])  # fmt: skip
    table = Table([[0, 1, 0, 0, 0], [1, 2, 1, 1, 1]], domain)
    frame = table.to_frame(original=True)
    assert [str(t) for t in frame.dtypes[["n", "b", "m"]]] == ["Int64", "boolean", "int64"]
    assert frame["n"].isna().tolist() == frame["b"].isna().tolist() == frame["d"].isna().tolist() == [False, True]
    assert frame["s"].tolist() == ["a", "?"]
    assert frame["m"].tolist() == [3, -9]
    table.to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "n,b,s,d,m\n5,True,a,2024-01-05,3\n,?,?,,-9\n"


def calls_to_read(path, columns, n):
    """Return the number of calls of functions while a file of n rows is read."""
    rng = np.random.default_rng(0)
    draw = {"s": lambda: rng.choice(["surgery", "medicine", "?"], n), "x": lambda: rng.normal(size=n)}
    pd.DataFrame({column.name: draw[column.name]() for column in columns}).to_csv(path, index=False)
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.collect()
    gc.disable()  # what a collection calls (finalizers, and callbacks of other packages) is not part of reading
    sys.setprofile(count)
    try:
        table = Table.read(path, domain=Domain(columns))
    finally:
        sys.setprofile(None)
        gc.enable()
    assert table.n_rows == n
    return calls


def test_the_work_to_read_a_file_grows_no_faster_than_its_rows(tmp_path):
    """A label is looked up once and not in each row; each further number takes as many steps as the one before."""
    label = Column("s", 3, labels=("surgery", "medicine"), type="string", missing=("?",))
    edges = tuple(np.linspace(-3, 3, 17).tolist())
    number = Column("x", 16, "numeric", edges=edges, type="number", bottom=True, top=True)
    calls_to_read(tmp_path / "t.csv", [label, number], 10)  # imports, and fills caches
    few, many = (calls_to_read(tmp_path / "t.csv", [label], n) for n in (200, 800))
    assert many == few
    few, more, many = (calls_to_read(tmp_path / "t.csv", [number], n) for n in (200, 400, 800))
    assert many - more == pytest.approx(2 * (more - few), rel=0.01)
    assert more - few < 20 * 200


LARGE = 2**53 + 1


@pytest.mark.parametrize(
    ("rows", "one"),
    [
        ([1, 1.0, 2, "a"], True),
        ([0, "a"], False),
        ([Decimal("1.00"), Decimal("2.50")], 1),
        ([1, "a"], Decimal("1.0")),
        ([LARGE, 3], "a"),
        ([LARGE, -(2**63), 3], True),
        ([LARGE, 3], [1]),
        ([0.5, 1.0], "a"),
        ([True, False], "a"),
        ([True, False], 1),
        (["1", "2"], 1),
        ([datetime.date(2020, 1, 1)], pd.Timestamp("2020-01-01")),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_what_a_cell_says_does_not_depend_on_another_row(rows, one, first):
    """Python's 1 == True == Decimal("1.0") and the rounding of a column's dtype must not carry over."""
    more = [one, *rows] if first else [*rows, one]
    alone, together = (cells_of(pd.Series(cells), lenient=True) for cells in (rows, more))
    there = slice(1, None) if first else slice(len(rows))
    texts = [[column.listed[i].text for i in column.which] for column in (alone, together)]
    assert texts[0] == texts[1][there]


def test_a_truth_value_of_numpy_is_no_number_either():
    """It is equal to Python's, and in a column the first of the two stands for both."""
    for value in (True, np.True_):
        with pytest.raises(ValueError, match="is not a number"):
            values.number(value)


def test_a_gap_in_a_parquet_column_rounds_no_other_row(tmp_path):
    for cells in ([LARGE, 3], [LARGE, 3, None]):
        pq.write_table(pa.table({"a": cells}), tmp_path / "t.parquet")
        column = cells_of(read_raw(tmp_path / "t.parquet")["a"])
        assert [cell.text for cell in column.listed] == [str(LARGE), "3"]


def test_dates_are_read_and_written_by_their_format(tmp_path):
    edges = [{"name": "seen", "type": "date", "format": "%d/%m/%Y", "edges": ["2024-03-01", "2024-04-04", "2024-04-05"],
              "missing": ["01/01/1900"]}]  # fmt: skip
    domain = Domain.from_dict({"attributes": edges})
    assert Domain.from_dict(domain.to_dict()) == domain
    path = tmp_path / "t.csv"
    path.write_text('seen\n03/03/2024\n04/04/2024\n01/01/1900\n""\n')
    table = Table.read(path, domain=domain)
    assert table.column("seen").tolist() == [0, 1, 2, 2]
    table.to_csv(tmp_path / "made.csv", random_state=0)
    made = (tmp_path / "made.csv").read_text().split()
    assert made[2:] == ["04/04/2024", "01/01/1900", "01/01/1900"]
    assert made[1].endswith(("/03/2024", "/04/2024"))
    assert Table.read(tmp_path / "made.csv", domain=domain) == table
    path.write_text("seen\n2024-03-04\n")
    with pytest.raises(InputError, match="row 0: '2024-03-04' is not a date of format %d/%m/%Y"):
        Table.read(path, domain=domain)
    for wrong, said in (("%d/%m", "gives no day, month and year"), ("x", "gives no day"), (5, "gives no day")):
        with pytest.raises(InputError, match=said):
            Domain.from_dict({"attributes": [{**edges[0], "format": wrong}]})
    with pytest.raises(InputError, match="'format' is for integers, numbers, dates"):
        Domain.from_dict({"attributes": [{"name": "a", "type": "string", "labels": ["x"], "format": "%d"}]})
    learned = Domain.from_dict(
        {"attributes": [{**edges[0], "edges": {"private": "uniform", "bounds": ["2024-01-01", "2024-12-31"]}}]}
    )
    assert learned.placeholder()["seen"].format == "%d/%m/%Y"
    assert Domain.from_dict(learned.to_dict()) == learned


@pytest.mark.parametrize("n", [1, 2])
def test_no_cell_is_a_formula_on_request(tmp_path, n):
    labels = ("=HYPERLINK(1)", "+1+cmd", "-2", "@x", "a")
    table = Table(np.arange(5)[:, None], Domain([Column("=a", 5, type="string", labels=labels)]))
    write_batches([table] * n, table.domain, tmp_path / "t.csv", csv_safe=True)
    assert (tmp_path / "t.csv").read_text().splitlines()[:6] == ["'=a", "'=HYPERLINK(1)", "'+1+cmd", "-2", "'@x", "a"]
    write_batches([table] * n, table.domain, tmp_path / "u.csv")
    assert Table.read(tmp_path / "u.csv", domain=table.domain).codes[:5, 0].tolist() == [0, 1, 2, 3, 4]
