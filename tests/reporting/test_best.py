import pytest
from tiers import others_slow

from marginalia.reporting import tables
from marginalia.reporting.arms import best_certified
from marginalia.reporting.html.page_tables import recommendation_table


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


def test_arms_within_two_standard_errors_are_named(records):
    frame = tables.aggregate(records, "mse")
    panel = (frame.dataset == "adult") & (frame.epsilon == 1)
    frame.loc[panel, "stderr"] = 0.0
    assert at(best_certified(frame), "adult", 1)["as_good"] == ""
    frame.loc[panel, "stderr"] = 1.0
    assert len(at(best_certified(frame), "adult", 1)["as_good"].split("; ")) == 9  # ten certified arms, less the winner


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
    notes = [cell.note for group in recommendation_table([frame]).groups for row in group.rows for cell in row]
    assert shown.format(first["next"]) in notes or shown.format(first["name"]) in notes  # of equal ones either is first
