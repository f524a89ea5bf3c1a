"""Certificates on the report page."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from marginalia.privacy import ExponentialEvent, GaussianEvent, Ledger
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.certificate_page import certificate_page
from marginalia.reporting import figures, tables
from marginalia.reporting.formats import SIGNS
from marginalia.reporting.html.certificates import SETTING, Sheets
from marginalia.reporting.html.page_tables import results_table
from marginalia.reporting.html.report import write_report
from marginalia.sweep.records import IDEAL, RUN, RunCertificate


def proof(epsilon, *events, method="SSPRegressor", **changes):
    """Return the content of a certificate; by default of a Gaussian release that spends the whole budget."""
    ledger = Ledger("add_remove", epsilon=epsilon, delta=1e-5, calibration="published")
    for event in events or [gaussian(epsilon)]:
        ledger.append(event, "seeded")
    model = SimpleNamespace(ledger_=ledger)
    return {**Certificate.of(model).content, "method": method, "parameters": {"epsilon": epsilon}, **changes}


def gaussian(epsilon, label="sum"):
    sigma = 1 / gdp_mu(epsilon, 1e-5)
    return GaussianEvent(1.0, sigma, label, arithmetic="exact")


def run_of(dataset="adult", target="education-num", epsilon=2.0, trial=0, method="ssp"):
    task = "logistic" if target in ("income>50K", "two_year_recid") else "linear"
    return ("default", "strict", dataset, task, target, method, "", "tight", "add_remove", epsilon, trial)


@pytest.fixture(scope="module")
def given(records):
    """Return certificates of all trials of SSP: those of linear and logistic tasks differ in their method."""
    rows = records[(records["method"] == "ssp") & (records["calibration"] == "tight")].drop_duplicates(list(RUN))
    names = {"linear": "SSPRegressor", "logistic": "SSPClassifier"}
    return [
        RunCertificate(run, proof(run[-2], method=names[run[3]]))
        for run in rows[list(RUN)].itertuples(index=False, name=None)
    ]


@pytest.fixture(scope="module")
def html(records, given, tmp_path_factory):
    frames = {m: tables.aggregate(records, m) for m in ("mse", "auc", "accuracy", "marginal_error")}
    frames["certificates"] = tables.certificates(records)
    path = tmp_path_factory.mktemp("report") / "report.html"
    empty = {"figures": {}, "captions": {}, "provenance": {}, "datasets_info": []}
    write_report(path, tables=frames, certificates=given, **empty)
    return path.read_text(encoding="utf-8")


def test_equal_certificates_are_one_sheet(given):
    sheets = Sheets(given)
    assert len(given) > 100
    assert len(sheets.sheets) == 10  # five epsilons, two classes
    assert len({sheet.text for sheet in sheets.sheets}) == 10
    (one,) = (s for s in sheets.sheets if "ε = 2 " in s.title and "SSPClassifier" in s.text)
    assert one.title.startswith("SSP · ε = 2 · ")
    assert {"Adult · income>50K", "COMPAS · two_year_recid"} <= set(re.split(", | · (?=Adult|COMPAS)", one.title))


def test_lines_that_certificates_share_are_on_the_page_once(given):
    sheets = Sheets(given)
    lines, made = sheets.content["lines"], sheets.content["sheets"]
    assert ["\n".join(lines[place] for place in places) for _, places in made] == [s.text for s in sheets.sheets]
    assert [title for title, _ in made] == [sheet.title for sheet in sheets.sheets]


def test_a_sheet_says_what_certify_prints_but_for_the_second_accountant(given):
    sheets = Sheets(given)
    first = given[0]
    row = SimpleNamespace(**dict(zip(RUN, first.run, strict=True)))
    sheet = next(s for s in sheets.sheets if s.id == sheets.id_of(row))
    *lines, trials = sheet.text.splitlines()
    printed = certificate_page(Certificate(first.content))
    assert [i for i, pair in enumerate(zip(lines, printed, strict=True)) if pair[0] != pair[1]] == [6]
    assert lines[6].endswith("by a second accountant when you run `marginalia certify`")
    assert lines[6].split(",")[0] == printed[6].split(",")[0]
    assert trials == "trials        the same for all 5 trials"
    row.epsilon = 3.0
    assert sheets.id_of(row) == ""


def test_a_setting_is_found_however_its_epsilon_was_written():
    sheets = Sheets([RunCertificate(run_of(epsilon=0.1 + 0.2), proof(0.3))])
    row = SimpleNamespace(**dict(zip(SETTING, run_of(epsilon=0.3)[:-1], strict=True)))
    assert sheets.id_of(row) == "0"


def test_trials_that_differ_say_how():
    selected = [proof(2.0, gaussian(1, name), ExponentialEvent(0.1, name)) for name in "ab"]
    more = proof(2.0, gaussian(1, "a"), ExponentialEvent(0.1, "a"), ExponentialEvent(0.1, "b"))

    def told(*contents):
        (sheet,) = Sheets([RunCertificate(run_of(trial=i), c) for i, c in reversed(list(enumerate(contents)))]).sheets
        return sheet.text.splitlines()[-1].removeprefix("trials        ")

    same = "this is trial 0 of 2; they differ in: "
    assert told(*selected) == same + "what was selected (all have the same mechanisms)"
    assert told(selected[0], more).startswith(same + "their releases (2 to 3 of them), epsilon stored (1.0")
    assert told(selected[0]) == "the only one"
    last_digit = {**selected[0], "epsilon_spent": selected[0]["epsilon_spent"] * (1 + 1e-15)}
    assert told(selected[1], last_digit) == same + "what was selected (all have the same mechanisms)"
    assert told(selected[0], {**selected[0], "randomness": "system"}) == same + "randomness"


@pytest.mark.slow
def test_cells_open_certificates_that_are_on_the_page(html):
    held = json.loads(
        re.search(r'<script type="application/json" id="proofs">(.*?)</script>', html, re.DOTALL).group(1)
    )
    assert len(held["sheets"]) == 10
    assert len(held["lines"]) == len(set(held["lines"])) < 60
    assert {int(place) for place in re.findall(r'<span data-c="(\d+)">', html)} == set(range(10))
    for name, expected in (("mse", 10), ("auc", 15), ("accuracy", 15), ("certificates", 5)):
        table = re.search(rf'id="table-{name}".*?</table>', html, re.DOTALL).group()
        assert len(re.findall("data-c=", table)) == expected, name
        rows = [row for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL) if "data-c=" in row]
        assert all("SSP" in row or "ssp" in row for row in rows)
    assert html.count("<dialog ") == 1
    assert "dialog.showModal()" in html


@pytest.mark.slow
def test_without_certificates_nothing_opens(records, tmp_path):
    frames = {"mse": tables.aggregate(records, "mse"), "certificates": tables.certificates(records)}
    empty = {"figures": {}, "captions": {}, "provenance": {}, "datasets_info": []}
    write_report(tmp_path / "r.html", tables=frames, **empty)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<dialog" not in text
    assert "data-c=" not in text.split("<script>")[0]
    assert "opens" not in text.split("<main>")[1].split("<script>")[0]


def test_texts_of_certificates_cannot_inject_markup(tmp_path):
    content = proof(2.0, method="<script>alert(1)</script>")
    empty = {"figures": {}, "captions": {}, "provenance": {}, "datasets_info": []}
    one = [RunCertificate(run_of(dataset="<b>"), content)]
    write_report(tmp_path / "r.html", tables={}, certificates=one, **empty)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text


def relabelled(records, **messages):
    changed = records[(records["epsilon"] == 2) | np.isinf(records["epsilon"])].copy()
    for method, message in messages.items():
        changed.loc[changed["method"] == method, "message"] = message
    return changed


@pytest.mark.slow
def test_each_sign_is_explained_where_it_stands(records):
    rows = relabelled(records, ssp=IDEAL, dp_sgd="declared by its author: x")
    mse = results_table(tables.aggregate(rows, "mse"), "mse", "", Sheets())
    assert [sign for sign, _ in mse.key] == ["†", "‡", "°"]  # Chebyshev spends more
    rows = relabelled(records, ssp=IDEAL)
    auc = results_table(tables.aggregate(rows, "auc"), "auc", "", Sheets())
    assert [sign for sign, _ in auc.key] == ["°"]
    assert results_table(tables.aggregate(records, "auc"), "auc", "", Sheets()).key == []


@pytest.mark.slow
def test_figures_do_not_cross_what_is_certified_in_ideal_arithmetic(records):
    def crosses(rows):
        drawn = figures.metric_vs_epsilon(tables.aggregate(rows, "auc"), "auc")
        return sum(line.get_marker() == "x" and len(line.get_xdata()) > 0 for a in drawn.axes for line in a.lines)

    assert crosses(records) == crosses(relabelled(records, ssp=IDEAL)) == 0
    assert crosses(relabelled(records, ssp="protects some rows")) > 0
    ideal = tables.aggregate(relabelled(records, ssp=IDEAL), "auc")
    assert "ross" not in figures.caption(ideal, "auc")


@pytest.mark.slow
def test_no_sign_is_explained_where_it_does_not_stand(html):
    """Chebyshev, published, spends more and is in the table of MSE alone."""
    for name in ("mse", "auc", "marginal_error"):
        block = re.search(rf'<div class="table" id="table-{name}">.*?</table>', html, re.DOTALL).group()
        explained = re.findall(r"<b>(.)</b>: ", block)
        assert explained == [sign for sign in SIGNS if sign in block.split("<tbody>", 1)[1]]
        assert explained == (["†"] if name == "mse" else [])
    tables_section = html.split('<section id="tables">')[1]
    assert not set(SIGNS) & set(tables_section.split('<div class="table"')[0])
