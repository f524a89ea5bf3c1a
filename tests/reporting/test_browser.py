"""The report page in a browser: no message, no request, no finding of axe; tables are sorted, filtered and saved.

Needs Chromium, and ``pip install axe-playwright-python`` (Playwright, and axe-core as a file).
"""

import csv
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginalia.reporting import figures, tables
from marginalia.reporting.html.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
READY = CHROMIUM and find_spec("playwright") and find_spec("axe_playwright_python")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not READY, reason="needs Chromium and axe-playwright-python")]
SIZES = {"desktop": (1440, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def frame(records):
    return tables.aggregate(records, "mse")


@pytest.fixture(scope="module")
def address(records, frame, tmp_path_factory):
    rows = records[records["epsilon"].isin([0.05, 0.5, 2, np.inf])]
    frames = {"mse": frame, "auc": tables.aggregate(rows, "auc")}
    frames |= {name: getattr(tables, name)(records) for name in ("certificates", "failures", "timings")}
    path = tmp_path_factory.mktemp("report") / "report.html"
    drawn = {name: figures.metric_vs_epsilon(frames[name], name) for name in ("mse", "auc")}
    frames["studies"] = pd.DataFrame(
        {"name": ["=1+2", "-2 + x", "-2.5", 'a "b", c'], "value": [1.5, np.inf, -3, np.nan]}
    )
    write_report(
        path,
        tables=frames,
        figures=drawn | {"certificates": figures.certified_epsilon(frames["certificates"])},
        captions={name: figures.caption(frames[name], name) for name in drawn}
        | {"certificates": figures.certificate_caption(frames["certificates"])},
        provenance={"finished": "2026-11-21", "machine": {"cores": 2}, "config": {"epsilons": [0.05, 1]}},
        datasets_info=[{"name": "adult", "status": "used", "split": "random"}],
    )
    return path.as_uri()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, address):
    """Return a function that opens the page; at the end, what it said and asked for is none."""
    heard, contexts = [], []

    def go(size="desktop", theme="light", script=True):
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, java_script_enabled=script
        )
        contexts.append(context)
        context.set_default_timeout(180_000)  # of a busy machine
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: heard.append(request.url) if request.url.startswith("http") else None)
        page.goto(address)
        return page

    yield go
    for context in contexts:
        context.close()
    assert heard == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing(visit, size, theme):
    import axe_playwright_python

    page = visit(size, theme)
    for fold in page.locator("details").all():
        fold.evaluate("fold => { fold.open = true; }")
    # The policy of the page stops scripts that are put into it; those of the debugger run.
    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    violations = [
        (one["id"], one["impact"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found["violations"]
    ]
    assert violations == []
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]


def cells(box, column):
    """Return the texts of a column, the rows in their order; without headings of groups and rows that are not shown."""
    rows = box.locator("tbody tr:not(.group):not([hidden])").all()
    return [row.locator("th, td").nth(column).inner_text() for row in rows]


def saved(page, box, folder):
    with page.expect_download() as download:
        box.get_by_role("button", name="Save as CSV").click()
    download.value.save_as(folder / "saved.csv")
    with (folder / "saved.csv").open(encoding="utf-8", newline="") as file:
        return download.value.suggested_filename, list(csv.reader(file))


def test_keys_sort_a_column_both_ways_within_each_data_set(visit):
    page = visit()
    box = page.locator("#table-mse")
    head = box.locator("thead th").nth(1)
    before = cells(box, 0)
    for direction, sign in (("ascending", 1), ("descending", -1)):
        head.get_by_role("button").focus()
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == direction
        for body in box.locator("tbody").all():
            texts = cells(body, 1)
            values = [float(text.split()[0]) for text in texts if text]
            assert values == sorted(values, key=lambda value: sign * value)
            assert not any(texts[len(values) :])  # nothing comes last
            assert body.locator("tr").first.get_attribute("class") == "group"
    assert sorted(before) == sorted(cells(box, 0))


def test_a_filter_looks_for_all_words_in_rows_and_headings(visit):
    page = visit()
    box = page.locator("#table-mse")
    search = box.get_by_role("searchbox")
    search.fill("adult dp-sgd")
    assert cells(box, 0) == ["DP-SGD"]
    assert box.get_by_role("status").inner_text() == "1 row"
    assert [one.is_visible() for one in box.locator("tbody").all()].count(True) == 1
    search.fill("no such words")
    assert cells(box, 0) == []
    assert box.get_by_role("status").inner_text() == "0 rows"
    search.fill("")
    assert len(cells(box, 0)) == box.locator("tbody tr:not(.group)").count()


def test_the_rows_shown_are_saved_as_csv(visit, tmp_path):
    page = visit()
    box = page.locator("#table-mse")
    box.get_by_role("searchbox").fill("adult")
    box.locator("thead button").nth(1).click()
    name, (head, *rows) = saved(page, box, tmp_path)
    assert name == "mse.csv"
    assert head[:3] == ["group", "Method", "ε = 0.05"]
    assert {row[0] for row in rows} == {"Adult · education-num"}
    assert [row[1] for row in rows] == cells(box, 0)
    assert [row[2] for row in rows] == cells(box, 1)


def test_a_saved_text_is_no_formula(visit, tmp_path):
    page = visit()
    _, rows = saved(page, page.locator("#table-studies"), tmp_path)
    assert rows == [["name", "value"], ["'=1+2", "1.5"], ["'-2 + x", "∞"], ["-2.5", "-3"], ['a "b", c', ""]]


def test_without_scripts_everything_is_there_and_no_control(visit):
    page = visit(script=False)
    assert page.locator("#figure-mse img").is_visible()
    assert len(cells(page.locator("#table-mse"), 0)) > 20
    assert page.locator("button, input").count() == 0


def test_paper_has_whole_tables_and_no_controls(visit):
    page = visit(theme="dark")
    page.emulate_media(media="print")
    box = page.locator("#table-mse .scroll")
    assert box.evaluate("box => box.scrollHeight - box.clientHeight") == 0
    assert page.locator("#figure-mse img").is_visible()
    assert not page.locator("nav").is_visible()
    assert not page.locator("#table-mse .tools").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_figures_stand_on_white_in_the_dark_theme(visit):
    page = visit(theme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert (
        page.locator("#figure-mse img").evaluate("img => getComputedStyle(img).backgroundColor") == "rgb(255, 255, 255)"
    )


def test_on_a_phone_tables_and_figures_scroll_in_their_boxes(visit):
    page = visit("phone")
    for place in ("#figure-mse .picture", "#table-certificates .scroll"):
        box = page.locator(place)
        assert box.evaluate("box => box.scrollWidth > box.clientWidth")
        box.focus()
        page.keyboard.press("ArrowRight")
        # Not `wait_for_function`, which evaluates text in the page: its content security policy forbids that.
        for _ in range(100):
            page.wait_for_timeout(50)
            if box.evaluate("box => box.scrollLeft > 0"):
                break
        else:
            pytest.fail(f"{place} does not scroll")
