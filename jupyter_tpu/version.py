"""The package's version, which the build writes into ``_version.py``."""

try:
    from ._version import __version__ as __version__
except ImportError:  # a source tree that was never installed
    __version__ = "0+unknown"
