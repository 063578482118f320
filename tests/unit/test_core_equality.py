"""The compiled core, on one, two and three threads, and the same files as plain Python give the same bits, all measured."""

import json
import random
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from penstock_net.errors import SpecError
from penstock_net.sim.interpreted.structs import make_class
from penstock_net.testing.cases import digest, run_case

INSIDE = Path(__file__).parent.parent / "schemes/hooks/inside.py"
SMALL = {"kind": "leaf_spine", "hosts": 8, "tors": 2, "spines": 2, "buffer": "500KB"}

# The same with a virtual switch and a slow application, or one that comes and goes, in every server.
SERVERS = {
    **SMALL,
    "kind": "leaf_spine",
    "hosts": 4,
    "vswitches": {"apps": 2, "buffer": "700KB"},
    "receivers": [
        {"host": 0, "rate": "6Gbps"},
        {"host": 0, "rate": "12Gbps", "start": "70us"},
        {"host": 5, "rate": "900Mbps", "on": "20us", "off": "15us", "until": "300us"},
    ],
}


def incast_flows(seed=3, n=40, largest=50000):
    r = random.Random(seed)
    flows = []
    for i in range(n):
        dst = 0 if i < 3 * n // 4 else 5
        src = r.choice([h for h in range(8) if h != dst])
        flows.append([src, dst, r.randint(1000, largest), f"{r.randint(0, 20000)}ns"])
    return flows


WAITING = [  # a reply a gap after each of two requests, and one after both
    {"src": 5, "dst": 1, "bytes": 9000, "start": "2us"},
    {"src": 6, "dst": 1, "bytes": 40000, "start": "1us"},
    {"src": 1, "dst": 5, "bytes": 3000, "after": [0], "gap": "700ns"},
    {"src": 1, "dst": 6, "bytes": 3000, "after": [0, 1], "gap": "3us"},
]
LONG = [[i, (i + 4) % 8, 150000, f"{i}us"] for i in range(4)] + [[4, 1, 100000, "9us"]]
FEW = {"dqa.edge_queues": 130, "dqa.table": 4}  # an entry is a Python object in the interpreted core


def traffic(share):
    """A share of the flows and of their bytes."""
    long = [[src, dst, int(share * size), start] for src, dst, size, start in LONG]
    return WAITING + incast_flows(n=int(share * 40), largest=int(share * 50000)) + long


def prioritised(flows, priorities):
    """The flows with their priorities in turn."""
    if priorities == 1:
        return flows
    named = [flow if isinstance(flow, dict) else dict(zip(("src", "dst", "bytes", "start"), flow)) for flow in flows]
    return [{**flow, "priority": i % priorities} for i, flow in enumerate(named)]


def reacted(digest) -> bool:
    """No warning that the congestion control or the flow control never acted."""
    return not any("never acted" in warning for warning in digest["warnings"])


