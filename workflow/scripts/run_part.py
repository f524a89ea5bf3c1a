"""Run one part of an experiment."""

from pathlib import Path

from marginalia.sweep.log import logged

with logged(snakemake.log[0]):
    import pyarrow

    from marginalia.data.checksums import write_parquet
    from marginalia.papers.registry import experiment

    data = {Path(p).parent.name: Path(p).parent for p in snakemake.input.data}
    rows = experiment(snakemake.wildcards.study, snakemake.params.file).run(
        snakemake.wildcards.part, snakemake.params.settings, snakemake.params.seed, data
    )
    write_parquet(snakemake.output[0], pyarrow.Table.from_pandas(rows, preserve_index=False))
