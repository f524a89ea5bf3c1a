# Plan and helpers of the rules of one configuration. Everything else lives in the library.
import os
import re
import sys

from marginalia.advice.costs import memory_of
from marginalia.data.datasets import reader_module
from marginalia.errors import InputError
from marginalia.papers import registry
from marginalia.peers.environment import lock_hash
from marginalia.peers.record import libraries
from marginalia.sweep import resolve
from marginalia.sweep.metrics import HEADLINES, METRICS
from marginalia.sweep.version import version_of

try:
    COMPARISONS = registry.comparisons(config.get("comparisons", ()))
    SWEEP = resolve.prepare(config, registry.cards(), probe=workflow.is_main_process)
except InputError as error:
    print(f"marginalia: {error}", file=sys.stderr, flush=True)
    os._exit(2)  # one line and no traceback: nothing has been started yet

RESULTS = SWEEP.config.results_dir
if (
    SWEEP.own
):  # of private rows: whatever this process and its jobs write is for their owner alone
    os.umask(0o077)
    if os.path.isdir(RESULTS):  # of a run before
        os.chmod(RESULTS, 0o700)
MEMORY_OF = memory_of()
FIGURES = SWEEP.figures()  # name -> (experiment, table)
# cards whose tables the comparisons also need
COMPARISON_CARDS = registry.cards_needed(COMPARISONS.values(), SWEEP.studies)
# tables that are there in any case, and those of metrics that earlier versions did not measure
OTHER_METRICS = [
    metric.id
    for metric in METRICS.values()
    if not metric.headline and (not metric.optional or metric.id in SWEEP.metrics())
]
COMPARISON_FIGURES = [name for name, c in COMPARISONS.items() if c.figure]


def of_repository(path):
    """Return a file of this repository as it is seen from the working folder, which is another's where this is a module."""
    return os.path.relpath(workflow.source_path(f"../../{path}"))


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


def peer_environments(wildcards):
    return [
        f"{RESULTS}/peers/{name}.json" for name in libraries(job_of(wildcards).arms)
    ]


def parts_of(name):
    """Return the files of a study's parts, by part."""
    study, settings = SWEEP.studies[name]
    folder = f"{RESULTS}/studies/{name}"
    return {part: f"{folder}/{part}.parquet" for part in study.parts(settings)}
