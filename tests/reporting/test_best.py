from marginalia.reporting import tables
from marginalia.reporting.arms import best_certified


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
