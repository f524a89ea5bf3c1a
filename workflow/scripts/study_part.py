"""Run one part of a study."""

from pathlib import Path

from marginalia.sweep.isolation.log import logged

with logged(snakemake.log[0]):
    from marginalia.data.files import atomic_path
    from marginalia.papers.registry import card

    data = {Path(p).parent.name: Path(p).parent for p in snakemake.input.data}
    rows = card(snakemake.wildcards.study).run(
        snakemake.wildcards.part, snakemake.params.settings, snakemake.params.seed, data
    )
    with atomic_path(snakemake.output[0]) as temporary:
        rows.to_parquet(temporary, index=False)
