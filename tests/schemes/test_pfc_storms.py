"""A NIC that pauses without end, what the watchdog of a switch does then, and what is told of pauses by priority."""

from collections import defaultdict
from itertools import pairwise

import polars as pl
import pytest
from helpers import QUEUED_ACKS, US, check_bad, classed, network, outcome, pauses_of

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import flow_list

STUCK = {"storm_host": 0, "storm_start": "20us", "storm_until": "500us"}
WATCHED = {**STUCK, "watchdog": "50us", "restoration": "100us"}
LOGGED = Measure(pauses=True, packets=True)


def storm(given, until=2000, measure=None, topo=None, **more):
    """Flows to host 0, whose NIC is stuck for a while, and one of the same senders to host 3."""
    topo = topo or star(hosts=4, buffer="1MB")
    flows = flow_list(topo, [(1, 0, "2MB"), (2, 0, "2MB"), (1, 3, "1MB", "30us")])
    host = HostConfig(rto="100us")
    return simulate(topo, flows, parse("pfc", given), host=host, max_time_ps=until * US, measure=measure or LOGGED, **more)


def egress(run, node=4, port=0):
    """When the egress of the switch to the stuck server was paused: (since, until), us."""
    events = pauses_of(run)[node, port]
    return [(a[0] / US, b[0] / US) for a, b in pairwise(events) if a[2]]


@pytest.mark.parametrize("response", [0, "2us"])
def test_a_stuck_nic_stops_its_egress_from_the_start_to_the_end(response):
    run = storm({**STUCK, "response": response})
    late = 2 if response else 0
    assert egress(run) == [(20 + late, 500 + late)]
    assert run.summary["drops"] == 0 and run.summary["flows_finished"] == 3
    assert run.flows["finish_ns"].max() > 500_000
    assert storm({**STUCK, "storm_until": "30us"}).flows["finish_ns"].max() < 500_000


@pytest.mark.parametrize(
    "given, told",
    [
        ({"storm_start": "1ms"}, [("storm_start", '"1ms"', "storm_host")]),
        ({"poll": "1ms", "action": "drop"}, [("action", '"drop"', "watchdog"), ("poll", '"1ms"', "watchdog")]),
        ({"rate_alpha": [0.2]}, [("rate_alpha", "[0.2]", "rates")]),
        ({"storm_start": 0, "storm_host": -1}, []),
        (WATCHED, []),
    ],
)
def test_what_has_no_effect_is_told(given, told):
    run = storm(given, measure=Measure(sample="0s"))
    expected = [f"pfc.{a} = {v} has no effect without pfc.{b}: set that as well, or leave this out" for a, v, b in told]
    assert [warning for warning in run.summary["warnings"] if "no effect" in warning] == expected


def test_an_innocent_flow_is_stopped_with_pfc_alone_and_not_with_a_watchdog():
    finish = {name: storm(given).flows["finish_ns"][2] for name, given in {"alone": STUCK, "watched": WATCHED}.items()}
    assert finish["alone"] > 500_000 > 300_000 > finish["watched"]


@pytest.mark.parametrize("poll, at", [(0, 70), ("30us", 90), ("100us", 100), ("1us", 70)])
def test_the_watchdog_acts_at_the_first_poll_after_the_detection_time(poll, at):
    run = storm({**WATCHED, "poll": poll})
    assert egress(run)[0] == (20, at)
    assert run.summary["storms"] == run.ports["storms"].sum() >= 1


@pytest.mark.parametrize("priorities", [1, 3])
def test_action_drop_empties_the_egress_and_keeps_it_empty(priorities):
    """From detection until pauses are obeyed again the switch drops all that is for the stuck server; the senders do not wait."""
    run = storm({**WATCHED, "action": "drop", "priorities": priorities})
    rows = run.extra["packets"].filter(
        (pl.col("node") == 4) & (pl.col("port") == 0) & pl.col("time_ns").is_between(70_000, 590_000)
    )
    kinds = rows.group_by("event").len()
    found = dict(kinds.iter_rows())
    assert found.get("drop", 0) > 300 and "enqueue" not in found
    first = rows.filter((pl.col("event") == "drop") & (pl.col("time_ns") == 70_000)).height
    assert first > 20, "what waited"
    assert run.ports.filter(node=4, port=0)["drop_reason"][0].startswith("refused by the scheme")
    assert run.ports.filter(node=4, port=0)["restored"][0] >= 1
    assert run.summary["flows_finished"] == 3 and run.flows["finish_ns"][2] < 300_000


