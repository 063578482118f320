"""A flow with nothing in its way is never paused, whatever else its host sends: ACKs and frames that wait elsewhere."""

from pathlib import Path

import pytest
from networks import Measure, flow_list, hosts_under, simulate
from test_goldens import CASES, SERVERS

from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.topology import behind_vswitches, star, with_receivers

QUIET = Measure(sample="0s", flows=False)
ACKS = ["control", "data"]


IDLE = [(0, 1), (2, 0)]


def crowd(pairs, first):
    """Host 0 sends to host 1, and host 2 to host 0: idle paths. Host 0's ACKs go to host 2, the destination of an incast."""
    topo = star(hosts=40, buffer="12MB")
    flows = [*first, *((*pair, 1_000_000, "5us", "idle", 0) for pair in pairs)]
    flows += [(i, 2, 100_000, "5us", "other", 1) for i in range(5, 35)]
    return topo, flow_list(topo, [dict(zip(("src", "dst", "bytes", "start", "class", "priority"), flow)) for flow in flows])


def idle(scheme, acks, pairs=IDLE, first=()):
    """The flows on idle paths."""
    topo, flows = crowd(pairs, first)
    host = hosts_under(scheme, ack_priority=acks, rto="1s")
    run = simulate(topo, flows, scheme, seed=3, measure=QUIET, host=host, max_time_ps=3 * 10**8)
    return run.flows.filter(run.flows["class"].cast(str) == "idle")


@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("name", list(CASES))
def test_a_flow_on_an_idle_path_is_never_paused(name, acks):
    """Of every scheme and preset; priorities are two, as those of others are rightly stopped for their ACKs.

    Credit of links is enough for a round trip with a packet in the way: less bounds a lone flow.
    """
    scheme, parameters, _ = CASES[name]
    parameters = {key: 400 if key == "limit" else value for key, value in parameters.items()}
    levels = {key: max(value, 2) for key, value in parameters.items() if key.endswith("priorities")}
    if levels:
        levels |= {key: [0, 1] for key in parameters if key.endswith("lossless")}
    made = parse(scheme, {**parameters, **levels})
    if acks == "data" and "cbfc" in made.parts and made.values("cbfc")["vcs"] == 1:
        with pytest.raises(SpecError, match="cbfc does not see acknowledgements that wait at a host"):
            idle(made, acks)
        return
    assert idle(made, acks)["paused_ns"].sum() == 0


@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("name", [name for name, (*_, where) in CASES.items() if SERVERS in where])
def test_a_slow_application_holds_nothing_up_that_its_neighbour_sends(name, acks):
    """Applications 4 and 5 share a virtual switch; packets for 4 wait there, but those from 5 leave on an idle path.

    Where PFC pauses its uplink, acknowledgements that go with the data stop, too.
    """
    scheme, parameters, _ = CASES[name]
    if acks == "data" and name == "swift of slow receivers":
        return
    topo = with_receivers(behind_vswitches(star(hosts=6, buffer="12MB"), apps=2, buffer="2MB"), [{"host": 4, "rate": "2Gbps"}])
    flows = [(5, 10, 400_000, "5us", "idle"), *((i, 4, 400_000, "5us", "other") for i in (0, 1, 2, 6))]
    made = flow_list(topo, [dict(zip(("src", "dst", "bytes", "start", "class"), flow)) for flow in flows])
    scheme = parse(scheme, parameters)
    host = hosts_under(scheme, ack_priority=acks, rto="1s")
    run = simulate(topo, made, scheme, seed=3, measure=QUIET, host=host, max_time_ps=2 * 10**9)
    lone, others = run.flows.filter(run.flows["src"] == 5), run.flows.filter(run.flows["src"] != 5)
    assert others["fct_ns"].null_count() > 0
    assert lone["paused_ns"][0] == 0 and lone["slowdown"][0] < 1.07


@pytest.mark.parametrize("queue_0_taken", [False, True])
@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("scheme", ["bfc", "bfc_tofino2", "bfc:unpaused", "dqa:stochastic+bfc"])
def test_it_takes_the_time_of_a_lone_flow(scheme, acks, queue_0_taken):
    flows = idle(parse(scheme), acks, first=[(0, 1, 1, "0s", "first", 0)] if queue_0_taken else [])
    assert flows["slowdown"].max() < 1.07, "ACKs take their share of the link, and no more"


NOTICE = Path(__file__).parents[1] / "schemes/hooks/notice.py"  # the last switch sends frames to the sender, like data
ECHO = """
'Receivers send a frame to the sender for each data packet, like data.'


def on_data(echo, node, incoming, pkt):
    frame = new_frame(node, echo.at.kind, 7)
    about_incoming(frame, incoming)
    send_with_data(node, incoming.src, frame)
    return 1


def on_control(echo, node, port, pkt):
    flow = flow_of(node, pkt)
    if flow:
        flow.window = max(flow.window, 1)
"""


def test_frames_of_switches_that_go_with_the_data_pause_no_flow():
    """Those to host 2 wait; its flow to host 0 does not."""
    assert idle(parse(f"{NOTICE}+bfc"), "control", [(2, 0)])["paused_ns"][0] == 0


def test_frames_of_hosts_that_go_with_the_data_pause_no_flow(tmp_path):
    """Those from host 0 to host 2 wait; its flow to host 1 does not."""
    (tmp_path / "echo.py").write_text(ECHO)
    assert idle(parse(f"{tmp_path / 'echo.py'}+bfc"), "control")["paused_ns"][0] == 0
