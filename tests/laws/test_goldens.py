"""Golden checksums: every scheme, with each of its presets, gives the same bits on any x86-64 machine.

Why they are equal: the core adds, subtracts, multiplies, divides and truncates, which IEEE 754 defines to the last bit.
It calls no function of a math library and has no fused multiply-add (-ffp-contract=off), and no option of the compiler lets it
depend on the CPU that it was compiled on.  Random numbers of the core are hashes, that is, integers.  The tests below check
the compiled files for that, and compute all goldens again in a process whose libraries are set to assume an older CPU.

Traffic: exp(), which numpy calls for lognormal gaps, does differ in its last bit between CPUs.  Gaps are therefore rounded to
1/16 ps.  A difference shows only if it lies across a boundary of that: with 4e-15 of a gap between two machines, which
is more than was seen, that is to be expected less than once in 15 s of simulated arrivals.

After a change that is meant to change results, print the new checksums with

    python tests/laws/test_goldens.py
"""

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from networks import HostConfig, available, flow_list, simulate
from test_same_bits import EVERYTHING, checksum

import penstock
from penstock.composition import parse
from penstock.topology import build, leaf_spine
from penstock.workload import incast, poisson
from penstock.workload.collectives import ring_all_reduce

NETWORK = {"kind": "leaf_spine", "hosts": 8, "tors": 2, "spines": 2, "buffer": "1MB"}
SERVER_NETWORK = {  # two applications in every server behind a virtual switch; three of them read slowly
    **NETWORK,
    "hosts": 4,
    "vswitches": {"apps": 2, "buffer": "700KB"},
    "receivers": [
        {"host": 0, "rate": "6Gbps"},
        {"host": 1, "rate": "12Gbps", "start": "70us"},
        {"host": 5, "rate": "9Gbps", "on": "20us", "off": "15us", "until": "300us"},
    ],
}
MARKS = {"ecn.k_min": "5KB", "ecn.k_max": "60KB"}
QUICK = {"decrease_interval": "10us", "increase_interval": "2us"}
NEAR = {"base_target": "6us", "fs_range": "8us"}
TIGHT = {"floodgate.m": 0.2, "floodgate.t": "1us", "floodgate.thre_credit": 0.3, "floodgate.syn_timeout": "50us"}
LOSSY = "lossy"  # 0.5 % of all frames are lost, and 5 % of the control frames beside
SERVERS = "servers"
PRIORITIES = "priorities"  # flows have the priorities of the scheme in turn
ASSIGNMENTS = "literal", "rotating", "rotating_unpaused", "shortest", "joined", "penstock", "two_choices", "stochastic", "single"

