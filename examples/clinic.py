"""Make `clinic.csv`: 10,000 stays in a hospital that does not exist, as its information system might write them.

python examples/clinic.py    # writes examples/clinic.csv; the same bytes every time
"""

from pathlib import Path

import numpy as np
import pandas as pd

N = 10_000
# Code, share of the stays, log odds of coming back, log of the length of stay.
DIAGNOSES = pd.DataFrame(
    [
        ("I50", 0.10, 0.9, 0.5), ("J44", 0.08, 0.8, 0.4), ("J18", 0.09, 0.2, 0.4), ("I21", 0.06, 0.1, 0.3),
        ("I63", 0.06, 0.0, 0.9), ("S72", 0.06, -0.1, 1.0), ("K35", 0.05, -1.0, -0.4), ("K80", 0.06, -0.8, -0.2),
        ("N39", 0.06, 0.3, 0.0), ("E11", 0.05, 0.5, 0.1), ("C34", 0.04, 0.7, 0.4), ("N18", 0.05, 0.9, 0.3),
        ("M16", 0.05, -1.2, 0.2), ("F10", 0.04, 1.0, -0.3), ("O80", 0.08, -1.6, -0.5), ("A41", 0.04, 0.5, 0.8),
    ],
    columns=["code", "share", "back", "stay"],
)  # fmt: skip
RARE = [f"{letter}{k:02d}" for letter in "BDGHLQRTZ" for k in range(3, 99, 13)]  # 72 codes, few stays each


def clinic(n: int = N, seed: int = 2026) -> pd.DataFrame:
    """Return `n` stays: age and illness decide how long they last and whether the patient is back within 30 days."""
    rng = np.random.default_rng(seed)
    birth = rng.random(n) < DIAGNOSES["share"][14]
    others = np.where(DIAGNOSES["code"] == "O80", 0, DIAGNOSES["share"])
    which = np.where(birth, 14, rng.choice(len(DIAGNOSES), n, p=others / others.sum()))
    rare = ~birth & (rng.random(n) < 0.12)
    diagnosis = np.where(rare, rng.choice(RARE, n), DIAGNOSES["code"].to_numpy()[which])
    back, stay = (np.where(rare, 0.0, DIAGNOSES[column].to_numpy()[which]) for column in ("back", "stay"))

    age = np.where(birth, rng.normal(31, 5, n), 104 * rng.beta(3.2, 1.9, n)).round().clip(17, 103).astype(int)
    sex = np.where(birth | (rng.random(n) < 0.5), "f", "m")
    day = rng.integers(0, 1096, n)  # of three years; more in winter
    day = np.where(rng.random(n) < 0.15, (day // 365.25).astype(int) * 365 + rng.integers(0, 60, n), day)
    emergency = rng.random(n) < np.where(birth, 0.2, 0.35 + 0.004 * (age - 17))
    earlier = rng.poisson(np.exp(-1.1 + 0.012 * (age - 50) + 0.5 * back))  # stays in the year before
    weight = (np.where(sex == "f", 66, 80) * np.exp(rng.normal(0, 0.18, n))).round(1)
    creatinine = np.exp(rng.normal(-0.15 + 0.006 * (age - 50) + 0.3 * (diagnosis == "N18"), 0.3)).round(2)
    postcode = 8000 + 5 * ((rng.pareto(0.9, n) * 8).astype(int) % 200)  # few large towns, many villages

    log_stay = 1.0 + stay + 0.012 * (age - 50) + 0.35 * emergency + 0.25 * np.log(creatinine) + rng.normal(0, 0.5, n)
    length = np.exp(log_stay).round().clip(1, 120).astype(int)
    odds = -2.0 + back + 0.7 * np.minimum(earlier, 4) + 0.9 * (age >= 75) + 0.6 * (age < 30) * ~birth + 0.5 * emergency
    odds += 0.8 * np.log(creatinine) + 0.5 * (length <= 2) * ~birth
    again = rng.random(n) < 1 / (1 + np.exp(-odds))

    frame = pd.DataFrame(
        {
            "record": [f"R{k:06d}" for k in rng.choice(1_000_000, n, replace=False)],
            "admitted": (pd.Timestamp("2022-01-01") + pd.to_timedelta(day, "D")).strftime("%d.%m.%Y"),
            "age": age,
            "sex": sex,
            "postcode": postcode.astype(str),
            "diagnosis": diagnosis,
            "emergency": np.where(emergency, "True", "False"),
            "earlier_stays": earlier,
            "weight_kg": weight.astype(str),
            "creatinine": creatinine.astype(str),
            "length_of_stay": length,
            "readmitted": np.where(again, "yes", "no"),
        }
    )
    # Gaps, marked as differently as real systems mark them.
    for column, mark in {"sex": "?", "postcode": "", "diagnosis": "n/a", "weight_kg": "", "creatinine": "NA"}.items():
        frame.loc[rng.random(n) < 0.05, column] = mark
    return frame


if __name__ == "__main__":
    target = Path(__file__).with_name("clinic.csv")
    clinic().to_csv(target, index=False)
    print(f"{target.name}: {N} rows")
