import pytest

from marginalia.audit import audit


@pytest.fixture
def quick_audits(monkeypatch):
    """Audit without drawing noise for its law, and without many rows: the audits of each night do both."""
    monkeypatch.setattr(audit, "_SECONDS", 0.0)
    monkeypatch.setattr(audit, "_of_many_rows", lambda *_: ())
