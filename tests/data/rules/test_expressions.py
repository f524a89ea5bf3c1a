"""Derived columns: SQL over one row gives the values of plain Python, or one line that says what is wrong."""

import datetime
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiers import others_slow

from marginalia.data.rules.expressions import DAYS, FUNCTIONS, WHOLE, Expression, _connection
from marginalia.errors import InputError

TYPES = {"a": "integer", "b": "integer", "x": "number", "y": "number", "s": "string", "t": "boolean", "d": "date"}
NAMES = {"integer": "ab", "number": "xy", "string": "s", "boolean": "t", "date": "d"}
ALL = {*NAMES, "timestamp in seconds"}


class MissingError(Exception):
    """A step has no value."""


def check(value, kind):
    if value is None:
        raise MissingError
    if kind == "number" and not math.isfinite(value):
        raise MissingError
    if kind == "integer" and not abs(value) < WHOLE:
        raise MissingError
    if kind == "date" and not DAYS[0] <= value <= DAYS[1]:
        raise MissingError
    return value


@st.composite
def expressions(draw, kind, depth=0):
    """Return the text of an expression, and a function that computes it for one row in plain Python."""
    leaf = depth > 3 or draw(st.booleans())
    sub = lambda of: draw(expressions(of, depth + 1))  # noqa: E731
    if leaf and draw(st.booleans()):
        name = draw(st.sampled_from(NAMES[kind]))
        return name, lambda row: check(row[name], "string")
    if kind in ("integer", "number"):
        if leaf:
            n = draw(st.integers(0, 99) if kind == "integer" else st.sampled_from([2.25, 1e3, 0.1, 1e200]))
            return f"{n!r}::{'bigint' if kind == 'integer' else 'double'}", lambda row: n
        shape = draw(st.sampled_from(["+", "-", "*", "abs", "neg", "case", "days", "/", "least", "greatest"]))
        if shape == "case":
            return choice(sub("boolean"), sub(kind), sub(kind))
        if shape == "/" and kind == "number":
            (f, one), (g, two) = sub("integer"), sub("number")

            def divided(row):
                a, b = one(row), two(row)
                return check(a / b if b else None, "number")

            return f"({f}) / ({g})", divided
        if shape == "/" and kind == "integer":
            f, one = sub("number")

            def floored(row):
                return check(math.floor(check(one(row), "number")), "integer")

            return f"floor({f})::bigint", floored
        if shape == "days" and kind == "integer":
            (f, one), (g, two) = sub("date"), sub("date")
            return f"({f}) - ({g})", lambda row: one(row) - two(row)
        f, one = sub(kind)
        if shape in ("abs", "neg"):
            return (f"abs({f})", lambda row: abs(one(row))) if shape == "abs" else (f"-({f})", lambda row: -one(row))
        g, two = sub(kind)
        if shape in ("least", "greatest"):
            return f"{shape}({f}, {g})", extreme(min if shape == "least" else max, one, two)
        sign = shape if shape in "+-*" else "+"

        def computed(row):
            a, b = one(row), two(row)
            return check({"+": a + b, "-": a - b, "*": a * b}[sign], kind)

        return f"({f}) {sign} ({g})", computed
    if kind == "date":
        if leaf:
            return "d", lambda row: check(row["d"], "string")
        f, one = sub("date")
        n = draw(st.integers(-10_000, 10_000))
        return f"({f}) + {n}", lambda row: check(one(row) + n, "date")
    if kind == "string":
        if leaf:
            word = draw(st.sampled_from(["u", "v w", "é`"]))
            return repr(word), lambda row: word
        return choice(sub("boolean"), sub("string"), sub("string"))
    if leaf:
        return "t", lambda row: check(row["t"], "string")
    if draw(st.booleans()):
        of = draw(st.sampled_from(["integer", "number", "date", "string"]))
        sign = draw(st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]))
        (f, one), (g, two) = sub(of), sub(of)

        def compared(row):
            a, b = one(row), two(row)
            if of == "string":
                a, b = a.encode(), b.encode()
            return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "=": a == b, "<>": a != b}[sign]

        return f"({f}) {sign} ({g})", compared
    (f, one), (g, two) = sub("boolean"), sub("boolean")
    word = draw(st.sampled_from(["and", "or", "not"]))
    if word == "not":
        return f"not ({f})", lambda row: not one(row)
    return f"({f}) {word} ({g})", connective(word, one, two)


def value_of(function, row):
    try:
        return function(row)
    except (MissingError, OverflowError):
        return None


def extreme(function, one, two):
    """SQL: the extreme of the values that are there."""

    def of(row):
        there = [v for v in (value_of(one, row), value_of(two, row)) if v is not None]
        return check(function(there) if there else None, "string")

    return of


def connective(word, one, two):
    """SQL's logic of three values: false and NULL is false, true or NULL is true."""

    def of(row):
        both = [value_of(one, row), value_of(two, row)]
        decisive = word == "or"
        if decisive in both:
            return decisive
        return check(None if None in both else not decisive, "string")

    return of


