"""The catalogue of deliberate bugs matches the sources: every edit fits, and every named test exists."""

import ast
import csv
import re
from functools import cache

import mutants
import pytest
from mutants import CATALOGUE, SOURCE, TESTS, Mutant, call_checks, call_mutants, catalogue
from patterns import Edit
from run import Outcome, Patched, keep

MUTANTS = catalogue()


@cache
def changed():
    return list(call_mutants())


def test_every_edit_fits():
    problems = []
    for mutant in MUTANTS:
        try:
            mutant.tree()
        except ValueError as error:
            problems.append(str(error))
    assert problems == []


@pytest.mark.slow
def test_every_mutant_compiles():
    for mutant in [*MUTANTS, *changed()]:
        compile(mutant.tree(), mutant.file, "exec", dont_inherit=True)


def test_every_mutant_has_a_sentence_and_a_test():
    assert [m.id for m in MUTANTS if not re.fullmatch(r"[A-Z].*\.", m.breaks) or not m.caught_by] == []


def test_ids_are_unique():
    ids = [mutant.id for mutant in [*MUTANTS, *changed()]]
    assert len(set(ids)) == len(ids)
    assert len(MUTANTS) >= 54 + 25


@cache
def functions_of(file):
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_tests_that_must_fail_exist():
    named = {check for mutant in MUTANTS for check in mutant.caught_by}
    named |= {check for checks in call_checks().values() for check in checks}
    for check in sorted(named):
        file, _, rest = check.partition("::")
        assert (TESTS / file).is_file(), f"{CATALOGUE.name} names {file}"
        if rest:
            assert rest.partition("[")[0] in functions_of(file), f"{CATALOGUE.name} names {check}"


def test_every_changed_call_has_a_test():
    assert len(changed()) > 50
    for mutant in changed():
        assert mutant.caught_by, f"no test is named for the calls in {mutant.file}"
    assert set(call_checks()) <= {mutant.file for mutant in changed()}
    assert all((SOURCE / file).is_file() for file in call_checks())


def test_a_table_of_results_has_rows_for_the_mutants_that_ran_only(tmp_path, monkeypatch):
    monkeypatch.setattr("run.call_mutants", changed)
    one, two = MUTANTS[:2]
    table = tmp_path / "answers.csv"
    keep([Outcome(two, "caught", "privacy/test_ledger.py::test_sums", 1.0)], table, "tests")
    keep([Outcome(one, "SURVIVED", "10 tests passed", 1.0)], table, "tests")
    keep([Outcome(two, "caught", "aim: leak", 1.0)], table, "audits")
    with table.open(newline="", encoding="utf-8") as file:
        rows = [(row["mutant"], row["tests"], row["audits"]) for row in csv.DictReader(file)]
    assert rows == [(one.id, "SURVIVED", ""), (two.id, "privacy/test_ledger.py::test_sums", "aim: leak")]


# Edits of made-up modules.

MODULE_TEXT = """
LIMIT = 1e-9
LOW, HIGH = 1, 2


@decorated(cache=True)
def scaled(values, factor=2.0):
    # half of the range
    if factor > 1:
        values = clip(values, -1, 1)
        values = values / factor
    return total(values)


class Ledger:
    LIMIT = 5

    def append(self, event):
        if self.closed:
            raise ValueError(f"closed: {event.name}")
        self.check(event)
        self.events.append(event)

    def left(self):
        def share(epsilon):
            return epsilon / 2

        return [share(e) for e in self.events]


class Book(Ledger):
    def left(self):
        return record("left", self.name, limit=1, label="x")


if LIMIT:
    scaled.limit = LIMIT
"""


def edited(symbol, old, new, text=MODULE_TEXT):
    """Return the lines that an edit removes from a module and adds to it."""
    tree = ast.parse(text)
    Edit(symbol, old, new).apply(tree)
    compile(tree, "made_up.py", "exec")
    before, after = ast.unparse(ast.parse(text)).splitlines(), ast.unparse(tree).splitlines()
    return [x.strip() for x in before if x not in after], [x.strip() for x in after if x not in before]


