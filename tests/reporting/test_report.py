import re
from itertools import pairwise

import numpy as np
import pandas as pd
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


def test_the_page_loads_nothing_from_outside(page):
    addresses = [a["href"] for a in page.all("a")]
    assert all(one.startswith(("#", "tables/")) for one in addresses)
    assert all(a["src"].startswith("data:image/png;base64,") for a in page.all("img"))
    assert not {"iframe", "object", "embed", "form"} & {tag for tag, _ in page.elements}
    assert not any({"style", "onclick", "onload"} & set(attributes) for _, attributes in page.elements)


def test_every_link_of_the_page_has_its_target(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for a in page.all("a") if a["href"].startswith("#")} <= set(ids)


def test_a_table_links_the_file_of_its_numbers(page):
    links = {a["href"] for a in page.all("a")}
    names = ("mse", "auc", "accuracy", "marginal_error", "certificates", "timings", "failures")
    assert {f"tables/{name}.csv" for name in names} <= links


def test_figures_have_texts_and_tables_have_names_and_headers(page):
    (picture,) = page.all("img")
    assert len(picture["alt"]) > 20
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    assert len(page.all("table")) > 7
    assert all(table["aria-labelledby"] in ids for table in page.all("table"))
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
            assert len(re.findall(r"<t[hd][ >]", row)) == head


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
    assert len(re.findall("<td><b>", mse)) == 2  # two panels, one epsilon
    summary = re.search(r'id="table-best".*?</table>', html, re.DOTALL).group()
    assert re.findall(r"<span>(.*?)</span>", summary) == [
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
    assert "values are missing" in html[html.index('id="run"') : html.index('id="best"')]


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
    text = rewrite(tmp_path, arguments, tables=empty, figures={}, captions={}, datasets_info=[])
    page = Page(text)
    assert [h for tag, h in page.headings if tag == "h2"] == ["What ran", "Terms", "Provenance"]


@pytest.mark.slow
def test_other_tables_are_shown_under_their_name(arguments, tmp_path):
    other = arguments["tables"]["timings"].head(2)
    text = rewrite(tmp_path, arguments, tables=arguments["tables"] | {"comparison_excess_risk_table2": other})
    assert "comparison excess risk table2" in text
    text = rewrite(
        tmp_path,
        arguments,
        tables=arguments["tables"] | {"mine": other},  # of an experiment without a figure
        titles=arguments.get("titles", {}) | {"mine": "What I measured"},
        captions=arguments["captions"] | {"mine": "In seconds."},
    )
    assert "What I measured. In seconds" in text


@pytest.mark.slow
def test_a_figure_of_an_experiment_is_headed_by_both(arguments, tmp_path):
    figure = arguments["figures"]["mse"]
    text = rewrite(tmp_path, arguments, figures={"f3a_mse": figure}, captions={"f3a_mse": "Caption."})
    assert "<h3>Test MSE against ε · f3a</h3>" in text


def test_what_is_missing_is_named_and_nothing_is_left_behind(arguments, tmp_path):
    with pytest.raises(InputError, match="figure 'mse' has no caption"):
        rewrite(tmp_path, arguments, captions={})
    assert list(tmp_path.iterdir()) == []


def test_the_best_method_has_its_error_and_the_next_method(html):
    table = re.search(r'id="table-best".*?</table>', html, re.DOTALL).group()
    assert re.search(r"<small>\d\.\d+ ± \d\.\d+( °)?; next [^<]+, \d[\d.e-]*</small>", table)
    assert html.index('id="run"') < html.index('id="best"') < html.index('id="publish"') < html.index('id="figures"')


@pytest.mark.slow
def test_claims_stand_with_their_verdicts_and_an_experiment_with_its_table(arguments, tmp_path):
    claims = pd.DataFrame(
        {
            "id": ["c1"],
            "sentence": ["c1"],
            "whose": ["paper"],
            "place": ["Table 2"],
            "claim": ["A < B & C"],
            "test": ["t"],
        }
        | {
            "sets": ["Adult"],
            "held": [3],
            "tested": [4],
            "level": [0.05],
            "verdict": ["held in most cells"],
            "note": ['by "chance"'],
        }
    )
    coins = pd.DataFrame({"coin": ["a"] * 300, "heads": np.arange(300) / 7})
    text = rewrite(
        tmp_path,
        arguments,
        tables=arguments["tables"] | {"toy_verdicts": claims, "coins": coins},
        figures={"coins": arguments["figures"]["mse"]},
        captions={"coins": "Coins."},
        titles={"coins": "Tossed coins"},
    )
    claim = re.search('id="table-toy_verdicts".*?</table>', text, re.DOTALL).group()
    assert '<th scope="row">A &lt; B &amp; C <small>by &#34;chance&#34;</small></th>' in claim
    assert "<td><b>held in most cells</b></td><td>3 of 4</td><td>Table 2</td>" in claim
    assert text.index('id="claims"') < text.index('id="figures"')
    figure = re.search('id="figure-coins".*?</figure>', text, re.DOTALL).group()
    assert "<summary>coins (300 rows)</summary>" in figure
    assert figure.count("<tr>") == 1 + 200
    assert 'The first 200 of 300 rows. All rows: <a href="tables/coins.csv">' in figure
    assert text.count('id="table-coins"') == 1
