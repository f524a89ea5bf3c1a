"""Whether what is drawn has the law that is charged: noise, linear terms, selections, numbers of runs, grids of output.

Each statistical check raises a false alarm with a probability of at most `FALSE_ALARM`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from marginalia.audit.findings import Finding
from marginalia.audit.loss import laws_of
from marginalia.audit.tables import SyntheticTable
from marginalia.audit.tape import Release, StopReplay, Tape, play
from marginalia.data.encoding import Encoder
from marginalia.learning.rows import shrink_rows
from marginalia.privacy.events import RandomStoppingEvent
from marginalia.privacy.mechanisms.hooks import Exact, MechanismCall, intercepting
from marginalia.privacy.mechanisms.noise_grid import NoiseGrid

FALSE_ALARM = 1e-6
_ENOUGH_NOISE = 40  # draws, below which the noise of a fit says nothing
_SELECTIONS = 400  # repetitions of one selection
Array = NDArray[np.float64]


def noise_of(releases: Sequence[Release]) -> dict[str, Array]:
    """Return the noise of recorded releases in units of its scale, for each kind of additive mechanism."""
    noise: dict[str, list[Array]] = {"gaussian": [], "laplace": []}
    for release in releases:
        if isinstance(release.exact, np.ndarray) and release.call.mechanism in noise:
            drawn = np.asarray(release.value, dtype=np.float64) - release.exact * release.call.quantum
            noise[release.call.mechanism].append(np.ravel(drawn) / release.call.scale)
        elif release.call.mechanism == "partition" and isinstance(release.exact, dict):
            noise["gaussian"].append(_shown_noise(release.call, release.exact, release.value))
    return {kind: np.concatenate(parts) for kind, parts in noise.items() if parts}


def _shown_noise(call: MechanismCall, exact: dict[str, int], shown: dict[str, float]) -> Array:
    """Return the noise of categories that are shown, in units of its scale: cut at the threshold, and stretched back.

    Noise above a value c is normal above c; by its quantiles there it becomes a whole normal law again. A value without
    any noise stays one.
    """
    counts = np.array([exact.get(name, 0) for name in shown], dtype=np.float64)
    z = (np.array(list(shown.values())) - counts) / call.scale
    above = stats.norm.sf((call.threshold - counts) / call.scale)
    return np.where(z == 0, 0.0, stats.norm.isf(np.clip(stats.norm.sf(z) / above, 0.0, 1.0)))


def partition_findings(fit: Callable[[], Any]) -> Iterator[Finding]:
    """Yield whether each category of a fit's partitions, repeated, is shown as often as its count and noise say.

    And none below the threshold, nor in another order than the alphabet's.
    """
    partitions: list[tuple[MechanismCall, dict[str, int], list[dict[str, float]]]] = []

    def repeat(call: MechanismCall, exact: Exact, draw: Callable[[], Any]) -> Any:
        if call.mechanism != "partition":
            return draw()
        drawn = [draw() for _ in range(_SELECTIONS)]
        partitions.append((call, dict(exact()), drawn))
        return drawn[0]

    with intercepting(repeat):
        fit()
    for call, exact, drawn in partitions:
        where = f"categories '{call.label}'"
        if low := [count for shown in drawn for count in shown.values() if count < call.threshold]:
            yield Finding("law", where, f"one is shown at {min(low):.6g}, below the threshold of {call.threshold:.6g}")
        if any(list(shown) != sorted(shown) for shown in drawn):
            yield Finding("leak", where, "their order is not that of the alphabet: it may tell of the rows")
        for name, count in exact.items():
            times = sum(name in shown for shown in drawn)
            chance = float(stats.norm.sf((call.threshold - count) / call.scale))
            p = stats.binomtest(times, len(drawn), chance).pvalue
            if p < FALSE_ALARM / len(exact):
                what = f"one of {count} rows is shown {times} times of {len(drawn)} (p = {p:.1g})"
                yield Finding("law", where, what)
                break


def noise_findings(noise: dict[str, Array]) -> Iterator[Finding]:
    """Yield how noise in units of its declared scale differs from the law: Kolmogorov-Smirnov, and its variance."""
    for kind, z in noise.items():
        if z.size < _ENOUGH_NOISE:
            continue
        law = stats.laplace if kind == "laplace" else stats.norm
        where = f"{'linear terms' if kind == 'linear term' else f'noise of {kind} releases'} ({z.size} draws)"
        if np.count_nonzero(z == 0) >= 2:
            yield Finding("law", where, f"{np.count_nonzero(z == 0)} values were released without any noise")
        elif z.size - np.unique(z).size >= 3:
            yield Finding("randomness", where, f"{z.size - np.unique(z).size} of them repeat others to the last bit")
        elif (p := stats.kstest(z, law.cdf).pvalue) < FALSE_ALARM:
            yield Finding("law", where, f"its spread is {_spread(kind, z):.3g} times the declared one (p = {p:.1g})")
        else:  # |z| of a Laplace is exponential: twice its sum is chi-square too
            total, degrees = ((z**2).sum(), z.size) if kind != "laplace" else (2 * np.abs(z).sum(), 2 * z.size)
            p = 2 * min(stats.chi2.cdf(total, degrees), stats.chi2.sf(total, degrees))
            if p < FALSE_ALARM:
                yield Finding(
                    "law", where, f"its spread is {_spread(kind, z):.3g} times the declared one (p = {p:.1g})"
                )


def _spread(kind: str, z: Array) -> float:
    return math.sqrt(float((z**2).mean())) if kind != "laplace" else float(np.abs(z).mean())


def lattice_findings(releases: Sequence[Release]) -> Iterator[Finding]:
    """Yield where an output is off the public grid of its release, or not all residues of the grid occur."""
    residues: list[NDArray[np.int64]] = []
    for release in releases:
        call = release.call
        if call.mechanism not in ("gaussian", "laplace"):
            continue
        size = max(1, int(np.prod(call.shape)))
        norm = math.sqrt(size) if call.mechanism == "gaussian" else size
        grid = NoiseGrid.of(call.scale, quantum=call.quantum, sensitivity=call.sensitivity, norm=norm)
        places = np.ravel(np.asarray(release.value, dtype=np.float64)) / grid.step  # exact: the step is a power of two
        if (places != np.floor(places)).any():
            share = float((places != np.floor(places)).mean())
            yield Finding(
                "grid", f"{call.mechanism} release '{call.label}'", f"{share:.0%} of outputs are off the grid"
            )
            return
        small = np.abs(places) < 2.0**52
        residues.append(np.mod(places[small], 8).astype(np.int64))
    outputs = np.concatenate(residues) if residues else np.empty(0, np.int64)
    if outputs.size >= 200:
        p = stats.chisquare(np.bincount(outputs, minlength=8)).pvalue
        if p < FALSE_ALARM:
            yield Finding(
                "grid", f"{outputs.size} outputs", f"not all places of the grid are equally likely (p = {p:.1g})"
            )


def selection_findings(fit: Callable[[], Any], at: int) -> Iterator[Finding]:
    """Yield whether selection number `at` of a fit, repeated, has the law of its exponents (chi-square)."""
    seen = 0
    selections: list[tuple[MechanismCall, Any, Any]] = []

    def repeat(call: MechanismCall, exact: Exact, draw: Callable[[], Any]) -> Any:
        nonlocal seen
        if call.mechanism != "exponential" or (seen := seen + 1) <= at:
            return draw()
        counts = np.bincount([int(draw()) for _ in range(_SELECTIONS)], minlength=call.shape[0])
        selections.append((call, np.exp(laws_of(call, np.asarray(exact()))), counts))
        raise StopReplay

    with intercepting(repeat), contextlib.suppress(StopReplay):
        fit()
    for call, law, drawn in selections:
        p = _chi_square(drawn, law)
        if p < FALSE_ALARM:
            yield Finding(
                "law", f"selection '{call.label}'", f"{_SELECTIONS} draws do not follow its exponents (p = {p:.1g})"
            )


def _chi_square(counts: NDArray[np.int64], law: Array) -> float:
    """Return the p-value of counts, outcomes of fewer than 5 expected put together."""
    expected = law * counts.sum()
    rare = expected < 5
    if rare.any():
        counts, expected = (np.append(a[~rare], a[rare].sum()) for a in (counts, expected))
    if expected[-1] < 5 and rare.any():  # what is left is too rare for the law of the statistic: an exact tail
        tail = float(stats.binom.sf(counts[-1] - 1, counts.sum(), min(1.0, expected[-1] / counts.sum())))
        if tail < FALSE_ALARM:
            return tail
        counts, expected = counts[:-1], expected[:-1]
    if counts.size < 2:
        return 1.0
    return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


def run_findings(fit: Callable[[int], Any], r: float, seeds: int) -> Iterator[Finding]:
    """Yield whether the numbers of runs of a private selection follow their geometric law, and none is hidden.

    Parameters
    ----------
    fit : callable
        ``fit(seed)``.
    r : float
        Of the geometric law that is charged.
    """
    drawn = []
    for seed in range(seeds):
        tape = Tape()
        if play(partial(fit, seed), tape).model is None:
            return
        scores = [r.call.shape[0] for r in tape.releases if len(r.call.shape) == 1]
        runs = scores[-1] if scores else 0
        if tape.runs and runs != sum(tape.runs):
            yield Finding("runs", f"seed {seed}", f"{sum(tape.runs)} runs are charged for and {runs} were made")
            return
        drawn.append(runs)
    counts = np.bincount(drawn)[1:] if drawn else np.empty(0, np.int64)
    law = r * (1 - r) ** np.arange(counts.size)
    p = _chi_square(np.append(counts, 0), np.append(law, max(0.0, 1 - law.sum())))
    if p < FALSE_ALARM:
        mean = float(np.mean(drawn))
        yield Finding(
            "runs", f"{seeds} seeds", f"{mean:.3g} runs on average, charged for 1/r = {1 / r:.3g} (p = {p:.1g})"
        )


def stopping_rate(ledger: Any) -> float | None:
    """Return r of the ledger's random stopping, if there is one."""
    rates = [event.r for event in ledger.events if isinstance(event, RandomStoppingEvent)]
    return rates[0] if rates else None


def linear_term(call: MechanismCall, theta: Array, made: SyntheticTable) -> Array:
    """Return b for which `theta` minimises Σ ln(1 + exp(-y·<x, θ>)) + regulariser/2·‖θ‖² + <b, θ> on made-up rows.

    Given theta it is a function of the rows: neighbours' may be no further apart than the bound of a row (add/remove),
    and over the noise it has the law N(0, sigma² I).
    """
    if made.frame.domain is not None:
        encoder = Encoder(made.frame.domain, made.frame.target(made.task), one_hot=made.frame.one_hot)
        X, y = encoder.transform(made.coded), encoder.target_values(made.coded, "logistic")
    else:
        X, y = made.arrays
        X = shrink_rows(X, call.sensitivity)
    signed = X * y[:, None]
    return np.asarray(signed.T @ expit(-signed @ theta) - call.quantum * theta)
