rule methods:
    """Run methods on one data set: all that are cheap together, a slow one for one epsilon."""
    input:
        data=f"{RESULTS}/data/{{dataset}}/dataset.json",
        peers=peer_environments,
    output:
        f"{RESULTS}/records/{{experiment}}/{{dataset}}/{{group}}/{{batch}}.parquet",
    log:
        f"{RESULTS}/logs/methods/{{experiment}}/{{dataset}}/{{group}}-{{batch}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/methods/{{experiment}}/{{dataset}}/{{group}}-{{batch}}.tsv"
    # A slow method takes longest, and goes first.
    priority: lambda wildcards: 1 if job_of(wildcards).batch == "all" else 10
    threads: 1
    resources:
        # a fit, and the process that watches it
        mem_mb=lambda wildcards: job_of(wildcards).experiment.memory_mb + 500,
        runtime=240,
    params:
        settings=lambda wildcards: job_of(wildcards).settings(),
        seed=SWEEP.config.seed,
        code=lambda wildcards: job_of(wildcards).versions(),
    script:
        "../scripts/methods.py"