def test_action_forward_sends_to_it():
    run = storm(WATCHED)
    rows = run.extra["packets"].filter(
        (pl.col("node") == 4) & (pl.col("port") == 0) & pl.col("time_ns").is_between(71_000, 499_000)
    )
    assert rows.filter(pl.col("event") == "dequeue").height > 200 and run.ports.filter(node=4, port=0)["drops"][0] == 0


def test_a_storm_of_one_priority_stops_only_this_one():
    topo = star(hosts=4, buffer="2MB")
    flows = classed(topo, [(1, 0, 1_000_000, "0us", "a", 0), (1, 0, 1_000_000, "0us", "b", 1)])
    given = {**STUCK, "priorities": 2, "storm_priorities": [1], "storm_until": "900us"}
    run = simulate(topo, flows, parse("pfc", given), max_time_ps=2000 * US)
    assert run.flows["finish_ns"][0] < 200_000 and run.flows["finish_ns"][1] > 900_000
    rows = run.summary["pauses"]
    assert [row["priority"] for row in rows] == [0, 1] and rows[0] == {"priority": 0, "pauses": 0, "paused_ns": 0.0}
    assert rows[1]["pauses"] >= 1 and rows[1]["paused_ns"] >= 880_000


@pytest.mark.parametrize("action", ["drop", "forward"])
def test_threads_with_a_storm(action):
    given = {**WATCHED, "action": action, "poll": "7us", "priorities": 2, "response": "1us"}
    topo = leaf_spine(hosts=4, tors=2, spines=1, buffer="1MB")
    runs = [storm(given, topo=topo, threads=n, measure=Measure(sample="5us")) for n in (1, 2)]
    assert outcome(runs[0]) == outcome(runs[1]) and runs[0].summary["storms"] > 0
    assert runs[0].summary["pauses"] == runs[1].summary["pauses"]


def test_a_watchdog_that_drops_beside_schemes_that_count_packets():
    """BFC and DQA count what is queued: their counts survive, and all flows finish."""
    topo = star(hosts=4, buffer="1MB")
    flows = flow_list(topo, [(1, 0, "1MB"), (2, 0, "1MB"), (1, 3, "1MB", "30us")])
    for scheme in ("bfc+pfc", "dqa+pfc"):
        given = {f"pfc.{key}": value for key, value in {**WATCHED, "action": "drop"}.items()}
        run = simulate(topo, flows, parse(scheme, given), host=HostConfig(rto="100us"), max_time_ps=3000 * US)
        assert run.summary["storms"] > 0 and run.summary["flows_finished"] == 3, scheme


# ---- Pauses by priority ----


@pytest.mark.parametrize("host", [HostConfig(), QUEUED_ACKS], ids=["", "queued ACKs"])
@pytest.mark.parametrize("until", [2000, 60])
def test_pauses_by_priority_add_up_to_the_log(host, until):
    """Also where the run ends during a pause."""
    topo = network(buffer="1MB")
    flows = classed(topo, [(1 + i % 15, 0, 90_000, f"{1000 + 100 * i}ns", "in", i % 3) for i in range(30)])
    scheme = parse("pfc", {"priorities": 3})
    run = simulate(topo, flows, scheme, host=host, measure=Measure(pauses=True), max_time_ps=until * US)
    times, count, end = defaultdict(int), defaultdict(int), round(run.summary["end_ns"] * 1000)
    for events in pauses_of(run).values():
        for queue in {event[1] for event in events}:
            mine = [event for event in events if event[1] == queue]
            count[queue] += sum(paused for _, _, paused in mine)
            for (since, _, paused), (now, _, _) in pairwise([*mine, (end, queue, False)]):
                times[queue] += (now - since) * paused
    expected = [{"priority": i, "pauses": count[i], "paused_ns": times[i] / 1000} for i in range(3)]
    assert run.summary["pauses"] == expected and sum(count.values()) > 20


def test_whole_links_are_one_row():
    run = storm(STUCK)
    assert run.summary["pauses"] == [
        {"priority": None, "pauses": run.ports["pauses_received"].sum(), "paused_ns": pytest.approx(run.ports["paused_ns"].sum())}
    ]
    assert run.summary["storms"] == 0


def test_bad_parameters_of_storms_are_refused():
    check_bad("pfc", {"action": "alert"}, "action")
    check_bad("pfc", {"storm_host": -2}, "-1..65535")
    check_bad("pfc", {"storm_priorities": [8]}, "storm_priorities")
