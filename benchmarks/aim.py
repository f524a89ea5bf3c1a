"""AIM and its graphical-model engine against the reference implementation (`mbi` 2.0.0): time, memory, error.

    python benchmarks/aim.py setup                  # make the reference's own environment, once
    python benchmarks/aim.py list                   # the cases
    python benchmarks/aim.py run                    # every case, both sides
    python benchmarks/aim.py run aim_eps1_80mb --only marginalia --seeds 1
    python benchmarks/aim.py report                 # docs/benchmarks.md and its figure, from the results

The environment variable MARGINALIA_MIRROR names the folder with the data. Every measurement runs in a process of its
own on one thread. A case's rows in ``results/aim.csv`` are replaced when it is run again, so an interrupted run is
resumed by naming the cases that are missing. See README.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from aim_report import COMPILED, NO_WORSE
from harness import RESULTS, Row, in_own_process, store

HERE = Path(__file__).parent
REFERENCE = "mbi 2.0.0"
OURS = "marginalia"
RESULT_FILE = RESULTS / "aim.csv"
REFERENCE_PYTHON = HERE.parent / ".venv-reference" / "bin" / "python"
DELTA = 1e-5


@dataclass(frozen=True)
class Settings:
    """What the command line chooses.

    Attributes
    ----------
    ours : bool
    reference : Path or None
        Interpreter of the reference environment; None leaves the reference out.
    seeds : int
    reference_seconds : float
        CPU seconds after which a run of the reference is stopped.
    """

    ours: bool
    reference: Path | None
    seeds: int
    reference_seconds: float

    def run_ours(self, task: str, **options: Any) -> dict[str, Any]:
        """Run a task of `aim_worker` in its own process."""
        return in_own_process([sys.executable, HERE / "aim_worker.py", task, json.dumps(options)])

    def run_reference(self, task: str, problem: Path, **options: Any) -> dict[str, Any]:
        """Run a task of `aim_reference` in its own process and environment."""
        assert self.reference is not None
        flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        return in_own_process([self.reference, HERE / "aim_reference.py", problem, task, *flags])


Case = Callable[[str, Settings, Path], list[Row]]


@dataclass(frozen=True)
class AimCase:
    """Whole AIM fits: means over seeds, and the reference's loop where asked for.

    Attributes
    ----------
    epsilon, max_model_mb, data, delta, order
        See `aim_worker.load` and `AIM`.
    seeds : int or None
        Where the command line does not say; None: as many as it says.
    reference : bool
        Whether the reference can be expected to do more than its first rounds.
    sample_rows : int
        If positive, this many rows are drawn, and the drawing is what is measured.
    """

    epsilon: float
    max_model_mb: float = 80
    data: str = "adult"
    delta: float = DELTA
    order: int = 2
    seeds: int | None = None
    reference: bool = False
    sample_rows: int = 0

    def __call__(self, name: str, settings: Settings, folder: Path) -> list[Row]:
        """Run the case; problem files go to `folder`."""
        rows = []
        fit = {"data": self.data, "epsilon": self.epsilon, "delta": self.delta, "max_model_mb": self.max_model_mb}
        fit["order"] = self.order
        if settings.ours:
            seeds = range(1, 1 + min(settings.seeds, self.seeds or settings.seeds))
            runs = [settings.run_ours("aim", **fit, seed=s, sample_rows=self.sample_rows) for s in seeds]
            rows.append(self._row(name, runs))
        if self.reference and settings.reference:
            problem = folder / "rows.npz"
            settings.run_ours("rows", path=str(problem), **fit, seed=1, seconds=settings.reference_seconds)
            ours = rows or [r for r in Row.read_all(RESULT_FILE) if (r.case, r.implementation) == (name, OURS)]
            if not ours:
                raise SystemExit(f"run '{name} --only marginalia' first: extrapolating needs our number of rounds")
            # Our notes begin "5 seeds, 38 rounds".
            expected = int(ours[0].note.split(", ")[1].split()[0])
            rows.append(reference_row(name, settings.run_reference("aim", problem), expected))
        return rows

    def _row(self, name: str, runs: Sequence[dict[str, Any]]) -> Row:
        rounds = [r["rounds"] for r in runs]
        errors = np.array([r["quality"] for r in runs])
        note = f"{len(runs)} seeds, {np.mean(rounds):.0f} rounds" if len(runs) > 1 else f"1 seed, {rounds[0]} rounds"
        if len(runs) > 1:
            note += f", standard error of the quality {errors.std(ddof=1) / len(runs) ** 0.5:.2g}"
        if self.sample_rows:
            note += f"; only the drawing of {self.sample_rows:,} rows is measured, against the model"
        cpu, wall = (float(np.mean([r[key] for r in runs])) for key in ("cpu", "wall"))
        peak = max(r["peak_mb"] for r in runs)
        return Row(name, OURS, cpu, wall, peak, float(errors.mean()), "workload_error", note)


def reference_row(name: str, run: dict[str, Any], expected: int) -> Row:
    """Return the row of a run of the reference's AIM, extrapolated to `expected` rounds if it was cut short."""
    done = len(run["rounds"])
    if run["finished"]:
        quality, note = run["workload_error"], f"1 seed, {done} rounds of 1000 iterations"
        return Row(name, REFERENCE, run["cpu"], run["wall"], run["peak_mb"], quality, "workload_error", note)
    expected = max(done, expected)
    costs = np.diff([0.0, *(r["cpu"] for r in run["rounds"])])
    # Models grow over the rounds: the mean of the last three is a low guess for the rounds that are missing.
    recent = float(costs[-3:].mean())
    cpu = run["cpu"] + (expected - done) * recent
    note = (
        f"EXTRAPOLATED from {done} of {expected} rounds (the number ours takes), stopped after {run['cpu']:.0f} CPU-s; "
        f"the missing ones at {recent:.0f} CPU-s each, the mean of the last three"
    )
    wall = run["wall"] * cpu / run["cpu"]
    return Row(name, REFERENCE, cpu, wall, run["peak_mb"], float("nan"), "workload_error", note)


