"""Verdicts on the claims of 2025 and 2026, from rows whose answer is known."""

import numpy as np
import pandas as pd
import pytest

from marginalia.papers.recent import judges
from marginalia.papers.recent.recent_rivals import (
    AIM,
    AIM_FOURS,
    AIM_TRIPLES,
    ARMS,
    HIGH,
    LOW,
    METRICS,
    MST,
    REAL,
    RESIDUAL,
    TAB_PE,
    named,
    tables,
)

SETS = (*LOW, *HIGH, "compas")


@pytest.fixture
def judged():
    def judged(changed=(), trials=5):
        """Return verdicts where all arms do alike, but for the values that `changed` maps (arm, set, metric) to."""
        rows = []
        for name in SETS:
            for trial in range(trials):
                noise = 0.001 * np.random.default_rng(trial).standard_normal(len(ARMS))
                rows.append({"dataset": name, "trial": trial, "arm": REAL, "accuracy": 0.9, "auc": 0.9})
                for i, arm in enumerate(ARMS):
                    values = dict.fromkeys(METRICS, 0.5 + noise[i]) | {"seconds": 1.0, "epsilon_spent": 1.0}
                    for (who, where, what), value in dict(changed).items():
                        if who == arm and where in (name, "all"):
                            values[what] = value + noise[i] * (what != "seconds")
                    rows.append({"dataset": name, "trial": trial, "arm": arm, **values})
        return judges.verdicts(pd.DataFrame(), tables(pd.DataFrame(rows), {})).set_index("id")

    return judged


def counts(found, claim):
    return tuple(found.loc[claim, ["held", "tested"]])


def test_arms_that_do_alike_hold_no_claim_of_better(judged):
    found = judged()
    for claim in ("t1", "t1s", "t1m", "t1p", "t1w", "t2", "t2r", "t3", "t3f", "t4", "t5", "g2", "b1"):
        assert found.loc[claim, "verdict"] in ("not held", "no more than chance"), claim
    assert found.loc["g1", "verdict"] == "held"  # as good as AIM
    assert counts(found, "t1") == (0, len(HIGH))
    assert counts(found, "t4") == (0, len(SETS) - len(HIGH))
    assert found.loc["t3", "note"].endswith("AIM takes 1 to 1 times as long")
    for claim in ("m1", "m2", "b2"):
        assert found.loc[claim, ["verdict", "tested"]].tolist() == ["not tested", 0]
        assert "not " in found.loc[claim, "note"]


@pytest.mark.slow
def test_a_lead_counts_where_it_is_and_whose_it_is(judged):
    found = judged({(TAB_PE, "xor_2", "accuracy"): 0.7, (TAB_PE, "compas", "accuracy"): 0.55})
    assert counts(found, "t1") == counts(found, "t1w") == (1, 4)
    assert counts(found, "t4") == (1, 3)
    assert counts(found, "t2") == (1, 1)
    assert named("xor_2") in found.loc["t2", "note"]
    assert counts(found, "t2r") == (0, 1)
    ours = judged({(AIM_TRIPLES, "xor_2", "accuracy"): 0.9, (AIM_FOURS, "xor_3", "accuracy"): 0.9})
    assert counts(ours, "t1w") == counts(ours, "t1") == (0, 4)
    both = judged({(TAB_PE, "all", "accuracy"): 0.7, (AIM_TRIPLES, "xor_3", "accuracy"): 0.9})
    assert counts(both, "t1w") == (4, 4)  # triples do not hold a parity of three columns: they are not its rival there


@pytest.mark.slow
def test_time_and_error_decide_their_own_claims(judged):
    found = judged({(AIM, "all", "seconds"): 20.0, (AIM, "all", "pairs"): 0.3})
    assert counts(found, "t3") == (0, len(SETS))
    assert counts(found, "t3f") == counts(found, "g2") == counts(found, "t5") == (len(SETS), len(SETS))
    assert counts(found, "b1") == (2 * len(SETS), 2 * len(SETS))
    quick = judged({(MST, "all", "seconds"): 2.0, (AIM, "all", "pairs"): 0.3})
    assert counts(quick, "b1") == (0, 2 * len(SETS))


@pytest.mark.slow
def test_differences_may_stand_either_way_round(judged):
    """Residual AIM stands after AIM in the list of arms: its error is the other difference with its sign turned."""
    for value, held in ((0.54, len(SETS)), (0.56, 0)):
        assert counts(judged({(RESIDUAL, "all", "answers"): value}), "g1") == (held, len(SETS))
