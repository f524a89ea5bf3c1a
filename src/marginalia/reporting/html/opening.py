"""The sentences of the page that are made from its tables: what was run, what came out, what it is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from marginalia.data.catalogue import catalogue
from marginalia.peers.record import is_peer
from marginalia.reporting.arms import best_certified
from marginalia.reporting.formats import span
from marginalia.reporting.tables import NON_PRIVATE, PANEL
from marginalia.reporting.verdicts import WORDS, sentence_verdicts
from marginalia.sweep.metrics import HEADLINES, METRICS
from marginalia.sweep.records import CERTIFIED

VERDICTS = "_verdicts"  # end of the name of a table of claims


def sentences(
    tables: Mapping[str, pd.DataFrame], titles: Sequence[str], datasets_info: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return what was run and what came out, in one sentence each; fewer where nothing was run.

    Parameters
    ----------
    tables : mapping of name to DataFrame
        Aggregates under their metric id, and tables of claims (``*_verdicts``).
    titles : sequence of str
        Of the studies, which have runs of their own.
    datasets_info : sequence of mapping
    """
    aggregates, claims = _aggregates(tables), _tables_of_claims(tables)
    said = [_what(aggregates, titles, datasets_info)]
    if aggregates:
        said.append(_winners({m: aggregates[m] for m in HEADLINES if m in aggregates} or aggregates))
    elif claims:
        said.append(_claims(claims))
    return said


