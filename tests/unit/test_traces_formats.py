"""Importers of traces: communicators made of others, workloads of AICB, and what a rank of a Chakra trace does in turn."""

from itertools import pairwise

import pytest
from test_traces import AICB, AICB_HEADER, AICB_STAGES, NCCL, chakra_files, node, written

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload.traces import convert

US = 10**6


def messages(flows):
    """(src, dst, bytes) of all messages, sorted."""
    sent = ~flows.computes
    return sorted(zip(flows.src[sent].tolist(), flows.dst[sent].tolist(), flows.bytes[sent].tolist()))


def finishes(converted, hosts):
    """When each operation starts and ends, by kind, in us."""
    run = simulate(star(hosts=hosts), converted.flows, "pfc")
    rows = run.frame("timeline").sort("rank", "start_ns").iter_rows(named=True)
    return [(row["rank"], row["kind"], row["start_ns"] / 1000, row["finish_ns"] / 1000) for row in rows]


# NCCL

WHO = "g{node}:{pid}:{pid} [0] NCCL INFO "
INIT = WHO + "{by} comm {address} rank {rank} nranks {nranks} cudaDev 0 nvmlDev 0 busId 1b000 {rest}- Init COMPLETE\n"
CALL = WHO + (
    "{name}: opCount {number} sendbuff 0x1 recvbuff 0x2 count {count} datatype 7 op 0 root 0 comm {address} [nranks={nranks}] "
    "stream 0x5\n"
)
GONE = WHO + "comm {address} rank 0 nranks 2 cudaDev 0 busId 1 - Destroy COMPLETE\n"


def made(gpu, address, rank, nranks, rest, by="ncclCommInitRank"):
    return INIT.format(node=gpu, pid=100 + gpu, by=by, address=address, rank=rank, nranks=nranks, rest=rest)


def call(gpu, address, nranks, count, name="AllReduce", number=0):
    return CALL.format(node=gpu, pid=100 + gpu, name=name, number=number, count=count, address=address, nranks=nranks)


def world(ranks):
    return "".join(made(gpu, f"0xa{gpu}", gpu, ranks, "commId 0x77 ") for gpu in range(ranks))


@pytest.mark.parametrize(
    "rest",
    [
        "parent {parent} splitCount 1 color {color} key 0 commId 0x8{color} ",
        "parent {parent} splitCount 1 color {color} key 0 ",
        "parent {parent} childCount 2 color {color} key 0",
        "parent {parent} color {color} key 0 commId 0x8{color} localSize 9 used 5 bytes on core 3 ",
    ],
)
@pytest.mark.parametrize("by", ["ncclCommSplit", "ncclCommShrink"])
def test_communicators_made_of_another(tmp_path, rest, by):
    log = world(4)
    for gpu in range(4):
        log += made(gpu, f"0xb{gpu}", gpu % 2, 2, rest.format(parent=f"0xa{gpu}", color=gpu // 2), by)
    log += "".join(call(gpu, f"0xb{gpu}", 2, 250_000) for gpu in range(4))
    converted = convert(written(tmp_path, log))
    assert messages(converted.flows) == sorted([(a, b, 500_000) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))] * 2)


def test_the_same_split_twice_makes_two_communicators(tmp_path):
    log = world(2)
    for number in range(2):
        for gpu in range(2):
            log += made(gpu, f"0x{number}b{gpu}", gpu ^ number, 2, f"parent 0xa{gpu} color 0 key 0 commId 0x8 ", "ncclCommSplit")
    log += "".join(call(gpu, f"0x1b{gpu}", 2, 250, "Broadcast") for gpu in range(2))
    assert messages(convert(written(tmp_path, log)).flows) == [(1, 0, 1000)]  # rank 0 of the second one is GPU 1


