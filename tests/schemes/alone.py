"""A congestion control's file as plain Python: its hooks, fed with any acknowledgements, without compiling anything."""

import re
from types import SimpleNamespace

import pytest

from penstock_net.composition import FOLDER, parse

LINE = 80  # ps per byte
FLOATS = ("float64",)


def zeros(declared, structs, settings):
    """A record of a scheme file's state, all of it zero."""
    record = SimpleNamespace()
    for name, kind in declared.items():
        base, length = re.fullmatch(r"(\w+)(?:\[(\w+)\])?", kind).groups()
        of_kind = lambda base=base: zeros(structs[base], {}, {}) if base in structs else 0.0 if base in FLOATS else 0  # noqa: E731
        setattr(record, name, [of_kind() for _ in range(int(settings.get(length, length)))] if length else of_kind())
    return record


class Alone(dict):
    """A scheme with one flow on a line of 100 Gbit/s; `world`: of its network.  Packets carry their state as attributes."""

    def __init__(self, scheme, parameters=None, text="", **world):
        super().__init__(NEVER=2**62, DATA=0, LAST=1)
        name = scheme.partition(":")[0]
        exec(text or (FOLDER / f"{name}.py").read_text(), self)
        structs = dict(self.get("structs", {}))
        if self.get("packet_state") == "telemetry":
            telemetry = {}
            exec((FOLDER / "telemetry.py").read_text(), telemetry)
            structs |= telemetry["structs"]
        self.me = zeros(self.get("scheme_state", {}), structs, {})
        self.me.__dict__.update(parse(scheme, parameters).values(name))
        self.me.at = SimpleNamespace(index=0, world=SimpleNamespace(mtu=1000, **world))
        self.mine = zeros({**self["flow_state"], **dict.fromkeys(self.get("flow_counts", ()), "int64")}, structs, {})
        self.flow = SimpleNamespace(sent=0, acked=0, window=2**60, pace=0.0)
        self.node = SimpleNamespace(now=0)
        self.update(
            my_flow=lambda *_: self.mine,
            my_packet=lambda _, pkt: pkt,
            whole=int,
            line_rate=lambda *_: 8e12 / LINE,
            port_of=lambda *_: SimpleNamespace(ps_per_byte=LINE),
            set_rate=lambda flow, rate: setattr(flow, "pace", rate),
            repace=lambda *_: None,
            packets_answered=lambda _, pkt: getattr(pkt, "packets", 1),
        )
        for array in ("l", "r", "ack_l"):
            self[f"{array}_at"] = lambda owner, i, array=array: getattr(owner, array)[i]
        if "set_up" in self:
            self["set_up"](self.me)
        self.call("on_start")

    def call(self, hook, now=0, pkt=None):
        self.node.now = now
        if hook in self:
            self[hook](self.me, self.node, self.flow, pkt)

    def send(self, now):
        """-> a packet that leaves now."""
        pkt = SimpleNamespace(size=1048)
        self.call("on_send", now, pkt)
        return pkt

    def ack(self, now, seq, snd_nxt=0, pkt=None, **more):
        """`pkt`, or another one, comes back as the ACK of all bytes before `seq`."""
        self.flow.sent, self.flow.acked = snd_nxt, seq
        pkt = pkt or SimpleNamespace()
        pkt.__dict__.update(seq=seq, **more)
        self.call("on_ack", now, pkt)


def check_mistake(scheme, right, wrong, compare):
    """`compare`, given a scheme's text with a mistake where `right` stands, finds it."""
    text = (FOLDER / f"{scheme}.py").read_text()
    assert text.count(right) == 1, f"{text.count(right)} places"
    with pytest.raises(AssertionError):
        compare(text.replace(right, wrong))
