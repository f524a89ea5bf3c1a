"""Marginals from their residuals: no joint model, so no junction tree limits which can be released.

*How much noise each residual of a workload gets*: the least total variance of its marginals, in closed form (Xiao, He,
Zhang and Kifer 2023). Column i has n_i codes; the residual of A is measured with noise of variance sigma_A² on each
cell before the projection, and costs c_A/sigma_A², c_A the square of its sensitivity (`privacy.mechanisms.residuals`).
The marginal on B is the sum over A ⊆ B of its residuals, each spread evenly over the axes B - A, so the variances of
its cells add up to

    sum over A ⊆ B of  sigma_A² s(A, B),   s(A, B) = ∏_{i in A} (n_i - 1) · ∏_{i in B - A} 1/n_i.

With v_A = sum over B ⊇ A of w_B s(A, B) the least sum of v_A sigma_A² at the cost mu² is T²/mu², T = sum sqrt(v_A c_A),
at sigma_A² = T sqrt(c_A/v_A)/mu² (Cauchy and Schwarz).

*What they say* is taken as it comes, or brought back to what a table can hold. Local non-negativity looks for the
likeliest residuals whose marginals on a workload have no negative count: GReM-LNN (Mullins, Fuentes, Xiao, Kifer, Musco
and Sheldon 2024) by another algorithm (ours): not dual ascent, but the alternating direction method of multipliers,
both of whose steps are in closed form. In one every marginal of the workload is projected onto the tables without
negative counts of total N; in the other every residual is the mean, by precision, of its measurement and of what the
marginals that hold it say. The total N is kept: left free it grows, since only negative counts are lifted.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import DisjointSet

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.marginals.elimination import Clique
from marginalia.marginals.estimation import Measurement, estimate
from marginalia.marginals.model import GraphicalModel
from marginalia.marginals.workload import Workload, WorkloadLike
from marginalia.memory import check_cost, short
from marginalia.privacy.mechanisms.additive import actual_sigma
from marginalia.privacy.mechanisms.residuals import residual, residual_sensitivity
from marginalia.privacy.relation import Neighbours
from marginalia.subsets import subsets
from marginalia.synthesis.base import Array, State, Synthesizer
from marginalia.synthesis.noisy_marginals import NoisyMarginal


def share(part: Clique, whole: Clique, sizes: Sequence[int]) -> float:
    """Return s(A, B): the variance that unit noise on the residual of `part` gives to all cells of `whole` together.

    >>> share((), (0, 1), [2, 5]), share((1,), (0, 1), [2, 5]), share((0, 1), (0, 1), [2, 5])
    (0.1, 2.0, 4.0)
    """
    inside = math.prod(sizes[i] - 1 for i in part)
    return inside / math.prod(sizes[i] for i in whole if i not in part)


def cost(part: Clique, sizes: Sequence[int], neighbours: Neighbours) -> float:
    """Return c_A: what the residual of `part` costs at unit noise, as a squared Gaussian-DP parameter.

    >>> from marginalia.privacy.relation import Relation
    >>> round(cost((0, 1), [2, 4], Neighbours(Relation.ADD_REMOVE)), 9)
    0.375
    """
    return residual_sensitivity([sizes[i] for i in part], neighbours) ** 2


def planned_variances(
    workload: Workload, sizes: Sequence[int], neighbours: Neighbours, *, mu: float = 1.0
) -> dict[Clique, float]:
    """Return sigma_A² of every residual to measure, by size and then by attributes.

    Residuals that are the same for all tables, and so need no measurement, are left out.

    >>> from marginalia.data.domain import Domain
    >>> domain = Domain.from_sizes({"a": 2, "b": 3, "c": 4})
    >>> from marginalia.privacy.relation import Relation
    >>> rows = Neighbours(Relation.ADD_REMOVE)
    >>> variances = planned_variances(Workload.parse(1, domain), domain.sizes, rows)
    >>> {part: round(variance, 2) for part, variance in variances.items()}
    {(): 4.23, (0,): 3.11, (1,): 2.54, (2,): 2.2}
    """
    weight: dict[Clique, float] = {}
    for whole, w in zip(workload.cliques, workload.weights, strict=True):
        for part in subsets(whole):
            weight[part] = weight.get(part, 0.0) + w * share(part, whole, sizes)
    costs = {part: cost(part, sizes, neighbours) for part in sorted(weight, key=lambda q: (len(q), q))}
    costs = {part: c for part, c in costs.items() if c > 0}
    T = math.fsum(math.sqrt(weight[part] * c) for part, c in costs.items())
    return {part: T * math.sqrt(c / weight[part]) / mu**2 for part, c in costs.items()}


def cell_variance(whole: Clique, sizes: Sequence[int], variances: Mapping[Clique, float]) -> float:
    """Return the variance of one cell of the marginal on `whole`; a residual that is not in `variances` is exact.

    >>> cell_variance((0,), [2], {(): 4.0, (0,): 1.0})
    1.5
    """
    total = math.fsum(variances.get(part, 0.0) * share(part, whole, sizes) for part in subsets(whole))
    return total / math.prod(sizes[i] for i in whole)


def residual_marginals(
    domain: Domain,
    sigmas: Mapping[tuple[str, ...], float],
    values: Sequence[Array],
    neighbours: Neighbours,
    *,
    round: int = 0,
) -> list[NoisyMarginal]:
    """Return what `measure_residuals` released for `sigmas`, to be kept.

    >>> from marginalia.privacy.relation import Relation
    >>> domain, rows = Domain.from_sizes({"a": 2}), Neighbours(Relation.ADD_REMOVE)
    >>> residual_marginals(domain, {("a",): 2.0}, [np.array([3.0, -3.0])], rows)[0].residual
    True
    """

    def marginal(names: tuple[str, ...], sigma: float, noisy: Array) -> NoisyMarginal:
        sizes = [domain[name].size for name in names]
        whole = math.prod(sizes)  # what is drawn is the noise of the residual times so much
        drawn = actual_sigma(sigma * whole, residual_sensitivity(sizes, neighbours) * whole, whole) / whole
        return NoisyMarginal(names, noisy, sigma, drawn, round, residual=True)

    return [marginal(q, sigma, noisy) for (q, sigma), noisy in zip(sigmas.items(), values, strict=True)]


_KEPT_BYTES = 2**28
_CYCLES = 20  # of iterative proportional fitting; faces that nearly agree need few
_SETTLED = 1e-4  # of the total: what the last cycle may have moved


class ResidualModel:
    """Residuals with independent noise, each known with its variance, over the domain they come from.

    Every marginal is the sum of the residuals of its subsets, each spread evenly over the other axes. `unbiased` adds
    them up; what was never measured counts as 0. `estimate` is for people: no count is negative, the total is N,
    and what is not known, or is lost in the noise, follows from smaller marginals and not from 0:

    - the first guess of a marginal is the table of maximum entropy with the estimates of its faces (all subsets of one
      attribute fewer) as margins: independence for a pair, iterative proportional fitting beyond;
    - the measured residual moves it by the share 1 - E|noise|²/|move|² of their difference, at least 0 (James and
      Stein 1961; the noise's energy is known);
    - the result is projected onto the tables without negative counts of total N (Euclidean; Wang et al. 2020,
      "norm-sub").

    Estimates are the smallest error that we know here, and agree with each other only nearly.

    Parameters
    ----------
    domain : Domain
    total : float
        N, positive.

    Examples
    --------
    >>> model = ResidualModel(Domain.from_sizes({"a": 2, "b": 2}), 40.0)
    >>> model.add((0,), np.array([10.0, -10.0]), 1.0)
    >>> model.unbiased((0,)), model.estimate((0, 1))[1]
    (array([30., 10.]), array([5., 5.]))
    """

    def __init__(self, domain: Domain, total: float) -> None:
        self.domain = domain
        self.total = float(total)
        self.residuals: dict[Clique, Array] = {}
        self.variances: dict[Clique, float] = {}  # of the noise on each cell before the projection
        self._kept = Kept()  # estimates

    def add(self, part: Clique, values: NDArray[np.float64], variance: float) -> None:
        """Take in a measurement of a residual; one that is known already becomes the mean by inverse variance."""
        if part in self.residuals:
            old, known = self.residuals[part], self.variances[part]
            weight = known / (known + variance)
            values, variance = old + weight * (values - old), known * variance / (known + variance)
        self.residuals[part], self.variances[part] = values, variance
        self._kept.forget(part)

    def unbiased(self, clique: Clique) -> Array:
        """Return the sum of the residuals of all subsets: counts of any sign, and all of them consistent."""
        sizes = [self.domain.sizes[a] for a in clique]
        counts = np.full(sizes, self.total / np.prod(sizes))
        for part in subsets(clique):
            if part and part in self.residuals:
                axes = tuple(i for i, a in enumerate(clique) if a not in part)
                counts += np.expand_dims(self.residuals[part], axes) / np.prod([sizes[i] for i in axes])
        return counts

    def variance(self, clique: Clique) -> float:
        """Return the variance of each cell of `unbiased`."""
        return cell_variance(clique, self.domain.sizes, self.variances)

    def estimate(self, clique: Clique) -> Array:
        """Return the estimated counts on `clique`, none negative, of sum N; its bits depend on the residuals alone."""
        kept = self._kept.tables.get(clique)
        return self._kept.put(clique, self._estimated(clique)) if kept is None else kept

    def _estimated(self, clique: Clique) -> Array:
        guess = self._guess(clique)
        if clique not in self.residuals:
            return guess
        move = self.residuals[clique] - residual(guess)
        energy = self.variances[clique] * np.prod([self.domain.sizes[a] - 1 for a in clique])
        found = float((move**2).sum())
        if len(clique) > 1:  # a column alone has no smaller marginal that it could follow
            move *= max(0.0, 1.0 - energy / found) if found > 0 else 0.0
        return nearest_table(guess + move, self.total)

    def _guess(self, clique: Clique) -> Array:
        """Return the table of maximum entropy with the estimates of the faces."""
        counts = np.full([self.domain.sizes[a] for a in clique], self.total)
        counts /= counts.size
        if len(clique) < 2:
            return counts
        for i, a in enumerate(clique):
            axes = tuple(j for j in range(len(clique)) if j != i)
            counts = counts * np.expand_dims(self.estimate((a,)) * (counts.shape[i] / self.total), axes)
        if len(clique) == 2:
            return counts
        faces = [self.estimate(clique[:i] + clique[i + 1 :]) for i in range(len(clique))]
        for _ in range(_CYCLES):
            before = counts
            for i, face in enumerate(faces):
                margin = counts.sum(axis=i)
                counts = counts * np.expand_dims(np.divide(face, margin, out=np.zeros_like(face), where=margin > 0), i)
            if np.abs(counts - before).sum() < _SETTLED * self.total:
                break
        return counts * (self.total / max(float(counts.sum()), 1e-300))

    def forget_estimates(self) -> None:
        """Drop what was answered so far: which estimates a private selection asked for must not be seen."""
        self._kept = Kept()

    def clique(self, attributes: Sequence[str]) -> tuple[Clique, list[int]]:
        """Return positions in domain order, and the axes that put their table into the order of `attributes`.

        Raises
        ------
        InputError
            An attribute is unknown or stands twice.
        """
        positions = [self.domain.index(a) for a in attributes]
        if len(set(positions)) != len(positions):
            raise InputError(f"marginal({list(attributes)}): a column stands twice")
        clique = tuple(sorted(positions))
        return clique, [clique.index(a) for a in positions]

    def state(self) -> State:
        """Return the model as named arrays."""
        keys = json.dumps([[list(q), v] for q, v in self.variances.items()])
        values = [np.ravel(self.residuals[q]) for q in self.variances]
        return {
            "total": np.array(self.total),
            "residuals": np.frombuffer(keys.encode(), np.uint8),
            "values": np.concatenate([np.zeros(0), *values]),
        }

    @classmethod
    def from_state(cls, domain: Domain, state: Mapping[str, NDArray[np.float64]]) -> Self:
        """Rebuild a model from `state`."""
        model = cls(domain, float(state["total"]))
        start = 0
        for key, variance in json.loads(state["residuals"].tobytes()):
            shape = [domain.sizes[a] for a in key]
            end = start + int(np.prod(shape))
            model.residuals[tuple(key)] = np.asarray(state["values"][start:end]).reshape(shape)
            model.variances[tuple(key)] = float(variance)
            start = end
        return model


class Kept:
    """Tables that hold as long as the residuals inside them do; large ones only while memory lasts.

    >>> kept = Kept()
    >>> _ = kept.put((0, 1), np.zeros(4)), kept.put((1, 2), np.zeros(4))
    >>> kept.forget((0,)), list(kept.tables)
    ([(0, 1)], [(1, 2)])
    """

    def __init__(self) -> None:
        self.tables: dict[Clique, Array] = {}
        self._with: dict[int, set[Clique]] = {}  # those that hold an attribute
        self._bytes = 0

    def put(self, clique: Clique, table: Array) -> Array:
        """Keep `table`, and return it."""
        if len(clique) <= 2 or self._bytes + table.nbytes <= _KEPT_BYTES:
            self.tables[clique] = table
            self._bytes += table.nbytes
            for a in clique:
                self._with.setdefault(a, set()).add(clique)
        return table

    def forget(self, part: Clique) -> list[Clique]:
        """Drop the tables on all cliques that hold `part`, and return these cliques."""
        held = [self._with.get(a, set()) for a in part]
        gone = sorted(set.intersection(*held)) if held else list(self.tables)
        for clique in gone:
            self._bytes -= self.tables.pop(clique).nbytes
            for a in clique:
                self._with[a].discard(clique)
        return gone


def nearest_table(counts: NDArray[np.float64], total: float) -> Array:
    """Return the table without negative counts of sum `total` that is nearest to `counts` in the 2-norm.

    >>> nearest_table(np.array([4.0, 2.0, -1.0]), 5.0)
    array([3.5, 1.5, 0. ])
    """
    falling = np.sort(counts, axis=None)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    last = int(np.flatnonzero(falling > excess)[-1])
    return np.maximum(counts - excess[last], 0.0)


MOST_STEPS = 300
_CLOSE = 1e-4  # of the noise of a cell: the largest step of any cell between marginals and residuals


def nonnegative(model: ResidualModel, cliques: Sequence[Clique]) -> dict[Clique, Array]:
    """Return the marginals on `cliques` (measured with all their subsets), consistent and without negative counts.

    They agree with each other up to a ten-thousandth of the noise's standard deviation, or what `MOST_STEPS` reach.

    >>> from marginalia.data.domain import Domain
    >>> model = ResidualModel(Domain.from_sizes({"a": 2, "b": 2}), 10.0)
    >>> for part, sign in [((0,), [1, -1]), ((1,), [1, -1]), ((0, 1), [[1, -1], [-1, 1]])]:
    ...     model.add(part, 3.0 * np.array(sign), 1.0)
    >>> model.unbiased((0, 1)), nonnegative(model, [(0, 1)])[0, 1].round(2)
    (array([[ 8.5, -0.5],
           [-0.5,  2.5]]), array([[8., 0.],
           [0., 2.]]))
    """
    sizes = model.domain.sizes
    parts = {q: [p for p in subsets(q) if p in model.residuals and p] for q in cliques}
    cells = {(p, q): math.prod(sizes[i] for i in q if i not in p) for q in cliques for p in parts[q]}
    noise = {q: math.sqrt(model.variance(q)) for q in cliques}
    rho = 1.0 / float(np.median(list(noise.values()))) ** 2
    pull: dict[Clique, float] = {}
    for (p, _), n in cells.items():
        pull[p] = pull.get(p, 0.0) + rho / n
    fitted = ResidualModel(model.domain, model.total)
    fitted.residuals, fitted.variances = dict(model.residuals), model.variances
    y = {q: fitted.unbiased(q) for q in cliques}
    u = {q: np.zeros_like(table) for q, table in y.items()}
    for _ in range(MOST_STEPS):
        x = {q: nearest_table(y[q] + u[q], model.total) for q in cliques}
        gap = max(float(np.abs(y[q] - x[q]).max()) / noise[q] for q in cliques)
        if gap < _CLOSE:
            break
        said: dict[Clique, Array] = {}
        for q in cliques:
            u[q] += y[q] - x[q]
            z = x[q] - u[q]
            for p in parts[q]:
                summed = z.sum(axis=tuple(i for i, a in enumerate(q) if a not in p)) / cells[p, q]
                said[p] = said[p] + summed if p in said else summed
        for p, table in said.items():
            precision = 1.0 / model.variances[p]
            measured = precision * model.residuals[p]
            fitted.residuals[p] = (measured + rho * residual(table)) / (precision + pull[p])
        y = {q: fitted.unbiased(q) for q in cliques}
    return {q: nearest_table(y[q], model.total) for q in cliques}


NOISE_KEPT = 0.3  # of the noise, by estimates
_BYTES_A_MARGINAL = 6000  # of a workload: its subsets, their events and arrays, measured


@dataclass(eq=False, repr=False, kw_only=True)
class ResidualSynthesizer(Synthesizer):
    """Answers and rows come from `model_`, the residuals that `_release` measures.

    >>> from marginalia.data import Domain, Table
    >>> from marginalia.synthesis import ResidualPlanner
    >>> table = Table([[0, 1], [1, 0], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> made = ResidualPlanner(epsilon=1.0, workload=1).fit(table)
    >>> made.marginal(["b", "a"]).shape, round(made.noise_sigma_, 3)
    ((2, 2), 1.119)
    """

    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight",)

    workload: WorkloadLike = 2
    model_: ResidualModel = field(init=False)
    _tree: GraphicalModel | None = field(init=False)

    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return the estimated marginal as counts, shape = sizes of `attributes` in the order given."""
        self._check_fitted()
        clique, order = self.model_.clique(attributes)
        return np.transpose(self.model_.estimate(clique), order)

    @property
    def noise_sigma_(self) -> float:
        """Noise of a cell of a pair (root of the mean variance) as far as estimates keep it.

        It tells DD-SSP that no one table has these pairs, and sets its ridge. Three tenths of the noise are kept, which
        was chosen on four public tables (docs/residual.md).
        """
        pairs = list(itertools.combinations(range(len(self.domain_)), 2))
        return NOISE_KEPT * math.sqrt(math.fsum(self.model_.variance(pair) for pair in pairs) / max(1, len(pairs)))

    def _check_cost(self, domain: Domain) -> None:
        if isinstance(self.workload, int):  # before they are listed
            count = math.comb(len(domain), min(max(1, self.workload), len(domain)))
            check_cost(
                f"{type(self).__name__} on {short(count)} marginals",
                _BYTES_A_MARGINAL * count,
                mend="name the marginals that matter, or take a lower order",
            )
        super()._check_cost(domain)

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        return self._sampled().sample(n_rows, rng)

    def _batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        return self._sampled().batches(n_rows, rng)

    def _sampled(self) -> GraphicalModel:
        if self._tree is None:
            self._tree = self._fit_tree()
        return self._tree

    def _fit_tree(self) -> GraphicalModel:
        """Fit the engine to the measured pairs that depend most on each other, as many as form a tree."""
        model, d = self.model_, len(self.domain_)
        ones = [model.estimate((a,)) for a in range(d)]

        def dependence(pair: Clique) -> float:
            return float(np.abs(model.estimate(pair) - np.outer(*(ones[a] for a in pair)) / model.total).sum())

        pairs = [pair for pair in itertools.combinations(range(d), 2) if pair in model.residuals]
        parts = DisjointSet(range(d))
        chosen = [pair for pair in sorted(pairs, key=lambda pair: -dependence(pair)) if parts.merge(*pair)]
        names = self.domain_.names
        measured = [
            Measurement([names[a] for a in q], model.estimate(q), math.sqrt(max(model.variance(q), 1e-6)))
            for q in [*((a,) for a in range(d)), *chosen]
        ]
        return estimate(self.domain_, measured, total=model.total)

    def _fitted(self, model: ResidualModel) -> None:
        self.model_, self._tree = model, None

    def _state(self) -> State:
        return self.model_.state()

    def _restore(self, state: State) -> None:
        self._fitted(ResidualModel.from_state(self.domain_, state))
