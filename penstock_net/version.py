"""The version of the installed package."""

import functools
from importlib import metadata


@functools.cache
def version() -> str:
    """Such as "1.2.0"; "0+source" where the package is not installed."""
    try:
        return metadata.version("penstock-net")
    except metadata.PackageNotFoundError:
        return "0+source"
