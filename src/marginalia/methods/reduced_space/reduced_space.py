"""The reduced-space method behind the common interface."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from marginalia.data.table import CountSource, Table
from marginalia.errors import InputError, unknown_name
from marginalia.marginals.sampling import atoms
from marginalia.methods.reduced_space.families import Family, Kind
from marginalia.methods.reduced_space.fits import fit_columns, maximum_entropy
from marginalia.methods.reduced_space.noise import laplace_scale, noise_quantile
from marginalia.methods.reduced_space.sampling import SamplingMeasure, released_measure
from marginalia.methods.reduced_space.spaces import Cube, FitName, Pool, SpaceName, choose_space
from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.events import LaplaceEvent
from marginalia.privacy.relation import Relation
from marginalia.privacy.session import Session
from marginalia.synthesis.base import SAMPLING, Array, State, Synthesizer, copies

ARRAYS = ("support", "weights", "averages", "fitted")  # what a file keeps of a fit, beside three numbers
MEASURES = ("tree", "product", "uniform")
SLACK = 1.05  # the maximum-entropy fit allows this much more than the optimum t*


@dataclass(eq=False, repr=False, kw_only=True)
class ReducedSpaceLP(Synthesizer):
    """Synthetic data in a reduced space: noisy averages of test functions, then the best density on few points.

    For up to about 20 Boolean columns (any categorical ones with ``family="cells"``). Only the structure of the
    marginals up to `order` is fitted.

    The defaults are not the paper's algorithm but our own fit, "max-entropy parities" in tables and figures: other
    functions, the whole domain up to 65,536 cells and points of a released tree beyond, and no linear program in the
    result. Notes say how to run the paper's.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 0.0
        Laplace noise is purely epsilon-DP whatever `delta` is; Gaussian noise needs it above 0.
    order : int, default 2
        Largest number of attributes in a test function.
    family : {"parities", "monomials", "cells"}, default "parities"
        Parities carry two to four times less noise a cell than the paper's monomials.
    calibration : {"tight", "published"}, default "tight"
        ``tight``: the exact sensitivity. ``published``: σ = 2|F|/(nε), valid and about twice too large.
    noise : {"laplace", "gaussian"}, default "laplace"
    space : {"auto", "sampled", "cube"}, default "auto"
        The points that may carry mass: `n_points` draws from `measure`, or the whole domain; ``auto`` takes the whole
        one up to 65,536 cells.
    measure : {"tree", "product", "uniform"} or a public sampler, default "tree"
        A name stands for a measure derived from the released averages; a sampler has ``sample(m, rng)`` and must not
        depend on private rows.
    n_points : int, default 10,000
    solution : {"maxent", "lp", "l1"}, default "maxent"
        ``lp`` is the paper's. All three use the same release.
    gap : float, default 1e-4
        Duality gap of the linear programs.
    relation : {"replace_one", "add_remove"}, default "replace_one"
        ``add_remove`` releases sums, the number of rows among them.
    sampling : {"apportion", "iid"}, default "apportion"
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    support_ : ndarray of shape (N, p)
        Codes of the points that carry mass.
    weights_ : ndarray of shape (N,)
        Sum 1.
    averages_ : ndarray of shape (|F| - 1,)
        As released.
    scale_ : float
        Laplace scale (or standard deviation) of the averages.
    optimum_ : float
        t*, the largest deviation from the released averages that the space allows, up to `gap`.
    residual_ : float
        That of the fit; equal to `optimum_` for ``lp``.
    fitted_ : ndarray of shape (|F| - 1,)
        Averages of the fit.

    Notes
    -----
    Boedihardjo, Strohmer and Vershynin, "Privacy of synthetic data: a statistical framework", Algorithm 1; the paper's
    own form is ``family="monomials", calibration="published", space="sampled", measure="uniform", solution="lp",
    sampling="iid"``. We never noise nor fit the constant function (the paper's optimum is then at least its noise).

    A vertex of the linear program has at most |F| distinct rows; ``maxent`` spreads over the whole space.

    Privacy: epsilon-DP (Laplace) or (epsilon, delta)-DP (Gaussian); one event. With units of up to k > 1 rows the
    number of rows is private under either relation, and released with the sums; these then move by k times the largest
    row, or the largest difference of two, if that is more.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> table = Table([[0, 0, 1], [1, 1, 0]] * 100, Domain.from_sizes({"a": 2, "b": 2, "c": 2}))
    >>> model = ReducedSpaceLP(epsilon=5.0, random_state=0).fit(table)
    >>> model.ledger_.certified, model.residual_ >= model.optimum_ - 1e-4, model.sample(5).n_rows
    (True, True, 5)
    """

    RELATIONS: ClassVar[tuple[str, ...]] = ("replace_one", "add_remove")
    CHOICES: ClassVar = {
        "noise": ("laplace", "gaussian"),
        "space": get_args(SpaceName),
        "solution": get_args(FitName),
        "sampling": SAMPLING,
    }
    PURE: ClassVar[bool] = True
    UNITS: ClassVar[bool] = True

    delta: float = 0.0
    order: int = 2
    family: Kind = "parities"
    noise: str = "laplace"
    space: SpaceName = "auto"
    measure: str | SamplingMeasure = "tree"
    n_points: int = 10_000
    solution: FitName = "maxent"
    gap: float = 1e-4
    sampling: str = "apportion"

    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return the fit's marginal as counts; see `Synthesizer.marginal`."""
        self._check_fitted()
        columns = [self.domain_.index(name) for name in attributes]
        shape = tuple(self.domain_.sizes[j] for j in columns)
        flat = np.zeros(len(self.weights_), dtype=np.intp)
        for j, size in zip(columns, shape, strict=True):
            flat = flat * size + self.support_[:, j]
        cells: Array = np.zeros(math.prod(shape))
        np.add.at(cells, flat, self.weights_)
        return self.n_rows_ * cells.reshape(shape)

    def weighted_table(self) -> tuple[Table, Array]:
        """Return the fit itself: its points as rows, and their weights (sum 1)."""
        self._check_fitted()
        return Table(self.support_, self.domain_), self.weights_

    def certificate(self, *, gamma: float = 0.05, table: Table | None = None) -> float:
        """Return a bound on max_f |⟨f, fit⟩ - ⟨f, data⟩| that holds with probability 1 - gamma, for any data.

        It is the fit's residual plus the quantile of the largest noise, both public; tighter than the theorem's 8δ, and
        it needs neither a population nor a large space. With `table`, synthetic rows drawn from the fit, it adds what
        drawing them cost.
        """
        self._check_fitted()
        family = self._family()
        # The error of a noisy count enters every average too: |f| <= 1.
        times, n_noises = (1, family.n_rows) if self.ledger_.neighbours.n_rows_public else (2, family.size)
        noise = times * noise_quantile(self.scale_, n_noises, gamma, noise=self.noise)
        drawn = 0.0
        if table is not None:
            drawn = float(np.abs(family.sums(table.codes) / max(1, table.n_rows) - self.fitted_).max())
        return self.residual_ + noise + drawn

    def save(self, path: Any) -> None:
        """Write the fitted model; see `Synthesizer.save`. A sampler given as `measure` cannot be written."""
        if not isinstance(self.measure, str):
            raise InputError("a model fitted with a sampler object as measure cannot be saved; sample from it instead")
        super().save(path)

    def _family(self) -> Family:
        return Family(self.family, self.domain_.sizes, self.order)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.measure, str):
            if self.measure not in MEASURES:
                raise unknown_name("measure of ReducedSpaceLP", self.measure, MEASURES)
        elif not callable(getattr(self.measure, "sample", None)):
            raise InputError("measure must be 'tree', 'product', 'uniform', or an object with sample(m, rng)")
        checks.count("n_points", self.n_points)
        checks.positive("gap", self.gap)
        if self.noise == "gaussian" and self.delta == 0:
            raise InputError("reduced_space: Gaussian noise needs delta above 0; use noise='laplace' for delta=0")
        if self.noise == "gaussian" and self.calibration == "published":
            raise InputError("reduced_space: the paper has Laplace noise only; use calibration='tight' with Gaussian")

    def _release(self, table: CountSource, session: Session) -> None:
        family = self._family()
        space_name = choose_space(family, self.space, self.solution, self.n_points)
        self.averages_, self.scale_, self.n_rows_ = self._measure(table, family, session)
        rng = session.randomness.generator
        space = Cube(family) if space_name == "cube" else Pool(family, self._draws(family, rng))
        vertex = fit_columns(space, self.averages_, loss="chebyshev", gap=self.gap, rng=rng)
        self.optimum_ = vertex.value
        if self.solution == "maxent":
            typical = self.scale_ if self.noise == "laplace" else self.scale_ / np.sqrt(2)
            h = maximum_entropy(space, self.averages_, max(SLACK * vertex.value, typical))
            support = np.flatnonzero(h)
            weights = h[support]
        else:
            if self.solution == "l1":
                vertex = fit_columns(space, self.averages_, loss="l1", gap=self.gap, rng=rng)
            support, weights = vertex.support, vertex.weights
        self.support_ = space.points(support)
        self.weights_ = weights / weights.sum()
        h = np.zeros(space.size)
        h[support] = self.weights_
        self.fitted_ = space.means(h)
        self.residual_ = float(np.abs(self.fitted_ - self.averages_).max())

    def _measure(self, table: CountSource, family: Family, session: Session) -> tuple[Array, float, int]:
        """Release the averages: (averages, their noise scale, number of rows)."""
        norm = family.l1_sensitivity if self.noise == "laplace" else family.l2_sensitivity
        # Where units have several rows their number is released too: the constant does not cancel.
        moved = session.neighbours.sum_sensitivity(norm(Relation.ADD_REMOVE), norm(Relation.REPLACE_ONE))
        if self.noise == "laplace":

            def scale_of(epsilon: float) -> float:
                if self.calibration == "published":
                    return laplace_scale(family, epsilon, relation=session.ledger.relation, calibration="published")
                return moved / epsilon

            epsilon, _ = session.ledger.remaining_budget(
                lambda epsilon, delta: [LaplaceEvent(moved, scale_of(epsilon))]
            )
            scale = scale_of(epsilon)
        else:
            scale = moved / gdp_mu(*session.ledger.remaining_budget())

        def release(sums: Callable[[], NDArray[np.int64]]) -> Array:
            label = f"{family.kind} up to order {family.order}"
            if self.noise == "laplace":
                return session.laplace(sums, sensitivity=moved, scale=scale, label=label)
            return session.gaussian(sums, sensitivity=moved, sigma=scale, label=label)

        def sums() -> NDArray[np.int64]:
            return sum((family.sums(b.codes) for b in table.batches()), np.zeros(family.n_rows, np.int64))

        if not session.neighbours.n_rows_public:
            noisy = release(lambda: np.concatenate([[table.n_rows], sums()]))
            n = max(1.0, float(noisy[0]))
            return noisy[1:] / n, scale / n, max(1, round(n))
        public = table.n_rows
        if not public:
            raise InputError("reduced_space: the table has no rows, so there are no averages")
        return release(sums) / public, scale / public, public

    def _draws(self, family: Family, rng: np.random.Generator) -> NDArray[np.integer]:
        m = int(self.n_points)
        if isinstance(self.measure, str):
            return released_measure(self.measure, family, self.averages_, self.scale_).sample(m, rng)
        draws = np.asarray(self.measure.sample(m, rng))
        inside = draws.ndim == 2 and draws.shape[1] == len(family.sizes) and draws.dtype.kind in "iu"
        if not inside or (draws < 0).any() or (draws >= np.array(family.sizes)).any():
            raise InputError("reduced_space: the sampler returned points outside the table's domain")
        return draws

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        counts = copies(self.weights_, n_rows, self.sampling, rng)
        return Table(self.support_[rng.permutation(np.repeat(np.arange(counts.size), counts))], self.domain_)

    def _batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        counts = copies(self.weights_, n_rows, self.sampling, rng)
        return (Table(self.support_[points], self.domain_) for points in atoms(counts, rng))

    def _state(self) -> State:
        arrays = {name: getattr(self, f"{name}_") for name in ARRAYS}
        return {**arrays, "numbers": np.array([self.scale_, self.optimum_, self.residual_])}

    def _restore(self, state: State) -> None:
        for name in ARRAYS:
            setattr(self, f"{name}_", state[name])
        self.scale_, self.optimum_, self.residual_ = (float(v) for v in state["numbers"])
