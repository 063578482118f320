"""Importers of traces: files written by hand from the description of each format, and the flows expected of them."""

import json
import struct

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import Flows, flow_list, flows_from_csv, flows_from_parquet, flows_to_parquet, training
from penstock_net.workload.traces import FORMATS, convert, guess

GOAL = """\
num_ranks 3
// what rank 0 computes is needed by rank 1
rank 0 {
l1: calc 5000
l2: send 8192b to 1 tag 0
l3: send 100000b to 2 tag 1 cpu 0 nic 0
l4: send 7b to 2
l2 requires l1
l3 requires l2
l4 requires l3
}
rank 1 { /* a comment
over two lines */
l1: recv 8192b from 0 tag 0
l2: calc 1000
l3: calc 9000
l4: send 10b to 2 tag 0
l2 requires l1
l3 irequires l2
l4 requires l3
}
rank 2 {
recv 10b from 1 tag 0
recv 100000b from 0 tag 1
recv 7b from 0
}
"""
HTSIM = """\
Nodes 4
Connections 4
Triggers 2
# a ring of two, and two in a row
0->1 id 1 start 0 size 2000 send_done_trigger 1
0->2 id 2 trigger 1 size 3000 recv_done_trigger 2
2->3 id 3 trigger 2 size 4000
3->0 start 1500 size 500
trigger id 1 oneshot
trigger id 2 barrier count 1
"""
SIMAI = """\
HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 4 checkpoints: 0
2
first  -1 10 ALLREDUCE 400  20 NONE 0  30 ALLREDUCE 600  5
second -1 40 NONE 0  50 ALLGATHER 200  60 NONE 0  7
"""
NCCL = """\
a:7:7 [0] NCCL INFO comm 0xa0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x9 - Init COMPLETE
b:8:8 [0] NCCL INFO comm 0xb0 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x9 - Init COMPLETE
a:7:9 [0] NCCL INFO Channel 00/02 :    0   1
a:7:7 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 100 datatype 7 op 0 root 0 comm 0xa0 [nranks=2] stream 3
b:8:8 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 100 datatype 7 op 0 root 0 comm 0xb0 [nranks=2] stream 3
a:7:7 [0] NCCL INFO Send: opCount 1 sendbuff 0x1 recvbuff (nil) count 50 datatype 0 op 0 root 1 comm 0xa0 [nranks=2] stream 3
b:8:8 [0] NCCL INFO Recv: opCount 1 sendbuff (nil) recvbuff 0x2 count 50 datatype 0 op 0 root 0 comm 0xb0 [nranks=2] stream 3
"""
SPLIT = (
    NCCL
    + """\
a:7:7 [0] NCCL INFO ncclCommSplit comm 0xa1 rank 1 nranks 2 busId 1000 parent 0xa0 splitCount 1 color 0 key 1 - Init COMPLETE
b:8:8 [0] NCCL INFO ncclCommSplit comm 0xb1 rank 0 nranks 2 busId 1000 parent 0xb0 splitCount 1 color 0 key 0 - Init COMPLETE
a:7:7 [0] NCCL INFO AlltoAll: opCount 0 sendbuff 0x1 recvbuff 0x2 count 10 datatype 7 op 0 root 0 comm 0xa1 [nranks=2] stream 3
b:8:8 [0] NCCL INFO AlltoAll: opCount 0 sendbuff 0x1 recvbuff 0x2 count 10 datatype 7 op 0 root 0 comm 0xb1 [nranks=2] stream 3
"""
)
AICB_HEADER = "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count\n"
AICB = (
    "[rank0 ~ rank3]\n"
    + AICB_HEADER
    + """\
CommType.broadcast,CommGroup.tp_group,2,800,init,None,None,,None,None,None,1
CommType.computation,None,None,"((1, 2), (2, 3))",forward.layer,None,None,,2.5,None,None,1
CommType.all_reduce,CommGroup.tp_group,2,1000,forward.layer,None,None,,None,None,None,1
CommType.all_gather,CommGroup.dp_group,2,600,step,None,None,,0.5,None,None,1
CommType.barrier,CommGroup.all,4,0,step,None,None,,None,None,None,1
CommType.epoch_end,None,None,0,,None,None,,None,None,None,1
"""
)
AICB_STAGES = (
    "[ pp_stage0: [rank0, rank1] ]\n"
    + AICB_HEADER
    + """\
CommType.isend,CommGroup.pp_group,1,500,forward_step,None,None,send_next,None,None,None,1
CommType.all_reduce,CommGroup.dp_group,2,64,step,None,None,,None,None,None,1
[ pp_stage1: [rank2, rank3] ]
"""
    + AICB_HEADER
    + """\
CommType.irecv,CommGroup.pp_group,1,500,forward_step,None,None,recv_prev,None,None,None,1
CommType.all_reduce,CommGroup.dp_group,2,64,step,None,None,,None,None,None,1
CommType.all_reduce,CommGroup.embedding_group,2,64,step,None,None,,None,None,None,1
"""
)


