import numpy as np
import pandas as pd
import pytest

from marginalia.errors import InputError
from marginalia.reporting import formats, tables
from marginalia.reporting.arms import best_certified


def test_aggregate_equals_numpy_over_the_trials(records):
    frame = tables.aggregate(records, "mse")
    row = frame[(frame.method == "ssp") & (frame.dataset == "adult") & (frame.epsilon == 0.5)]
    values = records.query("method == 'ssp' and dataset == 'adult' and metric == 'mse' and epsilon == 0.5")["value"]
    assert len(values) == 5
    assert row["mean"].item() == pytest.approx(np.mean(values), rel=1e-5)
    assert row["std"].item() == pytest.approx(np.std(values, ddof=1), rel=1e-5)
    assert row["stderr"].item() == pytest.approx(np.std(values, ddof=1) / np.sqrt(5), rel=1e-5)
    assert (row["k"].item(), row["n_trials"].item()) == (5, 5)


def test_aggregate_has_the_columns_of_the_contract(records):
    columns = list(tables.aggregate(records, "auc").columns)
    assert columns[-7:-1] == ["mean", "std", "stderr", "k", "n_trials", "reported"]
    assert "seconds" not in columns, "times differ from run to run; the tables must not"


def test_a_failed_run_is_a_hole_and_not_a_value(records):
    frame = tables.aggregate(records, "auc")
    row = frame[(frame.method == "aim_synth") & frame.dataset.str.startswith("acs") & (frame.epsilon == 2)]
    alive = records.query("method == 'aim_synth' and metric == 'auc' and epsilon == 2 and status == 'ok'")
    alive = alive[alive.dataset.str.startswith("acs")]
    assert (row["k"].item(), row["n_trials"].item()) == (3, 5)
    assert row["mean"].item() == pytest.approx(alive["value"].mean(), rel=1e-5)


def test_a_setting_without_success_keeps_its_row(records):
    frame = tables.aggregate(records, "mse")
    row = frame[(frame.variant == "aim") & frame.dataset.str.startswith("acs") & (frame.epsilon == 2)]
    assert row["k"].item() == 0
    assert row[["mean", "std", "stderr", "epsilon_spent"]].isna().all(axis=None)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_success_without_a_finite_value_does_not_count(records, bad):
    rows = records.copy()
    at = rows.index[(rows.method == "ssp") & (rows.metric == "mse") & (rows.dataset == "adult")][0]
    rows.loc[at, "value"] = bad
    key = rows.loc[at]
    frame = tables.aggregate(rows, "mse")
    row = frame[(frame.method == "ssp") & (frame.dataset == "adult") & (frame.epsilon == key.epsilon)]
    assert row["k"].item() == 4
    assert np.isfinite(row["mean"].item())
    listed = tables.failures(rows)
    assert "no value" in set(listed[listed.method == "ssp"]["status"])


@pytest.mark.slow
def test_aggregates_do_not_depend_on_the_order_of_the_rows(records):
    shuffled = records.sample(frac=1, random_state=3)
    for metric in ("mse", "auc", "marginal_error"):
        pd.testing.assert_frame_equal(tables.aggregate(records, metric), tables.aggregate(shuffled, metric))
    for table in (tables.certificates, tables.failures, tables.timings):
        pd.testing.assert_frame_equal(table(records), table(shuffled))


def test_aggregates_carry_six_significant_digits(records):
    for column in ("mean", "std", "stderr"):
        values = tables.aggregate(records, "mse")[column].dropna()
        assert all(float(f"{v:.5e}") == v for v in values)


def test_one_trial_has_no_standard_error(records):
    frame = tables.aggregate(records[records.trial == 0], "marginal_error")
    assert frame["k"].eq(1).all()
    assert frame["stderr"].isna().all()


def test_two_rows_for_one_trial_are_refused(records):
    with pytest.raises(InputError, match="has two rows for mse"):
        tables.aggregate(pd.concat([records, records[records.metric == "mse"].head(1)]), "mse")


def test_published_values_are_joined_on_the_keys_they_have(records):
    reported = pd.DataFrame({"dataset": ["adult"], "method": ["ols"], "metric": ["mse"], "reported": [0.00055501]})
    frame = tables.aggregate(records, "mse", reported=reported)
    known = frame[frame["reported"].notna()]
    assert list(known["method"]) == ["ols"]
    assert list(known["dataset"]) == ["adult"]
    with pytest.raises(InputError, match="two rows for one dataset"):
        tables.aggregate(records, "mse", reported=pd.concat([reported, reported]))


