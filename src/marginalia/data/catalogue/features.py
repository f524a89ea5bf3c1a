"""Feature files: real vectors with two classes, such as CIFAR-10 images behind an image encoder.

The features must come from a *public* encoder. One that was trained, or scaled, on the private rows has read them
already, and no certificate covers that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.reading import read_frame
from marginalia.errors import InputError

MIN_ROWS = 50


@dataclass(frozen=True)
class Features:
    """Rows of two classes as real vectors.

    >>> Features(np.eye(2), np.array([-1.0, 1.0]), None, None, ("cat", "dog"), name="ViT-B/16").classes[1]  # y = 1
    'dog'
    """

    X: NDArray[np.float64]  # (n, d), as in the file: neither scaled nor normalised
    y: NDArray[np.float64]  # (n,), -1 for the first class, +1 for the second
    X_test: NDArray[np.float64] | None
    y_test: NDArray[np.float64] | None
    classes: tuple[Any, Any]  # labels as in the file
    name: str  # of the features, or the file's stem


def read_features(
    path: str | os.PathLike[str], *, classes: tuple[Any, Any] | None = None, label: str | None = None
) -> Features:
    """Read the rows of two `classes` (needed if the file has more) from a feature file.

    It is an ``.npz`` with ``X`` (n, d) and ``y`` (n,), optionally ``X_test``, ``y_test`` and the string
    ``feature_name``; or a CSV with a header, numbers everywhere but in the column `label`. Refused are shapes that
    disagree, values that are not finite, and under 50 rows.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/toy.npz", X=np.ones((60, 2)), y=["cat", "dog"] * 30)
    ...     read_features(f"{folder}/toy.npz").y[:3]
    array([-1.,  1., -1.])
    """
    file = Path(path)
    content = _read_csv(file, label) if file.suffix == ".csv" else _read_npz(file)
    X, y = _checked(file, content, "X", "y")
    chosen = _two_classes(file, y, classes)
    X, signs = _selected(X, y, chosen)
    if len(X) < MIN_ROWS:
        raise InputError(f"{file}: {len(X)} rows of classes {chosen[0]} and {chosen[1]}; need at least {MIN_ROWS}")
    for k, name in enumerate(chosen):
        if not (signs == 2 * k - 1).any():
            raise InputError(f"{file}: no row of class {name}")
    X_test = y_test = None
    if "X_test" in content or "y_test" in content:
        X_test, y_test = _checked(file, content, "X_test", "y_test")
        if X_test.shape[1] != X.shape[1]:
            raise InputError(f"{file}: X has {X.shape[1]} columns, X_test has {X_test.shape[1]}")
        X_test, y_test = _selected(X_test, y_test, chosen)
    name = str(content["feature_name"]) if "feature_name" in content else file.stem
    return Features(X, signs, X_test, y_test, chosen, name)


def _read_npz(file: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise InputError(f"cannot read feature file {file}: {error.strerror or 'not an .npz archive'}") from None
    except (ValueError, AttributeError, EOFError):
        raise InputError(f"{file}: not an .npz archive of plain arrays (no pickled objects)") from None


def _read_csv(file: Path, label: str | None) -> dict[str, NDArray[Any]]:
    frame = read_frame(file)
    if label is None or label not in frame.columns:
        raise InputError(f"{file}: name its label column; it has {', '.join(map(str, frame.columns[:8]))}")
    return {"X": frame.drop(columns=label).to_numpy(), "y": frame[label].to_numpy()}


def _checked(
    file: Path, content: Mapping[str, Any], rows: str, labels: str
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return finite rows and as many labels."""
    for name in (rows, labels):
        if name not in content:
            raise InputError(f"{file}: array '{name}' is missing; it holds {', '.join(content) or 'nothing'}")
    y = np.asarray(content[labels])
    try:
        X = np.asarray(content[rows], dtype=np.float64)
    except (ValueError, TypeError):
        raise InputError(f"{file}: {rows} holds something other than numbers") from None
    if X.ndim != 2 or X.shape[1] == 0 or y.shape != X.shape[:1]:
        raise InputError(f"{file}: {rows} has shape {X.shape} and {labels} {y.shape}; need (n, d) and (n,)")
    if not np.isfinite(X).all():
        row = int(np.flatnonzero(~np.isfinite(X).all(axis=1))[0])
        raise InputError(f"{file}: row {row} of {rows} holds NaN or infinity")
    return X, y


def _two_classes(file: Path, y: NDArray[Any], classes: tuple[Any, Any] | None) -> tuple[Any, Any]:
    if classes is not None:
        if len(classes) != 2 or classes[0] == classes[1]:
            raise InputError(f"classes are {classes}: need two different labels")
        return tuple(classes)
    labels = np.unique(y)
    if labels.size != 2:
        shown = ", ".join(map(str, labels[:6].tolist()))
        raise InputError(f"{file}: y has {labels.size} classes ({shown}); need exactly two, or name two of them")
    return tuple(labels.tolist())


def _selected(
    X: NDArray[np.float64], y: NDArray[Any], classes: tuple[Any, Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    second = y == classes[1]
    kept = (y == classes[0]) | second
    return X[kept], np.where(second[kept], 1.0, -1.0)
