"""The report page in a browser: no message, no request, no finding of axe; figures, tables and terms answer.

Needs Chromium, and ``pip install axe-playwright-python`` (Playwright, and axe-core as a file).
"""

import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from marginalia.reporting import figures, tables
from marginalia.reporting.arms import best_certified
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
    experiment = frame["experiment"].iloc[0]
    write_report(
        path,
        tables=frames,
        figures=drawn | {"certificates": figures.certified_epsilon(frames["certificates"])},
        curves={name: (experiment, name) for name in drawn},
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
    page.wait_for_function(
        "[...document.querySelectorAll('details[data-csv]')].every(fold => fold.querySelector('table'))"
    )
    # The policy of the page stops scripts that are put into it; those of the debugger run.
    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    told = [
        (one["id"], one["impact"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found["violations"]
    ]
    assert told == []
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]


def test_keys_walk_through_the_points_of_a_panel(visit):
    page = visit()
    plot = page.locator("#figure-mse .plot").first
    plot.focus()
    said = page.locator("#figure-mse [role=status]")
    page.keyboard.press("ArrowRight")
    first = said.inner_text()
    assert "standard error" in first
    assert "CPU seconds" in first
    assert "certified" in first or "no privacy" in first
    page.keyboard.press("ArrowDown")
    assert said.inner_text() != first
    assert plot.locator(".tip").is_visible()
    page.keyboard.press("Escape")
    assert not plot.locator(".tip").is_visible()


def test_the_pointer_shows_a_point(visit):
    page = visit()
    box = page.locator("#figure-mse .u-over").first
    size = box.bounding_box()
    for share in range(1, 20):
        box.hover(position={"x": size["width"] * 0.9, "y": size["height"] * share / 20})
        if page.locator("#figure-mse .tip").first.is_visible():
            break
    assert "CPU seconds" in page.locator("#figure-mse .tip").first.inner_text()


def test_who_wins_here_is_whom_the_tables_name(visit, frame):
    page = visit()
    slider = page.locator("#figure-mse input[type=range]")
    levels = sorted(e for e in frame["epsilon"].unique() if np.isfinite(e))
    winners = best_certified(frame)
    for place, epsilon in enumerate(levels):
        slider.fill(str(place))
        here = winners[winners["epsilon"] == epsilon]
        shown = [one.inner_text() for one in page.locator("#figure-mse .who b").all()]
        assert sorted(shown) == sorted(here["name"])


def test_a_method_that_is_switched_off_wins_no_more_and_the_gain_is_an_axis(visit):
    page = visit()
    first = page.locator("#figure-mse .who b").first.inner_text()
    page.locator("#figure-mse .chip", has_text=first).first.click()
    assert page.locator("#figure-mse .who b").first.inner_text() != first
    page.get_by_label("Axis").first.select_option("gain")
    assert "% of the gain" in page.locator("#figure-mse .who").first.inner_text()


def test_a_term_opens_and_the_key_escape_closes_it(visit):
    page = visit()
    link = page.locator("a.term").first
    link.focus()
    page.keyboard.press("Enter")
    note = page.locator("#note")
    assert note.is_visible()
    page.keyboard.press("Escape")
    assert not note.is_visible()


def test_a_long_table_begins_with_one_group_and_paper_has_all(visit, frame):
    page = visit()
    box = page.locator("#table-mse")
    groups, choice = box.locator("tbody"), box.get_by_role("combobox")
    assert groups.count() == len(frame[["dataset", "target"]].drop_duplicates()) == 2
    assert [one.is_visible() for one in groups.all()].count(True) == 1
    choice.select_option(index=2)
    assert [one.is_visible() for one in groups.all()] == [False, True]
    page.emulate_media(media="print")
    assert all(one.is_visible() for one in groups.all())
    page.emulate_media(media="screen")
    box.get_by_role("searchbox").fill("ssp")  # words are looked for in all groups
    assert all(one.is_visible() for one in groups.all())
    choice.select_option(index=1)
    assert [one.is_visible() for one in groups.all()] == [True, False]
    assert box.get_by_role("searchbox").input_value() == ""


def test_the_level_is_one_at_first(visit, frame):
    assert visit().locator("#figure-mse output").inner_text() == "ε = 1"


def test_filtering_to_nothing_hides_the_heading(visit):
    page = visit()
    box = page.locator("#table-mse")
    box.get_by_role("searchbox").fill("no such words")
    assert not box.locator("thead").is_visible()
    assert "No row" in box.inner_text()
    box.get_by_role("searchbox").fill("ssp")
    assert box.locator("thead").is_visible()


def test_a_csv_file_can_be_saved(visit, frame, tmp_path):
    page = visit()
    with page.expect_download() as download:
        page.locator("#csv-mse").click()
    download.value.save_as(tmp_path / "mse.csv")
    assert (tmp_path / "mse.csv").read_bytes().decode() == frame.to_csv(index=False, lineterminator="\n")


def test_without_scripts_and_on_paper_the_drawing_is_there(visit):
    page = visit(script=False)
    assert page.locator("#figure-mse svg.drawn").is_visible()
    page = visit(theme="dark")
    assert not page.locator("#figure-mse svg.drawn").is_visible()
    page.emulate_media(media="print")
    assert page.locator("#figure-mse svg.drawn").is_visible()
    assert not page.locator("#figure-mse .plot").first.is_visible()


def test_a_figure_begins_with_few_lines_and_shows_the_others_when_asked(visit):
    page = visit()
    chips = page.locator("#figure-mse .chip")
    shown = page.locator("#figure-mse .chip[aria-pressed=true]")
    assert shown.count() <= 8
    assert chips.count() > 8
    page.locator("#figure-mse").get_by_text("All methods").click()
    assert shown.count() == chips.count()
    page.locator("#figure-mse").get_by_text("The best 8").click()
    assert shown.count() == 8


def test_on_a_phone_the_level_that_most_look_for_is_in_view(visit, frame):
    page = visit("phone")
    assert (frame["epsilon"] == 1).any()
    for name in ("table-mse", "table-certificates"):
        inside = page.evaluate(
            """name => {
              const box = document.querySelector(`#${name} .scroll`), heads = [...box.querySelectorAll("thead th")];
              const head = heads.find(one => one.textContent === "ε = 1").getBoundingClientRect();
              const first = heads[0].getBoundingClientRect(), all = box.getBoundingClientRect();
              return [head.left - first.right, all.right - head.right];
            }""",
            name,
        )
        assert min(inside) > -2
