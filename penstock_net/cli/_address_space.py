"""Limited address space (`ulimit -v`): used sparingly, and refused where the libraries alone would end in the middle of the work.

Address space is not memory: most of it is set aside for threads and never touched.  Without a limit nothing is changed.
"""

import ctypes
import os

BASE_MB, PER_THREAD_MB = 460, 6  # of a tiny run, measured: 431 with two threads of polars, 767 with 64
M_ARENA_MAX = -8  # of mallopt: else the C library sets aside 64 MB and more for each thread


def lacking() -> str:
    """Why a command cannot be run, or nothing.  A limited process, and those that it starts, have one heap from now on."""
    try:
        import resource
    except ModuleNotFoundError:  # not a Unix
        return ""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return ""
    os.environ["MALLOC_ARENA_MAX"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a thread of OpenBLAS maps 41 MB
    if hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_ARENA_MAX, 1)
    if limit >= needed():
        return ""
    least = -(-needed() // 1024)
    return f"ulimit -v {limit // 1024} is too little: the libraries map {least} KB, most of it never touched; allow that or more"


def needed() -> int:
    """Bytes that a tiny run maps, with some to spare."""
    given = os.environ.get("POLARS_MAX_THREADS", "")
    threads = int(given) if given.isdecimal() else os.cpu_count() or 1
    return (BASE_MB + PER_THREAD_MB * threads) * 1_000_000
