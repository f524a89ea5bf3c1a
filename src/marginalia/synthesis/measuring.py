"""Noisy marginals of a private table: those named, those of a workload, and the number of records they imply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource
from marginalia.marginals.estimation import Measurement, estimate_total
from marginalia.marginals.workload import Workload, WorkloadLike
from marginalia.memory import check_cost, short
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import actual_sigma
from marginalia.privacy.session import Session
from marginalia.synthesis.base import Synthesizer
from marginalia.synthesis.noisy_marginals import NoisyMarginal

_BYTES_A_CELL = 41  # of counts and noise, measured
_SECONDS_A_CELL = 1.5e-7  # of exact noise, measured on one core


def measure_all(
    table: CountSource,
    marginals: Iterable[tuple[str, ...]],
    sigma: float,
    session: Session,
    *,
    round: int = 0,
) -> list[NoisyMarginal]:
    """Release marginals with Gaussian noise of standard deviation `sigma`, in the order given.

    `round`: see `NoisyMarginal`.

    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> from marginalia.privacy.randomness import Randomness
    >>> table = Table([[0], [1], [1]], Domain.from_sizes({"a": 2}))
    >>> measure_all(table, [("a",)], 1.0, Session(Ledger("add_remove"), Randomness(0)))[0].values.shape
    (2,)
    """
    marginals = list(marginals)
    table.expect(marginals)

    def measured(q: tuple[str, ...]) -> NoisyMarginal:
        values = session.marginal(table, q, sigma=sigma)
        return NoisyMarginal(
            q, values, sigma, actual_sigma(sigma, session.neighbours.marginal_sensitivity_l2, values.size), round
        )

    return [measured(q) for q in marginals]


def number_of_records(table: CountSource, ledger: Ledger, measured: Sequence[Measurement]) -> float:
    """Return the number of records to fit, at least 1: the public one, or what noisy marginals say of it.

    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0], [1], [1]], Domain.from_sizes({"a": 2}))
    >>> number_of_records(table, Ledger("replace_one"), [])
    3.0
    >>> number_of_records(table, Ledger("add_remove"), [Measurement(("a",), [2.0, 2.5], 1.0)])
    4.5
    """
    return max(1.0, float(table.n_rows)) if ledger.neighbours.n_rows_public else estimate_total(measured)


@dataclass(eq=False, repr=False, kw_only=True)
class WorkloadSynthesizer(Synthesizer):
    """Parameters and release of those that measure every marginal of a workload at one scale.

    >>> from marginalia.data import Domain, Table
    >>> from marginalia.synthesis import PrivatePGM
    >>> table = Table([[0, 1], [1, 0], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> made = PrivatePGM(epsilon=1.0, workload=[("a", "b"), ("a",)]).fit(table)
    >>> [(event.label, round(event.sigma, 3)) for event in made.ledger_.events]
    [('a,b', 7.461), ('a', 7.461)]
    """

    workload: WorkloadLike = 2

    def _check_cost(self, domain: Domain) -> None:
        super()._check_cost(domain)
        marginals = Workload.parse(self.workload, domain).names(domain)
        cells = sum(map(domain.n_cells, marginals))
        check_cost(
            f"{type(self).__name__} on {len(marginals):,} marginals of {short(cells)} cells",
            _BYTES_A_CELL * cells,
            _SECONDS_A_CELL * min(cells, 10**30),
            mend="name a smaller workload, or give columns with many codes fewer of them",
        )

    def _measure_workload(self, table: CountSource, session: Session) -> list[NoisyMarginal]:
        marginals = Workload.parse(self.workload, table.domain).names(table.domain)
        method = "tight" if self.calibration == "tight" else "classical"
        S, K = session.neighbours.marginal_sensitivity_l2, len(marginals)
        sigma = gaussian_sigma(*session.ledger.remaining_budget(), sensitivity=S, releases=K, method=method)
        return measure_all(table, marginals, sigma, session)
