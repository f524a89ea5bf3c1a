# The sweep: configured data sets x methods x epsilons -> records -> tables, figures, report.
from snakemake.utils import min_version

min_version("9.0")


configfile: "config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/start.smk"


if "" in CONFIGS:

    include: "workflow/rules/sweep.smk"

else:  # several configurations, each with its own results folder: a copy of the rules for each
    for block, content in CONFIGS.items():
        prefix = f"{block}_"

        module:
            name: block
            snakefile:
                "workflow/rules/sweep.smk"
            config:
                content

        use rule * from block as prefix*


rule all:
    default_target: True
    input:
        [f"{content['results_dir']}/report.html" for content in CONFIGS.values()],
    localrule: True
