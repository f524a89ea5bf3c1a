"""Regressions on a release: estimating equations with known noise. `sets` makes the confidence sets of their solutions.

The sums that the equations need are linear functionals, as the counts of `marginals` are: `part_functions` splits the
function that is summed, and one round gives the sums of all its parts.
"""

from __future__ import annotations

import math
import shlex
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from marginalia.data.domain import Domain
from marginalia.errors import InputError, unknown_name
from marginalia.inference.estimates import Array, Clique, ResidualEstimates, part_functions
from marginalia.inference.formulas import Design, Feature, categories_with_gaps, design
from marginalia.inference.marginals import Interval, without_value
from marginalia.inference.products import Products
from marginalia.inference.release import ALL_ROWS, Release, Source, estimand_of, notes_on_unit, notes_on_weights
from marginalia.inference.scores import Scores
from marginalia.inference.sets import NEARLY_LINEAR, Coefficient, Equations, Linear, Solution, coefficients
from marginalia.privacy import checks
from marginalia.subsets import subsets
from marginalia.threads import one_blas_thread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_WIDEST = 60  # letters of a term in the printed table
FAMILIES = ("gaussian", "binomial", "poisson")
TARGETS = ("table", "population")
_MORE = "declare the regression before the release (marginalia release --analyses), or release all its columns jointly"
_WORKLOAD = "name these marginals in the workload of residual_planner"
_MOST_CELLS = 200_000  # of the joint marginal of all features, for a family that needs it


class MissingMarginalsError(InputError):
    """The release lacks marginals that a regression needs."""


class ReleasedSums(Release, ABC):
    """A release of the sums that declared regressions need, in place of marginals (`marginalia.analyses`)."""

    @abstractmethod
    def equations(self, of: Design, family: str, ridge: float = 0.0) -> Equations:
        """Return the noisy estimating equations of a regression; InputError names the sums that are missing."""

    @abstractmethod
    def without_value(self, of: Design, confidence: float) -> Interval | None:
        """Return the share of rows that do not count, as they lack a value; None where it was not released."""

    @abstractmethod
    def square(self, of: Design) -> tuple[float, float]:
        """Return the sum of squares of the response, and the number of rows; both may be noisy."""


