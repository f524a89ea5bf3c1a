"""Write the generated table of ``docs/faults.md``: ``python docs/faults.py``.

It lists what ``tests/sweep/faulty.py`` does and what ``tests/sweep/test_isolation.py`` expects of each.
"""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_suffix(".md")
BEGIN, END = "<!-- fits: written by docs/faults.py -->\n", "<!-- end of fits -->\n"


def table() -> str:
    """Return the table of what fits do wrong: in words, with status and message of the row, and rows lost."""
    faulty = runpy.run_path(str(ROOT / "tests" / "sweep" / "faulty.py"))
    lines = ["| a fit | status of its row | message | rows lost | injected by |", "|---|---|---|---|---|"]
    for name, (status, message) in faulty["FAULTS"].items():
        if name == "does_well":
            continue
        words = faulty[name].__doc__.removesuffix(".")
        said = f"`{message}`" if message else ""
        lines.append(f"| {words} | {status} | {said} | 0 | `{name}` |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with its table as it must be."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
