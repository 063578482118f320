"""Logs of NCCL: what is together and what comes after what, ranks, prefixes, and the true reason of what cannot be read."""

import itertools
import json

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given
from test_traces import NCCL, written
from test_traces_formats import call, finishes, made, messages, world

from penstock_net.errors import SpecError
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload.traces import convert

NUMBERING = "the ranks of the program: no communicator has all GPUs, which are numbered by host and device"
GROUPS = "Send and Recv of which opCount does not say that they are of one group, taken together"


def message(gpu, address, nranks, peer, name, number=0, buffer="0x7f00", stream="0x5", more=""):
    line = call(gpu, address, nranks, 250_000, name, number)
    line = line.replace("sendbuff 0x1 recvbuff 0x2", f"sendbuff (nil) recvbuff {buffer}").replace("root 0", f"root {peer}")
    return line.replace("stream 0x5\n", f"stream {stream}{more}\n")


def sent(converted, hosts):
    """(src, start, end) of the messages in the order of their start, us."""
    flows = simulate(star(hosts=hosts), converted.flows, "pfc").flows.filter(pl.col("bytes") > 0)
    rows = flows.select("src", "start_ns", end=pl.col("start_ns") + pl.col("fct_ns")).rows()
    return sorted(((src, start / 1000, end / 1000) for src, start, end in rows), key=lambda row: (row[1], row))


def refusal(tmp_path, text):
    with pytest.raises(SpecError) as caught:
        convert(written(tmp_path, text, "f"), format="nccl")
    return str(caught.value).removeprefix(str(tmp_path / "f"))


# What comes after what


@pytest.mark.parametrize("numbers", [[0, 0, 0, 0], [0, 1, 2, 3], [0, 0, 1, 1]])
def test_collectives_of_a_stream_follow_one_another_whatever_opcount_says(tmp_path, numbers):
    log = world(4) + "".join(call(gpu, f"0xa{gpu}", 4, 1000, number=n) for n in numbers for gpu in range(4))
    rows = [row[2:] for row in finishes(convert(written(tmp_path, log)), 4) if row[:2] == (0, "all_reduce")]
    assert len(rows) == 4 and all(before[1] <= after[0] for before, after in itertools.pairwise(rows))
    assert rows[-1][1] == pytest.approx(52.04, abs=0.01)  # six messages of 1 KB, one after another, four times: by hand


@pytest.mark.parametrize("numbers", [[0, 0, 0], [0, 0, 1]])
def test_send_and_recv_of_a_group_are_together(tmp_path, numbers):
    """An exchange of all with all, twice: the second one begins when all of the first is there."""
    log = world(3)
    for turn, number in enumerate(numbers[1:]):
        for gpu in range(3):
            for peer in {0, 1, 2} - {gpu}:
                for name in ("Send", "Recv"):
                    log += message(gpu, f"0xa{gpu}", 3, peer, name, number, f"0x{name}{turn}{gpu}{peer}")
    converted = convert(written(tmp_path, log))
    rows = sent(converted, 3)
    assert [row[1] for row in rows[:6]] == [0] * 6 and rows[6][1] >= max(row[2] for row in rows[:6]) - 2
    assert converted.notes == ({GROUPS: 18} if set(numbers) == {0} else {})  # of each four calls three join the first


def test_what_a_group_has_received_is_sent_after_it(tmp_path):
    """A pipeline on one communicator whose opCount stays 0: rank 1 sends on what it receives."""
    log = world(3) + message(0, "0xa0", 3, 1, "Send")
    log += message(1, "0xa1", 3, 0, "Recv") + message(1, "0xa1", 3, 2, "Send") + message(2, "0xa2", 3, 1, "Recv")
    first, second = sent(convert(written(tmp_path, log)), 3)
    assert second[1] == first[2] > 0


def test_a_task_of_zero_begins_a_group(tmp_path):
    """RCCL counts the calls of a group."""
    log = world(3)
    for peer in (1, 2):
        log += message(0, "0xa0", 3, peer, "Send", 0, f"0x9{peer}", more=" task 0 globalrank 0")
        log += message(peer, f"0xa{peer}", 3, 0, "Recv", 0, "0x9", more=f" task 0 globalrank {peer}")
    together = log.replace("root 2 comm 0xa0 [nranks=3] stream 0x5 task 0", "root 2 comm 0xa0 [nranks=3] stream 0x5 task 1")
    assert together != log
    for text, after in ((log, True), (together, False)):
        first, second = sent(convert(written(tmp_path, text)), 3)
        assert (second[1] >= first[2]) == after and first[1] == 0