@dataclass(frozen=True)
class Regression:
    """A fitted regression: coefficients with their confidence sets.

    Attributes
    ----------
    formula, family, target : str
    confidence : float
    coefficients : list of Coefficient
    distance_at_infinity : float
        The least distance at infinity, kappa in the printed table. If it is below `quantile`, the set of *every*
        coefficient is reported as unbounded. If it is near `quantile`, sets may cover less than stated, given that they
        are bounded. For families ``binomial`` and ``poisson`` a local search finds it: never too small.
    quantile : float
    n_rows : int or None
        Public number of rows.
    equations : Equations
        For joint statements: `covers`.
    notes : tuple of str
        Notes on columns in bins, where a row counts as the middle of its bin, and on rows that were left out.
    estimand : str
        The rows that the coefficients describe; see `release.estimand_of`.
    without_value : Interval, optional
        The share of rows that are left out, since they have no value in a column of the formula.

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
    distance_at_infinity: float
    quantile: float
    n_rows: int | None
    equations: Equations
    notes: tuple[str, ...] = ()
    estimand: str = ALL_ROWS
    without_value: Interval | None = None

    @property
    def kappa(self) -> float:
        """The old name of `distance_at_infinity`."""
        warnings.warn("Regression.kappa is now Regression.distance_at_infinity", DeprecationWarning, stacklevel=2)
        return self.distance_at_infinity

    def __str__(self) -> str:
        rows_meant = "of the private table" if self.target == "table" else "of the population"
        rows_meant += "" if self.estimand == ALL_ROWS else f", {self.estimand}"
        rows = "a private number of rows" if self.n_rows is None else f"{self.n_rows:,} rows"
        level = f"{self.confidence:.4g}"
        wide = min(max(24, *(len(c.name) for c in self.coefficients)), _WIDEST)
        head = f"{'':<{wide}} {'coef':>11} {'std err':>10} {'P':>7} {'[' + level:>12} {level + ']':>12}  label"
        lines = [f"{self.formula}   ({self.family}; coefficients {rows_meant}; {rows})", head, "-" * len(head)]
        lines += [
            f"{c.name[:wide]:<{wide}} {c.estimate:>11.5g} {c.standard_error:>10.4g} {c.p_value:>7.3f} "
            f"{c.low:>12.5g} {c.high:>12.5g}  {c.label}"
            for c in self.coefficients
        ]
        lines.append("-" * len(head))
        kappa = self.distance_at_infinity
        weak = "; sets are unbounded" if kappa < self.quantile else "; intervals are near unbounded: take care"
        near = kappa < 4 * self.quantile
        lines.append(f"kappa {kappa:.4g}, quantile {self.quantile:.4g}{weak if near else ''}")
        if not all(c.bounded for c in self.coefficients):
            why = "The noise does not tell these coefficients from any value"
            if self.equations.approximate and kappa >= self.quantile:
                why = "What the linearised score leaves out cannot be bounded, so no value is excluded"
            ridge = ", or --ridge" if self.family == "gaussian" else ""
            lines.append(f"{why}. A larger epsilon, more rows or fewer terms can help{ridge}.")
        gaps = [] if self.without_value is None else [str(self.without_value)]
        return "\n".join([*lines, *gaps, *self.notes])

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each coefficient: its estimate, standard error, p-value, ends of its set and label."""
        import pandas as pd

        rows = [(c.estimate, c.standard_error, c.p_value, c.low, c.high, c.label) for c in self.coefficients]
        columns = ["coef", "std err", "p", "low", "high", "label"]
        return pd.DataFrame(rows, columns=columns, index=[c.name for c in self.coefficients])

    def summary(self) -> Summary:
        """Return a summary in the form of statsmodels: print it, or show it in a notebook."""
        response = self.formula.partition("~")[0].strip()
        rows = "private" if self.n_rows is None else f"{self.n_rows:,}"
        about = "the private table" if self.target == "table" else "the population"
        facts = [
            ("Dep. Variable", response, "No. Observations", rows),
            ("Family", self.family, "Confidence", f"{self.confidence:.4g}"),
            ("Coefficients of", about, "Kappa", f"{self.distance_at_infinity:.4g}"),
        ]
        notes = [*([] if self.without_value is None else [str(self.without_value)]), *self.notes]
        if self.estimand != ALL_ROWS:
            notes.insert(0, self.estimand)
        return Summary("Regression on a Private Release", facts, self.to_frame(), notes)

    def plot(self) -> Figure:
        """Return a forest plot: the sets of all coefficients but the intercept, one below the other."""
        from marginalia.inference.error_bars import plot_intervals

        shown = [c for c in self.coefficients if c.name != "Intercept"] or self.coefficients
        return plot_intervals(shown, f"{self.formula} ({self.confidence:.0%})", zero=True)

    def covers(self, b: Sequence[float]) -> bool:
        """Return whether the joint confidence set contains `b`; exact for the coefficients of the table."""
        q = stats.chi2.ppf(self.confidence, self.equations.p)
        return self.equations.distance(np.asarray(b, np.float64)) <= q

    def wald(self) -> list[Coefficient]:
        """Return the intervals estimate ± z times the standard error, ``asymptotic``.

        Raises
        ------
        InputError
            kappa is below 100: this near to a singular design the intervals cover less than stated.
        """
        if self.distance_at_infinity < NEARLY_LINEAR:
            raise InputError(
                f"kappa is {self.distance_at_infinity:.4g}: below {NEARLY_LINEAR} intervals from standard errors cover "
                "less often than they say; take the profile sets"
            )
        z = float(stats.norm.isf((1 - self.confidence) / 2))
        return [
            replace(
                c, low=c.estimate - z * c.standard_error, high=c.estimate + z * c.standard_error, label="asymptotic"
            )
            for c in self.coefficients
        ]


@dataclass(frozen=True)
class Summary:
    """The summary of a regression: a head of facts, a table of coefficients, and notes.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"coef": [0.5], "label": ["exact"]}, index=["age"])
    >>> "Family: gaussian" in Summary("Title", [("Family", "gaussian", "Rows", "9")], table, ["a note"]).as_text()
    True
    """

    title: str
    facts: list[tuple[str, str, str, str]]
    table: pd.DataFrame
    notes: list[str]

    def as_text(self) -> str:
        """Return the summary as text."""
        table = self.table.to_string(float_format=lambda x: f"{x:.5g}", justify="right").splitlines()
        left = max(len(f"{name}: {value}") for name, value, _, _ in self.facts)
        right = max(len(f"{name}: {value}") for _, _, name, value in self.facts)
        width = max(left + right + 3, *map(len, table))
        right = width - left - 3
        lines = [self.title.center(width).rstrip(), "=" * width]
        for one, value, other, second in self.facts:
            pair = f"{one}: {value:>{left - len(one) - 2}}   {other}: {second:>{right - len(other) - 2}}"
            lines.append(pair)
        lines += ["=" * width, table[0], "-" * width, *table[1:], "=" * width]
        return "\n".join([*lines, *self.notes])

    __str__ = as_text

    def _repr_html_(self) -> str:
        facts = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.facts)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<h4>{escape(self.title)}</h4><table>{facts}</table>{self.table.to_html()}{notes}"


