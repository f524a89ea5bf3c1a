"""Appendix F of the DD-SSP paper without privacy: k-way marginals, a parabola for Poisson, degree 4 for logistic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from marginalia.data.encoding import Encoder
from marginalia.data.table import Table
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.dd_ssp.runs import CLASSIFIED, classification, training_rows
from marginalia.reporting.means import rounded
from marginalia.reporting.panels import curve, drawing, look
from marginalia.sweep.metrics import log_loss, roc_auc
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.seeds import seed_of

Array: TypeAlias = Any  # of floats

FAR = 10.0  # how many times the fitted coefficients an objective is looked at
LOST = 1e3  # inner product at which a search for the maximum is given up


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield what exact statistics give: moments from marginals, and fits of logistic and Poisson regression."""
    prepared = Prepared.load(data[part])
    train, test, task = training_rows(prepared), prepared.test, classification(prepared)
    from scipy.special import expit

    assert test is not None
    encoder = Encoder(train.domain, task.target, one_hot=task.one_hot)
    rng = np.random.default_rng(seed_of(root_seed, "dd_ssp_glms", part))
    for order in settings["orders"]:
        errors = [_moment_error(train, encoder, order, rng) for _ in range(settings["moments"])]
        yield {"dataset": part, "model": f"{order}-way moments", "error": max(errors)}
    X, y = encoder.transform(train), encoder.target_values(train, "logistic")
    X_test, y_test = encoder.transform(test), encoder.target_values(test, "logistic")
    for degree in settings["degrees"]:
        theta, grows = _logistic(X, y, degree, settings["radius"])
        row = {
            "dataset": part,
            "model": "logistic",
            "degree": degree,
            "radius": settings["radius"],
            "bounded": not grows,
        }
        if found := bool(np.abs(X @ theta).max() <= LOST):
            score = X_test @ theta
            row |= {"auc": roc_auc(y_test, score), "risk": log_loss(y_test, expit(score))}
        yield row | {"found": found}
    truth = rng.normal(size=X.shape[1])
    truth *= 2 / np.abs(X @ truth).max()  # inside every interval
    counts = rng.poisson(np.exp(X @ truth)).astype(float)
    for radius in settings["poisson_radii"]:
        theta = _poisson(X, counts, radius)
        yield {
            "dataset": part,
            "model": "Poisson",
            "degree": 2,
            "radius": radius,
            "error": float(np.linalg.norm(X @ (theta - truth)) / np.linalg.norm(X @ truth)),
        }


def _moment_error(table: Table, encoder: Encoder, order: int, rng: np.random.Generator) -> float:
    """Return the relative gap between a sum of products of features over rows and its form in a marginal (F.1)."""
    names = [encoder.features[i] for i in sorted(rng.choice(len(encoder.features), order, replace=False))]
    vectors = [m[rng.integers(len(m))] for m in (encoder.matrices[name] for name in names)]
    columns = [vector[table.column(name)] for vector, name in zip(vectors, names, strict=True)]
    rows = float(np.prod(columns, axis=0).sum())
    tensor = table.counts(names).astype(float).reshape([len(v) for v in vectors])
    for vector in vectors:
        tensor = np.tensordot(vector, tensor, axes=(0, 0))
    return abs(float(tensor) - rows) / table.n_rows


def _logistic(X: Array, y: Array, degree: int, radius: float) -> tuple[Array, bool]:
    """Return the maximum of the polynomial log-likelihood as found from 0 (F.3), and whether more is far beyond."""
    from scipy import optimize

    def stop_if_lost(theta: Array) -> None:
        if np.abs(Z @ theta).max() > LOST:
            raise StopIteration

    polynomial = polynomial_of(lambda s: -np.logaddexp(0, -s), degree, radius)
    slope, Z = polynomial.deriv(), X * y[:, None]

    def loss(theta: Array) -> tuple[float, Array]:
        s = Z @ theta
        return -float(polynomial(s).mean()), -(Z.T @ slope(s)) / len(Z)

    minimize: Any = optimize.minimize
    theta = minimize(loss, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", callback=stop_if_lost).x
    return theta, loss(FAR * theta)[0] < loss(theta)[0]


def _poisson(X: Array, counts: Array, radius: float) -> Array:
    """Return the maximiser of (X'y)'t - c1 1'X t - c2 t'X'X t (F.2)."""
    _, c1, c2 = map(float, polynomial_of(np.exp, 2, radius).coef)
    return np.linalg.lstsq(2 * c2 * (X.T @ X), X.T @ counts - c1 * X.sum(axis=0), rcond=None)[0]


def polynomial_of(function: Callable[[Any], Any], degree: int, radius: float) -> Polynomial:
    """Return the polynomial through `function` at the Chebyshev nodes of [-radius, radius], in powers of s."""
    return Chebyshev.interpolate(function, degree, domain=[-radius, radius]).convert(kind=Polynomial)


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return a row for each set and model.

    ``error``: of a moment, as a share of the rows; of Poisson regression, of the linear predictor, relative. ``found``:
    whether a search from 0 ended at a maximum; ``bounded``: whether ten times its coefficients are no better.
    """
    order = ["dataset", "model", "degree", "radius", "error", "auc", "risk", "found", "bounded"]
    return {"dd_ssp_glms": rounded(rows[order])}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the polynomials that stand for the log-likelihoods, on and beyond their interval."""
    radius = settings["radius"]
    s = np.linspace(-2 * radius, 2 * radius, 49)
    with drawing(2, 2, entries=4, height=2.1, space=0.3) as (drawn, (left, right)):
        left.plot(s, -np.logaddexp(0, -s), color="#000000", label="log-likelihood")
        for i, degree in enumerate(settings["degrees"]):
            values = polynomial_of(lambda v: -np.logaddexp(0, -v), degree, radius)(s)
            curve(left, s, values, label=f"degree {degree}", **look(i) | {"ms": 2})
        for ax, title in ((left, "Logistic"), (right, "Poisson: exp(s) and its parabola")):
            ax.axvspan(-radius, radius, color="#f0f0f0", lw=0, zorder=0)
            ax.set(title=title, xlabel="s")
        left.set_ylim(-14, 2)
        inside = s[np.abs(s) <= radius]
        right.plot(inside, np.exp(inside), color="#000000")
        curve(right, inside, polynomial_of(np.exp, 2, radius)(inside), **look(0) | {"ms": 2})
        right.set_xlim(-radius, radius)
    return drawn


GLMS = Experiment(
    id="dd_ssp_glms",
    title="DD-SSP: other models, and degree 4",
    caption=(
        "The polynomials of appendix F in place of log-likelihoods, fitted on the shaded interval. Left: logistic "
        "regression by degree 2 and 4; the leading coefficient of degree 4 is positive, so that its objective has no "
        "maximum. Right: the parabola in place of exp(s) for Poisson regression on [-6, 6]."
    ),
    defaults={
        "datasets": list(CLASSIFIED),
        "orders": [2, 3, 4],
        "moments": 5,
        "degrees": [2, 4],
        "radius": 6.0,
        "poisson_radii": [2.0, 6.0],
    },
    parts=lambda settings: list(settings["datasets"]),
    rows=run,
    tables=tables,
    figure=figure,
    datasets=CLASSIFIED,
)
