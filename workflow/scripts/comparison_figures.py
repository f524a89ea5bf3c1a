"""Draw the figures of comparisons."""

from importlib import import_module
from pathlib import Path

from marginalia.evaluation.jobs import logged

with logged(snakemake.log[0]):
    from marginalia.reporting import figures, formats

    folder = Path(snakemake.output[0]).parent
    tables = {Path(p).stem: formats.read_csv(p) for p in snakemake.input}
    for name, module in snakemake.params.figures.items():
        figures.save_figure(import_module(module).figure(tables[name]), folder / name)