def regression(
    release: Source,
    formula: str,
    *,
    family: str = "gaussian",
    confidence: float = 0.95,
    target: str = "table",
    ridge: float = 0.0,
    guaranteed: bool = False,
) -> Regression:
    """Regress one column on others, from a release alone.

    All marginals that the regression needs must come from one round, since their choice and their noise levels were
    then fixed before the noise was drawn. All pairs of columns (`residual_planner`, `gaussian_marginals`,
    `private_pgm`) are sufficient for ``gaussian``. ``binomial`` and ``poisson`` need the joint marginal of all
    features, and the response in a pair with each feature.

    Parameters
    ----------
    release : fitted synthesizer, Release, or path of a file of one
    formula : str
        ``hours ~ age + C(sex)``; see `formulas.design`.
    family : {"gaussian", "binomial", "poisson"}, default "gaussian"
        With the identity, logistic and logarithmic link.
    confidence : float, default 0.95
    target : {"table", "population"}, default "table"
        The coefficients of a fit on the private (coded) rows, or those of a population from which the rows were drawn
        independently. The second adds the sampling error, approximately.
    ridge : float, default 0.0
        Public lambda in (X'X + lambda I) b = X'y, ``gaussian`` only. It changes the target; more sets are bounded.
    guaranteed : bool, default False
        Return sets at p degrees of freedom, which cover at least as often as stated, whatever the table. For a declared
        logistic regression, return intervals that bound its curvature (`analyses.certified_newton`).

    Raises
    ------
    InputError
        The formula cannot be used, or the release lacks marginals that it needs; the message names them.

    References
    ----------
    Fieller (1954); Dufour (1997): exact sets for ratios and weakly identified parameters.
    """
    # Threads slow down the algebra of small matrices. Scores far from the solution overflow.
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        return _regression(release, formula, family, confidence, target, ridge, guaranteed)


