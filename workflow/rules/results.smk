rule tables:
    """Aggregate all records; every aggregate shows how many of its runs it stands on."""
    input:
        [records_of(job) for job in SWEEP.plan.jobs.values()],
    output:
        report(
            expand(f"{RESULTS}/tables/{{metric}}.csv", metric=HEADLINES),
            caption="../report/tables.rst",
            category="Tables",
        ),
        report(
            f"{RESULTS}/tables/certificates.csv",
            caption="../report/certificates.rst",
            category="Certificates",
        ),
        expand(
            f"{RESULTS}/tables/{{name}}.csv",
            name=(*OTHER_METRICS, "failures", "timings"),
        ),
    log:
        f"{RESULTS}/logs/tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/tables.tsv"
    resources:
        mem_mb=MEMORY_OF("rule", "tables"),
        runtime=30,
    params:
        code=version_of(
            "marginalia.reporting.verification.results",
            "marginalia.sweep.records",
        ),
    script:
        "../scripts/tables.py"


rule rows:
    """Gather the rows of every run in one file, from which all tables can be made again."""
    input:
        records=[records_of(job) for job in SWEEP.plan.jobs.values()],
        studies=[part for name in SWEEP.studies for part in parts_of(name).values()],
    output:
        f"{RESULTS}/rows.parquet",
    log:
        f"{RESULTS}/logs/rows.log",
    benchmark:
        f"{RESULTS}/benchmarks/rows.tsv"
    resources:
        mem_mb=MEMORY_OF("rule", "rows"),
        runtime=30,
    params:
        studies={name: parts_of(name) for name in SWEEP.studies},
        code=version_of("marginalia.reporting.verification.rows_file"),
    script:
        "../scripts/rows.py"


rule comparisons:
    """Compare results with what a paper says."""
    input:
        records=[records_of(job) for job in SWEEP.plan.jobs.values()],
        studies=[part for name in COMPARISON_CARDS for part in parts_of(name).values()],
    output:
        expand(f"{RESULTS}/tables/{{name}}.csv", name=COMPARISONS),
    log:
        f"{RESULTS}/logs/comparisons.log",
    benchmark:
        f"{RESULTS}/benchmarks/comparisons.tsv"
    resources:
        mem_mb=MEMORY_OF("rule", "comparisons"),
        runtime=30,
    params:
        names=list(COMPARISONS),
        cards={
            name: (SWEEP.studies[name][1], list(parts_of(name).values()))
            for name in COMPARISON_CARDS
        },
        code=version_of(
            *(c.table for c in COMPARISONS.values()),
            *(SWEEP.studies[name][0].tables for name in COMPARISON_CARDS),
        ),
    script:
        "../scripts/comparisons.py"


rule comparison_figures:
    """Draw the comparisons that have a figure."""
    input:
        expand(f"{RESULTS}/tables/{{name}}.csv", name=COMPARISON_FIGURES),
    output:
        expand(
            f"{RESULTS}/figures/{{name}}.{{ending}}",
            name=COMPARISON_FIGURES,
            ending=("png", "svg", "pdf"),
        ),
    log:
        f"{RESULTS}/logs/comparison_figures.log",
    benchmark:
        f"{RESULTS}/benchmarks/comparison_figures.tsv"
    resources:
        mem_mb=MEMORY_OF("rule", "comparison_figures"),
        runtime=30,
    params:
        figures=COMPARISON_FIGURES,
        titles=SWEEP.config.titles(),
        code=version_of(*(COMPARISONS[name].figure for name in COMPARISON_FIGURES)),
    script:
        "../scripts/comparison_figures.py"


rule figures:
    """Draw each metric, and the certificates, of each experiment."""
    input:
        rules.tables.output,
    output:
        *[
            report(
                f"{RESULTS}/figures/{name}.png",
                caption=f"../report/{table}.rst",
                category="Figures",
            )
            for name, (_, table) in FIGURES.items()
        ],
        expand(
            f"{RESULTS}/figures/{{figure}}.{{ending}}",
            figure=FIGURES,
            ending=("svg", "pdf"),
        ),
    log:
        f"{RESULTS}/logs/figures.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures.tsv"
    resources:
        mem_mb=MEMORY_OF("rule", "figures"),
        runtime=30,
    params:
        figures=FIGURES,
        titles=SWEEP.config.titles(),
        code=version_of("marginalia.reporting.figures"),
    script:
        "../scripts/figures.py"


rule notebook:
    """Execute a notebook on the results that are there, and keep it as a page."""
    input:
        rules.tables.output,
        expand(f"{RESULTS}/tables/{{name}}.csv", name=COMPARISONS),
        expand(f"{RESULTS}/tables/{{study}}.csv", study=SWEEP.studies),
        notebook=lambda wildcards: of_repository(
            f"notebooks/{wildcards.notebook}.ipynb"
        ),
    output:
        f"{RESULTS}/notebooks/{{notebook}}.html",
    log:
        f"{RESULTS}/logs/notebooks/{{notebook}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/notebooks/{{notebook}}.tsv"
    resources:
        mem_mb=MEMORY_OF("rule", "notebook"),
        runtime=30,
    params:
        code=version_of("marginalia.reporting.notebook"),
    script:
        "../scripts/notebook.py"


rule report_page:
    """Write the report: one page with everything in it."""
    input:
        tables=rules.tables.output,
        comparisons=expand(f"{RESULTS}/tables/{{name}}.csv", name=COMPARISONS),
        rows=f"{RESULTS}/rows.parquet",
        studies=expand(f"{RESULTS}/tables/{{study}}.csv", study=SWEEP.studies),
        figures=expand(
            f"{RESULTS}/figures/{{figure}}.png",
            figure=[*COMPARISON_FIGURES, *FIGURES, *SWEEP.studies],
        ),
        notebooks=expand(
            f"{RESULTS}/notebooks/{{notebook}}.html", notebook=SWEEP.config.notebooks
        ),
        datasets=expand(
            f"{RESULTS}/data/{{dataset}}/dataset.json", dataset=SWEEP.entries
        ),
    output:
        page=report(
            f"{RESULTS}/report.html", caption="../report/report.rst", category="Report"
        ),
        provenance=f"{RESULTS}/provenance.json",
    log:
        f"{RESULTS}/logs/report.log",
    benchmark:
        f"{RESULTS}/benchmarks/report.tsv"
    resources:
        mem_mb=MEMORY_OF("rule", "report_page"),
        runtime=30,
    params:
        benchmarks=f"{RESULTS}/benchmarks",
        config=SWEEP.config.model_dump(
            mode="json", by_alias=True, exclude_defaults=True
        ),
        missing=SWEEP.resolution.missing,
        stand_ins=SWEEP.resolution.stand_ins,
        code=version_of(
            "marginalia.reporting.html.folder",
            *(card.figure for card, _ in SWEEP.studies.values()),
            *(COMPARISONS[name].figure for name in COMPARISON_FIGURES),
        ),
    script:
        "../scripts/report_page.py"
