"""The only functions that read private rows: each charges the ledger, then draws its noise.

What is released are whole numbers of a public unit, and the noise is whole numbers of steps of a finer grid, drawn by
exact samplers. Objective perturbation, too, is proved for what is computed (`objective`).
"""

from marginalia.privacy.mechanisms.additive import gaussian, laplace, measure_marginal
from marginalia.privacy.mechanisms.objective import objective_perturbation
from marginalia.privacy.mechanisms.residuals import measure_residuals
from marginalia.privacy.mechanisms.runs import gaussian_run, poisson_gaussian
from marginalia.privacy.mechanisms.selection import exponential, lazy_exponential

__all__ = [
    "exponential",
    "gaussian",
    "gaussian_run",
    "laplace",
    "lazy_exponential",
    "measure_marginal",
    "measure_residuals",
    "objective_perturbation",
    "poisson_gaussian",
]
