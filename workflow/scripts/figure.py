"""Draw one figure of one experiment."""

from pathlib import Path

from marginalia.evaluation.jobs import logged

with logged(snakemake.log[0]):
    from marginalia.reporting import figures, formats

    experiment, table = snakemake.params.shown
    frame = formats.read_csv(snakemake.input[0])
    frame = frame[frame["experiment"] == experiment]
    stem = Path(snakemake.output[0]).with_suffix("")
    for width, where in (("double", stem), ("single", stem.parent / "narrow" / stem.name)):
        if table == "certificates":
            drawn = figures.certified_epsilon(frame, width=width)
        else:
            drawn = figures.metric_vs_epsilon(frame, table, width=width)
        figures.save_figure(drawn, where)
