"""Broken schemes: each kind of fault in each kind of hook ends in an error with line, hook, node and time; never in a signal.

The faults that show in a run only are in one file, so that it is compiled once; a parameter chooses the one that happens.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock_net
from penstock_net.composition.faults import TEXTS, names

DECLARATIONS = """
parameters = {
    "fault": ("int32 0..1000", 0, "the one that happens"),
    "zero": ("int32", 0, "0"),
    "far": ("int32", 77, "an index that nothing has"),
    "big": ("bytes", 1000000000000000000, "whose products overflow"),
    "huge": ("float64", 1e300, "whose square is infinite"),
}
scheme_state = {"out": "int64", "few": "int32[4]"}
node_state = {"table": "int32[4]", "bitmap": "mask[2]", "wide": "int64[ports * 100]"}
port_state = {"small": "int8", "records": "entry[3]", "sent": "int64[hosts]", "others": "entry[hosts]"}
structs = {"entry": {"x": "int64", "y": "float64"}}
packet_state = {"hops": "int32", "links": "entry[5]"}
frame_state = {"told": "int64"}
flow_state = {"w": "float64"}
fabric = {"voqs": 4}
"""
# hook -> faults: (code, fault, what the interpreted core says, "" if it sees nothing)
FAULTS = {
    "set_up": [
        ("me.out = 7 // me.zero", "DIVISION", "zero"),
        ("me.few[me.far] = 1", "INDEX", "range"),
    ],
    "set_up_node": [
        ("my_node(me, node).table[me.far] = 1", "INDEX", "range"),
        ("my_node(me, node).wide[-1 - me.zero] = 1", "INDEX", ""),
        ("port_at(node, node.port_count)", "INDEX", "port"),
    ],
    "set_up_port": [
        ("my_port(me, port).small = 100 + me.far", "FIT", "fit"),
        ("records_at(my_port(me, port), 3 + me.zero).x = 1", "INDEX", "records"),
    ],
    "choose_port": [
        ("return node.port_count + me.zero", "INDEX", None),
        ("me.out = port_towards(node, pkt, -1 - me.zero).slot", "INDEX", ""),
    ],
    "choose_path": [
        ("return path_count(node, pkt)", "INDEX", None),
        ("return path_at(node, pkt, me.far).slot", "INDEX", ""),
    ],
    "admit": [
        ("return me.huge * me.huge > 1.0", "FINITE", ""),
        ("return 1 << me.far", "SHIFT", ""),
    ],
    "choose_voq": [
        ("return 4 + me.zero", "INDEX", None),
        ("me.out = voq_at(node, 0).head.size", "NULL", "NoneType"),
    ],
    "choose_queue": [
        ("return me.far", "INDEX", None),
        ("me.out = node.now * me.big", "OVERFLOW", "fit"),
    ],
    "on_enqueue": [
        ("me.out = queue_at(port, me.far).bytes", "INDEX", "queue"),
        ("set_bit(my_node(me, node).bitmap, 128 + me.zero)", "INDEX", "range"),
        ("release(node, me.far)", "INDEX", ""),
    ],
    "on_dequeue": [
        ("me.out = my_packet(me, pkt).hops + links_at(my_packet(me, pkt), 3).x", "STALE", ""),
        ("send_control(node, me.far, me.at.kind, PAUSE, 0, 0)", "INDEX", ""),
        ("send_control(node, 0, DATA, PAUSE, 0, 0)", "KIND", ""),
    ],
    "on_control": [
        ("me.out = my_frame(me, pkt).told", "STALE", ""),
        ("me.out = queue_at(port, value_of(pkt) + me.far).bytes", "INDEX", "queue"),
        ("send_frame(node, 0, pkt)", "SENT", ""),
    ],
    "on_link_change": [("me.out = queue_at(port, me.far).bytes", "INDEX", "queue")],
    "on_timer": [
        ("set_timer(node, me.at.index, node.now - 1)", "PAST", ""),
        ("set_timer(node, me.at.index, node.now)", "REPEAT", ""),
        ("me.out = draw(node, me.far)", "INDEX", "range"),
        ("pause_port(node, port_at(node, 0), 0)", "PAUSE_BIT", ""),
    ],
    "on_start": [
        ("set_rate(flow, float(me.zero))", "RATE", "zero"),
        ("flow.window = whole(me.huge)", "WHOLE", "fit"),
        ("flow.fc_gap = 1.0 / me.zero", "DIVISION", "zero"),
    ],
    "on_send": [
        ("me.out = my_packet(me, pkt).hops", "STALE", ""),
        ("my_flow(me, flow).w = sqrt(-1.0 - me.zero)", "ROOT", "math domain"),
        ("my_flow(me, flow).w = log(float(me.zero))", "LOG", ""),
        ("pkt.size = 10", "LEAST", ""),
        ("my_port(me, port_of(flow)).sent[me.zero] = 1", "INDEX", "NoneType"),
        ("others_at(my_port(me, port_of(flow)), me.zero).x = 1", "INDEX", "NoneType"),
    ],
    "on_ack": [
        ("while me.zero == 0: me.out = 1", "ENDLESS", "rounds"),
        ("flow.window = flow.size % me.zero", "DIVISION", "zero"),
        ("flow.window = me.zero - 5", "LEAST", ""),
        ("me.out = lowest_bit(my_node(me, node).bitmap[0])", "NO_BIT", ""),
        ("my_node(me, node).bitmap[0] = me.zero - 1", "NEGATIVE", ""),
    ],
    "on_finish": [
        ("my_frame(me, new_frame(node, me.at.kind, PAUSE)).told = my_node(me, node).table[me.far]", "INDEX", "range"),
        ("send_to_host(node, me.far, new_frame(node, me.at.kind, 9))", "INDEX", ""),
        ("again(me, node)", "SENT", ""),
    ],
}
# The hooks that make a scheme a transport of its own, in another file; a switch drops its first packet and sends back its second
TRANSPORT = {
    "admit": [],
    "on_ack": [],
    "on_drop": [
        ("me.out = queue_at(port, me.far).bytes", "INDEX", "queue"),
        ("drop_queued(node, port, queue_at(port, port.queue_count + me.zero), pkt)", "INDEX", "queue"),
    ],
    "next_queue": [
        ("return port.bytes // me.zero", "DIVISION", "zero"),
        ("wake_port(node, port, node.now - 1)", "PAST", ""),
    ],
    "rank_packet": [
        ("return port.bytes // me.zero", "DIVISION", "zero"),
        ("me.out = earliest_packet(node, port_at(node, 1 - port.slot), pkt).size", "NULL", "NoneType"),
    ],
    "on_return": [
        ("send_from(node, flow, flow.sent + 1 + me.zero)", "INDEX", ""),
        ("flow.window = whole(me.huge)", "WHOLE", "fit"),
    ],
    "choose_packet": [
        ("return flow.size // me.zero", "DIVISION", "zero"),
        ("return node.now * me.big", "OVERFLOW", ""),
    ],
    "on_data": [
        ("set_flow_timer(node, incoming, node.now - 1)", "PAST", ""),
        ("me.out = incoming_at(node, 1 << 20).received", "NULL", "NoneType"),
        ("me.out = first_ranked(node).received", "NULL", "NoneType"),
        ("send_with_data(node, me.far, new_frame(node, me.at.kind, 1))", "INDEX", ""),
    ],
    "on_control": [],
    "on_arrival": [("me.out = queue_at(port, me.far).bytes", "INDEX", "queue")],
    "on_flow_timer": [
        ("my_node(me, node).table[me.far] = 1", "INDEX", "range"),
        ("rank_incoming(node, incoming, node.now * me.big)", "OVERFLOW", "fit"),
    ],
    "on_timeout": [
        ("flow.window = me.zero - 5", "LEAST", ""),
        ("send_from(node, flow, -1 - me.zero)", "INDEX", ""),
    ],
    "on_expiry": [("my_node(me, node).table[me.far] = 1", "INDEX", "range")],
    "on_loss": [("me.out = flow.lost // me.zero", "DIVISION", "zero")],
}
FILES = {"broken": FAULTS, "transport": TRANSPORT}
RETURNS = {
    "choose_port": "-1",
    **{"choose_path": "0", "choose_voq": "-1", "choose_queue": "0", "admit": "1", "on_data": "1", "choose_packet": "-1"},
    "next_queue": "backlogged(me, port)",
    "rank_packet": "pkt.seq",
}
HELPERS = """
def backlogged(me, port):
    i = 0
    while i < port.queue_count:
        if queue_at(port, i).length > 0 and not queue_at(port, i).paused:
            return i
        i += 1
    return -1


