"""The load generator, its two clocks, the price list, and the detector of a busy machine."""

import os
import threading
import time

import pytest

from penstock_net.errors import SpecError
from penstock_net.vswitch.bench import noise
from penstock_net.vswitch.bench.costs import Costs
from penstock_net.vswitch.bench.rig import Bench, head
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.loadgen import cache_line
from penstock_net.vswitch.loadgen.harness import Harness


def pair(mode="backdraft", service=(0,), **settings):
    bench = Bench({"mode": mode, **settings})
    return bench, bench.app("a"), bench.app("b", service=list(service))


def test_constant_arrivals_are_delivered_at_their_rate():
    bench, a, b = pair()
    bench.udp(a, b, 1000, gap=1000)
    bench.run(1, 10)
    assert bench.rate(b) == pytest.approx(1.0, rel=0.01)
    assert bench.lost() == 0 and bench.pauses() == 0
    assert 0 < bench.p99(b) < 1


def test_virtual_time_repeats_itself_where_flows_share_queues_by_their_hash():
    def run(seed):
        bench = Bench({"mode": "backdraft"}, seed=seed)
        a, b = bench.app("a", queues=64), bench.app("b", queues=8, service=[200.0])
        for i in range(64):
            bench.udp(a, b, 1000 + i, queue=i, gap=1000.0 * (1 + i % 7), poisson=True)
        bench.run(0.1, 1)
        found = bench.p99(b), bench.pauses(), bench.harness.counters()
        bench.close()
        return found

    assert run(1) == run(1) != run(2)


def test_poisson_arrivals_have_their_mean_and_another_seed_other_times():
    counts = []
    for seed in (1, 2):
        bench, a, b = pair()
        bench.harness.stream(a, head("10.0.0.1", "10.0.0.2", 1000, 64), gap=500, poisson=True, seed=seed)
        bench.run(0, 20)
        counts.append(bench.harness.received(b)[0])
        assert counts[-1] == pytest.approx(40_000, rel=0.03)
    assert counts[0] != counts[1]


def test_bursts_arrive_together_and_wait_for_each_other():
    bench, a, b = pair(service=[1000])
    bench.udp(a, b, 1000, gap=100_000, burst=10)
    bench.run(1, 20)
    waits = bench.harness.latencies(b)
    assert sum(count for _, count in waits) == pytest.approx(2000, abs=10)
    assert 10_000 <= waits[-1][0] < 12_000 and 1000 <= waits[0][0] < 2000  # the last of a burst, the first


def test_latency_counts_from_the_time_that_was_meant():
    """A receiver at half the offered rate: in the middle of the run frames are half of it late."""
    bench, a, b = pair(service=[2000])
    bench.udp(a, b, 1000, gap=1000, most=2000)
    bench.run(0, 10)
    assert bench.p99(b, share=1.0) == pytest.approx(5000, rel=0.05)
    assert bench.rate(b) == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("mode", ["lossy", "pfc", "dpfq", "backdraft"])
def test_the_same_bits_each_time(mode):
    found = []
    for _ in range(2):
        bench, a, b = pair(mode, service=[150])
        for queue in range(4):
            bench.udp(a, b, 1000 + queue, queue=queue, gap=300, poisson=True)
        bench.rpc(a, b, 5000, queue=9, kind=1)
        bench.run(0.5, 3)
        row = {k: v for k, v in bench.switch.ports()[0].items() if k != "addresses"}
        found.append((bench.harness.latencies(b), bench.harness.latencies(a, 1), bench.harness.counters(), row))
    assert found[0] == found[1]
    assert found[0][2]["frames"] > 5000


def test_frames_are_conserved():
    """What was sent is delivered, dropped or waiting; what was received is what the switch delivered."""
    bench, a, b = pair("lossy", service=[300], th_goal="1KB", th_over="2KB", th_net="8KB")
    bench.udp(a, b, 1000, gap=100, poisson=True)
    bench.harness.reset()
    bench.harness.run(5e6)
    sent = bench.harness.streams(a)[0]["sent"]
    counters = bench.harness.counters()
    waiting = bench.regions[a].waiting(0)
    assert counters["drops"] > 1000
    assert 0 <= sent - counters["frames"] - counters["drops"] <= 1024
    assert waiting == 0 or sent > counters["frames"] + counters["drops"]
    assert 0 <= counters["frames"] - bench.harness.received(b)[0] <= 8192 // 64 + 1


