"""BFC with early resume (docs/early-resume.md) against its transcription, with frames lost, and on Tofino2."""

import math
from itertools import product

import pytest
import test_bfc_tofino2 as tofino2
from helpers import US, bouncing, check_alone, check_bad, check_frames, check_threads, network, outcome, planted, traced
from paper import bfc_tofino2
from paper.early_resume import early, early_tofino2
from paper.queue_assignment import READINGS
from test_bfc import crowd, replay
from test_dqa import ASSIGNMENTS, Given, model_of

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

FRAME = 1048
POINTS = {"early": 1.0, "little": 0.3, "much": 3.0}


def check(parameters, scheme="bfc"):
    """Assert every choice of a queue and every frame -> their number."""
    topo, given = network(), {"refresh": 0, **parameters}

    def model(topo, node, values):
        reading = READINGS.get(ASSIGNMENTS[values["assignment"]], Given)

        def made(*args, **more):
            return early(reading)(*args, resume_at=str(given["resume_at"]), full_frame=FRAME, **more)

        return model_of(topo, node, values, made)

    run, rows = traced(topo, crowd(topo), scheme, given)
    return check_frames(run, topo, replay(topo, run, rows, "bfc", given, model))


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("queues", [4, 32])
def test_every_frame_is_that_of_the_transcription(queues, point):
    assert check({"queues": queues, "resume_at": POINTS[point]}) > 100


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_with_every_assignment(assignment):
    assert check({"queues": 8, "resume_at": 1.0, "assignment": assignment}) > 100