@pytest.mark.parametrize("ids", ["start", "none"])
def test_a_communicator_that_grows(tmp_path, ids):
    """Old members say what it grew from, new ones its id; Init START says the id to both."""
    log = made(0, "0xa0", 0, 2, "commId 0x77 ") + made(1, "0xa1", 1, 2, "commId 0x77 ")
    for gpu in range(3):
        if ids == "start":
            start = made(gpu, f"0xb{gpu}", gpu, 3, "commId 0x99 ", f"[Rank {gpu}] ncclCommGrow")
            log += start.replace("COMPLETE", "START")
        rest = f"parent 0xa{gpu} childCount 1 color 0 key 0 " if gpu < 2 else "commId 0x99 "
        log += made(gpu, f"0xb{gpu}", gpu, 3, rest, "ncclCommGrow")
    log += "".join(call(gpu, f"0xb{gpu}", 3, 3000, "AllGather") for gpu in range(3))
    assert sum(size for _, _, size in messages(convert(written(tmp_path, log)).flows)) == 3 * 2 * 12_000


@pytest.mark.parametrize("freed", ["", GONE])
def test_the_address_of_a_freed_communicator_is_used_again(tmp_path, freed):
    log = world(2) + "".join(made(gpu, f"0xb{gpu}", gpu, 2, "commId 0x80 ") for gpu in range(2))
    log += "".join(call(gpu, f"0xb{gpu}", 2, 100, "Broadcast") for gpu in range(2))
    log += "".join(freed.format(node=gpu, pid=100 + gpu, address=f"0xb{gpu}") for gpu in range(2))
    log += "".join(made(gpu, f"0xb{gpu}", 1 - gpu, 2, "commId 0x81 ") for gpu in range(2))
    log += "".join(call(gpu, f"0xb{gpu}", 2, 200, "Broadcast") for gpu in range(2))
    assert messages(convert(written(tmp_path, log)).flows) == [(0, 1, 400), (1, 0, 800)]


@pytest.mark.parametrize("name", ["AlltoAll", "AllToAll", "AllToAllPivot"])
def test_all_to_all_by_any_of_its_names(tmp_path, name):
    log = world(4) + "".join(call(gpu, f"0xa{gpu}", 4, 1000, name) for gpu in range(4))
    expected = [(a, b, 4000) for a in range(4) for b in range(4) if a != b]
    assert messages(convert(written(tmp_path, log)).flows) == expected


@pytest.mark.parametrize("name", ["AllReduce", "Send"])
def test_communicators_of_the_same_ranks_are_told_apart(tmp_path, name):
    """Two of them, each in a stream of its own; the ranks begin with another one. Calls of one communicator belong together."""
    text = "".join(made(gpu, f"0x{c}{gpu}", gpu, 2, f"commId 0x{c} ", by="ncclCommInitRank") for c in (1, 2) for gpu in (0, 1))
    for gpu in (0, 1):
        for c in (1, 2)[:: 1 - 2 * gpu]:
            verb = name if name == "AllReduce" or gpu == 0 else "Recv"
            line = call(gpu, f"0x{c}{gpu}", 2, 1000 * c, name=verb).replace("stream 0x5", f"stream 0x{c}")
            text += line.replace("root 0", f"root {1 - gpu}")
    sent = messages(convert(written(tmp_path, text)).flows)
    assert sorted({size for _, _, size in sent}) == ([4000, 8000] if name == "Send" else [2000, 4000])


def test_the_log_of_two_runs_is_refused(tmp_path):
    with pytest.raises(SpecError, match="rank 0 of the communicator 0x9 is there twice"):
        convert(written(tmp_path, NCCL + NCCL))


# SimAI and AICB


def test_a_micro_benchmark_has_its_collectives_in_turn(tmp_path):
    text = "MICRO\n2\nx\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLREDUCE\t4000\t1\nx\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLGATHER\t800\t1\n"
    converted = convert(written(tmp_path, text), ranks=4)
    listed = [operation.kind for operation in converted.flows.operations.listed if operation.ranks == 4]
    assert converted.format == "simai" and listed == ["all_reduce", "all_gather"]
    rows = [row for row in finishes(converted, 4) if row[1].startswith("all") and row[0] == 0]
    assert [row[1] for row in rows] == ["all_reduce", "all_gather"] and rows[0][3] <= rows[1][2]
    with pytest.raises(SpecError, match="the number of ranks is not in the file; give --ranks N"):
        convert(written(tmp_path, text))


