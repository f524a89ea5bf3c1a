"""Rows that are drawn obey every rule, in raw values, for any domain, rules and codes."""

import itertools
from functools import partial
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marginalia.data import Column, Domain, Table
from marginalia.data.rules.feasible import feasible_row, is_feasible, zeros_of_rules
from marginalia.data.rules.ranges import Ranges
from marginalia.data.rules.rules import Needs, Order, Rules
from marginalia.data.table import write_batches
from marginalia.errors import InputError

TYPES = ("integer", "number", "decimals", "date", "hour", "codes")


@st.composite
def attributes(draw, name, kind):
    """Return a column of numbers, dates or times: labels or bins, open or not, with markers that are numbers or not."""
    if kind == "codes":
        return Column(name, draw(st.integers(1, 5)))
    times = kind in ("date", "hour")
    keys = {"hour": {"type": "timestamp", "unit": "hour"}, "decimals": {"type": "number", "decimals": 1}}.get(
        kind, {"type": kind}
    )
    number = {"date": "1970-01-04", "hour": "1970-01-01T03:00"}.get(kind, "3")
    keys["missing"] = draw(st.sampled_from([None, (), ("?",), (number,)]))
    keys["special"] = draw(st.sampled_from([(), (), ("refused",)]))
    more = (keys["missing"] is not None) + len(keys["special"])
    if draw(st.booleans()) and not times:
        values = draw(st.lists(st.integers(-6, 6).filter(lambda v: v != 3), min_size=1, max_size=4, unique=True))
        labels = tuple(map(str, sorted(values)))
        return Column(name, len(labels) + more, labels=labels, **keys)
    steps = {"number": [0.5, 1, 2.25, 1e-9], "decimals": [0.1, 0.3, 1, 2.5]}.get(kind, [1, 2, 3])
    edges = np.cumsum([draw(st.integers(-5, 5)), *draw(st.lists(st.sampled_from(steps), min_size=1, max_size=4))])
    edges = edges.round(1) if kind == "decimals" else edges
    ends = {"bottom": draw(st.booleans()), "top": draw(st.booleans())}
    try:
        return Column(name, len(edges) - 1 + more, "numeric", edges=tuple(edges.tolist()), **ends, **keys)
    except InputError:  # a bin of missing values alone
        return Column(name, 2, "numeric", edges=(0.0, 4.0, 8.0), **{**keys, "missing": None, "special": ()})


@st.composite
def domains(draw):
    """Return columns and rules: chains of orders, needs, and sets of labels, bins and missing values."""
    n = draw(st.integers(2, 6))
    kinds = draw(st.sampled_from([TYPES[3:5], TYPES[:3] + TYPES[5:]]))
    columns = [draw(attributes(f"n{i}", draw(st.sampled_from(kinds)))) for i in range(n)]
    columns += [Column(f"s{i}", 3, labels=("x", "y"), type="string", missing=()) for i in range(2)]
    columns.append(Column("flag", 2, type="boolean"))
    names = [c.name for c in columns]
    optional = [c.name for c in columns if c.missing is not None]
    rules = []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["order", "order", "needs", "never"]))
        if kind == "order":
            chain = sorted(draw(st.lists(st.sampled_from(names[:n]), min_size=2, max_size=6, unique=True)))
            rules.append(chain[0] + "".join(f" {draw(st.sampled_from(['<', '<=']))} {name}" for name in chain[1:]))
        elif kind == "needs":
            one = draw(st.sampled_from(optional))
            others = draw(
                st.lists(st.sampled_from([n for n in names if n != one]), min_size=1, max_size=2, unique=True)
            )
            rules.append(f"{one} needs {', '.join(others)}")
        else:
            able = st.sampled_from([c for c in columns if never_of(c)])
            chosen = draw(st.lists(able, min_size=2, max_size=3, unique_by=lambda c: c.name))
            rules.append({"never": {c.name: [draw(st.sampled_from(never_of(c)))] for c in chosen}})
    return columns, rules


def never_of(column):
    """Return what a set of `never` may name of a column."""
    known = [text for text in column.texts if text != "missing"] if column.edges is None else []
    if column.edges is not None:
        inner = column.edges[1:-1] if column.type != "timestamp" else ()
        written = [str(np.datetime64(int(e), "D")) if column.type == "date" else f"{e!r}" for e in inner]
        known = [f"{sign} {edge}" for edge in written for sign in ("<", ">=")]
    return [*known, "missing"] if column.missing is not None else known


