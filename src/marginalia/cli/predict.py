"""The verb that predicts from raw rows by a fitted model."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia.cli.shared import Answer, check_out
from marginalia.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def predict(
    model: Annotated[Path, typer.Option("--model", help="Model written by `fit --out`.")],
    data: Annotated[Path, typer.Option("--data", help="CSV or Parquet file; the target column may be missing.")],
    out: Annotated[Path | None, typer.Option("--out", help="CSV or Parquet file to write.")] = None,
    *,
    as_json: bool,
) -> Answer:
    """Predict the target of each row of a file, in the target's own units; for classes with their probabilities.

    The model holds the domain by which the file is read. Without --out the predictions are printed.

    Example: marginalia predict --model model.json --data new.csv --out predictions.csv
    """
    from marginalia.data.files import atomic_path
    from marginalia.data.reading import csv_quoting, read_raw
    from marginalia.learning.base import LinearClassifier
    from marginalia.learning.units import class_labels, code_values
    from marginalia.methods.models import load_model

    if out is not None:
        check_out(out, (".csv", ".parquet"), (model, data))
    fitted = load_model(model, original=True)
    encoder = fitted.encoder_
    assert encoder is not None  # a saved model was fitted on a table
    rows = read_raw(data, encoder.domain)
    try:
        found: Any = fitted.predict(rows)
        shares = fitted.predict_proba(rows) if isinstance(fitted, LinearClassifier) else None
    except InputError as error:
        raise InputError(f"{data}: {str(error).removeprefix('data frame: ')}") from None
    import numpy as np
    import pandas as pd

    target = encoder.domain[encoder.target]
    if found.dtype == np.float64 and shares is None:
        found = _round(found, np.ptp(code_values(target)))
    predictions = pd.DataFrame({encoder.target: found})
    if shares is not None:
        assert isinstance(fitted, LinearClassifier)
        labels, order = class_labels(target), np.searchsorted(fitted.classes_, class_labels(target))
        if target.type == "boolean" and target.labels is not None:  # as the file writes them
            labels = np.array(target.labels)
            predictions[encoder.target] = labels[found.astype(int)]
        for label, j in zip(labels, order, strict=True):
            predictions[f"probability of {label}"] = _round(shares[:, j], shares[:, j])
    write_csv = partial(
        predictions.to_csv,
        index=False,
        lineterminator="\n",
        date_format=target.format or "%Y-%m-%d",
        quoting=csv_quoting(predictions.columns, target.written),
    )
    content: dict[str, Any] = {"target": encoder.target, "rows": len(predictions)}
    if out is not None:
        with atomic_path(out) as temporary:
            if out.suffix == ".csv":
                write_csv(temporary)
            else:
                predictions.to_parquet(temporary, index=False)
        return Answer({**content, "out": str(out)}, [f"{out}: {len(predictions)} rows"])
    if not as_json:
        print(write_csv(), end="")
        return Answer(content, [])
    as_text = predictions.to_json(orient="records", date_format="iso", date_unit="s", double_precision=15)
    return Answer({**content, "predictions": json.loads(as_text)}, [])


def _round(numbers: NDArray[Any], size: ArrayLike) -> NDArray[Any]:
    """Round to six significant digits of `size`: more mean nothing in what a noisy model says."""
    import numpy as np

    digits = 5 - np.floor(np.log10(np.clip(size, 1e-290, 1e290)))
    small, large = 10.0 ** np.maximum(digits, 0), 10.0 ** np.maximum(-digits, 0)  # both exact, as 10 ** -5 is not
    return np.asarray(np.round(numbers * small / large) / small * large)