ASTRA = """\
{policy}
3
embed  -1 5 {forward} 5 {inputs} 10 {weights} 1
block  -1 3 {forward} 3 {inputs} 7 {weights} 2
head   -1 2 {forward} 2 {inputs} 4 {weights} 4
"""


def astra(tmp_path, policy, forward="NONE 0", inputs="NONE 0", weights="ALLREDUCE 4000000", ranks=4):
    text = ASTRA.format(policy=policy, forward=forward, inputs=inputs, weights=weights)
    return convert(written(tmp_path, text), ranks=ranks)


def test_data_of_astra_runs_the_collectives_of_weights_after_each_backward(tmp_path):
    """Forward 10 ns; weights of the head 4, inputs 2, weights of the block 7, inputs 3, weights of the embedding 10: by hand."""
    converted = astra(tmp_path, "DATA")
    assert converted.format == "astra" and converted.notes == {}
    rows = [row for row in finishes(converted, 4) if row[0] == 0]
    gradients = [row for row in rows if row[1] == "all_reduce"]
    assert [row[2] for row in gradients][:1] == [0.014] and len(gradients) == 3
    assert all(after[2] >= before[3] for before, after in pairwise(gradients))  # beside the computation, one after another
    assert max(row[3] for row in rows if row[1] == "compute" and row[2] < 0.1) == 0.036
    noted = astra(tmp_path, "DATA", "ALLREDUCE 400", "ALLGATHER 400")
    assert noted.notes == {"collectives of the forward pass and of inputs, which DATA does not run": 4 * 6}
    assert messages(noted.flows) == messages(converted.flows)


def test_model_of_astra_runs_the_others(tmp_path):
    converted = astra(tmp_path, "MODEL", "ALLGATHER 4000", "ALLREDUCE 4000")
    inputs, weights = (
        f"collectives of {what}, which MODEL does not run" for what in ("the inputs of the first layer", "weights")
    )
    assert converted.notes == {inputs: 4, weights: 12}
    listed = [operation.name for operation in converted.flows.operations.listed if operation.ranks == 4]
    assert sorted(listed) == ["backward block", "backward head", "forward block", "forward embed", "forward head"]
    rows = [row for row in finishes(converted, 4) if row[0] == 0]
    reduced = [row for row in rows if row[1] == "all_reduce"]
    beside = [row for row in rows if row[1] == "compute" and row[2] == reduced[0][2]]
    assert [round(row[3] - row[2], 6) for row in beside] == [0.004]  # the weights of the head


def test_hybrid_transformer_of_astra_is_that_of_simai(tmp_path):
    given = {"forward": "ALLREDUCE 4000", "inputs": "ALLREDUCE 400"}
    mine = astra(tmp_path, "HYBRID_TRANSFORMER model_parallel_NPU_group: 2", **given)
    other = astra(tmp_path, "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2", **given)
    assert (mine.format, other.format) == ("astra", "simai") and mine.flows.to_frame().equals(other.flows.to_frame())


@pytest.mark.parametrize(
    "policy, says",
    [
        ("HYBRID_TRANSFORMER", "model_parallel_NPU_group: is not in the file, so that the groups are dimensions of a network"),
        ("HYBRID_MODEL_DATA", "this is a workload of ASTRA-sim 1.0 of the policy HYBRID_MODEL_DATA; only HYBRID_TRANSFORMER_FWD"),
        ("HYBRID_DLRM 2", "this is a workload of ASTRA-sim 1.0 of the policy HYBRID_DLRM; only"),
        ("DATA ep: 2", '"ep: 2": only HYBRID_TRANSFORMER_FWD_IN_BCKWD and HYBRID_TRANSFORMER have more words in this line'),
    ],
)
def test_policies_of_astra_refused_by_name(tmp_path, policy, says):
    with pytest.raises(SpecError) as caught:
        astra(tmp_path, policy)
    assert says in str(caught.value)


