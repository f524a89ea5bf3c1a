"""X5: what the noise of each calibration spends and costs, with a table of true epsilons that needs no run."""

from __future__ import annotations

from collections.abc import Iterator

from marginalia.experiment import Record, frame
from marginalia.methods.chebyshev.moments import Degrees
from marginalia.papers.chebyshev.ablation import ablation
from marginalia.papers.chebyshev.runs import DELTA
from marginalia.privacy.calibration import gdp_epsilon

# d, k, m of the table of true epsilons.
CALIBRATED = ((1, 1, 16), (1, 1, 256), (1, 2, 16), (1, 3, 16), (2, 1, 8), (2, 1, 32), (2, 2, 8), (2, 2, 32), (2, 3, 8),
              (3, 1, 5), (3, 2, 5), (3, 3, 5))  # fmt: skip
NOMINAL = (0.5, 1.0, 2.0, 4.0)


def true_epsilons() -> Iterator[Record]:
    """Yield squared sensitivities (times n²) of every calibration, and what the published noise really spends.

    The true epsilon is that of two corners of the cube: a lower bound that is attained. Columns ``line_3_at_ε``: with
    the noise of Algorithm 1's line 3, which the paper states for ε < 1; ``lemma_1_at_ε``: with Lemma 1's, which it
    prescribes from ε = 1 on.
    """
    from marginalia.methods.chebyshev import calibration as noise

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


X5 = ablation(
    "chebyshev_x5",
    "What the published noise buys, and costs",
    "k = d = 2, n = 10,000, degree 16: error over the epsilon that the worst pair of records really spends, at nominal "
    "0.5 and 1. line 3: Algorithm 1's noise, which the paper states below epsilon 1; Lemma 1: the noise that it "
    "prescribes from there on; tight: ours; corrected: the paper's proof with its constants right.",
    "epsilon_spent",
    lambda s: [
        {"k": 2, "d": 2, "n": s["n"], "m": 16, "calibration": c, "epsilon": e}
        for e in s["epsilons"]
        for c in ("line_3", "published", "tight", "corrected")
        if e >= 1 or c != "published"
    ],
    more=lambda: {"chebyshev_x5_true_epsilon": frame(true_epsilons())},
    n=10_000,
    epsilons=(0.5, 1.0),
    curves=("epsilon",),
)
