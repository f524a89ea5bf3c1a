import re
from base64 import b64encode
from hashlib import sha256
from itertools import pairwise
from urllib.parse import unquote

import numpy as np
import pytest
from html_page import Page

from marginalia.errors import InputError
from marginalia.reporting import figures, tables
from marginalia.reporting.html.report import write_report

DATASETS = [
    {
        "name": "adult",
        "status": "used",
        "rows": 48842,
        "source": "UCI",
        "domain_source": "documented",
        "split": "random",
    },
    {"name": "fire@dd_ssp", "status": "missing", "reason": "no copy & no network <here>"},
]


@pytest.fixture(scope="module")
def arguments(records):
    records = records[records["epsilon"].isin([2, np.inf])]
    frames = {m: tables.aggregate(records, m) for m in ("mse", "auc", "accuracy", "marginal_error")}
    frames |= {name: getattr(tables, name)(records) for name in ("certificates", "failures", "timings")}
    return {
        "tables": frames,
        "figures": {"mse": figures.metric_vs_epsilon(frames["mse"], "mse")},
        "curves": {"mse": (frames["mse"]["experiment"].iloc[0], "mse")},
        "captions": {"mse": figures.caption(frames["mse"], "mse")},
        "provenance": {
            "finished": "2026-11-21",
            "machine": {"cores": 2},
            "packages": {"numpy": "2.4.6"},
            "config": {"epsilons": [0.05, 1], "datasets": "auto"},
        },
        "datasets_info": DATASETS,
    }


