"""The fitted graphical model, as `estimate` returns it."""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.files import atomic_path
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.marginals.all_pairs import AllPairs, Arena
from marginalia.marginals.candidates import CandidateMarginals
from marginalia.marginals.elimination import Clique
from marginalia.marginals.inference import Inference
from marginalia.marginals.plan import Plan
from marginalia.marginals.sampling import draw, sample_codes, urns_of
from marginalia.threads import one_blas_thread

_SWEEP_BYTES = 2**30


@dataclass
class FitReport:
    """Report of a fit.

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


class GraphicalModel:
    """P(x) proportional to exp(sum over cliques of theta_c(x_c)), scaled to `total` records.

    Parameters
    ----------
    domain : Domain
        Domain, whose structural zeros have no mass.
    plan : Plan
        Structure of the model.
    theta : ndarray of shape (plan.theta_at[-1],)
        Potentials, one table after the other; minus infinity on structural zeros.
    total : float
        Number of records the marginals add up to.

    Attributes
    ----------
    cliques : list of tuple of str
        Maximal cliques, attributes in domain order.
    report : FitReport or None
        Report of the fit; None after loading.

    Examples
    --------
    >>> from marginalia.data.domain import Column
    >>> domain = Domain([Column("a", 2), Column("b", 2)])
    >>> model = GraphicalModel(domain, Plan([(0,)], (2, 2)), np.zeros(4), total=8)
    >>> model.marginal(("b", "a")), len(model.sample(3, np.random.default_rng(0)))
    (array([[2., 2.],
           [2., 2.]]), 3)
    """

    def __init__(self, domain: Domain, plan: Plan, theta: NDArray[np.float64], total: float) -> None:
        self.domain = domain
        self.plan = plan
        self.theta = theta
        self.total = float(total)
        self.report: FitReport | None = None

    @property
    def cliques(self) -> list[tuple[str, ...]]:
        """Maximal cliques by name."""
        return [tuple(self.domain.names[a] for a in c) for c in self.plan.cliques]

    @cached_property
    def inference(self) -> Inference:
        """The calibrated tables, computed on first use."""
        inference = Inference(self.plan)
        inference.theta[:] = self.theta
        with one_blas_thread():
            inference.calibrate()
        return inference

    @cached_property
    def _queries(self) -> CandidateMarginals:
        return CandidateMarginals(self.inference)

    @cached_property
    def log_z(self) -> float:
        """Logarithm of the partition function."""
        return self.inference.log_z

    def __getstate__(self) -> dict[str, Any]:
        # A copy computes its tables again: they are large, and depend on earlier queries.
        return {name: value for name, value in vars(self).items() if name not in ("inference", "_queries")}

    def release_memory(self) -> None:
        """Drop the calibrated tables; they are computed again when needed."""
        self.__dict__.pop("inference", None)
        self.__dict__.pop("_queries", None)

    def expect(self, cliques: Iterable[Clique]) -> None:
        """Announce marginals that will be needed, so that several can be computed together, which is faster."""
        self._queries.expect(cliques)

    def probabilities(self, clique: Clique) -> NDArray[np.float64]:
        """Return the marginal on attribute positions (axes ascending) as probabilities; treat it as read-only."""
        return self._queries.marginal(clique)

    def lone_probabilities(self, clique: Clique) -> NDArray[np.float64]:
        """Return the result of `probabilities`, to the last bit independent of earlier queries.

        Results that several marginals share, and those derived from earlier results, differ in their last digits. A
        released number must not come from them if private rows decided on the queries.
        """
        return CandidateMarginals(self.inference).marginal(clique)

    def pair_matrix(self, arena: Arena | None = None) -> NDArray[np.float64] | None:
        """Return P(a = i, b = j) of all pairs: a row and a column for each value of each attribute, in domain order.

        The diagonal holds P(a = i). Return None if the sweep over the tree would take too much memory. The sweeps of
        several models can share an `arena`.
        """
        pairs = self.plan.pairs
        if 8 * (pairs.cells + 3 * pairs.n_rows**2) > _SWEEP_BYTES:
            return None
        return AllPairs(self.inference, arena).matrix()

    def marginal(self, attributes: Sequence[str]) -> NDArray[np.float64]:
        """Return the marginal as expected counts.

        Parameters
        ----------
        attributes : sequence of str

        Returns
        -------
        ndarray of shape (size of each attribute, in the order given)
        """
        positions = [self.domain.index(a) for a in attributes]
        if len(set(positions)) != len(positions):
            raise InputError(f"marginal({list(attributes)}): a column stands twice")
        order = sorted(range(len(positions)), key=positions.__getitem__)
        with one_blas_thread():
            table = self.probabilities(tuple(sorted(positions))) * self.total
        return np.transpose(table, [order.index(i) for i in range(len(order))])

    def sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        """Draw rows whose counts follow the model as closely as whole numbers allow (see `sample_codes`)."""
        return Table(sample_codes(self.inference, n_rows, rng), self.domain)

    def batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        """Draw rows by the law of `sample`, in batches: memory holds the counts of the model's tables and one batch."""
        for codes in draw(urns_of(self.inference, n_rows, rng), n_rows, rng):
            yield Table(codes, self.domain)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the model without its domain as named arrays."""
        blocks = json.dumps({"blocks": self.plan.blocks, "cliques": self.plan.cliques}).encode()
        return {"structure": np.frombuffer(blocks, np.uint8), "theta": self.theta, "total": np.array(self.total)}

    @classmethod
    def from_state(cls, domain: Domain, state: Mapping[str, NDArray[Any]]) -> GraphicalModel:
        """Build the model of `state` on `domain`."""
        structure = json.loads(state["structure"].tobytes())
        blocks = [tuple(b) for b in structure["blocks"]]
        plan = Plan(blocks, domain.sizes, extra=[tuple(c) for c in structure["cliques"]])
        theta = np.asarray(state["theta"], np.float64)
        if theta.shape != (plan.theta_at[-1],):
            raise InputError("the saved potentials do not fit the saved structure")
        return cls(domain, plan, theta, float(state["total"]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model (npz, no pickle), atomically.

        The format is older than that of `Synthesizer.save`, has no header, and must stay readable.
        """
        domain = np.frombuffer(json.dumps(self.domain.to_dict()).encode(), np.uint8)
        with atomic_path(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, domain=domain, **self.state())  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GraphicalModel:
        """Read a model written by `save`."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                state = {name: archive[name] for name in archive.files}
            domain = Domain.from_dict(json.loads(state.pop("domain").tobytes()), where=str(path))
            return cls.from_state(domain, state)
        except OSError as error:
            raise InputError(f"cannot read model {path}: {error.strerror or error}") from None
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
            raise InputError(f"{path} is not a graphical model file; write it with GraphicalModel.save") from None
