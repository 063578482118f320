"""What is refused when a scheme file is loaded: with line, reason and remedy, and without the words of the tools behind it."""

import re
from pathlib import Path

import pytest

from penstock_net.composition import available, parse
from penstock_net.composition.declare import Declarations
from penstock_net.composition.load import declarations_of, refused
from penstock_net.composition.places import Part, check_trimming, compose
from penstock_net.composition.translate import Translation
from penstock_net.errors import SchemeError, SpecError
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

WORDS = re.compile(r"cython|pyx|gil\b|C compiler|cdef|python object", re.I)
ACK = "def on_ack(me, node, flow, pkt):\n    "
SEND = "def on_send(me, node, flow, pkt):\n    "
QUEUE = "def on_enqueue(me, node, port, queue, pkt):\n    "
# source, line of the error (0: of the whole file), a part of what is said
REFUSED = [
    ("import math\n\n" + ACK + "pass", 1, "imports nothing"),
    (ACK + "import math", 2, "imports nothing"),
    (ACK + "from math import sqrt", 2, "imports nothing"),
    (ACK + "flow.window = pkt.size / 2", 2, "both sides of / are whole numbers"),
    (ACK + "flow.window = pkt.size * 0.5", 2, "write whole(x)"),
    (ACK + "x = flow.size\n    x = x * 0.5\n    flow.window = whole(x)", 3, "begin with x = 0.0"),
    (ACK + "flow.window = 2 ** 3", 2, "power(x, y)"),
    (ACK + "flow.acked = 0", 2, "can be read, not set"),
    (ACK + "pkt.size += 8", 2, "on_send, on_data or of a new frame"),
    (ACK + "node.now = 0", 2, "can be read, not set"),
    (ACK + "flow.window = pkt.held", 2, "means nothing in on_ack"),
    (SEND + "flow.window = pkt.in_port", 2, "has not been sent yet"),
    ("def on_start(me, node, flow, pkt):\n    flow.window = pkt.size", 2, "pkt is NO_PACKET"),
    ("def on_control(me, node, port, pkt):\n    x = pkt.number", 2, "command_of(pkt)"),
    ("def on_control(me, node, port, pkt):\n    look(pkt)\n\n\ndef look(pkt):\n    return pkt.payload", 6, "means nothing"),
    (QUEUE + "x = queue.first", 2, "no field of a queue; known: bytes,"),
    (QUEUE + "x = node.tree[0]", 2, "no field of a node"),
    (QUEUE + "x = my_port(me, port)", 2, "port_state"),
    (QUEUE + "x = my_prt(me, port)", 2, "unknown function"),
    (QUEUE + "x = quue.bytes", 2, 'did you mean "queue"'),
    (QUEUE + "pause_port(node, queue, me.at.bit)", 2, "a queue, where a port is needed"),
    (QUEUE + "pause_port(node, port)", 2, "3 arguments, not 2"),
    (QUEUE + "x = queue < port", 2, "no order"),
    (QUEUE + "x = queue + 1", 2, "cannot be combined"),
    (QUEUE + "x = [1, 2]", 2, "a list"),
    (QUEUE + "x = 'text'", 2, "not possible"),
    (QUEUE + "x = None", 2, "not possible"),
    (QUEUE + "if queue.bytes:\n        x = 1\n    y = x", 4, "may not have a value"),
    (QUEUE + "for x in port:\n        pass", 2, "range("),
    (QUEUE + "while 1:\n        pass\n    else:\n        pass", 2, "else of a loop"),
    (QUEUE + "a, b = 1, 2", 2, "a tuple is not possible"),
    (QUEUE + "return 3", 2, "returns nothing"),
    (QUEUE + "try:\n        pass\n    except ValueError:\n        pass", 2, "try"),
    (QUEUE + "lambda: 0", 2, "no effect"),
    (QUEUE + "queue.bytes", 2, "no effect"),
    (QUEUE + "x = 99999999999999999999999", 2, "64 bits"),
    (QUEUE + "def inner():\n        pass", 2, "beside the others"),
    ("def choose_queue(me, node, port, pkt):\n    if pkt.size > 100:\n        return 1", 1, "without a return value"),
    (ACK + "f(3)\n\n\ndef f(n):\n    return g(n)\n\n\ndef g(n):\n    return f(n)", 5, "calls itself"),
    (ACK + "flow.window = f()\n\n\ndef f():\n    return 0.5", 6, "-> float"),
    ("def on_ack(me, node, flow):\n    pass", 1, "takes (me, node, flow, pkt)"),
    ("def on_ack(me, node, flow, pkt=0):\n    pass", 1, "no defaults"),
    ("x = 3\n\n\n" + ACK + "pass", 1, "upper case"),
    ("X = 'a'\n\n\n" + ACK + "pass", 1, "a constant is a number"),
    ("port_stat = {'x': 'int32'}\n\n\n" + ACK + "pass", 1, 'did you mean "port_state"'),
    ("port_state = {'x y': 'int32'}\n\n\n" + ACK + "pass", 1, "cannot be the name of a field"),
    ("port_state = {'x': 'int31'}\n\n\n" + ACK + "pass", 1, "unknown type"),
    ("flow_state = {'x': 'int32[hosts]'}\n\n\n" + ACK + "pass", 1, "only node_state, port_state and scheme_state"),
    ("structs = {'node': {'x': 'int32'}}\n\n\n" + ACK + "pass", 1, "is taken"),
    ("structs = {'e': {'x': 'int32'}}\nport_state = {'queue': 'e[40]'}\n\n\n" + ACK + "pass", 2, "queue_at(), which is a verb"),
    ("parameters = {'x': 3}\n\n\n" + ACK + "pass", 1, '("type", default, "meaning")'),
    ("parameters = {'unusual': ('int32', 0, '')}\n\n\n" + ACK + "pass", 1, "meaning for every scheme"),
    ("presets = {'x': 3}\n\n\n" + ACK + "pass", 1, "a preset is a table"),
    ("print('x')\n\n\n" + ACK + "pass", 1, "no effect"),
    ("class A:\n    pass\n\n\n" + ACK + "pass", 1, "a class"),
    ("port_state = {'x': 'int8'}\n\n\n" + QUEUE + "my_port(me, port).x = 300", 5, "8 bits"),
    ("port_state = {'x': 'int8[4]'}\n\n\n" + QUEUE + "x = my_port(me, port).x[0.5]", 5, "whole number"),
    ("packet_state = {'x': 'int8'}\n\n\ndef on_control(me, node, port, pkt):\n    my_packet(me, pkt).x = 1", 5, "frame_state"),
    ("packet_state = 'telemetry'\n\n\n" + ACK + "pass", 1, "no scheme of the package that this one includes"),
    ("includes = ['x']\npacket_state = 'x'\n\n\n" + ACK + "pass", 2, "no scheme of the package that this one includes"),
    (ACK + "x = " + "(" * 300 + "1" + ")" * 300, 2, "nested"),
    (ACK + "x = " + "-" * 5000 + "1", 0, "nested too deeply"),
    ("\0" + ACK + "pass", 0, "null"),
]