@pytest.fixture(scope="module")
def html(arguments, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, **arguments)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def rewrite(tmp_path, arguments, **changes):
    write_report(tmp_path / "report.html", **(arguments | changes))
    return (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_needs_nothing_from_outside(page):
    for tag, attributes in page.elements:
        for name in ("src", "srcset", "href", "action", "data"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:")), (tag, name, value[:60])
    assert not page.all("iframe")
    policy = next(m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


@pytest.mark.slow
def test_the_policy_lets_run_what_is_on_the_page_and_nothing_else(html, page):
    policy = next(m["content"] for m in page.all("meta") if "http-equiv" in m)
    for kind in ("style", "script"):
        inside = re.findall(rf"<{kind}>(.*?)</{kind}>", html, re.DOTALL)
        hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in inside]
        assert re.search(rf"{kind}-src ([^;]*)", policy).group(1).split() == [f"'sha256-{one}'" for one in hashes]
    assert not any({"style", "onclick", "onload"} & set(attributes) for _, attributes in page.elements)


def test_every_link_of_the_page_has_its_target(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for a in page.all("a") if a["href"].startswith("#")} <= set(ids)


def test_a_figure_has_a_link_of_its_own_and_every_term_an_entry(page):
    assert {"#figure-mse"} <= {a["href"] for a in page.all("a")}
    assert len(page.all("dfn")) == len(page.all("dt")) - len([k for k in page.all("dt") if "id" not in k])
    assert len([a for a in page.all("a") if a.get("class") == "term"]) > 10


def test_the_csv_behind_a_table_is_that_table(arguments, page):
    links = {a["download"]: a["href"] for a in page.all("a") if "download" in a}
    assert {"mse.csv", "auc.csv", "certificates.csv", "timings.csv", "failures.csv", "datasets.csv"} <= set(links)
    for name in ("mse", "timings"):
        text = unquote(links[f"{name}.csv"].split(",", 1)[1])
        assert text == arguments["tables"][name].to_csv(index=False, lineterminator="\n")


def test_figures_have_texts_and_tables_have_captions_and_headers(page):
    (drawing,) = (svg for svg in page.all("svg") if "role" in svg)
    assert drawing["role"] == "img"
    assert len(drawing["aria-label"]) > 20
    assert len(page.all("caption")) == len(page.all("table")) > 8
    assert all("scope" in th for th in page.all("th"))
    assert page.all("html")[0]["lang"] == "en"


def test_headings_do_not_skip_a_level(page):
    levels = [int(tag[1]) for tag, _ in page.headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_rows_fill_their_columns(html):
    for table in re.findall(r"<table.*?</table>", html, re.DOTALL):
        head = len(re.findall(r"<th scope=\"col\"", table))
        for row in re.findall(r"<tr>(.*?)</tr>", table.split("</thead>")[1], re.DOTALL):
            spans = [int(n) for n in re.findall(r'<t[hd][^>]*colspan="(\d+)"', row)]
            assert len(re.findall(r"<t[hd][ >]", row)) - len(spans) + sum(spans) == head


def test_missing_data_sets_stand_at_the_top_with_their_reason(html):
    top = html[: html.index("<nav")]
    assert "fire@dd_ssp" in top
    assert "no copy &amp; no network &lt;here&gt;" in top
    assert "Stand-in data" not in top


@pytest.mark.slow
def test_stand_ins_are_announced_at_the_top(arguments, tmp_path):
    stand_in = [{"name": "breast_cancer", "status": "used", "stand_in": True}]
    text = rewrite(tmp_path, arguments, datasets_info=stand_in)
    top = text[: text.index("<nav")]
    assert "Stand-in data" in top
    assert "breast_cancer" in top


def test_the_best_certified_arm_is_bold_and_in_the_summary(html):
    mse = re.search(r'id="table-mse".*?</table>', html, re.DOTALL).group()
    assert len(re.findall(r'class="number best"', mse)) == 2  # two panels, one epsilon
    summary = re.search(r'id="table-best".*?</table>', html, re.DOTALL).group()
    assert re.findall(r"<span>(.*?)</span>", summary)[:4] == [
        "ACS Employment",
        "ACS Income (regression)",
        "Adult",
        "COMPAS",
    ]
    assert "DP-SGD" in summary
    assert "Chebyshev" not in summary


def test_the_opening_is_short_and_answers_whether_to_publish(html):
    opening = re.search(r'<p class="opening">(.*?)</p>', html, re.DOTALL).group(1)
    words = re.sub(r"<[^>]*>", "", opening).split()
    assert len(words) < 60
    assert '<a href="#publish">May I publish this page?</a> Yes.' in opening
    assert "values are missing" in html[html.index('id="summary"') : html.index('id="figures"')]


def test_failures_name_their_trials(html):
    table = re.search(r'id="table-failures".*?</table>', html, re.DOTALL).group()
    assert "3, 4" in table
    assert "stopped after 600 s" in table


@pytest.mark.slow
def test_messages_cannot_inject_markup(records, arguments, tmp_path):
    failures = arguments["tables"]["failures"].assign(message="<script>alert(1)</script>")
    text = rewrite(tmp_path, arguments, tables=arguments["tables"] | {"failures": failures})
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text


@pytest.mark.slow
def test_the_same_arguments_give_the_same_bytes(html, arguments, tmp_path):
    assert rewrite(tmp_path, arguments) == html


def test_sections_without_content_are_left_out(arguments, tmp_path):
    empty = {name: frame.iloc[:0] for name, frame in arguments["tables"].items()}
    text = rewrite(tmp_path, arguments, tables=empty, figures={}, curves={}, captions={}, datasets_info=[])
    page = Page(text)
    assert [h for tag, h in page.headings if tag == "h2"] == ["What was run", "Glossary", "Provenance"]


@pytest.mark.slow
def test_other_tables_are_shown_under_their_name(arguments, tmp_path):
    other = arguments["tables"]["timings"].head(2)
    text = rewrite(tmp_path, arguments, tables=arguments["tables"] | {"comparison_excess_risk_table2": other})
    assert "comparison excess risk table2" in text


@pytest.mark.slow
def test_a_figure_of_an_experiment_is_headed_by_both(arguments, tmp_path):
    figure = arguments["figures"]["mse"]
    text = rewrite(tmp_path, arguments, figures={"f3a_mse": figure}, captions={"f3a_mse": "Caption."})
    assert "<h3>Test MSE against ε · f3a <a" in text


def test_what_is_missing_is_named_and_nothing_is_left_behind(arguments, tmp_path):
    with pytest.raises(InputError, match="figure 'mse' has no caption"):
        rewrite(tmp_path, arguments, captions={})
    assert list(tmp_path.iterdir()) == []


def test_an_answer_says_whom_to_take_with_its_error_and_who_is_next(html):
    table = re.search(r'id="table-best".*?</table>', html, re.DOTALL).group()
    assert re.search(r"<small>\d\.\d+ ± \d\.\d+( °)?; next [^<]+, \d[\d.e-]*</small>", table)
    assert html.index('id="answer"') < html.index('id="publish"') < html.index('id="summary"')
