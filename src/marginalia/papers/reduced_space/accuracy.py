"""Cards N, F, m and fail of the reduced-space method: its accuracy on laws that are known exactly."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.papers.card import Card, lazily
from marginalia.papers.chebyshev.runs import mean_table
from marginalia.sweep.seeds import seed_of, seed_sequence

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

GAMMA = 0.05


def half_and_half(n: int, p: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return n rows of ½ Π Bern(q_j) + ½ Π Bern(1-q_j), q = linspace(.3, .7, p): κ = 1.118 against uniform at p = 8."""
    q = np.linspace(0.3, 0.7, p)
    side = rng.random((n, 1)) < 0.5
    return (rng.random((n, p)) < np.where(side, q, 1 - q)).astype(np.int64)


def bernoulli(n: int, p: int, q: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return n rows of Bern(q)^p: κ = (2(q² + (1-q)²))^p against uniform."""
    return (rng.random((n, p)) < q).astype(np.int64)


def one_run(
    codes: NDArray[np.int64], *, order: int, seed: int, epsilon: float = 1.0, **parameters: Any
) -> dict[str, Any]:
    """Fit, draw as many rows as there are, and compare every average with the data's.

    Returns
    -------
    dict
        ``error`` (largest over the family), ``bound`` (8δ), ``certificate``, ``optimum`` (t*), ``seconds``.
    """
    from marginalia.data import Domain, Table
    from marginalia.synthesis import ReducedSpaceLP
    from marginalia.synthesis.reduced_space.families import Family
    from marginalia.synthesis.reduced_space.guarantees import guarantee

    n, p = codes.shape
    table = Table(codes, Domain.from_sizes({f"x{j}": 2 for j in range(p)}))
    start = time.process_time()
    model = ReducedSpaceLP(
        epsilon=epsilon, order=order, solution="lp", sampling="iid", random_state=seed, **parameters
    ).fit(table)
    seconds = time.process_time() - start
    rows = model.sample(n)
    family = Family(model.family, table.domain.sizes, order)
    error = np.abs(family.sums(rows.codes) - family.sums(codes)).max() / n
    promised = guarantee(family, n, epsilon, gamma=GAMMA, calibration=model.calibration)
    return {
        "n_functions": family.size,
        "error": float(error),
        "bound": promised.bound,
        "certificate": model.certificate(gamma=GAMMA, table=rows),
        "optimum": model.optimum_,
        "seconds": seconds,
    }


ARMS: dict[str, dict[str, Any]] = {
    "tight parities": {"family": "parities", "calibration": "tight"},
    "published monomials": {"family": "monomials", "calibration": "published"},
}


def _summary(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Means, the 95 % quantile and the maximum of the error, and how often each bound was exceeded."""
    rows = rows.assign(
        above_bound=(rows["error"] > rows["bound"]).astype(float),
        above_certificate=(rows["error"] > rows["certificate"]).astype(float),
    )
    values = ["error", "bound", "certificate", "optimum", "above_bound", "above_certificate"]
    table = mean_table(rows, keys, values)
    spread = rows.groupby(keys, sort=True)["error"].agg(error_q95=lambda e: e.quantile(0.95), error_max="max")
    return table.merge(spread.reset_index(), on=keys)


def _parts_n(settings: Mapping[str, Any]) -> list[str]:
    return [str(n) for n in settings["records"]]


def _run_n(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    import pandas as pd

    found = []
    for trial in range(settings["trials"]):
        key = ("reduced_space_n", int(part), trial)
        codes = half_and_half(int(part), 8, np.random.default_rng(seed_sequence(root_seed, *key)))
        for name, arm in ARMS.items():
            run = one_run(codes, order=2, seed=seed_of(root_seed, *key, name), space="sampled", measure="uniform",
                          n_points=settings["points"], **arm)  # fmt: skip
            found.append({"arm": name, "n": int(part), "trial": trial, **run})
    return pd.DataFrame(found)


N = Card(
    id="reduced_space_n",
    title="Reduced space: error over the number of records",
    caption=(
        "Largest error over all averages of order 2 on eight Boolean attributes (epsilon = 1, 2,000 uniform points, as "
        "many synthetic rows as records): mean over runs, beside the theorem's 8δ and the certificate."
    ),
    defaults={"trials": 100, "records": (1000, 3000, 10_000, 30_000, 100_000), "points": 2000},
    parts=_parts_n,
    run=_run_n,
    tables=lambda rows, settings: {"reduced_space_n": _summary(rows, ["arm", "n"])},
    figure=lazily("marginalia.papers.reduced_space.figures", "over_records"),
)


def _run_f(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    import pandas as pd

    p = int(part)
    found = []
    for order, trial in product(settings["orders"], range(settings["trials"])):
        key = ("reduced_space_f", p, order, trial)
        codes = half_and_half(settings["records"], p, np.random.default_rng(seed_sequence(root_seed, *key)))
        for name, arm in ARMS.items():
            run = one_run(codes, order=order, seed=seed_of(root_seed, *key, name), space="cube", **arm)
            found.append({"arm": name, "p": p, "order": order, "trial": trial, **run})
    return pd.DataFrame(found)


F = Card(
    id="reduced_space_f",
    title="Reduced space: error over the number of functions",
    caption="Largest error over the whole cube at n = 10,000 and epsilon = 1, over the number of released averages.",
    defaults={"trials": 20, "records": 10_000, "attributes": (6, 8, 10, 12), "orders": (1, 2, 3)},
    parts=lambda settings: [str(p) for p in settings["attributes"]],
    run=_run_f,
    tables=lambda rows, settings: {"reduced_space_f": _summary(rows, ["arm", "p", "order", "n_functions"])},
    figure=lazily("marginalia.papers.reduced_space.figures", "over_functions"),
)


def _run_m(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    import pandas as pd

    q = float(part)
    found = []
    for trial in range(settings["trials"]):
        key = ("reduced_space_m", part, trial)
        rng = np.random.default_rng(seed_sequence(root_seed, *key))
        codes = half_and_half(settings["records"], 8, rng) if q == 0 else bernoulli(settings["records"], 8, q, rng)
        kappa = 1.118 if q == 0 else (2 * (q * q + (1 - q) ** 2)) ** 8
        for m in settings["points"]:
            run = one_run(codes, order=2, seed=seed_of(root_seed, *key), space="sampled", measure="uniform", n_points=m)
            found.append({"law": "half and half" if q == 0 else f"Bern({q:g})", "kappa": kappa, "m": m, "trial": trial,
                          **run})  # fmt: skip
    return pd.DataFrame(found)


M = Card(
    id="reduced_space_m",
    title="Reduced space: how many points it needs",
    caption=(
        "Largest error and LP optimum t* over the number m of uniform points, eight attributes, order 2, n = 5,000, "
        "epsilon = 1, for laws of growing Rényi condition number κ."
    ),
    defaults={"trials": 60, "records": 5000, "points": (30, 100, 300, 1000), "laws": (0.0, 0.5, 0.7, 0.8, 0.9)},
    parts=lambda settings: [f"{q:g}" for q in settings["laws"]],
    run=_run_m,
    tables=lambda rows, settings: {"reduced_space_m": _summary(rows, ["law", "kappa", "m"])},
    figure=lazily("marginalia.papers.reduced_space.figures", "over_points"),
)


def _run_fail(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    import pandas as pd

    from marginalia.synthesis.reduced_space.families import Family
    from marginalia.synthesis.reduced_space.guarantees import guarantee

    found = []
    n = 1000
    for trial in range(int(part), settings["trials"], settings["blocks"]):
        key = ("reduced_space_fail", trial)
        codes = bernoulli(n, 6, 0.7, np.random.default_rng(seed_sequence(root_seed, *key)))
        for kind in ("monomials", "parities"):
            family = Family(kind, (2,) * 6, 1)
            accuracy = guarantee(family, n, 1.0, gamma=GAMMA).accuracy
            run = one_run(codes, order=1, seed=seed_of(root_seed, *key, kind), space="sampled", measure="uniform",
                          n_points=settings["points"], family=kind, calibration="published")  # fmt: skip
            found.append({"family": kind, "trial": trial, "accuracy": accuracy, **run})
    return pd.DataFrame(found)


def _tables_fail(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    for times in (1, 2, 8):
        rows[f"above_{times}_delta"] = (rows["error"] > times * rows["accuracy"]).astype(float)
    rows["above_certificate"] = (rows["error"] > rows["certificate"]).astype(float)
    values = ["accuracy", "above_1_delta", "above_2_delta", "above_8_delta", "above_certificate"]
    return {"reduced_space_fail": mean_table(rows, ["family"], values).assign(theorem_allows=4 * GAMMA)}


FAIL = Card(
    id="reduced_space_fail",
    title="Reduced space: how often the guarantees fail",
    caption=(
        "Six attributes of Bern(0.7), order 1, n = k = 1,000, epsilon = 1, γ = 0.05, published noise: share of runs "
        "whose largest error exceeds δ, 2δ, 8δ (allowed: 4γ = 0.2 for 8δ) and the certificate (allowed: γ)."
    ),
    defaults={"trials": 300, "blocks": 4, "points": 40_000},
    parts=lambda settings: [str(b) for b in range(settings["blocks"])],
    run=_run_fail,
    tables=_tables_fail,
    figure=lazily("marginalia.papers.reduced_space.figures", "failures"),
)


def _run_lemma(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Exact failure probability: independent bits, so a product of binomial laws."""
    import pandas as pd
    from scipy.stats import binom

    p, gamma, accuracy = int(part), settings["gamma"], settings["accuracy"]
    found = []
    for signed in (True, False):
        for repaired in (False, True):
            functions = p + 1  # the constant counts in |F|
            L = 2 * math.log(2 * functions / gamma) if repaired else math.log(functions / gamma)
            n = math.ceil(L / accuracy**2)
            width = accuracy / 2 if signed else accuracy  # ±1-valued averages move twice as fast as shares
            low, high = math.ceil(n * (0.5 - width)) - 1, math.floor(n * (0.5 + width))
            inside = binom.cdf(high, n, 0.5) - binom.cdf(low, n, 0.5)
            lemma = "repaired" if repaired else "as printed"
            found.append({"bits": p, "values": "±1" if signed else "0/1", "lemma": lemma, "n": n,
                          "allowed": gamma, "failure": 1 - inside**p})  # fmt: skip
    return pd.DataFrame(found)


LEMMA = Card(
    id="reduced_space_lemma",
    title="Reduced space: the sampling lemma's constant",
    caption=(
        "Exact probability that some average of fair bits errs by more than δ = 0.1 with the number of records that "
        "Lemma 3.2 asks for at γ = 0.1, as printed and with Hoeffding's constant for functions in [-1, 1]."
    ),
    defaults={"bits": (20, 210), "gamma": 0.1, "accuracy": 0.1},
    parts=lambda settings: [str(p) for p in settings["bits"]],
    run=_run_lemma,
    tables=lambda rows, settings: {"reduced_space_lemma": rows.reset_index(drop=True)},
    figure=lazily("marginalia.papers.reduced_space.figures", "lemma"),
)
