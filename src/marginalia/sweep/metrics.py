"""Metrics of fitted models and of synthetic data: what each is called, where it is measured, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.data.coding import category_counts, numbers_of
from marginalia.data.column import WIDE
from marginalia.data.domain import Domain
from marginalia.data.encoding import Encoder, remember
from marginalia.data.table import CountSource, PrivateRows, RawTable, Table
from marginalia.errors import InputError
from marginalia.sweep.seeds import seed_sequence

REFERENCE_BINS = 16
MOST_CATEGORIES = 50
MOST_CELLS = 2**14  # of a marginal whose intervals are measured
MOST_ROWS = 2**20  # synthetic ones that are drawn to be measured
MOST_REMEMBERED = 2**16  # cells of a true marginal


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What everything reads of one metric: where it is measured, how, and what readers are told of it.

    Attributes
    ----------
    id : str
    name : str
        In legends and tables.
    tasks : tuple of {"linear", "logistic", ""}
        Of which models it is measured; ``""``: of synthetic tables.
    of : {"prediction", "score", "probability", "table"}
        What the model must answer for it.
    function : callable
        From the true targets and the answers, or from the model or the rows drawn of it, or both, and the table, to the
        value.
    higher_is_better : bool
    headline : bool
        Whether it has figures and tables for readers; one for each kind of task.
    optional : bool
        Whether results of earlier versions have no row of it.
    ends : (float, float) or None
        The values at which nothing and all is kept: the ends of the scale of utility. None: those of the trivial
        predictor and of the best one without privacy.
    of_intervals : bool
        Whether it is measured only of methods that state intervals (`Method.intervals`).
    """

    id: str
    name: str
    tasks: tuple[str, ...]
    of: Literal["prediction", "score", "probability", "table"]
    function: Callable[..., float]
    higher_is_better: bool
    headline: bool = False
    optional: bool = False
    ends: tuple[float, float] | None = None
    of_intervals: bool = False

    @property
    def title(self) -> str:
        """The name, to begin a line with."""
        return self.name[0].upper() + self.name[1:]


class HasMarginals(Protocol):
    """Anything that answers marginal queries."""

    def marginal(self, attributes: Sequence[str]) -> NDArray[np.float64]:
        """Return the marginal on `attributes`, shape = their sizes."""


def mean_squared_error(y: ArrayLike, prediction: ArrayLike) -> float:
    """Return the mean squared error; `y` and `prediction` of shape (n,), in the target's scale."""
    return float(np.mean((np.asarray(y, float) - np.asarray(prediction, float)) ** 2))