def again(me, node):
    frame = new_frame(node, me.at.kind, PAUSE)
    send_frame(node, 0, frame)
    send_frame(node, 0, frame)
"""
ALWAYS_OF_TRANSPORT = {
    "admit": [
        "if me.fault > 0 and pkt.kind == DATA and my_node(me, node).table[0] < 2:",
        "    my_node(me, node).table[0] += 1",
        "    return DROPPED if my_node(me, node).table[0] == 1 else RETURN",
    ],
    "on_ack": ["if me.fault > 0 and pkt.seq < flow.size:", "    flow.resend = 1", "    report_loss(node, flow, 0)"],
    "on_data": ["if incoming.heap_at < 0:", "    set_flow_timer(node, incoming, node.now + 1000)"],
    "on_timeout": ["send_from(node, flow, flow.acked)"],
}
ALWAYS = {  # so that every hook is called
    "on_send": ["if me.fault == {any}:", "    my_packet(me, pkt).hops = 0"],
    "on_ack": ["if me.fault > 0:", "    wake_by(node, me.at.index, node.now + 1000)"],
    "on_enqueue": [
        "if me.fault > 0 and port_at(node, pkt.in_port).pauses_sent == 0:",
        "    send_control(node, pkt.in_port, me.at.kind, PAUSE, 1, 0)",
    ],
}


def broken(name: str) -> tuple[str, dict[int, tuple[str, int, str, str | None]]]:
    """The file, and by number of the fault: hook, line, fault and what the interpreted core says."""
    from penstock_net.composition.hooks import HOOKS

    lines = (DECLARATIONS + HELPERS).splitlines()
    faults: dict[int, tuple[str, int, str, str | None]] = {}
    codes = [code for found in FILES[name].values() for code, _, _ in found]
    stale = [i for i, code in enumerate(codes, 1) if "links_at" in code]
    always = ALWAYS if FILES[name] is FAULTS else ALWAYS_OF_TRANSPORT
    for hook, found in FILES[name].items():
        lines += ["", "", f"def {hook}({', '.join(['me', *HOOKS[hook].arguments.split()])}):"]
        lines += ["    " + line.format(any=stale and stale[0]) for line in always.get(hook, [])] or ["    me.out = 0"]
        for code, fault, python in found:
            number = len(faults) + 1
            lines += [f"    if me.fault == {number}:", "        " + code.replace(": ", ":\n            ")]
            lines = "\n".join(lines).splitlines()
            line = len(lines) - code.startswith("while")
            if code == "again(me, node)":
                line = max(i for i, text in enumerate(lines, 1) if "send_frame(node, 0, frame)" in text)
            faults[number] = hook, line, fault, python
        if hook in RETURNS:
            lines.append(f"    return {RETURNS[hook]}")
    return "\n".join(lines) + "\n", faults


RUN = """
import json, sys
if sys.argv[2] == "interpreted":
    from penstock_net.sim.interpreted import install
    install()
