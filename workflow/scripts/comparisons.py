"""Write the tables that compare results with a paper."""

from pathlib import Path

from marginalia.sweep.jobs import logged

with logged(snakemake.log[0]):
    from marginalia.papers.registry import card, comparison
    from marginalia.papers.rows import read_rows
    from marginalia.reporting import formats
    from marginalia.sweep.records import read_records

    records = read_records(snakemake.input.records)
    tables = {}
    for study, (settings, parts) in snakemake.params.cards.items():
        tables[study] = card(study).tables(read_rows(parts), settings)
    for name in snakemake.params.names:
        chosen = comparison(name)
        needed = {k: v for study in chosen.needs for k, v in tables.get(study, {}).items()}
        table = chosen.table(records, needed) if chosen.needs else chosen.table(records)
        formats.write_csv(table, Path(snakemake.output[0]).with_name(f"{name}.csv"))