def roc_auc(y: ArrayLike, score: ArrayLike) -> float:
    """Return the area under the ROC curve; ties count one half.

    Parameters
    ----------
    y : array of shape (n,)
        Two classes; the larger label is positive.
    score : array of shape (n,)
        Larger means more likely positive.

    Raises
    ------
    InputError
        Only one class is present, so the area is undefined; or a score is not finite.

    Examples
    --------
    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    # The arithmetic of `sklearn.metrics.roc_auc_score`, to the last bit. That module imports scipy.stats, which takes
    # longer than most fits of a sweep.
    y = np.asarray(y)
    if np.unique(y).size != 2:
        raise InputError("AUC needs both classes among the test rows; use more test rows")
    score = _numbers(score, y.shape, "the score")
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), y.size - 1)  # row of each distinct score
    true = np.cumsum((y == y.max())[order])[last]
    false = 1 + last - true
    corner = np.concatenate([[True], (np.diff(false, 2) != 0) | (np.diff(true, 2) != 0), [True]])[-last.size :]
    true, false = (np.append(0.0, counts[corner]) for counts in (true, false))
    return float(np.trapezoid(true / true[-1], false / false[-1]))


def log_loss(y: ArrayLike, probability: ArrayLike) -> float:
    """Return the mean of ``-ln(p_true + 1e-16)``, natural logarithm (Zhou et al., section 5: empirical risk).

    Parameters
    ----------
    y : array of shape (n,)
        Labels -1 and 1.
    probability : array of shape (n,)
        Of label 1.
    """
    p = np.asarray(probability, float)
    return float(-np.mean(np.log(np.where(np.asarray(y) > 0, p, 1.0 - p) + 1e-16)))


def accuracy_of_margin(y: ArrayLike, score: ArrayLike) -> float:
    """Return the share of rows with ``y s > 0``; a score of exactly 0 predicts the negative class."""
    return float(np.mean(np.where(np.asarray(score, float) > 0, 1, -1) == np.asarray(y)))


def total_variation(left: ArrayLike, right: ArrayLike) -> float:
    """Return 0.5 times the L1 distance of two marginals after scaling each to sum 1.

    Negative entries (raw noisy counts) are kept; a marginal whose sum is not positive counts as uniform.
    """
    return float(0.5 * np.abs(_normalise(left) - _normalise(right)).sum())


def _normalise(counts: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(counts, float)
    total = array.sum()
    return array / total if total > 0 else np.full(array.shape, 1.0 / array.size)


def marginal_error(
    answers: HasMarginals | Table, table: CountSource, workload: Iterable[Sequence[str]] | None = None
) -> float:
    """Return the mean `total_variation` between the answers and the table over a workload.

    Parameters
    ----------
    answers : object with ``marginal(attributes)``, or a synthetic Table
    table : CountSource
        The real rows.
    workload : iterable of attribute tuples, optional
        Default: all pairs of attributes.
    """

    def answer(q: Sequence[str]) -> NDArray[np.float64]:
        if isinstance(answers, Table):
            return counted(answers, q).astype(float)
        return _numbers(answers.marginal(q), tuple(table.domain[name].size for name in q), "a marginal")

    queries = list(combinations(table.domain.names, 2)) if workload is None else list(workload)
    if not queries:
        raise InputError("marginal error needs at least two columns")
    return float(np.mean([total_variation(answer(q), counted(table, q)) for q in queries]))


def counted(table: CountSource, attributes: Sequence[str]) -> NDArray[np.int64]:
    """Return a marginal of a table, to be read only, which is counted once and remembered while the table lives.

    For metrics: many models are held against one table, and several metrics look at the same rows of a model.

    >>> table = Table([[0, 1], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> counted(table, ["b"]) is counted(table, ["b"])
    True
    """
    names = tuple(attributes)
    if table.domain.n_cells(names) > MOST_REMEMBERED:
        return table.counts(names)
    return remember(table, ("counts", names), lambda: table.counts(names))


def count_pairs(table: CountSource) -> None:
    """Count the marginals that `marginal_error` asks for by default, so that they are no part of what it takes."""
    for q in combinations(table.domain.names, 2):
        if table.domain.n_cells(q) <= MOST_REMEMBERED:
            counted(table, q)


def k_marginal_score(error: float) -> float:
    """Return the k-marginal score of NIST, from 0 (no overlap) to 1000 (the same), for a `marginal_error` of rows.

    ``1000 (1 - mean total variation)``. With the error over all pairs of columns it is what SDNist reports
    (github.com/usnistgov/SDNist, sdnist/metrics/kmarginal.py, class KMarginal: ``(2 - mean L1) * 500``, k = 2); earlier
    versions drew 50 or 100 pairs at random.
    """
    return 1000 * (1 - error)


def drawn(model: Any, table: PrivateRows) -> Table:
    """Return rows of a synthesizer to be measured: as many as the table has, of a coded one at most `MOST_ROWS`."""
    n_rows = table.n_rows if isinstance(table, RawTable) else min(table.n_rows, MOST_ROWS)
    made: Table = model.sample(n_rows)
    return made


def k_marginal(made: Table, table: CountSource) -> float:
    """Return the `k_marginal_score` of the rows that were `drawn` of a synthesizer."""
    return k_marginal_score(marginal_error(made, table))


def interval_metrics(model: Any, made: Table, table: CountSource) -> dict[str, float]:
    """Return how often 95 % intervals for the cells of all one- and two-way marginals that a release tells hold.

    Every marginal weighs the same. `coverage` and `width` (mean, over the number of rows) are of the intervals that
    the release states; `naive_coverage` is of the same cells by p ± 1.96 √(p (1 - p) / n) of the rows that were `drawn`
    of the release, taken for real ones: a warning, not a method. Marginals of more than `MOST_CELLS` cells are left
    out.
    """
    from marginalia.inference.marginals import cell_bounds
    from marginalia.inference.release import Release

    release = Release.of(model)
    found = []
    names = table.domain.names
    for q in ((name,) for name in names), combinations(names, 2):
        for attributes in q:
            clique = tuple(sorted(table.domain.index(name) for name in attributes))
            if table.domain.n_cells(attributes) > MOST_CELLS or not release.holding(clique):
                continue
            truth, share_made = counted(table, attributes), counted(made, attributes) / max(made.n_rows, 1)
            _, low, high, _ = cell_bounds(release, attributes, confidence=0.95)
            half = 1.96 * np.sqrt(share_made * (1 - share_made) / max(made.n_rows, 1))
            share = truth / max(table.n_rows, 1)
            found.append(
                (
                    np.mean((low <= truth) & (truth <= high)),
                    np.mean(high - low) / max(table.n_rows, 1),
                    np.mean((share_made - half <= share) & (share <= share_made + half)),
                )
            )
    if not found:
        raise InputError("the release tells no marginal of one or two columns")
    return dict(zip(("coverage", "width", "naive_coverage"), map(float, np.mean(found, axis=0)), strict=True))


def reference_domain(raw: RawTable) -> Domain:
    """Return a domain in which rows are compared where each fit learns its own; no private release.

    Bins of equal count, and the most frequent categories, read off the very rows: what fits without privacy are given,
    and what tables of different domains are measured in.
    """
    found, shares = {}, np.linspace(0, 1, REFERENCE_BINS + 1)
    for column in raw.domain.open_columns:
        cells = raw.frame[column.name]
        if column.private == "labels":
            counts = category_counts(cells, (*(column.missing or ()), *column.special))
            often = sorted(counts, key=lambda label: (-counts[label], label))[:MOST_CATEGORIES]
            found[column.name] = column.closed(labels=sorted(often))
            continue
        numbers = numbers_of(cells, column.placeholder())
        numbers = numbers[np.isfinite(numbers) & (np.abs(numbers) < WIDE / 2)]
        edges = np.unique(np.quantile(numbers if numbers.size else [0.0], shares, method="inverted_cdf"))
        if column.type != "number":
            edges = np.unique(np.floor(edges))
        edges = np.append(edges[:-1] if edges.size > 1 else edges, edges[-1] + 1)  # the largest value is inside
        found[column.name] = column.closed(edges=edges.tolist())
    domain = raw.domain.closed(found)
    return Domain(domain, source="inferred", ignored=domain.ignored, weights=domain.weights)


def table_error(made: Table, raw: RawTable) -> float:
    """Return the `marginal_error` of synthetic rows beside raw ones, in original values on the `reference_domain`."""
    domain = reference_domain(raw)
    shown = made.to_frame(original=True, random_state=seed_sequence(0, "table_error"))  # no stream that made rows
    return marginal_error(Table.from_frame(shown, domain).project(raw.names), raw.coded(domain))


def scores(
    model: Any, table: CountSource, *, target: str, task: str, one_hot: Iterable[str] | None
) -> dict[str, float]:
    """Return the metrics of `task` for predictions of `model` on the rows of `table`; of many classes the accuracy.

    Parameters
    ----------
    model : fitted learner
        With ``predict`` (linear) or ``decision_function`` (logistic; ``predict_proba`` adds the risk).
    table : Table or another CountSource
        With the target column; what is not in memory is predicted batch by batch.
    target : str
    task : {"linear", "logistic"}
    one_hot : iterable of str or None
        As the model was fitted with.
    """

    def gather(columns: Callable[[Table], tuple[NDArray[Any], ...]]) -> list[NDArray[Any]]:
        return [np.concatenate(parts) for parts in zip(*map(columns, table.batches()), strict=True)]

    if task == "logistic" and table.domain[target].size > 2:

        def classes(rows: Table) -> tuple[NDArray[Any], ...]:
            return np.asarray(model.decision_function(rows), float).argmax(axis=1), rows.column(target)

        found, true = gather(classes)
        return {"accuracy": float(np.mean(found == true))}
    encoder = Encoder(table.domain, target, one_hot=one_hot)
    if task == "linear":

        def predict(rows: Table) -> tuple[NDArray[Any], ...]:
            return encoder.target_values(rows), _numbers(model.predict(rows), (rows.n_rows,), "the prediction")

        y, prediction = gather(predict)
        return {m.id: m.function(y, prediction) for m in METRICS.values() if m.of == "prediction"}

    def score_and_probability(rows: Table) -> tuple[NDArray[Any], ...]:
        y, score = encoder.target_values(rows, "logistic"), model.decision_function(rows)
        found = y, _numbers(score, y.shape, "the score")
        if not hasattr(model, "predict_proba"):
            return found
        return *found, _numbers(model.predict_proba(rows), (y.size, 2), "the probability")[:, 1]

    y, *given = gather(score_and_probability)
    answers = dict(zip(("score", "probability"), given, strict=False))
    return {m.id: m.function(y, answers[m.of]) for m in METRICS.values() if m.of in answers}


def _numbers(answer: ArrayLike, shape: tuple[int, ...], what: str) -> NDArray[np.float64]:
    """Return what a model answers, maybe a user's own: another shape would be broadcast to a meaningless number."""
    array = np.asarray(answer, float)
    if array.shape != shape:
        raise InputError(f"{what} has shape {array.shape} instead of {shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{what} holds NaN or infinity")
    return array


def _interval_metric(id: str, model: Any, made: Table, table: CountSource) -> float:
    return interval_metrics(model, made, table)[id]


METRICS = {
    metric.id: metric
    for metric in (
        Metric(
            id="mse",
            name="test MSE",
            tasks=("linear",),
            of="prediction",
            function=mean_squared_error,
            higher_is_better=False,
            headline=True,
        ),
        Metric(
            id="auc",
            name="test AUC",
            tasks=("logistic",),
            of="score",
            function=roc_auc,
            higher_is_better=True,
            headline=True,
        ),
        Metric(
            id="accuracy",
            name="test accuracy",
            tasks=("logistic",),
            of="score",
            function=accuracy_of_margin,
            higher_is_better=True,
        ),
        Metric(
            id="risk",
            name="test log-loss",
            tasks=("logistic",),
            of="probability",
            function=log_loss,
            higher_is_better=False,
        ),
        Metric(
            id="marginal_error",
            name="marginal error",
            tasks=("",),
            of="table",
            function=marginal_error,
            higher_is_better=False,
            headline=True,
            ends=(1.0, 0.0),
        ),
        Metric(
            id="k_marginal",
            name="k-marginal score",
            tasks=("",),
            of="table",
            function=k_marginal,
            higher_is_better=True,
            optional=True,
            ends=(0.0, 1000.0),
        ),
        *(
            Metric(
                id=id,
                name=name,
                tasks=("",),
                of="table",
                function=partial(_interval_metric, id),
                higher_is_better=id != "width",
                optional=True,
                ends=None if id == "width" else (0.0, 0.95),
                of_intervals=True,
            )
            for id, name in (
                ("coverage", "coverage of 95 % intervals"),
                ("width", "width of 95 % intervals"),
                ("naive_coverage", "coverage of naive 95 % intervals"),
            )
        ),
    )
}
HEADLINES = tuple(metric.id for metric in METRICS.values() if metric.headline)
