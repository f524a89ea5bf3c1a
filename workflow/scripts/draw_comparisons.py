"""Draw the figures of comparisons."""

from pathlib import Path

from marginalia.sweep.log import logged

with logged(snakemake.log[0]):
    from marginalia.data.catalogue.catalogue import own_titles
    from marginalia.papers.registry import comparison
    from marginalia.reporting import figures, formats

    folder = Path(snakemake.output[0]).parent
    tables = {Path(p).stem: formats.read_csv(p) for p in snakemake.input}
    with own_titles(snakemake.params.titles):
        for name in snakemake.params.figures:
            figures.save_figure(comparison(name).figure(tables[name]), folder / name)
