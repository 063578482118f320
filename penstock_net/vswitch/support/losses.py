"""All counters of lost, refused and not carried frames in one list, with the reason and the component responsible.

`show`, `top`, `down`, the metrics page, the event log and the documentation read PLACES; a new counter of lost frames is one line
there.  A test compares PLACES and NO_LOSS with the rows of Switch.ports(), so that none is forgotten.

    LOST         the switch had accepted the frame, or the kernel in front of it had, and it did not arrive
    REFUSED      a rule of the switch forbids the frame: a wrong source, no port of that address, a broken header
    NOT_CARRIED  what the switch does not forward by design, such as broadcasts
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from penstock_net.vswitch.support.settings import LINE_DROPS, REASON_NAMES

LOST, REFUSED, NOT_CARRIED = "lost", "refused", "not_carried"
KINDS = (LOST, REFUSED, NOT_CARRIED)


class Place(NamedTuple):
    """A counter of a row of Switch.ports(), found by its path; `way`: frames from the port (in), or to it (out)."""

    reason: str
    path: tuple[str, ...]
    kind: str
    way: str
    by: str
    text: str
    remedy: str


def _drop(reason: str, kind: str, text: str, remedy: str) -> Place:
    return Place(reason, ("drops", reason), kind, "in", "switch", text, remedy)


def _device(reason: str, counter: str, kind: str, way: str, by: str, text: str, remedy: str) -> Place:
    return Place(reason, ("device", *counter.split(".")), kind, way, by, text, remedy)


def _scheme(reason: str, counter: str, by: str, text: str, remedy: str) -> Place:
    return Place(reason, ("drops", counter), LOST, "in", by, text, remedy)


def _link(reason: str, counter: str, kind: str, by: str, text: str, remedy: str) -> Place:
    return Place(reason, ("link", counter), kind, "in", by, text, remedy)


PLACES = (
    _drop("full", LOST, "mode `lossy`, and `th_net` bytes were queued for a slow receiver", "another mode; or a larger `th_net`"),
    _drop(
        "no_buffer",
        LOST,
        "mode `lossy`, and the receiver's region was full",
        "`connect(..., buffers=, rings=)` with more; a faster receiver",
    ),
    _drop(
        "no_queue",
        LOST,
        "mode `lossy`, and the receiver had no queue for one more flow; a sender gets half of them",
        "`connect(..., queues=)` with more; a shorter `idle`",
    ),
    _drop(
        "flow_over",
        LOST,
        "a flow from a device held its share of the port's buffers, and its sender could not be made to wait",
        "find its receiver in `show flows`; keep `edge` on; before Linux 6.2, for UDP_SEGMENT: 10 segments a call at most",
    ),
    _drop(
        "not_paused",
        LOST,
        "a flow held its share of the port's buffers, from a UDP socket with several peers, which is not made to wait for one",
        "a peer that reads its answers; a socket for each, with `connect`",
    ),
    _drop(
        "evicted",
        LOST,
        "a flow had moved nothing for `idle`, and others needed the buffers or the queue that it held",
        "the same; more `queues`",
    ),
    _drop("no_flow", LOST, "the limit `flows` is reached, in every mode", "more `flows` (a restart), a shorter `idle`"),
    _drop(
        "too_long",
        LOST,
        "longer than the receiver's buffers (2048 B unless it asked for others)",
        "`connect(..., buffer_bytes=)`; a smaller MTU at the sender",
    ),
    _drop(
        "no_route",
        REFUSED,
        "no port has the address; also broadcast and multicast",
        "`set port.NAME.addresses=`; configure neighbour addresses in the application",
    ),
    _drop(
        "malformed",
        REFUSED,
        "lengths in a header contradict the frame, or it ends too early",
        "fix the sender; `capture --drops` shows its bytes",
    ),
    _drop(
        "spoofed",
        REFUSED,
        "the source address is not one of the port's",
        "give it the address; or `guarded=false`, if it forwards for others",
    ),
    _drop(
        "bad_descriptor",
        REFUSED,
        "the application wrote an invalid descriptor",
        "fix it; after 100 protocol violations it is detached with state `nonsense`",
    ),
    Place(
        "not_fetched",
        ("not_fetched_frames",),
        LOST,
        "in",
        "application",
        "the application closed, exited, or the switch stopped, before the switch had taken what was sent",
        "wait for `port.waiting(queue) == 0` before closing; `drain` before `down`",
    ),
    Place(
        "not_forwarded",
        ("not_forwarded_frames",),
        LOST,
        "in",
        "switch",
        "from a device, waiting for slow receivers when the port was removed or the switch stopped",
        "`drain` before `down`",
    ),
    Place(
        "not_delivered",
        ("not_delivered_frames",),
        LOST,
        "out",
        "switch",
        "frames in the switch's memory for a device when the port was removed or the switch stopped",
        "`drain` before `down`",
    ),
    _device(
        "kernel_lost",
        "kernel_lost",
        LOST,
        "in",
        "kernel",
        "the device's queue in the kernel was full (the TAP's ring, the socket's buffer), or was being replaced",
        "pin the worker to a core of its own; `receive_buffer`; `edge = true`",
    ),
    _device(
        "not_read",
        "not_read",
        LOST,
        "in",
        "kernel",
        "in the TAP's ring, or in the HTB class of a slow flow, when the port was removed or the switch stopped",
        "`drain` before `down`, with the senders ended",
    ),
    _device(
        "class_dropped",
        "edge.class_dropped",
        LOST,
        "in",
        "kernel",
        "the HTB class of a slow flow was full, for more sockets share it than it can hold frames of; or it was removed with "
        "what was in it, since its sender had got other peers",
        "fewer senders on one flow; a faster receiver",
    ),
    _device(
        "socket_lost",
        "edge.socket_lost",
        LOST,
        "out",
        "kernel",
        "the receive buffer of a UDP socket was full",
        "a larger SO_RCVBUF in the program, or one that reads faster",
    ),
    _device(
        "errors_out",
        "errors_out",
        LOST,
        "out",
        "kernel",
        "the kernel refused the frame for good, for instance since the interface is down",
        "`ip link set DEVICE up`; `capture` shows the frames",
    ),
    _device(
        "evicted_out",
        "evicted_out",
        LOST,
        "out",
        "switch",
        "the same of frames that waited for a full socket, or for a paused peer",
        "a program that reads faster",
    ),
    _device(
        "queued_when_gone",
        "queued_when_gone",
        LOST,
        "out",
        "switch",
        "queued for an interface when it was deleted, or its namespace or port was",
        "nothing, if that was meant; `show events` says when it was",
    ),
    _device(
        "device_gone",
        "device_gone",
        LOST,
        "out",
        "switch",
        "for an interface that is gone, or whose namespace is",
        "`show ports` says why; make the namespace, or `reload`",
    ),
    _device(
        "flood_lost",
        "flood_lost",
        LOST,
        "out",
        "kernel",
        "a broadcast, or a frame to a station that is not known, for a device without room",
        "nothing, unless they are many",
    ),
    _device(
        "unsendable",
        "overlay.unsendable",
        LOST,
        "out",
        "switch",
        "too long for the path to the other switch, and not to be cut",
        "a smaller `mtu` of the TAPs",
    ),
    _device(
        "device_too_long",
        "too_long",
        LOST,
        "in or out",
        "switch",
        "longer than a buffer of the port, or than what the device can send",
        "a smaller MTU; the same `super_frames` at all ports",
    ),
    _device(
        "wire_lost",
        "lost",
        LOST,
        "in or out",
        "network",
        "an emulated link lost it, as told to; a `vhost-user` port had no guest; or a port had read it when its interface went",
        "`loss` of the link; start the guest, `front_end.why` of the port says what it lacks",
    ),
    _device(
        "device_refused",
        "refused",
        REFUSED,
        "in",
        "switch",
        "not from the peer, or shorter than an Ethernet header",
        "check `peer` at both ends",
    ),
    _device(
        "device_malformed",
        "malformed",
        REFUSED,
        "in",
        "switch",
        "shorter than a header, or lengths in it contradict the frame; or no frame of UDP datagrams, as its virtio_net_hdr says",
        "`tcpdump` at the device shows it",
    ),
    _device(
        "lost_on_the_way",
        "overlay.lost_on_the_way",
        LOST,
        "in",
        "network",
        "sent by the switch at the other end, and not received here: lost in the network, or in this port's socket",
        "a network between them without loss; a larger `receive_buffer`",
    ),
    _device(
        "lost_at_peer",
        "overlay.lost_at_peer",
        LOST,
        "out",
        "network",
        "sent to the switch at the other end, which says that it has not received it: its `lost_on_the_way`",
        "a network between them without loss; a larger `receive_buffer` there",
    ),
    _device(
        "forged", "overlay.forged", REFUSED, "in", "switch", "the tag does not fit the `secret`", "the same `secret` at both ends"
    ),
    _device(
        "truncated",
        "overlay.truncated",
        REFUSED,
        "in",
        "switch",
        "a control frame was too short",
        "the same version at both ends",
    ),
    _device(
        "duplicates", "overlay.duplicates", REFUSED, "in", "switch", "a datagram came twice", "nothing: the first one counted"
    ),
    _device("too_old", "overlay.too_old", REFUSED, "in", "switch", "a datagram too old to tell whether it came twice", "nothing"),
    _device("other_session", "overlay.other_session", REFUSED, "in", "switch", "of a session that has ended", "nothing"),
    _device(
        "other_version", "overlay.other_version", REFUSED, "in", "switch", "of another version", "the same version at both ends"
    ),
    _device(
        "other_super_frames",
        "overlay.other_super_frames",
        REFUSED,
        "in",
        "switch",
        "the other end has another `super_frames`",
        "the same at both ends",
    ),
    _device(
        "wrong_vlan",
        "wrong_vlan",
        REFUSED,
        "in",
        "switch",
        "of a VLAN that this port does not carry, or not the port of the destination",
        "`vlan`, `trunk` or `native` of the two ports",
    ),
    _device(
        "wrong_vlan_out",
        "wrong_vlan_out",
        REFUSED,
        "out",
        "switch",
        "from a port without VLANs, to one that has some",
        "`vlan` at the other port, too",
    ),
    _device(
        "station_spoofed",
        "station_spoofed",
        REFUSED,
        "in",
        "switch",
        "from an Ethernet address of another port, or from none",
        "the address belongs to that port: `show addresses`",
    ),
    _device(
        "flood_spoofed", "flood_spoofed", REFUSED, "in", "switch", "a broadcast with another's source address", "as for spoofed"
    ),
    _device(
        "flood_limited",
        "flood_limited",
        NOT_CARRIED,
        "in",
        "switch",
        "more broadcasts, or frames to stations that are not known, than the rate limit permits",
        "fewer of them; a longer `station_idle`",
    ),
    _device(
        "not_carried",
        "not_carried",
        NOT_CARRIED,
        "in",
        "switch",
        "of a protocol that the switch does not forward",
        "`broadcast = true`, if it is DHCP or the like",
    ),
    _device(
        "same_port",
        "same_port",
        NOT_CARRIED,
        "in",
        "switch",
        "to a station behind the port that it came from",
        "nothing: the bridge there has delivered it",
    ),
    _device(
        "multicast",
        "multicast",
        NOT_CARRIED,
        "in",
        "switch",
        "broadcast or multicast, other than requests for Ethernet addresses",
        "configure addresses; DHCP and the like do not pass",
    ),
    _scheme(
        "buffer",
        "buffer",
        "scheme",
        "the buffer of the scheme's switch was full",
        "a scheme with flow control; a larger `buffer`",
    ),
    _scheme("headroom", "headroom", "scheme", "the pool of headroom was full", "a larger `headroom_pool`"),
    _scheme("admission", "refused", "scheme", "the scheme did not admit the frame", "the scheme's parameters"),
    _scheme("line", "line", "network", "an emulated line lost it, as it was told to", "`loss` of the line"),
    _scheme("line_down", "line_down", "network", "an emulated line was down", "wait until it is up"),
    _scheme(
        "gone", "gone", "application", "its flow was removed while it was in flight: its sender detached", "let senders stay"
    ),
    _link(
        "link_lost", "lost", LOST, "network", "lost between two switches that run a scheme", "a network without loss between them"
    ),
    _link("no_memory", "no_memory", LOST, "switch", "no memory for a frame of another switch", "fewer frames in flight"),
    _link(
        "link_malformed", "malformed", REFUSED, "switch", "a frame of another switch was broken", "the same specification at both"
    ),
    _link(
        "link_replayed", "replayed", REFUSED, "switch", "a frame of another switch came again", "nothing, unless they are many"
    ),
)
# Of the line of a port, not of its application: they go on with the next one.  `no_route` is the switch's own, which begins anew.
LASTING = {place.reason for place in PLACES if place.path[0] == "drops" and place.path[1] in LINE_DROPS} | {"gone"}
OF_SETTINGS = frozenset(("forged", "other_version", "other_super_frames"))  # refused until somebody mends them
# Counters of a row that say nothing about lost frames, or count again what another one counts: `tx_dropped` what
# kernel_lost does, `line.lost` what gone does, `parts_lost` what lost_on_the_way does.
NO_LOSS = frozenset(
    (
        *("number", "flows", "received_frames", "received_bytes", "sent_frames", "sent_bytes", "pauses", "paused_ns"),
        *(
            "bells_answered",
            "bells_rung",
            "nonsense",
            "waiting_frames",
            "waiting_bytes",
            "waiting_by_queue",
            "not_taken_frames",
            "not_taken_bytes",
        ),
        *(
            "taken_in",
            "taken_out",
            "waiting_out",
            "copies_waiting_out",
            "messages_lost",
            "of_the_link",
            "frames_in",
            "bytes_in",
            "frames_out",
            "bytes_out",
            "errors_in",
            "no_room",
        ),
        *("answered", "waits_for_buffer", "shared_queues", "full_sockets", "sent_direct"),
        *("classes", "classes_opened", "rate_changes", "crowded", "rest_limited", "waiting_ports", "looks", "waits", "failed"),
        *("tx_dropped", "pauses_sent", "pauses_received", "unknown_flow", "greeted", "grants_sent", "grants_received", "asked"),
        *("under_way", "limit"),
        *("frames_of_scheme", "held_late", "stops", "longest_bytes", "ecn_marks", "line.lost"),
        *("node", "sent", "came", "restarts"),
        *(
            "shared_frames",
            "evictions",
            "queues",
            "queues_used",
            "buffers",
            "buffers_used",
            "cut_frames",
            "further_in",
            "further_out",
            "flooded",
            "stations",
            "stations_learned",
            "stations_moved",
            "stations_beyond",
            "to_unknown",
            "wakes",
            "steps",
        ),
        *("late", "parts_lost", "old_pauses", "path_bytes", "frames_cut", "segments_sent", "segments_joined", "frames_in_parts"),
        *("path_most", "probes_sent", "path_narrowed"),
        *("sessions", "deaths", "granted", "window", "window_cuts", "silent_ns"),
        *("hellos_sent", "hellos_received", "hellos_ignored", "states_sent", "states_received"),
    )
)


def reasons_table() -> str:
    """The reasons as a table in Markdown, as docs/vswitch-operating.md has it."""
    lines = ["| reason | | frames | by | what it means | what to do |", "|---|---|---|---|---|---|"]
    for place in sorted(PLACES, key=lambda place: KINDS.index(place.kind)):
        kind = place.kind.replace("_", " ")
        lines.append(f"| `{place.reason}` | {kind} | {place.way} | {place.by} | {place.text} | {place.remedy} |")
    return "\n".join(lines)


def place_of(reason: str) -> Place:
    """The description of a reason; an unknown reason is a loss in the switch."""
    return _BY_REASON.get(reason) or _drop(reason, LOST, "a reason without a description", "")


_BY_REASON = {place.reason: place for place in PLACES}
_DROPS = {place.path[1]: place.reason for place in PLACES if place.path[0] == "drops"}
_OF_SWITCH = [_DROPS[name] for name in REASON_NAMES if name in _DROPS]
_OTHERS = [place for place in PLACES if place.path[0] != "drops"]


def counted(row: Mapping[str, Any]) -> dict[str, int]:
    """Frames by reason, zeros included, of a row of Switch.ports(), of its `detached` rows, or of `link_rows`."""
    drops: Mapping[str, Any] = row.get("drops", {})
    found = dict.fromkeys(_OF_SWITCH, 0) if "drops" in row else {}
    found |= {_DROPS.get(name, name): int(number) for name, number in drops.items()}
    for place in _OTHERS:
        value: Any = row
        for key in place.path:
            value = value.get(key) if isinstance(value, (dict, Mapping)) else None
            if value is None:
                break
        if value is not None:
            found[place.reason] = int(value)
    if "lost_on_the_way" in found:  # among which are those that its socket had no room for
        found.pop("kernel_lost", None)
    return found


def of_kind(counts: Mapping[str, int], kind: str) -> dict[str, int]:
    """Counts of one kind that are not zero, the most frequent first."""
    chosen = [(reason, number) for reason, number in counts.items() if number and place_of(reason).kind == kind]
    return dict(sorted(chosen, key=lambda item: (-item[1], item[0])))


def with_sums(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of Switch.ports() with three more columns: the frames lost, refused and not carried."""
    counts = counted(row)
    sums = {kind: sum(of_kind(counts, kind).values()) for kind in KINDS}
    return {"port": row["port"], "state": row["state"], **sums, **row}


