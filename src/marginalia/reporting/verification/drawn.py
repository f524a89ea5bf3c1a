"""The published figures of a results folder, compared with those that its rows draw.

With the published Matplotlib the pixels are the same; `LEVELS` and `PIXELS` leave room for the last bits
of another processor only. Another Matplotlib draws other letters: then nothing can be said, and that is a difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.image import imread

from marginalia.experiment import Experiment
from marginalia.reporting.html.folder import draw_figures
from marginalia.reporting.verification.rows_file import Rows

LEVELS = 8  # of 255, by which the channels of a pixel may differ
PIXELS = 10  # of a figure, which may differ by more; a curve moved by one pixel changes hundreds


def differences(
    folder: Path,
    rows: Rows,
    known: Mapping[str, Experiment],
    studies: Mapping[str, Mapping[str, pd.DataFrame]],
) -> Iterator[str]:
    """Say which published figures (``figures/*.png``) are not those that the rows make.

    Parameters
    ----------
    folder : Path
        With ``provenance.json``, ``tables/`` and ``figures/``.
    rows : Rows
        What its ``rows.parquet`` holds.
    known : mapping of id to Experiment
    studies : mapping of id to the tables of an experiment with runs of its own
        Those that the rows make.
    """
    published = {path.name for path in (folder / "figures").glob("*.png")}
    facts = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    by = facts.get("packages", {}).get("matplotlib", matplotlib.__version__)
    if by != matplotlib.__version__:
        yield (
            f"figures: drawn by Matplotlib {by}, not compared by {matplotlib.__version__}: pip install matplotlib=={by}"
        )
        return
    with TemporaryDirectory() as scratch:
        made = Path(scratch)
        try:
            names = [Path(name).stem for name in published]
            draw_figures(folder, rows, known, studies, names, made)
        except (KeyError, TypeError, ValueError) as error:  # tables that no longer fit their figure
            yield f"figures: the tables do not draw them: {type(error).__name__}: {error}"
            return
        for name in sorted(published):
            if said := picture_difference(folder / "figures" / name, made / name):
                yield f"figures/{name}: {said}"


def picture_difference(published: Path, made: Path) -> str:
    """Say how a published picture (PNG) is not the one that was made again; nothing where it is."""
    if not made.is_file():
        return "nothing in the rows makes this figure"
    if published.read_bytes() == made.read_bytes():
        return ""
    try:
        theirs, ours = imread(published), imread(made)
    except (OSError, SyntaxError, ValueError) as error:
        return f"it is no picture: {str(error).splitlines()[0]}"
    if theirs.shape != ours.shape:
        return f"it has {theirs.shape[1]} x {theirs.shape[0]} pixels, not {ours.shape[1]} x {ours.shape[0]}"
    apart = int((np.abs(theirs - ours).max(axis=2) > LEVELS / 255).sum())
    return f"{apart} pixels are not those that the rows draw" if apart > PIXELS else ""
