"""Every paper's claims and judges belong together, and one loop makes verdicts of them."""

import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginalia import papers
from marginalia.errors import InputError
from marginalia.papers.claims import Difference, Found, Names, read, verdicts
from marginalia.papers.registry import experiment
from marginalia.reporting.verdicts import COLUMNS

ROOT = Path(__file__).resolve().parents[2]
FILES = {path.parent.name: path for path in sorted(Path(papers.__file__).parent.glob("*/claims.yaml"))}
CLAIMS = {paper: read(path) for paper, path in FILES.items()}
TESTS = [(paper, claim, test) for paper, claims in CLAIMS.items() for claim in claims for test in claim.test]


def judges_of(paper):
    return getattr(import_module(f"marginalia.papers.{paper}.judges"), "JUDGES", ())


def test_every_judge_is_asked_and_every_claim_has_one():
    for paper, claims in CLAIMS.items():
        named = {claim.judge for claim in claims if claim.judge}
        assert named == {judge.__name__ for judge in judges_of(paper)}, paper


def test_each_sentence_is_counted_once_and_apart_from_what_is_ours():
    for paper, claims in CLAIMS.items():
        assert {claim.id for claim in claims if claim.place == "our addition" and claim.whose != "ours"} == set(), paper
        again = [claim for claim in claims if claim.claim == "the same over random splits"]
        assert {claim.whose for claim in again} <= {"repeat"}, paper
    named = {claim.sentence or claim.id for paper in set(CLAIMS) - {"cross_paper"} for claim in CLAIMS[paper]}
    repeats = [claim.sentence for claim in CLAIMS["cross_paper"] if claim.whose == "repeat"]
    assert set(repeats) <= named  # each is judged on the page of its paper
    assert len({c.sentence for c in CLAIMS["excess_risk"] if c.id.startswith("figure4_published")}) == 1


def test_without_tables_nothing_is_tested():
    for paper, claims in CLAIMS.items():
        table = experiment(f"{paper}_verdicts").tables
        assert experiment(f"{paper}_verdicts").paper == paper
        if paper in ("cross_paper", "dd_ssp"):  # they take the records of a sweep
            continue
        found = table(pd.DataFrame(), {})
        assert tuple(found.columns) == COLUMNS
        assert list(found["id"]) == [claim.id for claim in claims], paper
        assert set(found["verdict"]) == {"not tested"}, paper


def test_the_margin_of_a_test_stands_in_its_criterion():
    """The criterion is text for the reader; the margin decides."""
    with_margin = [(paper, claim, test.margin) for paper, claim, test in TESTS if getattr(test, "margin", 0.0) != 0.0]
    assert len(with_margin) > 40
    for paper, claim, margin in with_margin:
        numbers = [float(n) for n in re.findall(r"\d*\.\d+|\d+", claim.criterion)]
        factor = [float(n) for n in re.findall(r"\d*\.\d+|\d+", str(margin))]
        assert not factor or any(np.isclose(n, factor[0]) or np.isclose(n, 100 * factor[0]) for n in numbers), (
            paper,
            claim.id,
        )


@pytest.mark.parametrize("paper", sorted(set(CLAIMS) - {"cross_paper", "dd_ssp"}))  # these two take trials
def test_the_published_tables_give_the_published_verdicts_and_turned_ones_do_not(paper):
    folder = ROOT / "results/paper" / paper / "tables"
    tables = {path.stem: pd.read_csv(path) for path in folder.glob("*.csv")}
    published = tables[f"{paper}_verdicts"].set_index("id")
    tested = [claim for claim in CLAIMS[paper] if claim.test]
    judge = experiment(f"{paper}_verdicts").tables
    found = judge(pd.DataFrame(), tables).set_index("id")
    ids = [claim.id for claim in tested]
    assert (
        found.loc[ids, ["held", "tested"]].to_numpy().tolist()
        == published.loc[ids, ["held", "tested"]].to_numpy().tolist()
    )
    turned = {
        name: table.assign(difference=-table["difference"]) for name, table in tables.items() if "difference" in table
    }
    after = judge(pd.DataFrame(), {**tables, **turned}).set_index("id")
    for claim in tested:
        if any(isinstance(test, Difference) and (test.better or "").endswith("difference") for test in claim.test):
            assert after.loc[claim.id, "held"] <= found.loc[claim.id, "tested"] - found.loc[claim.id, "held"], claim.id


TOY = """
- id: a
  place: Section 1
  claim: it holds
  criterion: so it does
"""


@pytest.fixture
def judged(tmp_path):
    (tmp_path / "toy").mkdir()

    def judged(lines, *judges, names=Names(), **tables):
        """Return the verdict of one claim with some more lines."""
        path = tmp_path / "toy" / "claims.yaml"
        path.write_text(TOY + "".join(f"  {line}\n" for line in lines.splitlines()), encoding="utf-8")
        studies = ("one", "two", "trials")
        return verdicts(path, judges, tables, studies=studies, names=names).set_index("id").loc["a"]

    return judged


