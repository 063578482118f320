"""For all tests: how long an example of hypothesis takes is no reason to fail; without the real switch, none of its tests."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent

SLOW = set((HERE / "slow.txt").read_text().split("\n"))  # written by tools/durations.py
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def has_switch() -> bool:
    """Whether this installation has the real switch."""
    try:
        return find_spec("penstock_net.vswitch.memory") is not None
    except ImportError:
        return False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes long: `./test --fast` is without."""
    for item in items:
        if f"tests/{item.path.relative_to(HERE).as_posix()}::{getattr(item, 'originalname', item.name)}" in SLOW:
            item.add_marker(pytest.mark.slow)


def pytest_report_header() -> list[str]:
    return [] if has_switch() else ["the real switch is not built here: its tests are left out"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if collection_path == HERE / "vswitch" and not has_switch() else None
