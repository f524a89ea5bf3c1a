"""The verb that measures a synthetic table against the real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginalia.cli.private_fit import UnitOption
from marginalia.cli.removed import QUALITY_MODEL, QUALITY_TARGET
from marginalia.cli.shared import DATA_HELP, Answer, DomainFile, check_out, read_compared, units_line
from marginalia.errors import InputError
from marginalia.progress import showing

if TYPE_CHECKING:
    from marginalia.quality.quality import Quality
    from marginalia.quality.raw import RawQuality

_MOST_CAUSES = 12  # that are printed; the page and the JSON have all


def quality(
    real: Annotated[str, typer.Argument(help=f"The real rows: {DATA_HELP}")],
    synthetic: Annotated[Path, typer.Argument(help="CSV or Parquet file of the synthetic rows.")],
    domain: DomainFile,
    target: Annotated[str | None, typer.Option("--target", hidden=True)] = None,
    model: Annotated[str | None, typer.Option("--model", hidden=True)] = None,
    unit: UnitOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write a page (HTML).")] = None,
) -> Answer:
    """Measure a synthetic table against the real one: columns, pairs, NIST's score, copies, certificate.

    The numbers and the page are computed from the private rows without noise: they are for you, not for release.

    Example: marginalia quality t.csv synthetic.csv --domain d.yaml --out quality.html
    """
    if target is not None:
        raise InputError(QUALITY_TARGET)
    if model is not None:
        raise InputError(QUALITY_MODEL)
    from marginalia.data.domain import Domain
    from marginalia.data.review import overlooked_codes
    from marginalia.data.sources.opening import Data

    named = Data.parse(real)
    if out is not None:
        check_out(out, (".html", ".htm"), (*named.files, synthetic, domain))
        from marginalia.quality.page import (
            write_quality,  # what is not installed is said before the first second of work
        )

    from marginalia.quality.quality import measure

    with showing("comparing"):
        units = units_line(real, domain, unit)
        (rows, made), samples = read_compared(real, str(synthetic), domain, unit)
        found = measure(rows, made, samples=samples, synthetic_path=synthetic)
        codes = list(overlooked_codes(Domain.from_yaml(domain), samples[0].frame))
    if out is not None:
        write_quality(
            *(out, found),
            real_name=named.name if named.location else Path(real).name,
            synthetic_name=synthetic.name,
            codes=codes,
        )
    content = found.to_dict() | ({"units": units} if units else {}) | ({"codes": codes} if codes else {})
    return Answer(content, [*_lines(found), *codes, *filter(None, [units]), *([f"page: {out}"] if out else [])])


def _lines(found: Quality) -> Iterator[str]:
    from marginalia.quality.quality import PRIVATE

    yield f"PRIVATE: {PRIVATE}"
    yield f"rows             {found.n_rows[0]:,} real, {found.n_rows[1]:,} synthetic"
    if found.is_sampled:
        compared = f"{len(found.real):,} and {len(found.synthetic):,} of them"
        yield f"compared         {compared}, drawn at random by seed {found.seed}"
    if found.compared:
        yield f"compared         {found.compared}"
    if found.raw is not None:
        yield from _raw_lines(found.raw)
    yield f"domain's codes   marginal error {found.pairs.error:.6g}, mean of {len(found.pairs.errors)} pairs"
    yield f"k-marginal score {found.pairs.score:.1f} of 1000 (NIST, k = 2)"
    worst = ", ".join(f"{a} x {b} {error:.4g}" for (a, b), error in list(found.pairs.errors.items())[:3])
    yield f"worst pairs      {worst}"
    lost = sum(len(column.lost) for column in found.columns)
    yield f"values lost      {lost}; impossible rows {found.impossible_synthetic}"
    copied = found.copies
    yield f"copies           {copied.synthetic:.2%} of the rows are in one half of the real table,"
    yield f"                 as are {copied.fresh:.2%} of the other half"
    if found.examination is None:
        yield "certificate      none beside the synthetic file"
    elif found.examination.confirmed:
        yield f"certificate      ({found.examination.requested:g}, {found.examination.delta:g})-DP, recomputed"
    elif found.examination.is_unreviewed:
        yield f"certificate      {'; '.join(found.examination.problems)}, and release again"
        cost = f"({found.examination.recomputed:.6g}, {found.examination.delta:g})"
        yield f"                 the events are confirmed: by themselves they cost {cost}"
    else:
        yield f"certificate      DOES NOT HOLD: {'; '.join(found.examination.problems)}"


def _raw_lines(raw: RawQuality) -> Iterator[str]:
    halves = "" if raw.halves is None else f"; two random halves of the real rows {1000 * (1 - raw.halves):.1f}"
    yield f"raw score        {raw.pairs.score:.1f} of 1000{halves}"
    yield f"mark             {raw.mark.upper()}"
    worst = ", ".join(f"{one.name} {one.error:.4g}" for one in raw.columns[:3])
    yield f"worst columns    {worst} (error on raw values, 0 to 1)"
    for rule, (real, made) in raw.rules.items():
        yield f"rule             {rule}: {made:.1%} of the synthetic rows, {real:.1%} of the real ones"
    for cause in raw.causes[:_MOST_CAUSES]:
        yield f"cause            {cause}"
    if len(raw.causes) > _MOST_CAUSES:
        yield f"                 and {len(raw.causes) - _MOST_CAUSES} more"
