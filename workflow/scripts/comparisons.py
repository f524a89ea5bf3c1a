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
        study: card(study).tables(read_rows(parts), settings)
        for study, (settings, parts) in snakemake.params.cards.items()
    }
    for name in snakemake.params.names:
        write_comparison(comparison(name), records, made, Path(snakemake.output[0]).parent)
