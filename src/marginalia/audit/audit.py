"""The audit of one method: replays, laws, randomness, what it keeps, and the loss of the worst pair of tables."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from marginalia.audit import laws, loss, streams
from marginalia.audit.findings import Finding
from marginalia.audit.laws import linear_term
from marginalia.audit.leaks import kept_findings, refit_findings
from marginalia.audit.replay import TOLERANCE, Group, allowed, change, group
from marginalia.audit.subject import Subject
from marginalia.audit.tables import Frame, SyntheticTable, of_frame, records, source_findings
from marginalia.audit.tape import ReplayResult, Tape, exact_releases, play
from marginalia.data.sources.stream import BATCH
from marginalia.privacy.events import flattened, is_subsampled
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.relation import Neighbours, Relation

FULL = 50  # tables a method
QUICK = 9
_LEAST = 4  # replays of one recorded fit; each kind of made-up data has one
_NOISE = 4000  # draws of noise whose law is looked at
_SECONDS = 3.0  # for drawing them: slow methods get by with fewer
_MOST_FINDINGS = 12  # of one kind


@dataclass(frozen=True)
class Report:
    """What the audit of one method found.

    Attributes
    ----------
    method, variant, task, relation, calibration : str
    tables : int
        Tables that were fitted with forced releases.
    releases : int
        Releases of the recorded fits.
    certified : float
        Epsilon that the ledger of that pair certifies; infinity if it does not.
    audited : float
        Epsilon that the worst pair of neighbours attains at the same delta.
    share : float
        Of the ledger's epsilon that the worst pair attains.
    mu : float
        Root of the sum of squared (change/sigma) of the worst pair's Gaussian releases.
    sensitivity : float
        Largest share of a declared sensitivity that a pair attains.
    arithmetic : str
        ``exact``, or ``ideal``: noise in real arithmetic only.
    findings : tuple of Finding
    seconds : float
        Of processor time.
    refused : tuple of str
        Made-up data that the method did not take, and why.
    widest : int
        Most attributes of a table, or features of arrays, to which it was fitted.
    """

    method: str
    variant: str
    task: str
    relation: str
    calibration: str
    tables: int
    releases: int
    certified: float
    audited: float
    share: float
    mu: float
    sensitivity: float
    arithmetic: str
    findings: tuple[Finding, ...]
    seconds: float
    refused: tuple[str, ...] = ()
    widest: int = 0

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table: the number of findings in place of them, and no time."""
        row = asdict(self) | {"findings": len(self.findings)}
        del row["seconds"], row["refused"], row["widest"]
        return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}


def audit(subject: Subject, tables: int = FULL) -> Report:
    """Audit one method at one relation and calibration.

    Parameters
    ----------
    subject : Subject
    tables : int
        How many tables are fitted with the releases of another forced; at least 4 for each kind of made-up data. The
        wide ones come on top: 3 each, or 6 in a long audit.

    Examples
    --------
    >>> from marginalia.audit.subject import subjects
    >>> report = audit(next(iter(subjects("independent"))), QUICK)
    >>> report.findings, report.arithmetic, report.sensitivity
    ((), 'exact', 1.0)
    """
    start, epsilon = time.process_time(), subject.epsilon
    narrow = _groups(subject, tables, epsilon)
    wide = [_wide_group(subject, f, i, tables, epsilon) for i, f in enumerate(subject.wide)]
    groups = [*narrow, *wide]
    fitted = [g for g in groups if g.recorded.model is not None]
    first = [g for g in narrow if g.recorded.model is not None] or fitted
    findings = [f for g in groups for f in g.findings]
    findings += _refusals(subject, groups)
    for g in fitted:
        findings += _of_ledger(subject, g)
    if fitted:
        full = tables >= FULL
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the replays have compared them
            try:
                findings += _of_laws(subject, first, epsilon, full=full)
                findings += _of_randomness(subject, first[0], epsilon, full=full)
            except Exception as error:  # of a user's own class, too
                findings.append(Finding("unfit", "the same rows with other seeds", f"{type(error).__name__}: {error}"))
        for g in {g.base.frame.name: g for g in first}.values():
            findings += _of_memory(subject, g, epsilon)
            findings += source_findings(g.base)
        findings += _of_many_rows(subject, first, epsilon, 2**20 if full else 2**16)
    report = _report(subject, fitted, sum(g.replays for g in groups), _unique(findings))
    widest = max((g.base.codes.shape[1] - (g.base.frame.domain is None) for g in fitted), default=0)
    return replace(report, seconds=time.process_time() - start, refused=_refused(groups), widest=widest)