def test_a_workload_of_aicb(tmp_path):
    converted = convert(written(tmp_path, AICB))
    assert (converted.format, converted.ranks) == ("aicb", 4)
    assert converted.notes == {"measured times of collectives (_elapsed_time)": 4}
    sent = messages(converted.flows)
    assert (0, 1, 800) in sent and (2, 3, 800) in sent and sent.count((0, 1, 500)) == 2  # tensor: neighbours
    assert (0, 2, 300) in sent and (3, 1, 300) in sent  # data: every second rank
    assert sorted(set(converted.flows.gap_ps.tolist())) == [0, 2_500 * US]
    assert [o.name for o in converted.flows.operations.listed if o.kind == "all_gather"] == ["step", "step"]


def test_pipeline_stages_of_aicb(tmp_path):
    converted = convert(written(tmp_path, AICB_STAGES))
    sent = messages(converted.flows)
    assert converted.ranks == 4 and (0, 2, 500) in sent and (1, 3, 500) in sent
    assert (0, 1, 32) in sent and (2, 3, 32) in sent
    assert converted.notes == {"collectives of the embedding group, which not both of its stages call": 2}


def test_messages_of_aicb_beside_each_other_are_handed_over_together(tmp_path):
    """Each stage asks for what the other one sends before it sends itself, as between two microbatches; then both go on."""
    row = "CommType.{},CommGroup.pp_group,1,5000,forward_step,None,None,{},None,None,None,1\n"
    after = "CommType.all_reduce,CommGroup.all,2,64,step,None,None,,None,None,None,1\n"
    parts = []
    for stage, to in ((0, "next"), (1, "prev")):
        rows = [row.format("irecv", "recv_" + to), row.format("isend", "send_" + to), after]
        parts.append(f"[ pp_stage{stage}: [rank{stage}] ]\n{AICB_HEADER}{''.join(rows)}")
    rows = finishes(convert(written(tmp_path, "".join(parts))), 2)
    sent = [row for row in rows if row[1] == "send"]
    assert {row[2] for row in sent} == {0}
    assert min(row[2] for row in rows if row[1] == "all_reduce") >= max(row[3] for row in sent) > 0


def test_what_is_left_out_is_told_when_nothing_is_sent(tmp_path):
    text = "MICRO\n1\nx -1 1 NONE 0 1 NONE 0 1 ALLREDUCE_TP 4000 1\n"
    with pytest.raises(SpecError) as caught:
        convert(written(tmp_path, text), ranks=4)
    says = "nothing is sent; not in the flows: collectives of groups of one rank (TP) (4); is it the right file?"
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("[rank0 ~ rank3]\n", "", "f: ranks: the number of ranks is not in the file; give --ranks N"),
        ("[rank0 ~ rank3]", "[rank0 ~ rank4]", "5 ranks are not divided into PP 1, TP 2, DP 2; is the file complete?"),
        ("[rank0 ~ rank3]", "[rank 0]", 'f:1: "[rank 0]": expected [rank0 ~ rankN]'),
        ("tp_group,2,1000", "tp_group,4,1000", "f:5: comm_group_size = 4: was 2 for tp_group before"),
        ("tp_group,2,1000", "xp_group,2,1000", 'f:5: comm_group = "xp_group": this group is not known'),
        (
            "CommType.all_reduce",
            "CommType.all_reduced",
            'f:5: comm_type = "all_reduced": is not known; did you mean "all_reduce"?',
        ),
        ("2,1000,forward.layer,", "2,1000,", "f:5: 11 columns, but the header has 12; is the file truncated?"),
        (",2.5,", ",x,", 'f:4: _elapsed_time = "x": is not a number of ms'),
        ("comm_group,", "comm_groups,", "f:3: "),
    ],
)
def test_workloads_of_aicb_refused(tmp_path, old, new, says):
    text = AICB.replace(old, new, 1)
    if old.startswith("[") and not new:
        text = text.replace("dp_group,2", "dp_group,None").replace("CommGroup.all,4", "CommGroup.all,None")
    with pytest.raises(SpecError) as caught:
        convert(written(tmp_path, text, "f"), format="aicb")
    assert says in str(caught.value)


