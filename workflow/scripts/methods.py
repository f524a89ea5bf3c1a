"""Run methods on one data set."""

from pathlib import Path

from marginalia.sweep.jobs import logged, run_method

with logged(snakemake.log[0]):
    run_method(
        snakemake.params.settings,
        data=Path(snakemake.input.data).parent,
        seed=snakemake.params.seed,
        store=snakemake.params.store,
        out=snakemake.output[0],
    )
