"""The site: its pages are made from what is there, and its check finds what is wrong."""

import importlib
import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SHOWN = ("data", "privacy", "marginals", "synthesis", "learning", "methods")


def script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_data_sets_lists_the_catalogue():
    """After a change: python docs/data_sets.py."""
    assert (DOCS / "datasets.md").read_text(encoding="utf-8") == script(DOCS / "data_sets.py").page()


@pytest.mark.slow
def test_the_page_of_the_command_line_says_what_the_verbs_say():
    """After a change: python docs/command_line.py."""
    page = script(DOCS / "command_line.py").page()
    assert (DOCS / "command-line.md").read_text(encoding="utf-8") == page
    assert "## `marginalia datasets check`" in page


@pytest.mark.slow
def test_the_api_pages_show_every_public_thing():
    """Asked of the imported modules; the pages are made from the sources alone."""
    api = script(DOCS / "api.py")
    shown = {module for place in api.SHOWN for name, paths in api.modules(place).items()
             for module in re.findall(r"^\.\. automodule:: (\S+)$", api.page(name, paths), flags=re.M)}  # fmt: skip
    expected = set()
    for package in SHOWN:
        face = importlib.import_module(f"marginalia.{package}")
        for module in pkgutil.walk_packages(face.__path__, f"{face.__name__}."):
            if not module.ispkg and has_public_things(module.name):
                expected.add(module.name)
    assert expected <= shown
    page = api.page("learning", [])
    assert "~marginalia.methods.ssp.SSPRegressor" in page


def has_public_things(name):
    module = importlib.import_module(name)
    return any(
        getattr(thing, "__module__", None) == name and (inspect.isclass(thing) or callable(thing))
        for label, thing in vars(module).items()
        if not label.startswith("_")
    )


def test_every_page_is_in_the_navigation():
    paths = {*DOCS.rglob("*.md")} - {*(DOCS / "api").glob("*.md")} | {DOCS / "api" / "index.md"}
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in paths}
    listed = set()
    for tree in re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), flags=re.S):
        lines = [line for line in tree.splitlines() if line and not line.startswith(":")]
        listed |= {re.sub(r".*<(.*)>", r"\1", line) for line in lines}
    assert listed == pages - {"index"}


GOOD = '<a href="b.html#there">b</a><a href="https://example.org">out</a><img src="i.png">'


@pytest.mark.parametrize(
    ("page", "finding"),
    [
        (GOOD, None),
        ('<a href="none.html">b</a>', "does not exist"),
        ('<a href="b.html#nowhere">b</a>', "no such anchor"),
        ('<a href="#nowhere">b</a>', "no such anchor"),
        ('<img src="none.png">', "does not exist"),
        ('<script src="https://cdn.example.org/x.js"></script>', "fetches https://cdn.example.org/x.js"),
        ('<link href="//fonts.example.org/x.css" rel="stylesheet">', "fetches //fonts.example.org/x.css"),
        ('<a href="http://example.org">out</a>', "not https"),
    ],
)
def test_the_check_of_the_site(tmp_path, page, finding):
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<h1 id="there">b</h1>')
    (tmp_path / "i.png").touch()
    found = script(ROOT / ".ci" / "check_site.py").findings(tmp_path)
    assert len(found) == (finding is not None)
    assert finding is None or finding in found[0]


def test_a_style_sheet_that_fetches_is_found(tmp_path):
    (tmp_path / "a.html").touch()
    (tmp_path / "s.css").write_text("@import 'https://fonts.example.org/x.css';")
    assert script(ROOT / ".ci" / "check_site.py").findings(tmp_path) == ["s.css: fetches from another host"]
