"""Zhou et al., Theorems 3.1 and 3.2, Corollaries 3.5 and 3.6: the bounds against measured excess risk.

The models are those of the theorems: |w| <= tau = 1/sqrt(m), features in [-1, 1], no intercept, no penalty.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from marginalia.data.catalogue.catalogue import uncoded
from marginalia.data.encoding import Encoder
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.excess_risk import theory
from marginalia.papers.excess_risk.runs import LABELS, SETS, Array, fit_aim, marginal_distances, read_set
from marginalia.reporting.means import rounded
from marginalia.reporting.panels import drawing, look
from marginalia.threads import one_blas_thread

LIPSCHITZ, AT_ZERO = 1.0, math.log(2)  # of the logistic loss
TRIVIAL = 1.0  # phi(-1) - phi(1) of the logistic loss: no excess risk of a model with |w| <= 1/sqrt(m) is larger
BOUNDS = {
    "explicit_minimax": "explicit, best polynomial", "explicit_bernstein": "explicit, Bernstein",
    "thm31": "Theorem 3.1", "thm32": "Theorem 3.2", "cor35": "Corollary 3.5", "cor36": "Corollary 3.6",
}  # fmt: skip


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield, for each synthetic set and d, the measured excess on the real rows and every bound on it."""
    for draw in range(settings["draws"]):
        yield from _synthetic_set(part, draw, settings, root_seed, data)