# name, parameters, what the scheme must have done for the comparison to mean something
CASES = [
    ("fifo", {}, lambda d: d["drops"] > 0 and d["retransmissions"] > 0),
    ("bfc", {}, lambda d: d["pauses_sent"] > 0),
    ("bfc", {"queues": 4, "assignment": "stochastic"}, lambda d: d["pauses_sent"] > 0),
    ("bfc", {"queues": 4, "assignment": "rotating_unpaused"}, lambda d: d["pauses_sent"] > 0),
    ("bfc", {"queues": 4, "assignment": "penstock"}, lambda d: d["pauses_sent"] > 0),
    ("bfc", {"elide": True, "queues": 4}, lambda d: d["pauses_sent"] > 0),
    ("bfc", {"queues": 6, "classes": 2}, lambda d: d["pauses_sent"] > 0),
    ("bfc_tofino2", {"queues": 6, "recirculated": 0.5, "headers": 64}, lambda d: d["pauses_sent"] > 0),
    ("bfc+window_cap", {"nic_pauses": False, "plain_switches": "*0"}, lambda d: d["pauses_sent"] > 0),
    ("cbfc", {"limit": 20}, lambda d: d["control_bytes"] > 1000),
    ("cbfc", {"limit": 20, "vcs": 3, "pool": 10, "sharing": "dynamic", "cc_timer": "10us"}, lambda d: d["control_bytes"] > 1000),
    ("pfc", {}, lambda d: d["pauses_sent"] > 0),
    (
        "pfc",
        {"response": "2.14us", "cell": 254, "headroom_pool": "60KB", "priorities": 2, "rates": ["100Gbps"], "host_alpha": [0.2]},
        lambda d: d["pauses_sent"] > 0 and d["drops"] > 0,
    ),
    (
        "pfc",
        {"storm_host": 0, "watchdog": "20us", "restoration": "30us", "action": "drop", "poll": "5us", "storm_until": "90us"},
        lambda d: d["drops"] > 0,
    ),
    ("pfc", {"alpha": 0.02, "watchdog": "1us", "restoration": "3us"}, lambda d: d["drops"] > 0),
    ("pfc", {"pfc.priorities": 3, "lossless": [0, 2], "alpha": 0.05}, lambda d: d["pauses_sent"] > 0 and d["drops"] > 0),
    ("pfc", {"pfc.priorities": 2, "alpha": 0.02, "watchdog": "1us", "restoration": "3us"}, lambda d: d["drops"] > 0),
    (
        "pias",
        {"thresholds": ["3KB", "20KB"], "pfc.priorities": 8, "lossless": [2], "alpha": 0.02},
        lambda d: d["pauses_sent"] > 0,
    ),
    (
        "pfc+ets",
        {"pfc.priorities": 3, "pfc.alpha": 0.05, "pfc.lossless": [1], "weights": [3, 0.4], "strict": [2]},
        lambda d: d["pauses_sent"] > 0,
    ),
    ("hpcc:ns3", {"pfc.priorities": 2, "pfc.alpha": 0.02, "headroom": 2.5}, lambda d: reacted(d) and d["pauses_sent"] > 0),
    ("ideal_fq", {"queues": 32}, lambda d: not d["drops"]),
    ("hpcc", {}, lambda d: reacted(d)),
    ("hpcc:ns3", {}, lambda d: reacted(d)),
    ("hpcc+dqa", {}, lambda d: reacted(d)),
    ("fncc", {"table_period": "2us"}, lambda d: reacted(d)),
    ("hpcc:floodgate", {}, lambda d: d["pauses_sent"] > 20),
    ("ecn", {"k_min": "5KB", "k_max": "60KB", "drop": [0], "drop_p_max": 0.1}, lambda d: d["drops"] > 0),
    ("dcqcn", {"k_min": "5KB", "k_max": "20KB"}, lambda d: d["ecn_marks"] > 0 and reacted(d)),
    (
        "dcqcn:cnp",
        {"k_min": "5KB", "k_max": "20KB", "cnp_interval": "9us", "cnp_delay": "4us"},
        lambda d: d["control_bytes"] > 0 and reacted(d),
    ),
    ("dcqcn:ns3", {"k_min": "5KB", "k_max": "20KB"}, lambda d: d["ecn_marks"] > 0),
    ("dctcp", {"k_min": "5KB", "k_max": "20KB"}, lambda d: d["ecn_marks"] > 0 and reacted(d)),
    ("powertcp", {}, lambda d: reacted(d)),
    ("swift", {"base_target": "6us", "fs_range": "8us"}, lambda d: reacted(d)),
    ("bolt", {}, lambda d: d["control_bytes"] > 1000 and reacted(d)),
    ("theta_powertcp:ns3", {}, lambda d: reacted(d)),
    ("timely", {"t_low": "6us", "min_rtt": "5us"}, lambda d: reacted(d)),
    ("timely:floodgate", {"t_low": "6us", "min_rtt": "5us", "t_high": "20us"}, lambda d: reacted(d)),
    (
        "floodgate",
        {"m": 0.2, "t": "1us", "thre_credit": 0.3, "syn_timeout": "50us"},
        lambda d: d["max_voqs"] > 1 and d["control_bytes"] > 1000,
    ),
    ("floodgate:ideal", {"m": 0.3, "voqs": 1, "lease": "10us"}, lambda d: d["max_voqs"] == 1 and d["pauses_sent"] > 0),
    ("hpcc+floodgate", {"floodgate.m": 0.2, "floodgate.t": "1us"}, lambda d: d["max_voqs"] > 1 and reacted(d)),
    (
        "pyrrha",
        {"th_congestion": 0.2, "th_resume": 0.1, "refresh": "20us"},
        lambda d: d["max_voqs"] > 1 and d["pauses_sent"] > 20,
    ),
    ("ndp", {"iw": 12, "depth": 4}, lambda d: d["retransmissions"] > 100),
    ("expresspass", {"alpha": 0.5}, lambda d: d["drops"] > 100),
    ("expresspass:code", {"credits": 4}, lambda d: d["drops"] > 100),
    ("fifo+window_cap", {"cap": "30KB"}, lambda d: not d["drops"]),
    ("pfc_tagged", {"xoff": "20KB", "xon": "10KB", "host_pause": True}, lambda d: d["pauses_sent"] > 0),
    ("spray", {"policy": "shortest"}, lambda d: not d["drops"]),
    ("flowlet", {"gap": "3us", "entries": 20}, lambda d: not d["drops"]),
    ("ecn+conweave", {"k_min": "5KB", "reply": "100ns", "idle": "20us"}, lambda d: d["control_bytes"] > 1000),
    ("ecn+mixed", {"k_min": "5KB", "k_max": "60KB"}, lambda d: d["ecn_marks"] > 0),
    ("ndp+oblivious", {"iw": 12, "depth": 4}, lambda d: d["retransmissions"] > 100),
    ("uec+reps", {"depth": 8}, lambda d: reacted(d) and d["retransmissions"] > 100),
    ("uec:nscc_htsim", {"target": "1us"}, lambda d: reacted(d) and d["ecn_marks"] > 100),
    ("uec:rccc+mixed", {"depth": 8}, lambda d: d["retransmissions"] > 10),
    ("uec:both_htsim", {"depth": 8}, lambda d: reacted(d) and d["retransmissions"] > 10),
    ("mrc", {"depth": 8, "values": 16, "bound": "3us"}, lambda d: d["retransmissions"] > 100),
    ("ecn+reps", {"k_min": "5KB", "k_max": "60KB"}, lambda d: d["ecn_marks"] > 0),
    ("ecn+plb", {"k_min": "5KB", "k_max": "60KB", "rounds": 2, "idle_rounds": 1}, lambda d: d["ecn_marks"] > 0),
    ("pfc+least_queue", {"pfc.alpha": 0.05, "gap": "1us", "grades": ["2KB", "20KB"]}, lambda d: d["pauses_sent"] > 0),
    ("homa", {"rtt_bytes": "10KB", "cutoffs": "2KB, 9KB", "resend": "50us"}, lambda d: d["control_bytes"] > 1000),
    ("homa+spray", {"rtt_bytes": "5KB", "k": 2, "resend": "50us"}, lambda d: d["control_bytes"] > 1000),
    ("sird", {"bdp": "20KB", "unsch": 0.5, "n_thr": 0.1}, lambda d: d["control_bytes"] > 1000 and d["ecn_marks"] > 0),
    ("sird:simulator+spray", {"bdp": "20KB", "s_thr": 0, "g": 0.5, "resend": "50us"}, lambda d: d["control_bytes"] > 1000),
    ("dcpim", {"window": 12, "k": 2}, lambda d: d["control_bytes"] > 1000),
    ("dcpim:simulator+spray", {"window": 20, "beta": 1}, lambda d: d["control_bytes"] > 1000),
    ("pfabric", {"capacity": "20KB"}, lambda d: d["drops"] > 0 and d["retransmissions"] > 0),
    ("pfabric:simulator", {"capacity": "20KB", "nic": "10KB"}, lambda d: d["drops"] > 0 and d["retransmissions"] > 0),
    ("phost", {"free": 10, "capacity": "20KB"}, lambda d: d["drops"] > 0 and d["control_bytes"] > 1000),
    ("pias", {"thresholds": ["3KB", "20KB"], "k": "5KB"}, lambda d: d["ecn_marks"] > 0 and reacted(d)),
    ("dynamic_threshold", {"alpha": 0.1}, lambda d: d["drops"] > 0 and d["retransmissions"] > 0),
    ("sfq", {"queues": 4}, lambda d: d["flows_finished"] == 49),
    ("bfc+rtt_target", {"target": 1.2, "queues": 4}, lambda d: d["pauses_sent"] > 0),
    ("bfc+srf", {"queues": 4}, lambda d: d["pauses_sent"] > 0),
    ("ideal_fq+srf", {"queues": 32}, lambda d: not d["drops"]),
    ("recovery:irn", {"cap": "40KB"}, lambda d: d["drops"] > 0 and d["retransmissions"] > 0),
    ("recovery:perfect", {}, lambda d: d["drops"] > 0 and d["retransmissions"] > 0),
    ("recovery:bfc", {}, lambda d: d["drops"] > 0 and d["retransmissions"] > 0),
    ("backdraft", {"th_goal": "5KB", "th_over": "10KB", "recovery": "20us", **FEW}, lambda d: d["pauses_sent"] > 20),
    (
        "hpcc+backdraft",
        {"backdraft.th_goal": "2KB", "backdraft.th_over": "4KB", **FEW},
        lambda d: d["pauses_sent"] > 2 and reacted(d),
    ),
    ("pfc", {"senders": "edge"}, lambda d: d["pauses_sent"] > 0),
    ("bfc+backdraft", {"backdraft.th_over": "10KB", "bfc.edge_th_bytes": "200KB", **FEW}, lambda d: d["pauses_sent"] > 20),
]


