"""X9: the lemmas of Wang, Zhu and Wang as statements that can be measured; made-up rows and coins, no data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.learning.private_tuning import tuning_rate
from marginalia.papers.adaptive_margin.looks import PURPLE
from marginalia.papers.adaptive_margin.runs import synthetic
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.reporting.panels import DASHED, drawing, log_axis, rows_where
from marginalia.sweep.seeds import seed_of, seed_sequence

ID = "adaptive_margin_x9"
SHAPES = (0.5, 1.0, 2.0)  # eta of Lemma M.1; 1 is Lemma 7.2's
Rows = Iterator[Record]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Rows:
    """Yield the rows of one lemma: what was measured, the bound it states, and where."""
    rng = np.random.default_rng(seed_sequence(root_seed, ID, part))
    measured = {
        "projection": projection, "descent": descent, "outliers": outliers, "grid": grid, "tuning": tuning,
        "choice": choice,
    }  # fmt: skip
    for row in measured[part](settings, rng, seed_of(root_seed, ID, part)):
        yield {"part": part, **row}


def projection(settings: Settings, rng: np.random.Generator, seed: int) -> Rows:
    """Lemmas 5.1 and 6.2: a third (a half at small distortion) of the margin survives k = C ln(..)/gamma² dimensions.

    Measured is the margin of the projected separator, as in the proof: the best margin is no smaller.
    """
    from marginalia.methods.adaptive_margin import draw_projection

    n, d = settings["projected_rows"], settings["projected_dimension"]
    log = math.log((n + 1) * (n + 2) * float(n) ** 2)  # beta = 1/n²
    for gamma in settings["projected_margins"]:
        for C in settings["jl_factors"]:
            k = math.ceil(C * log / gamma**2)
            kept = []
            for _ in range(settings["projections"]):
                w = np.zeros(d)
                w[0] = 1.0
                u = rng.standard_normal((n, d))
                u[:, 0] = 0
                X = gamma * w + math.sqrt(1 - gamma**2) * u / np.linalg.norm(u, axis=1)[:, None]  # times y: all y = 1
                phi = draw_projection(k, d, rng)
                v = phi @ w
                kept.append(float((X @ phi.T @ v).min() / np.linalg.norm(v)) / gamma)
            for lemma, least in (("6.2", 1 / 3), ("5.1", 1 / 2)):
                share = float(np.mean(np.array(kept) >= least))
                yield {
                    "lemma": lemma,
                    "gamma": gamma,
                    "setting": C,
                    "k": k,
                    "measured": share,
                    "bound": 1.0,
                    "holds": share == 1,
                    "mean_kept": float(np.mean(kept)),
                    "trials": len(kept),
                }


def descent(settings: Settings, rng: np.random.Generator, seed: int) -> Rows:
    """Lemmas C.1 and C.2: the excess of the summed hinge loss over that of the separator, at T = n² mu²."""
    from marginalia.methods.adaptive_margin import Descent, noisy_descent

    n, d, gamma = settings["descent_rows"], settings["descent_dimension"], settings["descent_margin"]
    c, radius, beta = gamma / 3, 2.0, settings["descent_beta"]
    for mu in settings["descent_mu"]:
        excess: dict[str, list[float]] = {"average": [], "last": []}
        for trial in range(settings["descents"]):
            train, _, _ = synthetic(n, d, gamma, rng, n_test=1, outliers=0)
            Z = train.X * train.y[:, None]
            for output, found in excess.items():
                run_of = Descent(
                    radius,
                    mu,
                    math.ceil((n * mu) ** 2),
                    output,  # type: ignore[arg-type]
                    log_factor=math.log(1 / beta) if output == "last" else 1.0,
                )
                w = noisy_descent(
                    Z, np.array([c]), run_of, session=Session(Ledger("replace_one"), Randomness(seed + trial))
                )[:, 0]
                found.append(
                    float(np.maximum(0, 1 - Z @ w / c).sum())
                )  # the separator has none: its margin is gamma > c
        scale = 2 * radius / c * math.sqrt(d) / mu
        mean, most = float(np.mean(excess["average"])), float(np.quantile(excess["last"], 1 - beta))
        common = {"setting": mu, "gamma": gamma, "trials": settings["descents"]}
        yield {"lemma": "C.1", **common, "measured": mean, "bound": 4 * scale, "holds": mean <= 4 * scale}
        last = scale * math.sqrt(math.log(1 / beta))  # its constant is hidden: taken as 1
        yield {"lemma": "C.2", **common, "measured": most, "bound": last, "holds": most <= last}


def outliers(settings: Settings, rng: np.random.Generator, seed: int) -> Rows:
    """Lemma D.1 and Corollary D.2: the summed hinge loss at gamma/3 after a projection, with outliers among the rows.

    The bound is the proof's, 23 S/(5 gamma) + 4 Delta sqrt(k)/mu with Delta = 12/gamma, for rows of norm 1. D.1 is run
    at the margin of the inliers, D.2 at half of it, which no subset is named for: its smallest set of outliers is
    taken to be the one that was made. Measured is what all but a share beta of the projections stay below.
    """
    from marginalia.methods.adaptive_margin import Descent, draw_projection, noisy_descent

    n, d, gamma, beta = (settings[f"descent_{name}"] for name in ("rows", "dimension", "margin", "beta"))
    for lemma, at in (("D.1", gamma), ("D.2", gamma / 2)):
        k = math.ceil(math.log((n + 1) * (n + 2) / beta) / at**2)
        for share in settings["outlier_shares"]:
            S = round(share * n)
            train, _, _ = synthetic(n, d, gamma, rng, n_test=1, outliers=S)
            for mu in settings["outlier_mu"]:
                run_of = Descent(2.0, mu, math.ceil((n * mu) ** 2))
                losses = []
                for projection in range(settings["outlier_projections"]):
                    Z = train.X @ draw_projection(k, d, rng).T * train.y[:, None]
                    Z *= np.minimum(1, 2 / np.linalg.norm(Z, axis=1))[:, None]
                    found = []
                    for trial in range(settings["outlier_descents"]):
                        randomness = Randomness(seed + settings["outlier_descents"] * projection + trial)
                        w = noisy_descent(
                            Z, np.array([at / 3]), run_of, session=Session(Ledger("replace_one"), randomness)
                        )
                        found.append(float(np.maximum(0, 1 - Z @ w[:, 0] / (at / 3)).sum()))
                    losses.append(float(np.mean(found)))
                most, bound = float(np.quantile(losses, 1 - beta)), 23 * S / (5 * at) + 48 / at * math.sqrt(k) / mu
                yield {
                    "lemma": lemma, "gamma": at, "setting": mu, "k": k, "n": n, "share": share, "measured": most,
                    "bound": bound, "holds": most <= bound, "trials": len(losses),
                }  # fmt: skip


def grid(settings: Settings, rng: np.random.Generator, seed: int) -> Rows:
    """Lemmas 6.4 and G.1: the best margin of the doubling grid against the best of all, for many S(gamma).

    S = share n gamma^power, and, as power infinity, no outlier up to a margin and nothing but outliers beyond.
    """
    from marginalia.methods.adaptive_margin import margin_grid

    for n in settings["grid_rows"]:
        candidates = margin_grid(n)
        smooth = [(power, share) for power in settings["grid_powers"] for share in settings["grid_shares"]]
        edges = [(math.inf, edge) for edge in settings["grid_edges"]]  # the margin, relative to a candidate
        for power, value in smooth + edges:
            for epsilon in settings["grid_epsilons"]:
                if power == math.inf:
                    edge = value * candidates[-3]
                    ratio = (edge / candidates[candidates <= edge].max()) ** 2  # 1/(n gamma² eps) at the two margins
                else:
                    best = [
                        _bound(g, n, power, value, epsilon).min() for g in (candidates, np.geomspace(1 / n, 1, 4001))
                    ]
                    ratio = best[0] / best[1]
                yield {
                    "lemma": "6.4",
                    "setting": epsilon,
                    "n": n,
                    "power": power,
                    "share": value,
                    "measured": float(ratio),
                    "bound": 4.0,
                    "holds": bool(ratio <= 4),
                }


def _bound(gamma: NDArray[np.float64], n: int, power: float, share: float, epsilon: float) -> NDArray[np.float64]:
    """Return S/(n gamma) + 1/(n gamma² eps), with S = share n gamma^power outliers."""
    return share * gamma ** (power - 1) + 1 / (n * gamma**2 * epsilon)


def tuning(settings: Settings, rng: np.random.Generator, seed: int) -> Rows:
    """Lemma 7.2, its condition as printed and as proved; Lemma A.4: the tail of the number of runs."""
    draws = settings["tuning_draws"]
    for G in settings["tuning_candidates"]:
        for beta in settings["tuning_betas"]:
            printed = min(0.99, (1 - beta) * (G - 1) / beta)  # 1/r >= beta/((1 - beta)(G - 1)): any r below 1 will do
            for form, r in (("as printed", printed), ("as proved", tuning_rate(G, beta))):
                runs = rng.geometric(r, draws)
                never = float(np.mean((1 - 1 / G) ** runs))  # the chance to miss one candidate, given the runs
                slack = 3 * math.sqrt(beta * (1 - beta) / draws)
                yield {
                    "lemma": "7.2",
                    "form": form,
                    "setting": beta,
                    "candidates": G,
                    "r": r,
                    "measured": never,
                    "bound": beta,
                    "holds": never <= beta + slack,
                    "trials": draws,
                }
                tail = float(np.mean(runs > math.ceil(math.log(beta) / math.log1p(-r))))
                yield {
                    "lemma": "A.4",
                    "form": form,
                    "setting": beta,
                    "candidates": G,
                    "r": r,
                    "measured": tail,
                    "bound": beta,
                    "holds": tail <= beta + slack,
                    "trials": draws,
                }
            for eta in SHAPES:
                yield from ({"setting": beta, "candidates": G, "eta": eta, **row} for row in _rate(eta, G, beta))


def _rate(eta: float, G: int, beta: float) -> Rows:
    """Lemma M.1: a miss with probability at most beta needs r below its bound (as printed), or has it (turned round).

    A truncated negative binomial number of runs (shape eta, rate r) misses one of G candidates with probability
    ((r + (1 - r)/G)^-eta - 1)/(r^-eta - 1), which grows with r: exact, nothing is drawn.
    """
    from scipy.optimize import brentq

    def missed(r: float) -> float:
        return float(((r + (1 - r) / G) ** -eta - 1) / (r**-eta - 1))

    share = beta ** (1 / eta)
    bound = share / (G + share - G * share)
    most = float(brentq(lambda r: missed(r) - beta, 1e-12, 1 - 1e-9, xtol=1e-15))
    yield {"lemma": "M.1", "form": "as printed", "measured": most, "bound": bound, "holds": most <= bound}
    yield {
        "lemma": "M.1",
        "form": "turned round",
        "measured": missed(bound),
        "bound": beta,
        "holds": missed(bound) <= beta,
    }


def choice(settings: Settings, rng: np.random.Generator, seed: int) -> Rows:
    """Lemmas A.5 to A.7, F.1 and F.2: the largest of some normal draws, and what a noisy choice loses."""
    from scipy.special import ndtri

    draws, G = settings["choice_draws"], settings["choice_candidates"]
    scores = np.linspace(0, settings["choice_spread"], G)
    for sigma in settings["choice_sigmas"]:
        noise = sigma * rng.standard_normal((draws, G))
        lost = scores[np.argmin(scores + noise, axis=1)] - scores.min()
        limit = 2 * sigma * math.sqrt(2 * math.log(G))
        at = {"setting": sigma, "candidates": G, "trials": draws}
        yield {"lemma": "F.1", **at, "measured": float(lost.mean()), "bound": limit, "holds": lost.mean() <= limit}
        runs = rng.geometric(settings["choice_rate"], draws)
        largest = float(sigma * ndtri(rng.random(draws) ** (1 / runs)).mean())  # of so many normal draws
        limit = sigma * math.sqrt(-2 * math.log(settings["choice_rate"]))
        yield {"lemma": "A.7", **at, "measured": largest, "bound": limit, "holds": largest <= limit}
        for beta in settings["tuning_betas"]:
            for form, unit in (("as printed", 1.0), ("with sigma", sigma)):
                tail = sigma * math.sqrt(2 * math.log(2 * G)) + unit * math.sqrt(2 * math.log(1 / beta))
                above = 1 - NormalDist().cdf(tail / sigma) ** G  # exact
                yield {
                    "lemma": "A.5",
                    "form": form,
                    **at,
                    "beta": beta,
                    "measured": above,
                    "bound": beta,
                    "holds": above <= beta,
                }
                most = 2 * sigma * math.sqrt(2 * math.log(2 * G)) + 2 * unit * math.sqrt(2 * math.log(2 / beta))
                wide = 2 * (1 - NormalDist().cdf(most / 2 / sigma) ** G)  # of the range, by its two halves
                exceeded = float(np.mean(np.ptp(noise, axis=1) >= most))
                yield {
                    "lemma": "A.6, F.2",
                    "form": form,
                    **at,
                    "beta": beta,
                    "measured": exceeded,
                    "bound": beta,
                    "holds": exceeded <= beta + 3 * math.sqrt(beta / draws),
                    "half_by_half": wide,
                }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return in how many settings each statement held, and every setting."""
    named = rows.assign(form=rows["form"].fillna(""))
    count = named.groupby(["lemma", "form"], sort=False)["holds"].agg(held="sum", tested="size").reset_index()
    return {ID: count, f"{ID}_settings": named}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw what was measured beside the bound, a panel a lemma."""
    table = tables[f"{ID}_settings"]
    with drawing(4, 2, entries=0, height=2.3, space=0.0) as (figure, (kept, loss, step, missed)):
        for gamma, marker in zip(settings["projected_margins"], "osD^", strict=False):
            rows = rows_where(table, lemma="6.2", gamma=gamma)
            kept.plot(rows["setting"], rows["mean_kept"], marker=marker, label=f"γ = {gamma:.2g}")
        kept.axhline(1 / 3, color="#222222", ls=DASHED, label="γ/3")
        log_axis(kept, settings["jl_factors"])
        kept.set(
            xlabel="constant C of the dimension k",
            ylabel="margin kept, mean",
            ylim=(-0.5, 1),
            title="Lemma 6.2: margin after projection",
        )
        for lemma, label, marker in (("C.1", "average, mean", "o"), ("C.2", "last iterate, quantile", "s")):
            rows = rows_where(table, lemma=lemma)
            colour = PURPLE if lemma == "C.1" else "#D55E00"
            loss.plot(rows["setting"], rows["measured"], color=colour, marker=marker, label=label)
            loss.plot(rows["setting"], rows["bound"], color=colour, ls=DASHED, label=f"bound of Lemma {lemma}")
        log_axis(loss, settings["descent_mu"])
        loss.set(
            yscale="log",
            ylim=(5, None),
            xlabel="budget μ of the descent",
            ylabel="excess summed loss",
            title="Lemmas C.1, C.2: loss of the descent",
        )
        rows = rows_where(table, lemma="6.4")
        for power, marker in zip([*settings["grid_powers"], math.inf], "osD^v", strict=False):
            worst = rows_where(rows, power=power).groupby("n")["measured"].max()
            label = (
                f"S in proportion to γ^{power:g}" if power < math.inf else "separable, margin between two candidates"
            )
            step.plot(worst.index, worst, marker=marker, label=label)
        step.axhline(4, color="#222222", ls=DASHED, label="bound")
        step.set(
            xscale="log",
            xlabel="rows n",
            ylabel="worst ratio",
            ylim=(0.9, 4.2),
            title="Lemma 6.4: doubling grid against any margin",
        )
        for form, colour, marker in (("as printed", "#D55E00", "s"), ("as proved", PURPLE, "o")):
            rows = rows_where(table, lemma="7.2", form=form)
            missed.plot(rows["bound"], rows["measured"], color=colour, marker=marker, ls="", label=f"condition {form}")
        ends = [min(settings["tuning_betas"]), max(settings["tuning_betas"])]
        missed.plot(ends, ends, color="#222222", ls=DASHED, label="allowed")
        missed.set(
            xlabel="allowed failure probability β",
            ylabel="P(best never tried)",
            ylim=(0, 1),
            title="Lemma 7.2: private tuning misses the best",
        )
        for ax in (kept, loss, step, missed):
            ax.legend(fontsize=5.5, frameon=False, loc="lower left" if ax is loss else "best")
    return figure


X9 = Experiment(
    id=ID,
    title="The lemmas, measured",
    caption="Top left: margin kept by a projection to k = C ln((n+1)(n+2)/β)/γ² dimensions, mean of the draws; Lemma "
    "6.2 asks for a third. Top right: excess hinge loss of noisy gradient descent with the paper's T, and the "
    "bounds (the constant of C.2 is taken as 1). Bottom left: worst ratio of the bound at the best margin of "
    "the doubling grid to that at the best margin of all. Bottom right: probability that private tuning never "
    "tries the best candidate, with the number of runs that the lemma prints and that its proof gives.",
    defaults={
        "parts": ["projection", "descent", "outliers", "grid", "tuning", "choice"],
        "projected_rows": 1000,
        "projected_dimension": 1000,
        "projected_margins": [0.3, 0.4, 0.6],
        "jl_factors": [0.25, 0.5, 1.0, 2.0, 4.0],
        "projections": 10,
        "descent_rows": 500,
        "descent_dimension": 20,
        "descent_margin": 0.3,
        "descent_beta": 0.1,
        "descent_mu": [0.02, 0.05, 0.1, 0.2],
        "descents": 20,
        "outlier_shares": [0.0, 0.01, 0.05],
        "outlier_mu": [0.02, 0.05],
        "outlier_projections": 10,
        "outlier_descents": 5,
        "grid_rows": [100, 1000, 10_000, 100_000],
        "grid_powers": [0.5, 1.0, 2.0, 3.0],
        "grid_shares": [0.01, 0.1, 1.0],
        "grid_edges": [1.01, 1.5, 1.99],
        "grid_epsilons": [0.1, 1.0],
        "tuning_draws": 200_000,
        "tuning_candidates": [4, 12, 17],
        "tuning_betas": [0.01, 0.05, 0.2, 0.5],
        "choice_draws": 20_000,
        "choice_rate": 1 / 64,
        "choice_candidates": 17,
        "choice_spread": 40.0,
        "choice_sigmas": [0.5, 1.0, 5.0, 50.0],
    },
    parts=lambda settings: list(settings["parts"]),
    rows=run,
    tables=tables,
    figure=figure,
)
