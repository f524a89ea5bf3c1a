# What `snakemake` finds in this folder; the workflow is where the workflow catalogue looks for it.
configfile: "config.yaml"


module marginalia:
    snakefile:
        "workflow/Snakefile"
    config:
        config


use rule * from marginalia
