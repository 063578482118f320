"""Datagrams that somebody else sends to the socket of an overlay, as if they were the peer's: noise, copies, changed copies.

Who does it sees what the two send, and does not know their `secret`.  Without one only headers are changed, since content is then
protected by the check sum of UDP only.  Each is to be refused and counted, and to change nothing.
"""

import random
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock_net.vswitch.dataplane.session_view import Endpoint
from penstock_net.vswitch.simulation.laws import MS, Broken
from penstock_net.vswitch.simulation.step import Step
from penstock_net.vswitch.world.simulated.datagrams import Address

if TYPE_CHECKING:
    from penstock_net.vswitch.simulation.pair import Pair

KIND_AT, CONTENT_AT, HELLO, PROBE = 3, 40, 1, 9
LONGEST, KEPT = 1400, 32  # bytes of one; datagrams that are remembered
FIELDS = {"window": (4, 8), "session": (8, 16), "number": (16, 24), "acknowledgement": (24, 32), "tag": (32, 40)}
WHOLE = ("noise", "short", "stranger", "replayed", "greeting", "version", "kind", "super-frames")
OF_SECRETS = ("content", "cut", "longer")  # which only a secret protects
DRAWN = 0.15  # of the runs have some
REFUSED = ("truncated", "forged", "other_version", "other_super_frames")  # what of an overlay counts forged datagrams only
PERHAPS = ("other_session", "duplicates", "too_old", "hellos_received")  # the counters of others that may be a forger's


class Forger:
    """What he has seen, and what he has sent."""

    def __init__(self, pair: "Pair", secret: str) -> None:
        self.pair, self.kinds = pair, (*WHOLE, *FIELDS, *(OF_SECRETS if secret else ()))
        self.sent = {address: deque[bytes](maxlen=KEPT) for address in pair.addresses.values()}  # by sender
        self.came = {address: deque[bytes](maxlen=KEPT) for address in pair.addresses.values()}
        self.greetings: list[bytes] = []
        self.taken: Counter[str] = Counter()  # by the side whose socket has had room for them
        self.uncounted: Counter[str] = Counter()  # of these, copies of probes, which are answered

    def see(self, what: str, source: Address, data: bytes) -> None:
        if what in ("sent", "came") and source in self.sent and len(data) >= CONTENT_AT:
            if data[KIND_AT] & 0x7F == HELLO:
                self.greetings = [*self.greetings[-KEPT:], data]
            getattr(self, what)[source].append(data)

    def forge(self, side: str, kind: str, seed: int) -> None:
        """One for the socket of a side."""
        draw = random.Random(f"{kind} {seed}")
        peer, here = self.pair.addresses[self.pair.other(side)], self.pair.addresses[side]
        data = self._made(draw, kind, peer)
        if data is None or kind not in self.kinds:
            return
        source = Address(draw.choice((peer.host, peer.host[:-1] + b"\7")), 7001) if kind == "stranger" else peer
        sock = self.pair.world.network.bound(self.pair.machines[side].home, here)
        if sock and sock.arrived([data], source)[0]:
            self.taken[side] += 1
            self.uncounted[side] += kind == "replayed" and data[KIND_AT] & 0x7F >= PROBE

    def _made(self, draw: random.Random, kind: str, peer: Address) -> bytes | None:
        if kind == "noise":
            return draw.randbytes(draw.randrange(1, LONGEST))
        if kind == "greeting":  # of somebody who has no secret
            return Endpoint(draw.randbytes(16)).message(1)
        seen = [*self.came[peer], *self.greetings] if kind == "replayed" else list(self.sent[peer])
        if not seen:
            return None
        data = bytearray(draw.choice(seen))
        if kind == "short":
            del data[draw.randrange(1, CONTENT_AT) :]
        elif kind == "version":
            data[draw.randrange(3)] ^= 1 << draw.randrange(8)
        elif kind == "super-frames":
            data[KIND_AT] ^= 0x80
        elif kind == "kind":
            data[KIND_AT] = draw.choice([each for each in range(128) if each != data[KIND_AT]])
        elif kind in FIELDS:
            data[draw.randrange(*FIELDS[kind])] ^= 1 << draw.randrange(8)
        elif kind == "content":
            data[draw.randrange(CONTENT_AT, len(data)) if len(data) > CONTENT_AT else CONTENT_AT - 1] ^= 1 << draw.randrange(8)
        elif kind == "cut":
            del data[draw.randrange(CONTENT_AT - 1, len(data)) :]
        elif kind == "longer":
            data += draw.randbytes(draw.randrange(1, 30))
        return bytes(data)

    def check(self) -> None:
        """Broken: what he has sent is not what an end has refused, by reason."""
        for side, machine in self.pair.machines.items():
            if machine.crashes:
                continue
            device = self.pair.overlay(side)
            refused = device["refused"] + sum(device["overlay"][reason] for reason in REFUSED)
            perhaps = sum(device["overlay"][reason] for reason in PERHAPS)
            if not refused <= self.taken[side] <= refused + perhaps + self.uncounted[side]:
                sent = f"{self.taken[side]} datagrams that were forged have come to {side}"
                raise Broken(f"{sent}; it has refused {refused}, and {perhaps} that may be of the peer")


def forge(pair: "Pair", side: str, kind: str, seed: int) -> None:
    pair.forger.forge(side, kind, seed)


DO: dict[str, Callable[..., None]] = {"forge": forge}


def draw_steps(seed: int, until: int, sides: tuple[str, ...]) -> list[Step]:
    """Those of a run, from a generator of their own."""
    draw = random.Random(f"forged datagrams of {seed}")
    found: list[Step] = []
    for _ in range(draw.randrange(1, 8) if draw.random() < DRAWN else 0):
        at, side = draw.randrange(max(1, until)), draw.choice(sides)
        for _ in range(draw.choice((1, 5, 20))):
            kind = draw.choice((*WHOLE, *FIELDS, *OF_SECRETS))
            found.append(Step(at + draw.randrange(3 * MS), "forge", side, (kind, draw.randrange(1 << 30))))
    return found