from penstock_net.errors import SchemeError
from penstock_net.testing.cases import run_case
changes = [{"time": "9us", "a": "tor1", "b": "spine1", "up": False}]
topology = {"kind": "leaf_spine", "hosts": 4, "tors": 2, "spines": 2, "changes": changes}
flows = [[0, 3, 3000, "0us"], [1, 3, 3000, "0us"], [2, 0, 3000, "1us"]]
for fault in map(int, sys.argv[3:]):
    try:
        run_case({"topology": topology, "flows": flows, "scheme": sys.argv[1], "parameters": {"fault": fault}})
        said = ""
    except SchemeError as error:
        said = str(error)
    print(json.dumps([fault, said]), flush=True)
"""


def run_all(file: Path, how: str, numbers: list[int]) -> dict[int, str]:
    """What is said of each fault, from a process of its own; a signal or traceback fails."""
    done = subprocess.run([sys.executable, "-c", RUN, str(file), how, *map(str, numbers)], capture_output=True, text=True)
    said = dict(json.loads(line) for line in done.stdout.splitlines())
    reached = f"after {list(said.items())[-1:]}: {done.stderr[-800:]}"
    assert done.returncode >= 0, f"signal {signal.Signals(-done.returncode).name} {reached}"
    assert done.returncode == 0, reached
    return said


@pytest.fixture(scope="module", params=FILES)
def scheme(tmp_path_factory, request):
    file = tmp_path_factory.mktemp("faults") / f"{request.param}.py"
    text, faults = broken(request.param)
    file.write_text(text)
    return file, faults


def test_every_kind_of_fault_and_of_hook_is_among_them():
    from penstock_net.composition.hooks import HOOKS

    assert {*FAULTS, *TRANSPORT} == set(HOOKS) and sum(map(len, FAULTS.values())) >= 28
    assert names()[0] == "NONE" and set(names()[1:]) == set(TEXTS)
    elsewhere = {"NOT_PACKET", "NOT_FRAME", "ROUTE"}
    assert {fault for found in FAULTS.values() for _, fault, _ in found} == set(TEXTS) - elsewhere


def test_every_fault_is_an_error_with_its_place(scheme):
    file, faults = scheme
    said = run_all(file, "compiled", [0, *faults])
    assert said.pop(0) == ""
    wrong = []
    for number, (hook, line, fault, _) in faults.items():
        text = TEXTS[fault].partition("{")[0].partition(":")[0]
        place = "" if hook == "set_up" else " at "
        if not (said[number].startswith(f"{file}:{line}: ") and text in said[number] and f"(in {hook}{place}" in said[number]):
            wrong.append((hook, line, fault, said[number]))
    assert not wrong


def test_a_table_of_a_port_at_a_host_says_that_it_is_empty(tmp_path):
    (tmp_path / "mine.py").write_text(
        'parameters = {"fault": ("int32", 0, "")}\nport_state = {"sent": "int64[hosts]"}\n'
        "def on_send(me, node, flow, pkt):\n    my_port(me, port_of(flow)).sent[0] += 1\n"
    )
    said = run_all(tmp_path / "mine.py", "compiled", [0])[0]
    assert "mine.py:4: index 0 of an empty table (those of ports are empty at hosts): " in said
    assert "(in on_send at host0, " in said


def test_a_port_that_is_none_is_an_error_without_checks_too(tmp_path):
    """As in the package's own schemes."""
    from penstock_net.composition import parse
    from penstock_net.errors import InvariantError
    from penstock_net.sim.simulate import simulate
    from penstock_net.topology import leaf_spine
    from penstock_net.workload import flow_list

    file = tmp_path / "mine.py"
    file.write_text("def choose_port(me, node, port, pkt):\n    return node.port_count\n")
    topo = leaf_spine(hosts=4, tors=2, spines=2)
    with pytest.raises(InvariantError, match=r"tor0, at .* named port 4; a switch has its own ports, counted from 0"):
        simulate(topo, flow_list(topo, [(0, 3, 1000)]), parse(str(file), {"unchecked": True}))


