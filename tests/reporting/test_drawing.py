"""Figures inside the page, the glossary and the vendored library."""

import re
from xml.etree import ElementTree

import matplotlib
import pytest

from marginalia.errors import InputError
from marginalia.methods.registry import BUILT_IN
from marginalia.reporting import figures, panels, tables
from marginalia.reporting.html import vendored
from marginalia.reporting.html.drawing import GROUND, Palette, contrast, darken, inline_svg
from marginalia.reporting.html.glossary import TERMS, explain
from marginalia.reporting.html.report import curves_of
from marginalia.reporting.style import RC


def bars():
    figure = matplotlib.figure.Figure(figsize=(3, 2))
    axes = figure.add_subplot()
    axes.bar([0, 1], [1, 2], hatch="//", color="#0072B2", edgecolor="black")
    axes.set_title("a < b & “c”")
    axes.imshow([[0, 1], [1, 0]], aspect="auto")
    return figure


@pytest.fixture(scope="module")
def drawn():
    palette = Palette()
    return palette, inline_svg(bars(), palette, name="mine", label='one "two"')


def test_a_drawing_is_xml_with_its_text_as_text_and_no_style_of_its_own(drawn):
    palette, svg = drawn
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == 'one "two"'
    assert "a < b & “c”" in [element.text for element in root.iter("text")]
    assert not [element for element in root.iter() if "style" in element.attrib]
    classes = {element.get("class") for element in root.iter() if "class" in element.attrib} - {"drawn"}
    assert classes <= set(palette.styles.values())
    assert "#" not in re.sub(r"url\(#[^)]*\)", "", "".join(palette.styles))  # colours are variables


def test_every_reference_of_a_drawing_has_its_target_and_its_name(drawn):
    palette, svg = drawn
    ids = re.findall(r' id="([^"]+)"', svg)
    assert all(one.startswith("mine-") for one in ids)
    assert len(ids) == len(set(ids))
    named = re.findall(r'href="#([^"]+)"', svg) + re.findall(r"url\(#([^)]+)\)", svg + palette.css())
    assert set(named) <= set(ids)
    assert any("url(#" in style for style in palette.styles)  # the hatch


@pytest.mark.slow
def test_a_drawing_is_far_smaller_than_its_file(records, tmp_path):
    frame = tables.aggregate(records, "mse")
    figures.save_figure(figures.metric_vs_epsilon(frame, "mse"), tmp_path / "mse")
    palette = Palette()
    small = inline_svg(figures.metric_vs_epsilon(frame, "mse"), palette, name="mse", label="MSE")
    assert 3 * len(small + palette.css()) < (tmp_path / "mse.svg").stat().st_size
    assert inline_svg(figures.metric_vs_epsilon(frame, "mse"), Palette(), name="mse", label="MSE") == small


@pytest.mark.parametrize("method", BUILT_IN)
def test_every_method_can_be_seen_on_the_dark_page(method):
    assert contrast(darken(BUILT_IN[method].colour), GROUND) >= 4.5


def test_a_point_bears_its_text_on_the_page_and_nothing_on_paper(tmp_path):
    figure, (axes,) = panels.grid(1, 1)
    axes.plot([1], [2], marker="o", gid=panels.tip("A & B <1>"))
    drawn = inline_svg(figure, Palette(), name="x", label="x")
    assert drawn.count("<title>") == 1
    assert "<g><title>A &amp; B &lt;1&gt;</title>" in drawn


def test_the_theme_of_paper_is_light():
    palette = Palette()
    palette.variable("#ffffff")
    assert "@media screen and (prefers-color-scheme: dark)" in palette.css()
    assert RC["svg.fonttype"] == "path"  # files keep their look where the font is not installed


def test_curves_name_what_the_csv_names(records):
    frame = tables.aggregate(records, "mse")
    found = curves_of(frame, "mse", Palette())
    keys = {"|".join(row) for row in frame[list(tables.ARM)].itertuples(index=False)}
    assert {arm[0] for arm in found["arms"]} == keys
    assert {p[0] for p in found["panels"]} == {"|".join(r) for r in frame[list(tables.PANEL)].itertuples(index=False)}
    assert not found["higher"]


def test_the_vendored_library_is_the_published_one(monkeypatch):
    for name in vendored.FILES:
        assert vendored.text(name)
    licence = vendored.folder() / "uPlot.LICENSE"
    assert licence.read_text(encoding="utf-8").startswith("The MIT License")
    assert sum(size for size, _ in vendored.FILES.values()) < 60_000
    assert f"v{vendored.VERSION}" in vendored.text("uPlot.iife.min.js")[:80]
    monkeypatch.setitem(vendored.FILES, "uPlot.min.css", (1857, "0" * 64))
    with pytest.raises(InputError, match="not the file of uPlot"):
        vendored.text("uPlot.min.css")


def test_terms_are_linked_once_and_only_where_they_stand():
    text = explain("Certified ε <b> of trials; trials and δ. test AUC")
    assert "&lt;b&gt;" in text
    assert text.count("#term-trial") == 1
    assert '<a class="term" href="#term-auc">test AUC</a>' in text
    assert len({term.id for term in TERMS}) == len(TERMS)
