"""Stages before a run: networks, traffic, files of other programs, what `explain` says of a network."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from growth import Stage, Work, made_file
from unit.test_traces import chakra_files, node

import penstock_net as ps
from penstock_net.report.headroom import lines
from penstock_net.sim.settings import Settings
from penstock_net.topology import Topology, make_links
from penstock_net.topology.backpressure import Backpressure, over_time
from penstock_net.workload import SizeDistribution, build, flows_from_csv, flows_from_parquet, flows_to_csv, flows_to_parquet
from penstock_net.workload.algorithms import ALGORITHMS, IN_NETWORK
from penstock_net.workload.flows import Flows
from penstock_net.workload.traces import convert
from penstock_net.workload.traces.dag import Trace
from penstock_net.workload.traces.order import take_turns

# ---- Networks ----


def leaf_spine(tors: int) -> Topology:
    return ps.leaf_spine(hosts=8 * tors, tors=tors, spines=4)


def used(topo: Topology) -> Topology:
    """What every run asks of a network."""
    topo.routes(), topo.base_rtt_ps(), topo.key(), topo.describe()
    return topo


def with_changes(count: int) -> Work:
    topo = leaf_spine(8)
    changes = [{"time": f"{i + 1}us", "a": f"tor{i % 8}", "b": "spine1", "up": i // 8 % 2 == 1} for i in range(count)]
    return lambda: topo.with_changes(changes)


def with_receivers(hosts: int) -> Work:
    topo = ps.star(hosts=hosts)
    tables = [{"host": host, "rate": "10Gbps"} for host in range(hosts)]
    return lambda: ps.with_receivers(topo, tables)


def edge_list(hosts: int) -> Work:
    path = made_file(f"{hosts}.edges", "".join(f"h{i} s 100Gbps 1us\n" for i in range(hosts)))
    return lambda: ps.from_file(path)


def graphml(hosts: int) -> Work:
    nodes = "".join(f'<node id="h{i}"/>\n' for i in range(hosts)) + '<node id="s"/>\n'
    edges = "".join(f'<edge source="h{i}" target="s"/>\n' for i in range(hosts))
    head = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">\n'
    path = made_file(f"{hosts}.graphml", f"{head}{nodes}{edges}</graph></graphml>\n")
    return lambda: ps.from_file(path, rate="100Gbps", delay="1us")


def hpcc_star(hosts: int) -> str:
    links = "".join(f"{i} {hosts} 100Gbps 1us 0\n" for i in range(hosts))
    return made_file(f"{hosts}.txt", f"{hosts + 1} 1 {hosts}\n{hosts}\n{links}")


def hpcc_topology(hosts: int) -> Work:
    path = hpcc_star(hosts)
    return lambda: ps.from_file(path)


def htsim_topology(hosts: int) -> Work:
    tiers = (
        f"Tier 0\nDownlink_speed_Gbps 100\nRadix_Down 4\nRadix_Up 4\nDownlink_Latency_ns 1000\nTier 1\nRadix_Down {hosts // 4}\n"
    )
    text = f"Nodes {hosts}\nTiers 2\nPodsize {hosts}\n{tiers}Downlink_speed_Gbps 100\nDownlink_Latency_ns 1000\n"
    path = made_file(f"{hosts}.topo", text)
    return lambda: ps.from_file(path)


def ring_with_chords(switches: int, slow: int = 0) -> Topology:
    """A network without structure: two hosts at each switch of a ring, and links across it at random, `slow` of them slower."""
    hosts, draw = 2 * switches, np.random.default_rng(1)
    near, far = np.arange(switches), draw.permutation(switches)
    pairs = {(min(a, b), max(a, b)) for a, b in [*zip(near, np.roll(near, 1)), *zip(near, far), *zip(far, np.roll(far, 1))]}
    a, b = np.array(sorted(pair for pair in pairs if pair[0] != pair[1])).T
    rates = np.where(np.arange(hosts + len(a)) >= hosts + len(a) - slow, 160, 80)
    return Topology(
        kind="file",
        hosts=hosts,
        switches=switches,
        links=make_links(np.append(np.arange(hosts), a + hosts), np.append(np.arange(hosts) // 2, b) + hosts, rates, 10**6),
        buffer_bytes=np.full(switches, 10**7),
        names=tuple(map(str, range(hosts + switches))),
        tier=np.repeat([0, 1], [hosts, switches]),
        params={},
    )


def routes(switches: int) -> Work:
    return lambda: ring_with_chords(switches).routes()


def ideal_times(flows: int) -> Work:
    topo, number = ring_with_chords(40), np.arange(flows)
    topo.ideal_fct_ps(0, 0, 79, 1000, 1)
    return lambda: topo.ideal_fct_ps(number, number % 79, 79, 1000, 1)


def ideal_times_of_paths(switches: int) -> Work:
    """Of a flow from each host, where links differ."""
    topo = ring_with_chords(switches, slow=3)
    src = np.arange(topo.hosts)
    topo.routes()
    return lambda: topo.ideal_fct_ps(src, src, src[::-1], 1000, 1)


def offered_load(switches: int) -> Work:
    topo = ring_with_chords(switches)
    hosts = np.arange(topo.hosts)
    return lambda: topo.offered_loads(hosts, hosts[::-1], np.full(topo.hosts, 1000), 10**9)


def load_of_flows(flows: int) -> Work:
    topo, src = ring_with_chords(20), np.arange(flows) % 20
    return lambda: topo.offered_loads(src, src + 20, np.full(flows, 1000), 10**9)


def first_failure(switches: int) -> Work:
    topo = ring_with_chords(switches)
    topo.routes()
    return lambda: topo.routes(frozenset({2 * switches}))


def base_rtt(switches: int) -> Work:
    return ring_with_chords(switches).base_rtt_ps


def backpressure(switches: int) -> Work:
    topo = ring_with_chords(switches)
    return lambda: Backpressure.of(topo)


def symmetric(tors: int) -> Work:
    topo = ps.leaf_spine(hosts=tors, tors=tors, spines=4)
    return lambda: Backpressure.of(topo, symmetric=True)


def cycles_of_symmetric(tors: int) -> Work:
    graph = Backpressure.of(leaf_spine(tors), symmetric=True)
    return lambda: (graph.edges, graph.cycles)


def cycles(switches: int) -> Work:
    """A ring, whose egresses are one cycle."""
    hosts, ring = np.arange(switches), np.arange(switches) + switches
    links = make_links(np.append(hosts, ring), np.append(ring, np.roll(ring, 1)), 80, 10**6)
    names = tuple(map(str, range(2 * switches)))
    topo = Topology(
        kind="file",
        hosts=switches,
        switches=switches,
        links=links,
        buffer_bytes=np.zeros(switches),
        names=names,
        tier=np.repeat([0, 1], [switches, switches]),
        params={},
    )
    graph = Backpressure.of(topo)
    return lambda: (graph.cycles, graph.without_elided())


def graphs_over_time(changes: int) -> Work:
    topo = leaf_spine(4)
    states = [{"time": f"{i + 1}us", "a": "tor0", "b": "spine1", "up": i % 2 == 1} for i in range(changes)]
    topo = topo.with_changes(states)
    return lambda: over_time(topo)


def headroom(tors: int) -> Work:
    topo = leaf_spine(tors)
    return lambda: list(lines(Settings(topo, Flows.none(), ps.scheme("pfc"))))


# ---- Traffic ----

SIZES = SizeDistribution.load("google")


def flows_by_name(hosts: int) -> Work:
    topo = ps.star(hosts=hosts)
    return lambda: ps.flow_list(topo, [(topo.names[i], topo.names[(i + 1) % hosts], 1000) for i in range(hosts)])


def chain(flows: int) -> list[dict[str, Any]]:
    return [
        {"src": i % 4, "dst": (i + 1) % 4, "bytes": 1000, "after": [i - 1] * (i > 0), "class": f"c{i % 100}"}
        for i in range(flows)
    ]


def chain_by_list(flows: int) -> Work:
    topo, listed = ps.star(hosts=4), chain(flows)
    return lambda: ps.flow_list(topo, listed)


def csv_by_name(hosts: int) -> Work:
    topo = ps.star(hosts=hosts)
    listed = "".join(f"{topo.names[i]},{topo.names[(i + 1) % hosts]},1000,{i}\n" for i in range(hosts))
    path = made_file(f"{hosts}.csv", "src,dst,bytes,start_ns\n" + listed)
    return lambda: flows_from_csv(path, topo)


def csv_of_chains(flows: int) -> Work:
    """Flows that wait for those after them in the file."""
    topo = ps.star(hosts=4)
    listed = "".join(f"f{i},0,1,1000,0,f{i + 1}\n" for i in range(flows)) + f"f{flows},0,1,1000,0,\n"
    path = made_file(f"{flows}.chain.csv", "id,src,dst,bytes,start_ns,after\n" + listed)
    return lambda: flows_from_csv(path, topo)


def flow_files(flows: int) -> Work:
    """Written and read, with operations."""
    topo = ps.star(hosts=8)
    made = ps.training(topo, iterations=flows // 100, layers=2)

    def work() -> None:
        flows_to_parquet(made, f"{flows}.parquet")
        flows_from_parquet(f"{flows}.parquet", topo)
        flows_to_csv(made, f"{flows}.csv")

    return work


def hpcc_flows(hosts: int) -> Work:
    topo = ps.from_file(hpcc_star(hosts))
    listed = "".join(f"{i} {(i + 1) % hosts} 3 100 {1000 + i} 2.0000{i:04}\n" for i in range(hosts))
    path = made_file(f"{hosts}.flows", f"{hosts}\n{listed}")
    return lambda: flows_from_csv(path, topo)


def ring_of_names(hosts: int) -> Work:
    topo = ps.star(hosts=hosts)
    return lambda: ps.permutation(topo, hosts=list(topo.names[:hosts]))


def poisson(us: int) -> Work:
    topo = leaf_spine(4)
    return lambda: ps.poisson(topo, sizes=SIZES, load=0.6, duration=f"{us}us")


def poisson_of_racks(tors: int) -> Work:
    topo = leaf_spine(tors)
    return lambda: ps.poisson(topo, sizes=SIZES, load=0.1, duration="20us", pairs="inter_rack")


def incast(events: int) -> Work:
    topo = leaf_spine(4)
    return lambda: ps.incast(topo, fan_in=10, every="1us", duration=f"{events}us", pairs="inter_rack")


def fan_in(hosts: int) -> Work:
    topo = ps.star(hosts=hosts + 1)
    return lambda: ps.incast(topo, fan_in=hosts, every="1us", duration="4us", replace=True)


def many_tables(count: int) -> Work:
    topo = ps.star(hosts=4)
    tables = [{"kind": "list", "flows": [[0, 1, 1000]], "class": f"c{i % 100}"} for i in range(count)]
    return lambda: build(tables, topo, 10**9, 1)


def loads_said(tables: int) -> Work:
    """What a run says of its traffic."""
    topo = leaf_spine(4)
    listed = [{"kind": "permutation", "bytes": 1000, "class": f"c{i}"} for i in range(tables)]
    flows = build(listed, topo, 10**9, 1)
    return lambda: flows.realised(topo, 10**9)


def of_algorithm(kind: str, algorithm: str) -> Any:
    """Messages of a collective: chunks of it among eight ranks."""

    def stage(chunks: int) -> Work:
        topo = ps.rails(servers=2, gpus=4, scale_up_rate="400Gbps")
        return lambda: ps.collective(topo, collective=kind, algorithm=algorithm, bytes="10MB", chunks=chunks)

    return stage


def ranks_of(kind: str, algorithm: str) -> Any:
    """Ranks of a collective that has as many messages as ranks."""

    def stage(ranks: int) -> Work:
        topo = ps.star(hosts=ranks)
        return lambda: ps.collective(topo, collective=kind, algorithm=algorithm, bytes="10MB")

    return stage


def training(**what: Any) -> Any:
    """Of what is None as much as the size says."""

    def stage(size: int) -> Work:
        values = {name: size if value is None else value for name, value in what.items()}
        topo = ps.star(hosts=values.pop("hosts", 8))
        return lambda: ps.training(topo, **values)

    return stage


def inference(requests: int) -> Work:
    """Of a file, with prefixes and a store."""
    lines = [
        {"timestamp": i, "input_length": 100, "output_length": 1, "hash_ids": [i % 7, *range(10 * i + 10, 10 * i + 18)]}
        for i in range(requests)
    ]
    path = made_file(f"{requests}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    given = {"assign": "prefix", "prefill": 2, "decode": 2, "store": 1, "block": 10, "layers": 2, "send": "layer"}
    return lambda: ps.inference(ps.star(hosts=8), file=str(path), **given)


def chain_until(count: int) -> Work:
    """A chain of flows, the first of which starts too late."""
    start, zeros = np.where(np.arange(count) == 0, 10**9, 0), np.zeros(count)
    waits = np.concatenate(([0, 0], np.arange(1, count))), np.arange(count - 1)
    flows = Flows(start, zeros, zeros + 1, zeros + 1000, zeros, zeros, ("flows",), after=waits)
    return lambda: flows.until(10**6)


# ---- Traces of other programs ----


def trace_of(text: Any, suffix: str = "trace", **options: Any) -> Any:
    """A file that `text` writes of a size."""

    def stage(size: int) -> Work:
        path, content = Path(f"{size}.{suffix}"), text(size)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return lambda: convert(path, **options)

    return stage


def goal_text(operations: int) -> str:
    """Of two ranks: computations in a row, every other one of rank 0 with a message."""
    ops = "".join(f"a{i}: calc 10\nb{i}: send 8b to 1 tag {i}\nb{i} requires a{i}\n" for i in range(operations))
    ops += "".join(f"a{i + 1} requires a{i}\n" for i in range(operations - 1))
    taken = "".join(f"r{i}: recv 8b from 0 tag {i}\n" for i in range(operations))
    return f"num_ranks 2\nrank 0 {{\n{ops}}}\nrank 1 {{\n{taken}}}\n"


def goal_ring(ranks: int) -> str:
    text = f"num_ranks {ranks}\n"
    for i in range(ranks):
        text += f"rank {i} {{\na: send 8b to {(i + 1) % ranks}\nb: recv 8b from {(i - 1) % ranks}\n}}\n"
    return text


def goal_binary(operations: int) -> bytes:
    """Messages from rank 0 to rank 1, each after the one before."""
    last, begin = operations - 1, 4 + 2 + 2 * 16
    parts = []
    for kind in (1, 2):
        each = [(int(i > 0), kind, 2 - kind, 8, i, 0, 0, int(i < last), min(i, last - 1), 0, 0) for i in range(operations)]
        rows = b"".join(struct.pack("<IBIQIBBIIII", *row) for row in each)
        parts.append(struct.pack("<III", operations, 1, 0) + rows + struct.pack(f"<{last}I", *range(1, operations)))
    middle, end = begin + len(parts[0]), begin + sum(map(len, parts))
    return struct.pack("<QIBBQQQQ", 4223, 2, 1, 0, begin, middle, middle, end) + b"".join(parts)


def chakra(collectives: int) -> Work:
    """Two ranks, each a kernel before every collective."""
    folder = Path(f"{collectives}.chakra")
    folder.mkdir(exist_ok=True)
    nodes = []
    for i in range(collectives):
        nodes.append(node(2 * i, 4, us=2, after=[2 * i - 2] * (i > 0), is_cpu_op=i % 2 == 0))
        nodes.append(node(2 * i + 1, 7, after=[2 * i], comm_type=0, comm_size=1000, pg_name=f"g{i % 3}"))
    chakra_files(folder, nodes, nodes)
    return lambda: convert(folder)


def nccl_calls(calls: int) -> str:
    who = "{0}:{1}:{1} [0] NCCL INFO "
    text = ""
    for rank, host in enumerate("ab"):
        text += f"{who.format(host, 7)}comm 0x{host}0 rank {rank} nranks 2 cudaDev 0 busId 1000 commId 0x9 - Init COMPLETE\n"
    for i in range(calls):
        for host in "ab":
            text += f"{who.format(host, 7)}AllReduce: opCount {i:x} sendbuff 0x1 recvbuff 0x2 count 100 datatype 7 op 0 root 0 "
            text += f"comm 0x{host}0 [nranks=2] stream 3\n"
    return text


def nccl_ranks(ranks: int) -> str:
    text = ""
    for i in range(ranks):
        text += f"h{i}:7:7 [0] NCCL INFO comm 0xa{i:x} rank {i} nranks {ranks} cudaDev 0 busId 1 commId 0x9 - Init COMPLETE\n"
    for i in range(ranks):
        text += f"h{i}:7:7 [0] NCCL INFO Broadcast: opCount 0 sendbuff 0x1 recvbuff 0x2 count 100000 datatype 7 op 0 root 0 "
        text += f"comm 0xa{i:x} [nranks={ranks}] stream 3\n"
    return text


def simai(layers: int) -> str:
    row = "l{} -1 10 ALLREDUCE 400 20 NONE 0 30 ALLREDUCE 600 5\n"
    head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 all_gpus: 4\n"
    return f"{head}{layers}\n" + "".join(map(row.format, range(layers)))


def aicb(rows: int) -> str:
    head = "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count\n"
    row = "CommType.all_reduce,CommGroup.tp_group,2,4096,forward.layer,None,None,,None,None,None,1\n"
    return f"[rank0 ~ rank3]\n{head}{row * rows}"


def htsim(connections: int) -> str:
    """A chain of connections by triggers."""
    text = f"Nodes 4\nConnections {connections}\nTriggers {connections - 1}\n0->1 id 1 start 0 size 2000 send_done_trigger 1\n"
    for i in range(2, connections + 1):
        text += f"0->{i % 3 + 1} id {i} trigger {i - 1} size 2000" + (f" send_done_trigger {i}\n" if i < connections else "\n")
    return text + "".join(f"trigger id {i} oneshot\n" for i in range(1, connections))


def turns_of_kernels(count: int) -> Work:
    """Kernels of one processor, half of which wait for the one before the last."""
    trace = Trace("kernels", 1)
    for i in range(count):
        op = trace.calc(0, 1000)
        trace.needs(op, "processor")
        if i > 1 and i % 2:
            trace.wait(op, op - 2)
    return lambda: take_turns(trace, {}, [])


PAIRS = "a table has an entry for each pair of switches, a bit or a number"

STAGES = [
    Stage("leaf-spine", lambda tors: lambda: used(leaf_spine(tors)), (8, 3)),
    Stage("star", lambda hosts: lambda: used(ps.star(hosts=hosts)), (64, 3)),
    Stage("fat tree, by k", lambda k: lambda: used(ps.fat_tree(k=k)), (4, 2), output=lambda topo: topo.hosts),
    Stage("changes of links", with_changes, (16, 3)),
    Stage("servers with a virtual switch", lambda n: lambda: used(ps.behind_vswitches(ps.star(hosts=n), apps=2)), (64, 3)),
    Stage("slow receivers", with_receivers, (32, 3)),
    Stage("edge list", edge_list, (20, 3)),
    Stage("GraphML", graphml, (12, 3)),
    Stage("topology of the HPCC simulator", hpcc_topology, (24, 3)),
    Stage("topology of htsim", htsim_topology, (24, 3)),
    Stage("routes of a network without structure", routes, (40, 2), {"items": 1.75, "bytes": 1.6}, PAIRS),
    Stage("its base RTT", base_rtt, (40, 2), {"items": 1.75, "bytes": 1.7}, PAIRS),
    Stage(
        "loads that flows offer to it, by switches",
        offered_load,
        (40, 2),
        {"items": 2, "bytes": 1.8, "lines": 1.3},
        f"{PAIRS}; a line of code for each hop of the longest path",
    ),
    Stage("loads that flows offer to it, by flows", load_of_flows, (40, 3)),
    Stage("the first failure of a link in it", first_failure, (40, 2), {"items": 1.8, "bytes": 1.75}, PAIRS),
    Stage("ideal completion times of flows in it", ideal_times, (50, 3)),
    Stage("ideal completion times where links differ", ideal_times_of_paths, (40, 2), {"items": 1.5}, PAIRS),
    Stage("explain --backpressure", backpressure, (40, 2), {"items": 1.75, "bytes": 2.05}, PAIRS),
    Stage(
        "explain --backpressure, symmetric",
        symmetric,
        (4, 2),
        because="an egress towards a ToR may be paused because of any other one",
        output=lambda graph: len(graph.edges),
    ),
    Stage("explain --backpressure, cycles", cycles_of_symmetric, (4, 2), output=lambda found: len(found[0])),
    Stage("explain --backpressure, a cycle", cycles, (16, 2)),
    Stage("explain --backpressure, changes", graphs_over_time, (8, 2)),
    Stage("explain --headroom", headroom, (4, 2)),
    Stage("flows by list, hosts by name", flows_by_name, (30, 3)),
    Stage("flows by list, a chain", chain_by_list, (40, 3)),
    Stage("flows by CSV, hosts by name", csv_by_name, (64, 3)),
    Stage("flows by CSV, a chain", csv_of_chains, (64, 3)),
    Stage("flows to and from Parquet and CSV", flow_files, (100, 3)),
    Stage("flows of the HPCC simulator", hpcc_flows, (30, 3)),
    Stage("hosts by name", ring_of_names, (64, 3)),
    Stage("permutation", lambda n: (lambda topo: lambda: ps.permutation(topo))(ps.star(hosts=n)), (64, 3)),
    Stage("poisson", poisson, (300, 2)),
    Stage("poisson between racks, by racks", poisson_of_racks, (8, 2)),
    Stage("incast, by events", incast, (30, 3)),
    Stage("incast, by fan-in", fan_in, (50, 3)),
    Stage("workload tables of a spec", many_tables, (6, 3)),
    Stage("what a run says of its traffic", loads_said, (8, 3)),
    *(
        Stage(f"{kind}, {way}, by chunks", of_algorithm(kind, way), (16, 3))
        for kind, ways in ALGORITHMS.items()
        for way in ways
        if way != IN_NETWORK
    ),
    Stage("broadcast, by ranks", ranks_of("broadcast", "tree"), (16, 3)),
    Stage("all_reduce, tree, by ranks", ranks_of("all_reduce", "tree"), (16, 3)),
    Stage("training, by iterations", training(iterations=None, layers=2), (2, 3)),
    Stage("inference, by requests", inference, (50, 3)),
    Stage("training, by layers", training(layers=None, iterations=1), (4, 3)),
    Stage("training, by microbatches", training(layers=2, iterations=1, pipeline=2, microbatches=None), (4, 3)),
    Stage("training, by pipelines", training(hosts=None, data=1, layers=64, pipeline=None, iterations=1), (4, 2)),
    Stage("flows that begin in time, of a chain that does not", chain_until, (64, 3)),
    Stage("GOAL, by operations", trace_of(goal_text, "goal"), (12, 3)),
    Stage("GOAL, by ranks", trace_of(goal_ring, "ring"), (12, 3)),
    Stage("GOAL, binary", trace_of(goal_binary, "bin"), (12, 3)),
    Stage("Chakra", chakra, (4, 3)),
    Stage("NCCL, by calls", trace_of(nccl_calls), (16, 3)),
    Stage("NCCL, by ranks", trace_of(nccl_ranks), (16, 3)),
    Stage("SimAI", trace_of(simai), (2, 3)),
    Stage("AICB", trace_of(aicb), (8, 3)),
    Stage("connection matrix of htsim", trace_of(htsim, "cm"), (12, 3)),
    Stage("kernels of a processor that take turns", turns_of_kernels, (64, 3)),
]
