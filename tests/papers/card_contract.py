"""What every card must do, whatever it shows."""

import pandas as pd

from marginalia.papers.registry import card as card_of


def check_card(name, small, prepared):
    """Run a card with small settings: it repeats, keeps times out of its tables, and draws."""
    card = card_of(name)
    assert card.id == name
    settings = {**card.defaults, **small}
    data = {d: prepared / d for d in card.datasets if (prepared / d).exists()}
    parts = card.parts(settings)
    assert len(parts) == len(set(parts))
    rows = pd.concat([card.run(part, settings, 0, data) for part in parts])
    again = card.run(parts[0], settings, 0, data)
    first = rows.iloc[: len(again)]
    pd.testing.assert_frame_equal(
        first.drop(columns="seconds", errors="ignore")[[c for c in again if c != "seconds"]],
        again.drop(columns="seconds", errors="ignore"),
        check_dtype=False,
    )
    tables = card.tables(rows, settings)
    assert name in tables
    assert all(len(t) for t in tables.values())
    assert not any("seconds" in t.columns for t in tables.values())
    assert card.figure(tables, settings).axes
