"""Experiment X5: where the privacy budget of Wang, Zhu and Wang, Algorithms 3 to 5, goes; formulas only, no data."""

from __future__ import annotations

import math
from collections.abc import Iterator

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.learning.private_tuning import tuning_rate
from marginalia.papers.adaptive_margin.looks import PURPLE
from marginalia.papers.adaptive_margin.theory import published_mu
from marginalia.privacy.calibration import gdp_epsilon, gdp_mu
from marginalia.privacy.stopping_cost import mean_runs, random_stopping_mu
from marginalia.reporting.panels import DASHED, drawing, log_axis

ID = "adaptive_margin_x5"
LEFT = {"tight": "exact formula", "conversion": "paper's conversion, solved", "published": "paper's formula"}
RIGHT = {"iter ": "try all, ", "tuning ": "tuning, ", "published r": "paper's r", "published": "paper's budget",
         "tight": "exact budget", "miss": "misses the best:"}  # fmt: skip


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield budgets by epsilon, then budgets of one candidate by the number of candidates."""
    from marginalia.methods.adaptive_margin import published_tuning_rate

    delta = settings["delta"]
    for epsilon in settings["epsilons"]:
        for rule, mu in _budgets(epsilon, delta).items():
            yield {
                "block": "calibration",
                "epsilon": epsilon,
                "rule": rule,
                "mu": mu,
                "candidates": 1,
                "epsilon_spent": gdp_epsilon(mu, delta),
            }
    epsilon = settings["epsilon"]
    budgets, calibrations = _budgets(epsilon, delta), ("published", "tight")
    for G in settings["candidates"]:
        rules = [(f"iter {rule}", budgets[rule] / math.sqrt(G), float(G)) for rule in calibrations]
        r = published_tuning_rate(G, settings["n"])
        rates = [(f"{rule}, published r", r, rule) for rule in calibrations]
        rates += [(f"tight, miss {miss:g}", tuning_rate(G, miss), "tight") for miss in settings["misses"]]
        for name, r, method in rates:
            mu = random_stopping_mu(epsilon, delta, r=r, method=method)
            rules.append((f"private tuning {name}", mu, mean_runs(r)))
        for rule, mu, runs in rules:  # mu of one model and its score together, and how many models are trained
            yield {"block": "candidates", "epsilon": epsilon, "rule": rule, "mu": mu, "candidates": G, "runs": runs}


def _budgets(epsilon: float, delta: float) -> dict[str, float]:
    """Return mu by the paper's formula, by the conversion mu²/2 + mu sqrt(2 ln 1/delta) it rests on, and exactly."""
    log = -2 * math.log(delta)
    conversion = math.sqrt(log + 2 * epsilon) - math.sqrt(log)
    return {"published": published_mu(epsilon, delta), "conversion": conversion, "tight": gdp_mu(epsilon, delta)}


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return mu and what is really spent for each epsilon, and mu of one candidate for each number of them."""
    calibration = rows[rows["block"] == "calibration"]
    wide = calibration.pivot(index="epsilon", columns="rule", values="mu").reset_index()
    wide["noise_ratio"] = wide["tight"] / wide["published"]
    spent = calibration[calibration["rule"] == "published"].set_index("epsilon")["epsilon_spent"]
    wide["spent_at_published"] = wide["epsilon"].map(spent)
    candidates = rows.loc[rows["block"] == "candidates", ["candidates", "rule", "mu", "runs"]]
    return {ID: wide, f"{ID}_candidates": candidates}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw mu over epsilon, and mu of one candidate over their number."""
    calibration, candidates = tables[ID], tables[f"{ID}_candidates"]
    with drawing(2, 2, entries=3, height=2.5, space=0.62) as (figure, axes):
        for rule, dash in (("tight", "-"), ("conversion", DASHED), ("published", (0, (1.5, 1.5)))):
            axes[0].plot(
                "epsilon", rule, data=calibration, color=PURPLE, ls=dash, marker="o", label=f"{LEFT[rule]} (left)"
            )
        axes[0].set(xlabel="ε", ylabel="μ of the whole selection")
        colours = ("#9E77C7", PURPLE, "#B5B5B5", "#767676", "#56B4E9", "#0072B2", "#D55E00")
        for rule, colour, marker in zip(candidates["rule"].unique(), colours, "oHsd^vX", strict=False):
            rows = candidates[candidates["rule"] == rule]
            axes[1].plot(rows["candidates"], rows["mu"], color=colour, marker=marker, label=_in_words(rule))
        axes[1].set(xlabel="candidates |Θ|", ylabel="μ of one model with its score")
        for ax in axes:
            ax.set(xscale="log", yscale="log")
        log_axis(axes[0], settings["epsilons"])
    return figure


def _in_words(rule: str) -> str:
    for name, words in RIGHT.items():
        rule = rule.replace(name, words)
    return rule


X5 = Experiment(
    id=ID,
    title="What the privacy budget buys",
    caption="Left: Gaussian-DP budget mu that the paper's calibration, the conversion it rests on, and the exact "
    "formula buy for epsilon. Right: mu of one model with its score over the number of candidates, epsilon = "
    "1, for trying all and for private tuning; delta = 1e-6.",
    defaults={
        "epsilons": [0.25, 0.5, 1.0, 2.0, 4.0, 8.0],
        "delta": 1e-6,
        "epsilon": 1.0,
        "n": 39_073,
        "candidates": [4, 8, 17, 32, 64, 128, 256, 512, 1000],
        "misses": [0.05, 0.2, 0.5],
    },
    parts=lambda settings: ["all"],  # it takes a second
    rows=run,
    tables=tables,
    figure=figure,
)
