# The sweep: configured data sets x methods x epsilons -> records -> tables, figures, report.
from snakemake.utils import min_version

min_version("9.0")


configfile: "config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/methods.smk"
include: "workflow/rules/studies.smk"
include: "workflow/rules/results.smk"


rule all:
    default_target: True
    input:
        f"{RESULTS}/report.html",
    localrule: True
