"""Gather the rows of every run in one file."""

from marginalia.sweep.log import logged

with logged(snakemake.log[0]):
    from marginalia.reporting.verification.rows_file import gather

    gather(snakemake.output[0], snakemake.input.records, snakemake.params.studies)
