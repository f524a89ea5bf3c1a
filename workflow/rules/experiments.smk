rule run_part:
    """Run one part of an experiment of a paper."""
    input:
        data=data_of_study,
    output:
        "<results>/studies/{study}/{part}.parquet",
    log:
        "<logs>/studies/{study}/{part}.log",
    benchmark:
        "<benchmarks>/studies/{study}/{part}.tsv"
    retries: 2
    conda:
        "../envs/marginalia.yaml"
    threads: 1
    resources:
        mem_mb=memory(4000),
        runtime=240,
    params:
        settings=settings_of_study,
        seed=SWEEP.config.seed,
        code=version_of_part,
    script:
        "../scripts/run_part.py"


rule tabulate_experiment:
    """Turn the rows of all parts into the tables and the figure of an experiment."""
    input:
        parts_of_study,
    output:
        table=report(
            "<results>/tables/{study}.csv",
            caption="../report/study.rst",
            category="Experiments",
            labels={"experiment": "{study}"},
        ),
        figures=multiext("<results>/figures/{study}", ".png", ".svg", ".pdf"),
    log:
        "<logs>/studies/{study}.log",
    benchmark:
        "<benchmarks>/studies/{study}.tsv"
    retries: 2
    conda:
        "../envs/marginalia.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=30,
    params:
        settings=settings_of_study,
        code=version_of_study,
    script:
        "../scripts/tabulate_experiment.py"


rule compare_with_papers:
    """Compare results with what a paper says."""
    input:
        records=all_records,
        studies=parts_of_all(COMPARISON_CARDS),
    output:
        expand("<results>/tables/{name}.csv", name=COMPARISONS),
    log:
        "<logs>/comparisons.log",
    benchmark:
        "<benchmarks>/comparisons.tsv"
    retries: 2
    conda:
        "../envs/marginalia.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=30,
    params:
        names=list(COMPARISONS),
        settings={name: SWEEP.studies[name][1] for name in COMPARISON_CARDS},
        code=version_of(
            *(c.table for c in COMPARISONS.values()),
            *(SWEEP.studies[name][0].tables for name in COMPARISON_CARDS),
        ),
    script:
        "../scripts/compare_with_papers.py"


rule draw_comparisons:
    """Draw the comparisons that have a figure."""
    input:
        expand("<results>/tables/{name}.csv", name=COMPARISON_FIGURES),
    output:
        expand(
            "<results>/figures/{name}.{ending}",
            name=COMPARISON_FIGURES,
            ending=("png", "svg", "pdf"),
        ),
    log:
        "<logs>/comparison_figures.log",
    benchmark:
        "<benchmarks>/comparison_figures.tsv"
    retries: 2
    conda:
        "../envs/marginalia.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=30,
    params:
        figures=COMPARISON_FIGURES,
        titles=SWEEP.config.titles(),
        code=version_of(*(COMPARISONS[name].figure for name in COMPARISON_FIGURES)),
    script:
        "../scripts/draw_comparisons.py"