def test_a_condition_is_asked_in_each_row(judged):
    rows = pd.DataFrame({"dataset": ["x", "y", "y"], "found": [1.0, 2.0, 9.0], "bound": 2.0})
    line = judged("test: {table: one, holds: found <= bound}\nnote: as stated", toy_one=rows)
    assert line[["held", "tested", "sets", "note", "whose"]].tolist() == [2, 3, "x;y", "as stated", "paper"]
    assert judged("test: {table: one, holds: found <= bound, where: found < 9}", toy_one=rows)["tested"] == 2
    assert judged("test: {table: one, holds: found <= bound, once: dataset}", toy_one=rows)["tested"] == 2
    assert judged("test: {table: one, holds: (found <= bound).all()}", toy_one=rows)[["held", "tested"]].tolist() == [
        0,
        1,
    ]
    line = judged("test: {table: one, holds: found <= bound}\nsets: made-up rows", toy_one=rows, toy_two=rows)
    assert line["sets"] == "made-up rows"
    for tables in ({}, {"toy_one": rows[:0]}):
        line = judged("test: {table: one, holds: found <= bound}\nnote: as stated", **tables)
        assert line[["tested", "verdict", "sets", "note"]].tolist() == [0, "not tested", "", "as stated"]


def test_a_condition_may_compare_the_rows_of_a_table(judged):
    rows = pd.DataFrame({"dataset": [*"xyxy"], "arm": ["our own", "our own", "AIM", "AIM"], "s": [1, 2, 30, 10]})
    test = "test: {table: one, pivot: {index: dataset, columns: arm, values: s}, holds: AIM > 9 * `our own`}"
    line = judged(f'{test}\nmeasured: "{{(AIM / `our own`).min():.2g}} times"', toy_one=rows)
    assert line[["held", "tested", "sets", "note"]].tolist() == [1, 2, "x;y", "5 times"]


@pytest.mark.parametrize(
    ("test", "held", "note"),
    [
        ("better: ahead", 1, "worse by -0.3"),
        ("better: -ahead", 1, "worse by -0.1"),
        ("same: ahead, margin: 0.05", 1, "worse by -0.3"),
        ("not_worse: ahead, margin: 0.05", 2, "worse by -0.3"),
        ("not_worse: ahead, margin: 0.1 * size", 2, "worse by -0.3"),
        ("not_worse: ahead, margin: 1.0 * size", 3, "worse by -0.3"),
    ],
)
def test_a_difference_is_tested_in_each_row_against_its_margin(judged, test, held, note):
    rows = pd.DataFrame({"ahead": [0.1, 0.0, -0.3], "stderr": [0.01, 0.001, 0.01], "n": 5, "size": 0.4})
    test = f"test: {{table: one, {test}, trials: n}}"
    line = judged(f"{test}\nmeasured: {{clearly_worse: 'worse by {{gain}}'}}", toy_one=rows)
    assert line[["held", "tested", "note"]].tolist() == [held, 3, note]
    assert line["level"] == (0.025 if "better" in test else 0.05)


def trials(first=0.7, second=0.6, n=4):
    """The trials of two arms on two sets."""
    cells = [("e", dataset, "y", epsilon) for dataset in "xy" for epsilon in (0.1, 1.0)]
    wiggle = 0.001 * np.arange(n)
    return pd.DataFrame(
        {**dict(zip(("experiment", "dataset", "target", "epsilon"), cell, strict=True)), "metric": "auc"}
        | {"arm": arm, "trial": trial, "value": value + wiggle[trial] * (1 + (arm == "mst"))}
        for cell in cells
        for arm, value in (("aim/tight", first), ("mst", second))
        for trial in range(n)
    )


def test_two_arms_are_compared_in_each_cell_of_the_sweep(judged):
    test = "test: {better: [aim/tight, mst], metric: auc}"
    line = judged(test, trials=trials(), names=Names(str.upper))
    assert line[["held", "tested", "verdict", "sets", "level"]].tolist() == [4, 4, "held", "X;Y", 0.025]
    assert judged(test, trials=trials(0.5))["held"] == 0
    assert judged("test: {better: [mst, aim/tight], metric: auc}", trials=trials())["held"] == 0
    assert judged("test: {better: [[aim/tight, mst], mst], metric: auc}", trials=trials())["tested"] == 8
    assert judged("test: {better: [aim/tight, mst], metric: auc, where: epsilon < 1}", trials=trials())["tested"] == 2
    assert judged("test: {better: [aim/tight, mst], metric: mse}", trials=trials())["tested"] == 0
    assert judged("test: {same: [aim/tight, mst], metric: auc, margin: 0.2}", trials=trials())["held"] == 4
    assert (
        judged("test: {same: [aim/tight, mst], metric: auc, margin: 0.12, relative: true}", trials=trials())["held"]
        == 0
    )
    assert (
        judged("test: {same: [aim/tight, mst], metric: auc, margin: 0.18, ratio: true}", trials=trials())["held"] == 4
    )
    assert (
        judged("test: {same: [aim/tight, mst], metric: auc, margin: 0.15, ratio: true}", trials=trials())["held"] == 0
    )
    assert judged(test, trials=trials(n=1))["tested"] == 0  # one trial is no test
    both = judged(f'test: [{test[6:]}, {test[6:]}]\nmeasured: "{{left}}"', trials=trials())
    assert (both["tested"], both["note"]) == (8, ", ".join(["aim/tight"] * 8))