@dataclass(frozen=True)
class EngineCase:
    """The same measurements for both sides: one inference pass, and a fit from a cold start.

    Attributes
    ----------
    aim : AimCase or None
        The run whose selected marginals give the structure; None: ten small marginals with two cycles.
    fit : bool
        Whether to fit too; where one pass of the reference takes seconds, its 1000 iterations are left out.
    repeats : int
        Passes timed.
    seeds : int
        Draws of the measurements' noise: every number of a fit is a mean over them.
    """

    aim: AimCase | None
    fit: bool = True
    repeats: int = 50
    seeds: int = 3

    def __call__(self, name: str, settings: Settings, folder: Path) -> list[Row]:
        """Run the case; problem files go to `folder`."""
        problems = [folder / f"problem_{seed}.npz" for seed in range(self.seeds if self.fit else 1)]
        for seed, problem in enumerate(problems):
            if self.aim is None:
                made = settings.run_ours("small_structure", path=str(problem), data="adult", noise_seed=seed)
            else:
                a = self.aim
                fit = {"data": a.data, "epsilon": a.epsilon, "delta": a.delta, "max_model_mb": a.max_model_mb}
                made = settings.run_ours("structure", path=str(problem), **fit, order=a.order, seed=1, noise_seed=seed)
        rows = self._passes(name, settings, problems[0], made["megabytes"])
        return rows + self._fits(name, settings, problems) if self.fit else rows

    def _passes(self, name: str, settings: Settings, problem: Path, megabytes: float) -> list[Row]:
        sides = []
        if settings.ours:
            sides.append((OURS, settings.run_ours("pass", path=str(problem), repeats=self.repeats)))
        if settings.reference:
            sides.append((REFERENCE, settings.run_reference("pass", problem, repeats=self.repeats)))
        return [
            Row(
                name,
                side,
                run["cpu"],
                run["wall"],
                run["peak_mb"],
                megabytes,
                "model_mb",
                f"one inference pass; before the first one {run['compile_cpu']:.2g} CPU-s to compile the structure",
            )
            for side, run in sides
        ]

    def _fits(self, name: str, settings: Settings, problems: Sequence[Path]) -> list[Row]:
        """Return fits of both sides, means over draws of the noise.

        Of the reference as it runs, which compiles a program for every structure, and by what its iterations after the
        first 50 take, as if it were compiled.
        """
        rows, targets = [], None
        drawn = f"{len(problems)} seed{'s' * (len(problems) > 1)}"
        if settings.reference:
            limits = {"iterations": 4000, "seconds": settings.reference_seconds}
            runs = [settings.run_reference("estimate", problem, **limits) for problem in problems]
            curves = [run["curve"] for run in runs]
            for at in (1000, 4000):
                if min(map(len, curves)) >= at // 50:
                    seen = [curve[at // 50 - 1] for curve in curves]
                    mean = [sum(column) / len(seen) for column in zip(*seen, strict=True)]
                    note = f"fit, {at} iterations, compilation included, {drawn}"
                    rows.append(Row(name, REFERENCE, mean[0], mean[1], runs[0]["peak_mb"], mean[2], "objective", note))
            if rows:
                targets = [curve[19][2] for curve in curves]
                later = [[(c[19][k] - c[0][k]) / 950 * 1000 for k in (0, 1)] for c in curves]
                cpu, wall = (sum(column) / len(later) for column in zip(*later, strict=True))
                note = f"fit, 1000 iterations, {COMPILED}, {drawn}"
                rows.append(Row(name, REFERENCE, cpu, wall, rows[0].peak_mb, rows[0].quality, "objective", note))
        if settings.ours:
            reached = False
            for stop in ("round, quick", "round, tight", "final"):
                runs = [settings.run_ours("estimate", path=str(problem), settings=stop) for problem in problems]
                cpu, wall, passes, quality = (
                    sum(run[key] for run in runs) / len(runs) for key in ("cpu", "wall", "passes", "quality")
                )
                note = f"fit, stopping rules '{stop}', {passes:.0f} passes, {drawn}"
                if targets and not reached and all(r["quality"] <= t for r, t in zip(runs, targets, strict=True)):
                    reached = True
                    note += f"; {NO_WORSE}"
                rows.append(Row(name, OURS, cpu, wall, runs[0]["peak_mb"], quality, "objective", note))
        return rows


def _dpml(name: str, n_rows: int, **more: Any) -> AimCase:
    """Return a case of the excess-risk paper: all 4-way marginals, delta = 1/n²."""
    return AimCase(2.0, 100, f"dpml/{name}", delta=n_rows**-2.0, order=4, seeds=3, **more)


CASES: dict[str, Case] = {
    "aim_eps0.05_80mb": AimCase(0.05, reference=True),
    "aim_eps1_80mb": AimCase(1.0, reference=True),
    "aim_eps2_80mb": AimCase(2.0),
    "aim_eps2_200mb": AimCase(2.0, 200),
    "aim_4way_compas": _dpml("compas", 7214, reference=True),
    "aim_4way_adult": _dpml("adult", 48842),
    "aim_4way_churn": _dpml("churn", 4824),
    "aim_4way_dutch": _dpml("dutch", 60420),
    "aim_4way_heart": _dpml("heart", 303),
    "aim_4way_law": _dpml("law", 20798),
    "engine_small": EngineCase(None),
    "engine_eps0.05_80mb": EngineCase(AimCase(0.05)),
    "engine_eps1_80mb": EngineCase(AimCase(1.0), repeats=20, seeds=1),
    "engine_eps2_200mb": EngineCase(AimCase(2.0, 200), fit=False, repeats=3),
    **{f"rows_{n}": AimCase(1.0, data=f"adult*{n}", seeds=3) for n in (10_000, 100_000, 1_000_000)},
    # The noise in a count grows with n as the counts do: the mechanism then takes the same decisions at every n.
    **{f"same_noise_{n}": AimCase(47_842 / n, data=f"adult*{n}", seeds=3) for n in (10_000, 100_000, 1_000_000)},
    **{f"attributes_{d}": AimCase(1.0, data=f"tree/{d}/50000", seeds=3 if d < 40 else 1) for d in (5, 10, 20, 40)},
    **{f"epsilon_{e}": AimCase(e, seeds=3) for e in (0.1, 0.5, 5.0)},
    **{f"model_{mb}mb": AimCase(2.0, mb, seeds=3) for mb in (5, 20, 400)},
    "sample_1e6": AimCase(1.0, seeds=3, sample_rows=1_000_000),
}


def run(names: Sequence[str], settings: Settings) -> None:
    """Run cases and store their rows as they come; a case that fails is named at the end."""
    failed = []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            with tempfile.TemporaryDirectory() as folder:
                rows = CASES[name](name, settings, Path(folder))
        except RuntimeError as error:
            print(f"  {error}", file=sys.stderr, flush=True)
            failed.append(name)
            continue
        store(RESULT_FILE, rows, list(CASES))
        for row in rows:
            print(
                f"  {row.implementation:12s} {row.cpu_seconds:10.4g} CPU-s {row.peak_mb:7.0f} MB "
                f"{row.quality_name} {row.quality:.5g}  {row.note}",
                file=sys.stderr,
                flush=True,
            )
    if failed:
        raise SystemExit(f"failed: {' '.join(failed)}")


def setup(python: Path) -> None:
    """Make the reference's environment."""
    folder = python.parent.parent
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "mbi==2.0.0", "jax"], check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="print the cases")
    verbs.add_parser("report", help="write docs/benchmarks.md and its figure from the results")
    make = verbs.add_parser("setup", help="make the reference's environment")
    go = verbs.add_parser("run", help="run cases")
    go.add_argument("case", nargs="*", help="default: all")
    go.add_argument("--only", choices=["marginalia", "reference"], help="one side only")
    go.add_argument("--seeds", type=int, default=5)
    go.add_argument("--reference-seconds", type=float, default=1800.0, help="CPU limit of a run of the reference")
    for verb in (make, go):
        verb.add_argument("--reference-python", type=Path, default=REFERENCE_PYTHON)
    chosen = parser.parse_args(arguments)
    if chosen.verb == "list":
        print("\n".join(CASES))
    elif chosen.verb == "setup":
        setup(chosen.reference_python)
    elif chosen.verb == "report":
        from aim_report import write_report

        write_report(RESULT_FILE)
    else:
        unknown = [c for c in chosen.case if c not in CASES]
        if unknown:
            parser.error(f"unknown case '{unknown[0]}'; 'list' prints them")
        reference = None if chosen.only == "marginalia" else chosen.reference_python
        if reference is not None and not reference.exists():
            parser.error(f"there is no reference environment at {reference}; run 'setup', or --only marginalia")
        settings = Settings(chosen.only != "reference", reference, chosen.seeds, chosen.reference_seconds)
        run(chosen.case or list(CASES), settings)


if __name__ == "__main__":
    main()