def test_certificates_compare_spent_with_asked(records):
    frame = tables.certificates(records)
    assert set(frame[frame.method == "chebyshev"]["certified"]) == {"no"}
    assert frame[frame.method == "chebyshev"]["message"].str.contains("spends epsilon").all()
    objective = frame[(frame.method == "objective_perturbation") & (frame.calibration == "published")]
    assert objective["ratio"].to_numpy() == pytest.approx(0.5869, rel=1e-4)
    assert set(objective["certified"]) == {"yes"}
    assert "none" not in set(frame["calibration"])
    lost = frame[(frame.variant == "aim") & frame.dataset.str.startswith("acs_income") & (frame.epsilon == 2)]
    assert lost["certified"].item() == "unknown"


def test_the_certificate_of_a_setting_is_its_worst_trial(records):
    rows = records.copy()
    at = rows.index[(rows.method == "ssp") & (rows.dataset == "adult") & (rows.metric == "mse") & (rows.epsilon == 1)]
    rows.loc[at[2], ["epsilon_spent", "message"]] = [1.01, "not certified"]
    frame = tables.certificates(rows)
    row = frame[(frame.method == "ssp") & (frame.task == "linear") & (frame.dataset == "adult") & (frame.epsilon == 1)]
    assert row["epsilon_spent"].item() == 1.01
    assert row["certified"].item() == "no"


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ("declared by its author: x", "declared"),
        ("declared by its author: the audit of x.py has 2 findings; do not publish", "refuted"),
        ("protects some rows only", "part"),
        ("no release was recorded", "no"),
    ],
)
def test_what_is_declared_or_protects_some_rows_is_not_certified(records, message, word):
    rows = records.copy()
    at = rows.index[(rows.method == "ssp") & (rows.dataset == "adult") & (rows.metric == "mse") & (rows.epsilon == 1)]
    rows.loc[at[2], "message"] = message
    frame = tables.aggregate(rows, "mse")
    row = frame[(frame.method == "ssp") & (frame.dataset == "adult") & (frame.epsilon == 1)]
    assert row["certified"].item() == word
    assert not tables.is_certified(row).any()
    assert tables.lacks_certificate(row).all()
    winners = best_certified(frame.assign(mean=np.where(frame.index == row.index[0], 0.0, frame["mean"])))
    here = winners[(winners.dataset == "adult") & (winners.epsilon == 1)]
    assert "ssp" not in set(here["method"])
    mark = {"no": "†", "refuted": "✗"}.get(word, "‡")
    assert formats.format_cell(next(tables.rows_of(row))).endswith(mark)


def test_failing_methods_are_lines_with_the_first_reason(records):
    assert tables.failing_methods(records) == [
        "aim_synth/tight on acs_employment@dd_ssp: 2 of 25 runs failed; stopped after 600 s",
        "dd_ssp/aim/tight on acs_income_lin@dd_ssp: 5 of 25 runs failed; the model needs 212 MB, more than "
        "max_model_mb = 80",
    ]


def test_failures_name_the_run_and_all_the_metrics_it_lacks(records):
    frame = tables.failures(records)
    assert len(frame) == 2 + 5
    timeouts = frame[frame.status == "timeout"]
    assert list(timeouts["trial"]) == [3, 4]
    assert set(timeouts["metrics"]) == {"accuracy auc risk"}


def test_timings_count_a_run_once_whatever_the_number_of_its_metrics(records):
    frame = tables.timings(records)
    row = frame[(frame.method == "dp_sgd") & (frame.dataset == "compas") & (frame.epsilon == 1)]
    seconds = records.query("method == 'dp_sgd' and dataset == 'compas' and epsilon == 1 and metric == 'auc'")[
        "seconds"
    ]
    assert row["k"].item() == 5
    assert row["seconds"].item() == pytest.approx(seconds.mean(), rel=5e-3)


def test_empty_records_give_empty_tables(records):
    nothing = records.iloc[:0]
    frames = [tables.aggregate(nothing, "mse")] + [
        table(nothing) for table in (tables.certificates, tables.failures, tables.timings)
    ]
    assert all(len(frame) == 0 for frame in frames)
