"""Appendix G.4 of the DD-SSP paper: AIM with models of 100 MB instead of 200 MB, its seconds and its accuracy."""

from __future__ import annotations

import numpy as np

from marginalia.data.catalogue import catalogue
from marginalia.experiment import Experiment, Figure, Frame
from marginalia.papers.dd_ssp.arms import AIM, DD_SSP, DD_SSP_100MB, KEYS
from marginalia.papers.dd_ssp.dd_ssp_cells import cells
from marginalia.papers.dd_ssp.run_times import seconds
from marginalia.reporting.means import rounded
from marginalia.reporting.pairwise import p_value, welch
from marginalia.reporting.panels import bars, drawing

SIZES = {"200 MB": AIM, "100 MB": f"{AIM} 100 MB"}


def model_size(records: Frame) -> Frame:
    """Compare both sizes in every cell that was run with both: CPU seconds of AIM, and the error of DD-SSP on it.

    ``saved`` is what the smaller model saves in seconds, with ``saved_stderr`` over trials and ``saved_p`` of Welch's
    test that it saves any (fits of one split, with noise of their own); ``difference`` by how much
    it is better, with the ``bound`` of the equivalence test against ``margin`` (``same``).
    """
    import pandas as pd

    rows = seconds(records)
    parts = [rows[rows["arm"] == arm].groupby(KEYS)["seconds"].agg(["mean", "sem", "size"]) for arm in SIZES.values()]
    times = parts[0].add_suffix("_200").join(parts[1].add_suffix("_100"), how="inner")
    stderr, df = welch(times["sem_200"], times["size_200"], times["sem_100"], times["size_100"])
    saved = times["mean_200"] - times["mean_100"]
    times = pd.DataFrame(
        {
            "seconds_200mb": times["mean_200"],
            "seconds_100mb": times["mean_100"],
            "saved": saved,
            "saved_stderr": stderr,
            "saved_p": p_value(saved, stderr, df),
        },
        index=times.index,
    )
    tested = cells(records)
    tested = tested[(tested["left"] == DD_SSP_100MB) & (tested["right"] == DD_SSP)]
    tested = tested[["metric", *KEYS, "difference", "stderr", "bound", "margin", "held"]].rename(
        columns={"held": "same"}
    )
    return rounded(tested.join(times, on=KEYS, how="inner").reset_index(drop=True))


def figure(table: Frame) -> Figure:
    """Draw seconds of both sizes, and the difference in error in units of its margin, for each cell."""
    from matplotlib.ticker import FuncFormatter

    once = table.drop_duplicates(KEYS)
    with drawing(1 + table["metric"].nunique(), 3, entries=2, height=2.1) as (drawn, axes):
        bars(axes[0], {size: once[f"seconds_{size[:3]}mb"].tolist() for size in SIZES}, _names(once))
        axes[0].tick_params(axis="x", rotation=90)
        axes[0].set(title="Time of AIM", ylabel="CPU seconds of a fit")
        for ax, metric in zip(axes[1:], sorted(table["metric"].unique(), reverse=True), strict=True):
            rows = table[table["metric"] == metric]
            places = np.arange(len(rows))
            gain, error = rows["difference"] / rows["margin"], 2 * rows["stderr"] / rows["margin"]
            ax.axhspan(-1, 1, color="#e6f0e6", lw=0, zorder=0)
            ax.errorbar(places, gain, error, fmt="o", color="#0072B2", capsize=2, elinewidth=0.8)
            ax.axhline(0, color="#767676", lw=0.7)
            ax.set_yscale("symlog", linthresh=1)
            ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            ax.set_xticks(places, _names(rows), fontsize=5.5, rotation=90)
            ax.set_xlim(-0.6, len(rows) - 0.4)
            ax.set(title={"mse": "MSE, regression", "auc": "AUC, classification"}[metric], ylabel="gain / margin")
    return drawn


def _names(rows: Frame) -> list[str]:
    return [
        f"{catalogue.title(name).split(' (')[0]}\nε = {epsilon:g}"
        for name, epsilon in zip(rows["dataset"], rows["epsilon"], strict=True)
    ]


MODEL_SIZE = Experiment(
    id="dd_ssp_model_size",
    title="DD-SSP: half the model size",
    caption=(
        "AIM with models of at most 100 MB instead of 200 MB (appendix G.4). Left: mean CPU seconds of a fit. Then: by "
        "how much DD-SSP on the smaller model is better, with two standard errors over trials, in units of the margin "
        "(5 % of MSE, .01 of AUC): only a bar inside the shaded band says that the two are the same. Linear inside the "
        "band, logarithmic outside."
    ),
    paper="dd_ssp",
    tables=model_size,
    figure=lambda tables: figure(tables["dd_ssp_model_size"]),
)