def test_the_switch_is_as_fast_as_its_prices_say():
    dear = Costs(turn=0, frame=100, byte=0, drop=0, bell=0, look=0)
    bench, a, b = pair("dpfq")
    bench.harness = Harness(bench.switch, dear)
    a, b = (bench.harness.app(name, region) for name, region in zip("ab", bench.regions))
    bench.udp(a, b, 1000, gap=0)
    bench.run(1, 5)
    assert bench.rate(b) == pytest.approx(10.0, rel=0.03)
    assert bench.harness.counters()["working_ns"] == pytest.approx(5e6, rel=0.03)


def test_polling_pays_for_every_look():
    bench, a, b = pair("dpfq", doorbells=False)
    bench.udp(a, b, 1000, gap=1000)
    bench.run(1, 2)
    found = bench.harness.counters()
    assert found["bells"] > 0 and found["looks"] == 256 * bench.harness.turns  # the receiver's doorbells still ring
    assert found["looking_ns"] > 10 * found["working_ns"]


def test_a_request_is_answered_and_the_next_one_follows():
    bench, a, b = pair(service=[500])
    which = bench.rpc(a, b, 5000, answer_length=64, answers=4)
    bench.run(0, 5)
    done = bench.harness.streams(a)[which]["finished"]
    frames, size, _ = bench.harness.received(a)
    assert done > 2000 and frames - 4 * done in range(4) and size == 64 * frames
    assert bench.harness.quantile(a, 0.5) == pytest.approx(5e6 / done, rel=0.1)


def test_a_lost_request_is_repeated_after_its_timeout():
    bench = Bench({"mode": "backdraft"})
    a, b = bench.app("a"), bench.app("b", loss=0.1)
    which = bench.rpc(a, b, 5000, timeout=50_000)
    bench.run(0, 20)
    row = bench.harness.streams(a)[which]
    assert row["repeated"] == pytest.approx(bench.harness.counters()["lost"], abs=1) and row["repeated"] > 50
    assert row["repeated"] / (row["finished"] + row["repeated"]) == pytest.approx(0.1, abs=0.03)
    assert bench.harness.quantile(a, 0.99) > 50_000 > 20 * bench.harness.quantile(a, 0.5)


def test_requests_without_an_answer_count_as_they_stand():
    bench, a, b = pair(service=[1e9])
    bench.rpc(a, b, 5000, gap=100_000)
    bench.run(0, 10)
    bench.harness.finish(a)
    # the first ends only later, the others have not been sent: all of them have waited
    assert sum(count for _, count in bench.harness.latencies(a)) == pytest.approx(100, abs=1)
    assert bench.harness.quantile(a, 1.0) == pytest.approx(10e6, rel=0.02)


def test_cores_serve_their_own_flows():
    bench = Bench({"mode": "backdraft"})
    a, b = bench.app("a"), bench.app("b", service=[100, 100_000])
    for core in range(2):
        bench.udp(a, b, 1000 + core, queue=core, gap=1000, core=core, kind=core)
    bench.run(1, 10)
    assert bench.rate(b, 0) == pytest.approx(1.0, rel=0.01)
    assert bench.rate(b, 1) == pytest.approx(0.01, rel=0.2)