ONE_THREAD = """
from penstock_net.sim.interpreted import install
install()
from penstock_net.testing.cases import run_case
case = {"topology": {"kind": "star", "hosts": 2}, "flows": [[0, 1, 1000, "0us"]], "scheme": "fifo"}
for threads in (1, 2):
    print(run_case(case, threads).summary["flows_finished"])
"""


def test_the_interpreted_core_refuses_threads():
    """It has no barrier."""
    done = subprocess.run([sys.executable, "-B", "-c", ONE_THREAD], capture_output=True, text=True)
    assert done.stdout == "1\n" and "the interpreted core runs on one thread" in done.stderr


@pytest.mark.parametrize("bits, low, high", ((7, -128, 127), (16, 0, 2**16 - 1), (63, -(2**63), 2**63 - 1), (64, 0, 2**64 - 1)))
def test_stores_of_the_interpreted_core_are_checked(bits, low, high):
    made = make_class("Mine", {"n": int, "x": float}, {"n": bits})()
    made.n, made.x = low, 1e300
    made.n = high
    for value in (low - 1, high + 1):
        with pytest.raises(OverflowError, match=rf"^Mine\.n = {value} does not fit its C type$"):
            made.n = value
    assert made.n == high


INTERPRETED = """
import contextlib, json, sys, traceback
from penstock_net.sim.interpreted import install
install()
from penstock_net.testing.cases import digest, run_case
for line in sys.stdin:
    try:
        with contextlib.redirect_stdout(sys.stderr):  # for what schemes print
            answer = [digest(run_case(case)) for case in json.loads(line)]
    except Exception:
        answer = traceback.format_exc()
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module")
def interpreted():
    """The digests of cases, of one interpreted process that imports everything once."""
    with subprocess.Popen([sys.executable, "-B", "-c", INTERPRETED], stdin=PIPE, stdout=PIPE, text=True) as process:

        def digests(cases):
            process.stdin.write(json.dumps(cases) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield digests


@pytest.mark.parametrize("scheme, parameters, acted", CASES, ids=[f"{c[0]}{len(c[1])}" for c in CASES])
def test_interpreted_equals_compiled_on_any_threads(interpreted, scheme, parameters, acted):
    """With and without loss."""
    topology = SERVERS if "backdraft" in scheme or "senders" in parameters else SMALL
    if scheme == "fifo":  # drops with little traffic
        topology = {**SMALL, "buffer": "60KB"}
    for share in (0.15, 0.3, 0.6, 1.0):  # plain Python is slow: no more traffic than the scheme needs
        flows = prioritised(traffic(share), parameters.get("pfc.priorities", 1))
        case = {"flows": flows, "scheme": scheme, "parameters": parameters, "host": {"rto": "200us"}}
        cases = [{**case, "topology": topology}, {**case, "topology": {**topology, "loss": 0.005}}]
        compiled = [digest(run_case(case)) for case in cases]
        if acted(compiled[0]) and compiled[1]["drops"]:
            break
    else:
        pytest.fail(f"the case does not exercise {scheme}: {compiled[0]}")
    for case, one in zip(cases, compiled):
        assert one["flows_finished"] == len(case["flows"])
        assert digest(run_case(case, threads=2)) == one
        assert digest(run_case(case, threads=3)) == one
    assert interpreted(cases) == json.loads(json.dumps(compiled))


@pytest.mark.parametrize("scheme", ["bfc", "hpcc", "ndp", "pfabric", "cbfc"])
def test_with_links_that_retry(interpreted, scheme):
    """While frames are kept, sent again, and given up; links fail, are dark, and retry no more."""
    link = {"a": "tor0", "b": "spine1"}
    changes = [
        {"time": "8us", **link, "night": "5us", "on_down": "hold"},
        {"time": "18us", "a": "tor1", "b": "spine0", "up": False},
        {"time": "25us", **link, "llr": False},
        {"time": "30us", "a": "tor1", "b": "spine0", "up": True},
        {"time": "35us", **link, "llr": True},
    ]
    topology = {**SMALL, "loss": 0.03, "llr": {"replays": 2, "unseen": 0.2, "ack_loss": 0.1}, "changes": changes}
    case = {"topology": topology, "flows": traffic(0.2), "scheme": scheme, "host": {"rto": "200us"}}
    compiled = run_case(case)
    assert compiled.frame("llr")["tx_replay"].sum() > 100 and compiled.frame("llr")["timeouts"].sum() > 0
    assert digest(compiled) == digest(run_case(case, threads=3))
    assert interpreted([case]) == [json.loads(json.dumps(digest(compiled)))]


FAILING = ["fifo", "bfc", "pfc", "cbfc", "floodgate", "pfc_tagged", "pfabric", "ideal_fq+srf", "hpcc+recovery:perfect"]


@pytest.mark.parametrize("scheme", FAILING)
def test_with_switches_that_fail(interpreted, scheme):
    """While they store packets, of which some are held, and with pauses on their links."""
    changes = [
        {"time": "12us", "switch": "spine0", "up": False},
        {"time": "20us", "switch": "tor0", "up": False},
        {"time": "60us", "switch": "spine0", "up": True},
        {"time": "90us", "switch": "tor0", "up": True},
    ]
    flows = traffic(0.6)
    case = {"flows": flows, "scheme": scheme, "topology": {**SMALL, "changes": changes}, "host": {"rto": "200us"}}
    compiled = digest(run_case(case))
    assert compiled["flows_finished"] == len(flows) and compiled["drops"] > 20
    assert digest(run_case(case, threads=2)) == compiled == digest(run_case(case, threads=3))
    assert interpreted([case]) == [json.loads(json.dumps(compiled))]


@pytest.mark.parametrize("scheme, parameters", [("fifo", {}), ("dctcp", {"k_min": "5KB", "k_max": "20KB"}), ("recovery:irn", {})])
def test_hosts_that_acknowledge_several_packets_together(interpreted, scheme, parameters):
    host = {"rto": "100us", "ack_every": 4, "ack_after": "2us", "ack_delay": "700ns"}
    topology = {**SMALL, "buffer": "500KB" if scheme == "dctcp" else "60KB", "loss": 0.002}
    case = {"flows": traffic(0.3), "scheme": scheme, "parameters": parameters, "topology": topology, "host": host}
    compiled = digest(run_case(case))
    assert compiled["flows_finished"] == len(case["flows"])
    assert digest(run_case(case, threads=2)) == compiled == digest(run_case(case, threads=3))
    assert interpreted([case]) == [json.loads(json.dumps(compiled))]


BY_FLOW = ["fifo", "bfc", "floodgate", "pfc_tagged", "hpcc", "pias", "backdraft"]
BY_PACKET = ["spray+pfc", "recovery:irn", "swift+spray"]
BY_RAIL = ["bfc", "hpcc"]


@pytest.mark.parametrize(
    "scheme, ports",
    [(name, ports) for ports, names in (("flow", BY_FLOW), ("packet", BY_PACKET), ("rail", BY_RAIL)) for name in names],
)
def test_hosts_with_two_links(interpreted, scheme, ports, tmp_path):
    """Each on a ToR of its own; one goes down while its flows send, and comes back."""
    ends = [(f"h{host}", f"tor{tor}") for host in range(8) for tor in (host // 4, 2 + host // 4)]
    ends += [(f"tor{tor}", f"spine{spine}") for tor in range(4) for spine in range(2)]
    file = tmp_path / "dual.csv"
    file.write_text("a,b,rate,delay\n" + "".join(f"{a},{b},100Gbps,1us\n" for a, b in ends))
    flaps = [{"time": f"{time}us", "a": "h0", "b": "tor0", "up": up} for time, up in ((9, False), (40, True))]
    topology = {"kind": "file", "file": str(file), "buffer": "500KB", "changes": flaps}
    flows = traffic(0.6)
    if ports == "rail":
        flows += [{"src": 0, "dst": 5, "bytes": 9000, "start": f"{i}us", "connection": i % 3} for i in range(12)]
    case = {"flows": flows, "scheme": scheme, "topology": topology, "host": {"rto": "200us", "ports": ports}}
    compiled = digest(run_case(case))
    assert compiled["flows_finished"] == len(case["flows"])
    assert digest(run_case(case, threads=2)) == compiled == digest(run_case(case, threads=3))
    assert interpreted([case]) == [json.loads(json.dumps(compiled))]


@pytest.mark.parametrize("scheme", ["fifo", "bfc", "pfc", "hpcc"])
def test_switches_that_cut_through(interpreted, scheme):
    """Some store and forward; a link changes its rate with packets on it, and goes down."""
    ends = {"a": "tor0", "b": "spine1"}
    changes = [{"time": f"{3 + 5 * i}us", **ends, "rate": ("40Gbps", "100Gbps")[i % 2]} for i in range(10)]
    changes += [{"time": f"{time}us", "a": "host4", "b": "tor1", "up": up} for time, up in ((9, False), (30, True))]
    topology = {**SMALL, "cut_through": ["spine*", "tor1"], "cut_through_header": "90B", "loss": 0.001, "changes": changes}
    case = {"flows": traffic(0.3), "scheme": scheme, "topology": topology, "host": {"rto": "200us"}}
    compiled = digest(run_case(case))
    assert digest(run_case(case, threads=2)) == compiled == digest(run_case(case, threads=3))
    assert interpreted([case]) == [json.loads(json.dumps(compiled))]


def test_links_by_a_clock_of_nanoseconds(interpreted):
    """Transmissions and paced flows, at a rate of no whole ps a byte and at one that changes."""
    changes = [{"time": "9us", "a": "tor0", "b": "spine1", "rate": "40Gbps"}]
    topology = {**SMALL, "rate": "56Gbps", "changes": changes}
    case = {"flows": traffic(0.3), "scheme": "hpcc", "topology": topology, "host": {"rto": "200us"}, "link_clock": "ns"}
    compiled = digest(run_case(case))
    assert reacted(compiled) and compiled != digest(run_case({**case, "link_clock": "ps"}))
    assert digest(run_case(case, threads=2)) == compiled == digest(run_case(case, threads=3))
    assert interpreted([case]) == [json.loads(json.dumps(compiled))]


@pytest.mark.parametrize(
    "scheme, priorities, network",
    [
        ("valiant:ugal+pfc", 3, {"kind": "dragonfly", "p": 1, "a": 2, "h": 2, "groups": 3}),
        ("dimension_order+pfc", 2, {"kind": "torus", "dims": [4, 3]}),
    ],
)
def test_networks_of_groups_and_rings(interpreted, scheme, priorities, network):
    """With a link that goes down and comes back."""
    hosts = 6 if network["kind"] == "dragonfly" else 12
    flaps = [{"time": f"{time}us", "a": "switch0", "b": "switch1", "up": up} for time, up in ((9, False), (40, True))]
    flows = [[i, (i + k) % hosts, 20000 + i, f"{k}us"] for i in range(hosts) for k in (1, 2, 5)]
    case = {"scheme": scheme, "parameters": {"pfc.priorities": priorities}, "flows": flows, "host": {"rto": "200us"}}
    case["topology"] = {**network, "buffer": "500KB", "delay": "100ns", "changes": flaps}
    compiled = digest(run_case(case))
    assert compiled["flows_finished"] == len(flows)
    assert digest(run_case(case, threads=2)) == compiled == digest(run_case(case, threads=3))
    assert interpreted([case]) == [json.loads(json.dumps(compiled))]


FLOW_PATHS = [[0, "there", "spine0"], [0, "back", "spine1"], [1, "both", "host1 tor0 spine1 tor1"]]
TURNS = [["tor0", "host0", 1], ["tor0", "host2", 0], ["tor1", "host5", 5]]


@pytest.mark.parametrize("scheme", ["fifo", "hpcc", "flowlet", "ndp", "homa+spray"])
def test_paths_that_are_given(interpreted, scheme):
    """Of some flows, or of packets by turns, in place of a scheme's; a link goes down and comes back."""
    flaps = [{"time": f"{time}us", "a": "tor0", "b": "spine1", "up": up} for time, up in ((9, False), (40, True))]
    flows = [[0, 4, 90000, "0us"], [1, 5, 90000, "0us"], *incast_flows(n=20)]
    by_flow = {"columns": ["flow", "direction", "path"], "paths": FLOW_PATHS}
    by_turn = {"columns": ["switch", "from", "first"], "paths": TURNS}
    base = {"flows": flows, "scheme": scheme, "topology": {**SMALL, "changes": flaps}, "host": {"rto": "200us"}}
    cases = [{**base, **by_flow}, *([{**base, **by_turn}] if "spray" in scheme or scheme in ("homa", "ndp") else [])]
    compiled = [digest(run_case(case)) for case in cases]
    plain = digest(run_case(base))
    for case, one in zip(cases, compiled):
        assert one["ports"] != plain["ports"]
        assert digest(run_case(case, threads=2)) == one == digest(run_case(case, threads=3))
    assert interpreted(cases) == json.loads(json.dumps(compiled))