def test_ranks_of_a_workload_of_aicb_that_does_not_say(tmp_path):
    row = "CommType.all_reduce,CommGroup.dp_group,{},4096,warmup,None,None,,None,None,None,1\n"
    path = written(tmp_path, AICB_HEADER + row.format("None"))
    assert convert(path, ranks=3).ranks == 3
    assert convert(written(tmp_path, AICB_HEADER + row.format(5))).ranks == 5
    with pytest.raises(SpecError, match="ranks = 7: the file names 4 ranks; leave it out"):
        convert(written(tmp_path, AICB), ranks=7)


# Chakra


def one_rank(tmp_path, *nodes):
    """A trace in which rank 0 has these nodes, and both ranks the all-reduce that waits for them."""
    last = node(90, 7, after=[n for n, _ in nodes], comm_type=0, comm_size=1000)
    return chakra_files(tmp_path, [*(made for _, made in nodes), last], [node(90, 7, comm_type=0, comm_size=1000)])


def computed(converted):
    """(start, end) of the computations of rank 0, us."""
    return [(row[2], row[3]) for row in finishes(converted, 2) if row[:2] == (0, "compute")]


def test_a_rank_runs_one_kernel_at_a_time(tmp_path):
    folder = one_rank(tmp_path, (1, node(1, 4, us=100, is_cpu_op=False)), (2, node(2, 4, us=100, is_cpu_op=False)))
    assert computed(convert(folder)) == [(0, 100), (100, 200)]
    assert computed(convert(folder, concurrent=True)) == [(0, 100), (0, 100)]


def test_a_processor_runs_beside_kernels(tmp_path):
    nodes = [(n, node(n, 4, us=100, is_cpu_op=n > 2)) for n in (1, 2, 3, 4)]
    assert computed(convert(one_rank(tmp_path, *nodes))) == [(0, 100), (0, 100), (100, 200), (100, 200)]


def test_kernels_of_a_stream_take_turns(tmp_path):
    nodes = [(n, node(n, 4, us=50 * n, is_cpu_op=False, stream=n % 2)) for n in (1, 2, 3, 4)]
    assert computed(convert(one_rank(tmp_path, *nodes))) == [(0, 50), (0, 100), (50, 200), (100, 300)]


def test_the_kernel_that_can_begin_first_is_first(tmp_path):
    """A kernel that waits for its processor does not hold up one that is later in the file."""
    first = node(1, 4, us=30, is_cpu_op=True)
    nodes = [(1, first), (2, node(2, 4, us=10, after=[1], is_cpu_op=False)), (3, node(3, 4, us=100, is_cpu_op=False))]
    assert computed(convert(one_rank(tmp_path, *nodes))) == [(0, 30), (0, 100), (100, 110)]


def test_collectives_of_a_group_take_turns(tmp_path):
    def ranks(*groups):
        return [
            [node(n, 7, comm_type=0, comm_size=100_000, pg_name=name) for n, name in enumerate(groups, start=1)] for _ in range(2)
        ]

    def begins(*groups):
        rows = finishes(convert(chakra_files(tmp_path, *ranks(*groups))), 2)
        return [row[2] for row in rows if row[0] == 0 and row[1] == "all_reduce"]

    one, other = begins("a", "a"), begins("a", "b")
    assert one[0] == 0 and one[1] > 10 and other == [0, 0]
    rows = finishes(convert(chakra_files(tmp_path, *ranks("a", "a")), concurrent=True), 2)
    assert [row[2] for row in rows if row[1] == "all_reduce"] == [0, 0, 0, 0]


