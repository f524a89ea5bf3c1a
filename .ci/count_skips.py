"""Print how many tests were skipped for each reason, from the output of `pytest -rs`: `count_skips.py FILE`."""

import re
import sys
from collections import Counter
from pathlib import Path

SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] \S+ (.+)$", flags=re.M)
DATA = "needs the data mirror"


def skips(text: str) -> Counter[str]:
    """Return the number of skipped tests for each reason."""
    numbers: Counter[str] = Counter()
    for number, reason in SKIPPED.findall(text):
        numbers[reason] += int(number)
    return numbers


if __name__ == "__main__":
    found = skips(Path(sys.argv[1]).read_text(encoding="utf-8"))
    data = sum(number for reason, number in found.items() if reason.startswith(DATA))
    print(f"{data} tests skipped that need the data files: set MARGINALIA_MIRROR to their folder")
    print(f"{sum(found.values()) - data} tests skipped for another reason")
