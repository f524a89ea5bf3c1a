"""What Zhou et al. got wrong, as numbers: test rows in the generator's input, the relation, and the theory.

F1 (Table 2), F2 (Lemma 3.3 and the relation of its proof), F3 (the Gaussian mechanism), F10 (Theorems 3.2 and 4.1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from marginalia.data.catalogue.catalogue import uncoded
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.excess_risk.runs import SETS, Coded, fit_logistic, read_set, scores, splits
from marginalia.papers.excess_risk.theory import (
    Array,
    Function,
    bernstein,
    logistic_loss,
    margin_loss,
    margin_slope,
    sigma_gen,
    sup_error,
)
from marginalia.privacy.calibration import gaussian_sigma, gdp_epsilon, zcdp_epsilon, zcdp_rho
from marginalia.reporting.means import rounded
from marginalia.reporting.panels import DASHED, drawing, look

# Rows of the published files.
ROWS = {"adult": 48842, "churn": 4824, "compas": 7214, "dutch": 60420, "heart": 303, "law": 20798}
# Shares of AIM's budget: one-way marginals first, then 90 % of each round measures.
FIRST = 0.9 / 16
MEASURING = FIRST + 0.9 * (1 - FIRST)
BUDGETS = {
    "epsilon under replace-one, at most": "replace_one",
    "epsilon of the measurements alone": "measurements_alone",
}
Flaws = Iterator[tuple[str, str, str, float, float]]  # flaw, quantity, where, claimed, found


def parts(settings: Settings) -> list[str]:
    """One part for what follows from formulas, one for what models gain on test rows."""
    return ["formulas", "test_rows"]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each number: the flaw, what is measured, where, what is claimed and what is found."""
    if part == "formulas":
        accounting = (relation(settings["epsilons"]), too_few_marginals(), classical_formula())
        flaws: Flaws = itertools.chain(*accounting, polynomial_rate(), loss_constants(), premises(), cited())
    else:
        sets = settings["datasets"]
        flaws = itertools.chain.from_iterable(seen_test_rows(name, settings, root_seed, data) for name in sets)
    for flaw in flaws:
        yield dict(zip(("flaw", "quantity", "where", "claimed", "found"), flaw, strict=True))


def relation(epsilons: Iterable[float]) -> Flaws:
    """F2: the budget of the code's AIM under the replace-one relation of the paper's proofs.

    Replacing a record changes a marginal by sqrt(2) in L2 and a score by twice the add/remove sensitivity, so that
    measurements cost twice and selections four times as much zCDP.
    """
    spent, measured = BUDGETS
    for (name, n), epsilon in itertools.product(ROWS.items(), map(float, epsilons)):
        delta = 1 / n**2
        rho = zcdp_rho(epsilon, delta)
        dearer = (2 * MEASURING + 4 * (1 - MEASURING)) * rho
        yield "F2", spent, name, epsilon, zcdp_epsilon(dearer, delta)
        yield "F2", measured, name, epsilon, gdp_epsilon(math.sqrt(2 * 2 * MEASURING * rho), delta)


def too_few_marginals() -> Flaws:
    """F2: Lemma 3.3 counts m^d marginals of at most d columns."""
    for (m, d), epsilon in itertools.product(((1, 1), (1, 2), (2, 2), (3, 2)), (1.0, 2.0)):
        count = sum(math.comb(m + 1, k) for k in range(1, min(d, m + 1) + 1))
        true = gdp_epsilon(math.sqrt(2 * count) / sigma_gen(m, d, epsilon, 1e-6), 1e-6)
        yield "F2", "epsilon of Lemma 3.3's noise", f"m = {m}, d = {d}, delta = 1e-6", epsilon, true


def classical_formula() -> Flaws:
    """F3: what sigma = S sqrt(2 ln(1.25/delta))/epsilon, proved for epsilon < 1, truly spends at delta = 1/n²."""
    for name, epsilon in itertools.product(("heart", "dutch"), (1.0, 2.0)):
        delta = 1 / ROWS[name] ** 2
        true = gdp_epsilon(1 / gaussian_sigma(epsilon, delta, method="classical"), delta)
        yield "F3", "epsilon of the Gaussian mechanism's formula", f"{name}'s n", epsilon, true