@pytest.mark.parametrize("scheme", ["fifo", "hpcc", "dcqcn", "bfc", "recovery:irn"])
def test_flows_with_a_rate_or_a_window(interpreted, scheme):
    """Of some flows: bounds on what the transport does."""
    named = [dict(zip(("src", "dst", "bytes", "start"), flow)) for flow in LONG + incast_flows(n=15)]
    bounds = [{"rate": "9Gbps"}, {"window": "12KB"}, {}, {"rate": "31Gbps", "window": "40KB"}]
    flows = [{**flow, **bounds[i % 4]} for i, flow in enumerate(named)]
    case = {"flows": flows, "scheme": scheme, "topology": {**SMALL, "loss": 0.002}, "host": {"rto": "200us"}}
    compiled = digest(run_case(case))
    assert compiled["flows_finished"] == len(flows) and compiled["ports"] != digest(run_case({**case, "flows": named}))["ports"]
    assert digest(run_case(case, threads=2)) == compiled == digest(run_case(case, threads=3))
    assert interpreted([case]) == [json.loads(json.dumps(compiled))]


@pytest.mark.parametrize("scheme", ["fifo", "hpcc", "bfc", "recovery:perfect"])
def test_open_loop_flows(interpreted, scheme):
    """Some of which lose packets, on links, in a buffer that is too small, and in a link that fails."""
    named = [dict(zip(("src", "dst", "bytes", "start"), flow)) for flow in LONG + incast_flows(n=15)]
    given = [{}, {"open_loop": True, "rate": "40Gbps"}, {"open_loop": True}]
    flows = [flow | given[i % 3] for i, flow in enumerate(named)]
    changes = [{"time": "9us", "a": "tor0", "b": "spine0", "up": False}, {"time": "60us", "a": "tor0", "b": "spine0", "up": True}]
    buffer = "300KB" if scheme == "hpcc" else "60KB"
    topology = {**SMALL, "loss": 0.002, "buffer": buffer, "changes": changes}
    case = {"flows": flows, "scheme": scheme, "topology": topology, "host": {"rto": "200us"}}
    run = run_case(case)
    one = json.loads(json.dumps(digest(run)))
    assert run.summary["open_loop"]["lost_bytes"] > 1000 and one["open_loop"]
    assert interpreted([case]) == [one] == [digest(run_case(case, threads=2))]


