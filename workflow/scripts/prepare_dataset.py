"""Prepare one data set."""

from pathlib import Path

from marginalia.sweep.log import logged
from marginalia.sweep.prepare import prepare_dataset

with logged(snakemake.log[0]):
    prepare_dataset(snakemake.params.entry, Path(snakemake.output[0]).parent)
