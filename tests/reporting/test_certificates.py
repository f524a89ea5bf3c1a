"""Certificates on the report page."""

import re
from html import unescape
from types import SimpleNamespace

import numpy as np
import pytest

from marginalia.privacy import GaussianEvent, Ledger
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.certificate_page import certificate_page
from marginalia.reporting import figures, tables
from marginalia.reporting.formats import SIGNS
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


def proofs_of(html):
    section = html.split('<section id="certificates">')[1].split("</section>")[0]
    return [
        (name, unescape(text))
        for name, text in re.findall(r"<summary>(.*?)</summary><pre[^>]*>(.*?)</pre>", section, re.DOTALL)
    ]


@pytest.mark.slow
def test_each_arm_shows_its_certificate_at_the_largest_epsilon(html, given):
    ((name, text),) = proofs_of(html)
    assert name == "SSP [add/remove] · ε = 2 · Adult · education-num"
    printed = certificate_page(Certificate(given[0].content))
    shown = text.splitlines()
    assert shown[2] == printed[2]
    assert shown[-1].startswith("verdict       certified: (2, 1e-05)-DP")
    assert any(line.endswith("by a second accountant when you run `marginalia certify`") for line in shown)


@pytest.mark.slow
def test_without_certificates_there_is_their_table_alone(records, tmp_path):
    frames = {"mse": tables.aggregate(records, "mse"), "certificates": tables.certificates(records)}
    empty = {"figures": {}, "captions": {}, "provenance": {}, "datasets_info": []}
    write_report(tmp_path / "r.html", tables=frames, **empty)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert 'id="table-certificates"' in text
    assert proofs_of(text) == []


def test_texts_of_certificates_cannot_inject_markup(records, tmp_path):
    content = proof(2.0, method="<script>alert(1)</script>")
    empty = {"figures": {}, "captions": {}, "provenance": {}, "datasets_info": []}
    one = [RunCertificate(run_of(dataset="<b>"), content)]
    frames = {"certificates": tables.certificates(records)}
    write_report(tmp_path / "r.html", tables=frames, certificates=one, **empty)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "&lt;b&gt;" in text


def relabelled(records, **messages):
    changed = records[(records["epsilon"] == 2) | np.isinf(records["epsilon"])].copy()
    for method, message in messages.items():
        changed.loc[changed["method"] == method, "message"] = message
    return changed


@pytest.mark.slow
def test_each_sign_is_explained_where_it_stands(records):
    rows = relabelled(records, ssp=IDEAL, dp_sgd="declared by its author: x")
    mse = results_table(tables.aggregate(rows, "mse"), "mse", "")
    assert [sign for sign, _ in mse.signs] == ["†", "‡", "°"]  # Chebyshev spends more
    rows = relabelled(records, ssp=IDEAL)
    auc = results_table(tables.aggregate(rows, "auc"), "auc", "")
    assert [sign for sign, _ in auc.signs] == ["°"]
    assert results_table(tables.aggregate(records, "auc"), "auc", "").signs == []


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
        explained = re.findall(r"<b>([✗†§‡°])</b>: ", block)
        assert explained == [sign for sign in SIGNS if sign in block.split("<tbody>", 1)[1]]
        assert explained == (["†"] if name == "mse" else [])
