# Every rule of one configuration.
include: "common.smk"
include: "data.smk"
include: "sweep.smk"
include: "experiments.smk"
include: "report.smk"
