rule gather_rows:
    """Gather the rows of every run in one file, from which all tables can be made again."""
    input:
        records=all_records,
        studies=parts_of(SWEEP.studies),
    output:
        "<results>/rows.parquet",
    log:
        "<logs>/rows.log",
    benchmark:
        "<benchmarks>/rows.tsv"
    retries: 2
    conda:
        "../envs/marginalia.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=30,
    params:
        code=version_of("marginalia.reporting.verification.rows_file"),
    script:
        "../scripts/gather_rows.py"


rule write_report:
    """Write the report: one page with everything in it."""
    input:
        tables=rules.aggregate_tables.output,
        rows="<results>/rows.parquet",
        studies=expand("<results>/tables/{study}.csv", study=SWEEP.experiments),
        figures=expand(
            "<results>/figures/{figure}.png",
            figure=[*FIGURES, *DRAWN],
        ),
        datasets=expand("<results>/data/{dataset}/dataset.json", dataset=SWEEP.entries),
    output:
        page=report(
            "<results>/report.html",
            caption="../report/report.rst",
            category="Report",
            labels={"page": "everything on one page"},
        ),
        provenance="<results>/provenance.json",
    log:
        "<logs>/report.log",
    benchmark:
        "<benchmarks>/report.tsv"
    retries: 2
    conda:
        "../envs/marginalia.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=30,
    params:
        config=SWEEP.config.model_dump(
            mode="json", by_alias=True, exclude_defaults=True
        ),
        missing=SWEEP.resolution.missing,
        stand_ins=SWEEP.resolution.stand_ins,
        code=version_of(
            "marginalia.reporting.html.folder",
            *(root for study in DRAWN for root in code_of(study)),
        ),
    script:
        "../scripts/write_report.py"


rule explore_results:
    """Execute the notebook on finished results. Nothing asks for it: name its page as the target."""
    input:
        rows="<results>/rows.parquet",
        tables=rules.aggregate_tables.output,
        provenance="<results>/provenance.json",
        notebook=of_repository("notebooks/explore.ipynb"),
    output:
        notebook="<results>/explore.ipynb",
        page="<results>/explore.html",
    log:
        "<logs>/explore.log",
    benchmark:
        "<benchmarks>/explore.tsv"
    conda:
        "../envs/marginalia.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=30,
    script:
        "../scripts/explore_results.py"
