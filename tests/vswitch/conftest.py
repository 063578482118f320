"""No test leaves a process or a network namespace behind: one that does fails, and what it left is ended."""

import gc

import daemons
import pytest


def pytest_configure():
    daemons.adopt_orphans()


@pytest.fixture(autouse=True)
def nothing_left_by_a_test():
    before = set(daemons.descendants())
    yield
    left = daemons.end_descendants(except_for=before)
    assert not left, f"the test has left processes running: {', '.join(left)}"


@pytest.fixture(autouse=True, scope="session")
def nothing_left_by_all_tests():
    yield
    left = [*daemons.end_descendants(), *daemons.open_namespaces()]
    assert not left, f"the tests have left processes or namespaces: {', '.join(left)}"


@pytest.fixture
def uncollected():
    """The collector of reference cycles does not run: what is not in use closes its descriptors without it, or it never may."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