# Scheme, parameters that make it act on a small network, and where it runs.
CASES: dict[str, tuple[str, dict, str]] = {
    "backdraft": ("backdraft", {"th_goal": "5KB", "th_over": "10KB", "recovery": "20us"}, SERVERS),
    "backdraft lossy": ("backdraft", {"th_over": "10KB", "edge_queues": 4}, SERVERS + LOSSY),
    "backdraft without rate": ("backdraft", {"with_rate": False, "adapt": False, "th_over": "40KB"}, SERVERS),
    "backdraft:default": ("backdraft:default", {}, SERVERS),
    "bfc": ("bfc", {}, ""),
    "bfc 4 queues": ("bfc", {"queues": 4, "nic_queues": 2}, ""),
    "bfc lossy": ("bfc", {"queues": 4}, LOSSY),
    "bfc classes": ("bfc", {"queues": 6, "classes": 3}, ""),
    "bfc_tofino2": ("bfc_tofino2", {"queues": 4}, ""),
    "bfc_tofino2:ideal": ("bfc_tofino2:ideal", {"queues": 4}, ""),
    "bfc_tofino2 sampled": ("bfc_tofino2:ideal", {"queues": 4, "recirculated": 0.5}, ""),
    "bfc nics": ("bfc+window_cap", {"nic_pauses": False}, ""),
    "bfc plain": ("bfc", {"plain_switches": "*0"}, ""),
    "bfc:unpaused": ("bfc:unpaused", {"queues": 6}, ""),
    **{f"bfc {name}": ("bfc", {"queues": 4, "assignment": name}, "") for name in ASSIGNMENTS},
    "bfc+backdraft": ("bfc+backdraft", {"th_over": "10KB", "edge_th_bytes": "200KB"}, SERVERS),
    "dcqcn": ("dcqcn", MARKS, ""),
    "dcqcn window": ("dcqcn", {**MARKS, "window": True, "increase_interval": "5us", "fast_recovery": 2, "g": 0.1}, ""),
    "dcqcn hyper": ("dcqcn", {**MARKS, **QUICK, "fast_recovery": 1, "r_ai": "300Mbps", "r_hai": "2Gbps"}, ""),
    "dcqcn:config": ("dcqcn:config", {**MARKS, "ecn.per": 0}, ""),
    "dcqcn:ns3": ("dcqcn:ns3", {**MARKS, "ecn.per": 0, "increase_interval": "20us"}, ""),
    "dcqcn:ns3_paper": ("dcqcn:ns3_paper", {**MARKS, "ecn.per": 0}, ""),
    "dctcp": ("dctcp", {"ecn.k_min": "20KB", "ecn.k_max": "20KB"}, ""),
    "dctcp:bfc": ("dctcp:bfc", MARKS, ""),
    "dctcp:bfc_slow_start": ("dctcp:bfc_slow_start", MARKS, ""),
    "dctcp:floodgate": ("dctcp:floodgate", {**MARKS, "ecn.per": 0}, ""),
    "dctcp:ns3": ("dctcp:ns3", {**MARKS, "ecn.per": 0}, ""),
    "dctcp:slow_start": ("dctcp:slow_start", MARKS, ""),
    "dqa": ("dqa", {"queues": 4}, ""),
    "dqa unpaused": ("dqa", {"queues": 6, "assignment": "unpaused", "sticky": 0.5}, ""),
    "dqa:single": ("dqa:single", {}, ""),
    "dqa:stochastic": ("dqa:stochastic", {"queues": 4}, ""),
    "dynamic_threshold": ("dynamic_threshold", {"alpha": 0.5}, "small buffers"),
    "ecn": ("ecn", {"k_min": "10KB", "k_max": "40KB", "p_max": 0.3}, ""),
    "ecn:ns3": ("ecn:ns3", {"k_min": "20KB", "k_max": "80KB"}, ""),
    "ets": ("pfc+ets", {"pfc.priorities": 4, "weights": [4, 2, 1], "pfc.lossless": [0, 1], "strict": [3]}, PRIORITIES),
    "expresspass": ("expresspass", {}, ""),
    "expresspass lossy": ("expresspass", {"alpha": 0.5}, LOSSY),
    "expresspass:bfc": ("expresspass:bfc", {}, ""),
    "expresspass:code": ("expresspass:code", {}, ""),
    "fifo": ("fifo", {}, "small buffers"),
    "floodgate": ("floodgate", TIGHT, ""),
    "floodgate lossy": ("floodgate", TIGHT, LOSSY),
    "floodgate:ideal": ("floodgate:ideal", {"m": 0.3, "voqs": 2, "lease": "10us"}, ""),
    "floodgate:ns3": ("floodgate:ns3", {"m": 0.2, "t": "1us"}, ""),
    "floodgate:ns3_ideal": ("floodgate:ns3_ideal", {"m": 0.2, "thre_off": 0.5, "thre_on": 0.3}, ""),
    "hpcc": ("hpcc", {}, ""),
    "hpcc per ack": ("hpcc", {"reaction": "per_ack"}, ""),
    "hpcc per rtt": ("hpcc", {"reaction": "per_rtt"}, ""),
    "hpcc rx": ("hpcc", {"rate": "rx"}, ""),
    "hpcc+window_cap": ("hpcc+window_cap", {"cap": "20KB"}, ""),
    "hpcc+floodgate": ("hpcc+floodgate", TIGHT, ""),
    "hpcc:bfc": ("hpcc:bfc", {}, ""),
    "hpcc:floodgate": ("hpcc:floodgate", {}, ""),
    "hpcc:floodgate+floodgate": ("hpcc:floodgate+floodgate", TIGHT, ""),
    "hpcc:ns3": ("hpcc:ns3", {}, ""),
    "ideal_fq": ("ideal_fq", {}, ""),
    "homa": ("homa", {"rtt_bytes": "20KB", "cutoffs": "2KB, 9KB, 20KB", "resend": "50us"}, ""),
    "homa lossy": ("homa", {"rtt_bytes": "20KB", "k": 1, "resend": "50us"}, LOSSY),
    "homa+spray": ("homa+spray", {}, ""),
    "flowlet": ("flowlet", {"gap": "3us", "entries": 20}, ""),
    "hpcc+flowlet": ("hpcc+flowlet", {"flowlet.gap": "2us"}, ""),
    "ideal_fq 3 queues": ("ideal_fq", {"queues": 3}, ""),
    "ndp": ("ndp", {"iw": 20}, ""),
    "ndp lossy": ("ndp", {"iw": 20, "depth": 4}, LOSSY),
    "ndp:default": ("ndp:default", {}, ""),
    "pfc": ("pfc", {"alpha": 0.05}, ""),
    "pfc lossy": ("pfc", {"alpha": 0.05, "refresh": "5us"}, LOSSY),
    "pfc of the edge": ("pfc", {"senders": "edge"}, SERVERS),
    "pfc:ns3": ("pfc:ns3", {}, ""),
    "pfc priorities": ("pfc", {"alpha": 0.05, "priorities": 3, "lossless": [0, 2]}, PRIORITIES),
    "pfc priorities lossy": ("pfc", {"alpha": 0.05, "priorities": 2, "refresh": "5us"}, LOSSY + PRIORITIES),
    "hpcc priorities": ("hpcc:ns3", {"priorities": 8, "lossless": [1, 7]}, PRIORITIES),
    "dcqcn priorities": ("dcqcn", {**MARKS, "priorities": 2}, PRIORITIES),
    "pfabric": ("pfabric", {"capacity": "30KB"}, ""),
    "pfabric lossy": ("pfabric", {"window": "10KB"}, LOSSY),
    "pfabric:default": ("pfabric:default", {}, ""),
    "pfabric:simulator": ("pfabric:simulator", {}, ""),
    "phost": ("phost", {"free": 20, "capacity": "30KB"}, ""),
    "phost lossy": ("phost", {"free": 10, "free_for": "short"}, LOSSY),
    "phost:simulator": ("phost:simulator", {}, ""),
    "pias": ("pias", {"thresholds": ["5KB", "20KB", "90KB"], "k": "20KB"}, ""),
    "pias:data_mining": ("pias:data_mining", {"k": "10KB"}, ""),
    "pfc_tagged": ("pfc_tagged", {"xoff": "20KB", "xon": "10KB"}, ""),
    "pfc_tagged lossy": ("pfc_tagged", {"xoff": "20KB", "xon": "10KB", "host_pause": True, "voqs": 2}, LOSSY),
    "powertcp": ("powertcp", {}, ""),
    "powertcp equation 7": ("powertcp", {"average": "cwnd"}, ""),
    "powertcp lossy": ("powertcp", {"r_ai": "1Gbps"}, LOSSY),
    "powertcp:ns3": ("powertcp:ns3", {}, ""),
    "recovery": ("fifo+recovery", {}, LOSSY),
    "recovery:irn": ("dcqcn+recovery:irn", {**MARKS, "pfc": False}, "small buffers"),
    "recovery:irn lossy": ("recovery:irn", {"cap": "20KB"}, LOSSY),
    "recovery:perfect": ("hpcc+recovery:perfect", {"pfc": False}, "small buffers"),
    "recovery:perfect lossy": ("spray+recovery:perfect", {}, LOSSY),
    "sfq": ("sfq", {"queues": 5}, ""),
    "rtt_target": ("rtt_target", {}, ""),
    "bfc+rtt_target": ("bfc+rtt_target", {"target": 1.5}, ""),
    "srf": ("srf", {}, ""),
    "bfc+srf": ("bfc+srf", {"queues": 8}, ""),
    "ideal_fq+srf": ("ideal_fq+srf", {}, ""),
    "spray": ("spray", {}, ""),
    "spray shortest": ("spray", {"policy": "shortest"}, ""),
    "swift": ("swift", NEAR, ""),
    "swift lossy": ("swift", {**NEAR, "fs_range": "2us"}, LOSSY),
    "swift of slow receivers": ("swift", {**NEAR, "endpoint_target": "8us"}, SERVERS),
    "swift:htsim": ("swift:htsim", {}, ""),
    "telemetry": ("telemetry", {}, ""),
    "theta_powertcp": ("theta_powertcp", {}, ""),
    "theta_powertcp:ns3": ("theta_powertcp:ns3", {}, ""),
    "timely": ("timely", {"t_low": "6us", "min_rtt": "5us", "t_high": "60us"}, ""),
    "timely:floodgate": ("timely:floodgate", {"t_low": "6us", "min_rtt": "5us", "t_high": "60us"}, ""),
    "timely:ns3": ("timely:ns3", {"t_low": "8us", "min_rtt": "5us", "t_high": "60us"}, ""),
    "timely:ns3_win": ("timely:ns3_win", {"t_low": "8us", "min_rtt": "5us", "t_high": "60us"}, ""),
    "window_cap": ("fifo+window_cap", {"cap": "30KB"}, ""),
}
GOLDEN = {
    "backdraft": "7d5bdcf711a6ce42",
    "backdraft lossy": "e4ad563b68cbb8f7",
    "backdraft without rate": "06227a161dbd6523",
    "backdraft:default": "94dcc5a0f9764853",
    "bfc": "dba6ae0450f72149",
    "bfc 4 queues": "8f6748a0a7bf23bb",
    "bfc lossy": "d312016595bdf526",
    "bfc classes": "db99cac3c4ab01da",
    "bfc_tofino2": "d5cc6645776515c4",
    "bfc_tofino2:ideal": "7b281789b578aca8",
    "bfc_tofino2 sampled": "8245aafac8318283",
    "bfc nics": "26a24149481c0fb6",
    "bfc plain": "d004d37880d21fd7",
    "bfc:unpaused": "782e61bd7a919bdc",
    "bfc literal": "34d823a5b44c5360",
    "bfc rotating": "166f00da0e5eef5f",
    "bfc rotating_unpaused": "25cfec8914a8b944",
    "bfc shortest": "4947aee40e548491",
    "bfc joined": "4cb5ded8a9470056",
    "bfc penstock": "5330d1c7a873f33e",
    "bfc two_choices": "9267f19c9742a73e",
    "bfc stochastic": "2a6490d5f95b5e4f",
    "bfc single": "7d4f0dab9a58c184",
    "bfc+backdraft": "85692bef8a1800ca",
    "dcqcn": "27c0b95802b9ecec",
    "dcqcn window": "d609bc928e4815c7",
    "dcqcn hyper": "7bff82eeaa43c95d",
    "dcqcn:config": "2bbf5abfc9de9b96",
    "dcqcn:ns3": "eaa1c2016e60e3f4",
    "dcqcn:ns3_paper": "dc90eb91428c9577",
    "dctcp": "99d9a3767f84e9ef",
    "dctcp:bfc": "5025ca70e8050659",
    "dctcp:bfc_slow_start": "07c3b636969760f9",
    "dctcp:floodgate": "24ea29e27e11933e",
    "dctcp:ns3": "661540a23ab696e0",
    "dctcp:slow_start": "bb14cf325bba42da",
    "dqa": "249687e2324112f9",
    "dqa unpaused": "deafd1c56ec7cb60",
    "dqa:single": "63b1c068efd086ea",
    "dqa:stochastic": "ed318d89eba34514",
    "dynamic_threshold": "018f9eb95d59e479",
    "ecn": "52c667cfe098c75d",
    "ecn:ns3": "3563093e2e184d43",
    "ets": "c4718cee7053c2f0",
    "expresspass": "4d604c587a396915",
    "expresspass lossy": "16cb9fd77dc7bab6",
    "expresspass:bfc": "87016fe9b00a90d4",
    "expresspass:code": "5e9470afa1fbbeab",
    "fifo": "45f15de814c805d3",
    "floodgate": "3180fe080d68eb5b",
    "floodgate lossy": "0c79c793b68a7dd8",
    "floodgate:ideal": "4f7e4eed73c5ce30",
    "floodgate:ns3": "07abb1f0cfabe252",
    "floodgate:ns3_ideal": "11538135ece784a1",
    "hpcc": "8e51beac832e08cf",
    "hpcc per ack": "94ff7e251460ecf6",
    "hpcc per rtt": "ba3d8a2bc0b0eb1f",
    "hpcc rx": "f670a9dbb0724b18",
    "hpcc+window_cap": "ff34b33d0cf16402",
    "hpcc+floodgate": "762484dc3832d368",
    "hpcc:bfc": "4ec044b8e7c77dd0",
    "hpcc:floodgate": "79ba49da8784b3a7",
    "hpcc:floodgate+floodgate": "01054ba1b7bd8a26",
    "hpcc:ns3": "d8fdee276f6fc8f1",
    "homa": "3833466870b4b64d",
    "homa lossy": "bba60a17cb38f3d3",
    "homa+spray": "465e2ed06418a3b5",
    "flowlet": "f89f8a66aafccd4d",
    "hpcc+flowlet": "1674343847378118",
    "ideal_fq": "3efb6a7645472f62",
    "ideal_fq 3 queues": "537c0d10f573ce6b",
    "ndp": "bd4339f36335d25d",
    "ndp lossy": "c3234264ca0e6005",
    "ndp:default": "d216b45de889926e",
    "pfc": "49ffbdd856c54b55",
    "pfc lossy": "65b366eb57709ea5",
    "pfc of the edge": "2d25024fe3e75719",
    "pfc:ns3": "018eeb36ef8d3e3a",
    "pfc priorities": "c0eebdb1c90ae8f4",
    "pfc priorities lossy": "76580b874ad6e06c",
    "hpcc priorities": "9d0fbd1e445229bf",
    "dcqcn priorities": "88a4a0bae6c7f2cf",
    "pfabric": "9c4bd51646208246",
    "pfabric lossy": "03356b3f4df00f5b",
    "pfabric:default": "2c28aa173fec8c6a",
    "pfabric:simulator": "a3091be49a9ade59",
    "phost": "131e3c31ac67bc09",
    "phost lossy": "80edb0e7ba0904dd",
    "phost:simulator": "712b26c24829cd80",
    "pias": "debddaee5d0911a9",
    "pias:data_mining": "1ba3874097ad00de",
    "pfc_tagged": "ba1cc40c740417d2",
    "pfc_tagged lossy": "1999c4c8c3df8bd6",
    "powertcp": "0c87f6fe13d0a30e",
    "powertcp equation 7": "eb5b3a66da2ed4ef",
    "powertcp lossy": "4edb0c12a8cb95d5",
    "powertcp:ns3": "4bf27ce776186fcc",
    "recovery": "b956536abef4cca1",
    "recovery:irn": "3d41f332d13282dd",
    "recovery:irn lossy": "cedaceff809c6f59",
    "recovery:perfect": "bdd1c8ee6e1d95f2",
    "recovery:perfect lossy": "ddf244a6e690681c",
    "sfq": "6a75a19f46cf20a3",
    "rtt_target": "f5be7645772811d8",
    "bfc+rtt_target": "3b690e598bed10c1",
    "srf": "587dd748b66ab837",
    "bfc+srf": "5b3efb967b9892f4",
    "ideal_fq+srf": "2c80b376e1ce0c03",
    "spray": "6b330910c7d9b6e3",
    "spray shortest": "1ab668050b14d860",
    "swift": "9e0b55a6514c50f7",
    "swift lossy": "4f9bcc05a1544da8",
    "swift of slow receivers": "4c4b6579d0fc2c28",
    "swift:htsim": "1da414c27aead90b",
    "telemetry": "fe54f48e0abd242c",
    "theta_powertcp": "90b4196ce1a8466f",
    "theta_powertcp:ns3": "577fb414ae6c68bd",
    "timely": "08110724054eb7ec",
    "timely:floodgate": "2e70e4c7516919c0",
    "timely:ns3": "11e26f24ec22a5ba",
    "timely:ns3_win": "d8e8cba03961201c",
    "window_cap": "89ec71d995ea052b",
}
TRAFFIC = {
    "poisson": lambda topo: poisson(topo, sizes="google", load=0.7, load_on="host", duration="1ms", seed=3),
    "lognormal": lambda topo: poisson(topo, sizes="facebook_hadoop", load=0.5, arrivals="lognormal", duration="5ms", seed=3),
    "incast": lambda topo: incast(topo, fan_in=5, load=0.1, duration="5ms", seed=3),
    "ring": lambda topo: ring_all_reduce(topo, bytes="300KB", chunks=2),
}
GOLDEN_TRAFFIC = {
    "poisson": "b330a30a74576dc8",
    "lognormal": "92e8a882098f5832",
    "incast": "9882aac13db8aa1d",
    "ring": "457796a93d6f43b0",
}


