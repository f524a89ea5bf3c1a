"""One fit of the reduced-space method to rows of a known law, and the error of its averages beside the bounds."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.papers.card import Figure, Frame
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import DASHED, DOTTED, curve, drawing, look

GAMMA = 0.05
ARMS: dict[str, dict[str, Any]] = {
    "tight parities": {"family": "parities", "calibration": "tight"},
    "published monomials": {"family": "monomials", "calibration": "published"},
}


def one_run(codes: NDArray[np.int64], *, order: int, seed: int, **parameters: Any) -> dict[str, Any]:
    """Fit at epsilon = 1, draw as many rows as there are, and compare every average with the data's.

    Returns
    -------
    dict
        ``error`` (largest over the family), ``bound`` (8δ), ``certificate``, ``optimum`` (t*), ``seconds``.
    """
    from marginalia.synthesis.reduced_space.families import Family
    from marginalia.synthesis.reduced_space.guarantees import guarantee
    from marginalia.synthesis.reduced_space.synthesizer import ReducedSpaceLP

    n, p = codes.shape
    table = Table(codes, Domain.from_sizes({f"x{j}": 2 for j in range(p)}))
    start = time.process_time()
    model = ReducedSpaceLP(
        epsilon=1.0, order=order, solution="lp", sampling="iid", random_state=seed, **parameters
    ).fit(table)
    seconds = time.process_time() - start
    rows = model.sample(n)
    family = Family(model.family, table.domain.sizes, order)
    return {
        "n_functions": family.size,
        "error": float(np.abs(family.sums(rows.codes) - family.sums(codes)).max() / n),
        "bound": guarantee(family, n, 1.0, gamma=GAMMA, calibration=model.calibration).bound,
        "certificate": model.certificate(gamma=GAMMA, table=rows),
        "optimum": model.optimum_,
        "seconds": seconds,
    }


def summary(rows: Frame, keys: list[str]) -> Frame:
    """Return means, the 95 % quantile and the maximum of the error, and how often each bound was exceeded."""
    rows = rows.assign(
        above_bound=(rows["error"] > rows["bound"]).astype(float),
        above_certificate=(rows["error"] > rows["certificate"]).astype(float),
    )
    values = ["error", "bound", "certificate", "optimum", "above_bound", "above_certificate"]
    spread = rows.groupby(keys, sort=True)["error"].agg(error_q95=lambda e: e.quantile(0.95), error_max="max")
    return mean_table(rows, keys, values).merge(spread.reset_index(), on=keys)


def error_beside_bounds(table: Frame, over: str, label: str) -> Figure:
    """Draw error, certificate and 8δ over a column, a panel for each arm."""
    with drawing(2, 2, entries=4, height=2.3) as (figure, axes):
        for i, (ax, (arm, rows)) in enumerate(zip(axes, table.groupby("arm"), strict=False)):
            curve(ax, rows[over], rows["error"], rows["error_stderr"], label="largest error", **look(i))
            ax.plot(rows[over], rows["certificate"], color="#555555", ls=DASHED, label="certificate")
            ax.plot(rows[over], rows["bound"], color="#555555", ls=DOTTED, label="8δ of the theorem")
            ax.set(xscale="log", yscale="log", xlabel=label, ylabel="error", title=str(arm))
    return figure