def choice(test, yes, no):
    (f, one), (g, two), (h, three) = test, yes, no
    return f"case when {f} then {g} else {h} end", lambda row: two(row) if value_of(one, row) else three(row)


WORDS = "a x s d t ( ) + * ** / < == , 'u' case when then else end 1 2.5 and not round least floor . [ ]".split()  # noqa: SIM905
WORDS += "-> :: ` select from union ; -- /* */ date int $1 #1 ? \" 1e999 '2020-01-01' * over filter in is null".split()  # noqa: SIM905
WORDS += [
    "\n",
    "\0",
    "99999999999999999999",
    "exists",
    "read_text('/etc/passwd')",
    "current_date",
    "random()",
    "interval",
]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            **dict.fromkeys("ab", st.none() | st.integers(-100, 100) | st.just(2**53 - 1)),
            **dict.fromkeys("xy", st.none() | st.floats(-1e6, 1e6) | st.sampled_from([0.125, 2.675, 1e300])),
            "s": st.none() | st.sampled_from(["u", "v w", "é"]),
            "t": st.none() | st.booleans(),
            "d": st.none() | st.integers(*map(int, DAYS)),
        }
    ),
    min_size=1,
    max_size=5,
)


def arrays(rows):
    found = {n: np.array([np.nan if r[n] is None else float(r[n]) for r in rows]) for n in "abxytd"}
    return {**found, "s": np.array([r["s"] for r in rows] + [None], dtype=object)[:-1]}


def values(text, types, rows):
    return np.broadcast_to(Expression(text).compiled(types).of(rows), (len(next(iter(rows.values()))),)).tolist()


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(NAMES)).flatmap(expressions), ROWS)
def test_values_are_those_of_plain_python(expression, rows):
    text, oracle = expression
    try:
        compiled = Expression(text).compiled(TYPES)
    except InputError as error:
        assert "characters" in str(error)  # noqa: PT017
        return
    found = np.broadcast_to(compiled.of(arrays(rows)), (len(rows),)).tolist()
    for value, row in zip(found, rows, strict=True):
        wanted = value_of(oracle, row)
        if isinstance(wanted, str):
            assert value == wanted
        elif wanted is not None:  # where a step has no value, SQL may have one: 2^53 in the midst of a sum
            assert value == float(wanted), (text, row)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(st.text(max_size=40) | st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_any_text_is_an_expression_or_one_clear_line(text):
    try:
        compiled = Expression(text).compiled(TYPES)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    found = np.broadcast_to(compiled.of(arrays([dict.fromkeys("abxystd", None)] * 2)), (2,))
    assert compiled.type in ALL
    assert found.dtype == (object if compiled.type == "string" else float)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a + c", "unknown column 'c'; known: a, b, d, s, t, x, y"),
        ("A + 1", "unknown column 'A'; did you mean 'a'?"),
        ("read_text('/etc/passwd')", "character 1: function 'read_text' is not allowed"),
        ("getenv('HOME')", "function 'getenv' is not allowed"),
        ("current_setting('memory_limit')", "function 'current_setting' is not allowed"),
        ("a + (select 1)", "character 5: subquery is not allowed"),
        ("a in (select 1)", "subquery is not allowed"),
        ("exists(from range(3))", "subquery is not allowed"),
        ("sum(a)", "function 'sum' is not allowed"),
        ("min(a, b)", "function 'min' is not allowed here; least takes several values"),
        ("row_number() over ()", "window is not allowed"),
        ("sum(a) over ()", "window is not allowed"),
        ("random()", "function 'random' is not allowed"),
        ("now()", "function 'now' is not allowed"),
        ("current_date", "unknown column 'current_date'"),
        ("repeat('u', 1000000000)", "function 'repeat' is not allowed"),
        ("main.abs(a)", "function 'abs' is not allowed"),
        ("x.y", "put a column name with a point in double quotes"),
        ("1) from t; drop table t; --", "is not an expression such as a + b"),
        ("a; select 1", "is not one expression"),
        ("a from t", "is not one expression"),
        ("a, b", "is not one expression"),
        ("a where t", "is not one expression"),
        ("*", "star is not allowed"),
        ("$1", "parameter is not allowed"),
        ("#1", "positional reference is not allowed"),
        ("[i for i in a]", "is not allowed"),
        ("{'u': a}", "function 'struct_pack' is not allowed"),
        ("x -> a", "lambda is not allowed"),
        ("s + 1", "`s + 1`: "),
        ("d + x", "No function matches the given name and argument types '+(DATE, DOUBLE)'"),
        ("a <", "is not an expression"),
        ("d < 'soon'", "`d < 'soon'`: 'soon' is not a date such as '2024-01-31'"),
        ("d in ('2024-01-31', 'x')", "'x' is not a date"),
        ("d between 'x' and '2024-01-31'", "'x' is not a date"),
        ("s < 5", "Cannot compare values of type VARCHAR"),
        ("x if t else y", "write CASE WHEN condition THEN a ELSE b END"),
        ("interval 1 day", "values of type INTERVAL cannot be stored in a column; count the time"),
        ("+".join("a" * 600), "at most 1000 characters"),
        ("", "an expression is a text"),
        ("-- a", "is not an expression"),
    ],
)
def test_what_is_no_expression_is_one_line(text, said):
    with pytest.raises(InputError) as error:
        Expression(text).compiled(TYPES)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_every_allowed_function_depends_on_its_arguments_alone():
    """By DuckDB's own list: no function that it calls volatile, none that reads a file, no aggregate."""
    names = sorted({name for names in FUNCTIONS.values() for name in names} - {"coalesce", "if", "nullif"})
    found = _connection().execute(
        "SELECT function_name, function_type, stability FROM duckdb_functions() WHERE function_name IN "
        f"({', '.join(map(repr, names))})"
    )
    kinds = {}
    for name, kind, stability in found.fetchall():
        kinds.setdefault(name, set()).add((kind, stability))
    assert set(kinds) == set(names)
    assert {kind for of in kinds.values() for kind in of} == {("scalar", "CONSISTENT")}


