"""Appendix G.4 of the DD-SSP paper: AIM with models of 100 MB instead of 200 MB, its seconds and its accuracy."""

from __future__ import annotations

import numpy as np

from marginalia.papers.card import Comparison, Figure, Frame
from marginalia.papers.dd_ssp.arms import AIM, DD_SSP, DD_SSP_100MB, KEYS
from marginalia.papers.dd_ssp.cells import cells
from marginalia.papers.dd_ssp.run_times import seconds
from marginalia.papers.form import rounded
from marginalia.reporting.panels import bars, drawing

SIZES = {"200 MB": AIM, "100 MB": f"{AIM} 100 MB"}


def model_size(records: Frame) -> Frame:
    """Compare both sizes in every cell that was run with both: CPU seconds of AIM, and the error of DD-SSP on it.

    ``saved`` is what the smaller model saves in seconds, with ``saved_stderr`` over trials; ``difference`` by how much
    it is better, with the ``bound`` of the equivalence test against ``margin`` (``same``).
    """
    import pandas as pd

    rows = seconds(records)
    parts = [rows[rows["arm"] == arm].groupby(KEYS)["seconds"].agg(["mean", "sem"]) for arm in SIZES.values()]
    times = parts[0].add_suffix("_200").join(parts[1].add_suffix("_100"), how="inner")
    times = pd.DataFrame({
        "seconds_200mb": times["mean_200"], "seconds_100mb": times["mean_100"],
        "saved": times["mean_200"] - times["mean_100"], "saved_stderr": np.hypot(times["sem_200"], times["sem_100"]),
    })  # fmt: skip
    tested = cells(records)
    tested = tested[(tested["left"] == DD_SSP_100MB) & (tested["right"] == DD_SSP)]
    tested = tested[["metric", *KEYS, "difference", "stderr", "bound", "margin", "held"]].rename(
        columns={"held": "same"}
    )
    return rounded(tested.join(times, on=KEYS, how="inner").reset_index(drop=True))


def figure(table: Frame) -> Figure:
    """Draw seconds of both sizes, and the difference in error with its margin, for each cell."""
    from marginalia.data import catalog

    once = table.drop_duplicates(KEYS)
    named = [
        f"{catalog.title(d).removeprefix('ACS ')}\nε = {e:g}"
        for d, e in zip(once["dataset"], once["epsilon"], strict=True)
    ]
    with drawing(1 + table["metric"].nunique(), 3, entries=3, height=2.1) as (drawn, axes):
        bars(axes[0], {size: once[f"seconds_{size[:3]}mb"].tolist() for size in SIZES}, named)
        axes[0].tick_params(axis="x", rotation=90)
        axes[0].set(title="Time of AIM", ylabel="CPU seconds of a fit")
        for ax, metric in zip(axes[1:], sorted(table["metric"].unique(), reverse=True), strict=True):
            rows = table[table["metric"] == metric]
            places = np.arange(len(rows))
            ax.errorbar(
                places, rows["difference"], 2 * rows["stderr"], fmt="o", color="#0072B2", capsize=2, elinewidth=0.8
            )
            for sign in (-1, 1):
                ax.plot(places, sign * rows["margin"], ls="", marker="_", ms=12, color="#D55E00", label="margin")
            ax.axhline(0, color="#767676", lw=0.7)
            names = [
                f"{catalog.title(d).removeprefix('ACS ')}\nε = {e:g}"
                for d, e in zip(rows["dataset"], rows["epsilon"], strict=True)
            ]
            ax.set_xticks(places, names, fontsize=5.5, rotation=90)
            ax.set_xlim(-0.6, len(rows) - 0.4)
            ax.set(title={"mse": "MSE, regression", "auc": "AUC, classification"}[metric], ylabel="gain of 100 MB")
    return drawn


def caption(table: Frame) -> str:
    """Return the caption."""
    return (
        "AIM with models of at most 100 MB instead of 200 MB (appendix G.4). Left: mean CPU seconds of a fit. Then: by "
        "how much DD-SSP on the smaller model is better, with two standard errors over trials; between the short bars "
        "the two count as the same (5 % of MSE, .01 of AUC)."
    )


MODEL_SIZE = Comparison(
    "dd_ssp_model_size", "dd_ssp", model_size, title="DD-SSP: half the model size", figure=figure, caption=caption
)
