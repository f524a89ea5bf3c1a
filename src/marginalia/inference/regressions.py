"""Regressions on a release: estimating equations whose noise is known, and the sets of `sets` for their solutions."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import stats
from scipy.special import expit

from marginalia.data.domain import Domain
from marginalia.errors import InputError, unknown_name
from marginalia.inference.estimates import Array, Clique, ResidualEstimates, part_functions
from marginalia.inference.formulas import Design, Feature, design
from marginalia.inference.release import ALL_ROWS, Release, estimand_of, notes_on_unit
from marginalia.inference.sets import NEARLY_LINEAR, Coefficient, Equations, Linear, coefficient, wald_errors
from marginalia.privacy import checks
from marginalia.synthesis.base import Synthesizer
from marginalia.threads import one_blas_thread

FAMILIES = ("gaussian", "binomial", "poisson")
TARGETS = ("table", "population")
_FEW_CELLS = 24  # that the search for kappa begins at
_FOLLOWED = 6  # directions of least distance at infinity that are followed
# Largest |x'b| at which the distance at infinity is looked for: of exp, the squares of more leave no digits of V.
_FAR = {"binomial": (12.0, 60.0), "poisson": (6.0, 12.0)}
_DENSE = 500  # cells up to which the covariance of their noise is held as a matrix
_MOST_CELLS = 200_000  # of the joint marginal of all features, for a family that needs it


class ReleasedSums(Release, ABC):
    """A release of the sums that some regressions need, measured in place of marginals (`marginalia.analyses`)."""

    @abstractmethod
    def equations(self, of: Design, family: str, ridge: float = 0.0) -> Equations:
        """Return the noisy estimating equations of a regression; InputError names the sums that are missing."""

    @abstractmethod
    def square(self, of: Design) -> tuple[float, float]:
        """Return the sum of squares of the response, and the number of rows; both may be noisy."""


@dataclass(frozen=True)
class Regression:
    """A fitted regression: coefficients with the sets that hold as their labels say.

    Attributes
    ----------
    formula, family, target : str
    confidence : float
    coefficients : list of Coefficient
    kappa : float
        Least distance at infinity: where it is below the quantile (`quantile`) the set of *every* coefficient is given
        as unbounded, and near it bounded sets may cover less than they say, given that they are bounded. Of families
        ``binomial`` and ``poisson`` the least that a local search found: never too small.
    quantile : float
    n_rows : int or None
        Public number of rows.
    equations : Equations
        For joint statements: `covers`.
    notes : tuple of str
        On columns in bins, each row of which counts as the middle of its bin, and on rows that were not kept.
    estimand : str
        The rows whose coefficients these are; see `release.estimand_of`.

    Examples
    --------
    >>> from marginalia.data import Table
    >>> from marginalia.synthesis import ResidualPlanner
    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(2, size=5000)
    >>> table = Table(np.column_stack([x, x ^ (rng.random(5000) < 0.2)]), Domain.from_sizes({"x": 2, "y": 2}))
    >>> made = ResidualPlanner(epsilon=1.0, relation="replace_one", random_state=0).fit(table)
    >>> fitted = regression(made, "y ~ x")
    >>> [(c.name, round(c.estimate, 1), c.bounded) for c in fitted.coefficients]
    [('Intercept', 0.2, True), ('x[T.1]', 0.6, True)]
    """

    formula: str
    family: str
    target: str
    confidence: float
    coefficients: list[Coefficient]
    kappa: float
    quantile: float
    n_rows: int | None
    equations: Equations
    notes: tuple[str, ...] = ()
    estimand: str = ALL_ROWS

    def __str__(self) -> str:
        whose = "of the private table" if self.target == "table" else "of the population"
        whose += "" if self.estimand == ALL_ROWS else f", {self.estimand}"
        rows = "a private number of rows" if self.n_rows is None else f"{self.n_rows:,} rows"
        level = f"{self.confidence:.4g}"
        head = f"{'':<24} {'coef':>11} {'std err':>10} {'P':>7} {'[' + level:>12} {level + ']':>12}  label"
        lines = [f"{self.formula}   ({self.family}; coefficients {whose}; {rows})", head, "-" * len(head)]
        lines += [
            f"{c.name[:24]:<24} {c.estimate:>11.5g} {c.standard_error:>10.4g} {c.p_value:>7.3f} "
            f"{c.low:>12.5g} {c.high:>12.5g}  {c.label}"
            for c in self.coefficients
        ]
        lines.append("-" * len(head))
        weak = "; sets are unbounded" if self.kappa < self.quantile else "; intervals are near unbounded: take care"
        near = self.kappa < 4 * self.quantile
        lines.append(f"kappa {self.kappa:.4g}, quantile {self.quantile:.4g}{weak if near else ''}")
        if not all(c.bounded for c in self.coefficients):
            why = "The noise does not tell these coefficients from any value"
            if self.equations.approximate and self.kappa >= self.quantile:  # it does, and curvature has no bound
                why = "What the linearised score leaves out cannot be bounded, so no value is excluded"
            lines.append(f"{why}; a larger epsilon{' or --ridge' if self.family == 'gaussian' else ''} may.")
        return "\n".join([*lines, *self.notes])

    def covers(self, b: Sequence[float]) -> bool:
        """Return whether the joint confidence set holds `b`; exact for the table's own coefficients."""
        q = stats.chi2.ppf(self.confidence, self.equations.p)
        return self.equations.distance(np.asarray(b, np.float64)) <= q

    def wald(self) -> list[Coefficient]:
        """Return the intervals estimate ± z times the standard error, ``asymptotic``.

        Raises
        ------
        InputError
            kappa is below 100: so near to a singular design they cover less than they say.
        """
        if self.kappa < NEARLY_LINEAR:
            raise InputError(
                f"kappa is {self.kappa:.4g}: below {NEARLY_LINEAR} intervals from standard errors cover less often "
                "than they say; take the profile sets"
            )
        z = float(stats.norm.isf((1 - self.confidence) / 2))
        return [
            replace(
                c, low=c.estimate - z * c.standard_error, high=c.estimate + z * c.standard_error, label="asymptotic"
            )
            for c in self.coefficients
        ]