def _aggregates(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    return {metric: tables[metric] for metric in METRICS if metric in tables and len(tables[metric])}


def _tables_of_claims(tables: Mapping[str, pd.DataFrame]) -> list[pd.DataFrame]:
    return [frame for name, frame in tables.items() if name.endswith(VERDICTS) and len(frame)]


def own_data(datasets_info: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the data sets of a run that are the user's own, whose rows are private.

    >>> own_data([{"name": "adult", "status": "used"}, {"name": "clinic", "status": "used"}])
    ['clinic']
    """
    used = [str(d["name"]) for d in datasets_info if d.get("status") == "used"]
    return [name for name in used if name not in catalogue.names()]


def warning(datasets_info: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return for whom a page is, and why nobody else may see it; None where all of its rows are public."""
    own = own_data(datasets_info)
    if not own:
        return None
    return (
        f"for the owner of the rows of {_named(own)}.",
        "May I publish this? No, because its errors are exact on private rows, without noise; a certificate covers "
        "the release of one fit, neither this page nor a choice made by it. No budget file was kept: nobody knows what "
        "all fits cost together.",
    )


def publishing(
    datasets_info: Sequence[Mapping[str, Any]], aggregates: Sequence[pd.DataFrame], certificates: pd.DataFrame
) -> list[tuple[str, str, str]]:
    """Return what there is to publish of a run, whether one may (``Yes``, ``No`` or a condition), and why.

    Parameters
    ----------
    datasets_info : sequence of mapping
    aggregates : sequence of DataFrame
        Of each metric.
    certificates : DataFrame
        Of `marginalia.reporting.tables.certificates`; it may be empty.
    """
    used = [d["name"] for d in datasets_info if d.get("status") == "used"]
    if not used:
        return []
    own = not set(used) <= set(catalogue.names())
    told = [("This page, its tables and figures", *(_PAGE_OF_OWN if own else _PAGE_OF_PUBLIC))]
    verdicts = set(certificates["certified"]) if len(certificates) else set()
    told += [(what, answer, why) for word, (what, answer, why) in _FITS.items() if word in verdicts]
    if any((frame["calibration"] == NON_PRIVATE).any() for frame in aggregates):
        answer = "No" if own else "Of public rows only"
        told.append(("A model without privacy", answer, "Nothing hides a row in it: it is here to compare with."))
    if verdicts:
        told.append(
            (
                "That a method was chosen by this page",
                "No" if own else "Yes",
                "The choice is read off exact errors on private rows, which no certificate covers: choose by a public "
                "table, or by “marginalia recommend”."
                if own
                else "The rows that decided are public. A choice made so says nothing of the rows of your own table.",
            )
        )
    return told


_PAGE_OF_OWN = ("No", "Errors are exact on private rows, without noise; they are for the owner of the rows.")
_PAGE_OF_PUBLIC = (
    "Yes",
    "Its rows are public data sets; the licence of each, where its source has one, stands below.",
)
# By the verdict of a certificate, of one fit: the model or the synthetic table that it released.
_FITS = {
    "yes": (
        "A certified model or synthetic table",
        "Yes, with its certificate",
        "Its ε and δ hold for every row. Each further release of the same rows adds its own ε: “marginalia certify "
        "--together” says what all cost.",
    ),
    "ideal": (
        "One that is certified in ideal arithmetic (°)",
        "Yes, and say so",
        "The proof is about real numbers and the code computes in floats, which an attacker may exploit.",
    ),
    "part": (
        "One that protects some rows only",
        "No, unless the other rows are public",
        "Its certificate says whose rows are protected.",
    ),
    "draft": (
        "One whose domain was read off the rows (§)",
        "Not yet",
        "Look through the domain file, correct each marked fact or have it learned privately, set “reviewed: true”, "
        "and fit again.",
    ),
    "declared": (
        "One whose ε is its author's word",
        "Not as private",
        "No ledger and no audit stand behind the claim.",
    ),
    "no": (
        "One that spends more than it was asked to",
        "Not at the requested ε",
        "The ε that it does spend stands in its certificate.",
    ),
}


def _what(
    aggregates: Mapping[str, pd.DataFrame], titles: Sequence[str], datasets_info: Sequence[Mapping[str, Any]]
) -> str:
    if not aggregates:
        used = sum(d.get("status") == "used" for d in datasets_info)
        if not titles:
            return "A run of which no table has any row."
        about = f" on {_count(used, 'data set')}" if used else ""
        return f"{_count(len(titles), 'experiment')} of a paper{about}, each with its figure and table."
    rows = pd.concat(list(aggregates.values()), ignore_index=True)
    private = rows[rows["calibration"] != NON_PRIVATE]
    methods, others = private["method"].unique(), rows.loc[rows["calibration"] == NON_PRIVATE, "method"].unique()
    peers = sum(map(is_peer, methods))
    who = _count(len(methods), "private method") if len(methods) else f"{_count(len(others), 'method')} without privacy"
    who += f" ({peers} of other libraries)" if peers else ""
    names = list(dict.fromkeys(map(catalogue.title, rows["dataset"].unique())))
    where = f" ({', '.join(names)})" if len(names) <= 4 else ""
    levels = sorted(private["epsilon"].unique())
    at = f", ε = {span(levels)}" if levels else ""
    also = f"; {_count(len(titles), 'more experiment')}" if titles else ""
    return f"{who} on {_count(len(set(rows['dataset'])), 'data set')}{where}{at}{also}."


def _winners(aggregates: Mapping[str, pd.DataFrame]) -> str:
    if not any((frame["calibration"] != NON_PRIVATE).any() for frame in aggregates.values()):
        return "No private method ran, so there is nothing to rank."
    parts: list[str] = []
    without: list[str] = []
    for metric, frame in aggregates.items():
        private = frame[frame["calibration"] != NON_PRIVATE]
        if private.empty:
            continue
        settings = len(private[[*PANEL, "epsilon"]].drop_duplicates())
        best = Counter(best_certified(frame)["name"])
        if not best:
            without.append(METRICS[metric].name)
            continue
        ((first, wins),) = best.most_common(1)
        parts.append(f"by {METRICS[metric].name}, {first} ({wins} of {settings}{'' if parts else ' settings'})")
    if not parts:
        return f"By {_and(without)}, no method is named best: none is certified and has a value in every trial."
    parts += [f"by {_and(without)}, no certified method has a value in every trial"] if without else []
    return f"Best certified method most often: {'; '.join(parts)}."


def worth(tables: Mapping[str, pd.DataFrame]) -> str:
    """Return what a sweep is worth: what is certified, what is missing, and what became of claims; else nothing.

    Parameters
    ----------
    tables : mapping of name to DataFrame
        Aggregates under their metric id, ``certificates``, and tables of claims (``*_verdicts``).
    """
    aggregates, claims = _aggregates(tables), _tables_of_claims(tables)
    certificates = tables.get("certificates", pd.DataFrame())
    if not aggregates:
        return ""
    parts = []
    if len(certificates):
        sure, n = int(certificates["certified"].isin(CERTIFIED).sum()), len(certificates)
        kinds = {
            "no": "spend more than they were asked to",
            "draft": "have a domain that was read off the rows",
            "declared": "have a claimed ε only",
            "part": "protect some rows only",
            "unknown": "have no run that ended",
        }
        counts = [(int((certificates["certified"] == word).sum()), text) for word, text in kinds.items()]
        rest = "".join(f", {k} {text}" for k, text in counts if k)
        parts.append(f"{'all ' if sure == n else f'{sure} of '}{n} private settings are certified{rest}")
    rows = pd.concat(list(aggregates.values()), ignore_index=True)
    lost = int(rows["n_trials"].sum() - rows["k"].sum())
    parts.append(f"{lost} of {rows['n_trials'].sum()} values are missing" if lost else "every run has its values")
    if claims:
        parts.append(_claims(claims).removesuffix(".").replace("Of ", "of ", 1))
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


def _claims(claims: Sequence[pd.DataFrame]) -> str:
    """Return what became of the papers' sentences: neither what is ours nor what another line judges already."""
    verdicts: Counter[str] = Counter()
    for lines in claims:
        counted = "sentence" in lines  # tables of 1.0 have a line a sentence, all of them the papers'
        verdicts.update(sentence_verdicts(lines[lines["whose"] == "paper"]) if counted else lines["verdict"])
    shown = [f"{verdicts[word]} {word}" for word in WORDS if verdicts[word]]
    return f"Of {_count(sum(verdicts.values()), 'claim')} of the papers {_and(shown)}."


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _named(datasets: Sequence[str]) -> str:
    return _and([catalogue.title(name) for name in datasets])


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