def seen_test_rows(name: str, settings: Settings, root_seed: int, data: Folders) -> Flaws:
    """F1: what a model gains on test rows that it was trained on, without any privacy."""
    table, task = read_set(name, data)
    rows = Coded.of(table, task.target)
    everything = fit_logistic(rows)
    held_out, trained_on = [], []
    for draw in range(settings["draws"]):
        for ((train, test),) in splits(name, draw, settings["splits"], root_seed, len(rows.y)):
            held_out.append(scores(fit_logistic(rows.take(train)), rows.take(test)))
            trained_on.append(scores(everything, rows.take(test)))
    for metric in ("accuracy", "empirical_risk"):
        claimed, found = (float(np.mean([s[metric] for s in tests])) for tests in (held_out, trained_on))
        yield "F1", metric, uncoded(name), claimed, found  # of a model that they are held out from, or trained


def polynomial_rate() -> Flaws:
    """F10b: Bernstein's error on [-R, R], times d/R, grows with R; Theorem 3.2 says that it does not."""
    degree, radii = 40, (1.0, 2.0, 4.0, 8.0)
    polynomials = [(radius, bernstein(logistic_loss, degree, (-radius, radius))) for radius in radii]
    rates = [sup_error(p, logistic_loss, (-radius, radius)) * degree / radius for radius, p in polynomials]
    for radius, rate in zip(radii, rates, strict=True):
        yield "F10b", "Bernstein error times d/R", f"R = {radius:g}, d = {degree}", rates[0], rate


def loss_constants() -> Flaws:
    """F10c: the constants of the loss of Theorem 4.1, at gamma = 1/ln³ n for Adult's n."""
    gamma = math.log(ROWS["adult"]) ** -3
    t = np.unique(np.concatenate([np.linspace(-1, 1, 20_001), np.linspace(0, gamma, 20_001)]))
    loss, slope = margin_loss(t, gamma), margin_slope(t, gamma)
    where = "gamma = 1/ln³ n, n = 48,842"
    yield "F10c", "Lipschitz constant", where, 2.0, float(np.abs(slope).max())
    yield "F10c", "strong convexity", where, gamma, float((np.diff(slope) / np.diff(t)).min())
    yield "F10c", "range", where, 1.0, float(loss.max() - loss.min())


def premises() -> Flaws:
    """F10d to g: what Theorem 4.1's parameters ask for."""
    from scipy.optimize import brentq

    log_n = math.log(ROWS["adult"])
    needed = "m of Definition B.1 (claimed), m that its premise needs (found)"
    yield "F10d", needed, "Adult's n", 2 * log_n**5, 2 * log_n**7
    for d in (1, 4):
        least = brentq(lambda x, d=d: x / (15 * math.log(x)) - d, 3.0, 1e6)  # d = c' ln n / (3 ln ln n), c' = 1/5
        yield "F10d", "least log10(n) of Theorem 4.1", f"d = {d}", math.nan, least / math.log(10)
    yield "F10e", "largest c' with (12 ln^5 n)^d <= n^(1/4)", "limit of large n", 1 / 5, 3 / 20
    yield "F10g", "lower bound times ln³ n", "any n", 1 / 16, 1 / 8 - 2 / 20