@pytest.mark.parametrize("source, line, said", REFUSED, ids=[said for *_, said in REFUSED])
def test_it_is_refused_with_its_line(tmp_path, source, line, said):
    file = tmp_path / "mine.py"
    file.write_text(source + "\n")
    with pytest.raises(SchemeError) as caught:
        translate(declarations_of(file))
    text = str(caught.value)
    assert said in text and not WORDS.search(text) and "\n" not in text
    assert text.startswith(f"{file}:{line}: " if line else f"{file}:")


def translate(declared: Declarations) -> str:
    with refused(declared.path):
        return Translation(declared).text


def test_a_byte_order_mark_before_a_scheme_is_no_part_of_it(tmp_path):
    file = tmp_path / "mine.py"
    file.write_bytes(b"\xef\xbb\xbf" + ACK.encode() + b"pass\n")
    assert "# line" in translate(declarations_of(file))
    assert declarations_of(file).source == ACK + "pass\n"


@pytest.mark.parametrize("name", available())
def test_nothing_in_the_schemes_of_the_package_is_refused(name):
    assert f"# line {available()[name].functions[-1].body[-1].lineno}" in translate(available()[name]) if name != "fifo" else True


# ---- Compositions ----


@pytest.mark.parametrize(
    "name, said",
    [
        ("bfc+bfc", "bfc is in it twice"),
        ("dcqcn:ns3+dcqcn", "dcqcn is in it twice"),
        ("hpcc+dctcp", "hpcc and dctcp each set the rate or the window"),
        ("timely+dcqcn", "timely and dcqcn each"),
    ],
)
def test_a_composition_that_makes_no_sense(name, said):
    with pytest.raises(SpecError, match=said) as caught:
        parse(name)
    assert "unusual = true" in str(caught.value)
    assert parse(name, {"unusual": True}).unusual


