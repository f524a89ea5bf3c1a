"""The privacy claim of another library, which nothing certifies."""

from dataclasses import dataclass

CLAIMED = "claimed"  # calibration: the epsilon is the peer's word


@dataclass(frozen=True, slots=True)
class Claim:
    """Stands in for the ledger of a peer's fit: the epsilon is the claim of its library.

    Attributes
    ----------
    peer : str
        Library and version.
    """

    peer: str

    @property
    def message(self) -> str:
        """The message in result rows of the fit."""
        return f"declared by {self.peer}: its epsilon is its own claim, and the ledger certifies nothing"