@pytest.mark.parametrize("scheme", ["bfc", "floodgate"])
def test_links_that_are_dark(interpreted, scheme):
    night = {"night": "9us", "every": "20us", "until": "60us", "on_down": "hold"}
    changes = [
        {"time": "3us", "switch": "spine0", **night},
        {"time": "7us", "a": "host0", "b": "tor0", "rate": "40Gbps", **night},
    ]
    case = {"topology": {**SMALL, "changes": changes}, "flows": WAITING + incast_flows(n=6, largest=9000), "scheme": scheme}
    one = digest(run_case(case))
    assert one["flows_finished"] == len(case["flows"]) and one["drops"] == 0
    assert interpreted([case]) == [one] == [digest(run_case(case, threads=2))]
    assert one != digest(run_case({**case, "topology": SMALL}))


@pytest.mark.parametrize("scheme, llr", [("bfc", None), ("cbfc", {}), ("floodgate", None)])
def test_links_that_are_dead(interpreted, scheme, llr):
    """One silently, another with its routes, while packets wait for them."""
    changes = [
        {"time": "4us", "a": "tor0", "b": "spine0", "night": "30us", "on_down": "silent"},
        {"time": "9us", "a": "tor1", "b": "spine1", "night": "40us", "on_down": "lose"},
    ]
    topology = {**SMALL, "changes": changes} | ({} if llr is None else {"llr": llr})
    flows = [[i, 5, 12_000, "0us"] for i in range(4)] + [[i, 1, 12_000, "1us"] for i in (4, 6, 7)]
    case = {"topology": topology, "flows": flows, "scheme": scheme, "host": {"rto": "60us"}}
    one = json.loads(json.dumps(digest(run_case(case))))
    assert one["flows_finished"] == len(flows) and one["drops"] > 10
    assert interpreted([case]) == [one] == [json.loads(json.dumps(digest(run_case(case, threads=3))))]


