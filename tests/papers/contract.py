"""What every experiment with runs of its own must do, whatever it shows."""

import pandas as pd

from marginalia.papers.registry import experiment as experiment_of
from marginalia.reporting.experiments import draw, make_tables


def check_experiment(name, small, prepared):
    """Run an experiment with small settings: it repeats, keeps times out of its tables, and draws."""
    experiment = experiment_of(name)
    assert experiment.id == name
    settings = experiment.settings(small)
    data = {d: prepared / d for d in experiment.datasets if (prepared / d).exists()}
    parts = experiment.part_names(settings)
    assert len(parts) == len(set(parts))
    rows = pd.concat([experiment.run(part, settings, 0, data) for part in parts])
    again = experiment.run(parts[0], settings, 0, data)
    first = rows.iloc[: len(again)]
    pd.testing.assert_frame_equal(
        first.drop(columns="seconds", errors="ignore")[[c for c in again if c != "seconds"]],
        again.drop(columns="seconds", errors="ignore"),
        check_dtype=False,
    )
    tables = make_tables(experiment, rows, settings)
    assert name in tables
    assert all(len(t) for t in tables.values())
    assert not any("seconds" in t.columns for t in tables.values())
    assert draw(experiment, tables, settings).axes
