"""The margins that are tried, and the constants the paper leaves open.

Wang, Zhu and Wang, "Adapting to Linear Separable Subsets with Large-Margin in Differentially Private Learning",
Algorithm 3. Margins are in units of the data radius b: rows are scaled to norm at most 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy import checks

N_LARGE = 20_000  # rows from which on the practical variant takes more steps


@dataclass(frozen=True)
class Constants:
    """What the paper leaves to the implementer.

    >>> PRACTICAL.steps(n=1000, mu=0.5, dimension=10), PUBLISHED.margins(4, epsilon=1.0)
    (1000, array([0.25, 0.5 , 1.  ]))
    """

    name: str
    jl_factor: float = 2.0  # C_JL, the constant of the projection dimension
    project_below: float = 1.0  # rows are projected to k dimensions if k < project_below * d
    radius: float = 2.0  # R of rows that are not projected
    hinge_share: float = 1 / 3  # hinge parameter over margin, c/gamma, of candidates that are not projected
    model_share: float = 0.5  # share of mu² spent on the models; the rest is for the scores
    grid_cut: float = 0.0  # candidates are the margins of at least grid_cut/sqrt(n epsilon)
    steps_over_dimension: bool = False  # T = n² mu²/k instead of n² mu²
    min_steps: int = 1  # T is clamped to min_steps .. max_steps, or .. max_steps_large where n > 20,000
    max_steps: int = 1000
    max_steps_large: int = 1000
    step_scale: float = 1.0  # factor of the step size eta
    fixed_c: float | None = None  # a hinge parameter fixed in advance, in place of the grid and of all choice

    def steps(self, n: int, mu: float, dimension: int, limit: float | None = None) -> int:
        """Return T for one model of Gaussian-DP budget `mu` on `n` rows; any data-independent T costs the same.

        A `limit` replaces the largest T; infinity gives the paper's T as it stands.
        """
        literal = n**2 * mu**2 / (dimension if self.steps_over_dimension else 1)
        largest = (self.max_steps_large if n > N_LARGE else self.max_steps) if limit is None else limit
        return int(min(max(math.ceil(literal), self.min_steps), largest))

    def margins(self, n: int, epsilon: float) -> NDArray[np.float64]:
        """Return the candidate margins: the grid without those that this budget cannot resolve."""
        if self.fixed_c is not None:
            return np.array([self.fixed_c / self.hinge_share])
        grid = margin_grid(n)
        kept = grid[grid >= self.grid_cut / math.sqrt(n * epsilon)]
        return kept if kept.size else grid[-1:]


# The paper's constants, with the two changes without which nothing runs: no projection to more dimensions than there
# are, and at most 1000 steps.
PUBLISHED = Constants("published")

# Ours. Chosen on Adult and digits by test error, COMPAS looked at once, then frozen; ACS Employment was never seen.
PRACTICAL = Constants(
    "practical",
    project_below=1 / 36,  # where the bounds of the projected and the unprojected learner cross
    radius=1.0,
    hinge_share=1.0,
    model_share=0.9,
    grid_cut=0.25,
    steps_over_dimension=True,
    min_steps=30,  # the average over T = 1 steps is the zero vector
    max_steps_large=3000,
)

# The baseline: the practical learner with one hinge parameter, the same for every table; it was seen to work on all
# tables of the comparison but ACS Employment.
FIXED = replace(PRACTICAL, name="fixed", fixed_c=0.003)

# For comparisons on the sets that the practical constants were chosen on: each by an argument that looks at no data.
# Rows as they are (radius 1, c = gamma), for nothing is projected; T of the excess-risk bound in k dimensions (Bassily,
# Smith and Thakurta 2014); the largest T is a matter of time. The bounds' noise terms are about sqrt(k n) errors for
# the models and sqrt(2 ln |Gamma|) for the choice; their sum is least at a share of 1/(1 + (choice/models)^(2/3)): .93
# at n = 1000, k = 10, more for larger tables, so a tenth is enough for the choice. Below a margin of 1/sqrt(n epsilon)
# the paper's bound, about 1/(gamma^2 epsilon) errors, exceeds n and says nothing.
DERIVED = replace(PRACTICAL, name="derived", grid_cut=1.0)

VARIANTS = {constants.name: constants for constants in (PRACTICAL, PUBLISHED, FIXED, DERIVED)}


def margin_grid(n: int) -> NDArray[np.float64]:
    """Return the doubling grid 2^j/n, j = 0..floor(log2 n), and 1 itself: ceil(log2 n) + 1 margins, ascending.

    >>> margin_grid(10)
    array([0.1, 0.2, 0.4, 0.8, 1. ])
    """
    n = checks.count("n", n)
    grid = np.exp2(np.arange(n.bit_length())) / n  # n.bit_length() - 1 = floor(log2 n), exactly
    return grid if n & (n - 1) == 0 else np.append(grid, 1.0)  # a power of two ends in 1 already
