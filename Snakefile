# What `snakemake` finds in this folder; the workflow is where the workflow catalogue looks for it.
configfile: "config.yaml"


module marginalia:
    snakefile:
        "workflow/Snakefile"
    config:
        config


use rule * from marginalia


onstart:
    # Snakemake looks at all ready jobs a second after each look, for its limit of 100 new jobs a second: after k jobs,
    # k times a second.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None
