"""Run by the Python of a peer's environment: ``python peer_tape.py ADAPTER.py FOLDER``. It must not import marginalia.

Fits an adapter's method to the first of some tables and records each value to which its library adds noise; then fits
it to the others, and puts into the place of the noise what makes them release the same. The library is not edited: its
sources of noise are replaced from outside, and what they are added to is read from the frame that asks for them.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "src" / "marginalia" / "peers"))
from harness import load, matrix, read  # type: ignore[import-not-found]

ITERATIONS = 50  # of an estimate from what was released: no privacy depends on it, and thousands take minutes
GRID = 2.0**-20  # of released counts: whole numbers and these add up without rounding


class Tape:
    """What one fit releases; with `forced`, what an earlier one did."""

    def __init__(self, seed: Any, forced: Any = None) -> None:
        self.rng, self.forced = np.random.default_rng(seed), forced
        self.steps: list[dict[str, Any]] = []

    def noise(self, kind: Any, scale: Any, exact: Any, draw: Any) -> Any:
        """Return the noise of a release: drawn, or such that the sum is the recorded one."""
        exact = np.array(exact, dtype=float)
        released = self._recorded(kind)
        if released is None:
            released = exact + np.round(draw(exact.shape) / GRID) * GRID
        elif released.shape != exact.shape:
            raise DivergedError(f"releases {exact.size} values instead of {released.size}")
        self.steps.append({"kind": kind, "scale": float(scale), "exact": exact, "released": released})
        return released - exact

    def gaussian(self, scale: Any, exact: Any) -> Any:
        """Return Gaussian noise."""
        return self.noise("gaussian", scale, exact, lambda shape: self.rng.normal(0.0, scale, shape))

    def select(self, log_p: Any) -> Any:
        """Return the choice of a selection with these log-probabilities."""
        chosen = self._recorded("selection")
        if chosen is None:
            chosen = int((log_p + self.rng.gumbel(size=len(log_p))).argmax())
        self.steps.append({"kind": "selection", "scale": 1.0, "exact": np.array(log_p), "released": chosen})
        return chosen

    def _recorded(self, kind: Any) -> Any:
        if self.forced is None:
            return None
        if len(self.steps) >= len(self.forced) or self.forced[len(self.steps)]["kind"] != kind:
            raise DivergedError("releases another number of times, or by another mechanism")
        return self.forced[len(self.steps)]["released"]


class DivergedError(Exception):
    """A fit asked for other releases than the recorded ones."""


def caller(depth: Any = 2) -> Any:
    """Return name and variables of the function that asks for noise."""
    frame = sys._getframe(depth)
    return frame.f_code.co_name, frame.f_locals


def chooser(tape: Any, original: Any) -> Any:
    """Return what stands for NumPy's ``choice``: selections of a mechanism are recorded, other draws are not."""

    def choice(*given: Any, **named: Any) -> Any:
        if "p" not in named or caller()[0] not in ("exponential_mechanism", "select"):
            return original(*given, **named)
        chosen = tape.select(np.log(np.maximum(named["p"], np.finfo(float).tiny)))
        return chosen if named.get("size") is None else np.array([chosen])

    return choice


def dpmm(tape: Any) -> Any:
    """Counts get ``x + gaussian_noise(sigma, size)``; selections are ``prng.choice(..., p=p)``."""
    from dpmm.models import aim, mst  # type: ignore[import-not-found]
    from dpmm.models.base.mechanisms import mechanism  # type: ignore[import-not-found]

    estimator = mechanism.FactoredInference
    for module in (aim, mst, mechanism):
        module.gaussian_noise = lambda sigma, size=None: tape.gaussian(sigma, caller()[1]["x"])
        module.FactoredInference = lambda *given, **named: estimator(*given, **{**named, "iters": ITERATIONS})
    state = np.random.RandomState
    chosen = {"choice": chooser(tape, state.choice)}
    return [(np.random, "RandomState", type("RandomState", (state,), chosen))]


def smartnoise(tape: Any) -> Any:
    """As dpmm, whose code comes from the same script; selections draw from NumPy's global state."""
    from mbi import estimation  # type: ignore[import-not-found]
    from snsynth.aim import aim  # type: ignore[import-not-found]
    from snsynth.mst import mst  # type: ignore[import-not-found]

    estimate = estimation.mirror_descent
    for module in (aim, mst):
        module.gaussian_noise = lambda sigma, size=None: tape.gaussian(sigma, caller()[1]["x"])
    short = lambda *given, **named: estimate(*given, **{**named, "iters": ITERATIONS})  # noqa: E731
    return [(np.random, "choice", chooser(tape, np.random.choice)), (estimation, "mirror_descent", short)]


