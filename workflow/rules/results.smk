rule tables:
    """Aggregate all records; every aggregate shows how many of its runs it stands on."""
    input:
        [records_of(job) for job in SWEEP.plan.jobs.values()],
    output:
        mse=report(f"{RESULTS}/tables/mse.csv", caption="../report/mse.rst", category="Tables"),
        auc=report(f"{RESULTS}/tables/auc.csv", caption="../report/auc.rst", category="Tables"),
        marginal_error=report(
            f"{RESULTS}/tables/marginal_error.csv", caption="../report/marginal_error.rst", category="Tables"
        ),
    log:
        f"{RESULTS}/logs/tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/tables.tsv"
    script:
        "../scripts/tables.py"
