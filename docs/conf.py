"""How Sphinx builds the site: `python3 envs/build_site.py`."""

import re
import site
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The API pages import the library from the work tree, and what it needs from the main environment, the site's first.
sys.path.insert(0, str(ROOT / "src"))
site.addsitedir(sysconfig.get_path("purelib", vars={"base": str(ROOT / ".venv")}))
import marginalia  # noqa: E402

sys.path.insert(0, str(ROOT / "docs"))
import api  # noqa: E402

api.write()

project = "marginalia"
author = "The marginalia authors"
version = release = marginalia.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]


myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

default_role = "literal"
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
autosummary_generate = False
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
suppress_warnings = ["ref.python"]  # two classes of one short name

html_theme = "furo"
html_title = "marginalia"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_search_summary = False  # a browser does not let a page read its neighbours on a disk
html_theme_options = {"source_view_link": "", "navigation_with_keys": True}


def escape_bars(app, what, name, item, options, lines):
    """Escape `|x|` of formulas, which would be a substitution; examples and double backticks stand as they are."""
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            parts = re.split(r"(``.*?``)", line)
            lines[i] = "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)


def skip_borrowed(app, what, name, item, skip, options):
    """Leave out what scikit-learn adds to every estimator."""
    return skip or name == "get_metadata_routing" or (name.startswith("set_") and name.endswith("_request"))


def link_inside(app, name, source):
    """Point at a page of the site where a page of the repository points at a file that the site shows as a page."""
    source[0] = source[0].replace("../benchmarks/README.md)", "benchmarks.md#how-it-was-measured)")


_SIGNATURE = re.compile(r'<dl>\s*((?:<dd><em class="sig-param">.*?</dd>\s*)+)</dl>', flags=re.S)


def _signature_in_spans(found):
    """Write the parameters of a long signature as lines; Sphinx makes them descriptions of no term."""
    return "<span>" + found[1].replace("<dd>", '<span class="parameter">').replace("</dd>", "</span>") + "</span>"


def make_accessible(app, page, template, context, doctree):
    """What a keyboard and a screen reader need: what scrolls can be focused, captions have a level, lists are whole."""
    if "furo_navigation_tree" in context:
        tree = context["furo_navigation_tree"]
        context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')
    if "body" in context:
        body = context["body"].replace("<pre>", '<pre tabindex="0">')
        body = re.sub(r'<div class="table-wrapper([^"]*)"', r'<div tabindex="0" class="table-wrapper\1"', body)
        body = re.sub(r"</dt>\s*</dl>", "</dt><dd></dd></dl>", body)
        context["body"] = _SIGNATURE.sub(_signature_in_spans, body)


def setup(app):
    """The first comes before numpydoc, which reads the same lines."""
    app.connect("autodoc-process-docstring", escape_bars, priority=400)
    app.connect("autodoc-skip-member", skip_borrowed)
    app.connect("source-read", link_inside)
    app.connect("html-page-context", make_accessible, priority=900)  # after the theme