def mbi(tape: Any) -> Any:
    """The script draws from a generator: ``true[q] + rng.normal(...)``, and the largest of scores and Gumbels."""

    class Generator(np.random.Generator):
        def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
            here = caller()[1]
            return tape.gaussian(scale, here["true"][here["q"]])

        def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
            here = caller()[1]
            scores = here["epsilon"] / 2 / max(here["score"][q] for q in here["free"]) * np.array(here["gain"])
            return np.where(np.arange(size) == tape.select(scores - np.logaddexp.reduce(scores)), 1e12, 0.0)

    return [(np.random, "default_rng", lambda seed: Generator(np.random.PCG64(seed)))]


def diffprivlib(tape: Any) -> Any:
    """Of the linear model all mechanisms are Laplace's; some fold afterwards what is below 0."""
    from diffprivlib.mechanisms import Laplace  # type: ignore[import-not-found]

    def randomise(self: Any, value: Any) -> Any:
        scale = self.sensitivity / (self.epsilon - np.log(1 - self.delta))
        return float(value + tape.noise("laplace", scale, value, lambda shape: tape.rng.laplace(0.0, scale, shape)))

    return [(Laplace, "randomise", randomise)]


def interpret(tape: Any) -> Any:
    """Histograms of columns, then in each step sums of residuals: the noise comes from its compiled part."""
    from interpret.utils._native import Native  # type: ignore[import-not-found]

    def generate_gaussian_random(self: Any, rng: Any, stddev: Any, count: Any) -> Any:
        where, here = caller()
        if where == "boost":
            exact = np.array([here["term_update_tensor"][first] for first in here["splits_iter"][:-1]])
        else:
            exact = here["uniform_weights"] if where == "private_numeric_binning" else here["weights"]
        return tape.gaussian(stddev, exact)

    return [(Native, "generate_gaussian_random", generate_gaussian_random)]


SOURCES = {source.__name__: source for source in (dpmm, smartnoise, mbi, diffprivlib, interpret)}


def play(adapter: Any, sources: Any, request: Any, tables: Any, forced: Any) -> Any:
    """Fit to one table; return what was released, what is shown besides, and why it ended."""
    tape = Tape(request["seed"], forced)
    given = SimpleNamespace(**{**request, "columns": dict(tables)})
    if request["task"]:
        given.y = given.columns.pop("y")
        given.X = matrix(given.columns)
    replaced = [(owner, name, getattr(owner, name), by) for owner, name, by in sources(tape)]
    try:
        for owner, name, _, by in replaced:
            setattr(owner, name, by)
        made, ended = adapter.fit(given), ""
    except DivergedError as error:
        return tape.steps, None, str(error)
    finally:
        for owner, name, before, _ in replaced:
            setattr(owner, name, before)
    if request["task"]:
        return tape.steps, np.asarray(adapter.predict(made, np.array(request["grid"])), dtype=float), ended
    return tape.steps, np.column_stack([np.asarray(made[name]) for name in given.columns]), ended


def main() -> None:
    """Play the first table, then the others against it."""
    folder = Path(sys.argv[2])
    request = json.loads((folder / "request.json").read_text())
    request["domain"] = json.loads((folder / "domain.json").read_text())
    tables = [read(folder / f"rows-{number}.parquet") for number in range(request["tables"])]
    adapter, sources = load(sys.argv[1]), SOURCES[request["library"]]
    first, shown, _ = play(adapter, sources, request, tables[0], None)
    found = []
    for table in tables[1:]:
        steps, other, diverged = play(adapter, sources, request, table, first)
        if len(steps) < len(first) and not diverged:
            diverged = "releases another number of times, or by another mechanism"
        same = other is not None and other.shape == shown.shape and bool(np.allclose(other, shown, atol=1e-7))
        laws = [[s["kind"], s["scale"], o["scale"], np.ravel(s["exact"]).tolist(), np.ravel(o["exact"]).tolist()]
                for s, o in zip(first, steps, strict=False)]  # fmt: skip
        found.append({"laws": laws, "same": same, "diverged": diverged})
    (folder / "answer.json").write_text(json.dumps({"releases": len(first), "pairs": found}))


if __name__ == "__main__":
    main()
