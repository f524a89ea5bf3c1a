"""Rows that are drawn obey every rule, in raw values, for any domain, rules and codes."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marginalia.data import Attribute, Domain, Table
from marginalia.data.rules.obeying import numbers_in, possible, some_possible
from marginalia.data.rules.rules import Needs, Order, Rules
from marginalia.errors import InputError

TYPES = ("integer", "number", "date")


@st.composite
def attributes(draw, name, of_type):
    """Return a column of numbers or dates: labels or bins, open or not, with marks that are numbers or not."""
    missing = draw(st.sampled_from([None, (), ("?",), ("3",) if of_type != "date" else ("1970-01-04",)]))
    if draw(st.booleans()) and of_type != "date":
        values = draw(st.lists(st.integers(-6, 6).filter(lambda v: v != 3), min_size=1, max_size=4, unique=True))
        labels = tuple(map(str, sorted(values)))
        return Attribute(name, len(labels) + (missing is not None), labels=labels, type=of_type, missing=missing)
    steps = [1, 2, 3] if of_type != "number" else [0.5, 1, 2.25, 1e-9]
    edges = np.cumsum([draw(st.integers(-5, 5)), *draw(st.lists(st.sampled_from(steps), min_size=1, max_size=4))])
    try:
        return Attribute(
            name,
            len(edges) - 1 + (missing is not None),
            "numeric",
            edges=tuple(edges.tolist()),
            type=of_type,
            bottom=draw(st.booleans()),
            top=draw(st.booleans()),
            missing=missing,
        )
    except InputError:  # a bin of marks alone
        return Attribute(name, 2, "numeric", edges=(0.0, 3.0, 8.0), type=of_type)


@st.composite
def domains(draw):
    n = draw(st.integers(2, 5))
    dates = draw(st.booleans())
    columns = [draw(attributes(f"n{i}", "date" if dates else draw(st.sampled_from(TYPES[:2])))) for i in range(n)]
    columns += [Attribute(f"s{i}", 3, labels=("x", "y"), type="string", missing=()) for i in range(2)]
    names = [c.name for c in columns]
    rules = []
    for _ in range(draw(st.integers(1, 4))):
        chain = draw(st.lists(st.sampled_from(names[:n]), min_size=2, max_size=3, unique=True))
        kind = draw(st.sampled_from(["order", "order", "needs", "never"]))
        if kind == "order":
            chain = sorted(chain)  # no circles
            rules.append(chain[0] + "".join(f" {draw(st.sampled_from(['<', '<=']))} {name}" for name in chain[1:]))
        elif kind == "needs":
            one, *others = draw(st.lists(st.sampled_from(names), min_size=2, max_size=3, unique=True))
            rules.append(f"{one} needs {', '.join(others)}")
        else:
            rules.append({"never": {"s0": [draw(st.sampled_from(["x", "missing"]))], "s1": ["x", "y"]}})
    return columns, rules


def broken(frame, codes, domain):
    """Return which rows break a rule, by the values that were drawn; written apart from the code under test."""
    bad = np.zeros(len(frame), dtype=bool)
    gone = {a.name: codes[:, j] == (-1 if a.missing is None else a.size - 1) for j, a in enumerate(domain)}
    for rule in domain.rules.rules:
        if isinstance(rule, Order):
            pairs = [(i, j) for i in range(len(rule.columns)) for j in range(i + 1, len(rule.columns))]
            for i, j in pairs:
                a, b = rule.columns[i], rule.columns[j]
                there = ~gone[a] & ~gone[b]
                x, y = frame[a][there], frame[b][there]
                fine = (x < y) if any(rule.strict[i:j]) else (x <= y)
                bad[np.flatnonzero(there)[~fine.to_numpy(dtype=bool)]] = True
        elif isinstance(rule, Needs):
            for other in rule.others:
                bad |= ~gone[rule.column] & gone[other]
        else:
            together = np.ones(len(frame), dtype=bool)
            for name, texts in rule.sets:
                together &= gone[name] if texts == ("missing",) else frame[name].isin(texts).to_numpy()
            bad |= together
    return bad


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(domains(), st.integers(0, 2**32 - 1))
def test_rows_that_are_drawn_obey_all_rules(given_, seed):
    columns, rules = given_
    rng = np.random.default_rng(seed)
    try:
        domain = Domain(columns, rules=Rules.parse(rules, {}))
    except InputError:
        return  # no row can hold, or a column that needs another is never missing
    codes = np.column_stack([rng.integers(a.size, size=60) for a in columns])
    drawn = Table(codes, domain).obeying(rng)
    frame = drawn.to_frame(original=True, random_state=rng)
    assert not broken(frame, drawn.codes, domain).any()
    # Values stay in their bins: the codes of what was drawn are the codes.
    assert np.array_equal(Table.from_frame(frame, domain).codes, drawn.codes)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(domains(), st.integers(0, 2**32 - 1))
def test_no_row_that_obeys_is_taken_for_impossible(given_, seed):
    """Any raw row that obeys has possible codes, outside the zeros of every model: nothing true is lost."""
    columns, rules = given_
    rng = np.random.default_rng(seed)
    try:
        domain = Domain(columns, rules=Rules.parse(rules, {}))
    except InputError:
        return
    plain = Domain(columns)
    codes = np.column_stack([rng.integers(a.size, size=200) for a in columns])
    frame = Table(codes, plain).to_frame(original=True, random_state=rng)
    for a in columns:  # open bins hold what lies beyond their edges
        far = np.flatnonzero(rng.random(len(frame)) < 0.5)
        here = codes[far, columns.index(a)]
        if a.edges is not None and a.type != "date":
            frame.loc[far[here == 0], a.name] -= 7 if a.bottom else 0
            frame.loc[far[here == len(a.edges) - 2], a.name] += 7 if a.top else 0
    coded = codes_of_frame(frame, plain, columns, codes)
    obeys = ~broken(frame, coded, domain)
    named = {a.name: a for a in columns}
    assert possible(dict(zip(named, coded.T, strict=True)), named, domain.rules)[obeys].all()
    for zeros in domain.structural_zeros:
        cells = set(zeros.cells)
        at = [domain.index(n) for n in zeros.attributes]
        assert not [row for row in coded[obeys][:, at].tolist() if tuple(row) in cells]


def codes_of_frame(frame, plain, columns, codes):
    """Return the codes of a frame; values that moved onto a mark have that of missing ones."""
    try:
        return Table.from_frame(frame, plain).codes
    except InputError:
        return codes


def test_a_zero_of_an_order_is_a_pair_without_values():
    """By brute force over all pairs of whole numbers, bins open or not."""
    for edges in ((0, 2, 5), (1, 3, 4)):
        for strict in (False, True):
            a = Attribute("a", 2, "numeric", edges=(0.0, 6.0, 8.0), type="integer", bottom=True)
            b = Attribute("b", 2, "numeric", edges=tuple(map(float, edges)), type="integer", top=strict)
            rules = Rules.parse([f"a {'<' if strict else '<='} b"], {})
            held = set()
            for x in range(-9, 8):
                for y in range(edges[0], 9 if strict else edges[-1]):
                    if x < y or (x == y and not strict):
                        held.add((int(x >= 6), int(y >= edges[1])))
            every = {(i, j) for i in range(2) for j in range(2)}
            zeros = {cell for z in rules.zeros({"a": a, "b": b}) for cell in z.cells}
            assert zeros == every - held


def test_a_middle_without_a_value_does_not_loosen_a_chain():
    columns = [Attribute(n, 3, "numeric", edges=(0.0, 5.0, 9.0), type="integer", missing=()) for n in ("a", "b", "c")]
    domain = Domain(columns, rules=Rules.parse(["a <= b < c"], {}))
    rows = Table([[1, 2, 0], [1, 2, 1], [0, 0, 0]] * 50, domain).obeying(np.random.default_rng(0))
    frame = rows.to_frame(original=True, random_state=0)
    assert (frame["a"] < frame["c"]).all()
    assert (rows.codes[:, 1] == 2).any()


def test_bins_drawn_under_an_order_have_the_law_of_bins_given_the_order():
    """Of two equal bins: the density of the smaller one falls linearly."""
    columns = [Attribute(n, 1, "numeric", edges=(0.0, 100.0), type="integer") for n in "ab"]
    domain = Domain(columns, rules=Rules.parse(["a <= b"], {}))
    frame = Table(np.zeros((40_000, 2), dtype=int), domain).to_frame(original=True, random_state=1)
    assert (frame["a"] <= frame["b"]).all()
    x = np.arange(100)
    assert abs(frame["a"].mean() - (x * (100 - x)).sum() / (100 - x).sum()) < 0.5
    assert frame["a"].value_counts(normalize=True).max() < 0.035


def test_values_of_a_tight_order_are_found_one_after_the_other():
    """Eight columns in one bin: one row in 8! is in order by chance."""
    columns = [Attribute(f"x{i}", 1, "numeric", edges=(0.0, 9.0), type="integer") for i in range(8)]
    domain = Domain(columns, rules=Rules.parse([" < ".join(a.name for a in columns)], {}))
    frame = Table(np.zeros((500, 8), dtype=int), domain).to_frame(original=True, random_state=1)
    assert (np.diff(frame.to_numpy(), axis=1) > 0).all()
    assert frame.nunique().min() > 1


def test_an_open_bin_is_left_through_its_open_end_alone():
    a = Attribute("a", 1, "numeric", edges=(30.0, 40.0), type="integer")
    b = Attribute("b", 1, "numeric", edges=(0.0, 10.0), type="integer", top=True)
    rules = Rules.parse(["a < b"], {})
    frame = Table(np.zeros((99, 2), dtype=int), Domain([a, b], rules=rules)).to_frame(original=True)
    assert (frame["a"] < frame["b"]).all()
    assert frame["a"].between(30, 39).all()
    closed = Attribute("b", 1, "numeric", edges=(0.0, 10.0), type="integer")
    with pytest.raises(InputError, match="leave no possible row"):
        Domain([a, closed], rules=rules)


def test_decimals_stay_what_they_are():
    """A grid of cents, as far as an attribute knows one."""
    from marginalia.data.rules.ranges import Ranges

    nothing = np.full(1, np.nan)
    cents = Ranges(nothing, nothing, nothing, nothing, 1, 100, frozenset({0.03}))
    x = np.array([0.01, 0.29, 1.1, 4.35, 0.021])
    assert cents.at_least(x).tolist() == [0.01, 0.29, 1.1, 4.35, 0.04]
    assert cents.at_most(x, strict=True).tolist() == [0.0, 0.28, 1.09, 4.34, 0.02]


def test_codes_are_changed_as_little_as_can_be():
    """Rows exchange codes of one column: what a method has measured of single columns stays."""
    rng = np.random.default_rng(0)
    columns = [Attribute(n, 2, "numeric", edges=(0.0, 1.0, 2.0), type="integer") for n in "abc"]
    domain = Domain(columns, rules=Rules.parse(["a <= b"], {}))
    codes = rng.integers(2, size=(2000, 3))
    drawn = Table(codes, domain).obeying(rng).codes
    assert (drawn[:, 0] <= drawn[:, 1]).all()
    assert np.array_equal(drawn[:, 2], codes[:, 2])
    assert (np.abs(drawn.sum(axis=0) - codes.sum(axis=0)) < 0.06 * len(codes)).all()
    assert (np.sum(drawn != codes, axis=1) <= 1).all()


def test_exchanges_keep_all_one_way_marginals():
    """Of two columns that are independent, one with a value in 60 % of the rows and one in 30 % of them."""
    rng = np.random.default_rng(0)
    columns = [Attribute(n, 3, labels=("x", "y"), type="string", missing=()) for n in "abc"]
    domain = Domain(columns, rules=Rules.parse(["b needs a"], {}))
    shares = ([0.4, 0.2, 0.4], [0.2, 0.1, 0.7], [0.3, 0.3, 0.4])
    codes = np.column_stack([rng.choice(3, size=5000, p=p) for p in shares])
    table = Table(codes, domain)
    drawn = table.obeying(rng)
    assert not ((drawn.codes[:, 1] != 2) & (drawn.codes[:, 0] == 2)).any()
    assert all(np.array_equal(drawn.counts([n]), table.counts([n])) for n in "abc")


def test_rows_without_one_that_holds_are_found_by_search():
    columns = [Attribute(n, 2, "numeric", edges=(0.0, 1.0, 2.0), type="integer") for n in "ab"]
    domain = Domain(columns, rules=Rules.parse(["a < b"], {}))
    assert Table([[1, 0]] * 3, domain).obeying(np.random.default_rng(0)).codes.tolist() == [[0, 1]] * 3
    assert not len(some_possible(columns, Rules.parse(["a < b", {"never": {"a": ["< 1"], "b": [">= 1"]}}], {})))


def test_a_table_without_rules_is_drawn_as_ever():
    table = Table([[0, 1], [1, 0]], Domain.from_sizes({"a": 2, "b": 2}))
    assert table.obeying(np.random.default_rng(0)) is table


def test_numbers_of_dates_are_seconds():
    day = Attribute("day", 2, "numeric", edges=(0.0, 9.0), type="date", missing=())
    column = pd.Series(np.array(["1970-01-02", "NaT"], dtype="datetime64[s]"))
    assert numbers_in(column, np.array([0, 1]), day).tolist()[0] == 86400
