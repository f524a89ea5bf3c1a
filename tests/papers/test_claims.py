"""Every wing's statements and judges belong together, and one loop makes verdicts of them."""

import csv
import math
import re
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

from marginalia import papers
from marginalia.papers.chebyshev.chebyshev_x1 import TOLERANCE
from marginalia.papers.claims import Found, verdicts
from marginalia.papers.cross_paper import judges as cross_paper
from marginalia.papers.dd_ssp import dd_ssp_cells
from marginalia.papers.excess_risk import judges as excess_risk
from marginalia.papers.reduced_space import judges as reduced_space
from marginalia.papers.registry import comparison
from marginalia.reporting.verdicts import COLUMNS

FILES = {path.parent.name: path for path in sorted(Path(papers.__file__).parent.glob("*/claims.csv"))}


def listed(wing):
    with FILES[wing].open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def judges_of(wing):
    return import_module(f"marginalia.papers.{wing}.judges").JUDGES


def test_every_claim_has_a_place_a_test_and_a_judge():
    for wing in FILES:
        claims = listed(wing)
        ids = [claim["id"] for claim in claims]
        assert len(set(ids)) == len(ids), wing
        assert set(ids) == set(judges_of(wing)), wing
        assert all(claim[column] for claim in claims for column in ("id", "place", "claim", "test")), wing
        assert set(claims[0]) <= {"id", "sentence", "whose", "place", "claim", "test", "sets", "note"}, wing
    assert set(FILES) == {path.parent.name for path in Path(papers.__file__).parent.glob("*/judges.py")}


def test_each_sentence_is_counted_once_and_apart_from_what_is_ours():
    for wing in FILES:
        claims = listed(wing)
        assert {claim["whose"] for claim in claims} <= {"paper", "ours", "repeat"}, wing
        assert all(claim["sentence"] for claim in claims), wing
        ours = {claim["id"] for claim in claims if claim["place"] == "our addition"}
        assert ours <= {claim["id"] for claim in claims if claim["whose"] == "ours"}, wing
        again = {claim["id"] for claim in claims if claim["claim"] == "the same over random splits"}
        assert again <= {claim["id"] for claim in claims if claim["whose"] == "repeat"}, wing
    named = {claim["sentence"] for wing in set(FILES) - {"cross_paper"} for claim in listed(wing)}
    repeats = [claim["sentence"] for claim in listed("cross_paper") if claim["whose"] == "repeat"]
    assert set(repeats) <= named  # each is judged on the page of its paper
    assert len({c["sentence"] for c in listed("excess_risk") if c["id"].startswith("figure4_published")}) == 1


def test_without_tables_nothing_is_tested():
    for wing in FILES:
        table = verdicts(FILES[wing], judges_of(wing), {})
        assert tuple(table.columns) == COLUMNS
        assert list(table["id"]) == [claim["id"] for claim in listed(wing)], wing
        assert set(table["verdict"]) == {"not tested"}, wing
        assert comparison(f"{wing}_verdicts").paper == wing


def test_the_numbers_in_the_statements_are_those_of_the_judges():
    """A statement is text; what its judge compares with is code."""
    tests = {(wing, claim["id"]): claim["test"] for wing in FILES for claim in listed(wing)}
    stated = {
        **{("chebyshev", f"rate_{i}"): TOLERANCE for i in ("below", "equal", "above")},
        **{("chebyshev", i): TOLERANCE for i in ("polynomials", "in_epsilon", "optimal")},
        **{("reduced_space", i): reduced_space.MARGIN for i in ("S2.4", "S4a", "S4b")},
        ("reduced_space", "S2.7b"): reduced_space.SLIGHTLY,
        **{("cross_paper", i): 100 * math.expm1(cross_paper.MARGIN["mse"]) for i in ("x5", "x7")},
        **{("cross_paper", i): cross_paper.MARGIN["auc"] for i in ("x4", "x6", "x8", "x9", "x10", "x12", "x13")},
        **{("dd_ssp", i): 100 * dd_ssp_cells.MARGIN["mse"] for i in ("c01", "c01s", "c11a", "c11c")},
        **{("dd_ssp", i): dd_ssp_cells.MARGIN["auc"] for i in ("c04", "c06", "c11b", "c11d")},
        **{("dd_ssp", i): 100 * dd_ssp_cells.SIMILAR for i in ("c03", "c03s", "c03p", "c03ps")},
        **{("excess_risk", f"figure4_{a}_pate"): excess_risk.MARGIN for a in ("published", "exact", "equal_terms")},
    }
    wrong = {
        key: (value, tests[key])
        for key, value in stated.items()
        if not any(math.isclose(float(n), value, rel_tol=1e-9) for n in re.findall(r"\d*\.\d+|\d+", tests[key]))
    }
    assert not wrong


CLAIMS = """id,sentence,whose,place,claim,test,sets,note
a,a,paper,Section 1,it holds,so it does,made-up rows,as stated
b,a,ours,Section 2,"it holds, too",so it does,,
"""


@pytest.fixture
def judged(tmp_path):
    (tmp_path / "toy").mkdir()
    path = tmp_path / "toy" / "claims.csv"
    path.write_text(CLAIMS)

    def judged(judges, **tables):
        return verdicts(path, judges, tables).set_index("id")

    return judged


def test_a_claim_is_judged_once_its_tables_are_there(judged):
    def both(first, second):
        return Found([*(first["x"] > 0), *(second["x"] > 0)], ["Adult"], "counted")

    judges = {"a": (both, ("one", "two")), "b": (lambda table: Found(table["x"] > 0), ("comparison_one",))}
    rows = pd.DataFrame({"x": [1, -1]})
    found = judged(judges, toy_one=rows, toy_two=rows, comparison_toy_one=rows)
    assert found.loc["a", ["held", "tested", "sets", "note"]].tolist() == [2, 4, "Adult", "as stated; counted"]
    assert found.loc["b", ["held", "tested", "sets", "note"]].tolist() == [1, 2, "", ""]
    for tables in ({"toy_one": rows}, {"toy_one": rows, "toy_two": rows[:0]}):
        missing = judged(judges, **tables)
        assert missing.loc["a", ["tested", "verdict", "sets", "note"]].tolist() == [0, "not tested", "", "as stated"]


def test_a_test_in_each_cell_is_judged_by_its_p_value(judged):
    judges = {
        "a": (lambda table: Found(p=table["p"], level=0.05), ("one",)),
        "b": (lambda table: Found(p=table["p"].head(2), level=0.05), ("one",)),
    }
    found = judged(judges, toy_one=pd.DataFrame({"p": [0.01, 0.04, 0.9, *[0.5] * 17]}))
    assert found.loc["a", ["held", "tested", "verdict", "holm"]].tolist() == [2, 20, "no more than chance", 0]
    assert found.loc["a", "sets"] == "made-up rows"
    assert found.loc["b", ["held", "tested", "verdict", "holm", "whose"]].tolist() == [2, 2, "held", 2, "ours"]


def test_a_table_that_may_be_missing_is_none(judged):
    def either(first, second):
        return Found([table is not None for table in (first, second)])

    judges = {"a": (either, ("one?", "two?")), "b": (either, ("one", "two?"))}
    rows = pd.DataFrame({"x": [1]})
    assert judged(judges, toy_two=rows).loc["a", ["held", "tested", "sets"]].tolist() == [1, 2, "made-up rows"]
    assert judged(judges, toy_two=rows).loc["b", "verdict"] == "not tested"
    assert judged(judges, toy_one=rows).loc["b", ["held", "tested"]].tolist() == [1, 2]
    assert set(judged(judges)["verdict"]) == {"not tested"}