def test_pauses_follow_the_virtual_clock():
    bench, a, b = pair(service=[20_000])
    bench.udp(a, b, 1000, gap=100)
    bench.harness.run(3e6)
    waits = bench.switch.pauses(now=int(bench.harness.now))
    assert len(waits) == 1 and 0 < waits[0]["left_ns"] <= 5_000_000
    assert bench.switch.turn_at(int(bench.harness.now)) == 0
    bench.switch.turn_at(int(bench.harness.now) + 6_000_000)
    assert bench.switch.flows()[0]["frames"] > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue": 128},
        {"length": 50},
        {"length": 65},
        {"queue": -1},
        {"kind": 8},
        {"kind": -1},
        {"burst": 0},
        {"gap": -1.0},
        {"core": 16},
    ],
)
def test_wrong_streams_are_refused(wrong):
    bench, a, b = pair()
    with pytest.raises(SpecError, match=r"must be|has queues"):
        bench.udp(a, b, 1000, **wrong)


@pytest.mark.parametrize("wrong", [{"service": []}, {"service": [1] * 17}, {"batch": 0}, {"poll": 0}, {"loss": 1.0}])
def test_wrong_applications_are_refused(wrong):
    with pytest.raises(SpecError, match="must be"):
        Bench({"mode": "dpfq"}).app("a", **wrong)


def test_wrong_questions_are_refused():
    bench, a, b = pair()
    harness = bench.harness
    for question in (lambda: harness.received(b, 8), lambda: harness.latencies(b, -1), lambda: harness.service(a, 1, 5)):
        with pytest.raises(SpecError, match=r"kinds 0 to 7|cores 0 to 0"):
            question()


def test_a_free_switch_ends_its_run_too():
    bench, _, _ = pair()
    harness = Harness(bench.switch, Costs(turn=0, frame=0, byte=0, drop=0, bell=0, look=0))
    harness.run(1000)
    assert harness.now == 1e6 + 1000 and harness.turns == 1000


def test_an_unknown_application_is_refused():
    with pytest.raises(SpecError, match="application 0: there are 0"):
        Harness(Switch(), Costs()).received(0)


# ---- RPCs that repeat what is lost ----


def calling(loss_a=0.0, loss_b=0.0, ms=20, settings=None, **options):
    """RPCs of four frames, with losses at the client and at the server; `resend` is 2 us."""
    bench = Bench(settings or {"mode": "backdraft"})
    a, b = bench.app("a", loss=loss_a, buffer_bytes=128), bench.app("b", loss=loss_b, buffer_bytes=128)
    bench.calls(a, b, 5000, **{"frames": 4, "count": 16, "queues": 16, "gap": 10_000, "resend": 2000, **options})
    bench.run(0, ms)
    return bench, bench.harness.called(a)[0], bench.harness.called(b)[0]


def test_without_loss_every_frame_of_a_call_is_sent_once():
    bench, client, server = calling()
    assert client["finished"] + client["busy"] == pytest.approx(2000, abs=1) and client["busy"] <= 1
    assert client["sent"] == 4 * (client["finished"] + client["busy"]) and server["sent"] - client["finished"] in (0, 1)
    assert client["repeated"] == client["asked"] == client["spilled"] == server["asked"] == 0
    assert bench.harness.quantile(0, 1.0) < 2000


def test_a_server_asks_for_the_missing_frames_alone():
    """Of four frames one in ten is lost; asks are frames, too.  A call that has lost some ends 2 us later for each round."""
    bench, client, server = calling(loss_b=0.1)
    lost = bench.harness.counters()["lost"]
    assert client["finished"] + client["busy"] == pytest.approx(2000, abs=2)
    # what was sent again was lost before, or is of a call of which the server knows nothing
    assert client["repeated"] == pytest.approx(lost, rel=0.05) and 600 < lost < 1000
    assert 0.3 * 2000 < server["asked"] < 0.5 * 2000 and client["asked"] < 0.02 * 2000
    assert bench.harness.quantile(0, 0.5) < 2000 < 2500 < bench.harness.quantile(0, 0.9) < 5000


def test_a_client_asks_about_a_call_without_news_and_gets_its_answer_again():
    bench, client, server = calling(loss_a=0.1)
    assert client["finished"] + client["busy"] == pytest.approx(2000, abs=2) and client["repeated"] == server["asked"] == 0
    assert server["sent"] - client["finished"] == pytest.approx(bench.harness.counters()["lost"], abs=1)
    assert client["asked"] == pytest.approx(2000 * 0.1 / 0.9, rel=0.2)
    assert bench.harness.quantile(0, 0.85) < 2000 < 6000 < bench.harness.quantile(0, 0.93) < 8000


