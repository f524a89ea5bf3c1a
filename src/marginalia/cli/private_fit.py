"""What the verbs that fit private rows share: options, the budget file, what they say of the rows and of privacy."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia.cli.shared import (
    Answer,
    DeltaOption,
    EpsilonOption,
    RelationOption,
    SeedOption,
    read_rows,
)
from marginalia.errors import one_line, unknown_name
from marginalia.progress import say_when_compiling, showing

if TYPE_CHECKING:
    from marginalia.data.domain import Domain
    from marginalia.methods.fit import Budget
    from marginalia.privacy.ledger import Ledger

UnitOption = Annotated[
    str | None, typer.Option("--unit", help="Column that names the person or household of each row: all its rows.")
]
RowsPerUnit = Annotated[
    int | None, typer.Option("--rows-per-unit", min=1, help="Most rows of one unit that are kept; default: 1.")
]
Share = Annotated[
    float | None,
    typer.Option("--preprocessing-share", help="Part of the budget for private labels and edges; default: 0.1."),
]
BudgetFile = Annotated[
    Path | None,
    typer.Option("--budget", help="Budget file of the table, in which the release is entered; see budget open."),
]


@dataclass(frozen=True, kw_only=True)
class PrivacyOptions:
    """The options that say what is promised, and to whom."""

    epsilon: EpsilonOption
    delta: DeltaOption = 1e-5
    relation: RelationOption = "replace_one"
    unit: UnitOption = None
    rows_per_unit: RowsPerUnit = None

    def check(self) -> None:
        """Raise for a budget that protects nobody or that no accountant can keep, and for an unknown relation."""
        from marginalia.privacy import checks
        from marginalia.privacy.relation import Relation

        checks.budget(self.epsilon, self.delta, pure=True)  # whether a method is pure it says itself
        if self.relation not in tuple(Relation):
            raise unknown_name("relation", self.relation, Relation)


@dataclass(frozen=True, kw_only=True)
class FitOptions(PrivacyOptions):
    """The options of a verb that fits private rows."""

    seed: SeedOption = None
    preprocessing_share: Share = None
    budget_file: BudgetFile = None

    def budget(self, n_public: int | None = None) -> Budget:
        """Return the budget of one fit."""
        from marginalia.methods.fit import Budget

        self.check()
        return Budget(self.epsilon, self.delta, self.relation, self.seed, n_public)


class PrivateFit:
    """One fit of private rows: opens them, enters its releases in the budget file, says what it did.

    Parameters
    ----------
    name : str
        Of the method, as it is shown.
    data : str
    domain : Path
    options : FitOptions
    released : sequence of Path or None
        The files that the verb writes.
    n_public : int or None
        A documented number of rows.
    """

    def __init__(
        self,
        name: str,
        data: str,
        domain: Path,
        options: FitOptions,
        released: Sequence[Path | None],
        *,
        n_public: int | None = None,
    ) -> None:
        self.name = name
        self.data = data
        self.domain = domain
        self.released = [path for path in released if path is not None]
        self.options = options
        self.budget = options.budget(n_public)
        self._notes: list[str] = []
        unit = (options.unit, options.rows_per_unit)
        self.rows = read_rows(data, domain, options.preprocessing_share, unit=unit, notes=self._notes)

    @contextmanager
    def running(self) -> Iterator[Callable[[Any], None]]:
        """Show progress; yield a check that all releases of a model are in the budget file, if there is one."""
        say_when_compiling()
        with showing(f"fitting {self.name}"), self._charging() as check:
            yield check
        for note in self._notes:  # facts of the private rows, which are no part of what is released
            print(f"marginalia: {one_line(note)}", file=sys.stderr)

    @contextmanager
    def _charging(self) -> Iterator[Callable[[Any], None]]:
        path, epsilon = self.options.budget_file, self.budget.epsilon
        if path is None:
            yield lambda model: None
            return
        from marginalia.privacy.odometer import PrivacyOdometer, charging

        odometer = PrivacyOdometer(path)
        odometer.check_unit(self.rows.unit)
        odometer.check_room(epsilon, self.budget.delta)
        with charging(odometer, f"{self.name} on {Path(self.data).name}, epsilon {epsilon:g}") as recorder:
            yield lambda model: recorder.check_complete(model, self.name)

    def _warn_of_weak_budget(self) -> None:
        """Say on stderr what the budget does not protect; the number of units counts only where it is public."""
        from marginalia.reporting.publication import weak_budget

        budget, unit = self.budget, self.rows.unit
        n = self.rows.n_units if budget.relation == "replace_one" else budget.n_public
        if n and budget.delta * n >= 1:
            what = "rows" if unit is None else f"different `{unit.column}`"
            warnings.warn(
                f"delta {budget.delta:g} is not below 1 in the {n} {what}: it allows a release that shows records as "
                f"they are; take --delta {0.1 / n:.0e} or less",
                stacklevel=2,
            )
        if weak := weak_budget(budget.epsilon, budget.delta):
            warnings.warn(weak, stacklevel=2)

    def answer(
        self,
        domain: Domain,
        ledger: Ledger | None,
        content: Mapping[str, object],
        lines: list[str],
        written: list[str],
    ) -> Answer:
        """Return `content` and `lines` with the facts of the rows and of privacy; `written` are the last lines."""
        if ledger is not None:
            self._warn_of_weak_budget()
        read, learned = self._source_facts(), self._learned(domain, ledger)
        lines = [*lines, *_source_lines(read), *(f"learned privately: {line}" for line in learned)]
        lines += [_certificate_line(ledger, self.budget.delta), *written]
        content = {**content, "data": read, "learned": learned, **_certificate(ledger, self.budget.delta)}
        if not self.released:
            return Answer(content, lines)
        from marginalia.data.sources.opening import Data
        from marginalia.reporting.publication import of_files

        files, budget = Data.parse(self.data).files, self.options.budget_file
        publication = of_files(self.released, data=files, domain=self.domain, budget=budget, ledger=ledger)
        return Answer({**content, **publication.to_dict()}, [*lines, *publication.lines])

    def _source_facts(self) -> Mapping[str, str | int]:
        """Return what was read, for the owner's records, and in how many passes over the rows where they stream."""
        from marginalia.data.sources.opening import Data
        from marginalia.data.sources.stream import Stream

        named = Data.parse(self.data)
        skipped = {"skipped": named.skipped} if named.skipped else {}
        passes = {"passes": self.rows.passes} if isinstance(self.rows, Stream) else {}
        return {**named.fingerprint(), **skipped, **passes}

    def _learned(self, domain: Domain, ledger: Ledger | None) -> list[str]:
        """Return a line for each column whose labels or edges the fit has learned, and one for the rows per unit."""
        from marginalia.data.units import UnitOfLearnedRows

        lines = []
        if isinstance(self.rows.unit, UnitOfLearnedRows) and ledger is not None:
            lines.append(f"rows_per_unit: at most {ledger.neighbours.contributions}")
        for column in (domain[one.name] for one in self.rows.domain.open_columns if one.name in domain):
            if column.edges is None:
                lines.append(f"{column.name}: {column.n_values} label{'s' * (column.n_values != 1)}")
                continue
            ends, unit = column.edges[:: column.n_values], column.counted_in
            first, last = (f"{e:g}" if unit is None else column.time_text(e) for e in ends)
            lines.append(f"{column.name}: {column.n_values} bin{'s' * (column.n_values != 1)} from {first} to {last}")
        return lines


