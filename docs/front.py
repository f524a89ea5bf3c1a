"""Draw the README's picture and write its findings, from committed results alone.

``python docs/front.py`` makes ``docs/front-light.svg``, ``docs/front-dark.svg``, the same one chart above the other for
a phone (``-narrow``), and ``docs/front.csv``.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from marginalia.data.files import atomic_path, write_text
from marginalia.figure_style import RC
from marginalia.reporting.documentation import main as fill_pages
from marginalia.reporting.panels import log_axis
from marginalia.reporting.style import arm_look, arm_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS.parent / "results/paper"
THEMES = {
    "light": {"ink": "#1f2328", "grid": "#e4e4e4", "paper": "#ffffff"},
    "dark": {"ink": "#e6edf3", "grid": "#30363d", "paper": "#0d1117"},
}
# Inches of the picture, its rows and columns of charts, and where they lie.
SHAPES: dict[str, tuple[tuple[float, float], tuple[int, int], dict[str, float]]] = {
    "": ((8.8, 2.9), (1, 2), {"wspace": 0.75, "left": 0.065, "right": 0.9, "top": 0.88, "bottom": 0.16}),
    "-narrow": ((4.2, 5.4), (2, 1), {"hspace": 0.42, "left": 0.12, "right": 0.66, "top": 0.95, "bottom": 0.08}),
}
# The arms whose curves a newcomer can tell apart; all are in the report.
LEARNERS = {
    "preconditioned_gd": "",
    "objective_perturbation": "",
    "dp_sgd": "",
    "swift": "logistic",
    "aim_synth": "",
    "dd_ssp": "aim",
}
RELEASES = ("aim", "swift", "mst", "mwem_pgm", "privbayes", "independent")
WHOSE = {
    "Whitened GD": "Whitened gradient descent (`preconditioned_gd`, our method)",
    "SWIFT": "SWIFT (Google's method, our implementation)",
}
CAVEATS = {"SWIFT": "; its constants were chosen on some of these tables"}
CONTESTS = {
    "auc": "has the best mean rank of {methods} private classifiers on {tables} tables",
    "mse": "has the best mean rank of {methods} methods for private linear regression on {tables} tables",
    "marginal_error": "has the best mean rank of {methods} methods by error of two-way marginals on {tables} tables",
}
# Colours that a page's ground would swallow get another shade.
SHADES = {
    "light": {"#99CC00": "#6B8F00"},
    "dark": {
        "#332288": "#8F86E8", "#882255": "#E070A8", "#0072B2": "#4F8CFF", "#117733": "#4DBD74", "#661100": "#D9825B",
        "#8833EE": "#CC88FF",
    },
}  # fmt: skip
NAMES = {
    "ObjPert": "Objective perturbation",
    "AIM-Synth": "Learner on AIM’s rows",
    "SWIFT + logistic": "Learner on SWIFT’s rows",
    "DD-SSP on AIM": "DD-SSP on AIM’s marginals",
}


def means(metric: str) -> pd.DataFrame:
    """Return the mean of every arm on Adult, a row for each method, variant and certified epsilon from .1 on."""
    table = pd.read_csv(RESULTS / f"cross_paper/tables/{metric}.csv", keep_default_na=False, na_values=["nan"])
    table = table[(table["experiment"] == "full") & (table["dataset"] == "adult")]
    table = table.astype({"epsilon_spent": float, "mean": float, "stderr": float})  # texts, where another fit failed
    return table[~(table["epsilon_spent"] < 0.09)].sort_values("epsilon_spent")  # public arms have none


def curves(ax: Axes, table: pd.DataFrame, arms: dict[str, str], theme: str) -> None:
    """Draw each arm with bars of two standard errors, its name where it ends; names that would meet are moved apart."""
    ends = []
    for method, variant in arms.items():
        mine = table[(table["method"] == method) & (table["variant"] == variant) & (table["certified"] != "no")]
        if mine.empty:
            continue
        look = arm_look(method, variant, "tight")
        colour = SHADES[theme].get(look.colour, look.colour)
        ax.errorbar(
            mine["epsilon_spent"], mine["mean"], yerr=2 * mine["stderr"], color=colour, marker=look.marker, ms=3.5
        )
        ends.append((float(mine["mean"].iloc[-1]), arm_name(method, variant), colour))
    places = [ax.transData.transform((1, value))[1] for value, *_ in sorted(ends)]
    for (value, name, colour), y, place in zip(
        sorted(ends), places, apart(places, 11 / 72 * ax.figure.dpi), strict=True
    ):
        ax.annotate(
            NAMES.get(name, name), (1, value), xycoords=("axes fraction", "data"), textcoords="offset points",
            xytext=(4, (place - y) * 72 / ax.figure.dpi), va="center", color=colour, fontsize=7, annotation_clip=False,
        )  # fmt: skip


def apart(places: list[float], gap: float) -> list[float]:
    """Return rising places moved as a group, each at least `gap` above the one before and near where it was."""
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while len(groups) > 1 and _spread(groups[-2], gap)[-1] + gap > _spread(groups[-1], gap)[0]:
            groups[-2:] = [groups[-2] + groups[-1]]
    return [one for group in groups for one in _spread(group, gap)]


def _spread(group: list[float], gap: float) -> list[float]:
    middle = sum(group) / len(group)
    return [middle + (i - (len(group) - 1) / 2) * gap for i in range(len(group))]


def draw(theme: str, shape: str, path: Path) -> None:
    """Draw AUC and marginal error against certified epsilon."""
    import matplotlib
    from matplotlib.figure import Figure

    ink, grid, paper = THEMES[theme].values()
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    colours: dict[str, Any] = dict.fromkeys(inked, ink)
    colours |= {"grid.color": grid, "axes.facecolor": paper, "figure.facecolor": paper, "savefig.facecolor": paper}
    auc, error = means("auc"), means("marginal_error")
    with matplotlib.rc_context({**RC, **colours}):
        inches, grid_shape, places = SHAPES[shape]
        figure = Figure(figsize=inches)
        left, right = figure.subplots(*grid_shape, gridspec_kw=places)
        budgets = sorted(error["epsilon_spent"].round(6).unique())
        for ax in (left, right):
            log_axis(ax, budgets)
            ax.set_xlim(budgets[0] / 1.15, budgets[-1] * 1.15)
            ax.set_xlabel("ε that the ledger certifies (δ = 1e-5, replace-one)")
        right.set_yscale("log")
        right.set_yticks([0.01, 0.02, 0.05, 0.1, 0.2], ["0.01", "0.02", "0.05", "0.1", "0.2"])
        right.set_yticks([], minor=True)
        public = float(auc.loc[auc["method"] == "logistic", "mean"].iloc[0])
        left.axhline(public, color=ink, lw=0.8, ls=(0, (4, 2)))
        left.text(budgets[0], public, "without privacy", va="bottom", fontsize=6.5, color=ink)
        left.set_title("Adult: AUC of a private classifier (higher is better)", loc="left")
        right.set_title("Adult: error of the two-way marginals (lower is better)", loc="left")
        # Limits first: where a name is put depends on them.
        chosen = auc[[LEARNERS.get(m) == v for m, v in zip(auc["method"], auc["variant"], strict=True)]]
        left.set_ylim((chosen["mean"] - 2 * chosen["stderr"]).min() - 0.005, public + 0.012)
        shown = error[error["method"].isin(RELEASES)]["mean"]
        right.set_ylim(shown.min() / 1.3, shown.max() * 1.3)
        curves(left, auc, LEARNERS, theme)
        curves(right, error, dict.fromkeys(RELEASES, ""), theme)
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})


def ranking() -> dict[str, tuple[str, str]]:
    """Return the first method of each task on whole tables that no default was chosen on, and its distance."""
    table = pd.read_csv(RESULTS / "cross_paper/tables/cross_paper_ranking.csv")
    table = table[(table["experiment"] == "full") & (table["tables"] == "ranked")].dropna(subset="mean_rank")
    found = {}
    for metric, what in CONTESTS.items():
        ranked = table[table["metric"] == metric].sort_values("mean_rank")
        first, second = ranked.iloc[0], ranked.iloc[1]
        name, other = ((NAMES | WHOSE).get(row["name"], row["name"]) for row in (first, second))
        low, high = first["rank_low"], first["rank_high"]
        sizes = {"methods": len(ranked), "tables": f"{first['n_datasets']:.0f}"}
        significance = "" if second["wilcoxon_p"] < 0.05 else ", difference not significant"
        ranks = f"{first['mean_rank']:.1f} (runner-up {other}: {second['mean_rank']:.1f}{significance})"
        found[f"{name} {what.format(**sizes)}: {ranks}{CAVEATS.get(first['name'], '')}"] = (
            f"95 % interval of the mean rank over tables {low:.1f} to {high:.1f}; ε from 0.01 to 8, replace-one; "
            "differences by Wilcoxon's test",
            "papers/cross_paper.md#ranking",
        )
    return found


def findings() -> pd.DataFrame:
    """Return the main findings: a sentence, its numbers, and the page with the rest."""
    whole = pd.read_csv(DOCS.parent / "benchmarks/results/aim.csv")
    runs = whole[whole["case"] == "aim_eps0.05_80mb"].groupby("implementation")[["cpu_seconds", "quality"]].mean()
    ours, error = runs.loc["marginalia"]
    reference, their_error = runs.drop(index="marginalia").iloc[0]
    times: dict[bool, list[float]] = {True: [], False: []}  # with the reference compiled, and as it runs
    for _, fits in whole[whole["quality_name"] == "objective"].groupby("case", sort=False):
        mine = fits[
            (fits["implementation"] == "marginalia")
            & fits["note"].str.contains("not above the reference's 1000 iterations")
        ]
        theirs = fits[(fits["implementation"] != "marginalia") & fits["note"].str.contains("fit, 1000 iterations")]
        for compiled, found in times.items():
            chosen = theirs[theirs["note"].str.contains("without compilation") == compiled]
            found += list(chosen["cpu_seconds"] / mine["cpu_seconds"].iloc[0])
    compiled, cold = (f"{min(found):.2g} to {max(found):.3g} times" for found in times.values())
    noise = pd.read_csv(RESULTS / "chebyshev/tables/chebyshev_x5_true_epsilon.csv")
    spent = pd.concat([noise["line_3_at_0.5"] / 0.5, noise["lemma_1_at_1"]])
    rows = {
        **ranking(),
        f"Our AIM engine is {compiled} as fast as the reference implementation, for a fit at least as close": (
            f"CPU time; {cold} with the compilation of the reference; a whole run on Adult at ε = 0.05, where the "
            f"reference compiles in every round: {reference / ours:,.0f} times (error {error:.4f}, "
            f"reference {their_error:.4f})",
            "benchmarks.md",
        ),
        f"The published noise of Chebyshev moment matching spends {spent.min():.1f} to {spent.max():.1f} times its ε": (
            "line 3 of Algorithm 1 at ε = 0.5, Lemma 1 at ε = 1",
            "papers/chebyshev.md",
        ),
    }
    lines = [(finding, measured, f"[Details](docs/{page})") for finding, (measured, page) in rows.items()]
    return pd.DataFrame(lines, columns=["finding", "measured", "more"])


def main() -> None:
    """Make pictures, table, and the pages that show it."""
    for theme, shape in product(THEMES, SHAPES):
        draw(theme, shape, DOCS / f"front-{theme}{shape}.svg")
    write_text(DOCS / "front.csv", findings().to_csv(index=False, lineterminator="\n"))
    fill_pages(DOCS.parent)


if __name__ == "__main__":
    main()