@pytest.mark.parametrize(
    ("symbol", "old", "new", "removed", "added"),
    [
        pytest.param(
            "scaled", "values / factor", "values", "values = values / factor", "values = values", id="function"
        ),
        pytest.param(
            "Ledger.append", "self.closed", "False", "if self.closed:", "if False:", id="test of an if in a method"
        ),
        pytest.param(
            "Ledger.left.share", "epsilon / 2", "epsilon", "return epsilon / 2", "return epsilon", id="inner function"
        ),
        pytest.param("Ledger", "epsilon / 2", "epsilon", "return epsilon / 2", "return epsilon", id="class"),
        pytest.param("LIMIT", "1e-9", "1e-2", "LIMIT = 1e-09", "LIMIT = 0.01", id="variable of a module"),
        pytest.param("HIGH", "(1, 2)", "(1, 3)", "LOW, HIGH = (1, 2)", "LOW, HIGH = (1, 3)", id="one of two variables"),
        pytest.param("Ledger.LIMIT", "5", "6", "LIMIT = 5", "LIMIT = 6", id="variable of a class"),
        pytest.param(
            "<module>", "scaled.limit = LIMIT", "pass", "scaled.limit = LIMIT", "pass", id="code of the module"
        ),
        pytest.param(
            "scaled", "2.0", "1.0", "def scaled(values, factor=2.0):", "def scaled(values, factor=1.0):", id="default"
        ),
        pytest.param("scaled", "decorated(cache=True)", "plain", "@decorated(cache=True)", "@plain", id="decorator"),
        pytest.param(
            "Ledger.append",
            "event.name",
            "event",
            "raise ValueError(f'closed: {event.name}')",
            "raise ValueError(f'closed: {event}')",
            id="expression in an f-string",
        ),
        pytest.param(
            "Book.left",
            "record(..., limit=1)",
            "record(..., limit=2)",
            "return record('left', self.name, limit=1, label='x')",
            "return record('left', self.name, limit=2, label='x')",
            id="one argument of a call",
        ),
        pytest.param(
            "Book.left",
            'record("left", ..., label="x")',
            'record("right", ..., unit=3)',
            "return record('left', self.name, limit=1, label='x')",
            "return record('right', self.name, limit=1, unit=3)",
            id="other arguments of a call",
        ),
        pytest.param(
            "Book.left",
            "return record(...)",
            "return wrapped(record(...))",
            "return record('left', self.name, limit=1, label='x')",
            "return wrapped(record('left', self.name, limit=1, label='x'))",
            id="call with any arguments",
        ),
    ],
)
def test_an_expression_is_replaced(symbol, old, new, removed, added):
    assert edited(symbol, old, new) == ([removed], [added])


def test_formatting_comments_and_quotes_do_not_matter():
    text = 'def f(x):\n    return g(\n        x,  # the value\n        label="a",\n    )\n'
    assert edited("f", "g( x, label='a' )", "g(x)", text) == (["return g(x, label='a')"], ["return g(x)"])


def test_types_of_constants_matter():
    with pytest.raises(ValueError, match="0 times"):
        edited("f", "1.0", "2.0", "def f():\n    return 1\n")


def test_a_symbol_is_found_after_a_move():
    moved = "class Other:\n    pass\n\n\n" + MODULE_TEXT[MODULE_TEXT.index("class Ledger") :] + MODULE_TEXT[:100]
    assert edited("Ledger.append", "self.closed", "False", moved[: moved.index("if LIMIT")]) == (
        ["if self.closed:"],
        ["if False:"],
    )


def test_statements_are_replaced_inserted_and_deleted():
    both = "self.check(event)\nself.events.append(event)"
    assert edited("Ledger.append", both, "self.events += [event]") == (both.split("\n"), ["self.events += [event]"])
    assert edited("Ledger.append", "self.check(event)", "log(event)\nself.check(event)") == ([], ["log(event)"])
    assert edited("Ledger.append", both, "") == (both.split("\n"), [])
    assert edited("Ledger.append", "self.check(event)", "pass") == (["self.check(event)"], ["pass"])


def test_a_block_from_which_all_is_deleted_is_empty():
    assert edited("f", "x()", "", "def f():\n    x()\n") == (["x()"], ["pass"])


def test_statements_must_follow_one_another_in_one_block():
    with pytest.raises(ValueError, match="0 times"):
        edited("scaled", "values = values / factor\nreturn total(values)", "return 0")


def test_a_placeholder_keeps_a_block():
    assert edited("scaled", "if factor > 1:\n    ...", "while factor > 1:\n    ...") == (
        ["if factor > 1:"],
        ["while factor > 1:"],
    )
    unwrapped = edited("f", "if a:\n    ...\nelse:\n    ...", "...\n...", "def f():\n    if a: x()\n    else: y()\n")
    assert unwrapped == (["if a:", "x()", "else:", "y()"], ["x()", "y()"])
    with pytest.raises(ValueError, match="more placeholders"):
        edited("scaled", "return total(values)", "if values:\n    ...")


def test_an_ellipsis_elsewhere_is_no_placeholder():
    text = "def f(x):\n    return x[..., 0] + x[1, 0]\n"
    assert edited("f", "x[..., 0]", "x[..., 1]", text) == (
        ["return x[..., 0] + x[1, 0]"],
        ["return x[..., 1] + x[1, 0]"],
    )