MISTAKES = {
    "N_active is ignored": ("max(port.active, 1):", "1:"),
    "N_active is that of the ingress": ("max(port.active, 1):", "max(port_at(node, pkt.in_port).active, 1):"),
    "one packet more": ("pause_counter[mine.upstream_q] <= my", "pause_counter[mine.upstream_q] < my"),
    "frames without headers": ("bfc.at.world.mtu + bfc.at.world.header", "bfc.at.world.mtu - 200"),
    "the threshold instead": ("whole(bfc.resume_at * hrtt", "whole(bfc.th * hrtt"),
    "pauses only from no marked packet on": (
        "if not ingress.asked[mine.upstream_q >> 5] & bit(mine.upstream_q & 31):",
        "if ingress.pause_counter[mine.upstream_q] == 1:",
    ),
    "resumes again": ("    if ingress.asked[q >> 5] & bit(q & 31):", "    if 1:"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "bfc", *MISTAKES[mistake])
    with pytest.raises(AssertionError):
        for point, queues in product(("much", "little"), (4, 32)):
            check({"queues": queues, "resume_at": POINTS[point]}, file)


# ---- Tofino2, whose switches know late


def check_tofino2(monkeypatch, hardware, resume_at, scheme=tofino2.NAME):
    def made(*args, **more):
        return early_tofino2(bfc_tofino2_switch)(*args, resume_at=str(resume_at), full_frame=FRAME, **more)

    bfc_tofino2_switch = bfc_tofino2.Switch
    with monkeypatch.context() as patch:
        patch.setattr(bfc_tofino2, "Switch", made)
        return tofino2.check(crowd, {**tofino2.HARDWARE[hardware], "resume_at": resume_at}, scheme)[0]


@pytest.mark.parametrize("hardware", ["as declared", "rare updates", "the present", "slow links", "few headers"])
def test_late_queue_states(monkeypatch, hardware):
    assert check_tofino2(monkeypatch, hardware, 1.0) > 30


def test_a_mistake_about_late_states_is_found(monkeypatch, tmp_path):
    file = planted(tmp_path, tofino2.NAME, "max(known_active(tofino2, node, port), 1)", "max(port.active, 1)")
    with pytest.raises(AssertionError):
        for resume_at in (0.5, 1.0, 2.0):
            check_tofino2(monkeypatch, "rare updates", resume_at, file)


def test_ideal_hardware_is_bfc():
    topo, measure = network(), Measure(sample="2us", pauses=True)
    tables = ("bfc", {"table": 2000, "assignment": "rotating"}), (tofino2.IDEAL, {"table": 8000})
    runs = [
        simulate(topo, crowd(topo), parse(name, {"resume_at": 1, "queues": 8, **more}), measure=measure) for name, more in tables
    ]
    assert runs[0].pauses.height > 100 and runs[0].pauses.equals(runs[1].pauses) and runs[0].flows.equals(runs[1].flows)


# ---- Lost frames, deadlocks, threads


@pytest.mark.parametrize("scheme", ["bfc:early", "bfc:penstock", "bfc_tofino2"])
def test_bitmaps_repair_what_was_lost(scheme):
    topo = network()
    given = {"queues": 8, "resume_at": 1.0}
    run = simulate(topo, crowd(topo), parse(scheme, given), control_loss=0.2, measure=Measure(sample="5us", pauses=True))
    assert (
        run.summary["flows_finished"] == len(run.flows) and run.pauses.height > 100 and not run.flows["retransmitted_bytes"].sum()
    )


def test_bitmaps_say_what_frames_said():
    """A queue that was resumed early is not in the bitmap, though marked packets of it are left."""
    topo = network()
    runs = [traced(topo, crowd(topo), "bfc:early", {"refresh": period, "queues": 8})[0] for period in (0, "10us")]
    pauses = [run.pauses.filter(run.pauses["time_ns"] > 0) for run in runs]
    assert abs(pauses[0].height - pauses[1].height) < 0.02 * pauses[0].height


@pytest.mark.parametrize("elide", [False, True])
def test_elided_edges_end_deadlocks(elide):
    topo, flows = bouncing()
    scheme = parse("bfc:early", {"assignment": "single", "elide": elide})
    run = simulate(topo, flows, scheme, max_time_ps=20_000 * US)
    assert (run.summary["flows_finished"] == len(flows)) == elide


def test_nothing_marked_is_left_is_the_paper_s():
    topo = network()
    runs = [simulate(topo, crowd(topo), parse("bfc", given)) for given in ({}, {"resume_at": 0}, {"resume_at": 0.01})]
    assert outcome(runs[0]) == outcome(runs[1]) == outcome(runs[2])  # 0.01 of 25 KB are less than a packet


def test_alone_on_threads_and_refused():
    check_alone("bfc:early")
    assert check_threads("bfc:penstock", {"queues": 8}).ports["pauses_sent"].sum() > 0
    check_bad("bfc", {"resume_at": -1}, "0..1000")
    check_bad("bfc_tofino2", {"resume_at": -1}, "0..1000")


# ---- The law: how long the line is idle


def idle_ps(n, packets, frame, resume_at, ps_per_byte, delay_ps=1_000_000):
    """docs/early-resume.md: what `n` flows in step lose in a star, each of so many packets of `frame` bytes; times in ps."""
    transmission = frame * ps_per_byte
    loop = 2 * delay_ps + 64 * ps_per_byte  # from a pause to its effect here
    bdp = 2 * delay_ps / ps_per_byte
    marked = next(j for j in range(1, packets) if n * (j - (j - 1) // n) * frame > bdp)
    cycle = marked + math.ceil(loop / transmission)
    left = int(resume_at * bdp / frame) // n
    return max(0, loop - (n - 1) * transmission - n * left * transmission) * (math.ceil(packets / cycle) - 1)


@pytest.mark.parametrize("resume_at", [0, 0.5, 1])
@pytest.mark.parametrize("n", [2, 4, 14])
@pytest.mark.parametrize("ps_per_byte", [80, 20])
def test_the_loss_is_that_of_the_formula(ps_per_byte, n, resume_at):
    """In step it is met; more flows get out of step, and lose less: at most the formula's."""
    topo = star(hosts=n + 1, rate=f"{8000 // ps_per_byte}Gbps")
    flows = flow_list(topo, [(i, 0, "1MB") for i in range(1, n + 1)])
    host = HostConfig(mtu=1000, header=76)
    run = simulate(topo, flows, parse("bfc", {"resume_at": resume_at}), host=host)
    took = run.flows["fct_ns"].max()
    without = (n * 1000 + 1) * 1076 * ps_per_byte / 1000 + 2000
    predicted = without + idle_ps(n, 1000, 1076, resume_at, ps_per_byte) / 1000
    assert without <= took + 0.01 and took <= 1.002 * predicted
    if n <= 4:
        assert took >= 0.995 * predicted


def test_the_issue_s_stars():
    """Of 1 MB and frames of 1076 B; the longest queues are the same."""
    got = {}
    for n, scheme in product((2, 4, 14), ("bfc", "bfc:early")):
        topo = star(hosts=n + 1)
        flows = flow_list(topo, [(i, 0, "1MB") for i in range(1, n + 1)])
        run = simulate(topo, flows, scheme, host=HostConfig(mtu=1000, header=76))
        got[n, scheme] = run.flows["fct_ns"].max() / 1000, run.summary["max_buffer_bytes"]
    assert [round(got[n, "bfc"][0], 1) for n in (2, 4, 14)] == [214.5, 400.6, 1230.9]
    assert [round(got[n, "bfc:early"][0], 1) for n in (2, 4, 14)] == [174.8, 347.2, 1207.2]
    assert all(got[n, "bfc:early"][1] <= got[n, "bfc"][1] for n in (2, 4, 14))