def varint(value):
    value %= 2**64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def number(field, value):
    return varint(field << 3) + varint(value)


def blob(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def node(id, type, *, after=(), us=0, packed=True, **attributes):
    """A node as the schema has it: comm_* as int64, pg_name a string, is_cpu_op a bool."""
    out = number(1, id) + blob(2, b"node") + number(3, type)
    out += blob(5, b"".join(map(varint, after))) if packed and after else b"".join(number(5, parent) for parent in after)
    out += number(7, us)
    for name, value in attributes.items():
        kind = (
            number(27, value)
            if isinstance(value, bool)
            else blob(29, value.encode())
            if isinstance(value, str)
            else number(9, value)
        )
        out += blob(10, blob(1, name.encode()) + kind)
    return out


def chakra_files(folder, *ranks, name="t"):
    for rank, nodes in enumerate(ranks):
        parts = [blob(1, b"0.0.4"), *nodes]
        (folder / f"{name}.{rank}.et").write_bytes(b"".join(varint(len(part)) + part for part in parts))
    return folder


def chakra_trace(folder):
    ranks = []
    for rank in range(3):
        nodes = [node(1, 4, us=2 + rank, is_cpu_op=False), node(2, 7, after=[1], comm_type=0, comm_size=300, is_cpu_op=False)]
        ranks.append(nodes)
    ranks[0].append(node(5, 5, after=[2], packed=False, comm_src=0, comm_dst=2, comm_size=40, comm_tag=9))
    ranks[2].append(node(6, 6, after=[2], comm_src=0, comm_dst=2, comm_size=40, comm_tag=9))
    ranks[2].append(node(7, 7, after=[6], comm_type=2, comm_size=10, pg_name="pair"))
    ranks[1].append(node(7, 7, after=[2], comm_type=2, comm_size=10, pg_name="pair"))
    return chakra_files(folder, *ranks)


def goal_binary():
    """The ranks 0 and 1 of: 0 computes 5 ns, then sends 8 B; 1 receives them, and starts to compute at once."""

    def part(nodes, listed, roots):
        out = struct.pack("<II", len(nodes), len(roots)) + b"".join(struct.pack("<I", root) for root in roots)
        out += b"".join(struct.pack("<IBIQIBBIIII", *each) for each in nodes)
        return out + b"".join(struct.pack("<I", op) for op in listed)

    first = part([(0, 3, 0, 5, 0, 0, 0, 1, 0, 0, 1), (1, 1, 1, 8, 3, 0, 0, 0, 1, 0, 1)], [1], [0])
    second = part([(0, 2, 0, 8, 3, 0, 0, 0, 0, 1, 0), (1, 3, 0, 6, 0, 1, 0, 0, 1, 0, 1)], [1], [0])
    begin = 4 + 2 + 2 * 16
    middle, end = begin + len(first), begin + len(first) + len(second)
    return struct.pack("<QIBBQQQQ", 4223, 2, 1, 0, begin, middle, middle, end) + first + second


def rows(flows):
    """(src, dst, bytes, start, parents, gap) of each message: the messages that it waits for, by their position here, directly or
    through computations, and the longest time of these."""
    offsets, parents = flows.after or (np.zeros(len(flows) + 1, int), np.empty(0, int))
    computes, gap = flows.computes, flows.gap_ps

    def waits(flow, after):
        for parent in parents[offsets[flow] : offsets[flow + 1]].tolist():
            if computes[parent]:
                yield from waits(parent, after + int(gap[parent]))
            else:
                yield parent, after

    sent = np.flatnonzero(~computes).tolist()
    found = []
    for i in sent:
        times = dict(sorted(waits(i, int(gap[i])), key=lambda each: each[1]))
        ends = (int(getattr(flows, name)[i]) for name in ("src", "dst", "bytes", "start_ps"))
        found.append((*ends, sorted(sent.index(parent) for parent in times), max(times.values(), default=0)))
    return found


def written(tmp_path, content, name="trace"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_goal(tmp_path):
    """Rank 0 sends 8192 B at 5 us, and 100 KB at the same time, since the first one is eager; 7 B when that is acknowledged.
    Rank 1 computes 9 us from when it begins to compute 1 us, which is when the 8192 B have come."""
    made = convert(written(tmp_path, GOAL))
    assert (made.format, made.ranks, made.notes) == ("goal", 3, {})
    us = 10**6
    assert rows(made.flows) == [
        (0, 1, 8192, 5 * us, [], 0),
        (0, 2, 100_000, 5 * us, [], 0),
        (0, 2, 7, 5 * us, [1], 0),
        (1, 2, 10, 9 * us, [0], 9 * us),
    ]
    assert made.flows.classes == ("message", "computation")
    listed = made.flows.operations.listed
    assert [(o.kind, o.bytes) for o in listed] == [("send", size) for size in (8192, 100_000, 7, 10)] + [("compute", 0)] * 3
    computed = made.flows.gap_ps[made.flows.computes].tolist()
    assert sorted(computed) == [0, us, 5 * us, 9 * us]  # the first: the beginning of rank 0
    for eager, parents in ((0, [0]), (8191, [0]), (8192, [])):  # "at most": a send of just so many bytes is eager
        assert rows(convert(tmp_path / "trace", eager=eager).flows)[1] == (0, 2, 100_000, 5 * us, parents, 0)


def test_binary_goal(tmp_path):
    made = convert(written(tmp_path, goal_binary()))
    assert rows(made.flows) == [(0, 1, 8, 5000, [], 0)]
    assert list(made.notes.values()) == [1] and "processor" in next(iter(made.notes))


def test_goal_with_empty_messages_and_messages_to_itself(tmp_path):
    first = "rank 0 {\na: send 5b to 0\nb: recv 5b from 0\nc: send 0b to 1\nc requires b\n}\n"
    made = convert(written(tmp_path, f"num_ranks 2\n{first}rank 1 {{\nrecv 9b from 0\n}}\n"))
    assert rows(made.flows) == [(0, 1, 1, 0, [], 0)]
    assert sorted(made.notes.values()) == [1, 1]


def test_comments_without_end_take_no_time_of_their_square(tmp_path):
    line = "/* a */ " * 200_000
    made = convert(
        written(tmp_path, f"num_ranks 2\n{line}\nrank 0 {{ {line}\nsend 5b to 1 }}\nrank 1 {{\n/* */recv 5b from 0// }}\n}}\n")
    )
    assert rows(made.flows) == [(0, 1, 5, 0, [], 0)]


def test_htsim(tmp_path):
    made = convert(written(tmp_path, HTSIM))
    assert (made.format, made.ranks, made.notes) == ("htsim", 4, {})
    assert rows(made.flows) == [
        (0, 1, 2000, 0, [], 0),
        (0, 2, 3000, 0, [0], 0),
        (2, 3, 4000, 0, [1], 0),
        (3, 0, 500, 1500, [], 0),
    ]


def test_htsim_names_what_flows_do_not_have(tmp_path):
    text = "Nodes 4\nConnections 2\nFailures 1\n0->1 id 1 msg 1 start 0 size 5 prio 3\n0->1 id 1 msg 2 start 0 size 5\n"
    made = convert(written(tmp_path, text + "failure switch_type TOR switch_id 0 link_id 1\n"))
    assert sorted(made.notes.values()) == [1, 1, 2]
    assert all(word in " ".join(made.notes) for word in ("prio", "msg", "failures"))


def test_simai(tmp_path):
    """Two layers on 4 ranks, tensor parallel in pairs (0, 1) and (2, 3), data parallel (0, 2) and (1, 3). An all-reduce of a pair
    is two messages of a half from each, the second after what comes from the other one."""
    made = convert(written(tmp_path, SIMAI))
    assert (made.format, made.ranks, made.notes) == ("simai", 4, {})
    flows, ns = made.flows, 1000
    sent = flows.bytes[~flows.computes]
    assert sorted(sent.tolist()) == sorted([200] * 8 + [100] * 4 + [300] * 8)
    by_size = {size: {(s, d) for s, d, b in zip(flows.src, flows.dst, flows.bytes) if b == size} for size in (100, 200, 300)}
    pairs = {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert by_size == {200: pairs, 100: pairs, 300: {(0, 2), (2, 0), (1, 3), (3, 1)}}
    first = [row for row in rows(flows) if row[2] == 200 and not row[4]]
    assert [row[3] for row in first] == [10 * ns] * 4
    gather = [row for row in rows(flows) if row[2] == 100]
    assert [row[3] for row in gather] == [100 * ns] * 4 and all(row[5] == 90 * ns for row in gather)
    # after it 60 + 7 of the second layer, 20 + 30 of the first; both waited for what comes last
    last = [row for row in rows(flows) if row[2] == 300]
    assert {row[3] for row in last} == {217 * ns}
    names = {(o.kind, o.name) for o in flows.operations.listed}
    assert {name for kind, name in names if kind == "all_reduce"} == {"forward first", "gradients first"}
    assert ("all_gather", "backward second") in names and ("compute", "update second") in names


def test_simai_needs_the_number_of_ranks(tmp_path):
    text = SIMAI.replace("all_gpus: 4 ", "")
    with pytest.raises(SpecError, match="give --ranks N"):
        convert(written(tmp_path, text))
    assert convert(tmp_path / "trace", ranks=8).ranks == 8
    with pytest.raises(SpecError, match="multiple"):
        convert(tmp_path / "trace", ranks=7)


def test_chakra(tmp_path):
    """After 2, 3 and 4 us an all-reduce of 300 B in a ring; then 40 B from 0 to 2, and an all-gather of 10 B each of 1 and 2."""
    made = convert(chakra_trace(tmp_path))
    assert (made.format, made.ranks, made.notes) == ("chakra", 3, {})
    flows = made.flows
    counted = {name: int(np.count_nonzero(flows.class_id == i)) for i, name in enumerate(flows.classes)}
    assert {name: counted[name] for name in counted if name != "computation"} == {"all_reduce": 12, "all_gather": 2, "message": 1}
    assert int(flows.bytes.sum()) == 2 * 2 * 300 + 40 + 2 * 10
    ring = [row for row in rows(flows) if row[2] == 100]
    assert all(dst == (src + 1) % 3 for src, dst, *_ in ring)
    assert {src: start for src, _, _, start, parents, _ in ring if not parents} == {0: 2 * 10**6, 1: 3 * 10**6, 2: 4 * 10**6}
    collectives = [o for o in flows.operations.listed if o.kind not in ("send", "compute")]
    assert collectives == [("all_reduce", "all_reduce", "ring", 3, 300, 0, 0), ("all_gather", "all_gather", "ring", 2, 20, 0, 0)]
    assert convert(f"{tmp_path}/t").flows.key() != "" and guess(str(tmp_path / "t")) == "chakra"


def test_collectives_that_a_processor_launches_are_computations(tmp_path):
    ranks = [
        [node(1, 7, us=3, is_cpu_op=True), node(2, kind, after=[1], **ends)]
        for kind, ends in (
            (5, dict(comm_dst=1, comm_size=8)),
            (6, dict(comm_src=0, comm_size=8)),
        )
    ]
    made = convert(chakra_files(tmp_path, *ranks))
    assert rows(made.flows) == [(0, 1, 8, 3 * 10**6, [], 0)]
    assert list(made.notes.values()) == [2]


def test_chakra_with_groups_from_a_file(tmp_path):
    chakra_trace(tmp_path)
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({"pair": [2, 1]}))
    assert len(convert(tmp_path, groups=str(groups)).flows)
    for wrong, says in (('{"pair": [0, 1]}', "not in the group"), ('{"pear": [2, 1]}', "no such group"), ("[", "not JSON")):
        groups.write_text(wrong)
        with pytest.raises(SpecError, match=says):
            convert(tmp_path, groups=str(groups))


def test_an_option_that_the_trace_does_not_use_or_contradicts_is_refused(tmp_path):
    simai, goal = written(tmp_path, SIMAI, "simai"), written(tmp_path, GOAL, "goal")
    plain = chakra_files(tmp_path, [node(1, 5, comm_dst=1, comm_size=8)], [node(1, 6, comm_src=0, comm_size=8)])
    groups = str(written(tmp_path, "{}", "groups.json"))
    for path, options, says in (
        (simai, {"ranks": 16}, "ranks = 16: the file says all_gpus: 4; leave it out"),
        (simai, {"ranks": 7}, "ranks = 7: the file says all_gpus: 4"),
        (simai, {"eager": 9}, f"eager = 9: is for sends, and {simai} has none"),
        (goal, {"ranks": 4}, "ranks = 4: is for simai and astra and aicb only"),
        (goal, {"groups": groups}, "is for chakra only"),
        (goal, {"seed": 1}, 'seed = 1: is for placement = "random" only'),
        (goal, {"rack": 2}, 'rack = 2: is for placement = "strided"'),
        (plain, {"groups": groups}, "is for traces whose nodes name their process group"),
    ):
        with pytest.raises(SpecError) as caught:
            convert(path, **options)
        assert says in str(caught.value)
    assert convert(simai, ranks=4).ranks == 4
    assert main(["convert", str(simai), str(tmp_path / "out.csv"), "--seed", "1"]) == 2


def test_nccl(tmp_path):
    made = convert(written(tmp_path, NCCL))
    assert (made.format, made.ranks, made.notes) == ("nccl", 2, {})
    assert sorted(row[:3] for row in rows(made.flows)) == [(0, 1, 50), (0, 1, 200), (0, 1, 200), (1, 0, 200), (1, 0, 200)]
    (send,) = (row for row in rows(made.flows) if row[2] == 50)
    assert {rows(made.flows)[p][:2] for p in send[4]} == {(1, 0)}


BAD = [
    ("goal", "rank 0 {\n}\n", ":1: num_ranks must come first"),
    ("goal", "num_ranks 2\nrank 5 {\n}\n", ':2: rank = "5": must be between 0 and 1'),
    ("goal", "num_ranks 2\nrank 0 {\nl1: jump 5\n}\n", ':3: "l1: jump 5": expected'),
    ("goal", "num_ranks 2\nrank 0 {\nl1: calc 5\nl1: calc 5\n}\n", ":4: rank 0 has an operation l1 already"),
    ("goal", "num_ranks 2\nrank 0 {\nl1: calc 5\nl1 requires l2\n}\n", ":4: rank 0 has no operation l2"),
    ("goal", "num_ranks 2\nrank 0 {\nl1: recv 5b from -1\n}\n", ":3: a message from any rank"),
    ("goal", "num_ranks 2\nrank 0 {\nl1: calc 5\n", "is not closed"),
    ("goal", "num_ranks 2\nrank 0 {\nl1: send 5b to 1\n}\n", ":3: the send of rank 0 to rank 1, tag 0, which is never received"),
    ("goal", "num_ranks 99999\n", "must be between 1 and 65536"),
    ("goal", goal_binary()[:-4], "the part from"),
    ("goal", goal_binary()[:20], "do not fit"),
    ("htsim", HTSIM.replace("Connections 4", "Connections 5"), "Connections says 5, but there are 4"),
    (
        "htsim",
        HTSIM.replace("2->3 id 3 trigger 2", "1->3 id 3 trigger 2"),
        ":7: trigger = 2: the connection of host 1 would start",
    ),
    ("htsim", HTSIM.replace("barrier count 1", "barrier count 2"), "acts after 2 of them"),
    ("htsim", HTSIM.replace("trigger 2 size", "trigger 7 size"), "there is no such trigger"),
    ("htsim", HTSIM.replace("size 2000", "sise 2000"), ':5: "sise": unknown word; did you mean "size"'),
    ("htsim", HTSIM.replace("start 1500 ", ""), "either start or trigger"),
    ("htsim", HTSIM.replace("start 1500", "start 1.5"), "whole number of ps"),
    ("simai", SIMAI.replace("ALLREDUCE 600", "ALLREDUCE_X 600"), ':3: weight gradient = "ALLREDUCE_X"'),
    ("simai", SIMAI.replace("\n2\n", "\n3\n"), "3 layers are announced, 2 follow"),
    ("simai", SIMAI.replace("checkpoints: 0", "checkpoints: 1"), "from a checkpoint is not supported"),
    ("simai", SIMAI.replace("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "DATA"), "only HYBRID"),
    ("nccl", NCCL.replace("AllReduce", "AllToAllv"), "the call AllToAllv is not known"),
    ("nccl", NCCL.replace("[nranks=2] stream 3\n", "\n"), "ends too early"),
    ("nccl", "\n".join(NCCL.split("\n")[3:]), "no communicator has all 2 GPUs"),
    ("nccl", NCCL.replace("count 50 datatype 0 op 0 root 0", "count 40 datatype 0 op 0 root 0"), "receives 40 bytes of the 50"),
    ("nccl", "NCCL INFO\n", "no call is logged"),
]


@pytest.mark.parametrize("format, content, says", BAD)
def test_what_is_wrong_is_named_with_its_line(tmp_path, format, content, says):
    with pytest.raises(SpecError) as caught:
        convert(written(tmp_path, content), format=format)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "nodes, says",
    [
        ([node(1, 9)], "node 1: is of type 9"),
        ([node(1, 4), node(1, 4)], "node 1: another node has this id"),
        ([node(1, 4, after=[3])], "node 1: waits for node 3, which is not in the file"),
        ([node(1, 7, comm_size=5)], "node 1: COMM_COLL without a number comm_type"),
        ([node(1, 7, comm_type=44, comm_size=5)], "comm_type 44 is not known"),
        ([node(1, 5, comm_src=3, comm_dst=0, comm_size=1)], "comm_src is 3 in the file of rank 0"),
        ([node(1, 5, comm_dst=-1, comm_size=1)], "ranks are 0 to 0"),
        ([b"\xff" * 12], "more than 10 bytes"),
        ([b"\x0b"], "wire type 3"),
        ([b"\x12\x7f"], "cut off"),
    ],
)
def test_bad_nodes_are_named(tmp_path, nodes, says):
    with pytest.raises(SpecError, match=says.replace("(", r"\(")):
        convert(chakra_files(tmp_path, nodes))


def test_folders_that_are_no_trace(tmp_path):
    with pytest.raises(SpecError, match="cannot be read"):
        convert(tmp_path)
    chakra_files(tmp_path, [node(1, 4)], [node(1, 4)])
    (tmp_path / "t.0.et").unlink()
    with pytest.raises(SpecError, match="the file of rank 0 is missing"):
        convert(tmp_path)
    chakra_files(tmp_path, [node(1, 4)], name="u")
    with pytest.raises(SpecError, match="several traces"):
        convert(tmp_path)


VALID = {
    "goal": [GOAL.encode(), goal_binary()],
    "htsim": [HTSIM.encode()],
    "simai": [SIMAI.encode(), b"MICRO\n1\nx -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 64 1\n"],
    "astra": [
        SIMAI.replace("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_TRANSFORMER").encode(),
        b"MODEL\n1\nx -1 1 ALLREDUCE 64 1 NONE 0 1 NONE 0 1\n",
    ],
    "aicb": [AICB.encode(), AICB_STAGES.encode()],
    "nccl": [NCCL.encode(), SPLIT.encode()],
}


@st.composite
def mutated(draw, originals):
    """A valid file with some bytes changed, cut out, doubled, or numbers replaced; or any bytes at all."""
    raw = bytearray(draw(st.sampled_from([*originals, b""])))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(raw)))
        much = draw(st.integers(0, 6))
        raw[at : at + much] = draw(
            st.one_of(
                st.binary(max_size=6),
                st.sampled_from([b"99999999999999999999", b"0", b"-1", b"\n", b"{", b"1e9", b"\xff\xff\xff\xff"]),
            )
        )
    return bytes(raw)


@pytest.mark.parametrize("format", sorted(VALID))
@given(data=st.data())
def test_any_file_gives_flows_or_a_spec_error(tmp_path_factory, format, data):
    path = tmp_path_factory.mktemp("fuzz") / "f"
    path.write_bytes(data.draw(mutated(VALID[format])))
    check(lambda: convert(path, format=data.draw(st.sampled_from([format, None]))))


@given(content=st.data())
def test_any_chakra_files_give_flows_or_a_spec_error(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("fuzz")
    chakra_trace(folder)
    for file in sorted(folder.iterdir()):
        if content.draw(st.booleans()):
            file.write_bytes(content.draw(mutated([file.read_bytes()])))
    check(lambda: convert(folder))


def check(attempt):
    try:
        made = attempt()
    except SpecError as error:
        assert len(str(error)) < 2000 and "\n" not in str(error)
    else:
        made.flows.check(star(hosts=max(made.ranks, 2)))


def assert_same_operations(flows, wanted):
    """Number for number, and host for host."""
    ours, theirs = flows.operations, wanted.operations
    assert ours.listed == theirs.listed and np.array_equal(ours.number, theirs.number)
    assert [job.tolist() for job in ours.jobs] == [job.tolist() for job in theirs.jobs]


@pytest.mark.parametrize("suffix, read", [("parquet", flows_from_parquet), ("csv", flows_from_csv)])
def test_what_is_written_is_read_again(tmp_path, capsys, suffix, read):
    source, out = written(tmp_path, SIMAI), tmp_path / f"out.{suffix}"
    assert main(["convert", str(source), str(out), "--placement", "random", "--hosts", "16", "--seed", "4"]) == 0
    assert "4 ranks (simai)" in capsys.readouterr().out
    flows = read(out, star(hosts=16))
    wanted = convert(source, placement="random", hosts=16, seed=4).flows
    assert flows.to_frame().equals(wanted.to_frame()) and flows.computes.any()
    if suffix == "parquet":
        assert_same_operations(flows, wanted)
    else:
        assert flows.operations is None
    with pytest.raises(SpecError, match="hosts are 0 to"):
        read(out, star(hosts=2))


def test_the_command_says_what_is_not_in_the_flows_and_what_is_wrong(tmp_path, capsys):
    source = written(tmp_path, goal_binary())
    assert main(["convert", str(source), str(tmp_path / "out.parquet")]) == 0
    assert "not in the flows: operations on another processor" in capsys.readouterr().err
    for arguments, says in (
        ([str(source), "out.txt"], "must end in .parquet or .csv"),
        ([str(source), str(source / "out.csv")], "cannot be written (a file is in the place of its folder)"),
        ([str(tmp_path / "missing"), "out.csv"], "cannot be read"),
        ([str(source), "out.csv", "--format", "gaol"], 'did you mean "goal"'),
        ([str(written(tmp_path, "hello", "x")), "out.csv"], "the format is not recognised"),
    ):
        assert main(["convert", *arguments]) == 2
        assert says in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_full_disk(tmp_path, capsys, suffix):
    out = tmp_path / f"out.{suffix}"
    out.symlink_to("/dev/full")
    assert main(["convert", str(written(tmp_path, SIMAI)), str(out)]) == 2
    error = capsys.readouterr().err
    assert f"{out}: cannot be written (No space left on device)" in error and "Traceback" not in error


@given(content=st.binary(max_size=300), cut=st.integers(0, 3000), place=st.integers(0, 3000))
def test_any_parquet_gives_flows_or_a_spec_error(tmp_path_factory, content, cut, place):
    path = tmp_path_factory.mktemp("fuzz") / "f.parquet"
    Flows.from_frame(pl.DataFrame({"src": [0, 1], "dst": [1, 0], "bytes": [5, 6], "start_ns": [0, 1]})).to_frame().write_parquet(
        path
    )
    raw = bytearray(path.read_bytes())
    raw[place : place + len(content[:8])] = content[:8]
    path.write_bytes(content if cut == 0 else bytes(raw[:-cut] if cut < 50 else raw))
    try:
        flows_from_parquet(path, star(hosts=2))
    except SpecError as error:
        assert "f.parquet" in str(error)


@pytest.mark.parametrize(
    "columns, says",
    [
        ({"src": [0], "dst": [1], "bytes": [5]}, "start_ns: the column is missing"),
        ({"src": [0], "dst": [1], "bytes": [5], "start_ns": [0], "size": [3]}, "size: unknown column"),
        ({"src": [0], "dst": [1], "bytes": [5], "start_ns": [None]}, "start_ns: a value is missing"),
        ({"src": ["a"], "dst": [1], "bytes": [5], "start_ns": [0]}, "is of type"),
        ({"src": [0], "dst": [1], "bytes": [5], "start_ns": [0], "after": [[7]]}, "is not one of the 1 flows"),
        ({"src": [0], "dst": [1], "bytes": [5], "start_ns": [0], "after": [3]}, "is of type"),
    ],
)
def test_bad_columns_are_named(tmp_path, columns, says):
    path = tmp_path / "f.parquet"
    pl.DataFrame(columns).write_parquet(path)
    with pytest.raises(SpecError, match=says):
        flows_from_parquet(path, star(hosts=4))


def two_jobs():
    """Two jobs of training beside flows of no job."""
    topo = star(hosts=8)
    plan = {"layers": 1, "parameters": "8KB", "forward": "3us", "backward": "4us", "iterations": 1}
    jobs = [training(topo, hosts=hosts, start=start, **plan) for hosts, start in (([5, 2], "7us"), ([1, 0, 3], "0s"))]
    return jobs[0] + flow_list(topo, [(6, 7, "1KB", "1us")]) + jobs[1]


def test_operations_of_any_workload_are_written_and_read(tmp_path):
    flows, file = two_jobs(), tmp_path / "f.parquet"
    flows_to_parquet(flows, file)
    again = flows_from_parquet(file, star(hosts=8))
    assert again.to_frame().equals(flows.to_frame())
    assert_same_operations(again, flows)
    frame = pl.read_parquet(file).sort("start_ns", descending=True, maintain_order=True).drop("after", "gap_ns")
    frame.write_parquet(file, metadata={"penstock": pl.read_parquet_metadata(file)["penstock"]})
    turned = flows_from_parquet(file, star(hosts=8)).operations
    by_end = {(o.name, o.job): o for o in flows.operations.listed}
    assert sorted(turned.number.tolist()) == sorted(flows.operations.number.tolist())
    assert set(turned.listed) == set(by_end.values())


def test_a_run_of_a_file_reports_what_the_run_of_its_workload_reports(tmp_path):
    flows, file, topo = two_jobs(), tmp_path / "f.parquet", star(hosts=8)
    flows_to_parquet(flows, file)
    one, other = (simulate(topo, each, "bfc") for each in (flows, flows_from_parquet(file, topo)))
    assert one.summary["training"]["ranks"] == 5
    for name in ("operations", "timeline", "ranks"):
        assert one.frame(name).equals(other.frame(name))
    assert one.summary["training"] == other.summary["training"]


ABOUT = {"version": 1, "jobs": [[0, 1]]}
ROW = {"number": 0, "kind": "send", "name": "send", "algorithm": "", "ranks": 2, "bytes": 5, "job": 0, "iteration": 0}


def with_operations(path, about=ABOUT, fields=(ROW, ROW), src=(0, 0)):
    columns = {"src": list(src), "dst": [1, 1], "bytes": [5, 5], "start_ns": [0.0, 1.0], "operation": list(fields)}
    text = about if isinstance(about, str) else json.dumps(about)
    pl.DataFrame(columns, strict=False).write_parquet(path, metadata={} if about is None else {"penstock": text})
    return path


@pytest.mark.parametrize(
    "about, fields, says",
    [
        (None, (ROW, ROW), "metadata.penstock: is missing; convert the trace again, or leave out the column operation"),
        ("[" * 10**5, (ROW, ROW), "metadata.penstock: is not JSON"),
        ("9" * 5000, (ROW, ROW), "metadata.penstock: "),
        ([], (ROW, ROW), "must be an object of a version and a list of jobs"),
        ({"version": True, "jobs": []}, (ROW, ROW), "must be an object of a version"),
        ({**ABOUT, "version": 2}, (ROW, ROW), "metadata.penstock.version = 2: this penstock reads version 1"),
        ({**ABOUT, "jobs": [[0, "1"]]}, (ROW, ROW), "metadata.penstock.jobs.0"),
        ({**ABOUT, "jobs": [[0, 9]]}, (ROW, ROW), "metadata.penstock.jobs.0 = 9: hosts are 0 to 3"),
        ({**ABOUT, "jobs": [[0, 1, 1]]}, (ROW, ROW), "two ranks are on one host"),
        ({**ABOUT, "jobs": [[0, 2]]}, (ROW, ROW), "flows.0.dst = 1: no rank of job 0 is on this host"),
        ({**ABOUT, "jobs": []}, (ROW, ROW), "operation.job = 0: must be between 0 and -1"),
        (ABOUT, (5, 6), "operation: must be a struct of number, kind"),
        (ABOUT, ({**ROW, "size": 3}, None), "operation.size: unknown key"),
        (ABOUT, ({k: v for k, v in ROW.items() if k != "job"}, None), "operation.job: is missing"),
        (ABOUT, ({**ROW, "bytes": "5"}, None), 'operation.bytes = "String": must be of type Int64'),
        (ABOUT, ({**ROW, "name": 5}, None), 'operation.name = "Int64": must be of type String'),
        (ABOUT, ({**ROW, "iteration": None}, ROW), "operation.iteration: a value is missing"),
        (ABOUT, ({**ROW, "kind": "all_reduced"}, ROW), 'operation.kind = "all_reduced": must be one of'),
        (ABOUT, ({**ROW, "name": "a\nb"}, ROW), "operation.name"),
        (ABOUT, ({**ROW, "algorithm": "x" * 101}, ROW), "must be at most 100 characters"),
        (ABOUT, ({**ROW, "number": -1}, ROW), "operation.number = -1: must be between 0 and"),
        (ABOUT, ({**ROW, "bytes": 2**60}, ROW), "operation.bytes = 1152921504606846976: must be between 0 and"),
        (ABOUT, ({**ROW, "ranks": 3}, ROW), "operation.ranks = 3: more ranks than the job has"),
        (ABOUT, ({**ROW, "ranks": 0}, ROW), "operation.ranks = 0: must be between 1"),
        (ABOUT, ({**ROW, "job": 1}, ROW), "operation.job = 1: must be between 0 and 0"),
        (ABOUT, ({**ROW, "bytes": 6}, ROW), "operation = 0: differs between the flows of this operation"),
    ],
)
def test_malformed_operations_are_named(tmp_path, about, fields, says):
    with pytest.raises(SpecError) as caught:
        flows_from_parquet(with_operations(tmp_path / "f.parquet", about, fields), star(hosts=4))
    assert says in str(caught.value) and "f.parquet" in str(caught.value) and len(str(caught.value)) < 2000


def test_operations_need_not_be_numbered_without_gaps(tmp_path):
    fields = ({**ROW, "number": 70}, {**ROW, "number": 7, "name": "first"})
    flows = flows_from_parquet(with_operations(tmp_path / "f.parquet", fields=fields), star(hosts=4))
    assert flows.operations.number.tolist() == [1, 0] and [o.name for o in flows.operations.listed] == ["first", "send"]


scalars = st.one_of(st.none(), st.integers(-3, 3), st.integers(), st.text(max_size=3), st.booleans(), st.floats())
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=7), inner, max_size=3)
)


