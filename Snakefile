# What `snakemake` finds in this folder; the workflow itself lies where others look for it.
include: "workflow/Snakefile"


workflow.default_target = "all"  # Snakemake takes none from an included file
