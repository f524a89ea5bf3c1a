# Every rule of one configuration.
include: "common.smk"
include: "data.smk"
include: "peers.smk"
include: "methods.smk"
include: "studies.smk"
include: "results.smk"
