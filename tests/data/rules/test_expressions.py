"""The language of derived columns: right values, or one line that says what is wrong, and nothing else."""

import datetime
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marginalia.data.rules.expressions import DAYS, WHOLE, Expression, rounded
from marginalia.errors import InputError

TYPES = {"a": "integer", "b": "integer", "x": "number", "y": "number", "s": "string", "t": "boolean", "d": "date"}
NAMES = {"integer": "ab", "number": "xy", "string": "s", "boolean": "t", "date": "d"}
EPOCH = datetime.date(1970, 1, 1)


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
            n = draw(st.integers(0, 99) if kind == "integer" else st.sampled_from([0.5, 2.25, 1e3, 0.1, 1e200]))
            return repr(n), lambda row: n
        shape = draw(st.sampled_from(["+", "-", "*", "min", "max", "abs", "neg", "if", "round", "days", "/"]))
        if shape == "if":
            return choice(sub("boolean"), sub(kind), sub(kind))
        if shape == "/" and kind == "number":
            (f, one), (g, two) = sub("integer"), sub("number")

            def divided(row):
                a, b = one(row), two(row)
                return check(a / b if b else None, "number")

            return f"({f}) / ({g})", divided
        if shape == "round" and kind == "number":
            f, one = sub("number")
            return f"round({f}, 2)", lambda row: round(one(row), 2)
        if shape in ("round", "/") and kind == "integer":
            f, one = sub("number")
            name = "floor" if shape == "/" else "round"
            function = math.floor if shape == "/" else round
            return f"{name}({f})", lambda row: check(function(one(row)), "integer")
        if shape == "days" and kind == "integer":
            (f, one), (g, two) = sub("date"), sub("date")
            return f"({f}) - ({g})", lambda row: one(row) - two(row)
        f, one = sub(kind)
        if shape in ("abs", "neg"):
            return (f"abs({f})", lambda row: abs(one(row))) if shape == "abs" else (f"-({f})", lambda row: -one(row))
        g, two = sub(kind)
        if shape in ("min", "max"):
            return f"{shape}({f}, {g})", lambda row: (min if shape == "min" else max)(one(row), two(row))
        sign = shape if shape in "+-*" else "+"

        def computed(row):
            a, b = one(row), two(row)
            return check({"+": a + b, "-": a - b, "*": a * b}[sign], kind)

        return f"({f}) {sign} ({g})", computed
    if kind == "date":
        if leaf:
            return "d", lambda row: check(row["d"], "string")
        (f, one), (g, two) = sub("date"), sub("integer")
        return f"({f}) + ({g})", lambda row: check(one(row) + two(row), "date")
    if kind == "string":
        if leaf:
            word = draw(st.sampled_from(["u", "v w", "é`"]))
            return repr(word), lambda row: word
        return choice(sub("boolean"), sub("string"), sub("string"))
    if leaf:
        return "t", lambda row: check(row["t"], "string")
    if draw(st.booleans()):
        of = draw(st.sampled_from(["integer", "number", "date", "string"]))
        sign = draw(st.sampled_from(["==", "!="] if of == "string" else ["<", "<=", ">", ">=", "==", "!="]))
        (f, one), (g, two) = sub(of), sub(of)

        def compared(row):
            a, b = one(row), two(row)
            return (
                {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[sign]
                if (of != "string")
                else (a == b) == (sign == "==")
            )

        return f"({f}) {sign} ({g})", compared
    (f, one), (g, two) = sub("boolean"), sub("boolean")
    word = draw(st.sampled_from(["and", "or", "not"]))
    if word == "not":
        return f"not ({f})", lambda row: not one(row)

    def joined(row):
        a, b = one(row), two(row)  # both: what is missing on one side is missing
        return (a and b) if word == "and" else (a or b)

    return f"({f}) {word} ({g})", joined


def choice(test, yes, no):
    (f, one), (g, two), (h, three) = test, yes, no
    return f"({g}) if ({f}) else ({h})", lambda row: two(row) if one(row) else three(row)


WORDS = "a x s d t ( ) + * ** / < == , 'u' if else 1 2.5 and not round min floor . [ ] lambda : ` __class__".split()  # noqa: SIM905
WORDS += "= := 1e999 # '2020-01-01' f'{a}' *a await yield { } in is 99999999999999999999 \\".split()  # noqa: SIM905
WORDS += ["\n", "\0"]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            **dict.fromkeys("ab", st.none() | st.integers(-100, 100) | st.just(2**53 - 1)),
            **dict.fromkeys("xy", st.none() | st.floats(-1e6, 1e6) | st.sampled_from([0.125, 2.675, 1e300])),
            "s": st.none() | st.sampled_from(["u", "v w", ""]),
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


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(NAMES)).flatmap(expressions), ROWS)
def test_values_are_those_of_plain_python(expression, rows):
    text, oracle = expression
    try:
        compiled = Expression(text).compiled(TYPES)
    except InputError as error:
        assert "inside each other" in str(error) or "letters" in str(error)  # noqa: PT017
        return
    found = np.broadcast_to(compiled.of(arrays(rows)), (len(rows),)).tolist()
    for value, row in zip(found, rows, strict=True):
        try:
            wanted = oracle(row)
        except MissingError:
            wanted = None
        except OverflowError:
            wanted = None
        if wanted is None:
            assert value is None or math.isnan(value), (text, row)
        elif isinstance(wanted, str):
            assert value == wanted
        else:
            assert value == float(wanted), (text, row)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(
    st.text(max_size=40)
    | st.lists(
        st.sampled_from(WORDS),
        max_size=14,
    ).map(" ".join)
)
def test_any_text_is_an_expression_or_one_clear_line(text):
    try:
        compiled = Expression(text).compiled(TYPES)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    found = np.broadcast_to(compiled.of(arrays([dict.fromkeys("abxystd", None)] * 2)), (2,))
    assert compiled.type in {*NAMES}
    assert found.dtype == (object if compiled.type == "string" else float)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a + c", "letter 5: unknown column 'c'; known: a, b, d, s, t, x, y"),
        ("__import__('os').system('true')", "the functions are round, min, max, floor and abs"),
        ("().__class__", "allowed are names, numbers"),
        ("[i for i in a]", "allowed are names, numbers"),
        ("a ** 9 ** 9", "do not go together"),
        ("s + 1", "string and integer do not go together"),
        ("d + x", "date and number do not go together"),
        ("d * 2", "do not go together"),
        ("a <", "is no expression"),
        ("s < 'u'", "have no order"),
        ("d < 'soon'", "letter 5: beside a date stands a date such as '2024-01-31'"),
        ("round(x, a)", "how many decimals"),
        ("floor(x, a)", "takes one number"),
        ("x if a else y", "letter 6: 'if' needs a condition"),
        ("'u' if t else 1", "letter 15: string and integer"),
        ("min(a)", "two values or more"),
        ("1e999", "finite"),
        ("(" * 300 + "a" + ")" * 300, "is no expression"),
        ("+".join("a" * 200), "inside each other"),
        ("a" * 1001, "at most 1000 letters"),
        ("", "an expression is a text"),
        ("'é' == a.b", "letter 8: allowed"),
    ],
)
def test_what_is_no_expression_is_one_line(text, said):
    with pytest.raises(InputError) as error:
        Expression(text).compiled(TYPES)
    assert said in str(error.value)


def test_names_with_spaces_stand_in_backticks():
    expression = Expression("`unit price` * `q``q` if 'a`b' == s else `class`")
    assert expression.names[0] == "unit price"
    total = Expression("round(`unit price` * `from`, 2)").compiled({"unit price": "number", "from": "integer"})
    assert total.of({"unit price": np.array([1.5]), "from": np.array([3.0])}).tolist() == [4.5]


def test_rounding_is_that_of_python():
    x = np.concatenate([np.arange(-2000, 2000) / 200, np.random.default_rng(0).normal(size=4000) * 1e4, [1e300, 5e15]])
    for places in range(7):
        assert rounded(x, places).tolist() == [round(v, places) for v in x.tolist()]
