"""Write a study's tables and draw its figure."""

from pathlib import Path

from marginalia.sweep.jobs import logged

with logged(snakemake.log[0]):
    from marginalia.papers.registry import card
    from marginalia.papers.rows import read_rows
    from marginalia.reporting import figures, formats

    chosen, settings = card(snakemake.wildcards.study), snakemake.params.settings
    tables = chosen.tables(read_rows(snakemake.input), settings)
    for name, table in tables.items():
        formats.write_csv(table, Path(snakemake.output.table).with_name(f"{name}.csv"))
    figures.save_figure(chosen.figure(tables, settings), Path(snakemake.output.figures[0]).with_suffix(""))
