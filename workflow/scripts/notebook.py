"""Execute a notebook and keep it as an HTML page."""

from pathlib import Path

from marginalia.sweep.jobs import logged

with logged(snakemake.log[0]):
    from marginalia.reporting.notebook import execute

    execute(snakemake.input.notebook, snakemake.output[0], results=Path(snakemake.output[0]).parents[1])
