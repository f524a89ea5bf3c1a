rule prepare_dataset:
    """Download (cache, mirror, URL; hashes checked), discretise, and store in the library's own format."""
    output:
        "<results>/data/{dataset}/dataset.json",
        "<results>/data/{dataset}/domain.json",
        "<results>/data/{dataset}/table.parquet",
    log:
        "<logs>/data/{dataset}.log",
    benchmark:
        "<benchmarks>/data/{dataset}.tsv"
    retries: 2
    conda:
        "../envs/marginalia.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=60,
    params:
        entry=entry_of,
        code=version_of_data,
    script:
        "../scripts/prepare_dataset.py"