def test_the_interpreted_core_finds_them_too(scheme):
    file, faults = scheme
    expected = {n: (hook, line, python) for n, (hook, line, _, python) in faults.items() if python}
    said = run_all(file, "interpreted", [0, *expected])
    assert said.pop(0) == ""
    wrong = [
        (hook, line, said[n])
        for n, (hook, line, python) in expected.items()
        if f":{line}: " not in said[n] or python not in said[n] or f"(in {hook}" not in said[n]
    ]
    assert not wrong


CASE = {"topology": {"kind": "star", "hosts": 4}, "flows": [[1, 0, 60000, "0us"], [2, 0, 60000, "0us"], [3, 0, 60000, "1us"]]}


def interpreted(scheme, typed=""):
    """A small case in the interpreted core; typed: what a user answers."""
    file = scheme.with_suffix(".json")
    file.write_text(json.dumps({**CASE, "scheme": str(scheme)}))
    command = [sys.executable, "-m", "penstock_net.testing.cases", str(file), "--interpreted"]
    return subprocess.run(command, input=typed, capture_output=True, text=True, check=False)


def test_a_debugger_in_a_hook(tmp_path):
    scheme = tmp_path / "stops.py"
    scheme.write_text("def on_ack(me, node, flow, pkt):\n    breakpoint()\n    flow.window += 1\n")
    done = interpreted(scheme, "p pkt\np flow.window\nq\n")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"{scheme}(3)on_ack()" in done.stdout and "(Pdb) Packet(time=" in done.stdout
    assert done.stderr.startswith(f"{scheme}:3: the debugger was left in on_ack at node ")
    assert done.stderr.endswith("us: the run has ended there\n")


