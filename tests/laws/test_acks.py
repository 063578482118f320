"""Acknowledgements of several packets, and such that take time to make: exact times of lone flows, and flows that end."""

import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import HostConfig, Measure, flow_list, hosts_under, networks, simulate
from test_lone_flow import check_alone, in_turn, some_pairs

from penstock_net.composition import parse
from penstock_net.topology import leaf_spine, star

DATA, ACK, DELAY = 1048 * 80, 60 * 80, 1_000_000  # of a full packet and of an acknowledgement on a line of 100 Gbit/s, ps
QUIET = Measure(sample="0s", flows=False)
TIMES = ("0us", "1ns", "700ns", "20us")


@st.composite
def hosts(draw, **more):
    return HostConfig(
        ack_every=draw(st.sampled_from([0, 1, 2, 3, 8, 1000])),
        ack_after=draw(st.sampled_from(TIMES[1:])),
        ack_delay=draw(st.sampled_from(TIMES)),
        **more,
    )


@examples(60)
@given(networks(whole=True), hosts(rto="1s"), st.data())
def test_the_last_acknowledgement_of_a_lone_flow_is_late_by_the_delay_alone(topo, host, data):
    """The last packet waits for none, `sender_slowdown` knows the delay, and an ACK just before it takes its time on links."""
    sizes = data.draw(st.lists(st.integers(1, 60_000), min_size=1, max_size=4))
    seed = data.draw(st.integers(0, 2**31 - 1))
    flows = in_turn(topo, some_pairs(topo, len(sizes), seed), sizes, host)
    scheme = data.draw(st.sampled_from(["fifo", "dqa", "pfc", "recovery"]))
    run = simulate(topo, flows, scheme, seed=seed, host=host, threads=data.draw(st.integers(1, 2)), measure=QUIET)
    assert run.flows["slowdown"].to_list() == [1.0] * len(sizes) and run.summary["retransmissions"] == 0
    for row in run.flows.iter_rows(named=True):
        late = (row["acked_ns"] - row["start_ns"]) * (1 - 1 / row["sender_slowdown"])
        assert abs(late) <= host.ack * topo.links["ps_per_byte"].max() / 1000 + 0.001


@pytest.mark.parametrize("scheme", ["fifo", "dqa", "pfc", "recovery", "bfc"])
@pytest.mark.parametrize("more", [{}, {"ack_every": 1000, "ack_after": "1ms"}], ids=["each", "at the end"])
def test_to_the_picosecond(scheme, more):
    host = HostConfig(ack_delay="3us", **more)
    topo = leaf_spine(hosts=8, tors=2, spines=2, buffer="100MB")
    flows = in_turn(topo, some_pairs(topo, 3), [1, 3000, 90_000], host)
    check_alone(topo, flows, scheme, host, 1)


def rounds(window, every, after, delay, count=40):
    """When a flow of so many full packets has been received over two links, with a window of so many packets; ps.

    The window opens by what an acknowledgement advances: packet i leaves when i - window are acknowledged and the line is free.
    """
    left, acked, made = [], [], []  # when packets left; when each was acknowledged at the sender; of those that wait
    for i in range(count):
        line = left[-1] + DATA if left else 0
        if i >= window:
            if acked[i - window : i - window + 1] == []:  # by time: no other packet comes before
                acked += [made[0] + after + delay + 2 * (ACK + DELAY)] * len(made)
                made = []
            line = max(line, acked[i - window])
        left.append(line)
        arrived = line + 2 * (DATA + DELAY)
        if made and arrived > made[0] + after:
            acked += [made[0] + after + delay + 2 * (ACK + DELAY)] * len(made)
            made = []
        made.append(arrived)
        if len(made) == every:
            acked += [arrived + delay + 2 * (ACK + DELAY)] * len(made)
            made = []
    return left[-1] + 2 * (DATA + DELAY)


def received(window, every, after, delay):
    """The same of a run."""
    topo, host = star(hosts=2), HostConfig(ack_every=every, ack_after=f"{after}ps", ack_delay=f"{delay}ps", rto="1s")
    scheme = parse("fifo+window_cap", {"cap": window * 1000})
    run = simulate(topo, flow_list(topo, [(0, 1, 40_000)]), scheme, host=host, measure=QUIET)
    assert run.summary["retransmissions"] == 0
    return round(run.flows["fct_ns"][0] * 1000)


@pytest.mark.parametrize("delay", [0, 300_000, 2_500_000])
@pytest.mark.parametrize("every, after", [(1, 10), (2, 5_000_000), (4, 1_300_000), (7, 20_000_000), (0, 900_000)])
@pytest.mark.parametrize("window", [1, 2, 3, 5, 8, 30])
def test_a_window_that_is_shorter_waits_for_the_time(window, every, after, delay):
    assert received(window, every, after, delay) == rounds(window, every, after, delay)


def test_by_hand():
    """A window of two packets. Every second one: a round is from the start to the second packet's acknowledgement."""
    second = DATA + 2 * (DATA + DELAY)
    assert rounds(2, 2, 10**7, 0, count=6) == 2 * (second + 2 * (ACK + DELAY)) + second
    assert rounds(2, 4, 10**6, 7, count=4) == second - DATA + 10**6 + 7 + 2 * (ACK + DELAY) + second


@pytest.mark.parametrize("mistake", [{"every": 3}, {"after": 4_900_000}, {"delay": 0}, {"window": 2}], ids=str)
def test_mistakes_are_seen(mistake):
    given = {"window": 3, "every": 4, "after": 5_000_000, "delay": 100}
    assert received(**given) != rounds(**given | mistake)


SCHEMES = ["fifo", "dctcp+spray", "recovery:irn", "hpcc", "swift", "dcqcn:cnp", "pfabric", "bfc", "recovery:perfect"]


@examples(40)
@given(networks(ps_per_byte=(10, 400), delay_ps=(10_000, 3_000_000)), st.sampled_from(SCHEMES), hosts(), st.data())
def test_all_flows_end_and_their_senders_know(topo, scheme, host, data):
    """With losses of packets and of acknowledgements."""
    topo = topo.with_loss(data.draw(st.sampled_from([0.0, 0.02])))
    pairs = some_pairs(topo, 6, data.draw(st.integers(0, 999)))
    flows = flow_list(topo, [(*pair, data.draw(st.integers(1, 40_000)), "0s") for pair in pairs])
    given = {key: getattr(host, key) for key in ("ack_every", "ack_after", "ack_delay")}
    host = hosts_under(scheme, rto="500us", **given)
    run = simulate(topo, flows, scheme, host=host, measure=QUIET, max_time_ps=10**12)
    assert run.summary["flows_finished"] == len(flows) and run.flows["acked_ns"].null_count() == 0
    assert (run.flows["acked_ns"] > run.flows["finish_ns"]).all()
