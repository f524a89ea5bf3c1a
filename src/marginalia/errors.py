"""The two errors a user can cause, a bad input and an overspent budget, and a warning about uses outside a ledger."""

import difflib
import errno
import re
import sys
from collections.abc import Iterable

OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}

_NEAR = 0.6  # share of letters in common from which a name is taken for a misspelling
_LONGEST = 60  # letters of a name that are compared and shown
_SHOWN = 20  # names that are listed
_LINE = 1000  # letters of a message


def printable(line: str) -> str:
    r"""Return a line as a terminal may show it: names and values of a file can hold line breaks and escape sequences.

    >>> printable("a\x1b[31mb\nc")
    'a [31mb c'
    """
    line = "".join(c if c.isprintable() else " " for c in line[: _LINE + 1])
    return line if len(line) <= _LINE else f"{line[:_LINE]}..."


_USER = re.compile(r"(?<=://)(?!/)[^\s'\"]*@")
_SECRET = re.compile(
    r"\b([\w-]*(?:password|passwd|pwd|secret|token|signature|api_?key|access_?key)[\w-]*\s*=\s*)[^\s&;'\"]+",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    r"""Return a text without the users and passwords of the URLs in it, and without values named as secrets.

    >>> without_secrets("cannot open https://ann:PW@host/t.csv?token=abc&n=1")
    'cannot open https://...@host/t.csv?token=...&n=1'
    """
    return _SECRET.sub(r"\1...", _USER.sub("...@", text)) if "://" in text or "=" in text else text


def one_line(message: object) -> str:
    r"""Return a message as one line of printable characters.

    >>> one_line("a\n b")
    'a b'
    """
    return " ".join(printable(without_secrets(str(message))).split())


class InputError(ValueError):
    """Something the user gave is wrong; the message is one line: what, where, and how to mend it."""

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(message))


class PrivacyError(RuntimeError):
    """A fit spent, or would spend, more than the requested (epsilon, delta)."""


class PrivacyWarning(UserWarning):
    """Private rows are used outside of what the ledger of a fit covers."""


def level_of_caller() -> int:
    """Return the `stacklevel` with which a warning of the calling function points at the line outside of this package.

    >>> level_of_caller() > 0
    True
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "marginalia":
        frame, level = frame.f_back, level + 1
    return level


def not_fitted(thing: object, call: str) -> Exception:
    """Return the error for what was asked before its `fit`: scikit-learn's, which is a ValueError as `InputError` is.

    Parameters
    ----------
    thing : object
        What is not fitted.
    call : str
        What has to be called first.

    Returns
    -------
    sklearn.exceptions.NotFittedError
        For the caller to raise.

    Examples
    --------
    >>> not_fitted(1.0, "fit(table)")
    NotFittedError('this float is not fitted; call fit(table) first')
    """
    from sklearn.exceptions import NotFittedError  # here: a synthesizer that is fitted needs no scikit-learn

    return NotFittedError(f"this {type(thing).__name__} is not fitted; call {call} first")


def unknown_name(what: str, name: str, known: Iterable[str]) -> InputError:
    """Return the error for an unknown `name`, with the nearest valid one if one is near; case does not count.

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

    Examples
    --------
    >>> unknown_name("method", "AIMM", ["aim", "mst"])
    InputError("unknown method 'AIMM'; did you mean 'aim'?")
    >>> unknown_name("method", "nope", ["aim", "mst"])
    InputError("unknown method 'nope'; known: aim, mst")
    """
    names = sorted(known)
    folded = {known_name.casefold(): known_name for known_name in names}
    near = difflib.get_close_matches(name[:_LONGEST].casefold(), folded, n=1, cutoff=_NEAR)
    listed = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    hint = f"did you mean '{folded[near[0]]}'?" if near else f"known: {listed or 'none'}"
    shown = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."
    return InputError(f"unknown {what} '{shown}'; {hint}")
