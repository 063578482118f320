"""A network between two switches, in user space, which loses, doubles and reorders datagrams as it is told.

    python tests/vswitch/soak_wire.py SEED         # until killed; both switches are on this machine's loopback

`NEAR` and `FAR` are (where a switch is, where it thinks that the other one is). A JSON object sent to CONTROL sets the shares of
datagrams that are harmed: {"drop": 0.01, "double": 0.01, "swap": 0.01}.
"""

import json
import random
import select
import socket
import sys

NEAR, FAR = (("127.0.0.1", 7001), ("127.0.0.1", 7002)), (("127.0.0.1", 7004), ("127.0.0.1", 7003))
CONTROL = "127.0.0.1", 7005
CLEAN = {"drop": 0.0, "double": 0.0, "swap": 0.0}


class Way:
    """One direction: what comes in by one socket goes to the switch behind the other."""

    def __init__(self, source, target, to, rng):
        self.source, self.target, self.to, self.rng, self.held = source, target, to, rng, None

    def forward(self, harm):
        while True:
            try:
                data = self.source.recv(65536)
            except OSError:  # nothing left, or the switch that it was sent to is not there
                return
            if self.rng.random() < harm["drop"]:
                continue
            if self.held is None and self.rng.random() < harm["swap"]:
                self.held = data  # it goes after the next one
                continue
            later, self.held = self.held, None
            for each in (data, *([data] if self.rng.random() < harm["double"] else []), *([later] if later else [])):
                try:
                    self.target.sendto(each, self.to)
                except OSError:
                    continue


def main():
    rng, harm = random.Random(int(sys.argv[1])), dict(CLEAN)
    near, far, control = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3))
    for sock, address in ((near, NEAR[1]), (far, FAR[1]), (control, CONTROL)):
        sock.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE: a network has buffers
        sock.bind(address)
        sock.setblocking(False)
    ways = {near: Way(near, far, FAR[0], rng), far: Way(far, near, NEAR[0], rng)}
    print("ready", flush=True)
    while True:
        for sock in select.select([near, far, control], [], [])[0]:
            if sock is control:
                harm.update(json.loads(control.recv(4096)))
            else:
                ways[sock].forward(harm)


if __name__ == "__main__":
    main()
