"""Plain Private-PGM: noisy marginals chosen beforehand, one graphical model (McKenna, Sheldon and Miklau 2019)."""

from __future__ import annotations

from typing import ClassVar

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource
from marginalia.marginals.estimation import FINAL, estimate
from marginalia.marginals.plan import predict_cost
from marginalia.marginals.workload import Workload
from marginalia.memory import check_cost
from marginalia.privacy.session import Session
from marginalia.synthesis.base import ModelSynthesizer
from marginalia.synthesis.measuring import WorkloadSynthesizer, number_of_records


class PrivatePGM(ModelSynthesizer, WorkloadSynthesizer):
    """Measure the marginals of a fixed workload with Gaussian noise, fit a graphical model to all, draw from it.

    Algorithm 3 of Zhou et al.; what AIM adds is choosing the marginals. The model is one clique where all pairs are
    measured: name a sparse workload (a tree, the pairs with the label) instead.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    workload : int or sequence of tuple of str, default 2
        An order (all marginals of so many attributes) or the marginals themselves.
    relation : {"replace_one", "add_remove"}, default "replace_one"
    calibration : {"tight", "published"}, default "tight"
        As `GaussianMarginals`, which releases the same; ``published`` under ``replace_one`` is the paper's
        sigma² = 2 (2|Q|) ln(1.25/delta)/epsilon².
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : GraphicalModel

    Raises
    ------
    InputError
        The model does not fit in memory.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 0, 1], [1, 2, 0], [1, 1, 0]] * 50, Domain.from_sizes({"a": 2, "b": 3, "c": 2}))
    >>> model = PrivatePGM(epsilon=5.0, workload=[("a", "b"), ("b", "c")], random_state=0).fit(table)
    >>> model.marginal(["a", "c"]).shape
    (2, 2)
    """

    UNITS: ClassVar[bool] = True

    def _check_cost(self, domain: Domain) -> None:
        super()._check_cost(domain)
        marginals = Workload.parse(self.workload, domain).names(domain)
        cost = predict_cost(domain, marginals)
        seconds = cost.seconds_per_pass * FINAL.passes
        check_cost("the model of this workload", cost.bytes, seconds, mend="name a sparser workload")

    def _release(self, table: CountSource, session: Session) -> None:
        self.measurements_ = measured = self._measure_workload(table, session)
        total = number_of_records(table, session.ledger, measured)
        self.model_ = estimate(table.domain, measured, total=total)
        self.n_rows_ = table.n_rows if session.neighbours.n_rows_public else int(total)
