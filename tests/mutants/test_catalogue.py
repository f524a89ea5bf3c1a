"""The catalogue of deliberate bugs keeps step with the sources: every patch fits, every test that it names exists."""

import ast
import csv
import re

from mutants import CATALOGUE, SOURCE, TESTS, call_checks, call_mutants, catalogue
from run import Outcome, keep

MUTANTS = catalogue()


def test_every_patch_fits_and_compiles():
    broken = {}
    for mutant in MUTANTS:
        try:
            source = mutant.source()  # ValueError where the text is not there exactly once
            compile(source, mutant.file, "exec")
        except (ValueError, SyntaxError) as error:
            broken[mutant.id] = str(error)
        else:
            if source == mutant.path.read_text(encoding="utf-8"):
                broken[mutant.id] = "changes nothing"
    assert broken == {}


def test_every_mutant_says_what_it_breaks_and_who_must_see_it():
    assert [m.id for m in MUTANTS if not re.fullmatch(r"[A-Z].*\.", m.breaks) or not m.caught_by] == []


def test_ids_are_unique():
    ids = [mutant.id for mutant in MUTANTS]
    assert len(set(ids)) == len(ids)
    assert len(MUTANTS) >= 54 + 25


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


def test_every_changed_call_has_a_test_that_must_see_it():
    mutants = list(call_mutants())
    assert len(mutants) > 50
    for mutant in mutants:
        compile(mutant.source(), mutant.file, "exec")
        assert mutant.caught_by, f"no test is named for the calls in {mutant.file}"
    assert set(call_checks()) <= {mutant.file for mutant in mutants}
    assert all((SOURCE / file).is_file() for file in call_checks())


def test_a_table_of_answers_has_rows_for_what_was_asked_alone(tmp_path):
    """Others were blank lines among those of the documentation."""
    one, two = MUTANTS[:2]
    table = tmp_path / "answers.csv"
    keep([Outcome(two, "caught", "privacy/test_ledger.py::test_sums", 1.0)], table, "tests")
    keep([Outcome(one, "SURVIVED", "10 tests passed", 1.0)], table, "tests")
    keep([Outcome(two, "caught", "aim: leak", 1.0)], table, "audits")
    with table.open(newline="", encoding="utf-8") as file:
        rows = [(row["mutant"], row["tests"], row["audits"]) for row in csv.DictReader(file)]
    assert rows == [(one.id, "SURVIVED", ""), (two.id, "privacy/test_ledger.py::test_sums", "aim: leak")]