@given(
    about=st.one_of(
        st.text(max_size=20),
        st.fixed_dictionaries({"version": st.one_of(st.just(1), anything), "jobs": st.one_of(st.just([[0, 1]]), anything)}),
    ),
    changed=st.dictionaries(st.sampled_from([*ROW, "other"]), scalars, max_size=3),
    second=st.booleans(),
    src=st.integers(0, 3),
)
def test_any_operations_give_flows_or_a_spec_error(tmp_path_factory, about, changed, second, src):
    path = tmp_path_factory.mktemp("fuzz") / "f.parquet"
    row = {**ROW, **changed}
    try:
        with_operations(path, about, (row, row if second else None), src=(src, 0))
    except (pl.exceptions.PolarsError, OverflowError, ValueError, UnicodeError):  # the file itself cannot be written
        return
    try:
        flows = flows_from_parquet(path, star(hosts=4))
    except SpecError as error:
        assert "f.parquet" in str(error) and len(str(error)) < 3000
    else:
        run = simulate(star(hosts=4), flows, "fifo")
        assert run.frame("operations").height == len(flows.operations.listed)


@given(cut=st.integers(0, 2000), place=st.integers(0, 6000), content=st.binary(max_size=8))
def test_any_parquet_with_operations_gives_flows_or_a_spec_error(tmp_path_factory, content, cut, place):
    path = with_operations(tmp_path_factory.mktemp("fuzz") / "f.parquet")
    raw = bytearray(path.read_bytes())
    raw[place : place + len(content)] = content
    path.write_bytes(bytes(raw[:-cut] if 0 < cut < 50 else raw))
    try:
        flows_from_parquet(path, star(hosts=4))
    except SpecError as error:
        assert "f.parquet" in str(error)


def test_every_format_is_tested():
    assert sorted(FORMATS) == sorted([*VALID, "chakra"])
