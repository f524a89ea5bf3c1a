"""Every marginal of a workload at the least total variance: the residuals of all of them, each measured once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from marginalia.data.table import CountSource
from marginalia.errors import InputError
from marginalia.marginals.elimination import Clique
from marginalia.marginals.workload import Workload
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.session import Session
from marginalia.subsets import subsets
from marginalia.synthesis.base import Array
from marginalia.synthesis.measuring import WorkloadSynthesizer
from marginalia.synthesis.residual import (
    NOISE_KEPT,
    ResidualModel,
    ResidualSynthesizer,
    nonnegative,
    planned_variances,
    residual_marginals,
)


@dataclass(eq=False, repr=False, kw_only=True)
class ResidualPlanner(ResidualSynthesizer, WorkloadSynthesizer):
    """Release all marginals of a workload, with the noise that makes their total variance least.

    What the marginals share (their common margins) is measured once and not again in each of them, and each residual
    is charged what it costs itself (Xiao, He, Zhang and Kifer 2023). The noise of all of them follows in closed form;
    nothing else is computed, and no model of all columns is fitted, so that the number of columns is no limit.

    Privacy: one composition of Gaussian events, one a residual; exact Gaussian DP, in whole numbers
    (`privacy.mechanisms.residuals`).

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    workload : int, sequence of tuple of str, or mapping, default 2
        An order (all marginals of so many attributes) or the marginals themselves, with optional weights of their
        variances.
    estimate : {"shrunk", "nonnegative", "unbiased"}, default "shrunk"
        What `marginal` answers. ``unbiased``: the noisy residuals added up; counts of any sign, consistent with each
        other, for learners that want unbiased moments. ``nonnegative``: the likeliest consistent marginals without
        negative counts (Mullins et al. 2024). ``shrunk``: no negative counts either, and the part that may be noise is
        taken away (ours, see `ResidualModel`): the smallest error, but margins agree only nearly; answers every
        marginal, one outside the workload as the most random one that follows.
    relation : {"replace_one", "add_remove"}, default "replace_one"
        Under ``replace_one`` the residuals are charged one by one, which costs more than they do together: at most
        twice (attributes of two codes), less with more codes.
    calibration : {"tight"}, default "tight"
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : ResidualModel

    Notes
    -----
    `sample` draws from a tree of the pairs that depend most on each other; rows do not follow the other marginals.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 0], [1, 2], [1, 1]] * 50, Domain.from_sizes({"a": 2, "b": 3}))
    >>> model = ResidualPlanner(epsilon=5.0, random_state=0).fit(table)
    >>> model.marginal(["a", "b"]).shape, model.sample(10).n_rows, model.ledger_.certified
    ((2, 3), 10, True)
    """

    UNITS: ClassVar[bool] = True
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {"estimate": ("shrunk", "nonnegative", "unbiased")}

    estimate: str = "shrunk"
    _wholes: dict[Clique, Clique] | None = field(init=False)  # a marginal of the workload that holds each subset
    _answers: dict[Clique, Array] | None = field(init=False)  # without negative counts, once they are asked

    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return the marginal as counts, shape = sizes of `attributes` in the order given; see `estimate`.

        Raises
        ------
        InputError
            An attribute is unknown or stands twice, or `estimate` is not ``"shrunk"`` and no marginal of the workload
            holds them all.
        """
        if self.estimate == "shrunk":
            return super().marginal(attributes)
        self._check_fitted()
        clique, order = self.model_.clique(attributes)
        if self._wholes is None:
            cliques = Workload.parse(self.workload, self.domain_).cliques
            self._wholes = {part: q for q in reversed(cliques) for part in subsets(q)} | {q: q for q in cliques}
        if clique not in self._wholes:
            raise InputError(f"no marginal of the workload holds {', '.join(attributes)}: add one that does")
        if self.estimate == "unbiased":
            return np.transpose(self.model_.unbiased(clique), order)
        if self._answers is None:
            self._answers = nonnegative(self.model_, sorted(set(self._wholes.values())))
        whole = self._wholes[clique]
        axes = tuple(i for i, a in enumerate(whole) if a not in clique)
        return np.transpose(self._answers[whole].sum(axis=axes), order)

    def _release(self, table: CountSource, session: Session) -> None:
        domain, names = table.domain, table.domain.names
        workload = Workload.parse(self.workload, domain)
        variances = planned_variances(
            workload, domain.sizes, session.neighbours, mu=gdp_mu(*session.ledger.remaining_budget())
        )
        if not variances:
            raise InputError("every column of the workload has one code: there is nothing to release")
        table.expect(workload.names(domain))
        sigmas = {tuple(names[a] for a in part): math.sqrt(v) for part, v in variances.items()}
        noisy = session.residuals(table, sigmas)
        self.measurements_ = residual_marginals(domain, sigmas, noisy, session.neighbours)
        measured = dict(zip(variances, noisy, strict=True))
        public = session.neighbours.n_rows_public
        model = ResidualModel(domain, max(1.0, float(table.n_rows if public else measured[()])))
        for part, values in measured.items():
            model.add(part, values, variances[part])
        self._fitted(model)
        self.n_rows_ = table.n_rows if public else round(model.total)

    @property
    def noise_sigma_(self) -> float:
        """As in `ResidualSynthesizer`; all of the noise where `estimate` is ``"unbiased"``."""
        kept = super().noise_sigma_
        return kept / NOISE_KEPT if self.estimate == "unbiased" else kept

    def _fitted(self, model: ResidualModel) -> None:
        super()._fitted(model)
        self._wholes = self._answers = None
