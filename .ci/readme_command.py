"""Print the README's n-th command: its n-th `sh` block, which holds one line."""

import re
import sys
from pathlib import Path


def commands(text: str) -> list[str]:
    """Return the content of every `sh` code block."""
    return [block.strip() for block in re.findall(r"^```sh\n(.*?)^```", text, flags=re.S | re.M)]


if __name__ == "__main__":
    readme = Path(__file__).resolve().parent.parent / "README.md"
    print(commands(readme.read_text(encoding="utf-8"))[int(sys.argv[1]) - 1])