def test_turns_of_ranks_do_not_contradict_each_other(tmp_path):
    """Kernels on both sides of collectives of two groups, in an order that only a run of both ranks gives."""
    ranks = []
    for rank in range(2):
        nodes = [node(1, 4, us=5 + 20 * rank, is_cpu_op=True)]
        nodes.append(node(2, 4, us=10, after=[1], is_cpu_op=False))
        nodes.append(node(3, 7, after=[2], comm_type=0, comm_size=1000, pg_name="a"))
        nodes.append(node(4, 7, after=[3] if rank else [], comm_type=0, comm_size=1000, pg_name="b"))
        nodes.append(node(5, 4, us=10, after=[4], is_cpu_op=False))
        ranks.append(nodes)
    converted = convert(chakra_files(tmp_path, *ranks))
    run = simulate(star(hosts=2), converted.flows, "pfc")
    assert run.flows.height == 2 * 4 and run.flows["fct_ns"].null_count() == 0


def test_groups_of_the_same_ranks_are_told_apart(tmp_path):
    """The ranks call collectives of two groups, in another order each."""
    sizes = {"a": 1000, "b": 3000}
    ranks = [
        [node(n, 7, comm_type=0, comm_size=sizes[name], pg_name=name) for n, name in enumerate(names, start=1)]
        for names in ("ab", "ba")
    ]
    assert [size for _, _, size in messages(convert(chakra_files(tmp_path, *ranks)).flows)] == [500, 500, 1500, 1500] * 2


@pytest.mark.parametrize("turns", [True, False])
def test_a_circle_names_concurrent_where_that_helps(tmp_path, turns):
    """Two ranks run the collectives of two groups in one stream, each in another order; or wait for them in a circle anyway."""
    names = ["a", "b"]
    ranks = []
    for rank in range(2):
        order = names[:: 1 - 2 * rank]
        more = {} if turns else {"after": [1]}
        first, second = (
            node(n, 7, comm_type=0, comm_size=1000, pg_name=name, **({"stream": 1} if turns else more if n == 2 else {}))
            for n, name in enumerate(order, start=1)
        )
        ranks.append([first, second])
    folder = chakra_files(tmp_path, *ranks)
    with pytest.raises(SpecError) as caught:
        convert(folder)
    assert "waits for itself" in str(caught.value)
    assert ("with --concurrent only dependencies delay a node" in str(caught.value)) == turns
    if turns:
        assert len(messages(convert(folder, concurrent=True).flows)) == 8


def test_a_circle_of_another_format_does_not_name_concurrent(tmp_path):
    text = "num_ranks 2\nrank 0 {\na: calc 5\nb: send 5b to 1 tag 0\na requires b\nb requires a\n}\n"
    text += "rank 1 {\nrecv 5b from 0 tag 0\n}\n"
    with pytest.raises(SpecError, match="waits for itself; remove the circle"):
        convert(written(tmp_path, text), format="goal")


def test_parents_that_are_missing(tmp_path, capsys):
    folder = chakra_files(
        tmp_path, [node(1, 5, after=[7, 8], comm_dst=1, comm_size=9)], [node(1, 6, after=[7], comm_src=0, comm_size=9)]
    )
    with pytest.raises(
        SpecError, match="node 1: waits for node 7, which is not in the file; --missing-parents leaves such waits out"
    ):
        convert(folder)
    assert main(["convert", str(folder), str(tmp_path / "x.parquet"), "--missing-parents"]) == 0
    assert "not in the flows: nodes that nodes wait for, and that are not in the file (3)" in capsys.readouterr().err


# htsim


@pytest.mark.parametrize("second", ["id 1 msg start 0 size 8192", "id 1 start 0 size 8192 msg", "id 1 msg 7 start 0 size 8192"])
def test_messages_without_a_number(tmp_path, second):
    lines = ["Nodes 3", "Connections 3", "0->1 id 1 msg start 0 size 4096", f"0->1 {second}", "2->1 id 2 msg 4 start 5 size 9"]
    assert messages(convert(written(tmp_path, "\n".join(lines))).flows) == [(0, 1, 4096), (0, 1, 8192), (2, 1, 9)]


def test_connections_without_end_are_listed(tmp_path):
    converted = convert(written(tmp_path, "Nodes 2\nConnections 1\n0->1 start 0 size 0\n"))
    assert messages(converted.flows) == [(0, 1, 10**12)]
    assert converted.notes == {"connections without end (size 0), which end after 1000000000000 bytes here": 1}