def comparable(cells, column):
    """Return cells as numbers: of dates and times, seconds."""
    if column.counted_in is not None:
        return np.array([pd.Timestamp(cell).timestamp() for cell in cells])
    return np.array([float(cell) for cell in cells])


def broken(frame, codes, domain):
    """Return which rows break a rule, by the cells of a frame or a file; written apart from the code under test."""
    bad = np.zeros(len(frame), dtype=bool)
    at = {a.name: codes[:, j] for j, a in enumerate(domain)}
    gone = {a.name: at[a.name] == (-1 if a.missing is None else a.size - 1) for a in domain}
    number = {a.name: ~gone[a.name] & ~np.isin(at[a.name], a.special_codes) for a in domain}

    def among(name, text):
        column, cells = domain[name], frame[name].to_numpy(dtype=object)
        if text == "missing":
            return gone[name]
        found = np.zeros(len(frame), dtype=bool)
        if column.edges is None:
            said = {"false": "False", "true": "True"}.get(text, text)
            found[:] = [str(cell) == said for cell in cells]
            if column.type in ("integer", "number") and text not in column.special:
                found[number[name]] = comparable(cells[number[name]], column) == float(text)
            return found & ~gone[name]
        sign, edge = text.split()
        here = number[name]
        values, limit = comparable(cells[here], column), comparable([edge], column)
        found[here] = values < limit if sign == "<" else values >= limit
        return found

    for rule in domain.rules.rules:
        if isinstance(rule, Order):
            for i, j in itertools.combinations(range(len(rule.columns)), 2):
                a, b = rule.columns[i], rule.columns[j]
                there = number[a] & number[b]
                x, y = (comparable(frame[c][there], domain[c]) for c in (a, b))
                bad[there] |= (x >= y) if any(rule.strict[i:j]) else (x > y)
        elif isinstance(rule, Needs):
            for other in rule.others:
                bad |= ~gone[rule.column] & gone[other]
        else:
            bad |= np.logical_and.reduce([np.any([among(n, t) for t in texts], axis=0) for n, texts in rule.sets])
    return bad


def domain_of(columns, rules, rng):
    """Return the domain; None where the rules are refused, and then no row of any that are drawn obeys them."""
    plain = Domain(columns)
    parsed = Rules.parse(rules, {})
    try:
        return Domain(columns, rules=parsed)
    except InputError as error:
        message = str(error)
    assert message == "the rules leave no possible row; take one of them out, or change the bins"
    codes = np.column_stack([rng.integers(a.size, size=500) for a in columns])
    frame = Table(codes, plain).to_frame(original=True, random_state=rng)
    plain.rules = parsed
    assert broken(frame, codes, plain).all()
    return None


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(domains(), st.integers(0, 2**32 - 1), st.booleans())
def test_rows_that_are_drawn_obey_all_rules(given_, seed, again):
    """In memory, and in the files that are written."""
    columns, rules = given_
    rng = np.random.default_rng(seed)
    if (domain := domain_of(columns, rules, rng)) is None:
        return

    def draw(n):
        return Table(np.column_stack([rng.integers(a.size, size=n) for a in columns]), domain)

    drawn = draw(60).obeying(rng, draw if again else None)
    frame = drawn.to_frame(original=True, random_state=seed)
    assert not broken(frame, drawn.codes, domain).any()
    # Values stay in their bins: the codes of what was drawn are the codes.
    assert np.array_equal(Table.from_frame(frame, domain).codes, drawn.codes)
    with TemporaryDirectory() as folder:
        for name in ("t.csv", "t.parquet"):
            write_batches([drawn, drawn], domain, f"{folder}/{name}", random_state=seed)
            read = pd.read_parquet if name.endswith("parquet") else partial(pd.read_csv, dtype=str)
            assert not broken(read(f"{folder}/{name}"), np.tile(drawn.codes, (2, 1)), domain).any()
            assert np.array_equal(Table.read(f"{folder}/{name}", domain=domain).codes[:60], drawn.codes)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(domains(), st.integers(0, 2**32 - 1))
