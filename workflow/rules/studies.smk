rule study_part:
    """Run one part of a study."""
    input:
        data=lambda wildcards: [
            f"{RESULTS}/data/{name}/dataset.json"
            for name in SWEEP.studies[wildcards.study][0].datasets
        ],
    output:
        f"{RESULTS}/studies/{{study}}/{{part}}.parquet",
    log:
        f"{RESULTS}/logs/studies/{{study}}/{{part}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/studies/{{study}}/{{part}}.tsv"
    threads: 1
    resources:
        mem_mb=lambda wildcards: MEMORY_OF("study", wildcards.study, 4000),
        runtime=240,
    params:
        settings=lambda wildcards: SWEEP.studies[wildcards.study][1],
        seed=SWEEP.config.seed,
        code=lambda wildcards: version_of(SWEEP.studies[wildcards.study][0].run),
    script:
        "../scripts/study_part.py"


rule study:
    """Turn the rows of all parts into the study's tables and figure."""
    input:
        lambda wildcards: list(parts_of(wildcards.study).values()),
    output:
        table=report(
            f"{RESULTS}/tables/{{study}}.csv",
            caption="../report/study.rst",
            category="Studies",
        ),
        figures=multiext(f"{RESULTS}/figures/{{study}}", ".png", ".svg", ".pdf"),
    log:
        f"{RESULTS}/logs/studies/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/studies/{{study}}.tsv"
    resources:
        mem_mb=MEMORY_OF("rule", "study"),
        runtime=30,
    params:
        settings=lambda wildcards: SWEEP.studies[wildcards.study][1],
        code=lambda wildcards: version_of(
            SWEEP.studies[wildcards.study][0].tables,
            SWEEP.studies[wildcards.study][0].figure,
        ),
    script:
        "../scripts/study.py"