def _regression(
    release: Source,
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
    release = Release.of(release)
    of, equations = _equations(release, formula, family, ridge)
    solution = equations.solve()
    if solution is None:
        raise InputError(f"the noisy equations of {formula!r} have no solution: too much noise, or separated classes")
    if target == "population":
        add_sampling(release, of, equations, solution)
    sets, at_infinity, q = coefficients(equations, of.names, solution, confidence=confidence, guaranteed=guaranteed)
    hints = () if all(c.bounded for c in sets) else _hints(release, of)
    return Regression(
        *(formula, family, target, confidence, sets, at_infinity, q, release.n_rows, equations),
        notes=(*hints, *of.notes, *notes_on_unit(release.unit), *notes_on_weights(release.domain)),
        estimand=estimand_of(release.unit, of.gaps(release.domain)),
        without_value=_without_value(release, of, confidence),
    )


def _equations(release: Release, formula: str, family: str, ridge: float) -> tuple[Design, Equations]:
    """Return the design and the equations of a regression: of the rows with all values, if the release holds them.

    If it does not, missing and special values of categories are levels like others. Both depend on public facts only.
    """
    binary = family == "binomial"
    of = design(release, formula, binary=binary)
    levels: list[str] = []
    try:
        equations = equations_of(release, of, family, ridge=ridge)
    except InputError as error:
        refusal = error
        if isinstance(error, MissingMarginalsError):
            refusal = InputError(f"{error}{_remedy(formula, family, of.gaps(release.domain))}")
        if of.complete is None or not (levels := categories_with_gaps(release, formula)):
            raise refusal from None
        of = design(release, formula, binary=binary, levels=levels)
        try:
            equations = equations_of(release, of, family, ridge=ridge)
        except InputError:
            raise refusal from None
    note = f"{' and '.join(levels)}: rows without a value count, as a level of their own; to leave them out, {_MORE}"
    return (replace(of, notes=(*of.notes, note)) if levels else of), equations


def _hints(release: Release, of: Design) -> Iterator[str]:
    """Yield what of the domain and the unit makes sets unbounded, one line each: public facts alone."""
    names = (*of.attributes, *of.y.clique)
    for column in (release.domain[release.domain.names[a]] for a in dict.fromkeys(names)):
        if column.other is not None and column.edges is None:
            yield f"{column.name}: few rows may be `{column.other}`; public labels in the domain need no such level"
    if release.unit is not None and release.unit.rows > 1:
        yield (
            f"noise hides {release.unit.rows} rows of each {release.unit.column}: a release with --rows-per-unit 1 "
            "has less of it"
        )


def _remedy(formula: str, family: str, gaps: Sequence[str]) -> str:
    """Return how a release can hold what a regression needs, and why it needs so much where columns have gaps."""
    why = f"; only rows with a value of {' and '.join(gaps)} count, so every sum needs them" if gaps else ""
    workload = "name these marginals in the workload of residual_planner"
    if family == "poisson" or (family == "binomial" and gaps):
        return f"{why}; {workload}"
    analyses = shlex.quote(formula) if family == "gaussian" else "FILE.yaml"
    command = f"marginalia release TABLE --domain DOMAIN --analyses {analyses} --epsilon E --out FILE.npz"
    return f"{why}; make a release for this regression, `{command}`, or {workload}"


def design_of(release: Release, formula: str, family: str, *, ridge: float = 0.0) -> Design:
    """Return the design that `regression` takes: of the rows with all values, if the release holds their sums."""
    return _equations(release, formula, family, ridge)[0]


def _without_value(release: Release, of: Design, confidence: float) -> Interval | None:
    """Return the share of rows that lack a value in some column; None where no column has gaps, or it is unknown."""
    if of.complete is None:
        return None
    if isinstance(release, ReleasedSums):
        return release.without_value(of, confidence)
    return without_value(release, of.gaps(release.domain), confidence=confidence)


def equations_of(release: Release, of: Design, family: str, *, ridge: float = 0.0) -> Equations:
    """Return the noisy estimating equations of a regression.

    Raises
    ------
    InputError
        The release lacks marginals or sums that they need.
    """
    if isinstance(release, ReleasedSums):
        return release.equations(of, family, ridge)
    return _linear(release, of, ridge) if family == "gaussian" else _scores(release, of, family)


Parts = dict[Clique, Array]  # of a function; see `part_functions`


def _parts_of(functions: Sequence[tuple[Clique, Array]], domain: Domain) -> list[Parts]:
    """Return the parts of functions that are summed over all rows; values broadcast to the sizes of their clique."""
    return [
        part_functions(clique, np.broadcast_to(values, [domain.sizes[a] for a in clique]))
        for clique, values in functions
    ]


def _sums_of(estimates: ResidualEstimates, functions: Sequence[Parts]) -> tuple[Array, Array]:
    """Return the sums of all functions over all rows, and the covariance of their noise."""
    by_part: dict[Clique, tuple[list[int], list[Array]]] = {}
    for i, parts in enumerate(functions):
        for part, w in parts.items():
            at, ws = by_part.setdefault(part, ([], []))
            at.append(i)
            ws.append(np.ravel(w))
    sums, covariance = np.zeros(len(functions)), np.zeros((len(functions),) * 2)
    for part, (at, ws) in by_part.items():
        values, variance = estimates.residuals[part]
        W = np.array(ws)
        sums[at] += W @ np.ravel(values)
        if variance:
            covariance[np.ix_(at, at)] += variance * W @ W.T
    return sums, covariance


def _linear(release: Release, of: Design, ridge: float) -> Linear:
    """Return the normal equations: sums of products of two columns each, each pair from one marginal."""
    columns = [of.y, *of.features]
    products = Products(release.domain, [(f.clique, f.values) for f in columns])
    needed = {part: f"{columns[j].name} with {columns[k].name}" for part, (j, k) in products.needed.items()}
    H, noise = products.sums(_round_with(release, needed))
    H[:, 1:] += ridge * np.eye(len(of.features))
    return Linear(H, noise)


def _named(functions: Sequence[Parts], names: Sequence[str]) -> dict[Clique, str]:
    """Return the parts of some functions, each with the name of the first function that has it."""
    return {part: name for parts, name in reversed([*zip(functions, names, strict=True)]) for part in parts}


def _round_with(release: Release, needed: Mapping[Clique, str]) -> ResidualEstimates:
    """Return the first round that has all residuals of `needed`, which names what needs each of them.

    An error names the missing marginals. The choice of the first round is valid: the marginals of a round are known
    before its noise is drawn.
    """
    best: tuple[int, list[Clique]] | None = None
    for estimates in release.rounds:
        missing = sorted(estimates.missing(needed), key=lambda q: (len(q), q))
        if not missing:
            return estimates
        if best is None or len(missing) < best[0]:
            best = len(missing), missing
    assert best is not None
    count, missing = best
    texts = [" and ".join(release.domain.names[a] for a in q) or "the number of rows" for q in missing[:4]]
    more = f" and {count - 4} more" if count > 4 else ""
    needing, once = needed[missing[0]], "" if len(release.rounds) == 1 else " in one round, planned before its noise"
    raise MissingMarginalsError(
        f"this needs marginals that were not asked{once}: {'; '.join(texts)}{more} ({texts[0]} for {needing})"
    )


def _scores(release: Release, of: Design, family: str) -> Scores:
    """Return the scores of a regression that needs the joint marginal of all features."""
    domain, clique = release.domain, of.attributes
    sizes = [domain.sizes[a] for a in clique]
    if math.prod(sizes) > _MOST_CELLS:
        raise InputError(f"the features have {math.prod(sizes):,} joint cells; at most {_MOST_CELLS:,} are possible")
    products: list[Parts] = []
    if joined := set(of.y.clique) <= set(clique):  # y has gaps: the joint marginal of the features gives all
        response: float | Array = np.broadcast_to(of.y.spread(clique, domain), sizes).ravel()
    else:
        counted = 1.0 if of.complete is None else of.complete.spread(of.y.clique, domain)
        counted = np.broadcast_to(counted, of.y.values.shape)
        response = float(of.y.values.sum() / counted.sum())
        centred = Feature(of.response, of.y.clique, of.y.values - response * counted)
        products = _parts_of([f.times(centred, domain) for f in of.features], domain)
    joint = part_functions(clique, np.random.default_rng(0).normal(size=sizes))  # a function that has every part
    names = [f"{f.name} with {of.response}" for f in of.features[: len(products)]]
    names.append("the scores, which need all features jointly")
    estimates = _round_with(release, _named([*products, joint], names))
    p = len(of.features)
    sums, covariance = (np.zeros(p), np.zeros((p, p))) if joined else _sums_of(estimates, products)
    axes = {a: axis for axis, a in enumerate(clique)}
    features = [(tuple(axes[a] for a in f.clique), f.values) for f in of.features]
    variances = {
        tuple(axes[a] for a in part): estimates.residuals[part][1]
        for part in subsets(clique)
        if all(domain.sizes[a] > 1 for a in part)
    }
    counts = estimates.counts(clique).ravel()
    return Scores(family, sizes, features, counts, variances, response, sums, covariance)


def add_sampling(release: Release, of: Design, equations: Equations, b: Array) -> None:
    """Add n Cov psi to the variance: the error of a sample about its population under the model, from the release.

    For ``gaussian`` it assumes homoskedastic errors; for the others it is the information at b, that is the variance of
    the family. It is k times as large where up to k rows belong to one person. This is a bound.
    """
    G = -equations.jacobian(b)
    if isinstance(equations, Linear) and not equations.approximate:
        if isinstance(release, ReleasedSums):
            total, n = release.square(of)
        else:
            rows = ((), np.array(1.0)) if of.complete is None else (of.complete.clique, of.complete.values)
            square, one = _parts_of([(of.y.clique, of.y.values**2), rows], release.domain)
            needed = _named([square, one], [f"{of.response} squared", "the number of rows"])
            estimates = _round_with(release, needed)
            (total, _), (n, _) = estimates.sum_of(square), estimates.sum_of(one)
        noise = float(np.trace(G @ np.diag(Solution(equations, b).errors ** 2)))
        variance = max(total - float(b @ equations.H[:, 0]) + noise, 0.0) / max(n - len(b), 1.0)
    else:
        variance = 1.0
    eigenvalues, vectors = np.linalg.eigh((G + G.T) / 2)
    positive = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    equations.extra = release.rows_a_unit * variance * positive
