"""Learning from marginals and margins under differential privacy."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marginalia.privacy.odometer import PrivacyOdometer as Odometer

__all__ = ["Odometer"]


def __getattr__(name: str) -> Any:
    if name == "Odometer":
        from marginalia.privacy.odometer import PrivacyOdometer

        return PrivacyOdometer
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Here, since `importlib.metadata` takes longer to load than the process that watches over a fit needs else.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("marginalia")
    except PackageNotFoundError:  # running from a source tree that was never installed
        return "0+unknown"
