"""Acknowledgements of several packets, and such that take time: against a receiver by hand, and under the schemes' own models."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
import test_dctcp
import test_hpcc
import test_powertcp
import test_swift
import test_timely
from helpers import ACK, DATA, peers_of, traced
from paper import acks

from penstock_net.composition import available
from penstock_net.errors import SpecError
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

PACKETS = Measure(sample="0s", flows=False, packets=True)
WIRE, WIRE_OF_SWIFT, DELAY = 60 * 80, 60 * 80, 1_000_000
HOSTS = {
    "every second": {"ack_every": 2},
    "every fifth": {"ack_every": 5, "ack_after": "1.3us"},
    "after a time": {"ack_every": 0, "ack_after": "2us"},
    "late": {"ack_delay": "900ns"},
    "both": {"ack_every": 4, "ack_after": "700ns", "ack_delay": "1500ns"},
}
SCHEMES = {  # and parameters, buffer, whether receivers keep the order
    "fifo": ("fifo", {}, "40KB", True),
    "irn": ("recovery:irn", {"cap": "40KB"}, "30KB", False),
    "dctcp": ("dctcp", {"k_min": "5KB", "k_max": "30KB", "pfc.alpha": 16.0}, "12MB", True),
    "cnp": ("dcqcn:cnp", {"k_min": "5KB", "k_max": "20KB", "cnp_interval": "1ms", "cnp_delay": "1ms"}, "12MB", True),
}


def crowd(topo):
    """To host 0, some at once and some alone, of sizes that are no multiples of a packet."""
    flows = [(src, 0, 30_000 + 7_777 * src, f"{src // 2}us") for src in range(1, 6)]
    return flow_list(topo, [*flows, (1, 0, 900, "0s"), (2, 0, 25_500, "150us"), (3, 0, 1001, "160us")])


def arrivals_at(topo, rows, sizes):
    """What has arrived at host 0 of a star, in the order of time."""
    out, copies, queued = [], {}, {}
    for row in rows:
        key = row.flow, row.offset
        if row.kind != DATA:
            continue
        if row.event in ("enqueue", "drop"):
            copies[key] = copies.get(key, 0) + 1
            if row.event == "enqueue":
                queued.setdefault(key, []).append(copies[key] > 1)
        if row.event == "dequeue":
            _, _, delay, ps_per_byte = peers_of(topo)[row.node, row.port]
            payload = min(1000, sizes[row.flow] - row.offset)
            at = row.at + row.size * int(ps_per_byte) + delay
            out.append(acks.Arrival(at, row.flow, row.offset, payload, row.ecn, queued[key].pop(0)))
    return sorted(out)


@pytest.fixture(scope="module")
def traces():
    """The run of a scheme under hosts, and its packets, once each."""
    kept = {}

    def get(scheme, hosts):
        if (scheme, hosts) not in kept:
            name, parameters, buffer, _ = SCHEMES[scheme]
            topo = star(hosts=6, buffer=buffer)
            host = HostConfig(ack_priority="data", **({} if scheme == "irn" else {"rto": "200us"}), **HOSTS[hosts])
            flows = crowd(topo)
            kept[scheme, hosts] = topo, flows, host, *traced(topo, flows, name, parameters, measure=PACKETS, host=host)
        return kept[scheme, hosts]

    return get


def check(trace, scheme, by_hand=acks):
    """A run against a receiver by hand: when each acknowledgement reaches the switch, its flow, number and mark."""
    topo, flows, host, _, rows = trace
    sizes = flows.bytes.tolist()
    arrived = arrivals_at(topo, rows, sizes)
    if scheme == "cnp":  # receivers take the marks off
        arrived = [arrival._replace(ecn=False) for arrival in arrived]
    model = by_hand.Receiver(sizes, host.ack_every, host.ack_after_ps, host.ack_delay_ps, SCHEMES[scheme][3])
    expected = model.run(arrived)
    line = by_hand.on_the_line(expected, WIRE, DELAY)
    found = [(r.at, r.flow, r.offset, r.ecn) for r in rows if r.kind == ACK and r.event in ("enqueue", "drop")]
    assert found == [(at, ack.flow, ack.seq, ack.ecn) for at, ack in zip(line, expected)] and len(line) == len(expected)
    return arrived, expected


@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_acknowledgement(traces, scheme, hosts):
    trace = traces(scheme, hosts)
    run, (arrived, expected) = trace[3], check(trace, scheme)
    most = max(ack.packets for ack in expected)
    assert most > 5 if hosts == "after a time" else most == HOSTS[hosts].get("ack_every", 1)
    answered = sum(ack.packets for ack in expected)
    if scheme in ("fifo", "irn"):
        assert run.summary["drops"] > 10 and (answered == len(arrived) or (scheme == "fifo" and answered < len(arrived)))
    else:
        assert run.ports["ecn_marks"].sum() > 20 and answered == len(arrived)


MISTAKES = {  # in the receiver by hand
    "the time is that of the last": ("due = flow.waiting.due if flow.waiting else", "due =", "fifo", "after a time"),
    "the time is checked first": ("if due < before:", "if due < before - 100_000:", "fifo", "after a time"),
    "one too many": ("flow.waiting.packets == self.every", "flow.waiting.packets > self.every", "dctcp", "every fifth"),
    "not at the end": ("or end == flow.size\n", "\n", "cnp", "every fifth"),
    "not what was sent again": ("at_once = a.again or end", "at_once = end", "irn", "every second"),
    "not what fills a gap": ("at_once |= flow.expected != end", "", "irn", "every fifth"),
    "not when the mark changes": ("flow.ecn, at_once = a.ecn, True", "flow.ecn = a.ecn", "dctcp", "every fifth"),
    "with the packet that has another mark": ("self.answer(a.flow, a.at, before)", "self.answer(a.flow, a.at)", "dctcp", "both"),
    "marks are those of the first": ("else 1, a.ecn)", "else 1, before > 0 and a.ecn)", "dctcp", "every second"),
    "it takes no time": ("made = now + self.delay", "made = now", "fifo", "late"),
    "in its time no other is made": (
        "free = max(free, ack.made) + wire",
        "free = max(free, ack.made + 100_000) + wire",
        "cnp",
        "late",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(traces, mistake):
    right, wrong, scheme, hosts = MISTAKES[mistake]
    text = Path(acks.__file__).read_text()
    assert text.count(right) == 1
    by_hand = ModuleType("by_hand")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "by_hand", by_hand)  # for dataclasses
        exec(text.replace(right, wrong), by_hand.__dict__)
        with pytest.raises(AssertionError):
            check(traces(scheme, hosts), scheme, by_hand)


# ---- Schemes, whose models know nothing of it but what an acknowledgement says ----

FEWER = HostConfig(ack_priority="data", ack_every=3, ack_after="2us")


@pytest.mark.parametrize(
    "module, case",
    [
        (test_dctcp, "paper"),
        (test_dctcp, "bfc"),
        (test_hpcc, "paper"),
        (test_powertcp, "default"),
        (test_timely, "close"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_window_by_fewer_acknowledgements(monkeypatch, module, case):
    """HPCC and PowerTCP have the telemetry of the last packet; DCTCP counts packets; TIMELY's RTTs include the wait."""
    monkeypatch.setattr(module, "QUEUED_ACKS", FEWER)
    of_departures = getattr(module, "test_every_window_and_every_departure", None) or module.test_every_departure
    of_departures(case)