def cited() -> Flaws:
    """Theorems 2.3 and 2.4 and Claim B.2, for several degrees: the bound (claimed) and what it bounds (found)."""
    gamma = math.log(ROWS["adult"]) ** -3
    functions: dict[str, Function] = {"logistic loss": logistic_loss, "|x|": np.abs}
    for (name, f), radius, d in itertools.product(functions.items(), (1.0, 5.0), (2, 4, 8, 16)):
        interval, where = (-radius, radius), f"{name}, R = {radius:g}, d = {d}"
        p, norm = bernstein(f, d, interval), float(np.abs(f(np.linspace(*interval, 2001))).max())
        yield "2.3", "error", where, 1.25 * _modulus(f, interval, 2 * radius / math.sqrt(d)), sup_error(p, f, interval)
        yield "2.3", "sum of coefficients", where, norm * (1 + 1 / radius) ** d, float(np.abs(p.coef).sum())
    for d in (2, 4, 8, 16):
        slope = partial(_slope, width=10.0)
        bound = 0.75 / math.sqrt(d) * _modulus(slope, (0.0, 1.0), 1 / math.sqrt(d))
        f = partial(_stretched, width=10.0)
        yield "2.4", "error", f"logistic loss, d = {d}", bound, sup_error(bernstein(f, d, (0.0, 1.0)), f, (0.0, 1.0))
        loss = partial(margin_loss, gamma=gamma)
        error = sup_error(bernstein(loss, d, (-1.0, 1.0)), loss, (-1.0, 1.0))
        yield "B.2", "error", f"loss of Theorem 4.1, d = {d}", 5 / math.sqrt(d), error


def _stretched(x: Array, width: float) -> Array:
    return logistic_loss(width * (x - 0.5))


def _slope(x: Array, width: float) -> Array:
    return -width / (1 + np.exp(width * (x - 0.5)))


def _modulus(f: Function, interval: tuple[float, float], step: float, points: int = 401) -> float:
    """Return the largest change of f over at most `step`, on a grid."""
    x = np.linspace(*interval, points)
    change = np.abs(f(x)[:, None] - f(x)[None, :])
    return float(change[np.abs(x[:, None] - x[None, :]) <= step + 1e-12].max())


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the numbers on the paper's flaws, and apart from them the budgets under replace-one."""
    table = rows.assign(ratio=rows["found"] / rows["claimed"])
    budgets = table["quantity"].isin(BUDGETS)
    wide = table[budgets].pivot(index=["where", "claimed"], columns="quantity", values="found").reset_index()
    wide = wide.rename(columns={"where": "dataset", "claimed": "epsilon", **BUDGETS}).rename_axis(columns=None)
    wide["ratio"] = wide["replace_one"] / wide["epsilon"]
    bounds = table["flaw"].isin(["2.3", "2.4", "B.2"])
    cited = table[bounds].rename(columns={"flaw": "statement", "claimed": "bound"}).reset_index(drop=True)
    return {
        ERRATA.id: rounded(table[~budgets & ~bounds].reset_index(drop=True)),
        f"{ERRATA.id}_relation": rounded(wide),
        f"{ERRATA.id}_cited": rounded(cited),
    }


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw epsilon under replace-one over the epsilon claimed: two families, each over all data sets."""
    families = {"replace_one": "all of AIM, an upper bound", "measurements_alone": "its noisy marginals alone, exactly"}
    with drawing(1, 1, entries=1, height=2.3, space=0.6) as (figure, (ax,)):
        sets = tables[f"{ERRATA.id}_relation"].groupby("epsilon")
        for i, (column, label) in enumerate(families.items()):
            middle, low, high = (getattr(sets[column], what)() for what in ("median", "min", "max"))
            gaps = np.stack([middle - low, high - middle])
            ax.errorbar(middle.index, middle, yerr=gaps, capsize=2, elinewidth=0.8, label=label, **look(i))
        ax.plot([0, 2.05], [0, 2.05], color="#8C8C8C", ls=DASHED, zorder=1, label="claimed")
        ax.set(xlabel="ε claimed", ylabel="ε for a replaced record", xlim=(0, 2.1), ylim=(0, None))
    return figure


ERRATA = Experiment(
    id="excess_risk_errata",
    title="What the published runs spend where a record is replaced",
    caption=(
        "The privacy loss of AIM as run for the paper, under the neighbouring relation of the paper's own proofs (a "
        "record is replaced), over the one that it claims: medians of the six data sets, bars from the smallest to the "
        "largest. Dashed: the claim."
    ),
    defaults={"datasets": SETS, "epsilons": (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0), "draws": 10, "splits": 10},
    parts=parts,
    rows=run,
    tables=tables,
    figure=figure,
    datasets=SETS,
)
