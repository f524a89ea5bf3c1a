"""Card X-TH1: the excess-risk paper's bounds against measured excess risk of models that meet its assumptions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.encoding import Encoder
from marginalia.learning.solvers import minimise_logistic
from marginalia.papers.card import Card, lazily
from marginalia.papers.excess_risk.data import SETS, generator, marginal_distances
from marginalia.sweep.protocols import Prepared
from marginalia.threads import one_blas_thread

if TYPE_CHECKING:
    import pandas as pd

    from marginalia.data.table import Table

Array = NDArray[np.float64]

LIPSCHITZ, AT_ZERO = 1.0, math.log(2)  # of the logistic loss


def fit_in_ball(X: Array, y: Array, radius: float) -> Array:
    """Minimise the mean logistic loss over |w| <= radius, without intercept or penalty.

    The minimiser is that of the loss plus λ/2 |w|² for the λ at which |w| = radius (or λ = 0), found by bisection of
    ln λ until |w| is within 1e-9 of the radius.
    """
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
    return float(np.logaddexp(0.0, -y * (X @ w)).mean())


def run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return, for one synthetic set and each d, the measured excess on the real rows and every bound on it."""
    import pandas as pd

    name, _, number = part.rpartition("-")
    prepared = Prepared.load(data[name])
    table = prepared.table
    target = next(t.target for t in prepared.tasks if t.task == "logistic")
    epsilon = float(settings["epsilon"])
    synthetic = generator(table, epsilon, root_seed=root_seed, name=name, draw=int(number), **settings["aim"]).sample()
    encoder = Encoder(table.domain, target, one_hot=())
    radius = encoder.n_features**-0.5
    real, made = ((encoder.transform(t), encoder.target_values(t, "logistic")) for t in (table, synthetic))
    risks = [mean_loss(fit_in_ball(*rows, radius), *real) for rows in (made, real)]
    found = []
    for d in settings["orders"]:
        cliques = list(itertools.combinations(table.domain.names, d))  # the largest marginals differ most
        nu = 2 * float(marginal_distances(table, synthetic, cliques).max())
        bounds = bounds_of(table, encoder.n_features, d, nu, epsilon, settings["exponent"])
        found.append(
            {"dataset": name, "draw": int(number), "d": d, "excess": risks[0] - risks[1], "risk": risks[1],
             "nu_share": nu, **bounds}
        )  # fmt: skip
    return pd.DataFrame(found)


def bounds_of(table: Table, m: int, d: int, nu: float, epsilon: float, exponent: float) -> dict[str, float]:
    """Return every bound at tau = 1/sqrt(m): from the measured nu/n, and for the paper's own generator."""
    from marginalia.papers.excess_risk.polynomials import bernstein, logistic_loss, minimax
    from marginalia.papers.excess_risk.theory import cor35, cor36, explicit_bound, sigma_gen, thm31, thm32

    n, tau, levels = table.n_rows, m**-0.5, max(table.domain.sizes)
    sigma = sigma_gen(m, d, epsilon, 1 / n**2)
    close = {
        f"explicit_{kind}": explicit_bound(make(logistic_loss, d - 1, (-1.0, 1.0)), logistic_loss, m=m, nu_share=nu)
        for kind, make in (("minimax", minimax), ("bernstein", bernstein))
    }
    return {
        **close,
        "thm31": thm31(LIPSCHITZ, tau, m, d, n, nu * n, AT_ZERO),
        "thm32": thm32(tau, m, d, n, nu * n),
        "cor35": cor35(LIPSCHITZ, tau, m, levels, d, n, exponent, sigma, AT_ZERO),
        "cor36": cor36(tau, m, levels, d, n, exponent, sigma),
    }


TH1 = Card(
    id="excess_risk_th1",
    title="Excess risk: the paper's bounds against what is measured",
    caption=(
        "Excess empirical risk on the real rows of a logistic model with |w| <= 1/sqrt(m), features in [-1, 1], no "
        "intercept, no penalty, trained on AIM's rows (epsilon = 1; mean of the synthetic sets), and bounds on it from "
        "the measured marginal distance (explicit, Theorems 3.1 and 3.2) or for the paper's own generator (Corollaries "
        "3.5 and 3.6), d = 2 and 4. Grey line: 1, above which a bound says nothing."
    ),
    defaults={"sets": SETS, "epsilon": 1.0, "draws": 3, "orders": (2, 4), "exponent": 10.0, "aim": {}},
    parts=lambda settings: [f"{name}-{draw}" for name in settings["sets"] for draw in range(settings["draws"])],
    run=run,
    tables=lazily("marginalia.papers.excess_risk.tables", "bounds"),
    figure=lazily("marginalia.papers.excess_risk.figures", "bounds"),
    datasets=SETS,
)
