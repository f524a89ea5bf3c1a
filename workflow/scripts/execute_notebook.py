"""Execute a notebook and keep it as an HTML page."""

import os
from pathlib import Path

from marginalia.sweep.log import logged

with logged(snakemake.log[0]):
    from marginalia.reporting.notebook import RESULTS, execute

    os.environ[RESULTS] = str(Path(snakemake.output[0]).parents[1].resolve())
    execute(snakemake.input.notebook, snakemake.output[0])
