"""Count one shard of a streamed data set."""

from marginalia.sweep.isolation.log import logged

with logged(snakemake.log[0]):
    from marginalia.sweep.jobs import count_shard

    params = snakemake.params
    count_shard(
        params.entry, snakemake.wildcards.shard, splits=params.splits, seed=params.seed, out=snakemake.output[0]
    )