def regression(
    release: Synthesizer | Release,
    formula: str,
    *,
    family: str = "gaussian",
    confidence: float = 0.95,
    target: str = "table",
    ridge: float = 0.0,
    guaranteed: bool = False,
) -> Regression:
    """Regress one column on others, from a release alone.

    The answers that it needs must come from one round: what was asked, and with how much noise, was then fixed before.
    All pairs of columns (`residual_planner`, `gaussian_marginals`, `private_pgm`) do for ``gaussian``; ``binomial`` and
    ``poisson`` need the joint marginal of all features, and the response in a pair with each.

    Parameters
    ----------
    release : fitted synthesizer, or Release
    formula : str
        ``hours ~ age + C(sex)``; see `formulas.design`.
    family : {"gaussian", "binomial", "poisson"}, default "gaussian"
        With the identity, logistic and logarithmic link.
    confidence : float, default 0.95
    target : {"table", "population"}, default "table"
        Whose coefficients: those of a fit on the private (coded) rows, or those of a population that the rows were
        drawn from independently, which adds the sampling error: approximately.
    ridge : float, default 0.0
        Public lambda in (X'X + lambda I) b = X'y, ``gaussian`` only: another target, bounded more often.
    guaranteed : bool, default False
        Sets at p degrees of freedom, which cover at least as often as they say, whatever the table; of a declared
        logistic regression intervals that bound its curvature (`analyses.linearised`).

    Raises
    ------
    InputError
        The formula cannot be used, or the release was never asked what it needs: the message names it.

    References
    ----------
    Fieller (1954); Dufour (1997): exact sets for ratios and weakly identified parameters.
    """
    # On small matrices threads cost more than they give; far out, scores overflow.
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        return _regression(release, formula, family, confidence, target, ridge, guaranteed)


