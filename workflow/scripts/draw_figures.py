"""Draw all figures."""

from pathlib import Path

from marginalia.sweep.log import logged

with logged(snakemake.log[0]):
    from marginalia.data.catalogue.catalogue import own_titles
    from marginalia.reporting import figures, formats
    from marginalia.reporting.style import presented

    folder = Path(snakemake.output[0]).parent
    tables = {Path(p).stem: formats.read_csv(p) for p in snakemake.input if p.endswith(".csv")}
    with own_titles(snakemake.params.titles), presented(snakemake.params.presentations):
        for name, (experiment, table) in snakemake.params.figures.items():
            figures.save_figure(figures.sweep_figure(tables, experiment, table), folder / name)
