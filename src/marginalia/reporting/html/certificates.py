"""Certificates as the report page shows them: one sheet of text for each arm at each epsilon, equal ones once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from marginalia.privacy.certificate import Certificate
from marginalia.privacy.certificate_page import certificate_page
from marginalia.privacy.verify import verify
from marginalia.reporting.arms import plain_names
from marginalia.reporting.formats import epsilon_name
from marginalia.reporting.style import RELATION_NAMES, arm_name
from marginalia.reporting.tables import ARM, PANEL
from marginalia.sweep.records import RunCertificate

SETTING = (*PANEL, *ARM, "epsilon")


@dataclass(frozen=True)
class Sheet:
    """One certificate.

    Attributes
    ----------
    id : str
        Its place among those of the page, from 0.
    title : str
        The settings that it is of.
    text : str
        What `marginalia certify` prints, the second accountant left out, and how the trials compare.
    """

    id: str
    title: str
    text: str


@dataclass
class Sheets:
    """The certificates of a page: many lines stand in many of them.

    Parameters
    ----------
    certificates : iterable of RunCertificate

    Attributes
    ----------
    sheets : list of Sheet
        In the order of the certificates.
    """

    certificates: Iterable[RunCertificate] = ()
    sheets: list[Sheet] = field(init=False)

    def __post_init__(self) -> None:
        settings: dict[tuple[Any, ...], list[tuple[int, Mapping[str, Any]]]] = {}
        for one in self.certificates:
            *setting, trial = one.run
            settings.setdefault(tuple(setting), []).append((trial, one.content))
        texts: dict[str, list[tuple[Any, ...]]] = {}
        for key, trials in settings.items():
            trials.sort(key=lambda pair: pair[0])
            proof = Certificate(trials[0][1])
            lines = [*certificate_page(proof, verify(proof, second=False)), f"{'trials':<12}  {across(trials)}"]
            texts.setdefault("\n".join(lines), []).append(key)
        several = [len({key[place] for key in settings}) > 1 for place in (0, 1)]
        names = plain_names(key[2] for key in settings)
        self.sheets = [
            Sheet(str(number), _title(keys, several, names), text) for number, (text, keys) in enumerate(texts.items())
        ]
        of = zip(self.sheets, texts.values(), strict=True)
        self._ids = {_name(key): sheet.id for sheet, keys in of for key in keys}

    @property
    def content(self) -> dict[str, Any]:
        """What the page holds: all ``lines`` once, and ``sheets`` as (title, places of its lines)."""
        places: dict[str, int] = {}
        sheets = [
            (sheet.title, [places.setdefault(line, len(places)) for line in sheet.text.split("\n")])
            for sheet in self.sheets
        ]
        return {"lines": list(places), "sheets": sheets}

    def id_of(self, row: Any) -> str:
        """Return the id of the sheet of one setting, a named tuple with the columns `SETTING`; empty if it has none."""
        return self._ids.get(_name([getattr(row, column) for column in SETTING]), "")


def _name(key: Sequence[Any]) -> tuple[str, ...]:
    *texts, epsilon = key
    return (*map(str, texts), f"{epsilon:.12g}")  # tables come from CSV files


def _title(keys: Sequence[Sequence[Any]], several: Sequence[bool], names: Mapping[str, str]) -> str:
    """Return ``SSP · ε = 1 · Adult · hours``; of several settings with one text, all data sets and targets."""
    arms: dict[str, list[str]] = {}
    for key in keys:
        of = dict(zip(SETTING, key, strict=True))
        name = arm_name(of["method"], of["variant"], of["calibration"])
        if of["relation"] != "add_remove":
            name += f" [{RELATION_NAMES.get(of['relation'], of['relation'])}]"
        where = [
            names[of["dataset"]],
            of["target"],
            *(of[c] for c, tell in zip(PANEL[:2], several, strict=True) if tell),
        ]
        arms.setdefault(f"{name} · ε = {epsilon_name(of['epsilon'])}", []).append(" · ".join(filter(None, where)))
    return "; ".join(f"{arm} · {', '.join(panels)}" for arm, panels in arms.items())


def across(trials: Sequence[tuple[int, Mapping[str, Any]]]) -> str:
    """Say how the certificates of some trials, the first of which is shown, compare.

    >>> one = {"events": [], "epsilon_spent": 1.0}
    >>> across([(0, one), (1, one)])
    'the same for all 2 trials'
    >>> across([(0, one), (1, {**one, "epsilon_spent": 0.9})])
    'this is trial 0 of 2; they differ in: epsilon stored (0.9 to 1)'
    """
    contents = [content for _, content in trials]
    first = contents[0]
    if all(content == first for content in contents):
        return "the only one" if len(trials) == 1 else f"the same for all {len(trials)} trials"
    ways = []
    if any(content["events"] != first["events"] for content in contents):
        counts = [len(content["events"]) for content in contents]
        mechanisms = _mechanisms(first)
        if any(_mechanisms(content) != mechanisms for content in contents[1:]):
            ways.append(f"their releases ({_span(counts)} of them)")
        else:
            ways.append("what was selected (all have the same mechanisms)")
    spent = [content["epsilon_spent"] for content in contents if content["epsilon_spent"] is not None]
    if " to " in _span(spent):  # the last digits depend on the order of the releases
        ways.append(f"epsilon stored ({_span(spent)})")
    others = sorted({k for content in contents for k in content if content[k] != first.get(k)})
    ways += [name for name in others if name not in ("events", "epsilon_spent")]
    return f"this is trial {trials[0][0]} of {len(trials)}; they differ in: {', '.join(ways)}"


def _mechanisms(content: Mapping[str, Any]) -> Counter[str]:
    return Counter(repr({k: v for k, v in event.items() if k != "label"}) for event in content["events"])


def _span(values: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(f"{v:.6g}" for v in (min(values), max(values)))) if values else "unknown"
