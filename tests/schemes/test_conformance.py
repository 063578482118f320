"""Every scheme of the package passes the public conformance kit, and the kit finds what is wrong with a bad one."""

import pytest

from penstock_net.composition import FOLDER, available
from penstock_net.errors import SchemeError
from penstock_net.testing import check_scheme, conformance

# trim, which is in uec: by itself it leaves what it cuts to timeouts, which send everything again
COMPOSITIONS = [
    *(name for name in available() if name != "trim"),
    "hpcc+dqa",
    "hpcc:ns3",
    "dcqcn:ns3+window_cap",
    "dctcp:ns3",
    "bfc+pfc",
    "bfc+srf",
]
COMPOSITIONS += ["dcqcn+recovery:irn", "hpcc+recovery:perfect"]


@pytest.fixture(scope="module", autouse=True)
def cheap_compilation():
    """No: as users compile."""


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_every_scheme_conforms(name):
    parameters = [f"{c.name}: {c.message}" for c in check_scheme(name) if not c.passed]
    assert not parameters


def failures(tmp_path, text):
    file = tmp_path / "mine.py"
    file.write_text(text)
    return {c.name: c.message for c in check_scheme(file) if not c.passed}


def test_a_file_of_the_package_conforms_like_one_of_the_users(tmp_path, monkeypatch):
    """With nothing in the user's cache, and in an installed package there is no generated C."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    copy = tmp_path / "ecn.py"
    copy.write_text((FOLDER / "ecn.py").read_text())
    for file in (FOLDER / "ecn.py", copy):
        results = {c.name: c.message for c in check_scheme(file) if c.passed}
        assert len(results) == 11 and results["calls no Python from its hooks"] == "", file


def test_a_call_of_python_is_refused(tmp_path):
    found = failures(tmp_path, "def on_dequeue(me, node, port, queue, pkt):\n    assert pkt.kind >= 0\n")
    assert "assert is not possible" in found["compiles and composes"]


def test_a_lost_resume_is_found(tmp_path):
    found = failures(
        tmp_path,
        """
port_state = {"held": "int64"}
def on_enqueue(me, node, port, queue, pkt):
    mine = my_port(me, port_at(node, pkt.in_port))
    mine.held += 1
    if mine.held == 20:
        send_control(node, pkt.in_port, me.at.kind, PAUSE, 0, 0)
def on_dequeue(me, node, port, queue, pkt):
    mine = my_port(me, port_at(node, pkt.in_port))
    mine.held -= 1
    if mine.held == 19:
        send_control(node, pkt.in_port, me.at.kind, RESUME, 0, 0)
def on_control(me, node, port, pkt):
    if command_of(pkt) == PAUSE:
        pause_port(node, port, me.at.bit)
    else:
        resume_port(node, port, me.at.bit)
""",
    )
    assert "never gets stuck when control frames are lost" in found


def test_a_fault_is_found_in_plain_python_first(tmp_path):
    found = failures(
        tmp_path,
        """
flow_state = {"n": "int64"}
def on_ack(me, node, flow, pkt):
    flow.window = 20000 // my_flow(me, flow).n
""",
    )
    assert list(found) == ["runs as plain Python, with every index and integer checked"]
    assert "mine.py:4: integer division" in found.popitem()[1]


def test_timers_that_are_far_too_short_are_found(tmp_path, monkeypatch):
    """A picosecond apart: the run goes on, and never ends."""
    monkeypatch.setattr(conformance, "GIVE_UP_S", 0)
    with pytest.raises(SchemeError, match="only"):
        conformance.timed(conformance.incast_case("bfc"))


def test_a_syntax_error_names_file_and_line(tmp_path):
    found = failures(tmp_path, "def on_ack(me, node, flow, pkt)\n    pass\n")
    assert "mine.py:1" in found["compiles and composes"]
