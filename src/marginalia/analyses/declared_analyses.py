"""The synthesizer of declared regressions: it measures the sums that they need, and nothing else."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np

from marginalia.analyses.analyses import Analyses
from marginalia.analyses.basis import UNIT
from marginalia.analyses.declared import Declared
from marginalia.analyses.newton import Newton
from marginalia.analyses.planning import COUNT, FIRST, Linears
from marginalia.data.table import CountSource, PrivateRows, RawTable
from marginalia.errors import InputError
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.mechanisms.additive import actual_sigma
from marginalia.privacy.session import Session
from marginalia.synthesis.base import Array, State, Synthesizer


@dataclass(eq=False, repr=False, kw_only=True)
class DeclaredAnalyses(Synthesizer):
    """Release the sums that declared regressions need, with the noise that makes their coefficients most precise.

    For linear regressions these are sums over all rows of x_j x_k and x_j y, in groups (`analyses.basis`), each with
    its own noise level (`analyses.planning`). There are two stages. A guess plans the first, with a tenth of the
    budget. The result of the first plans the second. Inference uses the second stage only, whose noise is Gaussian and
    known whatever the first stage was. Sums that several analyses need are measured once.

    For logistic regressions these are noisy Newton steps, and score and Hessian at their end (`newton.Newton`). Each
    analysis gets an equal part of the budget (mu²); the linear ones pool theirs.

    Sufficient statistics are those of Vu and Slavković (2009), Foulds et al. (2016) and Wang (2018); the planned noise,
    its groups and the exact sets are ours.

    Privacy: Gaussian releases, each an event of its own, together at exactly the Gaussian DP of the budget; sums in
    whole numbers, with sensitivities computed over the public domain (`analyses.basis.MeasuredSum`).

    Parameters
    ----------
    analyses : mapping
        The content of a file of analyses (`analyses.analyses.Analyses`).
    epsilon, delta, relation, calibration, random_state
        As in `Synthesizer`.

    Attributes
    ----------
    n_rows_ : int
        0 if it is private and only logistic regressions were declared: then it is not released.
    declared_ : Declared
        Input of `marginalia.inference.regressions`.

    Notes
    -----
    It releases no marginals, and no rows can be drawn from it.

    Examples
    --------
    >>> from marginalia.data import Domain, Table
    >>> from marginalia.inference import regression
    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(2, size=5000)
    >>> table = Table(np.column_stack([x, x ^ (rng.random(5000) < 0.2)]), Domain.from_sizes({"x": 2, "y": 2}))
    >>> analyses = {"analyses": [{"formula": "y ~ x"}]}
    >>> made = DeclaredAnalyses(analyses=analyses, epsilon=1.0, relation="replace_one", random_state=0).fit(table)
    >>> [round(c.estimate, 1) for c in regression(made, "y ~ x").coefficients], made.ledger_.certified
    ([0.2, 0.6], True)
    """

    UNITS: ClassVar[bool] = True
    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight",)

    analyses: Mapping[str, Any] = field(default_factory=dict)
    declared_: Declared = field(init=False)

    def marginal(self, attributes: Sequence[str]) -> NoReturn:
        """Raise an InputError: declared analyses release no marginals."""
        raise InputError("a release of declared analyses answers no marginals; ask it regressions")

    def _sample(self, n_rows: int, rng: np.random.Generator) -> NoReturn:
        raise InputError("no rows can be drawn from a release of declared analyses; ask it regressions")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        Analyses.parse(self.analyses)

    def _state(self) -> State:
        return self.declared_.state()

    def _restore(self, state: State) -> None:
        self.declared_ = Declared.from_state(self.domain_, state, self.n_rows_)

    def _needed(self, rows: PrivateRows) -> PrivateRows:
        """Return the columns of the formulas, and of weights: what of others is open need not be learned."""
        if not isinstance(rows, RawTable):
            return rows
        needed = {*Analyses.parse(self.analyses).names(rows.domain), rows.domain.weights}
        return rows.project([name for name in rows.names if name in needed])

    def _release(self, table: CountSource, session: Session) -> None:
        declaration, domain, public = Analyses.parse(self.analyses), table.domain, session.neighbours.n_rows_public
        if domain.weights is not None:
            what = f"declared analyses do not use the survey weights `{domain.weights}`: each row counts once"
            warnings.warn(f"{what}; for a weighted mean release all pairs (residual_planner)", stacklevel=2)
        linears = Linears(domain, declaration, session.neighbours)
        binomial = [a for a in declaration.analyses if a.family == "binomial"]
        logistic = [Newton(domain, a, table, session) for a in binomial]
        each = gdp_mu(*session.ledger.remaining_budget()) ** 2 / len(declaration.analyses)
        values = np.array([float(table.n_rows if public else 0)])
        variances = np.zeros(1)
        if linears.analyses:
            mu = math.sqrt(len(linears.analyses) * each)
            values, variances = self._stages(linears, mu, table, session)
        scored = tuple(newton.release(each) for newton in logistic)
        self.n_rows_ = table.n_rows if public else max(0, round(values[0]))
        n_rows = self.n_rows_ if public else None
        self.declared_ = Declared(
            domain,
            (),
            n_rows,
            session.neighbours.unit,
            basis=linears.basis,
            pairs=tuple(linears.pairs),
            values=values,
            variances=variances,
            scored=scored,
        )

    def _stages(self, linears: Linears, mu: float, table: CountSource, session: Session) -> tuple[Array, Array]:
        """Return sums and variances of the second stage of the linear regressions, which the first stage plans."""
        table.expect([[table.domain.names[a] for a in group.clique] for group in linears.groups])
        first = linears.sigmas(linears.guesses(1.0), math.sqrt(FIRST) * mu, squares=False)
        guesses = linears.answered(*self._measured(linears, first, table, session))
        second = linears.sigmas(guesses, math.sqrt(1 - FIRST) * mu, squares=True)
        return self._measured(linears, second, table, session)

    @staticmethod
    def _measured(
        linears: Linears, sigmas: Mapping[int, float], table: CountSource, session: Session
    ) -> tuple[Array, Array]:
        """Return noisy sums and their variances, the number of rows first; 0 for sums that are not measured."""
        known = float(table.n_rows) if session.neighbours.n_rows_public else 0.0
        values, variances = [np.array([known])], [np.zeros(1)]
        for i, group in enumerate(linears.groups):
            if i not in sigmas:
                values.append(np.zeros(len(group.pairs)))
                variances.append(np.zeros(len(group.pairs)))
                continue
            sensitivity = group.sensitivity(session.neighbours)
            noisy = session.gaussian(
                partial(group.sums, table),
                sensitivity=sensitivity,
                sigma=sigmas[i],
                quantum=UNIT,
                label=linears.label(group),
            )
            variance = np.full(len(noisy), actual_sigma(sigmas[i], sensitivity, len(noisy), quantum=UNIT) ** 2)
            if group is COUNT:
                values, variances = [noisy], [variance]
            else:
                values.append(noisy)
                variances.append(variance)
        return np.concatenate(values), np.concatenate(variances)
