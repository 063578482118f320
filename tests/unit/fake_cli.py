"""The command line over the fake simulator, as a program: for tests of signals and of worker processes."""

import sys
import time
from typing import Any

import fake_simulator

fake_simulator.install()


def slowly(topo: Any, flows: Any, *, scheme: Any, progress: Any = None, **rest: Any) -> Any:
    """The fake simulator, but it takes its time where the first argument says so."""
    try:
        print("simulating", flush=True)
        time.sleep(300)  # the signal of the test comes first
    except KeyboardInterrupt:
        fake_simulator.interrupt_at.append(scheme.name)
    return fake_simulator.simulate(topo, flows, scheme=scheme, progress=lambda report: None, **rest)


if __name__ == "__main__":
    from penstock.cli import main

    if sys.argv[1] == "--slow":
        sys.modules["penstock.sim.simulate"].simulate = slowly  # type: ignore[attr-defined]
        del sys.argv[1]
    sys.exit(main())