def _synthetic_set(name: str, draw: int, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    table, task = read_set(name, data)
    epsilon = float(settings["epsilon"])
    aim = fit_aim(table, epsilon, root_seed=root_seed, name=name, draw=draw, **settings["aim"])
    synthetic = aim.sample()
    encoder = Encoder(table.domain, task.target, one_hot=())
    n, m, levels = table.n_rows, encoder.n_features, max(table.domain.sizes)
    real, made = ((encoder.transform(t), encoder.target_values(t, "logistic")) for t in (table, synthetic))
    risks = [mean_loss(fit_in_ball(*rows, m**-0.5), *real) for rows in (made, real)]
    for d in settings["orders"]:
        cliques = itertools.combinations(table.domain.names, d)  # the largest marginals differ most
        nu = 2 * float(marginal_distances(table, synthetic, cliques).max())
        sigma = theory.sigma_gen(m, d, epsilon, 1 / n**2)
        yield {
            "dataset": name,
            "draw": draw,
            "d": d,
            "excess": risks[0] - risks[1],
            "risk": risks[1],
            "nu_share": nu,
            **bounds(m, d, n, nu, theory.nu_gen(m, levels, d, settings["exponent"], sigma)),
        }


def fit_in_ball(X: Array, y: Array, radius: float) -> Array:
    """Minimise the mean logistic loss over |w| <= radius, without intercept or penalty.

    The minimiser is that of the loss plus λ/2 |w|² for the λ at which |w| = radius (or λ = 0), found by bisection of
    ln λ until |w| is within 1e-9 of the radius.
    """
    from marginalia.learning.solvers import minimise_logistic

    with one_blas_thread():
        w = minimise_logistic(X, y, tolerance=1e-6).theta
        if np.linalg.norm(w) <= radius:
            return w
        low, high = 1e-6 * len(y), 10.0 * len(y) * (1 + np.abs(X).max() ** 2 * X.shape[1])
        for _ in range(200):
            middle = math.sqrt(low * high)
            w = minimise_logistic(X, y, regulariser=middle, start=w, tolerance=1e-6).theta
            norm = float(np.linalg.norm(w))
            if abs(norm - radius) <= 1e-9 * radius:
                break
            low, high = (middle, high) if norm > radius else (low, middle)
    return w * min(1.0, radius / norm)


def mean_loss(w: Array, X: Array, y: Array) -> float:
    """Return the mean of ln(1 + exp(-y x.w))."""
    return float(theory.logistic_loss(y * (X @ w)).mean())


def bounds(m: int, d: int, n: int, nu: float, of_generator: float) -> dict[str, float]:
    """Return every bound at tau = 1/sqrt(m): from the measured nu/n, and from nu of the paper's own generator."""
    tau = m**-0.5
    best, close = (make(theory.logistic_loss, d - 1, (-1.0, 1.0)) for make in (theory.minimax, theory.bernstein))
    return {
        "explicit_minimax": theory.explicit_bound(best, theory.logistic_loss, nu),
        "explicit_bernstein": theory.explicit_bound(close, theory.logistic_loss, nu),
        "thm31": theory.thm31(LIPSCHITZ, tau, m, d, n, nu * n, AT_ZERO),
        "thm32": theory.thm32(tau, m, d, n, nu * n),
        "cor35": theory.thm31(LIPSCHITZ, tau, m, d, n, of_generator, AT_ZERO),
        "cor36": theory.thm32(tau, m, d, n, of_generator, factor=3.0),
    }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return measured excess and every bound, and how often each bound holds and says something."""
    import pandas as pd

    rows = rows.assign(dataset=rows["dataset"].map(uncoded))
    groups = rows.groupby(["dataset", "d"])
    table = groups[["excess", "risk", "nu_share", *BOUNDS]].mean()
    table.insert(1, "excess_largest", groups["excess"].max())
    verdict = [
        {
            "bound": bound,
            "d": d,
            "n": len(cells),
            "holds": int((cells["excess"] <= cells[bound]).sum()),
            "below_trivial": int((cells[bound] < TRIVIAL).sum()),
            "smallest": cells[bound].min(),
            "largest": cells[bound].max(),
        }
        for bound in BOUNDS
        for d, cells in rows.groupby("d")
    ]
    return {TH1.id: rounded(table.reset_index()), f"{TH1.id}_verdict": rounded(pd.DataFrame(verdict))}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw measured excess and bounds on a logarithmic axis, a panel for each d."""
    panels = list(tables[TH1.id].groupby("d"))
    with drawing(len(panels), max(2, len(panels)), entries=4, height=2.4, space=0.5) as (figure, axes):
        for ax, (d, rows) in zip(axes, panels, strict=True):
            place = np.arange(len(rows))
            ax.plot(place, rows["excess"], "o", color="black", label="measured")
            for i, (bound, label) in enumerate(BOUNDS.items()):
                style = look(i)
                fill = "none" if bound.startswith("cor") else style["color"]
                beside = place + 0.12 * (i - 2.5)  # or the closest two hide each other
                ax.plot(beside, rows[bound], ls="", mfc=fill, label=label, **style)
            ax.axhline(TRIVIAL, color="#8C8C8C", lw=0.9)
            ax.set_xticks(place, [LABELS[name] for name in rows["dataset"]])
            ax.set(yscale="log", title=f"marginals of {d} columns", ylabel="excess empirical risk")
            ax.grid(axis="x", visible=False)
    return figure


TH1 = Experiment(
    id="excess_risk_th1",
    title="Theorems 3.1 and 3.2, Corollaries 3.5 and 3.6: the bounds against what is measured",
    caption=(
        "Excess empirical risk on the real rows of a logistic model with |w| <= 1/sqrt(m), features in [-1, 1], no "
        "intercept, no penalty, trained on AIM's rows (epsilon = 1; mean of the synthetic sets), and bounds on it from "
        "the measured marginal distance (explicit, Theorems 3.1 and 3.2) or for the paper's own generator (Corollaries "
        "3.5 and 3.6), d = 2 and 4. Grey line: 1, above which a bound says nothing."
    ),
    defaults={"datasets": SETS, "epsilon": 1.0, "draws": 3, "orders": (2, 4), "exponent": 10.0, "aim": {}},
    parts=lambda settings: list(settings["datasets"]),
    rows=run,
    tables=tables,
    figure=figure,
    datasets=SETS,
)