@pytest.mark.parametrize("host", [FEWER, HostConfig(ack_priority="data", ack_every=4, ack_after="9us")], ids=["3", "4"])
def test_swift_knows_what_waits_at_the_receiver(monkeypatch, host):
    """That is the endpoint's delay, and none of the fabric's."""

    def waits(topo, rows):
        """(flow, offset) -> from the arrival of the last packet that an acknowledgement answers to its departure."""
        came = {(a.flow, a.offset): a.at for a in arrivals_at(topo, rows, sizes)}
        made = {(r.flow, (r.offset - 1) // 1000 * 1000): r.at - WIRE_OF_SWIFT - DELAY for r in rows if of_host_0(r)}
        return {key: at - came[key] for key, at in made.items()}

    topo = star(hosts=6, buffer="100MB")
    flows = test_swift.crowd(topo, 100_000)
    sizes = flows.bytes.tolist()
    monkeypatch.setattr(test_swift, "QUEUED_ACKS", host)
    monkeypatch.setattr(test_swift, "endpoint_delays", waits)
    test_swift.check(topo, flows, "swift", {**test_swift.CLOSE, "endpoint_target": "6us"})


def of_host_0(row):
    return row.kind == ACK and row.event == "enqueue" and row.in_port == 0


# ---- What cannot be ----


@pytest.mark.parametrize("scheme", sorted(name for name, one in available().items() if one.fabric.get("own_answers")))
@pytest.mark.parametrize("hosts, key", [("late", "ack_delay"), ("both", "ack_every")])
def test_receivers_that_answer_otherwise_are_refused(scheme, hosts, key):
    topo = star(hosts=3)
    with pytest.raises(SpecError, match=rf"host.{key} = .*receivers of {scheme} answer each packet themselves"):
        simulate(topo, flow_list(topo, [(0, 1, 5000)]), scheme, host=HostConfig(**HOSTS[hosts]))


def test_a_gradient_from_two_acknowledgements_needs_all_of_them():
    topo = star(hosts=3)
    flows = flow_list(topo, [(0, 1, 5000)])
    with pytest.raises(SpecError, match=r"host.ack_every = 2: theta_powertcp reads the network from every two"):
        simulate(topo, flows, "theta_powertcp", host=HostConfig(ack_every=2))
    assert simulate(topo, flows, "theta_powertcp", host=HostConfig(ack_delay="1us")).summary["flows_finished"] == 1


def test_those_are_all_schemes_of_receivers():
    """Schemes whose receivers decide what they answer; the others' receivers answer with acknowledgements alone."""
    deciding = {name for name, one in available().items() if "on_data" in one.hooks}
    refused = {name for name, one in available().items() if one.fabric.get("own_answers")}
    assert deciding - refused == {"dcqcn", "fncc", "pfabric", "trim", "uec_receiver"} and refused <= deciding
