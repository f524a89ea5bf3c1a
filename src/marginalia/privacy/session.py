"""What one fit may do with private rows: release through the mechanisms, each charged before its noise is drawn."""

from __future__ import annotations

from dataclasses import dataclass

from marginalia.errors import InputError
from marginalia.privacy.events import Event
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms import additive, objective, partition, residuals, runs, selection, sketch
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Neighbours


@dataclass(frozen=True, eq=False)
class Session:
    """A ledger and the random numbers of one fit, and the only way from private rows to a release.

    A mechanism is a method. It charges the ledger, which refuses what the budget does not hold, then reads the rows and
    draws noise for them; an audit can intercept it (`mechanisms.hooks`). Each is documented where it is written.

    Parameters
    ----------
    ledger : Ledger
    randomness : Randomness

    Examples
    --------
    >>> session = Session(Ledger("add_remove", epsilon=1.0, delta=1e-5, planned=True), Randomness(0))
    >>> session.gaussian([3, 5], sensitivity=1, sigma=4.0, label="counts").shape
    (2,)
    >>> session.gaussian([3, 5], sensitivity=1, sigma=4.0)
    Traceback (most recent call last):
    marginalia.errors.PrivacyError: refused: with GaussianEvent epsilon 1.36 of 1 at delta 1e-05 (add_remove) ...
    """

    ledger: Ledger
    randomness: Randomness

    @property
    def neighbours(self) -> Neighbours:
        """The relation and the privacy unit, from which sensitivities are computed."""
        return self.ledger.neighbours

    def charge(self, event: Event) -> None:
        """Record an event in the ledger; `PrivacyError` if the budget does not hold it."""
        self.ledger.append(event, self.randomness.kind)

    gaussian = additive.gaussian
    gaussians = additive.gaussians
    laplace = additive.laplace
    marginal = additive.marginal
    residuals = residuals.residuals
    select = selection.select
    partition = partition.partition
    gaussian_run = runs.gaussian_run
    poisson_run = runs.poisson_run
    objective_perturbation = objective.objective_perturbation
    gaussian_sketches = sketch.gaussian_sketches


def check_release(cls: type) -> None:
    """Refuse a method that was written for version 2, whose `_release` took a ledger and random numbers.

    Raises
    ------
    InputError

    Examples
    --------
    >>> class Mine:
    ...     def _release(self, rows, ledger, randomness): ...
    >>> check_release(Mine)
    Traceback (most recent call last):
    marginalia.errors.InputError: Mine._release takes `ledger, randomness`; since 3.0 it takes `session`: see docs/...
    """
    code = getattr(vars(cls).get("_release"), "__code__", None)
    if code is not None and "randomness" in code.co_varnames[: code.co_argcount]:
        raise InputError(
            f"{cls.__qualname__}._release takes `ledger, randomness`; since 3.0 it takes `session`: see "
            "docs/own-method.md"
        )
