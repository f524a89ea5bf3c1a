rule method:
    """Run one method on one data set: all epsilons and trials of cheap methods, one epsilon of slow ones."""
    input:
        data=f"{RESULTS}/data/{{dataset}}/dataset.json",
        sources=source_records,
    output:
        f"{RESULTS}/records/{{experiment}}/{{dataset}}/{{method}}/{{batch}}.parquet",
    log:
        f"{RESULTS}/logs/methods/{{experiment}}/{{dataset}}/{{method}}-{{batch}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/methods/{{experiment}}/{{dataset}}/{{method}}-{{batch}}.tsv"
    # What others wait for goes first, and large budgets first among those: they take longest.
    priority: lambda wildcards: 1 if job_of(wildcards).batch == "all" else 10
    threads: 1
    resources:
        mem_mb=4000,
        runtime=240,
    params:
        settings=lambda wildcards: job_of(wildcards).settings(),
        seed=SWEEP.config.seed,
        store=f"{RESULTS}/cells",
        code=code_version(),
    script:
        "../scripts/method.py"
