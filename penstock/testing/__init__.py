"""The conformance kit: what every scheme must satisfy, built in or a user's own.

for check in penstock.testing.check_scheme("my_scheme.py"):
    print(check.passed, check.name, check.message)
"""

from penstock.testing.conformance import Check, check_scheme

__all__ = ["Check", "check_scheme"]
