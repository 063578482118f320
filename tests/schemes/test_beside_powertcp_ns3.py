"""Completion times beside those of the PowerTCP authors' simulator (inet-tub/ns3-datacenter, commit 6ddb4a4): the same flows.

16 hosts on 2 ToRs with one spine, 100 Gbit/s, 1 us, 4 MiB, parameters of config-burst.txt; its records of telemetry were set to
zero at the start of a flow, which that commit forgets. Times are the sender's, to the last ACK.  It cuts all times to
nanoseconds: packets of 1100 B take 88 ns, so that this does little; those of 1090 B take 87 ns for 87.2.
"""

import numpy as np
import pytest

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine
from penstock_net.workload import flow_list

SCHEMES = {"theta": "theta_powertcp:ns3", "powertcp": "powertcp:ns3"}
TAU = "8320ns"  # theirs, which leaves the headers out
HOPS = 8  # there and back
FLOWS = {  # (source, destination), bytes of each; the flows start at 1000 ns and every 13 ns
    "xone": ([(0, 8)], 1_010_000),
    "xtwo": ([(0, 8), (1, 8)], 1_010_000),
    "xrack2": ([(0, 1), (2, 1)], 1_010_000),
    "xinc8": ([(i, 8) for i in range(8)], 505_000),
    "short1": ([(0, 8)], 20_000),
    "two": ([(0, 8), (1, 8)], 1_000_000),
    "rack2": ([(0, 1), (2, 1)], 1_000_000),
}
THEIRS = {  # ns
    ("xone", "theta"): [96292],
    ("xone", "powertcp"): [99279],
    ("xtwo", "theta"): [191694, 191857],
    ("xtwo", "powertcp"): [195395, 193091],
    ("xrack2", "theta"): [184181, 183641],
    ("xrack2", "powertcp"): [187856, 193857],
    ("xinc8", "theta"): [359019, 372863, 372304, 375081, 365318, 363426, 331753, 354947],
    ("xinc8", "powertcp"): [396535, 369615, 390120, 361115, 355404, 365280, 348400, 343024],
    ("short1", "theta"): [10029],
    ("short1", "powertcp"): [10029],
    ("two", "theta"): [190227, 189866],
    ("two", "powertcp"): [194310, 190745],
    ("rack2", "theta"): [183194, 179757],
    ("rack2", "powertcp"): [189287, 188143],
}


def times(case, scheme, rate="100Gbps", **parameters):
    """Completion times in ns, by the sender's clock."""
    pairs, size = FLOWS[case]
    topo = leaf_spine(hosts=16, tors=2, spines=1, rate=rate, delay="1us", buffer="4MiB")
    flows = flow_list(topo, [(src, dst, f"{size}B", f"{1000 + 13 * i}ns") for i, (src, dst) in enumerate(pairs)])
    host = HostConfig(mtu=1010 if case[0] == "x" else 1000, header=48, ack=46, ack_priority="data")
    found = simulate(topo, flows, parse(scheme, {"t": TAU, **parameters}), host=host).flows
    return (found["acked_ns"] - found["start_ns"]).to_numpy()


@pytest.mark.parametrize("case, name", THEIRS)
def test_the_mean_is_theirs(case, name):
    """To half a per cent, and another one for the rounding of packets that are not 1100 B long."""
    allowed = 0.005 if case[0] == "x" else 0.01
    assert times(case, SCHEMES[name]).mean() == pytest.approx(np.mean(THEIRS[case, name]), rel=allowed)


def test_a_lone_flow_is_as_long_to_a_nanosecond_a_hop():
    assert times("xone", "theta_powertcp:ns3") == pytest.approx(THEIRS["xone", "theta"], abs=HOPS)
    for name, scheme in SCHEMES.items():  # on a link where 1090 B take 87 ns exactly
        assert times("short1", scheme, "100229885057bps") == pytest.approx(THEIRS["short1", name], abs=HOPS)


@pytest.mark.parametrize("case", ["xtwo", "xrack2"])
def test_each_of_two_flows(case):
    assert times(case, "theta_powertcp:ns3") == pytest.approx(THEIRS[case, "theta"], rel=0.005)


def test_each_rule_matters():
    """What docs/schemes.md says of Algorithm 2 beside the code, and of each rule alone."""
    theirs = np.mean(THEIRS["xtwo", "theta"])
    assert times("xtwo", "theta_powertcp").mean() > 1.7 * theirs
    assert times("xtwo", "theta_powertcp:ns3", reaction="per_rtt").mean() > 1.1 * theirs
    assert times("xone", "theta_powertcp:ns3", stamp_bytes=8).mean() < 0.98 * THEIRS["xone", "theta"][0]
    assert times("xrack2", "theta_powertcp:ns3", first=False).mean() < 0.995 * np.mean(THEIRS["xrack2", "theta"])


def test_gamma_of_the_first_ack():
    """powertcp: 0.5 as with records of zero; without it the target of 95 % holds for the first RTT, too."""
    (theirs,) = THEIRS["xone", "powertcp"]
    assert times("xone", "powertcp:ns3") == pytest.approx(theirs, rel=0.001)
    assert times("xone", "powertcp:ns3", first=0) > 1.01 * theirs
