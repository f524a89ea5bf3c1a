"""What scikit-learn does with the rows of a private fit around it, which the ledger of that fit does not cover."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags

from marginalia.errors import PrivacyWarning, level_of_caller

_FIXED = ("PolynomialFeatures",)  # transformers that learn the number of columns only


@dataclass
class Family:
    """A learner and its clones, from which they all can see that there are several.

    >>> Family().n_clones
    0
    """

    n_clones: int = 0


def join_family(learner: Any, copy: Any) -> None:
    """Record that `copy` was cloned from `learner`.

    >>> from sklearn.base import clone
    >>> from marginalia.learning import SSPClassifier
    >>> model = SSPClassifier()
    >>> clone(clone(model))._family is model._family, model._family.n_clones
    (True, 2)
    """
    family = learner.__dict__.setdefault("_family", Family())
    family.n_clones += 1
    copy._family = family


def warn_of_surroundings(learner: Any) -> None:
    """Warn of steps that learn from the same rows before a private fit, and of further fits to the same rows.

    Estimators whose methods are running are found among the callers. Clones know each other, which also holds where a
    function or another process fits them.

    >>> from marginalia.learning import SSPClassifier
    >>> warn_of_surroundings(SSPClassifier())
    """
    name, inner, several = type(learner).__name__, learner, False
    for outer in _estimators_around(learner):
        kind = type(outer).__name__
        steps = _steps_before(outer, inner)
        learned = ", ".join(_unique(type(step).__name__ for step in steps or () for step in _learning(step)))
        if learned:
            _warn(
                f"{kind} fits {learned} to the same private rows as {name}, and the ledger covers {name} alone; take "
                "steps with public settings, or domain= and target=, which scale and encode by public facts"
            )
        elif steps is None and not several:
            several = True
            _warn(
                f"{kind} fits {name}: ledger_ covers one fit only. The fits to the same rows cost their sum, which a "
                f"budget file records (marginalia.Odometer), and what {kind} learns or chooses from the rows itself, "
                "such as scores, is in no ledger"
            )
        inner = outer
    family = learner.__dict__.get("_family")
    if family is not None and family.n_clones > 1 and not several:
        _warn(
            f"this {name} is one of several clones, as cross_val_score and searches make them: ledger_ covers one fit "
            "only. Fits to the same rows cost their sum, which a budget file records (marginalia.Odometer), and scores "
            "of them are in no ledger"
        )


def _warn(message: str) -> None:
    warnings.warn(message, PrivacyWarning, stacklevel=level_of_caller())


def _unique(names: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _estimators_around(learner: Any) -> Iterator[Any]:
    """Yield the estimators of scikit-learn, and pipelines and meta-estimators of others, that call this fit."""
    frame, seen = sys._getframe(1), [learner]
    while frame is not None:
        owner = frame.f_locals.get("self")
        frame = frame.f_back  # type: ignore[assignment]
        is_outer = isinstance(owner, BaseEstimator) and (
            isinstance(owner, MetaEstimatorMixin) or _is_a(owner, "Pipeline") or _module(owner).startswith("sklearn.")
        )
        if is_outer and not any(owner is one for one in seen):
            seen.append(owner)
            yield owner


def _module(estimator: Any) -> str:
    return str(type(estimator).__module__)


def _is_a(estimator: Any, *names: str) -> bool:
    return any(cls.__name__ in names for cls in type(estimator).__mro__)


def _steps_before(outer: Any, inner: Any) -> list[Any] | None:
    """Return the steps that an estimator fits before `inner`; None for one that has no steps."""
    if _is_a(outer, "Pipeline"):
        steps = [step for _, step in outer.steps]
        return next((steps[:i] for i, step in enumerate(steps) if step is inner), steps[:-1])
    if _is_a(outer, "TransformedTargetRegressor"):
        return [outer.transformer_]
    if _is_a(outer, "FeatureUnion", "ColumnTransformer"):
        return []
    return None


def _learning(step: Any) -> Iterator[Any]:
    """Yield those parts of a step that learn from rows."""
    if step is None or isinstance(step, str):  # passthrough, drop
        return
    parts: list[Any] | None = None
    if _is_a(step, "Pipeline"):
        parts = [part for _, part in step.steps]
    elif _is_a(step, "FeatureUnion"):
        parts = [part for _, part in step.transformer_list]
    elif _is_a(step, "ColumnTransformer"):
        parts = [*(part for _, part, _ in step.transformers), step.remainder]
    if parts is not None:
        for part in parts:
            yield from _learning(part)
    elif not _is_fixed(step):
        yield step


def _is_fixed(step: Any) -> bool:
    """Return whether what a transformer does follows from its parameters alone."""
    if not get_tags(step).requires_fit or _is_a(step, *_FIXED):
        return True
    if _is_a(step, "OneHotEncoder", "OrdinalEncoder"):
        by_count = (getattr(step, "min_frequency", None), getattr(step, "max_categories", None))
        return not isinstance(step.categories, str) and by_count == (None, None)
    return _is_a(step, "SimpleImputer") and step.strategy == "constant"
