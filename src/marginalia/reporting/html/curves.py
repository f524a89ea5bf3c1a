"""What the page's script needs to draw the curves of a figure; their numbers are in the CSV behind the tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from marginalia.reporting.arms import Line, arms_of, panels_of, plain_titles
from marginalia.reporting.figures import METRIC_NAMES
from marginalia.reporting.html.drawing import Palette
from marginalia.reporting.tables import HIGHER_IS_BETTER


def curves_of(aggregates: pd.DataFrame, metric: str, palette: Palette) -> dict[str, Any]:
    """Return the panels and arms of `figures.metric_vs_epsilon` in its order, with their names and looks.

    ``arms``: key as in the CSV, name, CSV variable of the colour, dashes, marker (polygons; none: a disc), whether the
    marker is open, whether the arm is private. ``panels``: key as in the CSV, title.
    """
    rows = aggregates[aggregates["metric"] == metric]
    panels = panels_of(rows)
    arms = {arm.key: arm for panel in panels for arm in arms_of(panel.rows, context=rows)}
    order = [arm.key for arm in arms_of(rows.drop_duplicates(["method", "variant", "calibration", "relation"]))]
    return {
        "name": METRIC_NAMES[metric],
        "metric": metric,
        "higher": HIGHER_IS_BETTER[metric],
        "arms": [_arm(arms[key], palette) for key in order],
        "panels": [["|".join(p.key), title] for p, title in zip(panels, plain_titles(panels), strict=True)],
    }


def _arm(arm: Line, palette: Palette) -> list[Any]:
    from matplotlib.markers import MarkerStyle

    name = f"{arm.name}: cost of its choice ignored" if arm.is_tuned_on_test else arm.name
    if not arm.is_private and arm.key[0] != "trivial":
        name += " (no privacy)"
    marker = MarkerStyle(arm.look.marker)
    outline = marker.get_path().transformed(marker.get_transform()).to_polygons()
    polygons = [(np.asarray(part) * [1, -1]).round(2).tolist() for part in outline] if arm.look.marker != "o" else []
    dash = [] if isinstance(arm.look.dash, str) else [round(1.6 * part, 1) for part in arm.look.dash[1]]
    if arm.key[0] == "trivial":
        dash = [1.5, 2.5]
    colour = palette.variable(arm.look.colour)
    return ["|".join(arm.key), name, colour, dash, polygons, arm.look.fill == "none", arm.is_private]