def test_no_row_that_obeys_is_taken_for_infeasible(given_, seed):
    """Any raw row that obeys has feasible codes, outside the zeros of every model: nothing true is lost."""
    columns, rules = given_
    rng = np.random.default_rng(seed)
    if (domain := domain_of(columns, rules, rng)) is None:
        return
    plain = Domain(columns)
    codes = np.column_stack([rng.integers(a.size, size=200) for a in columns])
    frame = Table(codes, plain).to_frame(original=True, random_state=rng)
    for j, a in enumerate(columns):  # open bins hold what lies beyond their edges
        if a.edges is not None and a.counted_in is None and not a.special:
            far = rng.random(len(frame)) < 0.5
            frame.loc[far & (codes[:, j] == 0), a.name] -= 7 if a.bottom else 0
            frame.loc[far & (codes[:, j] == a.n_values - 1), a.name] += 7 if a.top else 0
    coded = codes_of_frame(frame, plain, codes)
    obeys = ~broken(frame, coded, domain)
    named = {a.name: a for a in columns}
    assert is_feasible(dict(zip(named, coded.T, strict=True)), named, domain.rules)[obeys].all()
    for zeros in domain.structural_zeros:
        cells = set(zeros.cells)
        at = [domain.index(n) for n in zeros.attributes]
        assert not [row for row in coded[obeys][:, at].tolist() if tuple(row) in cells]


def codes_of_frame(frame, plain, codes):
    """Return the codes of a frame; values that moved onto a marker have that of missing ones."""
    try:
        return Table.from_frame(frame, plain).codes
    except InputError:
        return codes


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(TYPES))
def test_numbers_of_a_grid_are_the_nearest_ones(data, kind):
    """By brute force over the numbers that the column can hold in its bins."""
    column = data.draw(attributes("x", kind))
    ranges = Ranges.of(column)
    if column.edges is None or not ranges.parts:
        return
    step = ranges.seconds / ranges.parts
    count = round((column.edges[-1] - column.edges[0]) * ranges.seconds / step)
    first = round(column.edges[0] * ranges.parts)
    held = np.array([(first + i) * ranges.seconds / ranges.parts for i in range(-3, count + 4)])
    held = held[~np.isin(held / ranges.seconds, list(ranges.missing))]
    x = np.concatenate([held[2:-2], held[2:-2] + step / 3])
    for strict in (False, True):
        up = [min(h for h in held if (h > y if strict else h >= y)) for y in x]
        down = [max(h for h in held if (h < y if strict else h <= y)) for y in x]
        assert ranges.at_least(x, strict=strict).tolist() == up
        assert ranges.at_most(x, strict=strict).tolist() == down


def test_a_zero_of_an_order_is_a_pair_without_values():
    """By brute force over all pairs of whole numbers, bins open or not."""
    for edges in ((0, 2, 5), (1, 3, 4)):
        for strict in (False, True):
            a = Column("a", 2, "numeric", edges=(0.0, 6.0, 8.0), type="integer", bottom=True)
            b = Column("b", 2, "numeric", edges=tuple(map(float, edges)), type="integer", top=strict)
            rules = Rules.parse([f"a {'<' if strict else '<='} b"], {})
            held = set()
            for x in range(-9, 8):
                for y in range(edges[0], 9 if strict else edges[-1]):
                    if x < y or (x == y and not strict):
                        held.add((int(x >= 6), int(y >= edges[1])))
            every = {(i, j) for i in range(2) for j in range(2)}
            zeros = {cell for z in zeros_of_rules({"a": a, "b": b}, rules) for cell in z.cells}
            assert zeros == every - held


