"""Write the tables that compare results with a paper."""

from pathlib import Path

from marginalia.sweep.jobs import logged

with logged(snakemake.log[0]):
    import pandas as pd

    from marginalia.papers.registry import comparison
    from marginalia.reporting import formats
    from marginalia.sweep.records import read_records

    records = read_records(snakemake.input.records)
    folder = Path(snakemake.output[0]).parent
    for name in snakemake.params.names:
        needed = snakemake.params.cards.get(name)
        more = [pd.read_csv(folder / f"{needed}.csv")] if needed else []
        formats.write_csv(comparison(name).table(records, *more), folder / f"{name}.csv")