def reasons_text(counts: Mapping[str, int]) -> str:
    """Numbers of frames by reason: "4,798 socket_lost, 12 full"."""
    return ", ".join(f"{number:,} {reason}" for reason, number in counts.items())


def path_text(overlay: Mapping[str, Any]) -> str:
    """What a path to another switch takes, which is less than the kernel says."""
    passes, most = overlay["path_bytes"], overlay["path_most"]
    return f"datagrams of up to {passes:,} B pass, not {most:,} B as the kernel says: the network drops longer ones"


def link_rows(counters: Any) -> Iterator[dict[str, Any]]:
    """Rows of the links to other switches, from Switch.counters()."""
    for link in counters.get("links", ()) if isinstance(counters, Mapping) else ():
        yield {"port": f"node {link['node']}", "link": link}


class Ledger:
    """All losses since the start of a switch, by port and reason, including those of detached applications and devices.

    A counter ends with its edge, device or port, and its successor starts at zero.  So the ledger keeps the largest value that it
    has read of each counter and adds the values of successors.
    """

    def __init__(self) -> None:
        self.now: dict[str, dict[str, int]] = {}  # by port, of those that are attached
        self.gone: dict[str, Counter[str]] = {}

    def take(self, found: Mapping[str, Any]) -> None:
        """Go on with the ledger of another process: `now` and `gone`."""
        self.now = {port: dict(counts) for port, counts in found["now"].items()}
        self.gone = {port: Counter(counts) for port, counts in found["gone"].items()}

    def look(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Update the ledger from rows."""
        for row in rows:
            seen = self.now.setdefault(row["port"], {})
            for reason, number in counted(row).items():
                seen[reason] = max(seen.get(reason, 0), number)

    def close(self, row: Mapping[str, Any]) -> None:
        """Update the ledger from the last row of a detached port, whose counters start at zero with the next application."""
        self.look([row])
        seen = self.now.pop(row["port"])
        if "line" in row:  # these do not begin anew
            self.now[row["port"]] = {reason: seen.pop(reason) for reason in LASTING & seen.keys()}
        self.gone.setdefault(row["port"], Counter()).update(seen)

    def counts(self) -> dict[str, Counter[str]]:
        """Frames by port and reason, zeros included."""
        return {port: self.counts_of(port) for port in dict.fromkeys([*self.gone, *self.now])}

    def counts_of(self, port: str) -> Counter[str]:
        """Frames of one port by reason, zeros included."""
        found = Counter(self.gone.get(port, {}))
        found.update(self.now.get(port, {}))
        return found

    def rows(self) -> list[dict[str, Any]]:
        """One dict per port and reason with a count above zero, losses first."""
        rows = []
        for port, counts in self.counts().items():
            for kind in KINDS:
                for reason, number in of_kind(counts, kind).items():
                    place = place_of(reason)
                    about = {"way": place.way, "by": place.by, "text": place.text}
                    rows.append({"port": port, "kind": kind, "reason": reason, "frames": number, **about})
        return sorted(rows, key=lambda row: (KINDS.index(row["kind"]), -row["frames"]))


def total(rows: Iterable[Mapping[str, Any]], kind: str = LOST) -> dict[str, int]:
    """Frames by reason of rows of a ledger, over all ports, the most frequent first."""
    sums: Counter[str] = Counter()
    for row in rows:
        if row["kind"] == kind:
            sums[row["reason"]] += row["frames"]
    return dict(sums.most_common())
