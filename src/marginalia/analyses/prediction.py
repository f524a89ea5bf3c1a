"""Predict the widths of intervals of declared analyses, before any row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from marginalia.analyses.analyses import Analyses
from marginalia.analyses.basis import UNIT
from marginalia.analyses.declared import Declared
from marginalia.analyses.planning import FIRST, Linears
from marginalia.data.domain import Domain
from marginalia.inference.regressions import regression
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.mechanisms.additive import actual_sigma
from marginalia.privacy.relation import Neighbours


@dataclass(frozen=True)
class Predicted:
    """Predicted interval of one coefficient.

    Attributes
    ----------
    formula, name : str
    effect : float
        The guessed coefficient.
    table, population : float
        Half the length of the interval for the coefficient of the private rows, and of the population that they sample;
        infinite where the noise is expected to hide it.
    """

    formula: str
    name: str
    effect: float
    table: float
    population: float


def predicted(
    domain: Domain,
    declaration: Analyses,
    *,
    n_rows: int,
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    confidence: float = 0.95,
) -> list[Predicted]:
    """Return predicted half widths of all coefficients of the linear regressions, from public facts alone.

    The prediction assumes independent columns, with the shares or spreads of `declaration` (default: equal shares), and
    its effects (default: small). The true table differs, so widths are an estimate.

    Examples
    --------
    >>> from marginalia.privacy.relation import Relation
    >>> declaration, domain = Analyses.parse({"analyses": [{"formula": "y ~ a"}]}), Domain.from_sizes({"a": 2, "y": 3})
    >>> facts = {"n_rows": 5000, "delta": 1e-5, "neighbours": Neighbours(Relation.REPLACE_ONE)}
    >>> one, four = (predicted(domain, declaration, epsilon=e, **facts)[1].table for e in (1.0, 4.0))
    >>> one > 2 * four
    True
    """
    linears = Linears(domain, declaration, neighbours)
    if not linears.analyses:
        return []
    share = (1 - FIRST) * len(linears.analyses) / len(declaration.analyses)
    sigmas = linears.sigmas(linears.guesses(n_rows), math.sqrt(share) * gdp_mu(epsilon, delta), squares=True)
    variances = [np.zeros(1)] if neighbours.n_rows_public else []
    for i, group in enumerate(linears.groups):
        drawn = actual_sigma(sigmas[i], group.sensitivity(neighbours), len(group.pairs), quantum=UNIT)
        variances.append(np.full(len(group.pairs), drawn**2))
    public = n_rows if neighbours.n_rows_public else None
    out = []
    for which, analysis in enumerate(linears.analyses):
        values = linears.expected(which, n_rows)
        stand_in = Declared(
            *(domain, (), public, neighbours.unit),
            basis=linears.basis,
            pairs=tuple(linears.pairs),
            values=values,
            variances=np.concatenate(variances),
        )
        table, population = (
            regression(stand_in, analysis.formula, confidence=confidence, target=target).coefficients
            for target in ("table", "population")
        )
        out += [
            Predicted(analysis.formula, one.name, one.estimate, (one.high - one.low) / 2, (two.high - two.low) / 2)
            for one, two in zip(table, population, strict=True)
        ]
    return out
