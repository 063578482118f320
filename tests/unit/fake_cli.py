"""The command line over the fake simulator, as a program: for tests of signals and of worker processes.

With FAKE_SLOW set a run says "simulating PID", and lasts until a signal ends it.
"""

import os
import sys
import time
from typing import Any

import fake_simulator

fake_simulator.install()


def slowly(topo: Any, flows: Any, *, scheme: Any, progress: Any = None, **rest: Any) -> Any:
    """The fake simulator, but it takes its time."""
    try:
        sys.stdout.write(f"simulating {os.getpid()}\n")  # as one piece: two workers share the pipe
        sys.stdout.flush()
        for _ in range(6000):  # the signal of the test comes first; a long sleep does not end if another thread gets it
            time.sleep(0.05)
    except KeyboardInterrupt:
        fake_simulator.interrupt_at.append(scheme.name)
    return fake_simulator.simulate(topo, flows, scheme=scheme, progress=lambda report: None, **rest)


if "FAKE_SLOW" in os.environ:
    sys.modules["penstock_net.sim.simulate"].simulate = slowly  # type: ignore[attr-defined]


def begin() -> None:
    """What a worker process does first: it imports this module for it."""
    BEGIN()


from penstock_net import processes  # noqa: E402  (after the fake simulator)

BEGIN = processes._begin

if __name__ == "__main__":
    import fake_cli

    from penstock_net.cli import main

    processes._begin = fake_cli.begin
    sys.exit(main())
