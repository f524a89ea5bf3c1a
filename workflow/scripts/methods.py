"""Run methods on one data set."""

from pathlib import Path

from marginalia.sweep.isolation.log import logged
from marginalia.sweep.isolation.supervisor import run_isolated

with logged(snakemake.log[0]):
    run_isolated(
        snakemake.params.settings,
        data=Path(snakemake.input.data).parent,
        seed=snakemake.params.seed,
        store=snakemake.params.store,
        out=snakemake.output[0],
    )
