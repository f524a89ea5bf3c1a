"""What the report and the quality page share: style and script inside the page, and figures as images."""

from __future__ import annotations

import io
from base64 import b64encode
from hashlib import sha256
from typing import Any

import matplotlib
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure
from PIL import Image

from marginalia.figure_style import RC

_DPI = 150
_COLOURS = 256
_WIDE = 700  # pixels; a wider picture scrolls on a phone


def render(template: str, *, sheet: str = "page.css", **content: Any) -> str:
    """Return a page in a style sheet. Its policy allows its own style and script, its own images, and no request."""
    loader = PackageLoader("marginalia.reporting", "templates")
    environment = Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    style, script = (loader.get_source(environment, name)[0] for name in (sheet, "page.js"))
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_hash(style)}; script-src {_hash(script)}"
    )
    page = environment.get_template(template)
    return page.render(style=Markup(style), script=Markup(script), policy=policy, **content)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def image(figure: Figure, alt: str) -> Markup:
    """Return a figure as an ``img`` element with the picture inside: PNG with 256 colours, a third of its SVG."""
    drawn, written = io.BytesIO(), io.BytesIO()
    with matplotlib.rc_context(RC):
        figure.savefig(drawn, format="png", dpi=_DPI)
    picture = Image.open(drawn).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    picture.save(written, "png", optimize=True)
    address = f"data:image/png;base64,{b64encode(written.getvalue()).decode()}"
    kind = "wide" if picture.width > _WIDE else ""
    return Markup('<img class="{}" alt="{}" width="{}" height="{}" src="{}">').format(kind, alt, *picture.size, address)