def test_a_debugger_may_go_on(tmp_path):
    scheme = tmp_path / "stops.py"
    scheme.write_text("def on_finish(me, node, flow, pkt):\n    breakpoint()\n    flow.rto = 0\n")
    done = interpreted(scheme, "c\n" * 3)
    assert done.returncode == 0 and done.stdout.count("(Pdb)") == 3
    assert '"flows_finished": 3' in done.stdout


def test_an_error_without_a_text_names_its_kind(tmp_path):
    scheme = tmp_path / "fails.py"
    scheme.write_text("def on_ack(me, node, flow, pkt):\n    raise KeyError\n")
    assert f"{scheme}:2: KeyError: raise KeyError (in on_ack at node " in interpreted(scheme).stderr


ENDLESS = """
def on_ack(me, node, flow, pkt):
    i = 1
    while i < 5:
        i = i * 1
"""


@pytest.mark.parametrize("options", [["run", "quickstart", "--out", "x", "--set", "run.duration=50us", "--scheme"], ["check"]])
def test_the_commands_end_with_the_place(tmp_path, options):
    (tmp_path / "mine.py").write_text(ENDLESS)
    main = "import sys; from penstock_net.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", main, *options, "./mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == (1 if options == ["check"] else 2), done.stderr
    assert "mine.py:4: more than 1,000,000 rounds of loops in one event" in done.stdout + done.stderr
    assert "(in on_ack at " in done.stdout + done.stderr and "Traceback" not in done.stderr


def test_a_loop_ends_without_checks_too(tmp_path):
    """So Ctrl-C is never ignored for long."""
    from penstock_net.composition import parse
    from penstock_net.errors import SchemeError
    from penstock_net.sim.simulate import simulate
    from penstock_net.topology import star
    from penstock_net.workload import flow_list

    file = tmp_path / "mine.py"
    file.write_text(ENDLESS)
    topo = star(hosts=2)
    with pytest.raises(SchemeError, match=r"mine\.py:4: more than"):
        simulate(topo, flow_list(topo, [(0, 1, 5000)]), parse(str(file), {"unchecked": True}))


def test_the_results_are_those_without_checks_and_of_the_package(tmp_path):
    """Of a copy of a built-in scheme with state of every kind."""
    from penstock_net.composition.load import FLAGS
    from penstock_net.testing.cases import digest, run_case
    from penstock_net.testing.conformance import incast_case

    assert "-ffp-contract=off" in FLAGS
    file = tmp_path / "mine.py"
    file.write_text((Path(penstock_net.__file__).parent / "schemes/hpcc.py").read_text())
    found = [digest(run_case(incast_case(str(file), parameters=p))) for p in ({}, {"unchecked": True})]
    assert found[0] == found[1] == digest(run_case(incast_case("hpcc")))


@pytest.mark.parametrize("unchecked", [False, True])
@pytest.mark.parametrize("starts", [(3, 2, 1, 2), (4, 3, 2, 1), (3, 1, 2, 1), (2, 2, 2, 2)])
def test_the_earliest_fault_is_reported_on_any_threads(tmp_path, starts, unchecked):
    """Four ToRs fail in the same window; at equal times it is the one of the lowest number."""
    from penstock_net.composition import parse
    from penstock_net.errors import InvariantError, SchemeError
    from penstock_net.sim.simulate import simulate
    from penstock_net.topology import leaf_spine
    from penstock_net.workload import flow_list

    file = tmp_path / "mine.py"
    file.write_text("def choose_queue(me, node, port, pkt):\n    return 70 + node.id\n")
    topo = leaf_spine(hosts=8, tors=4, spines=2, delay="10us")
    flows = flow_list(topo, [(2 * i, 2 * i + 1, 1000, f"{start}us") for i, start in enumerate(starts)])
    said = set()
    for threads in (1, 2, 3, 4):
        with pytest.raises(InvariantError if unchecked else SchemeError) as error:
            simulate(topo, flows, parse(str(file), {"unchecked": unchecked}), threads=threads)
        said.add(str(error.value))
    assert len(said) == 1 and f"tor{starts.index(min(starts))}, " in said.pop()
