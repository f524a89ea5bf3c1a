"""The two errors a user can cause: a bad input and an overspent budget."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Something the user gave is wrong; the message is one line: what, where, and how to mend it."""


class PrivacyError(RuntimeError):
    """A fit spent, or would spend, more than the requested (epsilon, delta)."""


def unknown_name(what: str, name: str, known: Iterable[str]) -> InputError:
    """Return the error for an unknown `name`, with the nearest valid one.

    Parameters
    ----------
    what : str
        Kind of thing, for the message (``"data set"``).
    name : str
        What the user wrote.
    known : iterable of str
        Every valid name.

    Returns
    -------
    InputError
        For the caller to raise.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}"
    return InputError(f"unknown {what} '{name}'; {hint}")