def network(where: str):
    table = SERVER_NETWORK if SERVERS in where else NETWORK
    more = {"loss": 0.005} if LOSSY in where else {"buffer": "150KB"} if where == "small buffers" else {}
    return build({**table, **more})


def crowd(topo):
    """Two incasts, crossing flows that last, and flows that start late; without random numbers."""
    hosts = topo.hosts
    flows = [(1 + i % (hosts - 1), 0, 2_000 + 7919 * i % 40_000, f"{313 * i % 20_000}ns") for i in range(28)]
    flows += [(i, 5, 90_000 + 1111 * i, f"{9 + i}us") for i in range(hosts) if i != 5]
    flows += [(i, (i + 4) % hosts, 600_000, f"{1300 * i}ns") for i in range(4)]
    flows += [(i, (i + 3) % hosts, 30_000 + i, f"{90 + 7 * i}us") for i in range(hosts)]
    return flow_list(topo, flows)


def prioritised(flows, count: int):
    """The flows with priorities in turn."""
    return dataclasses.replace(flows, priority=(np.arange(len(flows)) % count).astype(np.int8))


def run_of(name: str):
    scheme, parameters, where = CASES[name]
    topo = network(where)
    flows = crowd(topo)
    if PRIORITIES in where:
        flows = prioritised(flows, next(value for key, value in parameters.items() if key.endswith("priorities")))
    settings = {"host": HostConfig(rto="200us"), "max_time_ps": 2 * 10**10, "control_loss": 0.05 if LOSSY in where else 0.0}
    return simulate(topo, flows, parse(scheme, parameters), seed=1, measure=EVERYTHING, **settings)


