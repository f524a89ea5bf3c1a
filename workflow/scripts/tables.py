"""Aggregate records into tables."""

from pathlib import Path

from marginalia.sweep.jobs import logged

with logged(snakemake.log[0]):
    from marginalia.reporting import formats, tables
    from marginalia.sweep.records import HEADLINES, METRICS, read_records

    folder = Path(snakemake.output[0]).parent
    records = read_records(snakemake.input)
    frames = {metric: tables.aggregate(records, metric) for metric in METRICS}
    for name in ("certificates", "failures", "timings"):
        frames[name] = getattr(tables, name)(records)
    for name, frame in frames.items():
        formats.write_csv(frame, folder / f"{name}.csv")
    for metric in HEADLINES:
        text = formats.wide(frames[metric])
        formats.write_markdown(text, folder / f"{metric}.md")
        formats.write_latex(text, folder / f"{metric}.tex", label=f"tab:{metric}")
