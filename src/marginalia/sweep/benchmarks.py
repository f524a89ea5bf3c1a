"""What a job took, by the benchmark file that Snakemake writes for it."""

from __future__ import annotations

import csv
from pathlib import Path


def benchmark(path: Path) -> list[tuple[float, float, float | None]]:
    """Return wall seconds, CPU seconds and peak memory (MB) of each repetition in a benchmark file.

    CPU seconds are wall seconds times mean load, since the last sample of CPU time may be old; of a job too short to be
    sampled they are 0, and its peak is None.
    """
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    repetitions: list[tuple[float, float, float | None]] = []
    for line in lines:
        wall = float(line["s"])
        if "NA" in (line["mean_load"], line["max_rss"]):
            repetitions.append((wall, 0.0, None))
        else:
            repetitions.append((wall, wall * float(line["mean_load"]) / 100, float(line["max_rss"])))
    return repetitions