def test_a_chain_has_zeros_past_a_column_that_may_be_missing():
    """Not past one that always has a value: the zeros of its neighbours imply them."""
    columns = [Column(n, 3, "numeric", edges=(0.0, 1.0, 2.0, 3.0), type="integer") for n in "abcd"]
    columns[1] = columns[1].replace(size=4, missing=())
    domain = Domain(columns, rules=Rules.parse(["a <= b <= c < d"], {}))
    zeros = {z.attributes: set(z.cells) for z in domain.structural_zeros}
    assert list(zeros) == [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c")]
    assert zeros["a", "c"] == {(1, 0), (2, 0), (2, 1)}
    assert ("b", "d") not in zeros


def test_a_middle_without_a_value_does_not_loosen_a_chain():
    columns = [Column(n, 3, "numeric", edges=(0.0, 5.0, 9.0), type="integer", missing=()) for n in ("a", "b", "c")]
    domain = Domain(columns, rules=Rules.parse(["a <= b < c"], {}))
    rows = Table([[1, 2, 0], [1, 2, 1], [0, 0, 0]] * 50, domain).obeying(np.random.default_rng(0))
    frame = rows.to_frame(original=True, random_state=0)
    assert (frame["a"] < frame["c"]).all()
    assert (rows.codes[:, 1] == 2).any()


def test_bins_drawn_under_an_order_have_the_law_of_bins_given_the_order():
    """Of two equal bins: the density of the smaller one falls linearly."""
    columns = [Column(n, 1, "numeric", edges=(0.0, 100.0), type="integer") for n in "ab"]
    domain = Domain(columns, rules=Rules.parse(["a <= b"], {}))
    frame = Table(np.zeros((40_000, 2), dtype=int), domain).to_frame(original=True, random_state=1)
    assert (frame["a"] <= frame["b"]).all()
    x = np.arange(100)
    assert abs(frame["a"].mean() - (x * (100 - x)).sum() / (100 - x).sum()) < 0.5
    assert frame["a"].value_counts(normalize=True).max() < 0.035


def test_values_of_a_tight_order_are_found_one_after_the_other():
    """Eight columns in one bin: one row in 8! is in order by chance."""
    columns = [Column(f"x{i}", 1, "numeric", edges=(0.0, 9.0), type="integer") for i in range(8)]
    domain = Domain(columns, rules=Rules.parse([" < ".join(a.name for a in columns)], {}))
    frame = Table(np.zeros((500, 8), dtype=int), domain).to_frame(original=True, random_state=1)
    assert (np.diff(frame.to_numpy(), axis=1) > 0).all()
    assert frame.nunique().min() > 1


def test_an_open_bin_is_left_through_its_open_end_alone():
    a = Column("a", 1, "numeric", edges=(30.0, 40.0), type="integer")
    b = Column("b", 1, "numeric", edges=(0.0, 10.0), type="integer", top=True)
    rules = Rules.parse(["a < b"], {})
    frame = Table(np.zeros((99, 2), dtype=int), Domain([a, b], rules=rules)).to_frame(original=True)
    assert (frame["a"] < frame["b"]).all()
    assert frame["a"].between(30, 39).all()
    closed = Column("b", 1, "numeric", edges=(0.0, 10.0), type="integer")
    with pytest.raises(InputError, match="leave no possible row"):
        Domain([a, closed], rules=rules)


def test_values_that_are_sorted_have_the_law_of_the_order():
    """Of columns of one bin: the mean of the i-th of n is that of an order statistic."""
    columns = [Column(f"x{i}", 1, "numeric", edges=(0.0, 1.0), type="number") for i in range(9)]
    domain = Domain(columns, rules=Rules.parse([" <= ".join(a.name for a in columns)], {}))
    frame = Table(np.zeros((4000, 9), dtype=int), domain).to_frame(original=True, random_state=1)
    assert np.abs(frame.mean().to_numpy() - np.arange(1, 10) / 10).max() < 0.01


def test_fractions_next_to_a_special_text_are_kept():
    """A column with special texts is one of objects, and its numbers are no integers."""
    a, b = (Column(n, 2, "numeric", edges=(0.0, 1.0), type="number", special=("refused",), decimals=2) for n in "ab")
    frame = Table(np.zeros((200, 2), dtype=int), Domain([a, b], rules=Rules.parse(["a < b"], {}))).to_frame(
        original=True, random_state=0
    )
    assert (frame["a"] < frame["b"]).all()
    assert len(frame["b"].unique()) > 20


def test_decimals_stay_what_they_are():
    """A grid of cents, as far as a column knows one."""
    nothing = np.full(1, np.nan)
    cents = Ranges(nothing, nothing, nothing, nothing, 1, 100, frozenset({0.03}))
    x = np.array([0.01, 0.29, 1.1, 4.35, 0.021])
    assert cents.at_least(x).tolist() == [0.01, 0.29, 1.1, 4.35, 0.04]
    assert cents.at_most(x, strict=True).tolist() == [0.0, 0.28, 1.09, 4.34, 0.02]


def uniform(domain, rng):
    """Return a function that draws rows of a domain, uniform and independent."""
    return lambda n: Table(np.column_stack([rng.integers(a.size, size=n) for a in domain]), domain)


def test_infeasible_rows_are_replaced_by_rows_of_the_same_law():
    """Rejection: all columns have the law of the drawn rows given the rules, and feasible rows stay in their place."""
    rng = np.random.default_rng(0)
    columns = [Column(n, 3, "numeric", edges=(0.0, 1.0, 2.0, 3.0), type="integer") for n in "abc"]
    domain = Domain(columns, rules=Rules.parse(["a <= b"], {}))
    draw = uniform(domain, rng)
    table = draw(60_000)
    rows = table.obeying(rng, draw)
    fine = table.codes[:, 0] <= table.codes[:, 1]
    assert np.array_equal(rows.codes[fine], table.codes[fine])
    counts = rows.counts(["a", "b", "c"]) / len(rows)
    law = np.broadcast_to(np.triu(np.ones((3, 3)))[:, :, None] / 18, (3, 3, 3))
    assert np.abs(counts - law).max() < 0.003
    assert np.array_equal(table.obeying(np.random.default_rng(1)).codes[fine], table.codes[fine])


def test_rows_are_repeated_only_after_all_samples():
    """One row in 2^12 is feasible: 32 samples of 1,024 rows hold about eight."""
    columns = [Column(f"x{i}", 2, labels=("x",), type="string", missing=()) for i in range(12)]
    columns.append(Column("y", 1000))
    rules = Rules.parse([{"never": {f"x{i}": "missing", "y": list(map(str, range(1000)))}} for i in range(12)], {})
    rng = np.random.default_rng(0)
    domain = Domain(columns, rules=rules)
    draw = uniform(domain, rng)
    rows = draw(20).obeying(rng, draw)
    assert not rows.codes[:, :12].any()
    assert 1 < len(set(rows.column("y").tolist())) <= 20
    few = Domain([c.replace(name=c.name) for c in columns[:2]], rules=Rules.parse(["x0 needs x1"], {}))
    asked = []

    def record(n):
        asked.append(n)
        return uniform(few, rng)(n)

    uniform(few, rng)(5000).obeying(rng, record)
    assert asked == [5000]  # three rows of four are feasible


def test_rows_are_found_by_search_where_no_sample_has_one():
    columns = [Column(n, 2, "numeric", edges=(0.0, 1.0, 2.0), type="integer") for n in "ab"]
    domain = Domain([*columns, Column("c", 9)], rules=Rules.parse(["a < b"], {}))
    table = Table([[1, 0, c] for c in range(9)], domain)
    rows = table.obeying(np.random.default_rng(0), lambda n: Table([[1, 0, 3]] * n, domain))
    assert rows.codes.tolist() == [[0, 1, c] for c in range(9)]


def test_a_contradiction_of_learned_columns_is_refused_when_rows_are_drawn():
    """The domain of a fit is not refused, for that would reveal labels; its rows are."""
    ward = Column("ward", 3, labels=("x",), type="string", other="other", missing=(), lenient=True)
    columns = [ward, Column("sex", 1, labels=("f",), type="string")]
    rule = {"never": {"ward": ["x", "other", "missing"], "sex": "f"}}
    domain = Domain(columns, rules=Rules.parse([rule], {}))
    with pytest.raises(InputError, match="leave no possible row"):
        Table([[0, 0]], domain).obeying(np.random.default_rng(0))


def test_contradictions_of_many_columns_are_found():
    """A chain that is too long for its bins, and sets that leave no label, far from the first column."""
    bins = [Column(f"x{i}", 20, "numeric", edges=tuple(map(float, range(21))), type="integer") for i in range(21)]
    rule = " < ".join(a.name for a in bins)
    with pytest.raises(InputError, match="leave no possible row"):
        Domain(bins, rules=Rules.parse([rule], {}))
    fine = Domain([*bins[:-1], bins[-1].replace(top=True)], rules=Rules.parse([rule], {}))
    assert set(feasible_row({a.name: a for a in fine}, fine.rules).values()) == {*range(20)}
    other = [Column(f"s{i}", 2, labels=("x", "y"), type="string") for i in range(30)]
    never = [{"never": {"s28": s, "s29": t}} for s in "xy" for t in "xy"]
    with pytest.raises(InputError, match="leave no possible row"):
        Domain(other, rules=Rules.parse([*never, *({"never": {"s0": "x", f"s{i}": "x"}} for i in range(1, 28))], {}))


def test_a_table_without_rules_is_drawn_as_ever():
    table = Table([[0, 1], [1, 0]], Domain.from_sizes({"a": 2, "b": 2}))
    assert table.obeying(np.random.default_rng(0)) is table
