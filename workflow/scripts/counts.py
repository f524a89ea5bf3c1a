"""Add up the counts of the shards of a streamed data set."""

from pathlib import Path

from marginalia.sweep.isolation.log import logged

with logged(snakemake.log[0]):
    from marginalia.sweep.jobs import prepare_counts

    prepare_counts(snakemake.params.entry, snakemake.input, Path(snakemake.output[0]).parent)
