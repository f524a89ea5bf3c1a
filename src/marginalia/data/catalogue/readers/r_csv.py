"""CSV files as R's `write.csv` leaves them: maybe a first column of row names, ``NA`` for what is missing."""

from __future__ import annotations

import pandas as pd

from marginalia.data.catalogue.discretize import Files, loader, top_coded
from marginalia.data.catalogue.entry import Entry


def read(entry: Entry, files: Files) -> pd.DataFrame:
    r"""Return the raw rows, missing cells as NaN; only those that have a value in each column of `options.complete`.

    A file that ends in ``.zip`` is unpacked.

    >>> from io import StringIO
    >>> from marginalia.data.catalogue.catalogue import entry
    >>> read(entry("flights_delay"), {"table": StringIO('"","hour","arr_delay"\n"1",NA,"7"\n"2",5,NA')})
      hour arr_delay
    0  NaN         7
    """
    frame = pd.read_csv(files["table"], dtype=str, keep_default_na=False, na_values=["NA", ""])
    frame = frame.drop(columns=[name for name in frame.columns[:1] if name.startswith("Unnamed")])
    return frame.dropna(subset=list(entry.options.get("complete", ()))).reset_index(drop=True)


def prepare(name: str, raw: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the data set `name`: counts top-coded, codes by their meaning, missing values filled.

    >>> prepare("flights", pd.DataFrame({"arr_delay": ["15", "14", None]}))["late"].tolist()  # cancelled is late
    [True, False, True]
    """
    match name:
        case "hi":
            return top_coded(raw, kidslt6=4, kids618=6)
        case "hdma":
            named = raw.rename(columns={"comdominiom": "condominium"})
            return named.fillna({"pbcr": "unknown", "self": "unknown"})
        case "flchain":
            known = raw["creatinine"].notna()
            return raw.fillna({"creatinine": "1"}).assign(**{"creatinine known": known})
        case "participation":
            return top_coded(raw, nyc=4, noc=4)
        case "vietnam_i":
            return top_coded(raw, pharvis=5, educ=12, illness=5)
        case "ofp":
            return top_coded(raw, ofp=20, ofnp=5, opp=5, opnp=5, emr=5, hosp=5, numchron=8)
        case "doctor_aus":
            consulted = raw["doctorco"].astype(int) >= 1
            counts = top_coded(raw, illness=5, actdays=14, hscore=12, nondocco=5, hospadmi=5)
            meaning = {"sex": {"0": "male", "1": "female"}, "insurance": {"freepor": "freepoor"}}
            return counts.replace(meaning).assign(consulted=consulted)
        case "nwtco":
            histology = {"1": "favourable", "2": "unfavourable"}
            return raw.replace({"instit": histology, "histol": histology})
        case "doctor_contacts":
            return top_coded(raw, mdu=20)
        case "movies":
            return raw.fillna({"mpaa": "none"})
        case "budget_food":
            return top_coded(raw, size=12).fillna({"sex": "unknown"})
        case "vocab":
            return top_coded(raw, education=20, vocabulary=10)
        case "vietnam_h":
            return top_coded(raw, hhsize=15)
        case "fair":
            return raw.assign(affair=raw["affairs"].astype(float) > 0)
        case "pensions":
            return top_coded(raw, fsize=8)
        case "alcohol":
            health = {"excellent": "exhealth", "very good": "vghealth", "good": "goodhealth", "fair": "fairhealth"}
            region = {"northeast": "northeast", "midwest": "midwest", "south": "south"}
            place = {"outer city": "outercity", "central city": "centcity"}
            levels = {
                "health": _level(raw, health, otherwise="poor"),
                "region": _level(raw, region, otherwise="west"),
                "place": _level(raw, place, otherwise="other"),
            }
            return top_coded(raw, famsize=8).assign(**levels)
        case "catholic":
            return raw[raw["hsgrad"] != "."].reset_index(drop=True)
        case "cps91":
            return raw.fillna({"husunion": "unknown"})
        case "labsup":
            return top_coded(raw, kids=6)
        case "happiness":
            answered = raw.fillna({"educ": "12", "babies": "0", "preteen": "0", "teens": "0"}).fillna("unknown")
            return top_coded(answered, babies=4, preteen=4, teens=4)
        case "chile":
            known = raw["income"].notna()
            middle = {"education": "unknown", "income": "30000", "age": "40", "statusquo": "0"}
            return raw.fillna(middle).assign(**{"income known": known})
        case "flights":
            return raw.assign(late=raw["arr_delay"].isna() | (raw["arr_delay"].astype(float) >= 15))
    return raw


def _level(raw: pd.DataFrame, indicators: dict[str, str], *, otherwise: str) -> pd.Series[str]:
    """Return the level of each row from indicator columns (level -> column), `otherwise` where none is 1."""
    level = pd.Series(otherwise, index=raw.index)
    for name, column in indicators.items():
        level = level.mask(raw[column].astype(float) == 1, name)
    return level


load = loader(read, prepare)
