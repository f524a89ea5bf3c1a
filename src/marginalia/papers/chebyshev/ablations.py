"""Cards X2 to X6: what smoothness, epsilon, the degree, the calibration and the solver's tolerance do to the error.

Each is one call of `_ablation` with its cases; X5 has besides a table of true epsilons that needs no run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from marginalia.papers.card import Card, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.chebyshev.runs import DELTA, DISTANCES, one_run
from marginalia.papers.rows import as_frame
from marginalia.privacy.calibration import gdp_epsilon
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import curve, drawing, log_axis, look

# d, k, m of the table of true epsilons.
CALIBRATED = ((1, 1, 16), (1, 1, 256), (1, 2, 16), (1, 3, 16), (2, 1, 8), (2, 1, 32), (2, 2, 8), (2, 2, 32), (2, 3, 8),
              (3, 1, 5), (3, 2, 5), (3, 3, 5))  # fmt: skip
NOMINAL = (0.5, 1.0, 2.0, 4.0)
NAMES = {"line_3": "line 3", "published": "Lemma 1"}  # of calibrations, in the figure
LEGEND_LINE = 0.17  # inches


@as_frame
def true_epsilons() -> Iterator[Record]:
    """Yield squared sensitivities (times n²) of every calibration, and what the published noise really spends.

    The true epsilon is that of two corners of the cube: a lower bound that is attained. Columns ``line_3_at_ε``: with
    the noise of Algorithm 1's line 3, which the paper states for ε < 1; ``lemma_1_at_ε``: with Lemma 1's, which it
    prescribes from ε = 1 on.
    """
    from marginalia.methods.chebyshev import calibration as noise
    from marginalia.methods.chebyshev.moments import Degrees

    for d, k, m in CALIBRATED:
        indices = Degrees((m,) * d, k)
        attained = noise.attained_sensitivity(indices)
        line = {"d": d, "k": k, "m": m, "published": noise.published_sensitivity(indices), "attained": attained}
        line |= {"proven": noise.tight_sensitivity(indices), "corrected": noise.corrected_sensitivity(indices)}
        for epsilon in NOMINAL:
            for calibration in noise.PRINTED if epsilon >= 1 else ("line_3",):
                sigma = noise.noise_scale(indices, 1, epsilon, DELTA, calibration=calibration)
                name = "line_3" if calibration == "line_3" else "lemma_1"
                line[f"{name}_at_{epsilon:g}"] = gdp_epsilon(attained**0.5 / sigma, DELTA)
        yield line


def _ablation(
    card: str, title: str, caption: str, over: str, cases: Callable[[Settings], list[Record]],
    more: Callable[[], Tables] = dict, **defaults: Any,
) -> Card:  # fmt: skip
    """Return the card that runs every case for all trials.

    `over` is the setting on the horizontal axis; `more` makes tables that need no run.
    """

    @as_frame
    def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
        for case in cases(settings):
            for trial in range(settings["trials"]):
                yield one_run(card, root_seed, trial=trial, **case)

    def tables(rows: Frame, settings: Settings) -> Tables:
        keys = ["d", "k", "n", "epsilon", "m", "calibration", "tolerance"]
        return {card: mean_table(rows, keys, [*DISTANCES, "epsilon_spent", "gap"]), **more()}

    return Card(
        id=card, title=title,
        caption=f"{caption} Means over trials, bars: one standard error. In the plane and in space the cosine lower "
        "bound of d_k.",
        defaults={"trials": 10, "over": over, **defaults},
        parts=lambda settings: ["all"],  # seconds a trial
        run=run, tables=tables, figure=_figure,
    )  # fmt: skip


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


X2 = _ablation(
    "chebyshev_x2", "What smoothness buys",
    "Error over the smoothness k at n = 10,000, in d dimensions, each in its own distance d_k.", "k",
    lambda s: [{"k": k, "d": d, "n": s["n"]} for d in s["dimensions"] for k in s["smoothness"]],
    n=10_000, dimensions=(2, 3), smoothness=(1, 2, 3, 4),
)  # fmt: skip
X3 = _ablation(
    "chebyshev_x3", "What epsilon buys", "k = d = 2, n = 10,000, degree 16.", "epsilon",
    lambda s: [{"k": 2, "d": 2, "n": s["n"], "m": 16, "epsilon": e} for e in s["epsilons"]],
    n=10_000, epsilons=(0.25, 0.5, 1.0, 2.0, 4.0),
)  # fmt: skip
X4 = _ablation(
    "chebyshev_x4", "The highest degree m", "Too small a degree hurts by bias, too large a one hardly does.", "m",
    lambda s: [{"k": int(k), "d": int(d), "n": n, "m": m} for k, d, n, ms in s["grid"] for m in ms],
    grid=((2, 1, 10_000, (8, 16, 33, 66, 132)), (1, 1, 1600, (16, 66, 264)),
          (2, 2, 10_000, (4, 8, 16, 33)), (2, 2, 100_000, (16, 33, 48))),
)  # fmt: skip
X5 = _ablation(
    "chebyshev_x5", "What the published noise buys, and costs",
    "k = d = 2, n = 10,000, degree 16: error over the epsilon that the worst pair of records really spends, at nominal "
    "0.5 and 1. line 3: Algorithm 1's noise, which the paper states below epsilon 1; Lemma 1: the noise that it "
    "prescribes from there on; tight: ours; corrected: the paper's proof with its constants right.",
    "epsilon_spent",
    lambda s: [{"k": 2, "d": 2, "n": s["n"], "m": 16, "calibration": c, "epsilon": e} for e in s["epsilons"]
               for c in ("line_3", "published", "tight", "corrected") if e >= 1 or c != "published"],
    more=lambda: {"chebyshev_x5_true_epsilon": true_epsilons()}, n=10_000, epsilons=(0.5, 1.0), curves=("epsilon",),
)  # fmt: skip
X6 = _ablation(
    "chebyshev_x6", "Solving harder than the noise does not help",
    "Error over the duality gap at which the solver stops, in units of half the expected squared noise.", "tolerance",
    lambda s: [{"k": 2, "d": d, "n": s["n"], "m": m, "tolerance": t}
               for d, m in ((2, 16), (1, 33)) for t in s["tolerances"]],
    n=10_000, tolerances=(10.0, 1.0, 0.1, 0.01, 1e-4),
)  # fmt: skip
