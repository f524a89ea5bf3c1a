"""The only functions that read private rows: each charges the ledger, then draws its noise. `Session` has them all.

What is released are whole numbers of a public quantum, and the noise is whole numbers of steps of a finer grid, drawn
by exact samplers. Objective perturbation, too, is proved for what is computed (`objective`).
"""

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    """Say where the functions went that a method written for version 2 imports from here."""
    methods = {"exponential": "select", "lazy_exponential": "select", "measure_marginal": "marginal"}
    methods |= {"measure_residuals": "residuals", "poisson_gaussian": "poisson_run"}
    methods |= {name: name for name in ("gaussian", "laplace", "gaussian_run", "objective_perturbation")}
    if name in methods:
        raise ImportError(
            f"marginalia.privacy.mechanisms has no '{name}' since 3.0: `_release` gets a session, which draws by "
            f"session.{methods[name]}(...) without `ledger` and `randomness`"
        )
    raise AttributeError(f"module 'marginalia.privacy.mechanisms' has no attribute '{name}'")
