"""Draw the pictures of the words in docs/quickstart.md: ``python docs/concepts.py`` writes ``docs/concepts_*.svg``.

Each is narrow, so that a phone can show it, and follows the colours of the reader's page, light or dark.
"""

import math
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
WIDTH = 480
STYLE = """
text { font: 15px Helvetica, Arial, 'DejaVu Sans', sans-serif; fill: #1f2933 }
.small { font-size: 13px; fill: #52606d } .strong { font-weight: bold }
.box { fill: #f4f6f8; stroke: #9aa5b1 } .chosen { fill: #cfe6f5; stroke: #0072b2; stroke-width: 2 }
.one { fill: #f9d8c4; stroke: #d55e00; stroke-width: 2 }
.gone { fill: none; stroke: #d55e00; stroke-width: 2; stroke-dasharray: 5 4 }
.line { fill: none; stroke: #52606d; stroke-width: 1.5 } .head { fill: #52606d }
.blue { fill: #0072b2; fill-opacity: .2; stroke: #0072b2; stroke-width: 2 }
.orange { fill: #d55e00; fill-opacity: .2; stroke: #d55e00; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #e4e7eb } .small { fill: #b8c2cc }
.box { fill: #29323c; stroke: #7b8794 } .chosen { fill: #17435f; stroke: #56b4e9 }
.one { fill: #5e3417; stroke: #f0a050 } .gone { stroke: #f0a050 }
.line { stroke: #b8c2cc } .head { fill: #b8c2cc }
.blue { fill: #56b4e9; stroke: #56b4e9 } .orange { fill: #f0a050; stroke: #f0a050 }
}
"""


def text(x: float, y: float, words: str, kind: str = "plain", *, middle: bool = False) -> str:
    """Return a line of text whose baseline is at (x, y)."""
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}"{anchor}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str = "box", words: str = "") -> str:
    """Return a rectangle, with one line of text in its middle."""
    shape = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" class="{kind}"/>'
    return shape + (text(x + width / 2, y + height / 2 + 5, words, middle=True) if words else "")


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """Return an arrow, straight to the right or down."""
    if y == to_y:
        head = f"{to_x:g},{y:g} {to_x - 8:g},{y - 4.5:g} {to_x - 8:g},{y + 4.5:g}"
        return f'<path class="line" d="M{x:g} {y:g}H{to_x - 7:g}"/><polygon class="head" points="{head}"/>'
    head = f"{x:g},{to_y:g} {x - 4.5:g},{to_y - 8:g} {x + 4.5:g},{to_y - 8:g}"
    return f'<path class="line" d="M{x:g} {y:g}V{to_y - 7:g}"/><polygon class="head" points="{head}"/>'


def domain() -> Iterator[str]:
    """Three values of a row, the domain of their columns, and the codes."""
    yield text(2, 18, "in the file", "small")
    yield text(112, 18, "the public domain", "small")
    yield text(436, 18, "code", "small")
    columns = [
        ("age", "57", ["0–18", "18–45", "45–65", "65+"], 2),
        ("ward", "medicine", ["surgery", "medicine", "maternity"], 1),
        ("weight", "(empty)", ["30–60", "60–90", "90+", "missing"], 3),
    ]
    for i, (name, value, cells, code) in enumerate(columns):
        y = 32 + 64 * i
        yield text(2, y + 18, name, "strong") + text(2, y + 37, value)
        width = 304 / len(cells)
        for j, cell in enumerate(cells):
            yield box(112 + j * width, y, width - 5, 44, "chosen" if j == code else "box", cell)
        yield arrow(418, y + 22, 438, y + 22) + text(452, y + 27, str(code), "strong", middle=True)


def relation() -> Iterator[str]:
    """A table and its two kinds of neighbours."""
    for x, above, below in (
        (0, "the table", ""),
        (168, "one row less", "add_remove"),
        (336, "one row replaced", "replace_one"),
    ):
        yield text(x + 72, 18, above, middle=True)
        for row in range(5):
            y = 32 + 30 * row
            mine = row == 2
            if mine and below == "add_remove":
                yield box(x, y, 144, 24, "gone")
            elif mine:
                yield box(x, y, 144, 24, "one", "71  surgery" if below else "57  medicine")
            else:
                others = ["23  surgery", "44  maternity", "", "68  medicine", "35  surgery"]
                yield box(x, y, 144, 24, "box", others[row])
        yield text(x + 72, 206, below, "strong", middle=True)
    yield text(240, 232, "The released result must look nearly the same for each pair.", "small", middle=True)


