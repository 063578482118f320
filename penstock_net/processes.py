"""Function calls in several processes of this machine, which end with the caller, however it ends."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


def each(
    function: Callable[..., Any], calls: Sequence[tuple[T, tuple[Any, ...]]], workers: int
) -> Iterator[tuple[T, Future[Any]]]:
    """Call the function with the arguments of each (key, arguments); yields the keys with their futures as they end.

    An exception in a call is its future's.  If the caller stops, by Ctrl-C or an exception of its own, so do the processes.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(calls)) or 1, context, _begin)
    try:
        with _without_main():
            futures = {pool.submit(function, *arguments): key for key, arguments in calls}
        for future in as_completed(futures):
            yield futures[future], future
    except BaseException:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _without_main() -> Iterator[None]:
    """Have processes that begin not run the caller's own script, which need not be written for it: they call nothing of it."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _begin() -> None:
    """Ctrl-C is for the parent to handle; when that ends, however it does, so does the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
