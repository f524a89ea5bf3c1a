"""The verb that answers questions about the private table from a release alone, with error bars."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia.cli.shared import Json, show
from marginalia.errors import InputError

if TYPE_CHECKING:
    from marginalia.inference.marginals import Interval
    from marginalia.inference.regression import Regression


def infer(
    release: Annotated[Path, typer.Argument(help="Model written by `synthesize --model`.")],
    formula: Annotated[str | None, typer.Argument(help="Regression, e.g. 'hours ~ age + C(sex)'.")] = None,
    marginal: Annotated[str | None, typer.Option("--marginal", help="Counts of these columns: age,sex.")] = None,
    mean_of: Annotated[str | None, typer.Option("--mean", help="Mean of a column.")] = None,
    quantile_of: Annotated[str | None, typer.Option("--quantile", help="Quantile of a column: age,0.5.")] = None,
    odds_ratio_of: Annotated[str | None, typer.Option("--odds-ratio", help="Of two columns of two codes.")] = None,
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
    as_json: Json = False,
) -> None:
    """Answer a question about the private table from what a release measured, with error bars. No row is read.

    Example: marginalia infer release.npz 'hours ~ age + C(sex)'
    """
    asked = [formula, marginal, mean_of, quantile_of, odds_ratio_of]
    if sum(question is not None for question in asked) != 1:
        raise InputError("ask one thing: a formula, --marginal, --mean, --quantile or --odds-ratio")
    from marginalia.inference import marginals
    from marginalia.inference.known import Release
    from marginalia.inference.regression import regression
    from marginalia.methods.models import load_synthesizer

    model = load_synthesizer(release)
    if formula is not None:
        fitted = regression(
            *(model, formula),
            family=family,
            confidence=confidence,
            target=target,
            ridge=ridge,
            guaranteed=guaranteed,
        )
        show(as_json, _content(fitted), str(fitted).splitlines())
        return
    kept = Release.of(model)
    found: list[Interval]
    if marginal is not None:
        ask = marginals.shares if shares_too else marginals.cells
        found = ask(kept, marginal.split(","), confidence=confidence, simultaneous=simultaneous)
    elif mean_of is not None:
        found = [marginals.mean(kept, mean_of, confidence=confidence)]
    elif quantile_of is not None:
        name, _, share = quantile_of.rpartition(",")
        found = [marginals.quantile(kept, name, _number(quantile_of, share), confidence=confidence)]
    else:
        assert odds_ratio_of is not None
        pair = odds_ratio_of.split(",")
        if len(pair) != 2:
            raise InputError(f"--odds-ratio {odds_ratio_of}: name two columns, as in sex,ill")
        found = [marginals.odds_ratio(kept, *pair, confidence=confidence)]
    content = {"confidence": confidence, "intervals": [_finite(asdict(one)) for one in found]}
    show(as_json, content, [str(one) for one in found])


def _number(given: str, share: str) -> float:
    try:
        return float(share)
    except ValueError:
        raise InputError(f"--quantile {given}: write the column, a comma and a share, as in age,0.5") from None


def _content(fitted: Regression) -> dict[str, Any]:
    coefficients = [_finite(asdict(c)) for c in fitted.coefficients]
    facts = ("formula", "family", "target", "confidence", "kappa", "quantile", "n_rows")
    return {name: getattr(fitted, name) for name in facts} | {"coefficients": coefficients}


def _finite(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts with null for an end that is infinite: JSON has no such number."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()}
