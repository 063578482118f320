"""Loaded into the Dask workers of test_dask.py, by `dask worker --preload`.

A run of seed S waits as long as there is a file `shut-S` in the folder $GATES, and leaves `begun-S-PID`, then `finished-S-PID` or
`stopped-S-PID`. Nothing below the folder $HIDDEN can be opened: it stands for the files of another machine.
"""

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from penstock_net.sim import simulate as engine

GATES, HIDDEN = Path(os.environ["GATES"]), os.environ["HIDDEN"]


def gated(simulate: Any, *arguments: Any, seed: int, progress: Any, **options: Any) -> Any:
    """The simulator, behind a gate."""
    (GATES / f"begun-{seed}-{os.getpid()}").touch()
    try:
        while (GATES / f"shut-{seed}").exists():
            time.sleep(0.02)
            progress(None)
        run = simulate(*arguments, seed=seed, progress=progress, **options)
    except Exception:
        (GATES / f"stopped-{seed}-{os.getpid()}").touch()
        raise
    (GATES / f"finished-{seed}-{os.getpid()}").touch()
    return run


def hide(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook."""
    if event == "open" and str(arguments[0]).startswith(HIDDEN):
        raise PermissionError(f"{arguments[0]} is on another machine")


def dask_setup(worker: Any) -> None:
    """Called by Dask, once."""
    engine.simulate = partial(gated, engine.simulate)  # type: ignore[assignment]
    sys.addaudithook(hide)
