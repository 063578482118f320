"""The event log of a switch: the last events with their times, for `show events`; the daemon also logs each as a line.

The daemon reports some events when they happen, such as an application that attaches.  Others are differences between two
readings of the switch's counters: the first loss of each kind, the state of an overlay's peer, an edge that failed.
"""

import collections
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock_net.errors import PenstockError
from penstock_net.vswitch.daemon.log import log
from penstock_net.vswitch.support import losses
from penstock_net.vswitch.world import threading, time

MOST = 1000  # events that are kept
LONGEST = 300  # characters of an event
LOOK_S = 5.0  # between two looks at the counters, for which the workers rest


class Events:
    """The last events, oldest first; any thread may add one."""

    def __init__(self, most: int = MOST, clock: Callable[[], float] | None = None) -> None:
        self.kept: collections.deque[dict[str, Any]] = collections.deque(maxlen=most)
        self.count, self.clock, self.lock = 0, clock or time.time, threading.Lock()

    def add(self, what: str, port: str | None, text: str, level: int = logging.INFO) -> None:
        """Store an event and log it; `port` is None for an event of the whole switch."""
        text = " ".join(text.split())[:LONGEST]
        with self.lock:
            self.count += 1
            self.kept.append({"number": self.count, "time": self.clock(), "event": what, "port": port, "text": text})
        log.log(level, "%s", f"{what}: port {port}: {text}" if port else f"{what}: {text}")

    def rows(self) -> list[dict[str, Any]]:
        """One dict per event: its number since the start, time (s since 1970), kind, port, text."""
        with self.lock:
            return list(self.kept)

    def state(self) -> dict[str, Any]:
        """What another process goes on with."""
        return {"count": self.count, "kept": self.rows()}

    def take(self, state: Mapping[str, Any]) -> None:
        self.count = state["count"]
        self.kept.extend(state["kept"])


class Watch:
    """Derives events from the difference of successive rows of Switch.ports()."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.known: set[tuple[str, str]] = set()  # (port, reason) of which there were some
        self.states: dict[tuple[str, str], Any] = {}

    def look(self, rows: Iterable[Mapping[str, Any]], counts: Mapping[str, Mapping[str, int]]) -> None:
        """Add the events since the last call; `counts` as of Ledger.counts()."""
        for port, of_port in counts.items():
            for kind in losses.KINDS:
                for reason, number in losses.of_kind(of_port, kind).items():
                    if (port, reason) not in self.known:
                        self.known.add((port, reason))
                        warns = kind == losses.LOST or reason in losses.OF_SETTINGS
                        level = logging.WARNING if warns else logging.INFO
                        text = f"{reason}, {number:,} frames: {losses.place_of(reason).text}"
                        self.events.add(f"first {kind.replace('_', ' ')}", port, text, level)
        for row in rows:
            device = row.get("device", {})
            overlay = device.get("overlay", {})
            peer = overlay.get("state", overlay.get("greeted"))
            self._changed(row["port"], "peer", {True: "up", False: "connecting"}.get(peer, peer))
            self._path(row["port"], overlay)
            if device.get("edge", {}).get("failed"):
                self._changed(row["port"], "edge", "failed: the kernel's losses are no longer prevented", logging.WARNING)

    def state(self) -> dict[str, Any]:
        """What another process goes on with."""
        return {"known": sorted(self.known), "states": [[*key, state] for key, state in self.states.items()]}

    def take(self, state: Mapping[str, Any]) -> None:
        self.known = {(port, reason) for port, reason in state["known"]}
        self.states = {(port, what): seen for port, what, seen in state["states"]}

    def _path(self, port: str, overlay: Mapping[str, Any]) -> None:
        """Whether less passes to an overlay's peer than the kernel says, and when that is over."""
        if overlay.get("path") == "narrow":
            self._changed(port, "path", losses.path_text(overlay), logging.WARNING)
        elif overlay.get("path") == "whole" and (port, "path") in self.states:
            self._changed(port, "path", f"datagrams of up to {overlay['path_bytes']:,} B pass, as the kernel says")

    def _changed(self, port: str, what: str, state: Any, level: int = logging.INFO) -> None:
        if state is not None and self.states.get((port, what)) != state:
            self.states[port, what] = state
            self.events.add(what, port, str(state), level)


class Watcher:
    """A thread that reads the counters of a running switch every LOOK_S, and once more in `close`."""

    def __init__(self, switch: Any, events: Events) -> None:
        self.switch, self.watch, self.over, self.lock = switch, Watch(events), threading.Event(), threading.Lock()
        self.thread = threading.Thread(target=self._repeat, name="watch", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def _repeat(self) -> None:
        with contextlib.suppress(RuntimeError):  # the switch has stopped
            while not self.over.wait(LOOK_S):
                self.look()

    def look(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Update the ledger and report events; returns the rows of the ports and those of the ledger."""
        with self.lock:
            rows, found, counts = self.switch.call(lambda: read(self.switch))
            self.watch.look(rows, counts)
        return rows, found

    def close(self) -> None:
        """Read the counters a last time, while devices and edges are still open, and end the thread."""
        self.over.set()
        self.thread.join()
        with contextlib.suppress(RuntimeError, PenstockError):
            self.look()


def read(switch: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Present rows of the ports, rows of the ledger, and its counts; to be called by `Switch.call`."""
    rows = switch.ports()
    switch.ledger.look(rows)
    switch.ledger.look(losses.link_rows(switch.counters()))
    return rows, switch.ledger.rows(), switch.ledger.counts()
