"""The verb that says which methods fit a table, before any of them is run."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia.cli.private_fit import PrivacyOptions
from marginalia.cli.removed import RECOMMEND_ROWS
from marginalia.cli.shared import Answer, DomainFile, aligned, read_domain_of_unit
from marginalia.errors import InputError

if TYPE_CHECKING:
    from marginalia.advice.recommend import Advice, Ranking
    from marginalia.data.units import Unit


BUDGET = "table.budget"  # as the answer names it
_MEASURES = {
    "linear": "mean squared error",
    "logistic": "AUC",
    "": "the mean marginal error of all pairs",
}


def recommend(
    domain: DomainFile,
    options: PrivacyOptions,
    table: Annotated[
        Path | None, typer.Argument(help="CSV or Parquet file; read is its number of rows, and the column of the unit.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Column to predict; default: synthetic tables only.")
    ] = None,
    n_public: Annotated[
        int | None,
        typer.Option("--n-public", min=1, help="Public number of rows, or of units; no table is then read."),
    ] = None,
    rows: Annotated[int | None, typer.Option("--rows", hidden=True)] = None,
    configfile: Annotated[
        Path | None, typer.Option("--configfile", help="Configuration whose own methods are looked at too.")
    ] = None,
) -> Answer:
    """List the methods that fit a domain, in the measured order of the benchmark; say what epsilon allows an attacker.

    Nothing of the rows is read but their number, and with a privacy unit the number of rows of each: these are private
    under add_remove, and then the answer is for the owner of the table, not for release. Methods that do not fit are
    listed with the reason.

    Example: marginalia recommend t.csv --domain d.yaml --target income --epsilon 1
    """
    from marginalia.advice.recommend import recommend as advise
    from marginalia.methods.registry import BUILT_IN
    from marginalia.privacy.relation import Neighbours, Relation
    from marginalia.sweep import config
    from marginalia.sweep.choices import own_method

    if rows is not None:
        raise InputError(RECOMMEND_ROWS)
    public = read_domain_of_unit(domain, options.unit, options.rows_per_unit)
    if table is None and n_public is None:
        raise InputError("give a table, or a public number of rows or units with --n-public")
    size: dict[str, int] = {"rows": n_public} if n_public else _size(Path(str(table)), public.unit)
    budget = {"epsilon": options.epsilon, "delta": options.delta, "relation": options.relation}
    blocks = config.read(configfile).blocks() if configfile is not None else ()
    own = {choice.id: own_method(choice) for block in blocks for choice in block.methods if choice.file}
    registry = {**BUILT_IN, **own}
    found = advise(public, target or "", **size, public_rows=n_public is not None, registry=registry, **budget)  # type: ignore[arg-type]
    typed = ["--data", str(table or "TABLE"), "--domain", str(domain), "--epsilon", f"{options.epsilon:g}"]
    typed += ["--delta", f"{options.delta:g}", "--relation", options.relation]
    typed += [] if options.unit is None else ["--unit", options.unit]
    typed += [] if options.rows_per_unit is None else ["--rows-per-unit", str(options.rows_per_unit)]
    return Answer(found.to_dict(), _lines(found, str(Neighbours(Relation(options.relation), public.unit)), typed))


def _size(path: Path, unit: Unit | None) -> dict[str, int]:
    """Return the number of rows of a CSV or Parquet file; with a unit, those that a fit keeps, of how many units.

    Read is the column of the unit alone. Where a fit learns the rows per unit, they are planned without noise.
    """
    from marginalia.data.csv_files import CSVFile
    from marginalia.data.parquet_files import ParquetFile
    from marginalia.data.reading import check_header, check_is_no_url, is_read_whole, read_raw

    if is_read_whole(path):
        frame = read_raw(path)
        if unit is not None and unit.column in frame.columns:
            return _size_of_units([frame[unit.column]], unit)
        return {"rows": len(frame)}
    check_is_no_url(path)
    file = ParquetFile.scan(path) if path.suffix == ".parquet" else CSVFile.scan(path)
    check_header(list(file.names), str(path))
    n = file.n_rows if isinstance(file, ParquetFile) else sum(batch.num_rows for batch in file.batches([]))
    if not n:
        raise InputError(f"{path}: the table has no rows")
    if unit is not None and unit.column in file.names:
        return _size_of_units((batch.column(unit.column) for batch in file.batches([unit.column])), unit)
    return {"rows": n}


def _size_of_units(columns: Iterable[Any], unit: Unit) -> dict[str, int]:
    import numpy as np

    from marginalia.data.cells import cells_of
    from marginalia.data.units import UnitOfLearnedRows, keys_of

    rows_of: Counter[str] = Counter()
    for column in columns:
        keys, number = keys_of(cells_of(column, unit.column, lenient=True), unit)
        rows_of.update(dict(zip(keys.tolist(), np.bincount(number).tolist(), strict=True)))
    sizes, k = np.array(list(rows_of.values())), unit.rows
    if isinstance(unit, UnitOfLearnedRows):
        k = min(k, int(np.quantile(sizes, unit.share, method="inverted_cdf")))
    return {"rows": int(np.minimum(sizes, k).sum()), "units": len(sizes), "rows_per_unit": k}


def _lines(found: Advice, relation: str, options: list[str]) -> Iterator[str]:
    here = (found.models or found.tables).setting
    features = f", {here.width:,} features" if here.width else ""
    unit = found.unit or "each row by itself"
    size = f"{here.rows:,} rows" if here.units == here.rows else f"{here.units:,} units, {here.rows:,} rows kept"
    yield (
        f"{f'{found.target}: ' if found.target else ''}{size}, {here.columns} columns, {here.codes:,} codes"
        f"{features}; ({here.epsilon:g}, {here.delta:g})-DP, {relation}; protected: {unit}"
    )
    yield from (f"! {caution}" for caution in found.cautions)
    who = f"the rows of {found.unit.partition(',')[0]} are" if found.unit else "one row is"
    yield f"epsilon: an attacker who knows all but whether {who} in the table {found.attack.words()};"
    yield f"         where all noise is Gaussian ({', '.join(found.gaussian)}): {found.gaussian_attack.words()}"
    if found.widths:
        said = ", ".join(
            f"{name} ± {half:.3g} rows ({half / here.rows:.2%})" for name, half in sorted(found.widths.items())
        )
        yield f"error bars: 95 % intervals for a cell of a typical pair (independent: of a column) are {said};"
        yield "         marginalia infer states them, and those of means and regressions, from the released model"
    if found.models is not None:
        yield ""
        files = ["--target", found.target, "--out", "model.json", "--budget", BUDGET]
        yield from _table(f"models of {found.target}", found.models, [*options, *files])
    yield ""
    files = ["--out", "synthetic.csv", "--model", "release.npz", "--budget", BUDGET]
    yield from _table("synthetic tables", found.tables, [*options, *files])
    unit_option = ["--unit", found.unit.split("`")[1]] if found.unit else []
    budget = ["--epsilon", f"{here.epsilon:g}", "--delta", f"{here.delta:g}", "--relation", here.relation, *unit_option]
    yield f"the budget file, once, for all releases: marginalia budget open {BUDGET} {shlex.join(budget)}"
    if not found.target:
        yield "no --target: with one, learners that predict that column are ranked too"


def _table(what: str, ranking: Ranking, options: list[str]) -> Iterator[str]:
    from marginalia.advice.order import read

    benchmark = read()
    yield (
        f"{what}, in the order of the benchmark {benchmark['benchmark']} ({ranking.tables} data sets, "
        f"{', '.join(benchmark['relations'])}; {benchmark['page']})"
    )
    measure = _MEASURES[ranking.setting.task]
    yield f"rank: mean over data sets and epsilons by {measure}; =: statistically tied with its first, {ranking.first}"
    at = f"at {ranking.measured_epsilon:g}"
    lines = [["", "method", "rank", at, "CPU s", "MB", "measured on", "about"]]
    for place, option in enumerate(ranking.options, start=1):
        rank = f"{option.mean_rank:.3g}{'=' if option.tied and option.name != ranking.first else ''}"
        cost = (f"{option.seconds:.2g}", f"{option.peak_mb:.0f}", option.measured_on or "a guess")
        lines.append([str(place), option.name, rank, f"{option.rank_at_epsilon:.3g}", *cost, option.why])
    if ranking.options:
        yield from aligned(lines)
        how = ranking.options[0].how
        whole = how.startswith("marginalia ") and ", then " not in how
        yield f"the first: {how} {shlex.join(options)}" if whole else f"the first: {how}"
    if ranking.refused:
        yield "not here: " + "; ".join(f"{name}: {reason}" for name, reason in ranking.refused.items())
