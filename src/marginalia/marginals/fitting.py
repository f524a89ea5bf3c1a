"""How long a fit goes on, and what it reports."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FitSettings:
    """When a fit stops, and how long its proximal steps are.

    Parameters
    ----------
    t : float
        T = t / min sigma: small values make long steps of hard subproblems.
    gap : float
        A subproblem ends when its duality gap is at most this share of L.
    decrease : float
        The fit ends when an outer step lowers L by at most this share of it ...
    passes : int
        ... or at the first outer step that ends after this many inference passes.
    min_outer : int
        Outer steps made in any case.

    Examples
    --------
    >>> FINAL.decrease < ROUND_TIGHT.decrease, ROUND_TIGHT.passes > ROUND_QUICK.passes
    (True, True)
    """

    t: float = 1.0
    gap: float = 0.003
    decrease: float = 1e-5
    passes: int = 4000
    min_outer: int = 2


FINAL = FitSettings()
ROUND_TIGHT = FitSettings(t=3.0, gap=0.01, decrease=1e-3, passes=400)
ROUND_QUICK = FitSettings(t=10.0, gap=0.1, decrease=1e-3, passes=40)


@dataclass
class FitReport:
    """What a fit did.

    >>> FitReport(loss=3.2, passes=40, domains={"linear": 40}).domains["linear"]
    40
    """

    loss: float = math.nan  # L at the end
    gap: float = math.nan  # duality gap of the last subproblem, in units of L
    decrease: float = math.nan  # relative decrease of L over the last outer step
    passes: int = 0
    outer: int = 0
    domains: dict[str, int] = field(default_factory=dict)  # passes that ran in each numeric domain of `inference`
    losses: list[float] = field(default_factory=list)  # L after each outer step; never increases
