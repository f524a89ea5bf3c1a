import math

import pytest
from scipy.stats import sem
from tiers import others_slow

from marginalia.reporting import tables
from marginalia.reporting.arms import best_certified, tied_with_best
from marginalia.reporting.html.page_tables import recommendation_table
from marginalia.reporting.pairwise import LEVELS, p_value


def at(winners, dataset, epsilon):
    return winners[(winners.dataset == dataset) & (winners.epsilon == epsilon)].iloc[0]


def test_lower_is_better_for_error_and_higher_for_auc(records):
    for metric, pick in (("mse", "min"), ("auc", "max")):
        frame = tables.aggregate(records, metric)
        winners = best_certified(frame)
        private = frame[(frame.calibration != "none") & (frame.dataset == "adult") & (frame.epsilon == 1)]
        assert at(winners, "adult", 1)["mean"] == getattr(private["mean"], pick)()


def test_an_uncertified_or_incomplete_arm_cannot_win(records):
    frame = tables.aggregate(records, "mse")
    panel = (frame.dataset == "adult") & (frame.epsilon == 1)
    for column, value in (("certified", "no"), ("k", 4), ("certified", "")):
        changed = frame.copy()
        winner = at(best_certified(frame), "adult", 1)["method"]
        changed.loc[panel & (changed.method == winner), column] = value
        assert at(best_certified(changed), "adult", 1)["method"] != winner


def of_trials(records, **errors):
    """Return the MSE of two arms and of nothing else, at epsilon 1 on Adult: a value for each trial."""
    rows = records[(records.metric == "mse") & (records.dataset == "adult") & (records.epsilon == 1)]
    rows = rows[(rows.variant == "") & rows.method.isin(errors)]
    trials = len(next(iter(errors.values())))
    rows = rows[rows.trial < trials].copy()
    rows["value"] = [errors[row.method][row.trial] for row in rows.itertuples()]
    return rows


def tied(rows):
    return list(tied_with_best(tables.aggregate(rows, rows["metric"].iloc[0]), rows)["method"])


def test_a_method_of_six_times_the_error_is_not_tied(records):
    # Three splits of unlike difficulty, and much noise: two standard errors of unpaired means reach further than that.
    rows = of_trials(records, ssp=[0.01, 0.02, 0.09], ada_ssp=[0.05, 0.05, 0.62])
    frame = tables.aggregate(rows, "mse").set_index("method")
    first, second = frame.loc["ssp"], frame.loc["ada_ssp"]
    assert second["mean"] / first["mean"] == pytest.approx(6)
    assert second["mean"] - first["mean"] < 2 * math.hypot(first["stderr"], second["stderr"])
    assert (
        p_value(second["mean"] - first["mean"], sem([0.04, 0.03, 0.53]), 2) > LEVELS["better"]
    )  # nor is it significant
    assert tied(rows) == []


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ([0.103, 0.198, 0.402, 0.301], ["ada_ssp"]),
        ([0.104, 0.204, 0.405, 0.304], []),  # on each split a little worse, though the splits differ much more
        ([0.10, 0.25, 0.20, 0.50], []),  # a mean near the best one's, of a spread that excludes nothing
        ([0.1, 0.2, 0.4, 0.3], ["ada_ssp"]),
    ],
)
def test_ties_are_decided_by_differences_on_shared_splits(records, other, expected):
    assert tied(of_trials(records, ssp=[0.1, 0.2, 0.4, 0.3], ada_ssp=other)) == expected


def test_two_trials_of_two_values_and_one_trial_are_no_tie(records):
    assert tied(of_trials(records, ssp=[0.1, 0.2], ada_ssp=[0.15, 0.15])) == []
    assert tied(of_trials(records, ssp=[0.1], ada_ssp=[0.1])) == []


def test_of_a_score_the_error_is_what_it_lacks_to_one(records):
    rows = of_trials(records, ssp=[0.1, 0.2, 0.4, 0.3], ada_ssp=[0.103, 0.198, 0.402, 0.301])
    scores = rows.assign(metric="auc", value=1 - rows["value"])
    assert tied(scores) == ["ada_ssp"]
    lacking = of_trials(records, ssp=[0.01, 0.02, 0.04, 0.03], ada_ssp=[0.03, 0.01, 0.05, 0.05])
    assert tied(lacking.assign(metric="auc", value=1 - lacking["value"])) == []  # .965 beside .975, and 40 % more error


def test_an_arm_that_cannot_be_best_is_no_tie(records):
    rows = of_trials(records, ssp=[0.1, 0.2, 0.4, 0.3], ada_ssp=[0.103, 0.198, 0.402, 0.301])
    rows.loc[(rows.method == "ada_ssp") & (rows.trial == 0), "status"] = "failed"
    assert tied(rows) == []


def test_the_page_names_the_ties(records):
    rows = of_trials(records, ssp=[0.1, 0.2, 0.4, 0.3], ada_ssp=[0.103, 0.198, 0.402, 0.301])
    frame = tables.aggregate(rows, "mse")
    [(_, [row])] = recommendation_table([frame], tied_with_best(frame, rows)).groups
    assert row[1].startswith("<b>SSP</b>")
    assert row[1].endswith("<details><summary>1 statistically tied</summary> AdaSSP</details>")
    [(_, [row])] = recommendation_table([frame]).groups
    assert "tied" not in row[1]


def test_the_next_best_is_named_with_its_mean(records):
    frame = tables.aggregate(records, "mse")
    first = at(best_certified(frame), "adult", 1)
    without = frame[frame["mean"] != first["mean"]]
    assert (at(best_certified(without), "adult", 1)[["name", "mean"]] == first[["next", "next_mean"]].to_numpy()).all()
    alone = at(best_certified(frame[frame["mean"].isin([first["mean"]])]), "adult", 1)
    assert alone["next"] == ""


@pytest.mark.parametrize(
    ("mean", "stderr", "following", "shown"),
    others_slow(
        [
            (0.0262, 0.0011, 0.0311, "0.026 ± 0.001; next {}, 0.031"),
            (
                0.0123,
                0.004,
                0.0126,
                "0.0123 ± 0.0040; next {}, 0.0126",
            ),  # to .012 both, the second would look the better
            (0.2, 0.01, 0.25, "0.20 ± 0.01; next {}, 0.25"),
            (0.2, 0.01, 0.2, "0.20 ± 0.01; next {}, 0.20"),
            (0.2, 0.0, 0.25, "0.2; next {}, 0.25"),
        ]
    ),
)
def test_the_next_mean_is_printed_to_the_digits_of_the_best(records, mean, stderr, following, shown):
    frame = tables.aggregate(records, "mse")
    panel = (frame.dataset == "adult") & (frame.epsilon == 1)
    first = at(best_certified(frame), "adult", 1)
    frame.loc[panel & (frame["mean"] == first["mean"]), ["mean", "stderr"]] = mean, stderr
    frame.loc[panel & (frame["mean"] == first["next_mean"]), "mean"] = following
    frame.loc[panel & ~frame["mean"].isin([mean, following]), "mean"] = 9.0
    notes = [cell for _, rows in recommendation_table([frame]).groups for row in rows for cell in row]
    either = {
        f"<small>{shown.format(first[name])}</small>" for name in ("next", "name")
    }  # of equal ones either is first
    assert any(text in note for text in either for note in notes)
