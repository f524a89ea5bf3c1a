"""Raw COMPAS two-year scores, as published by ProPublica."""

from __future__ import annotations

import pandas as pd

from marginalia.data.catalogue.discretize import Files, loader, top_coded
from marginalia.data.catalogue.entry import Entry
from marginalia.errors import InputError


def read(entry: Entry, files: Files) -> pd.DataFrame:
    r"""Return the raw rows, all of them: ProPublica's own filters are not applied.

    `decile_score` and `priors_count` stand twice in the header. The copies are equal in the published file; they are
    compared, and the first is kept.

    >>> from io import StringIO
    >>> from marginalia.data.catalogue.catalogue import entry
    >>> read(entry("compas"), {"table": StringIO("age,decile_score,decile_score\n34,3,3")}).columns.tolist()
    ['age', 'decile_score']
    """
    raw = pd.read_csv(files["table"], header=None, dtype=str, na_filter=False)
    header, frame = raw.iloc[0], raw.iloc[1:].reset_index(drop=True)
    for position, name in header[header.duplicated()].items():
        if not frame[position].equals(frame[header.tolist().index(name)]):
            raise InputError(f"{files['table']}: column '{name}' stands twice in the header with different values")
    return frame.set_axis(header.tolist(), axis=1).loc[:, ~header.duplicated().to_numpy()]


def prepare(name: str, raw: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the data set `name`: counts top-coded, or Booleans with public thresholds.

    >>> prepare("compas_smooth3", pd.DataFrame({"priors_count": ["2", "40"]}))["priors_count"].tolist()
    ['2', '38+']
    """
    if name == "compas":
        counts = top_coded(raw, juv_fel_count=4, juv_misd_count=4, juv_other_count=4, priors_count=20)
        return counts.replace({"c_charge_degree": {"M": "misdemeanor", "F": "felony"}})
    if name == "compas_smooth3":
        return top_coded(raw, priors_count=38)
    if name != "compas_bool13":
        return raw
    priors = raw["priors_count"].astype(int)
    return pd.DataFrame(
        {
            "two_year_recid": raw["two_year_recid"],
            "male": raw["sex"] == "Male",
            "African-American": raw["race"] == "African-American",
            "Caucasian": raw["race"] == "Caucasian",
            "age<25": raw["age_cat"] == "Less than 25",
            "age>45": raw["age"].astype(int) > 45,  # `age_cat` would count 45, too
            "priors>=1": priors >= 1,
            "priors>=3": priors >= 3,
            "priors>=7": priors >= 7,
            "juv_fel>0": raw["juv_fel_count"].astype(int) > 0,
            "juv_misd>0": raw["juv_misd_count"].astype(int) > 0,
            "juv_other>0": raw["juv_other_count"].astype(int) > 0,
            "felony": raw["c_charge_degree"] == "F",
        }
    )


load = loader(read, prepare)
