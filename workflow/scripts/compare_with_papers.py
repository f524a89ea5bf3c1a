"""Write the tables that compare results with a paper."""

from pathlib import Path

from marginalia.sweep.log import logged

with logged(snakemake.log[0]):
    from marginalia.card import read_rows
    from marginalia.papers.registry import card, comparison
    from marginalia.reporting.verification.results import write_comparison
    from marginalia.sweep.records import read_records

    records = read_records(snakemake.input.records)
    made = {
        study: card(study).tables(
            read_rows([p for p in snakemake.input.studies if Path(p).parent.name == study]), settings
        )
        for study, settings in snakemake.params.settings.items()
    }
    for name in snakemake.params.names:
        write_comparison(comparison(name), records, made, Path(snakemake.output[0]).parent)