# Ranks


def test_communicators_of_two_are_numbered_by_host_and_device(tmp_path):
    """Across streams, what GPU 1 sends is what it has received: the second message comes after the first."""
    log = made(0, "0xa0", 0, 2, "commId 0x1 ") + made(1, "0xa1", 1, 2, "commId 0x1 ")
    log += made(1, "0xb1", 0, 2, "commId 0x2 ") + made(10, "0xb2", 1, 2, "commId 0x2 ")
    log += message(0, "0xa0", 2, 1, "Send", stream="0xc0a") + message(1, "0xa1", 2, 0, "Recv", stream="0xc1a")
    log += message(1, "0xb1", 2, 1, "Send", stream="0xc1b") + message(10, "0xb2", 2, 0, "Recv", stream="0xc2b")
    converted = convert(written(tmp_path, log))
    assert converted.notes == {NUMBERING: 3} and messages(converted.flows) == [(0, 1, 10**6), (1, 2, 10**6)]  # g10 after g1
    first, second = sent(converted, 3)
    assert second[1] == first[2] > 0
    last = message(1, "0xb1", 2, 1, "Send", stream="0xc1b")
    other = log.replace(last, last.replace("0x7f00", "0x8"))
    assert other != log and [row[1] for row in sent(convert(written(tmp_path, other)), 3)] == [0, 0]


def test_the_device_of_a_host_is_the_one_of_its_machine(tmp_path):
    """Each process sees one GPU, its device 0: nvmlDev says which it is."""
    log = ""
    for pid, device in ((31, 2), (32, 0), (33, 1)):
        for c, rank in ((device, 0), ((device + 1) % 3, 1)):
            log += f"n:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0x{c}{device} rank {rank} nranks 2 cudaDev 0 "
            log += f"nvmlDev {device} busId {device}b000 commId 0x{c} - Init COMPLETE\n"
    for pid, device in ((31, 2), (32, 0), (33, 1)):
        for c in (device, (device + 1) % 3):
            log += call(0, f"0x{c}{device}", 2, 250 * (c + 1), "Broadcast").replace("g0:100:100", f"n:{pid}:{pid}")
    assert messages(convert(written(tmp_path, log)).flows) == [(0, 2, 1000), (1, 0, 2000), (2, 1, 3000)]


# Prefixes

COLOUR, PLAIN = "\x1b[36m", "\x1b[0m"
PREFIXES = {
    "torchrun": "[default{rank}]:",
    "torchrun with role": "[trainer{rank}]: ",
    "srun": "{rank}: ",
    "srun, close": "{rank}:",
    "mpirun": "[1,{rank}]<stdout>:",
    "mpirun with host": "[{rank}] ",
    "ray": "(RayTrainWorker pid=61{rank}, ip=10.72.7.6) ",
    "ray in colours": COLOUR + "(Worker pid=61{rank}, ip=10.0.0.1)" + PLAIN + " ",
    "colours, close": COLOUR + "worker-{rank}:" + PLAIN,
    "colours shown": "^[[36m(Worker)^[[0m ",
    "kubectl": "[pod/job-worker-{rank}/main] ",
    "kubernetes": "2026-02-03T10:00:00.123456789Z stdout F ",
    "compose": "worker-{rank}  | ",
    "stern": "+ job-{rank} › main ",
    "time stamp of NCCL": "[2026-02-03 10:00:0{rank}] ",
    "time stamp": "2026-02-03 10:00:00,12{rank} INFO ",
    "two of them": "2026-02-03T10:00:00Z [default{rank}]:[rank{rank}]: ",
}


def prefixed(log, prefix):
    """The log with a prefix that says the rank before each line."""
    rank = {"a": 0, "b": 1}
    return "".join(prefix.format(rank=rank.get(line[:1], 0)) + line + "\n" for line in log.splitlines())


