rule run_part:
    """Run one part of an experiment."""
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
        file=file_of_study,
        settings=settings_of_study,
        seed=SWEEP.config.seed,
        code=version_of_part,
    script:
        "../scripts/run_part.py"


rule tabulate_experiment:
    """Turn the rows of an experiment, its own or the sweep's, into its tables and its figure."""
    input:
        rows=rows_of_study,
        needs=parts_of_needed_studies,
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
    wildcard_constraints:
        study=one_of(DRAWN),
    retries: 2
    conda:
        "../envs/marginalia.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=30,
    params:
        file=file_of_study,
        settings=settings_of_study,
        needs=needed_experiments,
        titles=SWEEP.config.titles(),
        presentations=SWEEP.config.presentations(),
        code=version_of_study,
    script:
        "../scripts/tabulate_experiment.py"


use rule tabulate_experiment as tabulate_without_figure with:
    output:
        table="<results>/tables/{study}.csv",
    wildcard_constraints:
        study=one_of(UNDRAWN),
