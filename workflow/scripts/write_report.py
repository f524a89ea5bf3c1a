"""Write the report page and the provenance of the run."""

import json
from pathlib import Path

from marginalia.sweep.log import logged

with logged(snakemake.log[0]):
    from marginalia.data.files import write_text
    from marginalia.papers import registry
    from marginalia.reporting import formats, provenance
    from marginalia.reporting.html.folder import write_folder_report
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