@pytest.mark.parametrize("name", ["hpcc+pfc", "dcqcn+window_cap", "hpcc+floodgate", "dctcp+backdraft", "hpcc+bfc", "dqa+spray"])
def test_a_composition_that_makes_sense(name):
    assert not parse(name).unusual


def test_two_values_of_schemes():
    import penstock_net as ps

    with pytest.raises(SpecError, match="each set the rate"):
        parse(ps.HPCC() + ps.TIMELY())
    assert parse(ps.HPCC() + ps.PFC(alpha=0.2)).parts["pfc"] == {"alpha": 0.2}


def test_only_true_and_false_are_options():
    with pytest.raises(SpecError, match="unusual"):
        parse("bfc", {"unusual": "maybe"})


ADMIT = "def admit(me, node, port, pkt):\n    "
ON_DATA = "\n\n\ndef on_data(me, node, incoming, pkt):\n    return True\n"
TRIMMING = {
    "return": ADMIT + "return TRIM\n",
    "expression": ADMIT + "return ADMITTED if port.bytes < 9000 else TRIM\n",
    "variable": ADMIT + "answer = ADMITTED\n    if port.bytes > 9000:\n        answer = TRIM\n    return answer\n",
    "function": ADMIT + "return judged(port)\n\n\ndef judged(port):\n    return TRIM\n",
}


@pytest.mark.parametrize("source", TRIMMING.values(), ids=TRIMMING)
def test_a_composition_that_cuts_packets_has_on_data(tmp_path, source):
    """Without it a header would count as the whole packet."""
    (tmp_path / "mine.py").write_text(source)
    (tmp_path / "ours.py").write_text(source + ON_DATA)
    mine, ours = (Part(None, declarations_of(tmp_path / f"{n}.py"), {}, 0) for n in ("mine", "ours"))  # type: ignore[arg-type]
    with pytest.raises(SchemeError) as caught:
        compose([mine], {}, 1)
    assert str(caught.value) == (
        "mine may cut packets (TRIM), but no part has on_data: receivers would count a header as the whole packet; "
        "define on_data, which sees the flag TRIMMED, and have the packet sent again"
    )
    check_trimming([ours])
    check_trimming([mine, ours])


def test_a_constant_of_that_name_cuts_nothing(tmp_path):
    (tmp_path / "mine.py").write_text("TRIM = 1\n\n\n" + ADMIT + "return TRIM\n")
    check_trimming([Part(None, declarations_of(tmp_path / "mine.py"), {}, 0)])  # type: ignore[arg-type]


def test_a_lossless_part_is_not_beside_one_that_cuts():
    topo = star(hosts=2)
    with pytest.raises(SchemeError, match=r"ndp cuts packets \(TRIM\), while pfc has them kept; leave one of them out"):
        simulate(topo, flow_list(topo, [(0, 1, 1000)]), "ndp+pfc")


# ---- Tables ----


@pytest.mark.parametrize("length", ["10 ** 12", "1 << 40", "-1", "hosts * 1000000000000", "().__class__", "9 // 0"])
def test_the_length_of_a_table_is_bounded(tmp_path, length):
    file = tmp_path / "mine.py"
    file.write_text(f'node_state = {{"x": "int64[{length}]"}}\n\n\n{ACK}pass\n')
    part = Part(None, declarations_of(file), {}, 0, hosts=4)  # type: ignore[arg-type]
    with pytest.raises(SchemeError):
        part.tables("node", ports=4, switch=1)


def test_the_cached_module_of_a_file_has_no_name_of_its_own(tmp_path):
    """A file may be called what no module can be."""
    file: Path = tmp_path / "my scheme-2.py"
    file.write_text(ACK + "flow.window = 30000\n")
    from penstock_net.testing.cases import run_case

    flows = [[0, 1, 50000, "0us"]]
    run = run_case({"topology": {"kind": "star", "hosts": 2}, "flows": flows, "scheme": str(file)})
    assert run.summary["flows_finished"] == 1
