"""Gather the rows of every run in one file."""

from pathlib import Path

from marginalia.sweep.log import logged

with logged(snakemake.log[0]):
    from marginalia.reporting.verification.rows_file import gather

    parts = {}
    for path in map(Path, snakemake.input.studies):
        parts.setdefault(path.parent.name, {})[path.stem] = path
    gather(snakemake.output[0], snakemake.input.records, parts)
