"""All attributes independent: the smallest model, and the level any other must beat."""

from __future__ import annotations

from typing import ClassVar

from marginalia.data.table import CountSource
from marginalia.marginals.estimation import estimate
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.privacy.session import Session
from marginalia.synthesis.base import ModelSynthesizer
from marginalia.synthesis.measuring import measure_all, number_of_records


class Independent(ModelSynthesizer):
    """Release every one-way marginal with Gaussian noise; answer with their product.

    Privacy: one Gaussian event per attribute; exact Gaussian DP.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    relation : {"replace_one", "add_remove"}, default "replace_one"
    calibration : {"tight"}, default "tight"
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : GraphicalModel
        Its marginals are the noisy ones made consistent: no negative count, one total. Declared structural zeros tie
        their attributes together.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 0], [1, 2], [1, 1]] * 50, Domain.from_sizes({"a": 2, "b": 3}))
    >>> model = Independent(epsilon=1.0, relation="replace_one", random_state=0).fit(table)
    >>> model.marginal(["a", "b"]).sum().round(6).item(), model.ledger_.certified
    (150.0, True)
    """

    UNITS: ClassVar[bool] = True
    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight",)

    def _release(self, table: CountSource, session: Session) -> None:
        one_ways = [(a,) for a in table.domain.names]
        sensitivity = session.neighbours.marginal_sensitivity_l2
        sigma = gaussian_sigma(*session.ledger.remaining_budget(), sensitivity=sensitivity, releases=len(one_ways))
        self.measurements_ = measured = measure_all(table, one_ways, sigma, session)
        self.model_ = estimate(table.domain, measured, total=number_of_records(table, session.ledger, measured))
        self.n_rows_ = table.n_rows if session.neighbours.n_rows_public else round(self.model_.total)
