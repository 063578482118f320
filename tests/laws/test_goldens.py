"""Golden checksums: every scheme, with each of its presets, gives the same bits on any x86-64 machine.

Why they are equal: the core adds, subtracts, multiplies, divides and truncates, which IEEE 754 defines to the last bit.
It calls no function of a math library and has no fused multiply-add (-ffp-contract=off), and no option of the compiler lets it
depend on the CPU that it was compiled on.  Random numbers of the core are hashes, that is, integers.  The tests below check
the compiled files for that, and compute all goldens again in a process whose libraries are set to assume an older CPU.

Traffic: exp(), which numpy calls for lognormal gaps, does differ in its last bit between CPUs.  Gaps are therefore rounded to
1/16 ps.  A difference shows only if it lies across a boundary of that: with 4e-15 of a gap between two machines, which
is more than was seen, that is to be expected less than once in 15 s of simulated arrivals.

After a change that is meant to change results, print the new checksums with

    PYTHONPATH=tests python tests/laws/test_goldens.py
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
from networks import available, flow_list, hosts_under, simulate
from test_same_bits import EVERYTHING, checksum

import penstock_net
from penstock_net.composition import parse
from penstock_net.topology import build, leaf_spine
from penstock_net.workload import incast, poisson
from penstock_net.workload.collectives import ring_all_reduce

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
MARKED = {"k_min": "5KB", "k_max": "60KB"}
MARKS = {"ecn.k_min": "5KB", "ecn.k_max": "60KB"}
DUE = {"host.pacing": "from due time"}  # as NICs do; the presets of these schemes say otherwise
QUICK = {"decrease_interval": "10us", "increase_interval": "2us"}
NEAR = {"base_target": "6us", "fs_range": "8us"}
TIGHT = {"floodgate.m": 0.2, "floodgate.t": "1us", "floodgate.thre_credit": 0.3, "floodgate.syn_timeout": "50us"}
ROOTS = {"th_congestion": 0.4, "th_resume": 0.2}
LOSSY = "lossy"  # 0.5 % of all frames are lost, and 5 % of the control frames beside
SERVERS = "servers"
PRIORITIES = "priorities"  # flows have the priorities of the scheme in turn
DRAGONFLY, TORUS = "dragonfly", "torus"
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
    "bfc:early": ("bfc:early", {"queues": 6}, ""),
    "bfc:penstock": ("bfc:penstock", {}, ""),
    "bfc_tofino2 early": ("bfc_tofino2", {"queues": 4, "resume_at": 1.0}, ""),
    "bfc:pyrrha_ns3": ("bfc:pyrrha_ns3", {}, ""),
    "bfc:pyrrha_ns3_kept": ("bfc:pyrrha_ns3_kept", {}, ""),
    **{f"bfc {name}": ("bfc", {"queues": 4, "assignment": name}, "") for name in ASSIGNMENTS},
    "bfc+backdraft": ("bfc+backdraft", {"th_over": "10KB", "edge_th_bytes": "200KB"}, SERVERS),
    "bolt": ("bolt", {}, ""),
    "bolt lossy": ("bolt", {"pfc": False, "sm_max": "5KB", "pru_max": 20}, LOSSY),
    "bolt:ns3": ("bolt:ns3", {"cc_threshold": "9KB"}, ""),
    "cbfc": ("cbfc", {"limit": 40}, ""),
    "cbfc lossy": ("cbfc", {"cc_timer": "20us"}, LOSSY),
    "cbfc channels": ("cbfc", {"vcs": 3, "limit": 20, "pool": 60, "sharing": "dynamic", "pool_share": -1}, PRIORITIES),
    "dcqcn+cbfc": ("dcqcn+cbfc", MARKS, ""),
    "dcqcn": ("dcqcn", MARKS, ""),
    "dcqcn:default": ("dcqcn:default", {**MARKS, **DUE}, ""),
    "dcqcn window": ("dcqcn", {**MARKS, "window": True, "increase_interval": "5us", "fast_recovery": 2, "g": 0.1}, ""),
    "dcqcn hyper": ("dcqcn", {**MARKS, **QUICK, "fast_recovery": 1, "r_ai": "300Mbps", "r_hai": "2Gbps"}, ""),
    "dcqcn:bfc": ("dcqcn:bfc", {**MARKS, **DUE}, ""),
    "dcqcn:cnp": ("dcqcn:cnp", {**MARKS, **QUICK, "cnp_interval": "3us", "cnp_delay": "1us"}, ""),
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
    "hpcc:default": ("hpcc:default", DUE, ""),
    "hpcc per ack": ("hpcc", {"reaction": "per_ack"}, ""),
    "hpcc per rtt": ("hpcc", {"reaction": "per_rtt"}, ""),
    "hpcc rx": ("hpcc", {"rate": "rx"}, ""),
    "hpcc+window_cap": ("hpcc+window_cap", {"cap": "20KB"}, ""),
    "hpcc+floodgate": ("hpcc+floodgate", TIGHT, ""),
    "hpcc:bfc": ("hpcc:bfc", {}, ""),
    "hpcc:floodgate": ("hpcc:floodgate", {}, ""),
    "hpcc:floodgate+floodgate": ("hpcc:floodgate+floodgate", TIGHT, ""),
    "hpcc:ns3": ("hpcc:ns3", {}, ""),
    "fncc": ("fncc", {}, ""),
    "fncc:default": ("fncc:default", DUE, ""),
    "fncc table": ("fncc", {"table_period": "1us", "alpha": 0.9}, ""),
    "fncc lossy": ("fncc", {"pfc": False, "max_stage": 1}, LOSSY),
    "ideal_fq": ("ideal_fq", {}, ""),
    "homa": ("homa", {"rtt_bytes": "20KB", "cutoffs": "2KB, 9KB, 20KB", "resend": "50us"}, ""),
    "homa lossy": ("homa", {"rtt_bytes": "20KB", "k": 1, "resend": "50us"}, LOSSY),
    "homa+spray": ("homa+spray", {}, ""),
    "dcpim": ("dcpim", {"window": 20}, ""),
    "dcpim lossy": ("dcpim", {"window": 20, "r": 2, "k": 2}, LOSSY),
    "dcpim:default": ("dcpim:default", {}, ""),
    "dcpim:simulator": ("dcpim:simulator", {}, ""),
    "dcpim+spray": ("dcpim+spray", {"at_once": 5}, ""),
    "sird": ("sird", {"bdp": "20KB", "resend": "50us"}, ""),
    "sird lossy": ("sird", {"bdp": "20KB", "unsch": 0.2, "resend": "50us"}, LOSSY),
    "sird:simulator": ("sird:simulator", {}, ""),
    "sird+spray": ("sird+spray", {}, ""),
    "valiant": ("valiant+pfc", {"pfc.priorities": 3}, DRAGONFLY),
    "valiant:ugal": ("valiant:ugal+pfc", {"pfc.priorities": 3}, DRAGONFLY),
    "valiant:minimal": ("valiant:minimal+pfc", {"pfc.priorities": 3}, DRAGONFLY),
    "dimension_order": ("dimension_order+pfc", {"pfc.priorities": 2}, TORUS),
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
    "pfabric stamps": ("pfabric", {"window": "10KB", "largest": "16KB", "stamp": "queue", "capacity": "20KB"}, ""),
    "pfabric missing": ("pfabric", {"window": "10KB", "again": "missing", "capacity": "20KB"}, LOSSY),
    "pfabric:default": ("pfabric:default", {}, ""),
    "pfabric:simulator": ("pfabric:simulator", {}, ""),
    "phost": ("phost", {"free": 20, "capacity": "30KB"}, ""),
    "phost lossy": ("phost", {"free": 10, "free_for": "short"}, LOSSY),
    "phost:default": ("phost:default", {}, ""),
    "phost:script": ("phost:script", {}, ""),
    "phost:simulator": ("phost:simulator", {}, ""),
    "pias": ("pias", {"thresholds": ["5KB", "20KB", "90KB"], "k": "20KB"}, ""),
    "pias:data_mining": ("pias:data_mining", {"k": "10KB"}, ""),
    "pfc_tagged": ("pfc_tagged", {"xoff": "20KB", "xon": "10KB"}, ""),
    "pfc_tagged lossy": ("pfc_tagged", {"xoff": "20KB", "xon": "10KB", "host_pause": True, "voqs": 2}, LOSSY),
    "powertcp": ("powertcp", {}, ""),
    "powertcp:default": ("powertcp:default", DUE, ""),
    "powertcp equation 7": ("powertcp", {"average": "cwnd"}, ""),
    "powertcp lossy": ("powertcp", {"r_ai": "1Gbps"}, LOSSY),
    "powertcp:ns3": ("powertcp:ns3", {}, ""),
    "recovery": ("fifo+recovery", {}, LOSSY),
    "recovery:irn": ("dcqcn+recovery:irn", {**MARKS, "pfc": False}, "small buffers"),
    "recovery:irn lossy": ("recovery:irn", {"cap": "20KB"}, LOSSY),
    "pyrrha": ("pyrrha", ROOTS, ""),
    "pyrrha:ns3": ("pyrrha:ns3", ROOTS, ""),
    "pyrrha nearest": ("pyrrha", {**ROOTS, "nearest": True}, ""),
    "pyrrha lossy": ("pyrrha", {**ROOTS, "refresh": "10us"}, LOSSY),
    "dcqcn+pyrrha": ("dcqcn+pyrrha", {**MARKS, "pfc": False, **{f"pyrrha.{k}": v for k, v in ROOTS.items()}}, ""),
    "recovery:perfect": ("hpcc+recovery:perfect", {"pfc": False}, "small buffers"),
    "recovery:perfect lossy": ("spray+recovery:perfect", {}, LOSSY),
    "recovery:bfc": ("hpcc+recovery:bfc", {"pfc": False}, "small buffers"),
    "recovery:sack": ("dctcp+reps+recovery:sack", {**MARKS, "pfc": False}, "small buffers"),
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
    "theta_powertcp least RTT": ("theta_powertcp", {"observe": True}, ""),
    "theta_powertcp:default": ("theta_powertcp:default", DUE, ""),
    "theta_powertcp:ns3": ("theta_powertcp:ns3", {}, ""),
    "timely": ("timely", {"t_low": "6us", "min_rtt": "5us", "t_high": "60us"}, ""),
    "timely:default": ("timely:default", {"t_low": "6us", "min_rtt": "5us", "t_high": "60us", **DUE}, ""),
    "timely:floodgate": ("timely:floodgate", {"t_low": "6us", "min_rtt": "5us", "t_high": "60us"}, ""),
    "timely:ns3": ("timely:ns3", {"t_low": "8us", "min_rtt": "5us", "t_high": "60us"}, ""),
    "timely:ns3_win": ("timely:ns3_win", {"t_low": "8us", "min_rtt": "5us", "t_high": "60us"}, ""),
    "window_cap": ("fifo+window_cap", {"cap": "30KB"}, ""),
    "entropy": ("window_cap+entropy", {"cap": "25KB"}, ""),
    "mixed": ("ecn+mixed", MARKED, ""),
    "mixed lossy": ("ecn+mixed", MARKED, LOSSY),
    "mixed:bitmap": ("ecn+mixed:bitmap", MARKED, ""),
    "oblivious": ("oblivious", {}, ""),
    "reps": ("ecn+reps", MARKED, ""),
    "reps lossy": ("ecn+reps", {**MARKED, "freeze": "300us"}, LOSSY),
    "plb": ("dctcp+plb", {**MARKS, "plb.rounds": 2, "plb.idle_rounds": 1}, ""),
    "plb lossy": ("ecn+plb", {**MARKED, "plb.threshold": 0.2, "plb.rounds": 3, "plb.suspend": "30us"}, LOSSY),
    "conweave": ("dcqcn+conweave", {"conweave.reply": "500ns", "idle": "20us", "ecn.k_min": "5KB"}, ""),
    "conweave:fat_tree": ("ecn+conweave:fat_tree", {"ecn.k_min": "5KB"}, ""),
    "conweave lossy": ("conweave", {"reply": "200ns", "extra": "2us", "entries": 10, "voqs": 3}, LOSSY),
    "least_queue": ("least_queue", {}, ""),
    "least_queue grades": ("pfc+least_queue", {"pfc.alpha": 0.05, "grades": ["2KB", "9KB", "30KB"]}, ""),
    "least_queue flowlets": ("bfc+least_queue", {"queues": 4, "least_queue.gap": "2us", "least_queue.entries": 20}, ""),
    "least_queue priorities": ("pfc+least_queue", {"pfc.alpha": 0.05, "priorities": 3, "lossless": [0, 2]}, PRIORITIES),
    "bfc+reps": ("bfc+reps", {"queues": 4}, ""),
    "ndp+reps": ("ndp+reps", {"iw": 20}, ""),
    "trim": ("uec", {"trim.depth": 10, "trim.unmarked": 2, "trim.marked": 5}, ""),
    "uec": ("uec+oblivious", {}, ""),
    "uec lossy": ("uec+mixed", {"trim.depth": 8}, LOSSY),
    "uec:default": ("uec:default", {}, ""),
    "uec:nscc": ("uec:nscc+reps", {"trim.depth": 20}, ""),
    "uec:nscc_htsim": ("uec:nscc_htsim", {"target": "1us", "trim.depth": 30}, ""),
    "uec:rccc": ("uec:rccc+mixed", {"trim.depth": 10}, ""),
    "uec:rccc lossy": ("uec:rccc+reps", {"trim.depth": 8}, LOSSY),
    "uec:rccc_htsim": ("uec:rccc_htsim", {"trim.depth": 12}, ""),
    "uec:both": ("uec:both+reps", {"trim.depth": 10}, ""),
    "uec:both_htsim": ("uec:both_htsim", {"trim.depth": 12}, ""),
    "mrc": ("mrc", {"trim.depth": 10, "values": 32}, ""),
    "mrc lossy": ("mrc", {"trim.depth": 10, "values": 32, "probe": "20us", "bound": "10us"}, LOSSY),
    "mrc:default": ("mrc:default", {}, ""),
    "reorder": ("uec+mixed+reorder", {"trim.depth": 8, "ack_bytes": 1, "back": True}, LOSSY),
    "uec_receiver": ("uec:both+mixed", {"trim.depth": 14, "ack_bytes": "6KB"}, ""),
}
GOLDEN = {
    "backdraft": "547245dca3eadd3a",
    "backdraft lossy": "12efd10c862587bb",
    "backdraft without rate": "7b4b5541d5dcdfdf",
    "backdraft:default": "1d5fff9385f3a21b",
    "bfc": "06bdcf2d23946d5d",
    "bfc 4 queues": "5420d4176901fd28",
    "bfc lossy": "4cda12cfc59cf41c",
    "bfc classes": "4c62ce2b74b594b6",
    "bfc_tofino2": "0f14124579c69525",
    "bfc_tofino2:ideal": "6feb9ec017b2604e",
    "bfc_tofino2 sampled": "e41a62d81e4f5345",
    "bfc nics": "dfdec260bc54964d",
    "bfc plain": "f1aa7bc61b1085f3",
    "bfc:unpaused": "b0ed4ed2a3444b8b",
    "bfc:early": "d2ac061087d3e109",
    "bfc:penstock": "c2cd699b035402b1",
    "bfc_tofino2 early": "a5be4d30ee3622f5",
    "bfc:pyrrha_ns3": "ade10129fbab0b9d",
    "bfc:pyrrha_ns3_kept": "6f30a66c975cc58e",
    "bfc literal": "2ac5161b633de716",
    "bfc rotating": "a401952660ca17f4",
    "bfc rotating_unpaused": "a1aaad3c688081fd",
    "bfc shortest": "b78f37620f854435",
    "bfc joined": "07efc97aa8c4b4cd",
    "bfc penstock": "64cf17cb8b5536f8",
    "bfc two_choices": "306ef8b281912dae",
    "bfc stochastic": "91be4ef4edf84274",
    "bfc single": "a6024709d2953b07",
    "bfc+backdraft": "9b63ccab2f50ddbd",
    "bolt": "f1751b949d610d80",
    "bolt lossy": "f44afb43d16f71fb",
    "bolt:ns3": "8a78fb43c78d6991",
    "cbfc": "8cbc28ef5262c0bf",
    "cbfc lossy": "ce8cc273607818f0",
    "cbfc channels": "57098e9e6d03f33d",
    "dcqcn+cbfc": "0e05f47886eee2e6",
    "dcqcn": "62ad698e3cf392f5",
    "dcqcn:default": "bd1a2e01f6421313",
    "dcqcn window": "9514cfd07f8c1e2e",
    "dcqcn hyper": "d5f4bd5a79fedf4b",
    "dcqcn:bfc": "27ea90a1c6412c61",
    "dcqcn:cnp": "0df2b82b17ae323b",
    "dcqcn:config": "5f146586d2e45625",
    "dcqcn:ns3": "07c1a8d631277134",
    "dcqcn:ns3_paper": "3e75327188c9cc5e",
    "dctcp": "47db40553abbf898",
    "dctcp:bfc": "33e3fb51829072a6",
    "dctcp:bfc_slow_start": "90906c7067b91710",
    "dctcp:floodgate": "651d4e349e3e0430",
    "dctcp:ns3": "a2b4bcc54869a076",
    "dctcp:slow_start": "350f9dc11f93b033",
    "dqa": "8710a649ef5d3c2d",
    "dqa unpaused": "11a6d13433bf8870",
    "dqa:single": "abeb76b5ef4948c9",
    "dqa:stochastic": "ed318d89eba34514",
    "dynamic_threshold": "e30b2cf129e91a8f",
    "ecn": "a4be0502bfc1d725",
    "ecn:ns3": "9b2091d7e44a5b62",
    "ets": "59a7b9ecc0df0b3b",
    "expresspass": "a27a1d194fce706b",
    "expresspass lossy": "8f3506266d384781",
    "expresspass:bfc": "dad78b5bbd42ef19",
    "expresspass:code": "8f5498737658a16e",
    "fifo": "b9f9d120c3613c00",
    "floodgate": "95e611584655c455",
    "floodgate lossy": "886d2915d8f99257",
    "floodgate:ideal": "46e3b9a866916c8b",
    "floodgate:ns3": "f79c382f6a379e66",
    "floodgate:ns3_ideal": "5410a0583ff00330",
    "hpcc": "07ac4e90d8cda45b",
    "hpcc:default": "15241ea0725dd1f4",
    "hpcc per ack": "b2d42fbab7bfed78",
    "hpcc per rtt": "a57c8540361c2e00",
    "hpcc rx": "9105a974fcdf0c31",
    "hpcc+window_cap": "bb6e2136b8bd86af",
    "hpcc+floodgate": "cabb7658ed966702",
    "hpcc:bfc": "cec8423518d2f07f",
    "hpcc:floodgate": "b026f9559640eecd",
    "hpcc:floodgate+floodgate": "194c998323091ca4",
    "hpcc:ns3": "da0b0720b82348bb",
    "homa": "3c0ca663a5059abd",
    "homa lossy": "c2ddd9d38d1c20ef",
    "homa+spray": "aca6810a5dce1e87",
    "dcpim": "3a0eebe33aba172c",
    "dcpim lossy": "c6a2fdbbfe2fa776",
    "dcpim:default": "1375b08e7948af41",
    "dcpim:simulator": "ddda153e2a79348e",
    "dcpim+spray": "490a7d38956e534c",
    "sird": "a19474dee261f410",
    "sird lossy": "ff7f63053aa6b5f8",
    "sird:simulator": "9d5191bc6d10438e",
    "sird+spray": "92d6e3ef96f7381f",
    "valiant": "cf7509b0ee3765a2",
    "valiant:ugal": "8ba325301ec07dde",
    "valiant:minimal": "7aca42decc9021e3",
    "dimension_order": "0a4bb2f1d19229ef",
    "flowlet": "c614ee2db0f41c71",
    "hpcc+flowlet": "dbd99e80277ec025",
    "fncc": "4dc4550dec4399ed",
    "fncc:default": "f696430313430c88",
    "fncc table": "be693d6e0d878515",
    "fncc lossy": "7a27e56a08f2d738",
    "ideal_fq": "cea5570546ec7272",
    "ideal_fq 3 queues": "dc31fc878324747c",
    "ndp": "ecf66539f0edfd63",
    "ndp lossy": "72cae41920a17a99",
    "ndp:default": "715463ba804dbd75",
    "pfc": "8bf7b35e32d33a75",
    "pfc lossy": "b39fc6cc9e1a8c1d",
    "pfc of the edge": "819b315f6deb7be6",
    "pfc:ns3": "1c364414a1b8e34e",
    "pfc priorities": "f750544bc1e8d4a8",
    "pfc priorities lossy": "846d1cce66f9e782",
    "hpcc priorities": "15d4a6904313c4a5",
    "dcqcn priorities": "e62b290a470060de",
    "pfabric": "6f1ed39574f2f092",
    "pfabric lossy": "82a48c5c0b8d93a2",
    "pfabric stamps": "94541f2c3083622f",
    "pfabric missing": "e443171e6a97f56b",
    "pfabric:default": "a7f3956153c88656",
    "pfabric:simulator": "da614577b75d0780",
    "phost": "507690bcfd301db0",
    "phost lossy": "07f4af3a7c087f23",
    "phost:default": "5c78f38718941da2",
    "phost:script": "558c9049a9f4f925",
    "phost:simulator": "323c8be79454bad1",
    "pias": "e2fdb599deaccedc",
    "pias:data_mining": "a1039789f486028d",
    "pfc_tagged": "e35c9ae961d96588",
    "pfc_tagged lossy": "d69d53a4a55593eb",
    "powertcp": "3ef914a49b49b654",
    "powertcp:default": "96fd98ea658c4923",
    "powertcp equation 7": "8d7fa134c0002a26",
    "powertcp lossy": "68765e087898387d",
    "powertcp:ns3": "ffd58d72cf3fe3f3",
    "recovery": "df989a970d264a33",
    "recovery:irn": "d90fb3152c2b1c08",
    "recovery:irn lossy": "cb857258327449da",
    "recovery:perfect": "de2c2f9a6f9129f3",
    "recovery:perfect lossy": "6fc20edc7b644cb4",
    "recovery:bfc": "62e2cfae7f1415d6",
    "sfq": "751ca18077535375",
    "rtt_target": "910679426dbf390d",
    "bfc+rtt_target": "654d7396ec451e95",
    "srf": "4c7288166eab2f6b",
    "bfc+srf": "d592ea4d1fd6b70d",
    "ideal_fq+srf": "e8fa0af994f21cb9",
    "spray": "47307e194e7ff8de",
    "spray shortest": "9e15d8afba08f7b3",
    "swift": "fc9c900b31ec9db8",
    "swift lossy": "bc393319caba41bf",
    "swift of slow receivers": "a00d79462b4b2924",
    "swift:htsim": "1594a449f7362ed5",
    "telemetry": "9f16e98c26ff3593",
    "theta_powertcp": "f6228dd26807c568",
    "theta_powertcp least RTT": "444a5a89bd0563e0",
    "theta_powertcp:default": "1e25b463d400d029",
    "theta_powertcp:ns3": "d5e5d016af366b60",
    "timely": "c9f9f2fbeee6ce44",
    "timely:default": "9b3edca7384d4c3e",
    "timely:floodgate": "3b3db39ce8804558",
    "timely:ns3": "2c72e8c9264a2e16",
    "timely:ns3_win": "b7b75b63df2af946",
    "window_cap": "414b8cabf19ca3bc",
    "trim": "0c12d478e4150385",
    "uec": "e581cd6b55dc4547",
    "uec lossy": "250aed36fe57886d",
    "uec:default": "31f4e9898e9cc827",
    "uec:nscc": "4087c98be8d6aa63",
    "uec:nscc_htsim": "cd06611de9acfb2e",
    "uec:rccc": "993e44f311b90edc",
    "uec:rccc lossy": "907871afa85e50e9",
    "uec:rccc_htsim": "e784ce0a36c90978",
    "uec:both": "babbaca5b9792638",
    "uec:both_htsim": "d91e13823c0ce4a2",
    "mrc": "ee0d87c86d5fa493",
    "mrc lossy": "daa587ae6b09c2d5",
    "mrc:default": "b5298980fd08f58f",
    "reorder": "e02ed57dbe8e7d42",
    "uec_receiver": "b6725355c0267c84",
    "entropy": "373d78b359e4ad44",
    "mixed": "17c4c2e08978b008",
    "mixed lossy": "42e7bef29519dd48",
    "mixed:bitmap": "4ea67a5469755b37",
    "oblivious": "e68fc4899a8a5caf",
    "reps": "4abada0a839fab8b",
    "reps lossy": "b465ffaaa3bf743d",
    "bfc+reps": "23482825ecfaabfa",
    "recovery:sack": "4bd62ef1dc600a3a",
    "plb": "931e3fa2039bad1c",
    "plb lossy": "bab8d9d9659e9299",
    "conweave": "b5b37051a4845205",
    "conweave:fat_tree": "7789df45577faf4f",
    "conweave lossy": "a4f4db7ffa8970c3",
    "least_queue": "ed7cc65debe55b39",
    "least_queue grades": "f4339f5879b3de07",
    "least_queue flowlets": "96d3d41030e6ac21",
    "least_queue priorities": "2ab1eebb7a8b7cc4",
    "ndp+reps": "a14ce11763b30ea3",
    "pyrrha": "44dd38ad637b57ad",
    "pyrrha:ns3": "c0ca178b36a6a697",
    "pyrrha nearest": "ec263e223d44e170",
    "pyrrha lossy": "46cdff3859064402",
    "dcqcn+pyrrha": "472ad5e55bf2ef1e",
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
    if where in (DRAGONFLY, TORUS):
        return build({"kind": where, **({"p": 2, "a": 2, "h": 1} if where == DRAGONFLY else {"dims": [3, 4]}), "buffer": "1MB"})
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
        flows = prioritised(flows, next(value for key, value in parameters.items() if key.endswith(("priorities", "vcs"))))
    settings = {
        "host": hosts_under(scheme, rto="200us"),
        "max_time_ps": 2 * 10**10,
        "control_loss": 0.05 if LOSSY in where else 0.0,
    }
    return simulate(topo, flows, parse(scheme, parameters), seed=1, measure=EVERYTHING, **settings)


def traffic_checksum(name: str) -> str:
    flows = TRAFFIC[name](leaf_spine(hosts=32, tors=4, spines=4))
    columns = [np.ascontiguousarray(getattr(flows, c)) for c in ("start_ps", "src", "dst", "bytes")]
    return hashlib.sha256(b"".join(c.tobytes() for c in columns)).hexdigest()[:16]


@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    """If results were meant to change, see the top of this file."""
    found = checksum(run_of(name))
    assert found == GOLDEN.get(name), f"{name}: {found}; PYTHONPATH=tests python tests/laws/test_goldens.py prints all"


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
    package = Path(penstock_net.__file__).parent
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
        "PYTHONPATH": os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")))),
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX2,-FMA,-FMA4,-AVX",
        "NPY_DISABLE_CPU_FEATURES": " ".join(np.show_config(mode="dicts")["SIMD Extensions"]["found"]),
    }
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {"GOLDEN": GOLDEN, "GOLDEN_TRAFFIC": GOLDEN_TRAFFIC}


if __name__ == "__main__":
    found = {"GOLDEN": {k: checksum(run_of(k)) for k in CASES}, "GOLDEN_TRAFFIC": {k: traffic_checksum(k) for k in TRAFFIC}}
    print(json.dumps(found, indent=4))