def same(one, other):
    return one.flows.to_frame().equals(other.flows.to_frame()) and (one.ranks, one.notes) == (other.ranks, other.notes)


@pytest.mark.parametrize("name", PREFIXES)
def test_a_log_is_read_through_a_prefix(tmp_path, name):
    expected = convert(written(tmp_path, NCCL))
    assert same(convert(written(tmp_path, prefixed(NCCL, PREFIXES[name]))), expected)
    assert same(convert(written(tmp_path, prefixed(NCCL, PREFIXES[name]).replace("\n", PLAIN + "\r\n"))), expected)


@given(parts=st.lists(st.sampled_from([*PREFIXES.values()]), max_size=4))
def test_prefixes_may_stand_one_before_another(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("log")
    assert same(convert(written(folder, prefixed(NCCL, "".join(parts)))), convert(written(folder, NCCL, "plain")))


@pytest.mark.parametrize("label", ["[0] ", "[Rank 0] ", "[Rank 0][1] "])
def test_labels_of_nccl_itself(tmp_path, label):
    assert same(convert(written(tmp_path, NCCL.replace("NCCL INFO ", "NCCL INFO " + label))), convert(written(tmp_path, NCCL)))


@pytest.mark.parametrize("form", ["docker", "another", "prefixed"])
def test_lines_within_json(tmp_path, form):
    lines = NCCL.splitlines(keepends=True)
    rows = {
        "docker": [json.dumps({"log": COLOUR + line, "stream": "stdout", "time": "2026-02-03T10:00:00Z"}) for line in lines],
        "another": [json.dumps({"level": "info", "message": "".join(lines)})],
        "prefixed": ["worker-0 " + json.dumps({"msg": line, "n": 1}) for line in lines],
    }[form]
    assert same(convert(written(tmp_path, "\n".join(rows)), format="nccl"), convert(written(tmp_path, NCCL)))


# What cannot be read


ALL = "AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 100 datatype 7 op 0 root 0 comm 0xa0 [nranks=2] stream 3"


@pytest.mark.parametrize(
    "old, new, says",
    [
        (ALL, ALL[:-20], ":4: "),
        (" stream 3\n", "\n", "the call AllReduce ends too early, or has another form: it has no stream"),
        ("count 100", "count", ":4: count: the call AllReduce has no value there"),
        ("count 100", "count many", ':4: count = "many": is not a number'),
        ("opCount 0", "opCount 0z", ':4: opCount = "0z": must be a hexadecimal number'),
        ("[nranks=2]", "[nranks=x]", ':4: nranks = "x": is not a number'),
        ("datatype 7", "datatype 7 count 5", ":4: count: occurs twice in this call; are two lines mixed?"),
        ("stream 3\n", "stream 3", ":4: two lines of the log have run into each other; let each process write its own file"),
        ("a:7:7 [0] NCCL INFO All", "NCCL INFO All", ":4: "),
        ("a:7:7 [0] NCCL INFO All", "rank0: NCCL INFO All", "nothing says whose call this is: before NCCL INFO must be host:"),
        ("stream 3\n", "stream 3 [repeated 3x across cluster]\n", ":4: Ray has left out lines that are like this one; set RAY_"),
        (
            "comm 0xa0 [",
            "comm 0xc0 [",
            ':4: "0xc0": nothing says which rank this GPU has in this communicator; log its line Init',
        ),
    ],
)
def test_the_line_and_the_true_reason(tmp_path, old, new, says):
    at = NCCL.index("a:7:7 [0] NCCL INFO AllReduce")
    assert says in refusal(tmp_path, NCCL[:at] + NCCL[at:].replace(old, new, 1))


def test_without_ranks_the_first_call_is_named(tmp_path):
    message = refusal(tmp_path, "\n".join(NCCL.split("\n")[3:]))
    assert message.startswith(":1: no communicator has all 2 GPUs of the log, and nothing says which rank this one has in 0xa0; ")


def test_a_field_that_is_not_known_is_said(tmp_path):
    converted = convert(written(tmp_path, NCCL.replace("op 0 root", "algo ring op 0 root")))
    assert converted.notes == {"the field algo of calls": 4}
    assert converted.flows.to_frame().equals(convert(written(tmp_path, NCCL)).flows.to_frame())
