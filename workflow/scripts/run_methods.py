"""Run methods on one data set."""

import gc
from pathlib import Path

from marginalia.postponed import postpone
from marginalia.sweep.log import logged

postpone()
gc.disable()  # while modules are loaded: `run_job` enables it
with logged(snakemake.log[0]):
    from marginalia.sweep.run import run_job

    run_job(
        snakemake.params.settings,
        data=Path(snakemake.input.data).parent,
        seed=snakemake.params.seed,
        out=snakemake.output[0],
    )