def traffic_checksum(name: str) -> str:
    flows = TRAFFIC[name](leaf_spine(hosts=32, tors=4, spines=4))
    columns = [np.ascontiguousarray(getattr(flows, c)) for c in ("start_ps", "src", "dst", "bytes")]
    return hashlib.sha256(b"".join(c.tobytes() for c in columns)).hexdigest()[:16]


@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    """If results were meant to change, see the top of this file."""
    found = checksum(run_of(name))
    assert found == GOLDEN.get(name), f"{name}: {found}; python tests/laws/test_goldens.py prints all"


@pytest.mark.parametrize("name", TRAFFIC)
def test_golden_traffic(name):
    assert traffic_checksum(name) == GOLDEN_TRAFFIC[name]


def test_every_scheme_and_preset_has_a_golden():
    needed = set(available()) | {f"{name}:{preset}" for name, found in available().items() for preset in found.presets}
    assert needed <= set(CASES)


def test_every_case_differs_from_the_others():
    """A preset or parameter whose golden is that of another case is not exercised."""
    assert len(set(GOLDEN.values())) == len(CASES)


# ---- Why they are the same on every machine ----

# Functions of the C library whose last bit depends on the library's version or on the CPU; sqrt(), floor() and others are exact.
INEXACT = {"acos", "asin", "atan", "atan2", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp10", "exp2", "expm1", "hypot"}
INEXACT |= {"lgamma", "log", "log10", "log1p", "log2", "pow", "sin", "sinh", "tan", "tanh", "tgamma"}
# Fused multiply-add (vfmadd231sd, vfnmsub..., vfmaddsd) and arithmetic of the x87, which has 80 bits.
NOT_DOUBLE = re.compile(r"\t(vfn?m(add|sub)\w*|f(ild|ld|mul|div|add|sub|sqrt)\w*) ")


def test_the_core_has_no_arithmetic_that_depends_on_the_machine():
    package = Path(penstock.__file__).parent
    core = [path for folder in ("fabric", "schemes", "sim/core") for path in sorted((package / folder).glob("*.so"))]
    assert len(core) >= len(available())
    for path in core:
        symbols = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True).stdout
        used = set(re.findall(r" U (\w+)", symbols))
        assert "PyErr_Occurred" in used and not used & {f + suffix for f in INEXACT for suffix in ("", "f", "l")}, path
        code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
        assert "\tret" in code and not (found := NOT_DOUBLE.search(code)), f"{path}: {found}"


def test_the_same_on_an_older_cpu():
    """Libraries choose their functions by the CPU's features; with these disabled, they give the same goldens."""
    environment = {
        **os.environ,
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX2,-FMA,-FMA4,-AVX",
        "NPY_DISABLE_CPU_FEATURES": " ".join(np.show_config(mode="dicts")["SIMD Extensions"]["found"]),
    }
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {"GOLDEN": GOLDEN, "GOLDEN_TRAFFIC": GOLDEN_TRAFFIC}


if __name__ == "__main__":
    found = {"GOLDEN": {k: checksum(run_of(k)) for k in CASES}, "GOLDEN_TRAFFIC": {k: traffic_checksum(k) for k in TRAFFIC}}
    print(json.dumps(found, indent=4))
