"""Write the tables that compare results with a paper."""

from importlib import import_module
from pathlib import Path

from marginalia.evaluation.jobs import logged

with logged(snakemake.log[0]):
    import pandas as pd

    from marginalia.evaluation.records import read_records
    from marginalia.reporting import formats

    records = read_records(snakemake.input.records)
    folder = Path(snakemake.output[0]).parent
    for name, path in snakemake.params.tables.items():
        module, function = path.split(":")
        study = snakemake.params.studies.get(name)
        more = [pd.read_csv(folder / f"{study}.csv")] if study else []
        formats.write_csv(getattr(import_module(module), function)(records, *more), folder / f"{name}.csv")
