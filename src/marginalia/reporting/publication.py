"""What of a release may be published and what must stay private."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marginalia.privacy.attack import of_budget
from marginalia.privacy.certificate import Certificate, certificate_path
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.verify import Verdict

ALWAYS_PRIVATE = "private notes, quality pages, predictions for these rows"
_MOST_NAMES = 8  # files of a folder that are named
WEAK = 20  # epsilon above which hardly anyone is protected


@dataclass(frozen=True)
class Publication:
    r"""Which files of one release may be published.

    Attributes
    ----------
    public, private : tuple of str
        Names of files; of private ones with a reason in parentheses, where the name does not say it.
    reason : str
        Why nothing may be published; else empty.

    Examples
    --------
    >>> print(*Publication(("s.csv",), ("t.csv",)).lines, sep="\n")
    publish       s.csv
    keep private  t.csv; private notes, quality pages, predictions for these rows
    """

    public: tuple[str, ...]
    private: tuple[str, ...]
    reason: str = ""

    @classmethod
    def of(cls, released: Iterable[str | Path], private: Iterable[str], reason: str) -> Publication:
        """Return what may be published of released files: nothing, if there is a reason."""
        files = tuple(map(str, released))
        return cls((), (*files, *private), reason) if reason else cls(files, tuple(private))

    @property
    def lines(self) -> list[str]:
        """Two lines for the terminal."""
        private = "; ".join(filter(None, (", ".join(self.private), ALWAYS_PRIVATE)))
        return [f"publish       {', '.join(self.public) or f'nothing: {self.reason}'}", f"keep private  {private}"]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it in plain JSON types."""
        return {"publish": list(self.public), "private": [*self.private, ALWAYS_PRIVATE], "reason": self.reason}


def weak_budget(epsilon: float | None, delta: float | None) -> str:
    """Return one line on what a large epsilon bounds; empty up to 20.

    >>> weak_budget(30.0, 1e-5)
    'epsilon 30 protects hardly anyone: one row may make a result 1.07e+13 times as likely, ... 10 is much'
    >>> weak_budget(20.0, 1e-5)
    ''
    """
    if epsilon is None or not WEAK < epsilon < math.inf:
        return ""
    return (
        f"epsilon {epsilon:g} protects hardly anyone: one row may make a result {math.exp(min(epsilon, 700.0)):.3g} "
        "times as likely, and an attacker who guesses whether it is in the table may be right "
        f"{of_budget(epsilon, delta or 0.0).success:.1%} of the time; 1 is usual, 10 is much"
    )


def why_not(ledger: Ledger, problems: Sequence[str] = ()) -> str:
    """Return why a release with this ledger must not be published; empty if it may.

    >>> why_not(Ledger("add_remove", epsilon=1.0, delta=1e-5))
    'no release was recorded: nothing is certified'
    """
    if problems or not ledger.certified:
        return "; ".join(problems) or ledger.message
    if ledger.randomness != "system":
        return "the noise is seeded, and who knows the seed can undo it"
    return ""


def of_certificate(file: Path, certificate: Certificate, verdict: Verdict, table: Path | None) -> Publication:
    """Return what may be published of the release of a certificate, and which files beside it must stay private.

    Files of the folder count as private where they are tables without a certificate, budget files, pages of `quality`
    and drafts of domains with comments on the rows. No rows are read.
    """
    released = [path.name for path in (table, file) if path is not None]
    return Publication.of(released, _private_beside(file, table), why_not(certificate.ledger, verdict.problems))


def of_files(
    released: Sequence[Path], *, data: Iterable[Path], domain: Path, budget: Path | None, ledger: Ledger | None
) -> Publication:
    """Return what may be published after a fit that read and wrote these files."""
    private = [*map(str, data), *([str(budget)] if budget is not None else [])]
    private += [_draft(domain)] if is_draft(domain) else []
    return Publication.of(released, private, "the method is not private" if ledger is None else why_not(ledger))


def _private_beside(file: Path, table: Path | None) -> Iterator[str]:
    try:
        others = sorted(p for p in file.absolute().parent.iterdir() if p.is_file() and not p.name.startswith("."))
    except OSError:
        return
    own = {path.name for path in (file, table) if path is not None}
    found = [text for path in others if path.name not in own and (text := _private(path))]
    yield from found[:_MOST_NAMES]
    if len(found) > _MOST_NAMES:
        yield f"{len(found) - _MOST_NAMES} more files beside it"


def _private(path: Path) -> str:
    """Return a file as it is named if it is private by its name or its first bytes; else an empty text."""
    if path.suffix in (".csv", ".parquet", ".gz"):
        return "" if certificate_path(path).is_file() else f"{path.name} (no certificate beside it)"
    if path.suffix in (".yaml", ".yml") and is_draft(path):
        return _draft(Path(path.name))
    head = _head(path)
    if head.startswith(b'{"format": "marginalia-book"'):
        return f"{path.name} (budget file)"
    return f"{path.name} (quality page)" if path.suffix in (".html", ".htm") and b"<title>PRIVATE" in head else ""


def _draft(domain: Path) -> str:
    return f"{domain} (until its comments are deleted)"


def is_draft(domain: Path) -> bool:
    """Whether a domain file still has the comments of `domain init`."""
    return _head(domain).startswith(b"# Drafted by `marginalia domain init`")


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(2000)
    except OSError:
        return b""