def test_what_a_scheme_counts_records_and_prints(interpreted):
    case = {"topology": SMALL, "flows": incast_flows(n=12), "scheme": str(INSIDE), "parameters": {"k": "5KB"}}
    one = digest(run_case(case))
    assert {"counts", "records", "prints"} <= one.keys() and run_case(case).summary["printed"] > 20
    assert interpreted([case]) == [one] == [digest(run_case(case, threads=2))]


OF_ALL_WIDTHS = '''
"""Parameters of all widths beside one another, and a set-up that says where it is called."""

parameters = {
    "words": ("int32[3] -9..9", [1, -2, 3], ""), "next": ("int32 0..9", 4, ""),
    "bytes3": ("int8[3] -9..9", [-5, 6, 7], ""), "last": ("int8 -9..9", -8, ""),
    "yes": ("bool[2]", [True, False], ""), "shorts": ("int16[2] -9..9", [-1, 9], ""), "longs": ("int64[2]", [2, 3], ""),
}
scheme_state = {"zero": "int8"}
counts = {"set_up": "times that a node was set up", "read": "what the parameters say"}


def set_up_node(me, node):
    my_node(me, node).set_up += 1
    read = 0
    for i in range(3):
        read = read * 31 + me.words[i] + 10
        read = read * 31 + me.bytes3[i] + 10
    for i in range(2):
        read = read * 31 + me.yes[i] + me.shorts[i] + me.longs[i] + 10
    my_node(me, node).read = (read * 31 + me.next) * 31 + me.last + me.zero + 10
'''


