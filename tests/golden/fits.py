"""Seeded fits: every method, variant, task, relation, privacy unit, stream and privately learned domain."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.golden.corpus import Part, digest

SEED_OF_ROWS, SEED_OF_FIT, SAMPLED = 7, 11, 50
# Each takes seconds: to find what is left of the budget composes privacy loss distributions again and again.
SLOW = (
    "objective_perturbation bought logistic add_remove published",
    "objective_perturbation bought logistic replace_one published",
)


def groups() -> list[str]:
    """Return the methods, and the slow fits as a group of their own: a few, and all but the first table of each fit."""
    from marginalia.methods.registry import EVERY

    return [*EVERY, "slow"]


def values(group: str) -> dict[str, str]:
    """Return the digests of the fits of a method, or of all slow fits."""
    from marginalia.audit import tables

    found = {}
    for subject, frame in _chosen(group):
        rows = tables.of_frame(frame, subject.task, subject.sizes[-1], np.random.default_rng(SEED_OF_ROWS))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                outcome = digest(*outputs(subject.fit(rows, SEED_OF_FIT, subject.epsilon, subject.delta), rows))
            except Exception as error:  # a refusal is a result, too
                outcome = f"{type(error).__name__}: {error}"
        found[f"{subject.title} | {frame.name}"] = outcome
    return found


def _chosen(group: str) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of a fit and a made-up table: the fits of the audit, and those of methods without privacy."""
    from marginalia.methods.registry import EVERY

    for name in EVERY if group == "slow" else [group]:
        for subject in subjects_of(name):
            for frame in subject.frames:
                if (subject.title in SLOW or frame is not subject.frames[0]) == (group == "slow"):
                    yield subject, frame


def subjects_of(name: str) -> Iterator[Any]:
    """Yield the fits of a method, with and without privacy."""
    from marginalia.audit.subject import subjects

    yield from subjects(name)
    yield from _without_privacy(name)


def _without_privacy(name: str) -> Iterator[Any]:
    """Yield the fits of a method's arms that have no privacy budget."""
    from marginalia.audit import tables
    from marginalia.audit.subject import Subject
    from marginalia.methods.fit import Budget, fit
    from marginalia.methods.registry import EVERY
    from marginalia.methods.task import Task
    from marginalia.privacy.relation import Relation

    for arm in EVERY[name].arms:
        for task in () if arm.is_private else arm.tasks:

            def fit_rows(rows: Any, seed: int, epsilon: float, delta: float, arm: Any = arm, task: str = task) -> Any:
                learnt = Task(task, rows.frame.target(task), (), rows.frame.one_hot)
                return fit(arm, EVERY, Budget(math.inf, 0.0, "add_remove", seed), rows.table, learnt)

            yield Subject(name, task, Relation.ADD_REMOVE, "none", arm.variant, (tables.MIXED, tables.MANY), fit_rows)


def outputs(model: Any, rows: Any) -> Iterator[bytes]:
    """Yield what a fitted model releases: its ledger, and coefficients or rows and marginals."""
    if (ledger := getattr(model, "ledger_", None)) is not None:
        yield json.dumps(ledger.summary(), sort_keys=True, default=str).encode()
    if hasattr(model, "coef_"):
        yield np.asarray(model.coef_, float).tobytes()
        yield np.asarray(model.intercept_, float).tobytes()
    if hasattr(model, "sample"):
        drawn = model.sample(SAMPLED)
        yield np.ascontiguousarray(drawn.codes).tobytes() if hasattr(drawn, "codes") else drawn.to_csv().encode()
        for name in model.domain_.names:
            yield np.asarray(model.marginal([name]), float).tobytes()


PARTS = [Part("fits", groups, values, slow=frozenset({"slow"}))]
