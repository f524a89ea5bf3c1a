"""The verb that answers questions about the private table from a release alone, with error bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia.cli.shared import Answer, check_out
from marginalia.errors import InputError
from marginalia.progress import showing

if TYPE_CHECKING:
    from marginalia.data.domain import Domain
    from marginalia.data.units import Unit
    from marginalia.inference.marginals import Interval
    from marginalia.inference.regressions import Regression
    from marginalia.inference.release import Release
    from marginalia.inference.sets import Coefficient
    from marginalia.synthesis.base import Synthesizer

_PATIENCE = 5.0  # seconds before progress is shown


def infer(
    release: Annotated[
        Path,
        typer.Argument(
            help="Model written by `synthesize --model`, or by `fit --method ssp --out` (of its own coefficients)."
        ),
    ],
    formula: Annotated[str | None, typer.Argument(help="Regression, e.g. 'hours ~ age + C(sex)'.")] = None,
    marginal: Annotated[str | None, typer.Option("--marginal", help="Counts of these columns: age,sex.")] = None,
    mean_of: Annotated[str | None, typer.Option("--mean", help="Mean of a column.")] = None,
    quantile_of: Annotated[str | None, typer.Option("--quantile", help="Quantile of a column: age,0.5.")] = None,
    odds_ratio_of: Annotated[str | None, typer.Option("--odds-ratio", help="Of two columns of two codes.")] = None,
    difference_of: Annotated[
        str | None,
        typer.Option("--difference", help="Count of one cell less another: 'sex=F,ill=yes - sex=M,ill=yes'."),
    ] = None,
    shares_too: Annotated[bool, typer.Option("--shares", help="With --marginal: shares in place of counts.")] = False,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="With --marginal: all cells hold at once, whichever you look at.")
    ] = False,
    family: Annotated[str, typer.Option("--family", help="gaussian, binomial or poisson.")] = "gaussian",
    confidence: Annotated[float, typer.Option("--confidence", help="Between 0 and 1.")] = 0.95,
    target: Annotated[
        str, typer.Option("--target", help="table: of the private rows; population: that they were drawn from.")
    ] = "table",
    ridge: Annotated[float, typer.Option("--ridge", help="Public lambda; gaussian only.")] = 0.0,
    guaranteed: Annotated[
        bool, typer.Option("--guaranteed", help="Wider sets that cover at least as often as they say.")
    ] = False,
    wald: Annotated[
        bool, typer.Option("--wald", help="Estimate ± z standard errors; refused where kappa is below 100.")
    ] = False,
    figure: Annotated[Path | None, typer.Option("--figure", help="Draw the intervals: .png, .svg or .pdf.")] = None,
    per: Annotated[
        str | None,
        typer.Option(
            "--per",
            help="With --mean, where k rows of each unit were kept: unit,VISITS or row,VISITS. Each unit, or each row "
            "of the whole table, counts once; VISITS is a released column with the number of rows of the row's unit.",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option("--compare", help="Table of the release: print its own answer, too. Private: for its owner only."),
    ] = None,
) -> Answer:
    """Answer a question about the private table from what a release measured, with error bars. No row is read.

    Example: marginalia infer release.npz 'hours ~ age + C(sex)'
    """
    if figure is not None:
        check_out(figure, (".png", ".svg", ".pdf"), (release,), option="--figure")
    if release.suffix == ".json" and formula is None:
        from marginalia.inference.learners import coefficients
        from marginalia.methods.models import load_model

        learner = load_model(release)
        fitted = coefficients(learner, confidence=confidence, ridge=ridge, guaranteed=guaranteed)
        assert learner.encoder_ is not None  # else it has no coefficients of columns
        unprotected = _unprotected(learner.encoder_.domain, learner.ledger_.neighbours.unit)
        return _regression(replace(fitted, notes=(*fitted.notes, *unprotected)), figure, wald=wald)
    asked = [formula, marginal, mean_of, quantile_of, odds_ratio_of, difference_of]
    if sum(question is not None for question in asked) != 1:
        raise InputError("ask one thing: a formula, --marginal, --mean, --quantile, --odds-ratio or --difference")
    if per is not None and (mean_of is None or compare is not None):
        raise InputError("--per is for --mean, and without --compare")
    if wald and (formula is None or guaranteed):
        raise InputError("--wald is for a formula, and without --guaranteed")
    from marginalia.inference import marginals
    from marginalia.inference.columns import notes_on_bins, notes_on_labels
    from marginalia.inference.regressions import regression
    from marginalia.inference.release import Release, notes_on_unit, notes_on_weights
    from marginalia.inference.weights import can_weight, mean_within_bins, notes_on_mean, weighted_mean
    from marginalia.methods.models import load_synthesizer

    model = load_synthesizer(release)
    unprotected = _unprotected(model.domain_, model.ledger_.neighbours.unit)
    if formula is not None:
        with showing("confidence sets", after=_PATIENCE):
            fitted = regression(
                *(model, formula),
                family=family,
                confidence=confidence,
                target=target,
                ridge=ridge,
                guaranteed=guaranteed,
            )
        fitted = replace(fitted, notes=(*fitted.notes, *unprotected))
        answer = _regression(fitted, figure, wald=wald)
        return answer if compare is None else _compared(answer, compare, model, fitted, ridge=ridge)
    kept = Release.of(model)
    numbers: list[str] = []  # columns that are taken for numbers
    categories: list[str] = []  # columns whose codes the question is about
    of_mean = mean_of if per is None else None
    weighted = of_mean is not None and can_weight(kept, of_mean)

    def ask(release: Release) -> list[Interval]:
        if marginal is not None:
            question = marginals.shares if shares_too else marginals.cells
            categories[:] = marginal.split(",")
            return question(release, categories, confidence=confidence, simultaneous=simultaneous)
        if mean_of is not None:
            numbers[:] = [mean_of]
            if per is not None:
                return [_reweighted(release, mean_of, per, confidence)]
            plain = marginals.mean(release, mean_of, confidence=confidence)
            return [*([weighted_mean(release, mean_of, confidence=confidence)] if weighted else []), plain]
        if quantile_of is not None:
            name, _, share = quantile_of.rpartition(",")
            numbers[:] = [name]
            return [marginals.quantile(release, name, _number(quantile_of, share), confidence=confidence)]
        if difference_of is not None:
            categories[:], first, second = _cells(release, difference_of)
            return [marginals.difference(release, categories, first, second, confidence=confidence)]
        assert odds_ratio_of is not None
        pair = odds_ratio_of.split(",")
        if len(pair) != 2:
            raise InputError(f"--odds-ratio {odds_ratio_of}: name two columns, as in sex,ill")
        categories[:] = pair
        return [marginals.odds_ratio(release, *pair, confidence=confidence)]

    asked_for = ask(kept)
    found = [*asked_for, *(mean_within_bins(kept, mean_of, confidence=confidence) if weighted and mean_of else [])]
    if figure is not None:
        _draw(figure, found, f"{confidence:.0%} intervals", zero=False)
    weights = notes_on_weights(kept.domain) if of_mean is None else notes_on_mean(kept, of_mean)
    codes = (*notes_on_bins(kept.domain, numbers), *notes_on_labels(kept.domain, categories))
    notes = (*codes, *weights, *notes_on_unit(kept.unit), *unprotected)
    gaps = list(dict.fromkeys(str(one.without_value) for one in found if one.without_value is not None))
    content = {"confidence": confidence, "intervals": [_facts(one) for one in found], "notes": notes}
    answer = Answer(content, [*map(str, found), *gaps, *notes])
    return answer if compare is None else _compared(answer, compare, model, asked_for, ask=ask)


def _reweighted(release: Release, name: str, per: str, confidence: float) -> Interval:
    from marginalia.inference.persons import PER, reweighted_mean

    kind, _, rows_column = per.partition(",")
    if kind not in PER or not rows_column:
        raise InputError(f"--per {per}: write unit or row, a comma, and the column of the number of rows: unit,visits")
    return reweighted_mean(release, name, rows_column, per=kind, confidence=confidence)  # type: ignore[arg-type]


def _compared(
    answer: Answer,
    data: str,
    model: Synthesizer,
    found: Regression | list[Interval],
    *,
    ask: Callable[[Release], list[Interval]] | None = None,
    ridge: float = 0.0,
) -> Answer:
    """Return the answer with that of the private rows below it."""
    from marginalia.data.sources.opening import Data
    from marginalia.data.table import RawTable
    from marginalia.inference.regressions import Regression
    from marginalia.quality.answers import compare, compare_regression, exact_release
    from marginalia.quality.quality import PRIVATE

    domain = model.domain_
    if (unit := model.ledger_.neighbours.unit) is not None:
        domain = domain.of_unit(unit.column, unit.rows, unit.type)
    table = Data.parse(data).open(domain)
    assert not isinstance(table, RawTable)  # the domain of a model is closed
    if isinstance(found, Regression):
        both = compare_regression(found, model, table, ridge=ridge)
    else:
        assert ask is not None
        both = compare(found, ask(exact_release(table, model.domain_)))
    private = [{"name": one.released.name, "private": one.private, "inside": one.covered} for one in both]
    assert isinstance(answer.content, dict)
    content = {**answer.content, "private": {"note": PRIVATE, "answers": private}}
    return Answer(content, [*answer.lines, PRIVATE, *(one.line for one in both)])


def _unprotected(domain: Domain, unit: Unit | None) -> list[str]:
    """Return a note where a release protects rows, and a column that it did not read names persons."""
    from marginalia.data.keys import note_on_names

    return [] if unit is not None else note_on_names((*domain.names, *domain.ignored))


def _number(given: str, share: str) -> float:
    try:
        return float(share)
    except ValueError:
        raise InputError(f"--quantile {given}: write the column, a comma and a share, as in age,0.5") from None


def _regression(fitted: Regression, figure: Path | None, *, wald: bool) -> Answer:
    if wald:
        fitted = replace(fitted, coefficients=fitted.wald())
    if figure is not None:
        _draw(figure, fitted.coefficients, f"{fitted.formula} ({fitted.confidence:.0%})", zero=True)
    return Answer(_content(fitted), str(fitted).splitlines())


def _cells(release: Release, given: str) -> tuple[list[str], list[int], list[int]]:
    """Return columns and the codes of two cells, of ``sex=F,ill=yes - sex=M,ill=yes``."""
    sides = given.split(" - ")
    pairs = [[part.partition("=")[::2] for part in side.split(",")] for side in sides]
    names = [[name.strip() for name, _ in side] for side in pairs]
    if len(sides) != 2 or sorted(names[0]) != sorted(names[1]) or not all(v for side in pairs for _, v in side):
        raise InputError(
            f"--difference {given}: write two cells of the same columns, as in 'sex=F,ill=yes - sex=M,ill=yes'"
        )
    codes = []
    for side in pairs:
        of = {name.strip(): _code(release.domain, name.strip(), value.strip()) for name, value in side}
        codes.append([of[name] for name in names[0]])
    return names[0], codes[0], codes[1]


def _code(domain: Domain, name: str, text: str) -> int:
    from marginalia.data.names import code_names

    domain.index(name)
    texts = code_names(domain[name])
    if text in domain[name].texts:
        return domain[name].texts.index(text)
    if text not in texts:
        raise InputError(
            f"'{name}' has no code {text!r}; it has {', '.join(texts[:8])}{', ...' if len(texts) > 8 else ''}"
        )
    return texts.index(text)


def _draw(figure: Path, found: Sequence[Interval] | Sequence[Coefficient], title: str, *, zero: bool) -> None:
    from marginalia.inference.error_bars import plot_intervals
    from marginalia.reporting.figures import save_figure

    try:
        drawn = plot_intervals(found, title, zero=zero)
    except InputError as error:
        raise InputError(f"--figure: {error}") from None
    save_figure(drawn, figure.with_suffix(""), kinds=[figure.suffix.removeprefix(".")])


def _content(fitted: Regression) -> dict[str, Any]:
    return {
        **{name: getattr(fitted, name) for name in ("formula", "family", "target", "confidence")},
        "kappa": fitted.distance_at_infinity,
        **{name: getattr(fitted, name) for name in ("quantile", "n_rows", "notes", "estimand")},
        "without_value": None if fitted.without_value is None else _facts(fitted.without_value),
        "coefficients": [_finite(asdict(c)) for c in fitted.coefficients],
    }


def _facts(one: Interval) -> dict[str, Any]:
    facts = _finite(asdict(replace(one, without_value=None)))
    if one.quantity not in ("number", "share"):  # dates and whole numbers, as in text
        ends = dict(zip(("estimate", "low", "high"), one.shown(), strict=True))
        whole = one.quantity in ("count", "difference")
        facts |= {k: None if facts[k] is None else int(v.replace(",", "")) if whole else v for k, v in ends.items()}
    return {**facts, "without_value": None if one.without_value is None else _facts(one.without_value)}


def _finite(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts with null for an end that is infinite: JSON has no such number."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()}