def calibration() -> Iterator[str]:
    """The law of a noisy count with one person's row and without it: with enough noise, and with too little."""
    for x, sigma, above, below in (
        (0, 36.0, "noise for ε", "hardly to be told apart"),
        (250, 9.0, "too little noise", "told apart: ε is larger"),
    ):
        yield text(x + 115, 18, above, "strong", middle=True)
        for kind, middle in (("blue", 101.5), ("orange", 128.5)):
            heights = [(i, math.exp(-(((i - middle) / sigma) ** 2) / 2)) for i in range(231)]
            points = " ".join(f"{x + i:g},{150 - 110 * height:.1f}" for i, height in heights)
            yield f'<polygon class="{kind}" points="{x},150 {points} {x + 230},150"/>'
        yield f'<path class="line" d="M{x} 150H{x + 230}"/>'
        yield text(x + 115, 172, below, "small", middle=True)
    yield box(70, 192, 16, 16, "blue") + text(94, 205, "without the row")
    yield box(260, 192, 16, 16, "orange") + text(284, 205, "with the row")


def certificate() -> Iterator[str]:
    """Events of the ledger, two accountants, one verdict."""
    yield text(0, 18, "the ledger: every noisy release", "small")
    for i, words in enumerate(
        ("select   Exponential", "measure   Gaussian", "select   Exponential", "measure   Gaussian")
    ):
        yield box(0, 30 + 42 * i, 190, 34, "box", words)
    yield text(95, 215, "…", middle=True)
    for y, words, value in ((44, "accountant 1", "ε 1.000"), (134, "accountant 2", "ε 0.988")):
        yield arrow(194, y + 23, 228, y + 23)
        yield (
            box(230, y, 120, 46, "chosen")
            + text(290, y + 20, words, middle=True)
            + text(290, y + 38, value, "small", middle=True)
        )
        yield arrow(354, y + 23, 382, y + 23)
    yield box(384, 44, 94, 136, "one")
    yield text(431, 98, "(ε, δ)-DP", "strong", middle=True) + text(431, 122, "certified,", "small", middle=True)
    yield text(431, 140, "or refused", "small", middle=True)


def protocol() -> Iterator[str]:
    """Split first, then release; and what papers did."""
    yield text(0, 18, "strict: a new split each trial, made first", "strong")
    yield box(0, 30, 86, 80, "box", "all rows")
    yield arrow(88, 50, 114, 50) + arrow(88, 92, 114, 92)
    yield box(116, 30, 92, 38, "chosen", "training") + box(116, 74, 92, 36, "one", "test")
    yield arrow(210, 49, 238, 49) + box(240, 30, 110, 38, "box", "release, fit")
    yield arrow(352, 49, 380, 49) + box(382, 30, 96, 80, "box", "score")
    yield arrow(210, 92, 380, 92)
    yield text(0, 152, "as_published: the paper’s own split and coding", "strong")
    yield box(0, 164, 86, 80, "box", "all rows")
    yield arrow(88, 204, 114, 204) + box(116, 164, 92, 80, "gone")
    yield text(162, 200, "coded on", middle=True) + text(162, 220, "all rows", middle=True)
    yield arrow(210, 183, 238, 183) + arrow(210, 226, 238, 226)
    yield box(240, 164, 110, 38, "chosen", "training, fit") + box(240, 208, 110, 36, "one", "test")
    yield arrow(352, 183, 380, 183) + arrow(352, 226, 380, 226) + box(382, 164, 96, 80, "box", "score")


PICTURES: dict[str, tuple[int, Callable[[], Iterator[str]], str]] = {
    "domain": (216, domain, "A row of a file becomes codes by way of the public domain"),
    "relation": (242, relation, "A table, the table with one row less, and the table with one row replaced"),
    "calibration": (218, calibration, "Two bell curves that overlap, and two that do not"),
    "certificate": (224, certificate, "Four releases, two accountants, one verdict"),
    "protocol": (250, protocol, "Splitting before the release, and coding before the split"),
}


def picture(name: str) -> str:
    """Return a picture as SVG."""
    height, parts, title = PICTURES[name]
    size = f'viewBox="-2 0 {WIDTH + 4} {height}" width="{WIDTH}" height="{height}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([opening, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *parts(), "</svg>\n"])


def main() -> None:
    """Write all pictures."""
    for name in PICTURES:
        (FOLDER / f"concepts_{name}.svg").write_text(picture(name), encoding="utf-8")


if __name__ == "__main__":
    main()
