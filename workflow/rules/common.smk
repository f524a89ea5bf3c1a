# Plan and helpers of the rules of one configuration. Everything else lives in the library.
import os
import re
import sys

from marginalia.errors import InputError
from marginalia.evaluation import sweep
from marginalia.evaluation.version import code_version, version_of
from marginalia.reporting.cards import figures_of, studies_of, tables_of

try:
    COMPARISONS = tables_of(
        config.get("comparisons", ())
    )  # name -> import path of what makes the table
    SWEEP = sweep.prepare(config, probe=workflow.is_main_process)
except InputError as error:
    print(f"marginalia: {error}", file=sys.stderr, flush=True)
    os._exit(2)  # one line and no traceback: nothing has been started yet

RESULTS = SWEEP.config.results_dir
FIGURES = SWEEP.figures()  # name -> (experiment, table)
COMPARISON_STUDIES = studies_of(
    config.get("comparisons", ()), SWEEP.studies
)  # name -> study whose table it also needs
COMPARISON_FIGURES = figures_of(
    config.get("comparisons", ())
)  # name -> module that draws it


wildcard_constraints:
    notebook=r"[^/]+",
    experiment=r"[^/]+",
    dataset=r"[^/]+",
    group=r"[^/]+",
    batch=r"[^/]+",
    study="|".join(map(re.escape, SWEEP.studies)) or "none",
    part=r"[^/]+",


def job_of(wildcards):
    return SWEEP.plan.jobs[
        wildcards.experiment, wildcards.dataset, wildcards.group, wildcards.batch
    ]


def records_of(job):
    return f"{RESULTS}/records/{job.experiment.name}/{job.dataset}/{job.group}/{job.batch}.parquet"


def source_records(wildcards):
    return [records_of(job) for job in SWEEP.plan.needed_by(job_of(wildcards))]


def study_parts(wildcards):
    study, settings = SWEEP.studies[wildcards.study]
    return [
        f"{RESULTS}/studies/{study.id}/{part}.parquet" for part in study.parts(settings)
    ]
