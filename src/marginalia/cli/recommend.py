"""The verb that says which methods fit a table, before any of them is run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginalia.cli.shared import DeltaOption, DomainFile, EpsilonOption, Json, Relation, read_domain, show
from marginalia.errors import InputError

if TYPE_CHECKING:
    from marginalia.advice.recommend import Advice, Ranking


_RACE = "race: loss over the best one's, mean of the race"
_LOST = {
    "linear": "the share of what a model without privacy gains over the trivial prediction (1: no better than it)",
    "logistic": "by how much the AUC is lower than that of a model without privacy",
}


def recommend(
    domain: DomainFile,
    target: Annotated[str, typer.Option("--target", help="Column to predict.")],
    epsilon: EpsilonOption,
    table: Annotated[Path | None, typer.Argument(help="CSV or Parquet file; only its number of rows is read.")] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", min=1, help="Public number of rows; no table is then read.")
    ] = None,
    delta: DeltaOption = 1e-5,
    relation: Relation = "add_remove",
    configfile: Annotated[
        Path | None, typer.Option("--configfile", help="Configuration whose own methods are looked at too.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Rank the methods that fit a domain and a target, with predicted losses; say what epsilon allows an attacker.

    Nothing of the rows is read but their number, which is private under add_remove: then the answer is for the owner of
    the table, not for release. The predictions come from benchmarks on other tables, with their error stated.

    Example: marginalia recommend t.csv --domain d.yaml --target income --epsilon 1
    """
    from marginalia.advice.recommend import recommend as advise
    from marginalia.methods.registry import BUILT_IN
    from marginalia.sweep import config
    from marginalia.sweep.choices import own_method

    public = read_domain(domain)
    if table is None and rows is None:
        raise InputError("give a table, or a public number of rows with --rows")
    n = rows or _number_of_rows(Path(str(table)))
    budget = {"epsilon": epsilon, "delta": delta, "relation": relation}
    blocks = config.read(configfile).blocks() if configfile is not None else ()
    own = {choice.id: own_method(choice) for block in blocks for choice in block.methods if choice.file}
    registry = {**BUILT_IN, **own}
    found = advise(public, target, rows=n, public_rows=rows is not None, registry=registry, **budget)  # type: ignore[arg-type]
    options = ["--data", str(table or "TABLE"), "--domain", str(domain), "--epsilon", f"{epsilon:g}"]
    options += ["--delta", f"{delta:g}", "--relation", relation]
    show(as_json, found.to_dict(), _lines(found, options))


def _number_of_rows(path: Path) -> int:
    """Return the number of rows of a CSV or Parquet file; their values are not looked at."""
    from marginalia.data.reading import check_is_no_url, read_raw

    check_is_no_url(path)
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        try:
            n = pq.read_metadata(path).num_rows
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    else:
        n = len(read_raw(path))
    if not n:
        raise InputError(f"{path}: the table has no rows")
    return n


def _lines(found: Advice, options: list[str]) -> Iterator[str]:
    here = (found.models or found.tables).setting
    features = f", {here.width:,} features" if here.width else ""
    yield (
        f"{found.target}: {here.rows:,} rows, {here.columns} columns, {here.codes:,} codes{features}; "
        f"({here.epsilon:g}, {here.delta:g})-DP, {here.relation}"
    )
    yield from (f"! {caution}" for caution in found.cautions)
    yield f"epsilon: an attacker who knows all but whether one person is in the table {found.attack.words()};"
    yield f"         where all noise is Gaussian ({', '.join(found.gaussian)}): {found.gaussian_attack.words()}"
    if found.widths:
        n = (found.models or found.tables).setting.rows
        said = ", ".join(f"{name} ± {half:.3g} rows ({half / n:.2%})" for name, half in sorted(found.widths.items()))
        yield f"error bars: 95 % intervals for a cell of a typical pair (independent: of a column) are {said};"
        yield "         marginalia infer states them, and those of means and regressions, from the released model"
    if found.models is not None:
        yield ""
        yield f"models of {found.target}; {_RACE}; lost: {_LOST[here.task]}"
        yield from _table(found.models, [*options, "--target", found.target])
    yield ""
    yield f"synthetic tables; {_RACE}; lost: the mean marginal error of all pairs (SDNist's score: 1000 · (1 - it))"
    yield from _table(found.tables, [*options, "--out", "synthetic.csv"])


def _table(ranking: Ranking, options: list[str]) -> Iterator[str]:
    from marginalia.advice.benchmarks import SMALLEST_LOSS

    lines = [["", "method", "race", "lost", "80% interval", "CPU s", "MB", "why"]]
    for place, option in enumerate(ranking.options, start=1):
        guess = option.prediction
        interval = f"{'0' if guess.low <= SMALLEST_LOSS else _format(guess.low)} to {_format(guess.high)}"
        cost = (f"{option.seconds:.2g}", f"{option.peak_mb:.0f}")
        loss = f"under {SMALLEST_LOSS:g}" if guess.loss <= SMALLEST_LOSS else _format(guess.loss)  # are not told apart
        place_of = str(place) if guess.inside else "?"
        lines.append([place_of, option.name, f"x{guess.behind:.2f}", loss, interval, *cost, option.why])
    widths = [max(map(len, column)) for column in list(zip(*lines, strict=True))[:-1]]
    for *cells, last in lines if ranking.options else ():
        yield "  ".join([*(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)), last])
    if ranking.within_reach:
        how = ranking.options[0].how
        whole = how.startswith("marginalia ") and ", then " not in how
        yield f"the first: {how} {shlex.join(options)}" if whole else f"the first: {how}"
    elif ranking.options:
        yield "no first: nothing near this table and budget was benchmarked; those above fit, in the order of the race"
    if ranking.refused:
        yield "not here: " + "; ".join(f"{name}: {reason}" for name, reason in ranking.refused.items())


def _format(loss: float) -> str:
    if loss > 10:
        return "any" if math.isinf(loss) else "over 10"
    return f"{loss:.3f}" if loss < 0.0995 else f"{loss:.2f}"
