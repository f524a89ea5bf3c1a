"""Adapter for mbi: the AIM loop of its ``mechanisms/aim.py`` (McKenna et al. 2022), on the interface of mbi 2.0.

Add/remove, as that script: one row changes a marginal by 1. Other than in that script pairs of any size are candidates
(there: up to 10,000 cells), answered without compiling a program for each; compiled programs are dropped now and then.
"""

import itertools

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)  # before mbi: float32 loses mass on wide potentials
from mbi import Dataset, Domain, LinearMeasurement, estimation, junction_tree  # noqa: E402

DISTRIBUTION = "mbi"
METHODS = {"aim": {"tasks": [], "relations": ["add_remove"], "about": "AIM on mbi, all pairs, 80 MB"}}


def rho_of(epsilon, delta):
    """Return the largest zCDP budget with the conversion of Canonne, Kamath and Steinke (2020)."""
    alphas, low, high = 1 + np.geomspace(1e-2, 1e4, 4000), 0.0, epsilon + 1
    for _ in range(100):
        rho = (low + high) / 2
        bound = (alphas - 1) * (alphas * rho - epsilon) + alphas * np.log1p(-1 / alphas) - np.log(alphas - 1)
        low, high = (rho, high) if bound.min() <= np.log(delta) else (low, rho)
    return low


def fit(request):
    """Return synthetic codes."""
    rng, names = np.random.default_rng(request.seed), list(request.columns)
    domain = Domain(names, [request.sizes[name] for name in names])
    data, rho = Dataset(request.columns, domain), rho_of(request.epsilon, request.delta)
    pairs = list(itertools.combinations(names, 2))
    score = {(n,): float(len(names) - 1) for n in names} | {p: float(2 * len(names) - 2) for p in pairs}
    true = {q: np.asarray(data.project(q).datavector(), float) for q in score}
    rounds, size = 16 * len(names), junction_tree.hypothetical_model_size
    sigma, epsilon = np.sqrt(rounds / (1.8 * rho)), np.sqrt(0.8 * rho / rounds)
    noisy = lambda q: LinearMeasurement(true[q] + rng.normal(0, sigma, true[q].size), q, float(sigma))  # noqa: E731
    seen, solver = [noisy((n,)) for n in names], estimation.MirrorDescent()
    used, last, model = len(names) * 0.5 / sigma**2, False, solver.estimate(domain, seen, iters=1000)
    answer = jax.disable_jit()(lambda q: np.asarray(model.project(q).datavector()))
    while not last:
        if rho - used < 2 * (0.5 / sigma**2 + epsilon**2 / 8):
            sigma, epsilon, last = np.sqrt(1 / (1.8 * (rho - used))), np.sqrt(0.8 * (rho - used)), True
        used += epsilon**2 / 8 + 0.5 / sigma**2
        held, limit = list(model.cliques), 80 * used / rho
        free = [q for q in score if any(set(q) <= set(c) for c in held) or size(domain, [*held, q]) <= limit]
        gain = [score[q] * (abs(true[q] - answer(q)).sum() - np.sqrt(2 / np.pi) * sigma * true[q].size) for q in free]
        chances = 0.5 * epsilon / max(score[q] for q in free) * np.array(gain) + rng.gumbel(size=len(free))
        best = free[int(chances.argmax())]
        seen.append(noisy(best))
        before = answer(best)
        if len(seen) % 16 == 0:
            jax.clear_caches()
        model = solver.estimate(domain, seen, iters=1000, warm_start=model)
        if abs(answer(best) - before).sum() <= np.sqrt(2 / np.pi) * sigma * before.size:
            sigma, epsilon = sigma / 2, epsilon * 2
    np.random.seed(request.seed)  # noqa: NPY002 (rows are drawn from the global state)
    return {name: np.asarray(codes) for name, codes in model.synthetic_data(request.rows).to_dict().items()}
