"""Learning from marginals and margins under differential privacy."""

from importlib.metadata import PackageNotFoundError, version

from marginalia.kernels import pin

pin()  # here, before any module of the library can load NumPy

try:
    __version__ = version("marginalia")
except PackageNotFoundError:  # running from a source tree that was never installed
    __version__ = "0+unknown"
