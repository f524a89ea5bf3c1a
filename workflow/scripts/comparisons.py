"""Write the tables that compare results with a paper."""

from importlib import import_module
from pathlib import Path

from marginalia.evaluation.jobs import logged

with logged(snakemake.log[0]):
    import pandas as pd

    from marginalia.evaluation.records import read_records
    from marginalia.reporting import formats
    from marginalia.reporting.cards import NEEDS

    records = read_records(snakemake.input.records)
    studies = {Path(path).stem: pd.read_csv(path) for path in snakemake.input.studies}
    folder = Path(snakemake.output[0]).parent
    for name, path in snakemake.params.tables.items():
        module, function = path.split(":")
        more = [studies[NEEDS[name]]] if NEEDS.get(name) in studies else []
        formats.write_csv(getattr(import_module(module), function)(records, *more), folder / f"{name}.csv")
