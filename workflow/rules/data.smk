rule dataset:
    """Download (cache, mirror, URL; hashes checked), discretise, and store in the library's own format."""
    output:
        f"{RESULTS}/data/{{dataset}}/dataset.json",
        f"{RESULTS}/data/{{dataset}}/domain.json",
        f"{RESULTS}/data/{{dataset}}/table.parquet",
    log:
        f"{RESULTS}/logs/data/{{dataset}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/data/{{dataset}}.tsv"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        entry=lambda wildcards: SWEEP.entries[wildcards.dataset].model_dump(mode="json"),
        code=lambda wildcards: version_of(
            "marginalia.sweep.prepare",
            reader_module(SWEEP.entries[wildcards.dataset]),
        ),
    script:
        "../scripts/dataset.py"
