"""What a page says that its commands print, held against what they print."""

import re


def same(line: str) -> str:
    """Return a printed line without its digits and the width of its columns: noise has no seed, tables are rerun."""
    return " ".join(re.sub(r"\d[\d,.]*(e-?\d+)?", "#", line).split())


def printed_as(page: str, output: str) -> bool:
    """Whether an output is that of the page; a line ``...`` of the page stands for any lines."""
    pieces = ("\n".join(map(same, page.splitlines())) + "\n").split("...\n")
    got = "\n".join(map(same, output.splitlines())) + "\n"
    return re.fullmatch(".*".join(map(re.escape, pieces)), got, flags=re.S) is not None


def commands(block: str) -> list[tuple[str, str]]:
    """Return the commands of a ``console`` block, each with the lines below it."""
    return re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.M)