def test_duckdb_may_read_no_file(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    import duckdb

    for statement in (f"FROM '{tmp_path}/t.csv'", "SET enable_external_access = true", "INSTALL httpfs"):
        with pytest.raises(duckdb.Error):
            _connection().execute(statement).fetchall()


@pytest.mark.parametrize("zone", others_slow(["Asia/Tokyo", "America/New_York"]))
def test_no_value_depends_on_the_time_zone_of_the_machine(zone):
    code = (
        "import numpy as np; from marginalia.data.rules.expressions import Expression\n"
        "of = Expression('h::timestamptz::text').compiled({'h': 'timestamp in hours'}).of\n"
        "print(of({'h': np.array([456_000.0])}).tolist())"
    )
    environment = os.environ | {"TZ": zone}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "['2022-01-08 00:00:00+00']\n"


def test_names_stand_for_one_column():
    rows = {"unit price": np.array([1.5]), "a.b": np.array([3.0]), "Age": np.array([1.0]), "age": np.array([2.0])}
    types = dict.fromkeys(rows, "number")
    assert values('"unit price" * "a.b"', types, rows) == [4.5]
    assert values("Age - age", types, rows) == [-1.0]  # DuckDB alone would take both for one
    assert Expression("case when age > 0 then \"unit price\" else 'Age' end").names == ("age", "unit price")
    assert Expression("case when s = 'u' then 'v' end").texts == ("u", "v")


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("d + a", "date", [11.0, math.nan, math.nan]),
        ("d - 3", "date", [7.0, math.nan, math.nan]),
        ("d + 100000000", "date", [math.nan] * 3),  # beyond the year 9999
        ("a / 0", "number", [math.nan] * 3),
        ("b * b", "integer", [math.nan, 4.0, math.nan]),  # 2^106 is no integer that a double holds
        ("a + b", "integer", [math.nan, math.nan, math.nan]),
        ("7 // 2", "integer", [3.0] * 3),
        ("round_even(x, 1)", "number", [0.2, math.nan, 2.6]),
        ("round(x, 1)", "number", [0.3, math.nan, 2.6]),
        ("year(d)::text || '-Q' || quarter(d)", "string", ["1970-Q1", None, None]),
        ("h + to_hours(a)", "timestamp in seconds", [3600.0, math.nan, math.nan]),
        ("date_diff('hour', h, h + interval 90 minute)", "integer", [1.0, 2.0, math.nan]),
        ("extract(year from d)", "integer", [1970.0, math.nan, math.nan]),
        ("a::text", "string", ["1", None, None]),
        ("a in (1, 2)", "boolean", [1.0, math.nan, math.nan]),
        ("d between '1970-01-01' and '1970-02-01'", "boolean", [1.0, math.nan, math.nan]),
    ],
)
def test_values_of_every_type(text, kind, found):
    gone = math.nan
    rows = {
        "a": np.array([1.0, gone, gone]),
        "b": np.array([2.0**53 - 1, 2.0, gone]),
        "x": np.array([0.25, gone, 2.55]),
        "d": np.array([10.0, gone, gone]),
        "h": np.array([0.0, 0.75, gone]),
    }
    types = {"a": "integer", "b": "integer", "x": "number", "d": "date", "h": "timestamp in hours"}
    assert Expression(text).compiled(types).type == kind
    np.testing.assert_equal(values(text, types, rows), found)


def test_a_date_takes_no_integer_from_another_row():
    """The type of a column follows from no value: a value that is no 32-bit integer is missing, the others stay."""
    types = {"d": "date", "a": "integer"}
    rows = {"d": np.array([10.0, 10.0]), "a": np.array([1.0, 2.0**40])}
    np.testing.assert_equal(values("d + a", types, rows), [11.0, math.nan])
    assert datetime.date(1970, 1, 1).toordinal() + 11 == datetime.date(1970, 1, 12).toordinal()
