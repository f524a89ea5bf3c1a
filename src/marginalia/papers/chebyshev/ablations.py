"""Cards X2 to X6: what smoothness, epsilon, the degree, the calibration and the solver's tolerance do to the error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalia.papers.card import Card, lazily
from marginalia.papers.chebyshev.runs import DELTA, mean_table, one_run

if TYPE_CHECKING:
    import pandas as pd

Case = dict[str, Any]

SUMMARY = ("exact", "lower", "moments", "epsilon_spent", "gap")


# d, k, m of the table of true epsilons.
CALIBRATED = ((1, 1, 16), (1, 1, 256), (1, 2, 16), (1, 3, 16), (2, 1, 8), (2, 1, 32), (2, 2, 8), (2, 2, 32), (2, 3, 8),
              (3, 1, 5), (3, 2, 5), (3, 3, 5))  # fmt: skip
NOMINAL = (0.5, 1.0, 2.0, 4.0)


def true_epsilons() -> pd.DataFrame:
    """Return squared sensitivities (times n²) of every calibration, and what the published noise really spends.

    The true epsilon is that of two corners of the cube: a lower bound that is attained.
    """
    import pandas as pd

    from marginalia.privacy.calibration import gdp_epsilon
    from marginalia.synthesis.chebyshev import calibration as noise
    from marginalia.synthesis.chebyshev.moments import Degrees

    found = []
    for d, k, m in CALIBRATED:
        indices = Degrees((m,) * d, k)
        attained = noise.attained_sensitivity(indices)
        line = {"d": d, "k": k, "m": m, "published": noise.published_sensitivity(indices), "attained": attained,
                "certified": noise.tight_sensitivity(indices),
                "corrected": noise.corrected_sensitivity(indices)}  # fmt: skip
        for epsilon in NOMINAL:
            sigma = noise.noise_scale(indices, 1, epsilon, DELTA, calibration="published")
            line[f"true_epsilon_at_{epsilon:g}"] = gdp_epsilon(attained**0.5 / sigma, DELTA)
        found.append(line)
    return pd.DataFrame(found)


def _study(
    card: str,
    title: str,
    caption: str,
    over: str,
    cases: Callable[[Mapping[str, Any]], list[Case]],
    more: Callable[[], dict[str, pd.DataFrame]] = dict,
    **defaults: Any,
) -> Card:
    """Return the study that runs every case for all trials.

    `over` is the setting on the horizontal axis; `more` makes tables that need no run.
    """

    def parts(settings: Mapping[str, Any]) -> list[str]:
        return ["all"]  # seconds a trial

    def run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(
            one_run((card,), root_seed, trial=trial, exact=False, **case)
            for case in cases(settings)
            for trial in range(settings["trials"])
        )

    def tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
        keys = ["d", "k", "n", "epsilon", "m", "calibration", "tolerance"]
        return {card: mean_table(rows, keys, SUMMARY), **more()}

    return Card(
        id=card,
        title=title,
        caption=caption,
        defaults={"trials": 10, "over": over, **defaults},
        parts=parts,
        run=run,
        tables=tables,
        figure=lazily("marginalia.papers.chebyshev.figures", "ablation"),
    )


_BARS = "Means over trials, bars: one standard error. In the plane and in space the cosine lower bound of d_k."

X2 = _study(
    "chebyshev_x2",
    "Smoothness helps until k = d",
    f"Error over the smoothness k at n = 10,000. {_BARS}",
    "k",
    lambda s: [{"k": k, "d": d, "n": s["n"]} for d in s["dimensions"] for k in s["smoothness"]],
    n=10_000,
    dimensions=(2, 3),
    smoothness=(1, 2, 3),
)
X3 = _study(
    "chebyshev_x3",
    "Error over epsilon",
    f"k = d = 2, n = 10,000, degree 16. {_BARS}",
    "epsilon",
    lambda s: [{"k": 2, "d": 2, "n": s["n"], "m": 16, "epsilon": e} for e in s["epsilons"]],
    n=10_000,
    epsilons=(0.25, 0.5, 1.0, 2.0, 4.0),
)
X4 = _study(
    "chebyshev_x4",
    "Error over the degree m",
    f"Too small a degree hurts by bias, too large a one hardly does. {_BARS}",
    "m",
    lambda s: [{"k": int(k), "d": int(d), "n": n, "m": m} for k, d, n, ms in s["grid"] for m in ms],
    grid=(
        (2, 1, 10_000, (8, 16, 33, 66, 132)),
        (1, 1, 1600, (16, 66, 264)),
        (2, 2, 10_000, (4, 8, 16, 33)),
        (2, 2, 100_000, (16, 33, 48)),
    ),
)
X5 = _study(
    "chebyshev_x5",
    "What the published noise buys, and costs",
    f"k = d = 2, n = 10,000, degree 16, nominal epsilon 1; epsilon_spent is the true one over the cube. {_BARS}",
    "epsilon_spent",
    lambda s: [{"k": 2, "d": 2, "n": s["n"], "m": 16, "calibration": c} for c in ("published", "tight", "corrected")],
    more=lambda: {"chebyshev_x5_true_epsilon": true_epsilons()},
    n=10_000,
)
X6 = _study(
    "chebyshev_x6",
    "Solving harder than the noise does not help",
    f"Error over the relative duality gap at which the solver stops. {_BARS}",
    "tolerance",
    lambda s: [
        {"k": 2, "d": d, "n": s["n"], "m": m, "tolerance": t} for d, m in ((2, 16), (1, 33)) for t in s["tolerances"]
    ],
    n=10_000,
    tolerances=(10.0, 1.0, 0.1, 0.01, 1e-4),
)
