"""Fail where `snakemake --lint` complains of anything but missing per-rule environments."""

import re
import sys
from pathlib import Path

ACCEPTED = "Specify a conda environment or container for each rule."
BULLET = re.compile(r"^\s+\* (.+?)$", flags=re.M)


def complaints(text: str) -> list[str]:
    """Return the headline of every complaint that is not accepted."""
    return [line for line in BULLET.findall(text) if not line.startswith(ACCEPTED)]


if __name__ == "__main__":
    output = Path(sys.argv[1]).read_text(encoding="utf-8")
    found = complaints(output)
    if found or "Error" in output.split("\n", 1)[0]:
        print(output)
        sys.exit(f"snakemake --lint: {len(found)} complaints")
    print("no complaints")
