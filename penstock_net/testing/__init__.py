"""The conformance kit: what every scheme must satisfy, built in or a user's own.

for check in penstock_net.testing.check_scheme("my_scheme.py"):
    print(check.passed, check.name, check.message)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock_net.testing.conformance import Check, check_scheme

__all__ = ["Check", "check_scheme"]


def __getattr__(name: str) -> Any:
    """Imported on first use, so that `penstock_net.testing.cases` can decide how the core is imported."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from penstock_net.testing import conformance

    return getattr(conformance, name)
