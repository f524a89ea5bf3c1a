"""The graphical-model engine: exact inference, estimation from noisy marginals, sampling.

Public names (stable):

``Measurement(attributes, values, sigma)``
    a noisy marginal; `values` has the attributes' sizes as shape, in the order given.
``estimate(domain, measurements, *, total=None, warm_start=None, settings=FINAL) -> GraphicalModel``
    fit a model; ``.report`` tells loss, gap, passes. ``FitSettings`` holds the stopping rules
    (``FINAL``, ``ROUND_TIGHT``, ``ROUND_QUICK``).
``estimate_total(measurements) -> float``
    inverse-variance estimate of the number of records.
``GraphicalModel``
    ``.marginal(attributes)`` (expected counts, axes in the order given), ``.sample(n_rows, rng)``, ``.total``,
    ``.cliques``, ``.domain``, ``.save(path)`` / ``.load(path)``, ``.state()`` / ``.from_state(domain, state)``.
``Workload.parse(workload, domain, max_cells=None)``
    ``.cliques`` (attribute positions), ``.weights``, ``.closure()``, ``.names(domain)``; ``marginal_errors``.
``eliminate(cliques, sizes)``, ``megabytes_with(cliques, candidates, sizes)``
    greedy elimination and the papers' MAX-SIZE rule.
``predict_cost(domain, cliques) -> Cost``
    cells, bytes and seconds of one inference pass before anything is fitted.
"""

from marginalia.marginals.cost import Cost, predict_cost
from marginalia.marginals.elimination import eliminate, megabytes_with
from marginalia.marginals.estimation import Measurement, estimate, estimate_total
from marginalia.marginals.fitting import FINAL, ROUND_QUICK, ROUND_TIGHT, FitReport, FitSettings
from marginalia.marginals.model import GraphicalModel
from marginalia.marginals.workload import Workload, marginal_errors

__all__ = [
    "FINAL",
    "ROUND_QUICK",
    "ROUND_TIGHT",
    "Cost",
    "FitReport",
    "FitSettings",
    "GraphicalModel",
    "Measurement",
    "Workload",
    "eliminate",
    "estimate",
    "estimate_total",
    "marginal_errors",
    "megabytes_with",
    "predict_cost",
]
