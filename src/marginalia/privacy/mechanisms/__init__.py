"""The only functions that read private rows: each records its event in the ledger, then draws its noise from `rng`.

Noise is drawn in floating point; the certificates are those of the ideal mechanisms (Mironov 2012).
"""

from marginalia.privacy.mechanisms.additive import gaussian, laplace, measure_marginal
from marginalia.privacy.mechanisms.objective import objective_perturbation
from marginalia.privacy.mechanisms.runs import gaussian_run, poisson_gaussian
from marginalia.privacy.mechanisms.selection import exponential, lazy_exponential

__all__ = [
    "exponential",
    "gaussian",
    "gaussian_run",
    "laplace",
    "lazy_exponential",
    "measure_marginal",
    "objective_perturbation",
    "poisson_gaussian",
]
