"""Write fair.csv: 6,366 answers to a survey of married women (Fair 1978), as statsmodels brings them.

python examples/fair.py
"""

from __future__ import annotations

from pathlib import Path

from statsmodels.datasets import fair

COLUMNS = ["rate_marriage", "age", "yrs_married", "children", "religious", "educ"]
PATH = Path(__file__).with_name("fair.csv")

if __name__ == "__main__":
    rows = fair.load_pandas().data[COLUMNS]
    rows.to_csv(PATH, index=False, lineterminator="\n")
    print(f"{PATH.name}: {len(rows)} rows")
