"""Write a study's tables and draw its figure."""

from pathlib import Path

from marginalia.sweep.jobs import logged

with logged(snakemake.log[0]):
    import pandas as pd

    from marginalia.papers.registry import card
    from marginalia.reporting import figures, formats

    chosen, settings = card(snakemake.wildcards.study), snakemake.params.settings
    rows = pd.concat([pd.read_parquet(p) for p in snakemake.input], ignore_index=True)
    tables = chosen.tables(rows, settings)
    for name, table in tables.items():
        formats.write_csv(table, Path(snakemake.output.table).with_name(f"{name}.csv"))
    figures.save_figure(chosen.figure(tables, settings), Path(snakemake.output.figures[0]).with_suffix(""))