def _source_lines(read: Mapping[str, str | int]) -> list[str]:
    """Return a line on rows that were streamed; a file that was read needs none."""
    skipped = [str(read["skipped"])] if "skipped" in read else []
    if "passes" not in read:
        return skipped
    if not read["passes"]:
        return [f"data: {read['name']}, rows read as they are, none counted", *skipped]
    passes = f"{read['passes']} passes over the rows" if read["passes"] != 1 else "1 pass over the rows"
    return [f"data: {read['name']}, {passes}", *skipped]


def _certificate(ledger: Ledger | None, delta: float) -> dict[str, Any]:
    if ledger is None:
        return {"epsilon_spent": None, "certified": False, "message": "not private"}
    return {
        "epsilon_spent": ledger.epsilon(delta) if ledger.events else None,
        "delta": delta,
        "relation": str(ledger.relation),
        **({} if ledger.neighbours.unit is None else {"protects": str(ledger.neighbours.unit)}),
        "certified": ledger.certified,
        "randomness": ledger.randomness,
        "message": ledger.message,
        "ledger": ledger.summary(),
    }


def _certificate_line(ledger: Ledger | None, delta: float) -> str:
    if ledger is None:
        return "certificate: none, this method is not private"
    if not ledger.certified:
        if ledger.read_off and ledger.events:
            cost = f"({ledger.epsilon(delta):.6g}, {delta:g})"
            return f"certificate: {ledger.message}. The releases by themselves cost {cost}"
        return f"certificate: refused. {ledger.message}"
    scope = f", {ledger.message}" if ledger.message else ""
    unit = "" if ledger.neighbours.unit is None else f", protects {ledger.neighbours.unit}"
    seeded = "; seeded, for experiments only" * (ledger.randomness == "seeded")
    return f"certificate: ({ledger.epsilon(delta):.6g}, {delta:g})-DP, {ledger.neighbours}{unit}{scope}{seeded}"
