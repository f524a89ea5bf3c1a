"""How X2 to X6 are made: each runs one private release for each of its cases and trials, and draws the errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.chebyshev.runs import DISTANCES, one_run
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import curve, drawing, log_axis, look

NAMES = {"line_3": "line 3", "published": "Lemma 1"}  # of calibrations, in the figure
LEGEND_LINE = 0.17  # inches


def ablation(
    experiment: str,
    title: str,
    caption: str,
    over: str,
    cases: Callable[[Settings], list[Record]],
    more: Callable[[], Tables] = dict,
    **defaults: Any,
) -> Experiment:
    """Return the experiment that runs every case for all trials.

    `over` is the setting on the horizontal axis; `more` makes tables that need no run.
    """

    def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
        for case in cases(settings):
            for trial in range(settings["trials"]):
                yield one_run(experiment, root_seed, trial=trial, **case)

    def tables(rows: Frame, settings: Settings) -> Tables:
        keys = ["d", "k", "n", "epsilon", "m", "calibration", "tolerance"]
        return {experiment: mean_table(rows, keys, [*DISTANCES, "epsilon_spent", "gap"]), **more()}

    return Experiment(
        id=experiment,
        title=title,
        caption=f"{caption} Means over trials, bars: one standard error. In the plane and in space the cosine lower "
        "bound of d_k.",
        defaults={"trials": 10, "over": over, **defaults},
        parts=lambda settings: ["all"],  # seconds a trial
        rows=run,
        tables=tables,
        figure=_figure,
    )


def _figure(tables: Tables, settings: Settings) -> Figure:
    """Draw error over the setting named ``over``, a curve for each case."""
    table, over = next(iter(tables.values())), settings["over"]
    names = [*(["k", "d", "n"] if over != "k" else ["d", "n"]), *settings.get("curves", ())]
    labels = {"k": "smoothness k", "epsilon": "ε", "m": "highest degree m", "epsilon_spent": "ε really spent"}
    cases = list(table.groupby(names, sort=True))
    with drawing(1, 1, entries=1, height=2.4, space=0.16 + LEGEND_LINE * len(cases)) as (drawn, (ax,)):
        for i, (key, rows) in enumerate(cases):
            shown = "exact" if rows["exact"].notna().any() else "lower"
            rows = rows.sort_values(over)
            named = ", ".join(f"{a} = {v:,}" for a, v in zip(names, key, strict=True)).replace("epsilon", "nominal ε")
            label = f"{named} ({DISTANCES[shown]})"
            curve(ax, rows[over], rows[shown], rows[f"{shown}_stderr"], label=label, **look(i))
            if rows["calibration"].nunique() > 1:
                for _, row in rows.iterrows():
                    text = NAMES.get(row["calibration"], row["calibration"])
                    ax.annotate(text, (row[over], row[shown]), xytext=(4, 4), textcoords="offset points")
        ax.set(xlabel=labels.get(over, "duality gap over half the noise"), ylabel="$d_k$", yscale="log")
        if over == "epsilon":
            log_axis(ax, table[over].to_numpy())
        elif over not in ("k", "epsilon_spent"):
            ax.set_xscale("log")
        elif over == "k":
            ax.set_xticks(sorted(table["k"].unique()))
    return drawn
