"""The rankings that the page shows are those of the committed benchmark."""

from pathlib import Path

from marginalia.reporting.documentation import fill

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_shows_the_committed_rankings():
    text = (DOCS / "recommend.md").read_text(encoding="utf-8")
    assert fill(text, DOCS.parent) == text
