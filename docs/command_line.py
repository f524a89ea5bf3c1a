"""Write the page of the command line from what the verbs print: ``python docs/command_line.py``."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from marginalia.cli.app import app

PAGE = Path(__file__).with_name("command-line.md")
OPENING = """# Command line

Made by `python docs/command_line.py` from what `marginalia VERB --help` prints; do not edit. A mistake ends in one line
on standard error that says what is wrong, where, and how to mend it, with exit code 2. A check that finds something
ends with 1, everything else with 0. Every verb has `--help`.
"""


def verbs(command: Any) -> Iterator[list[str]]:
    """Yield every verb as it is typed, word by word."""
    for name, inner in command.commands.items():
        if inner.hidden:
            continue
        if hasattr(inner, "commands"):
            yield from ([name, *rest] for rest in verbs(inner))
        else:
            yield [name]


def section(words: list[str]) -> str:
    """Return what the page says of one verb."""
    # The width is the caller's own, not that of the terminal.
    printed = CliRunner().invoke(app, [*words, "--help"], terminal_width=118, prog_name="marginalia").output
    _, *paragraphs = printed.strip().split("\n\n")
    tables = [part for part in paragraphs if re.match(r"(Options|Arguments):", part)]
    prose = [" ".join(part.split()) for part in paragraphs if part not in tables]
    examples = [part.removeprefix("Example: ") for part in prose if part.startswith("Example: ")]
    tables = ["\n".join(line for line in part.splitlines() if "--help " not in line) for part in tables]
    code = [*(f"$ {example}" for example in examples), *(part for part in tables if "\n" in part)]
    parts = [f"## `marginalia {' '.join(words)}`", *(part for part in prose if not part.startswith("Example: "))]
    return "\n\n".join([*parts, "```text\n" + "\n\n".join(code) + "\n```"]) + "\n"


def page() -> str:
    """Return the page."""
    return "\n".join([OPENING, *(section(words) for words in verbs(typer.main.get_command(app)))])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
