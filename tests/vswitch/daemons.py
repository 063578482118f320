"""A switch's daemon in a thread of the test."""

import contextlib
import threading

from penstock.vswitch.daemon.server import Daemon


@contextlib.contextmanager
def running(path, content):
    """A daemon that serves while the `with` lasts, and has ended after it."""
    daemon = Daemon(content, str(path))
    thread = threading.Thread(target=daemon.serve)
    thread.start()
    try:
        yield daemon
    finally:
        daemon.over.set()
        thread.join(60)
        assert not thread.is_alive()