def test_a_judge_gets_its_tables_and_arguments(judged):
    def above(first, second, *, least):
        return Found(
            [table is not None and table["x"].max() > least for table in (first, second)], ["Adult"], "counted"
        )

    rows = pd.DataFrame({"x": [1]})
    lines = "judge: above\ntables: [one?, two?]\narguments: {least: 0}\nnote: as stated"
    line = judged(lines, above, toy_two=rows)
    assert line[["held", "tested", "sets", "note"]].tolist() == [1, 2, "Adult", "as stated; counted"]
    assert judged(lines, above)["verdict"] == "not tested"
    lines = "judge: above\ntables: [one, two?]\narguments: {least: 0}"
    assert judged(lines, above, toy_two=rows)["verdict"] == "not tested"
    assert judged(lines, above, toy_one=rows)[["held", "tested"]].tolist() == [1, 2]


def test_what_cannot_be_run_is_not_tested(judged):
    assert judged("test: not run\nnote: no code")[["verdict", "note"]].tolist() == ["not tested", "no code"]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("{dataset} {gain:+.1f}", "X +0.5, Y -0.2"),
        ("on {dataset.unique()}", "on X, Y"),
        ("{held.sum()} of {held.size}", "1 of 2"),
        ("{gain < 0: 'falls on {dataset.unique()}', gain > 1: never}", "falls on Y"),
        ("[first, '{gain.max():.0%}']", "first; 50%"),
    ],
)
def test_measured_values_are_written_into_the_note(judged, text, note):
    rows = pd.DataFrame({"dataset": ["x", "y"], "gain": [0.5, -0.2]})
    quoted = text if text.startswith(("[", "{gain <")) else f'"{text}"'
    line = judged(f"test: {{table: one, holds: gain > 0}}\nmeasured: {quoted}", names=Names(str.upper), toy_one=rows)
    assert line["note"] == note


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            "test: {table: one, holds: fund > 1}",
            "toy/claims.yaml, a: 'fund > 1': name 'fund' is not defined; columns: found",
        ),
        ("test: {table: one, holds: found >}", "toy/claims.yaml, a: 'found >' is no expression"),
        ("test: {table: tow, holds: found > 1}", "toy/claims.yaml, a: unknown table 'tow'; did you mean 'two'?"),
        ("test: {better: [aim, aimm], metric: auc}", "unknown method 'aimm'; did you mean 'aim'?"),
        ("test: {better: [aim, mst], metric: acu}", "unknown metric 'acu'; did you mean 'auc'?"),
        ("test: {better: [aim], metric: auc}", "toy/claims.yaml, a: test.better.1: field required"),
        ("test: {table: one, same: found}", "'same' needs a margin"),
        ("test: {table: one, better: found, margin: 1}", "'better' has no margin"),
        ("test: {table: one, better: found, same: found, margin: 1}", "needs one of better, same, not_worse"),
        ("test: {table: one, hold: found}", "toy/claims.yaml, a"),
        ("test: often", "a test has keys"),
        ("test: {table: one, holds: found > 1}\nmeasured: '{fund.sum()}'", "name 'fund' is not defined"),
        ("judge: above\ntables: one", "unknown judge 'above'"),
        ("judge: above", "a judge has tables"),
        ("note: neither", "needs a test or a judge, and has neither"),
        ("test: not run\njudge: above\ntables: one", "needs a test or a judge, and has both"),
        ("test: not run\nnotes: wrong", "unknown key in toy/claims.yaml, a 'notes'; did you mean 'note'?"),
        ("test: not run\nwhose: hours", "unknown whose 'hours'; did you mean 'ours'?"),
        ("test: [not, yaml", "toy/claims.yaml"),
    ],
)
def test_a_wrong_claim_is_one_line(judged, lines, said):
    with pytest.raises(InputError) as error:
        judged(lines, toy_one=pd.DataFrame({"found": [1.0]}))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_two_claims_with_one_id_are_refused(tmp_path):
    path = tmp_path / "claims.yaml"
    path.write_text(TOY + "  test: not run\n" + TOY + "  test: not run\n")
    with pytest.raises(InputError, match="two claims have this id"):
        read(path)
