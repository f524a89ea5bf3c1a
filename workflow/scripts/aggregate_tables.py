"""Aggregate records into tables."""

from pathlib import Path

from marginalia.sweep.log import logged

with logged(snakemake.log[0]):
    from marginalia.reporting.verification.results import write_sweep
    from marginalia.sweep.records import read_records

    write_sweep(read_records(snakemake.input), Path(snakemake.output[0]).parent)
