import pytest

from marginalia.audit import audit


@pytest.fixture
def quick_audits(monkeypatch):
    """Audit by replays and selections: the audits of each night look at laws, streams and many rows, too."""
    monkeypatch.setattr(audit, "_SECONDS", 0.0)  # for drawing noise whose law is looked at
    for check in ("_of_randomness", "_of_many_rows"):
        monkeypatch.setattr(audit, check, lambda *_, **__: ())
