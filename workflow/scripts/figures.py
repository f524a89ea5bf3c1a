"""Draw all figures."""

from pathlib import Path

from marginalia.sweep.isolation.log import logged

with logged(snakemake.log[0]):
    from marginalia.reporting import figures, formats

    folder = Path(snakemake.output[0]).parent
    tables = {Path(p).stem: formats.read_csv(p) for p in snakemake.input if p.endswith(".csv")}
    for name, (experiment, table) in snakemake.params.figures.items():
        frame = tables[table][tables[table]["experiment"] == experiment]
        for width, where in (("double", folder), ("single", folder / "narrow")):
            if table == "certificates":
                drawn = figures.certified_epsilon(frame, width=width)
            else:
                drawn = figures.metric_vs_epsilon(frame, table, width=width)
            figures.save_figure(drawn, where / name)
