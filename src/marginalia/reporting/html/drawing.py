"""Matplotlib figures as SVG inside the page: text as text, few decimals, and colours that follow the reader's theme.

Nothing is styled by an attribute, so that the page's policy need not allow that: every style is a class of `Palette`.
"""

from __future__ import annotations

import colorsys
import io
import re
from dataclasses import dataclass, field
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from marginalia.reporting.panels import TIP
from marginalia.reporting.style import RC

GROUND = "#14171b"  # of the dark theme, as in report.css
_INK = "#e6e8eb"
_CONTRAST = 4.5  # of a curve against the dark ground (WCAG 2.2, 1.4.3)
_SCALE = 2.0  # pixels of the page for a point of the paper
_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_NUMBER = re.compile(r"-?\d*\.?\d+(?:e[-+]?\d+)?")
_COLOUR = re.compile(r"#[0-9a-f]{6}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


@dataclass
class Palette:
    """The colours and styles of one page.

    Attributes
    ----------
    colours : dict of str to str
        Of a colour ``#rrggbb``, the name of its CSS variable.
    styles : dict of str to str
        Of the declarations of a style, the name of its class.
    """

    colours: dict[str, str] = field(default_factory=dict)
    styles: dict[str, str] = field(default_factory=dict)

    def variable(self, colour: str) -> str:
        """Return the CSS variable of a colour, which has another value in the dark theme."""
        return self.colours.setdefault(colour.lower(), f"--k{len(self.colours)}")

    def style(self, declarations: str) -> str:
        """Return the class that stands for some declarations, ``stroke: #0072b2; stroke-width: 1.1``."""
        kept = [part.strip() for part in declarations.split(";") if part.strip()]
        kept = [part.replace(": ", ":") for part in kept if not part.startswith(("font-family", "font:"))]
        fonts = re.findall(r"font: ([^;]*?)(\d[\d.]*px)", declarations)
        kept += [f"font-size:{size}" for _, size in fonts] + ["font-weight:700" for how, _ in fonts if "bold" in how]
        text = ";".join(_COLOUR.sub(lambda found: f"var({self.variable(found.group())})", part) for part in kept)
        return self.styles.setdefault(text, f"s{len(self.styles)}") if text else ""

    def css(self) -> str:
        """Return the rules of all variables and classes; print is light."""
        light = ";".join(f"{name}:{colour}" for colour, name in self.colours.items())
        dark = ";".join(f"{name}:{darken(colour)}" for colour, name in self.colours.items())
        rules = [f".{name}{{{text}}}" for text, name in self.styles.items()]
        root = [f":root{{{light}}}", f"@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}"]
        return "\n".join([*(root if light else []), *rules])


def darken(colour: str) -> str:
    """Return what stands for a colour on the dark ground: of the same hue, and as easy to see.

    >>> darken("#ffffff"), darken("#000000")
    ('#14171b', '#e6e8eb')
    """
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    if max(red, green, blue) - min(red, green, blue) < 0.06:  # greys change places
        ends = [[int(end[i : i + 2], 16) for i in (1, 3, 5)] for end in (_INK, GROUND)]
        return _hex([(a + (b - a) * light) / 255 for a, b in zip(*ends, strict=True)])
    if light > 0.8:  # a tint that something else is drawn on
        return _hex(colorsys.hls_to_rgb(hue, 0.16, 0.5 * saturation))
    while light < 0.95 and contrast(_hex(colorsys.hls_to_rgb(hue, light, saturation)), GROUND) < _CONTRAST:
        light += 0.01
    return _hex(colorsys.hls_to_rgb(hue, light, saturation))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21 (WCAG 2.2).

    >>> round(contrast("#ffffff", "#000000"))
    21
    """
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _hex(parts: list[float] | tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def inline_svg(figure: Figure, palette: Palette, *, name: str, label: str) -> Markup:
    """Return a figure as an ``svg`` element.

    Parameters
    ----------
    figure : Figure
    palette : Palette
        Of the page; takes up what the figure needs.
    name : str
        Unique on the page: what the ids inside start with.
    label : str
        What a screen reader says instead of the drawing.
    """
    written = io.BytesIO()
    with matplotlib.rc_context(RC | {"svg.fonttype": "none"}):
        figure.savefig(written, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(written.getvalue())
    wanted = {found for element in root.iter() for found in _references(element)}
    numbers = {old: f"{name}-{place}" for place, old in enumerate(sorted(wanted))}
    _, _, width, height = (float(part) for part in root.attrib["viewBox"].split())
    inside = "".join(_written(child, palette, numbers, in_marker=False) for child in root)
    size = f'width="{_SCALE * width:.0f}" height="{_SCALE * height:.0f}" viewBox="0 0 {width:g} {height:g}"'
    return Markup(f'<svg class="drawn" role="img" aria-label="{_escape(label)}" {size}>{inside}</svg>')


def _references(element: ElementTree.Element) -> set[str]:
    link = element.get(_LINK, "")
    clipped = _REFERENCE.findall(element.get("clip-path", "") + element.get("style", ""))
    return {*clipped, *([link[1:]] if link.startswith("#") else [])}


def _written(element: ElementTree.Element, palette: Palette, ids: dict[str, str], *, in_marker: bool) -> str:
    """Return an element as text: without groups that do nothing, and without what a browser takes for granted."""
    tag = element.tag.removeprefix(f"{{{_SVG}}}")
    if tag in ("metadata", "style"):
        return ""
    attributes = _attributes(element, tag, palette, ids, digits=2 if in_marker else 1)
    inside = "".join(_written(c, palette, ids, in_marker=in_marker or tag == "defs") for c in element)
    if element.get("id", "").startswith(TIP):
        return f"<g><title>{_escape(element.attrib['id'].removeprefix(TIP))}</title>{inside}</g>"
    if tag in ("g", "defs") and not attributes:
        return f"<defs>{inside}</defs>" if tag == "defs" and inside else inside
    text = _escape(element.text or "") if tag in ("text", "tspan") else ""
    written = " ".join([tag, *(f'{key}="{value}"' for key, value in attributes.items())])
    return f"<{written}>{text}{inside}</{tag}>"


def _attributes(
    element: ElementTree.Element, tag: str, palette: Palette, ids: dict[str, str], *, digits: int
) -> dict[str, str]:
    kept: dict[str, str] = {}
    for key, value in element.attrib.items():
        if key == "id":
            if value in ids:
                kept["id"] = ids[value]
        elif key == _LINK:
            kept["href"] = "#" + ids[value[1:]] if value.startswith("#") else "".join(value.split())
        elif key == "style":
            if style := palette.style(_REFERENCE.sub(lambda found: f"url(#{ids[found.group(1)]})", value)):
                kept["class"] = style
        elif key == "clip-path":
            kept[key] = _REFERENCE.sub(lambda found: f"url(#{ids[found.group(1)]})", value)
        elif key == "transform":
            rotated = re.match(r"rotate\((-?[\d.]+) [-\d. e]+\)$", value)
            if not (rotated and float(rotated.group(1)) == 0):
                kept[key] = _NUMBER.sub(lambda found: _short(found.group(), 4), value)
        elif key == "d":
            path = _NUMBER.sub(lambda found: _short(found.group(), digits), value)
            kept[key] = re.sub(r" (?=-)|(?<=[A-Za-z]) | (?=[A-Za-z])", "", " ".join(path.split()))
        elif key in ("x", "y", "width", "height"):
            kept[key] = _NUMBER.sub(lambda found: _short(found.group(), digits), value)
        else:
            kept[key] = _escape(value)
    if tag == "text":
        kept.pop("{http://www.w3.org/XML/1998/namespace}space", None)
    return kept


def _short(number: str, digits: int) -> str:
    text = f"{float(number):.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    if text in ("0", "-0"):
        return "0"
    return re.sub(r"^(-?)0\.", r"\1.", text)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
