"""Experiment X-CERT of the DD-SSP paper: what its formulas really spend, by the ledger."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.privacy.calibration import zcdp_rho
from marginalia.privacy.events import GaussianEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.relation import Relation
from marginalia.reporting.panels import DASHED, curve, drawing, look, rows_where

# What a formula spends does not depend on the rows.
_ROWS = (np.array([[0.6, 0.0], [0.0, -0.6], [0.3, 0.3]]), np.array([0.5, -0.5, 0.25]))


def _gaussians(*multipliers: float) -> Ledger:
    """Return the ledger of Gaussian releases of sensitivity 1 with these standard deviations."""
    ledger = Ledger(Relation.ADD_REMOVE)
    for multiplier in multipliers:
        ledger.append(GaussianEvent(1.0, multiplier))
    return ledger


def _ada_ssp(variant: str, relation: Relation, epsilon: float, delta: float) -> Ledger:
    from marginalia.methods.ada_ssp import AdaSSPRegressor

    published: Record = {"calibration": "published", "variant": variant, "relation": relation, "random_state": 0}
    return AdaSSPRegressor(epsilon=epsilon, delta=delta, **published).fit(*_ROWS).ledger_


def _objective_perturbation(epsilon: float, delta: float) -> Ledger:
    from marginalia.methods.objective_perturbation import ObjectivePerturbationClassifier

    published: Record = {"calibration": "published", "relation": "add_remove", "random_state": 0}
    model = ObjectivePerturbationClassifier(epsilon=epsilon, delta=delta, **published)
    return model.fit(_ROWS[0], np.sign(_ROWS[1])).ledger_


def _plain_ssp(releases: int, epsilon: float, delta: float) -> Ledger:
    # Section 2.2: standard deviation sqrt(ln(1.25/delta))/epsilon for each of X'X and X'y, without the factor 2.
    return _gaussians(*[math.sqrt(math.log(1.25 / delta)) / epsilon] * releases)


# (component, relation) -> the ledger of one run at a nominal (epsilon, delta).
COMPONENTS: dict[tuple[str, str], Callable[[float, float], Ledger]] = {
    **{
        (f"AdaSSP, {whose}'s constants", relation): partial(_ada_ssp, f"{whose}_constants", relation)
        for whose in ("paper", "code")
        for relation in Relation
    },
    ("ObjPert", "add_remove"): _objective_perturbation,
    ("SSP of section 2.2, one release", "add_remove"): partial(_plain_ssp, 1),
    ("SSP of section 2.2, both releases", "add_remove"): partial(_plain_ssp, 2),
    ("Gaussian mechanism of definition 2.4", "add_remove"): lambda epsilon, delta: _gaussians(
        math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    ),
    ("AIM, a Gaussian of all its rho", "add_remove"): lambda epsilon, delta: _gaussians(
        1 / math.sqrt(2 * zcdp_rho(epsilon, delta))
    ),
}


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the certified epsilon of every component at every nominal epsilon."""
    delta = settings["delta"]
    for (component, relation), spend in COMPONENTS.items():
        for epsilon in map(float, settings["epsilons"]):
            row = {"component": component, "relation": str(relation), "epsilon": epsilon, "delta": delta}
            yield {**row, "epsilon_spent": spend(epsilon, delta).epsilon(delta)}


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return what is spent, and whether that keeps the promise; a column for each epsilon in the second table."""
    rows = rows.assign(keeps_promise=rows["epsilon_spent"] <= rows["epsilon"] * (1 + 1e-9))
    wide = rows.pivot(index=["component", "relation"], columns="epsilon", values="epsilon_spent")
    wide = wide.reindex(list(dict.fromkeys(zip(rows["component"], rows["relation"], strict=True))))
    wide = wide.rename(columns=lambda epsilon: f"{epsilon:g}").rename_axis(None, axis=1)
    return {"dd_ssp_cert": rows, "dd_ssp_cert_wide": wide.reset_index()}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw certified over nominal epsilon."""
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    table = tables["dd_ssp_cert"]
    with drawing(1, 1, entries=1, height=2.6, space=1.45) as (drawn, (ax,)):
        for i, component in enumerate(table["component"].unique()):
            for relation, dash, note in (("add_remove", "-", ""), ("replace_one", DASHED, " (replace-one)")):
                rows = rows_where(table, component=component, relation=relation)
                if len(rows):
                    ratio = rows["epsilon_spent"] / rows["epsilon"]
                    curve(ax, rows["epsilon"], ratio, ls=dash, label=component + note, **look(i))
        ax.axhline(1, color="#000000", lw=0.9)
        ax.set(xscale="log", xticks=settings["epsilons"], xlabel="nominal ε", ylabel="certified ε / nominal ε")
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.xaxis.set_minor_formatter(NullFormatter())
    return drawn


CERT = Experiment(
    id="dd_ssp_cert",
    title="DD-SSP: nominal and certified epsilon",
    caption=(
        "Certified over nominal epsilon of the formulas in the DD-SSP paper and its code, delta = 1e-5. Below the line "
        "at 1 a method spends less than it is allowed, that is, adds too much noise; above it the promise is broken. "
        "Dashed: AdaSSP read under replace-one, for which its constants were not made."
    ),
    defaults={"epsilons": [0.05, 0.1, 0.2, 0.5, 1.0, 2.0], "delta": 1e-5},
    parts=lambda settings: ["all"],
    rows=run,
    tables=tables,
    figure=figure,
)