@pytest.mark.parametrize(
    ("symbol", "old", "count"),
    [
        ("scaled", "values - factor", 0),
        ("scaled", "clip(values)", 0),
        ("Ledger", "event", 3),
        ("<module>", "epsilon / 2", 0),
    ],
)
def test_a_pattern_must_occur_once(symbol, old, count):
    with pytest.raises(ValueError, match=rf"{re.escape(symbol)} contains '{re.escape(old)}' {count} times, not once"):
        edited(symbol, old, "0")


def test_new_code_has_the_lines_of_the_old_code():
    tree = ast.parse(MODULE_TEXT)
    Edit("Ledger.append", "self.check(event)", "x = 1\n\n\n\nfail(x)").apply(tree)
    line = 1 + MODULE_TEXT.splitlines().index("        self.check(event)")
    body = tree.body[3].body[1].body
    assert [statement.lineno for statement in body] == [line - 2, line, line, line + 1]


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A folder of sources with two files."""
    (tmp_path / "ledger.py").write_text(MODULE_TEXT, encoding="utf-8")
    (tmp_path / "other.py").write_text("class Account:\n    def append(self):\n        pass\n", encoding="utf-8")
    monkeypatch.setattr(mutants, "SOURCE", tmp_path)
    mutants._definitions.cache_clear()
    yield tmp_path
    mutants._definitions.cache_clear()


@pytest.mark.parametrize(
    ("file", "symbol", "old", "message"),
    [
        ("ledger.py", "Ledger.append", "0", "M1: ledger.py: Ledger.append contains '0' 0 times, not once; adapt "),
        ("ledger.py", "Ledger", "event", "M1: ledger.py: Ledger contains 'event' 3 times, not once; give more context"),
        ("ledger.py", "Account.append", "0", "M1: ledger.py has no symbol Account.append; other.py defines it: "),
        ("gone.py", "Ledger.left", "0", "M1: no file gone.py; ledger.py defines it: correct `file`"),
        ("other.py", "Old.left", "0", "there is Book.left in ledger.py, Ledger.left in ledger.py: correct `symbol`"),
        ("other.py", "Old.right", "0", "no file defines a symbol named right"),
        ("ledger.py", "LIMIT", "(1)", "M1: ledger.py: `old` and `new` are the same code in an edit of LIMIT"),
        ("ledger.py", "LIMIT", "0 +", "M1: `old` or `new` is not valid Python: "),
    ],
)
def test_an_error_tells_what_to_correct(sources, file, symbol, old, message):
    mutant = Mutant("M1", "Nothing.", file, (Edit(symbol, old, "1"),), ())
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        mutant.tree()
    assert "\n" not in str(caught.value)


def test_several_edits_are_made_one_after_the_other(sources):
    edits = (Edit("scaled", "total(values)", "mean(values)"), Edit("scaled", "mean(values)", "0"))
    assert "return 0" in ast.unparse(Mutant("M1", "Nothing.", "ledger.py", edits, ()).tree())


def test_changed_calls_are_named_by_the_enclosing_function():
    text = """
class Method:
    def _release(self, session):
        a = session.gaussian(x, sigma=1 + s)
        b = descend(y, session=session)
        session.charge(GaussianEvent(1.0, s))
"""
    found = list(mutants._of_file("made_up.py", text, ()))
    release = "made_up.py::Method._release"
    assert [mutant.id for mutant in found] == [
        f"{release}: gaussian: half the noise",
        f"{release}: gaussian: a ledger that is thrown away",
        f"{release}: descend: a ledger that is thrown away",
        f"{release}: charge: the release is not charged",
        f"{release}: GaussianEvent: charged at half the sensitivity",
    ]
    new = []
    for mutant in found:
        tree = ast.parse(text)
        mutant.edits[0].apply(tree)
        new += [line.strip() for line in ast.unparse(tree).splitlines() if line not in ast.unparse(ast.parse(text))]
    ledger = "__import__('marginalia.privacy', fromlist=['Ledger']).Ledger(session.ledger.relation)"
    thrown_away = f"__import__('marginalia.privacy', fromlist=['Session']).Session({ledger}, session.randomness)"
    assert new == [
        "a = session.gaussian(x, sigma=(1 + s) / 2)",
        f"a = {thrown_away}.gaussian(x, sigma=1 + s)",
        f"b = descend(y, session={thrown_away})",
        "pass",
        "session.charge(GaussianEvent(1.0 / 2, s))",
    ]


def test_functions_of_numba_with_a_bug_are_not_cached():
    mutant = next(mutant for mutant in MUTANTS if mutant.file == "privacy/noise/bits.py")
    calls = [node for node in ast.walk(Patched(mutant).tree) if isinstance(node, ast.Call)]
    decorators = [call for call in calls if ast.unparse(call.func) == "njit"]
    assert decorators
    assert not any(call.keywords for call in decorators)
