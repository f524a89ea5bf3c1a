"""Write a fitted linear model to JSON and read it back: coefficients, public domain, certificate."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from marginalia.data.domain import Domain
from marginalia.data.encoding import Encoder
from marginalia.data.files import read_content, write_text
from marginalia.errors import InputError, not_fitted
from marginalia.learning.base import LinearClassifier, LinearLearner
from marginalia.learning.private import BudgetedLearner
from marginalia.learning.statistics import NoisySums
from marginalia.methods.registry import class_named
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.ledger import Ledger
from marginalia.synthesis.base import Synthesizer
from marginalia.synthesis.files import read_arrays

FORMAT = "marginalia-model"  # of linear models; `synthesis.files` has that of synthesizers
FORMAT_VERSION = 2
_REMOVED = {  # parameters in files of earlier versions
    "AdaptiveMarginClassifier": ("progress", "criterion"),
    "DPSGDClassifier": ("backend",),
    "DPSGDRegressor": ("backend",),
}


def save_model(model: LinearLearner, path: str | os.PathLike[str]) -> None:
    """Write a model that was fitted on a `Table`, atomically.

    The seed is left out: whoever knows it can subtract the noise. A synthesizer given to a model
    (``marginals=``) is not part of the file; its ledger is. Raises NotFittedError for a model that is not fitted, and
    InputError for one that was fitted on arrays, whose columns have no public meaning.

    >>> import tempfile
    >>> from marginalia.data.domain import Column
    >>> from marginalia.data.table import Table
    >>> from marginalia.methods.ols import OLSRegressor
    >>> domain = Domain([Column("age", 3, "numeric"), Column("pay", 3, "numeric")])
    >>> model = OLSRegressor().fit(Table([[0, 0], [2, 2]], domain), "pay")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/model.json")
    ...     load_model(f"{folder}/model.json").coef_.round(6)
    array([1.])
    """
    if not hasattr(model, "coef_"):
        raise not_fitted(model, "fit")
    if model.encoder_ is None:
        raise InputError("only models fitted on a Table can be written: arrays carry no public domain")
    apart = ("random_state", "domain", "target")  # the seed is secret, the others have keys of their own
    plain = (str, int, float, bool, type(None))
    params = {k: v for k, v in model.get_params(deep=False).items() if k not in apart and isinstance(v, plain)}
    encoder = model.encoder_
    content = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "class": type(model).__name__,
        "params": params,
        "domain": encoder.domain.to_dict(),
        "target": encoder.target,
        "one_hot": sorted(encoder.one_hot),
        "features": list(encoder.feature_names),
        "coef": np.asarray(model.coef_, np.float64).tolist(),
        "intercept": np.asarray(model.intercept_, np.float64).tolist(),
        "certificate": Certificate.of(model).content if hasattr(model, "ledger_") else None,
        **({"frame": True} if model.from_frame_ else {}),
        **({"measurements": [m.to_dict() for m in kept]} if (kept := getattr(model, "measurements_", None)) else {}),
    }
    write_text(path, json.dumps(content, indent=1) + "\n")


def load_model(path: str | os.PathLike[str], *, original: bool | None = None) -> LinearLearner:
    """Read a model written by `save_model`; InputError where the file is missing or is no such model.

    The verdict of its ledger is computed from the events in the file; see `Ledger.from_summary`. With `original` it
    predicts from raw data frames in the target's own units, by its domain; default: if it was fitted on one.

    >>> load_model("nowhere.json")
    Traceback (most recent call last):
    marginalia.errors.InputError: cannot read model nowhere.json: No such file or directory
    """
    content = _read(path)
    try:
        cls: Any = class_named(content["class"], "learner", "downstream")
        encoder = Encoder(Domain.from_dict(content["domain"]), content["target"], one_hot=content["one_hot"])
        coef, intercept = np.array(content["coef"], np.float64), np.array(content["intercept"], np.float64)
        codes = encoder.domain[encoder.target].size
        many = (codes,) if codes > 2 and issubclass(cls, LinearClassifier) else ()
        if (
            coef.shape != (*many, encoder.n_features)
            or intercept.shape not in ((), many)
            or not np.isfinite([*coef.flat, *intercept.flat]).all()
        ):
            raise InputError(f"it needs {encoder.n_features} finite coefficients and an intercept")
        removed = _REMOVED.get(content["class"], ())
        model: LinearLearner = cls(**{name: value for name, value in content["params"].items() if name not in removed})
        if isinstance(model, BudgetedLearner):
            model._check_parameters()
        ledger = None if content["certificate"] is None else Ledger.from_summary(content["certificate"])
        kept = [NoisySums.from_dict(m) for m in content.get("measurements", [])]
    except InputError as error:
        raise InputError(f"{path} is no model that `marginalia fit --out` wrote: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"{path} is no model that `marginalia fit --out` wrote ({why})") from None
    model.coef_, model.intercept_ = coef, intercept if intercept.ndim else float(intercept)
    model.from_frame_ = content.get("frame") is True if original is None else original
    model._remember(encoder)
    if isinstance(model, LinearClassifier):
        model._set_classes(encoder.domain[encoder.target])
    if ledger is not None:
        model.ledger_ = ledger
    if isinstance(model, BudgetedLearner):
        model.measurements_ = kept
    return model


def _read(path: str | os.PathLike[str]) -> Any:
    content = read_content(path, "model", as_json=True)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path} is not a model file; write one with `marginalia fit --out`")
    if content.get("version") != FORMAT_VERSION:
        said = f"version {content.get('version')!r} of the format, this marginalia reads version {FORMAT_VERSION}"
        raise InputError(f"model {path} has {said}; fit it again")
    return content


def load_synthesizer(path: str | os.PathLike[str]) -> Synthesizer:
    """Read a synthesizer that `save` wrote, of whichever built-in class its file names.

    >>> from tempfile import TemporaryDirectory
    >>> from marginalia.data.table import Table
    >>> from marginalia.synthesis import Independent
    >>> with TemporaryDirectory() as folder:
    ...     Independent().fit(Table([[0], [1]], Domain.from_sizes({"a": 2}))).save(f"{folder}/m.npz")
    ...     type(load_synthesizer(f"{folder}/m.npz")).__name__
    'Independent'
    """
    name = str(read_arrays(path)[0].get("class"))
    try:
        found = class_named(name, "synthesizer")
    except KeyError:
        raise InputError(f"{path} holds a {name}, which is no synthesizer of this version") from None
    loaded: Synthesizer = found.load(path)
    return loaded
