"""Write the report page and the provenance of the run."""

import json
import sys
from pathlib import Path

from marginalia.sweep.log import logged, say

SHOWN = 20  # lines on failing methods

with logged(snakemake.log[0]):
    from marginalia.data.files import write_text
    from marginalia.papers import registry
    from marginalia.reporting import formats, provenance
    from marginalia.reporting.html.folder import write_folder_report
    from marginalia.reporting.tables import failing_methods
    from marginalia.reporting.verification.rows_file import read

    timings = formats.read_csv(next(path for path in snakemake.input.tables if path.endswith("timings.csv")))
    facts = provenance.collect(snakemake.params.config, timings, Path(snakemake.output.page).parent / "benchmarks")
    records = read(snakemake.input.rows).records
    facts["datasets"] = provenance.datasets_info(
        snakemake.input.datasets,
        splits=provenance.splits_of(records),
        counted=provenance.counted_in(records),
        missing=snakemake.params.missing,
        stand_ins=snakemake.params.stand_ins,
    )
    write_text(snakemake.output.provenance, json.dumps(facts, indent=1) + "\n")
    write_folder_report(Path(snakemake.output.page).parent, registry.experiments())
    if lines := failing_methods(records):
        more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
        table = Path(snakemake.output.page).parent / "tables" / "failures.csv"
        for stream in (None, sys.__stderr__):  # the log, and the terminal
            say(f"marginalia: runs without a value, all of them in {table}:", stream)
            for line in (*lines[:SHOWN], *more):
                say(f"  {line}", stream)