def test_a_server_that_does_not_know_a_call_asks_for_all_of_it():
    """A request of one frame is lost as a whole: the client asks after 6 us, the server for the frame, the client sends it."""
    bench, client, server = calling(loss_b=0.1, frames=1)
    assert client["finished"] + client["busy"] == pytest.approx(2000, abs=2) and client["repeated"] == pytest.approx(200, rel=0.3)
    assert server["asked"] == client["repeated"] <= client["asked"]
    assert bench.harness.quantile(0, 0.85) < 2000 < 6000 < bench.harness.quantile(0, 0.93)


def test_frames_that_ask_are_shorter_than_those_of_the_request():
    """With the length of the others in their headers the switch would drop them, and no call would be repaired."""
    bench, client, server = calling(loss_b=0.1, length=128, answer_length=128)
    found = bench.harness.counters()
    assert bench.drops() == 0 and server["asked"] > 500
    long = found["bytes"] - 64 * found["frames"]
    assert long == pytest.approx(64 * (client["sent"] + server["sent"]), abs=64 * 16)


def test_without_repetition_a_lost_call_never_ends():
    _, client, server = calling(loss_b=0.1, resend=0)
    assert client["busy"] == 16 and client["asked"] == server["asked"] == 0


def test_a_queue_without_room_lets_the_client_wait_or_loses_the_frame():
    slow = {"mode": "lossy", "th_goal": "1KB", "th_over": "2KB", "th_net": "1MB"}
    found = {}
    for spills in (False, True):
        bench, client, _ = calling(ms=5, settings=slow, gap=100, queues=1, count=100, most=2000, spills=spills)
        found[spills] = client
        assert bench.lost() == 0 and client["finished"] > 1000
    assert found[False]["spilled"] == 0 < found[True]["spilled"]
    assert found[False]["repeated"] < 0.1 * found[True]["repeated"]


def test_calls_share_queues_in_turn_and_have_their_seeds():
    bench, _, _ = calling(ms=1, queues=4, count=8, gap=100)
    assert {flow["source_port"] for flow in bench.switch.flows()} == {2000, 5000, 5001, 5002, 5003}
    times = []
    for seed in (1, 1, 2):
        bench = Bench({"mode": "backdraft"}, seed=seed)
        bench.calls(bench.app("a"), bench.app("b"), 5000, count=8, gap=500, poisson=True)
        bench.run(0, 2)
        times.append((bench.harness.called(0)[0]["sent"], bench.harness.latencies(0)))
        assert times[-1][0] == pytest.approx(4000, rel=0.1)
    assert times[0] == times[1] != times[2]


def test_calls_that_wait_count_as_they_stand():
    bench = Bench({"mode": "backdraft"})
    bench.calls(bench.app("a"), bench.app("b", service=[1e9]), 5000, count=4, gap=100_000)
    bench.run(0, 10)
    bench.harness.finish(0)
    assert sum(count for _, count in bench.harness.latencies(0)) == pytest.approx(100, abs=1)
    assert bench.harness.quantile(0, 1.0) == pytest.approx(10e6, rel=0.02)


@pytest.mark.parametrize(
    "wrong", [{"count": 0}, {"gap": 0}, {"frames": 32}, {"queues": 5}, {"queue": 125}, {"resend": -1}, {"length": 65}]
)
def test_wrong_calls_are_refused(wrong):
    bench, a, b = pair()
    with pytest.raises(SpecError, match=r"must be|has queues"):
        bench.calls(a, b, 1000, **{"count": 4, "gap": 100, "queues": 4, **wrong})
    assert bench.harness.called(a) == bench.harness.called(b) == []


# ---- A busy machine ----


STAT = """cpu  9 9 9 9 9 9 9 9 0 0
cpu0 100 0 50 1000 5 1 2 {steal} 0 0
cpu1 {user} 10 0 1000 0 0 0 0 0 0
cpu10 9999 0 0 0 0 0 0 9999 0 0
"""