def test_parameters_of_all_widths_do_not_touch_one_another_and_only_switches_are_set_up(interpreted, tmp_path):
    """Stores of eight bytes for numbers of four once overwrote what was beside them, in the compiled core only."""
    path = tmp_path / "widths.py"
    path.write_text(OF_ALL_WIDTHS.lstrip())
    case = {"topology": {"kind": "star", "hosts": 2}, "scheme": str(path), "flows": [[0, 1, 1000]]}
    read = 0
    for word, byte in zip((1, -2, 3), (-5, 6, 7)):
        read = (read * 31 + word + 10) * 31 + byte + 10
    for yes, short, long in zip((1, 0), (-1, 9), (2, 3)):
        read = read * 31 + yes + short + long + 10
    run = run_case(case)
    assert run.counts == {"widths.set_up": 1, "widths.read": (read * 31 + 4) * 31 - 8 + 10}
    assert run.frame("counts")["node"].unique().to_list() == [2], "of no host"
    assert interpreted([case]) == json.loads(json.dumps([digest(run)]))
    with pytest.raises(SpecError, match=r"last.*-9\.\.9"):
        run_case({**case, "parameters": {"last": 10}})
    path.write_text(OF_ALL_WIDTHS.lstrip().replace("int8 -9..9", "int8 -999..999"))
    with pytest.raises(SpecError, match="last = 128"):
        run_case({**case, "parameters": {"last": 128}})
