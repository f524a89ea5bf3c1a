"""Find the columns of a raw table that name the person or household of each row: keys that several rows share.

A certificate for rows does not protect a person with several rows. So a draft proposes such a column as the privacy
unit, and each verb that reads rows reports one that the domain does not name as its unit. Which columns are looked at
follows from names and from the form of the texts. All numbers of rows are private: they are for the owner alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.cells import Cell, Cells, cells_of
from marginalia.data.units import Unit, keys_of

if TYPE_CHECKING:
    import pandas as pd

    from marginalia.data.domain import Domain

Names = Literal["person", "household", "key", "event"]

UNPROTECTED = "a certificate for rows does not protect a person with several rows"
MANY = 50  # distinct keys, up to which the values of `id` may be categories
FEW = 12  # distinct values, up to which those of `subject` or `customer` may be
_LEAST_SHARE = 0.02  # keys per row, where texts look like keys but the column has another name
_MOST_EVENTS = 0.9  # keys per row

# Words of column names, in lower case.
_PERSON = re.compile(
    r"(person|persona|personne|patient|paciente|subject|sujet|proband|participant|respondent|individual|student|pupil|"
    r"schueler|schüler|eleve|élève|child|mother|father|member|mitglied|user|usuario|utilisateur|nutzer|benutzer|"
    r"customer|client|cliente|kunde|employee|mitarbeiter|worker|donor|insured|versicherte|policyholder|beneficiary|"
    r"borrower|applicant|candidate|voter|citizen|resident|tenant|rider|driver|passenger|athlete|player|reviewer|"
    r"teilnehmer|befragte|animal|mouse|rat)(n|en|r|e|in|innen)?"
)
_SHORT_PERSON = re.compile(r"pat|pats|subj|usubj|indiv|resp|bene|pers|kd|kunden|cust|emp|ptn|pt")  # before id, nr, ..
_PERSON_KEY = frozenset(
    ("pid", "pnr", "mrn", "ssn", "uid", "seqn", "nhs", "cpr", "bsn", "svnr", "idpers", "personnummer")
)
_HOUSEHOLD = re.compile(r"household|hh|hhld|haushalt|haushalts|family|familie|familien|hogar|menage|ménage|hid|serial")
_EVENT = re.compile(
    r"stay|icustay|hadm|visit|encounter|admission|case|fall|episode|order|transaction|invoice|session|trip|claim|"
    r"rating|review|aufenthalt|aufenthalts|besuch|bestell|sejour|séjour"
)
_ATTRIBUTE = re.compile(r"(type|category|group|segment|status|role|class|language|currency|cluster|age|count|show)s?")
_THING = re.compile(
    r"(ward|station|clinic|hospital|klinik|site|cent(er|re)|school|course|teacher|doctor|physician|provider|nurse|"
    r"instructor|arzt|firm|company|store|shop|branch|region|zip|zipcode|postal|postcode|plz|city|state|county|country|"
    r"tract|block|icd|diagnosis|diag|drg|procedure|drug|device|batch|plate|test|lab|team|dept|department|item|product|"
    r"article|sku|movie|film|book|isbn|zone|area|district|model|sensor|machine|line|room|bed|facility|atc|ops)s?"
)
_KEY = frozenset(("id", "uuid", "guid", "key", "pseudonym", "ident", "identifier", "kennung"))
_NUMBER = frozenset(("nr", "no", "num", "number", "nummer", "code", "hash", "name", "index", "ref"))
_WORDS = re.compile(r"[A-ZÄÖÜÉ]+(?![a-zäöüé])|[A-ZÄÖÜÉ]?[a-zäöüéß]+")
_ENDS = re.compile(r"(.{2,}?)(id|nr|no|num|nummer)")  # of one word: patnr, subjid
_PREFIXED = re.compile(r"([A-Za-z]{1,8}[-_]?)\d{4,}")  # P00017; A017 may be a code
_HEX = re.compile(r"[0-9a-fA-F]{16,}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, eq=False)
class Key:
    """A column whose values name what a row belongs to, and which several rows share.

    Attributes
    ----------
    column : str
    names : {"person", "household", "key", "event"}
        What the name of the column says; "key": nothing certain.
    type : {"integer", "string"}
        By which two cells are one key.
    sizes : ndarray of int
        The number of rows of each key.
    gaps : int
        The number of rows without a key, which are one unit together.

    Examples
    --------
    >>> Key("patient_id", "person", "integer", np.array([1, 3, 38])).line
    '3 different `patient_id` in 42 rows, 1 to 38 rows each, half of them at most 3'
    """

    column: str
    names: Names
    type: Literal["integer", "string"]
    sizes: NDArray[np.int64]
    gaps: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        """By which keys are sorted, most likely persons first; of equals the one with more rows to a key."""
        return get_args(Names).index(self.names), len(self.sizes)

    @property
    def question(self) -> str:
        """What the owner of the rows has to look at."""
        whose = {
            "person": "does it name the person of a row?",
            "household": "does it name the household of a row? To protect persons alone, name their column instead",
            "key": "does it name the person or household of a row?",
            "event": "it seems to name a stay, case or order; to protect persons, name their column instead",
        }
        return f"a key that several rows share: {whose[self.names]}"

    @property
    def line(self) -> str:
        """How many rows the keys have, for the owner of the rows."""
        n, sizes = int(self.sizes.sum()), self.sizes
        half = f"half of them at most {int(np.quantile(sizes, 0.5, method='lower'))}"
        gaps = f"; {self.gaps:,} rows have none and are one unit together" if self.gaps else ""
        many = f"{len(sizes):,} different `{self.column}` in {n:,} rows"
        return f"{many}, {sizes.min()} to {sizes.max()} rows each, {half}{gaps}"


def names_of(column: str) -> Names | None:
    """Return what the values of a column name, by its own name alone; None: no key.

    >>> [names_of(name) for name in ("PatientID", "patnr", "hh_id", "id", "stay_id", "ward_id", "patient_age")]
    ['person', 'person', 'household', 'key', 'event', None, None]
    """
    return _reading(column)[0]


def _reading(column: str) -> tuple[Names | None, bool]:
    """Return what the values of a column name, and whether its name says that they are keys."""
    words = [word.lower() for word in _WORDS.findall(column) if word not in "xy"]  # a suffix of joined tables
    is_key = any(word in _KEY | _NUMBER for word in (*words[:1], *words[-1:]))
    stems = []
    for word in words:
        ended = _ENDS.fullmatch(word)
        if ended and any(of.fullmatch(ended[1]) for of in (_PERSON, _SHORT_PERSON, _HOUSEHOLD, _EVENT, _THING)):
            is_key, word = True, ended[1]
        if word not in _KEY | _NUMBER:
            stems.append(word)
    if any(map(_ATTRIBUTE.fullmatch, stems)):
        return None, False
    if any(map(_PERSON.fullmatch, stems)) and (is_key or len(stems) == 1):
        return "person", is_key
    if (is_key and any(map(_SHORT_PERSON.fullmatch, stems))) or (len(stems) == 1 and stems[0] in _PERSON_KEY):
        return "person", True
    if any(map(_HOUSEHOLD.fullmatch, stems)) and (is_key or len(stems) == 1):
        return "household", is_key
    if any(map(_THING.fullmatch, stems)):
        return None, False
    if is_key and any(map(_EVENT.fullmatch, stems)):
        return "event", True
    return ("key" if words == ["nr"] or any(word in _KEY for word in (*words[:1], *words[-1:])) else None), is_key


def key_of(column: str, cells: Cells) -> Key | None:
    """Return the key that a column is, if several rows share it.

    >>> import pandas as pd
    >>> key_of("patient", cells_of(pd.Series([k % 90 for k in range(300)]), "patient")).sizes.max()
    np.int64(4)
    >>> key_of("age", cells_of(pd.Series([k % 90 for k in range(300)]), "age")) is None
    True
    """
    counts = cells.counts
    n = np.count_nonzero(counts)
    if n < 2 or counts.max() < 2:
        return None
    names, says_key = _reading(column)
    if names == "person":
        least = 2 if says_key else FEW + 1
    else:
        least = MANY + 1 if names else max(MANY + 1, _LEAST_SHARE * counts.sum())
    listed = [cell for cell, count in zip(cells.listed, counts, strict=True) if count]
    if names == "event" and n >= _MOST_EVENTS * counts.sum():
        return None  # the identifier of a row, with repeats
    if n < least or any(cell.kind not in ("text", "number") for cell in listed):
        return None
    if names is None and not (_may_be_key(column) and _look_like_keys([cell.text for cell in listed])):
        return None
    if any(map(_is_decimal, listed)):
        return None
    kind: Literal["integer", "string"] = "integer" if all(map(_is_whole, listed)) else "string"
    sizes = np.bincount(keys_of(cells, Unit(column, type=kind))[1])
    return Key(column, names or "key", kind, sizes, int((cells.which < 0).sum())) if sizes.max() > 1 else None


def notes_on_keys(frame: pd.DataFrame, domain: Domain) -> list[str]:
    """Return a line for the owner where rows share a key of persons and the domain names no unit; else nothing.

    >>> import pandas as pd
    >>> from marginalia.data.domain import Domain
    >>> frame = pd.DataFrame({"patient_id": [1, 1, 2], "age": [0, 1, 1]})
    >>> notes_on_keys(frame, Domain.from_sizes({"age": 2}).replace(ignored=["patient_id"]))
    ['units, off the private rows: 2 different `patient_id` in 3 rows, 1 to 2 rows each, ...; no unit is declared: ...']
    """
    if domain.unit is not None:
        return []
    # A column of the domain is a key by its name only: many columns of a wide table hold texts.
    looked_at = [(j, name) for j, name in enumerate(map(str, frame.columns)) if names_of(name) or name not in domain]
    found = (key_of(name, cells_of(frame.iloc[:, j], name, lenient=True)) for j, name in looked_at)
    key = min(filter(None, found), key=lambda key: key.rank, default=None)
    return (
        [] if key is None else [f"units, off the private rows: {key.line}; no unit is declared: {advice(key.column)}"]
    )


def note_on_names(columns: Sequence[str]) -> list[str]:
    """Return a line where the name of a column says that it names persons or households; no row is read.

    >>> note_on_names(["patient_id", "age"])
    ['units: by its name `patient_id` names persons or households, and no unit is declared: a certificate for rows ...']
    >>> note_on_names(["age"])
    []
    """
    found = [name for kind in ("person", "household") for name in columns if names_of(name) == kind]
    what = "by its name `{}` names persons or households, and no unit is declared"
    return [f"units: {what.format(name)}: {advice(name)}" for name in found[:1]]


def advice(column: str) -> str:
    """Return what a certificate for rows does not protect, and the line of a domain that does.

    >>> advice("patient").split("; ")[1]
    'to protect all rows of one `patient`, write `unit: patient` in the domain'
    """
    return f"{UNPROTECTED}; to protect all rows of one `{column}`, write `unit: {column}` in the domain"


def _may_be_key(column: str) -> bool:
    return not any(of.fullmatch(word.lower()) for word in _WORDS.findall(column) for of in (_ATTRIBUTE, _THING))


def _look_like_keys(texts: Sequence[str]) -> bool:
    """Whether texts are one prefix with digits, or long hexadecimal numbers such as hashes and UUIDs."""
    if all(map(_HEX.fullmatch, texts)):
        return not all(map(str.isdecimal, texts))
    prefixes = {found[1] if found else "" for found in map(_PREFIXED.fullmatch, texts)}
    return len(prefixes) == 1 and "" not in prefixes


def _is_whole(cell: Cell) -> bool:
    """Whether a cell is a whole number without leading zeros: 7 and 7.0 are one key, 7 and 007 may be two."""
    padded = len(cell.text) > 1 and cell.text[0] == "0" and cell.text.isdecimal()
    return not padded and values.exact(cell) is not None and bool(values.WHOLE.fullmatch(values.exact_text(cell)))


def _is_decimal(cell: Cell) -> bool:
    return values.exact(cell) is not None and "." in values.exact_text(cell)