def _regression(
    release: Synthesizer | Release,
    formula: str,
    family: str,
    confidence: float,
    target: str,
    ridge: float,
    guaranteed: bool,
) -> Regression:
    checks.open_unit("confidence", confidence)
    for what, value, allowed in (("family", family, FAMILIES), ("target", target, TARGETS)):
        if value not in allowed:
            raise unknown_name(what, value, allowed)
    if ridge and family != "gaussian":
        raise InputError("ridge is for family gaussian")
    if ridge < 0 or not math.isfinite(ridge):
        raise InputError(f"ridge must be a number from 0 on, not {ridge!r}")
    kept = release if isinstance(release, Release) else Release.of(release)
    of = design(kept, formula, binary=family == "binomial")
    equations = equations_of(kept, of, family, ridge=ridge)
    solution = equations.solve()
    if solution is None:
        raise InputError(f"the noisy equations of {formula!r} have no solution: too much noise, or separated classes")
    if target == "population":
        add_sampling(kept, of, equations, solution)
    kappa = equations.kappa()
    q = float(stats.chi2.ppf(confidence, equations.p if guaranteed else 1))
    found = [
        coefficient(equations, name, solution, j, confidence=confidence, guaranteed=guaranteed, kappa=kappa)
        for j, name in enumerate(of.names)
    ]
    notes, estimand = (*of.notes, *notes_on_unit(kept.unit)), estimand_of(kept.unit)
    return Regression(formula, family, target, confidence, found, kappa, q, kept.n_rows, equations, notes, estimand)


def equations_of(release: Release, of: Design, family: str, *, ridge: float = 0.0) -> Equations:
    """Return the noisy estimating equations of a regression.

    Raises
    ------
    InputError
        The release was never asked what they need.
    """
    if isinstance(release, ReleasedSums):
        return release.equations(of, family, ridge)
    return _linear(release, of, ridge) if family == "gaussian" else _Score(release, of, family)


class _Sums:
    """Many sums over all rows at once, from one round, with the covariance of their noise."""

    def __init__(self, estimates: ResidualEstimates, functions: Sequence[tuple[Clique, Array]], domain: Domain) -> None:
        held: dict[Clique, tuple[list[int], list[Array]]] = {}
        for i, (clique, values) in enumerate(functions):
            full = np.broadcast_to(values, [domain.sizes[a] for a in clique])
            for part, w in part_functions(clique, full).items():
                at, ws = held.setdefault(part, ([], []))
                at.append(i)
                ws.append(np.ravel(w))
        self.values = np.zeros(len(functions))
        self.covariance = np.zeros((len(functions),) * 2)
        for part, (at, ws) in held.items():
            values, variance = estimates.residuals[part]
            W = np.array(ws)
            self.values[at] += W @ np.ravel(values)
            if variance:
                self.covariance[np.ix_(at, at)] += variance * W @ W.T


def _linear(release: Release, of: Design, ridge: float) -> Linear:
    """Return the normal equations: sums of products of two columns each, each pair from one marginal."""
    columns = [of.y, *of.features]
    p = len(of.features)
    pairs = [(j, k) for j, k in itertools.combinations_with_replacement(range(p + 1), 2) if k > 0]
    functions = [columns[j].times(columns[k], release.domain) for j, k in pairs]
    estimates = _round_with(release, functions, [f"{columns[j].name} with {columns[k].name}" for j, k in pairs])
    sums = _Sums(estimates, functions, release.domain)
    at = {pair: i for i, pair in enumerate(pairs)}
    entries = np.array([[at[min(j, k), max(j, k)] for k in range(p + 1)] for j in range(1, p + 1)])
    H = sums.values[entries]
    H[:, 1:] += ridge * np.eye(p)
    return Linear(H, sums.covariance[np.ix_(entries.ravel(), entries.ravel())])


def _round_with(release: Release, functions: Sequence[tuple[Clique, Array]], names: Sequence[str]) -> ResidualEstimates:
    """Return the first round that tells all sums; name what is missing, and for which terms, where none does.

    The first: whether a round is asked what is needed is known before its noise is drawn.
    """
    sizes = release.domain.sizes
    needed: list[Mapping[Clique, Array]] = []
    for clique, values in functions:
        full = np.broadcast_to(values, [sizes[a] for a in clique])
        needed.append(part_functions(clique, full))
    best: tuple[int, list[Clique]] | None = None
    for estimates in release.rounds:
        missing = sorted({part for parts in needed for part in estimates.missing(parts)}, key=lambda q: (len(q), q))
        if not missing:
            return estimates
        if best is None or len(missing) < best[0]:
            best = len(missing), missing
    assert best is not None
    some = "; ".join(" and ".join(release.domain.names[a] for a in q) or "the number of rows" for q in best[1][:4])
    more = f" and {best[0] - 4} more" if best[0] > 4 else ""
    waiting = [name for name, parts in zip(names, needed, strict=True) if best[1][0] in parts]
    first = " and ".join(release.domain.names[a] for a in best[1][0]) or "the number of rows"
    once = "" if len(release.rounds) == 1 else " in one round, planned before its noise"
    raise InputError(
        f"this needs marginals that were not asked{once}: {some}{more} ({first} for {waiting[0]}); "
        "release them, for instance with residual_planner and a workload that names them"
    )