def test_processor_times():
    tick = os.sysconf("SC_CLK_TCK")
    busy, stolen = noise.processor_times(STAT.format(steal=7, user=40), [0, 1])
    assert (busy * tick, stolen * tick) == pytest.approx((153 + 50, 7))


def test_limits():
    noise.Seen(0.0, 0.04, 50).check("x")
    for seen, text in (
        (noise.Seen(0.02, 0, 0), "stolen"),
        (noise.Seen(0, 0.5, 0), "used by others"),
        (noise.Seen(0, 0, 500), "involuntary"),
        (noise.Seen(0, 0, 0, 530), "a cache line takes 530 ns"),
    ):
        with pytest.raises(noise.MachineBusy, match=text):
            seen.check("x")


def test_our_own_work_is_not_that_of_others(monkeypatch):
    """The times of a made-up machine, on which we used one of the two busy seconds."""
    looks = iter([(0.0, 10.0, 0.0, 5.0, 3.0), (2.0, 12.0, 0.1, 6.0, 23.0)])
    monkeypatch.setattr(noise.Watch, "look", lambda self: next(looks))
    with noise.Watch() as watch:
        pass
    assert watch.seen == noise.Seen(0.05, 0.5, 10.0)
    with quiet_watch_of_this_machine() as real:
        time.sleep(0.02)
    assert real.seen.others >= 0


def quiet_watch_of_this_machine():
    watch = noise.Watch()
    watch.look = lambda: (time.monotonic(), time.process_time(), 0.0, time.process_time(), float(noise.involuntary()))
    return watch


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_real_time_delivers_too():
    """How fast is not tested; that everything arrives is."""
    bench, a, b = pair()
    bench.udp(a, b, 1000, gap=10_000)
    allowed = os.sched_getaffinity(0)
    for _ in range(50):  # a busy machine may not let the switch run at all for a while
        seen = noise.drive(bench.switch, bench.harness, 0.05, 0.2, careful=False)
        assert os.sched_getaffinity(0) == allowed
        frames, _, ns = bench.harness.received(b)
        if frames:
            break
    with pytest.raises(SpecError, match="real time cannot return to virtual time"):
        bench.harness.run(1)
    assert frames > 0 and ns > 0 and bench.lost() == 0 and set(seen) == {"stolen", "others", "taken", "round_trip"}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_a_cache_line_goes_to_the_other_processor_and_back():
    allowed = os.sched_getaffinity(0)
    assert 1 < noise.round_trip(*noise.two_processors()) < float("inf")
    assert os.sched_getaffinity(0) == allowed
    assert "answer" not in {thread.name for thread in threading.enumerate()}


def test_nobody_answers(monkeypatch):
    monkeypatch.setattr(cache_line, "PATIENCE_NS", 1_000_000)
    line = cache_line.CacheLine()
    assert line.ask(1) == float("inf")
    line.answer()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_processors_far_from_each_other_are_refused(monkeypatch):
    bench, _, b = pair()
    monkeypatch.setattr(noise.Watch, "look", lambda self: (time.monotonic(), 0.0, 0.0, 0.0, 0.0))
    monkeypatch.setattr(noise, "BEFORE_S", 0.05)
    monkeypatch.setattr(noise, "round_trip", lambda first, second: 530.0)
    with pytest.raises(noise.MachineBusy, match=r"before the run: .*530 ns from one processor to the other"):
        noise.drive(bench.switch, bench.harness, 0.05, 0.05)
    assert bench.harness.received(b)[0] == 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_a_busy_machine_is_refused_before_anything_runs(monkeypatch):
    bench, _, b = pair()
    monkeypatch.setattr(noise, "processor_times", lambda text, cpus: (2 * time.monotonic(), 0.0))
    monkeypatch.setattr(noise, "BEFORE_S", 0.05)
    with pytest.raises(noise.MachineBusy, match="before the run"):
        noise.drive(bench.switch, bench.harness, 0.05, 0.05)
    assert bench.harness.received(b)[0] == 0