def _groups(subject: Subject, tables: int, epsilon: float) -> list[Group]:
    count = max(len(subject.frames), tables // 8)
    each = [max(_LEAST, tables // count + (i < tables % count)) for i in range(count)]
    return [group(subject, subject.frames[i % len(subject.frames)], i, e, epsilon=epsilon) for i, e in enumerate(each)]


def _wide_group(subject: Subject, frame: Frame, number: int, tables: int, epsilon: float) -> Group:
    """Return a fit on a wide table and on the neighbours that are farthest apart; a long audit has more of them."""
    replays = _LEAST + 2 if tables >= FULL else _LEAST - 1
    return group(subject, frame, number, replays, epsilon=epsilon)


def _refusals(subject: Subject, groups: Sequence[Group]) -> Iterator[Finding]:
    """Yield why fits failed: of a user's class only if all did, since it need not take every kind of data."""
    failed = [g for g in groups if g.recorded.model is None]
    if failed and (subject.own is None or len(failed) == len(groups)):
        for g in {g.base.frame.name: g for g in failed}.values():
            yield Finding("unfit", f"made-up data '{g.base.frame.name}'", g.recorded.failure)


def _refused(groups: Sequence[Group]) -> tuple[str, ...]:
    failed = [g for g in groups if g.recorded.model is None]
    return tuple(dict.fromkeys(f"{g.base.frame.name}: {g.recorded.failure}" for g in failed))


def _of_ledger(subject: Subject, g: Group) -> Iterator[Finding]:
    ledger = getattr(g.recorded.model, "ledger_", None)
    calls = [release.call for release in g.recorded.releases]
    if g.recorded.tape.uncharged and isinstance(ledger, Ledger):
        yield Finding("charge", "the first release", "it is made before anything is charged")
    if not isinstance(ledger, Ledger):
        what = "has no ledger_ of marginalia.privacy.ledger.Ledger"
        yield Finding("unreleased" if not calls else "charge", "the fitted object", what)
        return
    yield from loss.unbooked(calls, ledger, g.recorded.tape.runs)
    if not ledger.certified and ledger.calibration != "published" and ledger.events:
        yield Finding("budget", "the ledger", ledger.message)
    if ledger.relation is not subject.relation:
        yield Finding("charge", "the ledger", f"its relation is {ledger.relation}, asked for was {subject.relation}")
    samples = [(event.rate, count * event.steps) for event, count in flattened(ledger.events) if is_subsampled(event)]
    drawn = g.recorded.tape.samples
    steps = sum(count for _, count in samples)
    if samples and len(drawn) < steps:
        yield Finding("law", "Poisson samples", f"{steps} are charged for, {len(drawn)} were drawn")
    for n, rate in drawn if samples else ():
        if rate > max(r for r, _ in samples) * (1 + 1e-12) or n != len(g.base.who):
            charged = f"charged for {samples[0][0]:g} of {len(g.base.who)}"
            yield Finding("law", "Poisson samples", f"{n} rows at rate {rate:g}; {charged}")
            break


def _of_laws(subject: Subject, groups: Sequence[Group], epsilon: float, *, full: bool) -> Iterator[Finding]:
    releases = [release for g in groups for release in g.releases]
    yield from laws.lattice_findings(releases)
    noise = laws.noise_of(releases)
    drawn = [noise]
    fits, until = 0, time.process_time() + (_SECONDS if full else _SECONDS / 6)
    want = _NOISE if full else _NOISE // 2
    additive = [r for r in releases if r.call.mechanism != "exponential"]
    while additive and sum(z.size for n in drawn for z in n.values()) < want and time.process_time() < until:
        g = groups[fits % len(groups)]
        fits += 1
        drawn.append(_noise_again(subject, g, 5000 + fits, epsilon))
    for g in groups if any(r.call.mechanism == "partition" for r in releases) else ():
        yield from laws.partition_findings(partial(subject.fit, g.base, 7, epsilon, subject.delta))
    kinds = {kind for n in drawn for kind in n}
    together = {kind: np.concatenate([n[kind] for n in drawn if kind in n]) for kind in kinds}
    yield from laws.noise_findings(together)
    selections = sum(release.call.mechanism == "exponential" for release in groups[0].recorded.releases)
    places = [i for i in (0, 2) if i < selections]
    for at in places:
        yield from laws.selection_findings(lambda: subject.fit(groups[0].base, 7, epsilon, subject.delta), at)


def _noise_again(subject: Subject, g: Group, seed: int, epsilon: float) -> dict[str, Any]:
    def fit() -> Any:
        return subject.fit(g.base, seed, epsilon, subject.delta)

    releases = exact_releases(fit, g.base.who)
    perturbed = [] if g.base.frame.open_domain is not None else [r for r in releases if r.call.mechanism == "objective"]
    terms = [linear_term(r.call, r.value, g.base) / r.call.scale for r in perturbed]
    return laws.noise_of(releases) | ({"linear term": np.concatenate(terms)} if terms else {})


def _of_randomness(subject: Subject, g: Group, epsilon: float, *, full: bool) -> Iterator[Finding]:
    def fit(state: int | None) -> Any:
        return subject.fit(g.base, state, epsilon, subject.delta)

    yield from streams.fresh_findings(fit)
    yield from streams.stream_findings(fit)
    yield from streams.seed_findings(fit)
    ledger = getattr(g.recorded.model, "ledger_", None)
    rate = laws.stopping_rate(ledger) if isinstance(ledger, Ledger) else None
    if rate is not None:
        yield from laws.run_findings(fit, rate, 300 if full else 60)


def _of_memory(subject: Subject, g: Group, epsilon: float) -> Iterator[Finding]:
    rows = g.base
    result = play(lambda: subject.fit(rows, 3, epsilon, subject.delta), Tape())
    if result.model is not None:
        arguments = (rows.table,) if rows.frame.domain is not None else rows.arrays
        yield from kept_findings(result.model, rows, arguments, own=subject.own is not None)
        if subject.own is None:
            yield from refit_findings(result.model, rows)


def _of_many_rows(subject: Subject, groups: Sequence[Group], epsilon: float, n: int) -> Iterator[Finding]:
    """Yield where rounding in sums over many rows moves exact values by more than one row may.

    Streamed rows are a full batch and one row more: the rows at the ends of both change, too.
    """
    g = groups[0]
    places = [17]
    if g.base.frame.source:
        n, places = BATCH + 1, [17, BATCH - 1, BATCH]
    few = of_frame(g.base.frame, subject.task, 64, np.random.default_rng(1))
    codes = np.resize(few.codes, (n, few.codes.shape[1]))
    k = 1 if few.frame.unit is None else few.frame.unit.rows
    rows = SyntheticTable(few.frame, few.task, codes, np.arange(n) // k)
    delta = subject.delta

    def first_releases(table: SyntheticTable, tape: Tape) -> ReplayResult:
        return play(lambda: subject.fit(table, 5, epsilon, delta), tape)

    base = first_releases(rows, Tape(most=2, ids=rows.who))
    if base.error:  # some methods want a delta below 1/n
        delta = min(delta, 0.1 / n)
        base = first_releases(rows, Tape(most=2, ids=rows.who))
    if base.error or not base.releases:
        return
    for at in places:
        others = [rows.replaced(at, record) for record in records(rows, 2, np.random.default_rng(2))]
        if subject.relation is Relation.ADD_REMOVE:
            others = [others[0], others[0].without(at)]
        of = int(rows.ids[at])
        results = [
            first_releases(table, Tape(base.releases, exact=True, most=2, ids=table.who, always=of)) for table in others
        ]
        for one, two in zip(results[0].releases, results[1].releases, strict=False):
            if one.exact is None or two.exact is None or one.call != two.call:
                continue
            moved = change(one.call, one.exact, two.exact)
            if moved > allowed(one.call) * (1 + TOLERANCE):
                what = f"neighbours are {moved:.6g} apart, declared {allowed(one.call):.6g}"
                yield Finding("sensitivity", f"{n} rows: {one.call.mechanism} release '{one.call.label}'", what)


def _linear_terms(subject: Subject, g: Group) -> tuple[list[float], list[Finding]]:
    """Return the shares of the bound by which linear terms of neighbours differ, for objective perturbation."""
    theta = next((r for r in g.releases if r.call.mechanism == "objective"), None)
    if theta is None or g.base.frame.open_domain is not None:  # what was learned decides what its coefficients are of
        return [], []
    at = 0
    tables = [g.base.replaced(at, record) for record in records(g.base, 5, np.random.default_rng(3))]
    if subject.relation is Relation.ADD_REMOVE:
        pairs = [(table, g.base.without(at)) for table in tables]
    else:
        pairs = list(itertools.combinations(tables, 2))
    bound = theta.call.sensitivity * Neighbours(subject.relation, g.base.frame.unit).marginal_sensitivity_l1
    value = np.asarray(theta.value)
    shares = [
        float(np.linalg.norm(linear_term(theta.call, value, a) - linear_term(theta.call, value, b))) / bound
        for a, b in pairs
    ]
    worst = max(shares)
    text = f"linear terms of neighbours differ by {worst:.4g} times the declared bound"
    return shares, [Finding("sensitivity", "objective", text)] if worst > 1 + 1e-6 else []


def _report(subject: Subject, groups: Sequence[Group], replays: int, findings: tuple[Finding, ...]) -> Report:
    pairs = [pair for g in groups for pair in g.pairs]
    shares = [share for pair in pairs for share in pair.shares()]
    worst, certified = loss.LossEstimate(0.0, 0.0, 0.0), math.inf
    charged = [g for g in groups if isinstance(getattr(g.recorded.model, "ledger_", None), Ledger)]
    for g in sorted(charged, key=lambda g: -max((p.loss for p in g.pairs), default=0.0)):
        ledger = g.recorded.model.ledger_
        spent = ledger.epsilon_spent or math.inf
        terms, wrong = _linear_terms(subject, g)
        findings += tuple(wrong)
        shares += terms
        sampled = any(is_subsampled(e) for e, _ in flattened(ledger.events))
        if not ledger.events or (sampled and worst.epsilon > 0):  # one loss distribution is enough
            continue
        attained = loss.worst_loss(g.pairs, ledger, subject.delta, terms)
        if (attained.epsilon, attained.mu) >= (worst.epsilon, worst.mu):
            worst, certified = attained, spent if ledger.certified else math.inf
        if attained.epsilon > spent * (1 + 1e-6):
            text = f"neighbours are told apart at epsilon {attained.epsilon:.6g}, charged is {spent:.6g}"
            findings += (Finding("charge", "the worst pair", text),)
    return Report(
        subject.name,
        subject.variant,
        subject.task,
        str(subject.relation),
        subject.calibration,
        replays,
        sum(len(g.releases) for g in groups),
        certified,
        worst.epsilon,
        worst.share,
        worst.mu,
        max(shares, default=0.0),
        charged[0].recorded.model.ledger_.arithmetic if charged else "",
        _unique(findings),
        0.0,
    )


def _unique(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return of each place the first finding, and of one kind the first dozen places."""
    places: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        places.setdefault((finding.check, finding.where.rpartition(": ")[2]), finding)
    kinds: dict[str, list[Finding]] = {}
    for finding in places.values():
        kinds.setdefault(finding.check, []).append(finding)
    return tuple(finding for same in kinds.values() for finding in same[:_MOST_FINDINGS])