class _Score(Equations):
    """Scores of a generalised linear model with its canonical link: sum of x (y - m(x'b)) = 0.

    The part with y less its mean over codes does not depend on b and comes from pairs with y; the rest is a function of
    the features alone and comes from their joint marginal. The two use different residuals, so their noise is
    independent.
    """

    def __init__(self, release: Release, of: Design, family: str) -> None:
        self.p, self._family = len(of.features), family
        domain, clique = release.domain, of.attributes
        sizes = [domain.sizes[a] for a in clique]
        if math.prod(sizes) > _MOST_CELLS:
            raise InputError(
                f"the features have {math.prod(sizes):,} joint cells; at most {_MOST_CELLS:,} are possible"
            )
        self._y_mean = float(of.y.values.mean())
        centred = Feature(of.response, of.y.clique, of.y.values - self._y_mean)
        functions = [f.times(centred, domain) for f in of.features]
        joint = (clique, np.random.default_rng(0).normal(size=sizes))  # any function that needs every part of it
        names = [f"{f.name} with {of.response}" for f in of.features]
        estimates = _round_with(release, [*functions, joint], [*names, "the scores, which need all features jointly"])
        sums = _Sums(estimates, functions, domain)
        self._h, self._V = sums.values, sums.covariance
        self._X = np.array(
            [np.broadcast_to(f.spread(clique, domain), sizes).ravel() for f in of.features]
        )  # (p, cells)
        self._counts = estimates.counts(clique).ravel()
        # Covariance of the counts, applied axis by axis: sum over parts of variance ⊗ (I - 11'/n or 11'/n²).
        self._sizes, self._clique, self._estimates = sizes, clique, estimates

    def _mean(self, b: Array) -> Array:
        eta = b @ self._X
        return expit(eta) if self._family == "binomial" else np.exp(np.clip(eta, -700, 700))

    def residuals(self, b: Array) -> Array:
        """Return the noisy scores at b."""
        return np.asarray(self._h + self._X @ ((self._y_mean - self._mean(b)) * self._counts))

    def variance(self, b: Array) -> Array:
        """Return the covariance of their noise."""
        V = self._V + self._noise(self._X * (self._y_mean - self._mean(b)))
        return np.asarray(V if self.extra is None else V + self.extra)

    def jacobian(self, b: Array) -> Array:
        """Return the derivative of the noisy scores."""
        m = self._mean(b)
        slope = m * (1 - m) if self._family == "binomial" else m
        return np.asarray(-(self._X * (slope * self._counts)) @ self._X.T)

    def slope_of_variance(self, b: Array, x: Array) -> Array:
        """Return the derivative of x' V(b) x by b."""
        m, along = self._mean(b), x @ self._X
        slope = m * (1 - m) if self._family == "binomial" else m
        noise = self._spread((along * (self._y_mean - m))[None])[0]
        return np.asarray(-2 * self._X @ (slope * along * noise))

    def kappa(self) -> float:
        """Return the least distance at infinity that a local search finds.

        It begins along every feature, where J is least, and towards single cells of few rows, of which noise may leave
        none: then scores tell nothing in that direction. At infinity the distance is flat: it is searched from within,
        and taken far out.
        """
        far = np.abs(self._X).max(axis=1)
        flat = np.linalg.svd(self.jacobian(np.zeros(self.p)) / np.outer(far, far))[2] / far
        few = np.argsort(np.abs(self._counts), kind="stable")[:_FEW_CELLS]
        towards = np.linalg.lstsq(self._X @ self._X.T, self._X[:, few], rcond=None)[0].T
        starts = np.vstack([np.diag(1 / far), flat, towards])
        near, far_out = _FAR[self._family]
        edges = [self._on_edge(d, near) for d in (*starts, *-starts)]
        found = [self._nearest(b, near) for b in sorted(edges, key=self.distance)[:_FOLLOWED]]
        least = min(found, key=self.distance)
        return min(self.distance(b) for b in (*edges, least, self._nearest(self._on_edge(least, far_out), far_out)))

    def _on_edge(self, b: Array, reach: float) -> Array:
        """Return the point on the ray of b whose largest |x'b| is `reach`."""
        return np.asarray(b * (reach / max(float(np.abs(b @ self._X).max()), 1e-300)))

    def _nearest(self, b: Array, reach: float) -> Array:
        """Return a point of largest |x'b| = `reach` of least distance near b: a few steps down the slope."""
        value = self.distance(b)
        for _ in range(6):
            step = np.linalg.lstsq(self.curvature(b), -self.slope(b), rcond=1e-10)[0]
            trials = [self._on_edge(b + t * step, reach) for t in (1.0, 0.2) if np.isfinite(step).all()]
            best = min(trials, key=self.distance, default=b)
            if not self.distance(best) < value * (1 - 1e-3):
                break
            value, b = self.distance(best), best
        return b

    def _noise(self, F: Array) -> Array:
        """Return the covariance of the noise of F counts, F of shape (p, cells)."""
        return np.asarray(self._spread(F) @ F.T)

    def _spread(self, F: Array) -> Array:
        """Return F times the covariance of the noise of the counts: by the matrix of a small one, else axis by axis."""
        if F.shape[1] <= _DENSE:
            return np.asarray(F @ self._covariance)
        return self._turned(self._turned(F) * self._spectrum, back=True)

    def _turned(self, F: Array, *, back: bool = False) -> Array:
        """Return rows of functions of cells in the bases in which the noise is independent."""
        turned = F.reshape([len(F), *self._sizes])
        for axis, basis in enumerate(self._bases):
            turned = np.moveaxis(np.tensordot(turned, basis, axes=(axis + 1, 1 if back else 0)), -1, axis + 1)
        return turned.reshape(len(F), -1)

    @cached_property
    def _covariance(self) -> Array:
        return self._estimates.covariance(self._clique)

    @cached_property
    def _bases(self) -> list[Array]:
        """Orthonormal bases of each axis whose first vector is constant: in them the noise is independent."""
        return [np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0] for n in self._sizes]

    @cached_property
    def _spectrum(self) -> Array:
        """Variance of the noise of the counts in these bases, cells in C order."""
        out = np.zeros(self._sizes)
        for index in itertools.product(*((0, 1) if n > 1 else (0,) for n in self._sizes)):
            part = tuple(a for a, i in zip(self._clique, index, strict=True) if i)
            spread = math.prod(n for n, i in zip(self._sizes, index, strict=True) if not i)
            out[tuple(slice(1, None) if i else slice(0, 1) for i in index)] = (
                self._estimates.residuals[part][1] / spread
            )
        return out.ravel()


def add_sampling(release: Release, of: Design, equations: Equations, b: Array) -> None:
    """Add n Cov psi to the variance: the error of a sample about its population, as the model says, from the release.

    Homoskedastic of ``gaussian``; of the others the information at b, so the variance that the family has. k times as
    much where up to k rows are one person's, a bound: rows that agree in all count once.
    """
    G = -equations.jacobian(b)
    if isinstance(equations, Linear) and not equations.approximate:
        if isinstance(release, ReleasedSums):
            total, n = release.square(of)
        else:
            square = (of.y.clique, of.y.values**2)
            names = [f"{of.response} squared", "the number of rows"]
            estimates = _round_with(release, [square, ((), np.array(1.0))], names)
            total, _ = estimates.sum_of(part_functions(*square))
            n, _ = estimates.sum_of({(): np.array(1.0)})
        noise = float(np.trace(G @ np.diag(wald_errors(equations, b) ** 2)))
        variance = max(total - float(b @ equations.H[:, 0]) + noise, 0.0) / max(n - len(b), 1.0)
    else:
        variance = 1.0
    eigenvalues, vectors = np.linalg.eigh((G + G.T) / 2)
    positive = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    equations.extra = release.rows_a_unit * variance * positive
