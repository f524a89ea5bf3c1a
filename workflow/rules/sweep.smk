rule make_peer_environment:
    """Make the environment of another library from its lock file, apart from ours; one that cannot be made says why."""
    input:
        script="envs/install_peer.py",
        adapter="envs/peers/{library}.py",
    output:
        "<results>/peers/{library}.json",
    log:
        "<logs>/peers/{library}.log",
    benchmark:
        "<benchmarks>/peers/{library}.tsv"
    wildcard_constraints:
        library=r"[^/]+",
    conda:
        "../envs/marginalia.yaml"
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        python=sys.executable,
        locked=lambda wildcards: lock_hash(wildcards.library),
    shell:
        "{params.python:q} {input.script:q} {wildcards.library:q} {output:q} > {log:q} 2>&1"


rule run_methods:
    """Run methods on one data set: all that are cheap together, a slow one for one epsilon."""
    input:
        data="<results>/data/{dataset}/dataset.json",
        peers=environments_of_peers,
    output:
        "<results>/records/{experiment}/{dataset}/{group}/{batch}.parquet",
    log:
        "<logs>/methods/{experiment}/{dataset}/{group}-{batch}.log",
    benchmark:
        "<benchmarks>/methods/{experiment}/{dataset}/{group}-{batch}.tsv"
    priority: slow_first
    conda:
        "../envs/marginalia.yaml"
    threads: 1
    resources:
        mem_mb=memory_of_methods,
        runtime=240,
    params:
        settings=settings_of_methods,
        seed=SWEEP.config.seed,
        code=version_of_methods,
    script:
        "../scripts/run_methods.py"


rule aggregate_tables:
    """Aggregate all records; every aggregate shows how many of its runs it stands on."""
    input:
        all_records,
    output:
        [
            report(
                f"<results>/tables/{metric}.csv",
                caption="../report/tables.rst",
                category="Tables",
                labels={"metric": METRICS[metric].name},
            )
            for metric in HEADLINES
        ],
        report(
            "<results>/tables/certificates.csv",
            caption="../report/certificates.rst",
            category="Tables",
            labels={"metric": "certified epsilon"},
        ),
        expand(
            "<results>/tables/{name}.csv", name=(*OTHER_METRICS, "failures", "timings")
        ),
    log:
        "<logs>/tables.log",
    benchmark:
        "<benchmarks>/tables.tsv"
    retries: 2
    conda:
        "../envs/marginalia.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=30,
    params:
        code=version_of(
            "marginalia.reporting.verification.results", "marginalia.sweep.records"
        ),
    script:
        "../scripts/aggregate_tables.py"


rule draw_figures:
    """Draw each metric, and the certificates, of each experiment."""
    input:
        rules.aggregate_tables.output,
    output:
        *[
            report(
                f"<results>/figures/{name}.png",
                caption=f"../report/{table}.rst",
                category="Figures",
                labels={"experiment": experiment, "metric": table},
            )
            for name, (experiment, table) in FIGURES.items()
        ],
        expand(
            "<results>/figures/{figure}.{ending}",
            figure=FIGURES,
            ending=("svg", "pdf"),
        ),
    log:
        "<logs>/figures.log",
    benchmark:
        "<benchmarks>/figures.tsv"
    retries: 2
    conda:
        "../envs/marginalia.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=30,
    params:
        figures=FIGURES,
        titles=SWEEP.config.titles(),
        presentations=SWEEP.config.presentations(),
        code=version_of("marginalia.reporting.figures"),
    script:
        "../scripts/draw_figures.py"
