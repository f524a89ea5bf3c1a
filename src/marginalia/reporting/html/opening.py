"""The sentences of the page that follow from its tables: what ran, what the result is, what may be published."""

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
    """Return what ran and what the result is, in one sentence each; fewer if nothing ran.

    Parameters
    ----------
    tables : mapping of name to DataFrame
        Aggregates under their metric id, and tables of claims (``*_verdicts``).
    titles : sequence of str
        Of the studies, which have runs of their own.
    datasets_info : sequence of mapping
    """
    aggregates, claims = _aggregates(tables), _tables_of_claims(tables)
    found = [_what(aggregates, titles, datasets_info)]
    if aggregates:
        found.append(_winners({m: aggregates[m] for m in HEADLINES if m in aggregates} or aggregates))
    elif claims:
        found.append(_claims(claims))
    return found


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
    """Return whom a page is for, and why it must not be published; None if all of its rows are public."""
    own = own_data(datasets_info)
    if not own:
        return None
    return (
        f"for the owner of the rows of {_named(own)}.",
        "May I publish this? No. The errors on this page are exact on private rows, without noise. A certificate "
        "covers the release of one fit. It covers neither this page nor a choice made by it. The sweep kept no budget "
        "file, so the total privacy cost of all fits is unknown.",
    )


def publishing(
    datasets_info: Sequence[Mapping[str, Any]], aggregates: Sequence[pd.DataFrame], certificates: pd.DataFrame
) -> list[tuple[str, str, str]]:
    """Return the kinds of results of a run, whether each may be published (``Yes``, ``No`` or a condition), and why.

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
    answers = [("This page, its tables and figures", *(_PAGE_OF_OWN if own else _PAGE_OF_PUBLIC))]
    verdicts = set(certificates["certified"]) if len(certificates) else set()
    answers += [(what, answer, why) for word, (what, answer, why) in _FITS.items() if word in verdicts]
    if any((frame["calibration"] == NON_PRIVATE).any() for frame in aggregates):
        answer = "No" if own else "Of public rows only"
        answers.append(("A model without privacy", answer, "It protects no row. It is a baseline."))
    if verdicts:
        answers.append(
            (
                "The choice of a method by this page",
                "No" if own else "Yes",
                "The choice depends on exact errors on private rows, which no certificate covers. Choose by a public "
                "table, or by “marginalia recommend”."
                if own
                else "The errors are on public rows, so the choice reveals nothing about the rows of your own table.",
            )
        )
    return answers


_PAGE_OF_OWN = ("No", "The errors are exact on private rows, without noise. They are for the owner of the rows.")
_PAGE_OF_PUBLIC = (
    "Yes",
    "The data sets are public. Their licences are listed under “Data sets”.",
)
# By the verdict of a certificate, of one fit: the model or the synthetic table that it released.
_FITS = {
    "yes": (
        "A certified model or synthetic table",
        "Yes, with its certificate",
        "Its ε and δ hold for every row. Each further release of the same rows adds its own ε. “marginalia certify "
        "--together” computes the total.",
    ),
    "ideal": (
        "A release certified in ideal arithmetic (°)",
        "Yes, with this note",
        "The proof is about real numbers. The code computes in floats, which an attacker may exploit.",
    ),
    "part": (
        "A release that protects some rows only (‡)",
        "No, unless the other rows are public",
        "Its certificate names the protected rows.",
    ),
    "draft": (
        "A release whose domain was read off the rows (§)",
        "Not yet",
        "Review the domain file, correct each marked fact or learn it privately, set “reviewed: true”, and fit again.",
    ),
    "declared": (
        "A release whose ε is stated by its author (‡)",
        "Not as private",
        "No ledger and no audit supports the statement.",
    ),
    "refuted": (
        "A release of a method that an audit refuted (✗)",
        "Not as private",
        "The audit found that the privacy of the method does not hold.",
    ),
    "no": (
        "A release that spends more than the requested ε (†)",
        "Not at the requested ε",
        "Its certificate states the ε that it spends.",
    ),
}


def _what(
    aggregates: Mapping[str, pd.DataFrame], titles: Sequence[str], datasets_info: Sequence[Mapping[str, Any]]
) -> str:
    if not aggregates:
        used = sum(d.get("status") == "used" for d in datasets_info)
        if not titles:
            return "This run has no results."
        about = f" on {_count(used, 'data set')}" if used else ""
        return f"{_count(len(titles), 'experiment')}{about}, each with its figure and table."
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
        return "No private method ran, so there is no ranking."
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
    """Return how many settings of a sweep are certified, how many values are missing, and the verdicts of its claims.

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
            "refuted": "are of a method that an audit refuted",
            "no": "spend more than the requested ε",
            "draft": "have a domain that was read off the rows",
            "declared": "have a claimed ε only",
            "part": "protect some rows only",
            "unknown": "have no successful run",
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
    """Return the verdicts of the papers' claims: neither our own claims nor repetitions of a claim."""
    verdicts: Counter[str] = Counter()
    for lines in claims:
        counted = "sentence" in lines  # tables of 1.0 have a line a sentence, all of them the papers'
        verdicts.update(sentence_verdicts(lines[lines["whose"] == "paper"]) if counted else lines["verdict"])
    shown = [f"{verdicts[word]} {word}" for word in WORDS if verdicts[word]]
    return f"Of {_count(sum(verdicts.values()), 'claim')} of the papers {_and(shown)}."


def counted(n: int, what: str) -> tuple[str, str]:
    """Return a number and what it counts, in the plural where the number asks for it.

    >>> counted(1, "data set"), counted(0, "data set")
    (('1', 'data set'), ('0', 'data sets'))
    """
    return str(n), what if n == 1 else f"{what}s"


def _count(n: int, what: str) -> str:
    return " ".join(counted(n, what))


def _named(datasets: Sequence[str]) -> str:
    return _and([catalogue.title(name) for name in datasets])


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
