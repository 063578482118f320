"""A worker's pauses, rates, timers and flow table, turn by turn in virtual time: every number is derived by hand."""

import random

import pytest
from frames import payload_of, udp
from test_switch import switch_of

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
US, MS = 1000, 10**6
START = 10**9
FRAME = udp(A, B, payload=bytes(958))
KB = len(FRAME)
assert KB == 1000


def measured(mode, taken=10, ns=MS):
    """A switch whose receiver has taken so many frames of 1000 bytes in so many ns, while one more waited; and the time."""
    switch, a, b = switch_of(A, B, mode=mode, th_goal="20KB", th_over="40KB", th_net="200KB", shape={"buffers": 4096})
    a.send(0, [FRAME] * (taken + 1))
    switch.turn_at(START)
    assert len(b.receive(taken)) == taken
    a.send(0, [FRAME])
    switch.turn_at(START + ns)
    assert len(b.receive(2)) == 2
    return switch, a, b, START + ns


def rate(switch):
    return switch.flows()[0]["rate_bytes_per_s"]


def test_a_pause_lasts_until_th_goal_bytes_are_left():
    """At 10 MB/s the 41 KB that pass th_over of 40 KB are down to th_goal of 20 KB after 21 KB / 10 MB/s = 2.1 ms."""
    switch, a, _, now = measured("backdraft")
    assert rate(switch) == 10**7
    a.send(0, [FRAME] * 60)
    for i in range(4):  # a burst is 32 frames; less than a sample of the rate passes
        switch.turn_at(now + 10 * US * (i + 1))
    row = switch.flows()[0]
    assert (row["waiting_bytes"], row["pauses"], row["paused_ns"]) == (41 * KB, 1, 2_100_000)
    port = switch.ports(["a"])[0]
    assert (port["pauses"], port["paused_ns"]) == (1, 2_100_000), "of its queues, added up: it stayed 0"


@pytest.mark.parametrize("mode", ["dpfq", "backdraft"])
def test_an_idle_receiver_is_not_taken_for_a_slow_one(mode):
    """What it took while nothing waited says how fast it can be at least, and no more."""
    switch, a, b, now = measured(mode)
    for i in range(1, 20):
        a.send(0, [FRAME])
        switch.turn_at(now + 10 * MS * i)
        assert len(b.receive(10)) == 1 and rate(switch) == 10**7


def test_a_receiver_that_was_faster_though_its_queue_is_empty_raises_its_rate():
    """20 KB in 1 ms, weighted 1 ms to 5 ms: 10 MB/s + (20 - 10) MB/s / 6."""
    switch, a, b, now = measured("dpfq")
    a.send(0, [FRAME] * 18)
    switch.turn_at(now + 10)
    assert len(b.receive(100)) == 18
    a.send(0, [FRAME])
    switch.turn_at(now + MS)
    assert rate(switch) == pytest.approx(10**7 + 10**7 / 6, rel=1e-3)


def test_what_a_receiver_has_taken_does_not_wait_though_no_other_frame_comes():
    """It was looked at when a frame came only: a flow that had ended was shown as one whose receiver does not read."""
    switch, _, _, _ = measured("backdraft")
    (row,), others = switch.longest_flows(1)
    assert (row["waiting_bytes"], switch.flows()[0]["waiting_bytes"]) == (0, 0)
    assert switch.longest_flows(0)[1]["waiting_bytes"] == 0 == others["waiting_bytes"]


def pauses_in_vain(**options):
    """The pauses of a queue whose receiver never takes a frame, ns, one after another; what else waits is 64 B each."""
    switch, a, _ = switch_of(A, B, mode="dpfq", th_goal="1KB", th_over="2KB", th_net="3KB", **options)
    a.send(0, [FRAME] * 10)
    found, now, before = [], START, 0
    while len(found) < 9:
        switch.turn_at(now)
        paused = switch.flows()[0]["paused_ns"]
        if paused > before:
            found.append(paused - before)
        before, now = paused, now + 10 * US
    assert switch.ports(["a"])[0]["paused_ns"] == sum(found)
    return found


def test_pauses_in_vain_double_up_to_a_millisecond():
    """From 50 us on, as the receiver's rate is not known."""
    assert pauses_in_vain() == [50 * US, 100 * US, 200 * US, 400 * US, 800 * US, MS, MS, MS, MS]


def test_pauses_in_vain_of_many_queues_are_longer():
    """Up to 1 us for each queue that is paused: 1500 of them are tried again every 1.5 ms at most."""
    shape = {"queues": 4096, "rings": 16384, "buffers": 16384, "buffer_bytes": 64}
    switch, a, _ = switch_of(A, B, mode="dpfq", th_goal="50B", th_over="100B", th_net="150B", shape=shape)
    now = START
    for queue in range(1500):
        assert a.send(queue, [udp(A, B, 1 + queue)] * 5) == 5
        switch.turn_at(now)
    left = []
    for _ in range(600):
        switch.turn_at(now)
        now += 20 * US
    for _ in range(20):
        now += 100 * US
        switch.turn_at(now)
        left += [row["left_ns"] for row in switch.pauses(now)]
    assert MS < max(left) <= 1500 * US


@pytest.mark.parametrize("seed", range(3))
def test_pauses_end_in_time_after_a_port_has_gone(seed):
    """Of two senders' queues, paused for many different times, one sender's are forgotten; none of the others is overdue."""
    rng = random.Random(seed)
    shape = {"queues": 128, "rings": 1024}
    switch, a, b, c = switch_of(A, B, C, mode="dpfq", th_goal="1KB", th_over="2KB", th_net="3KB", shape=shape)
    now = START
    for queue in rng.sample(range(60), 60):
        a.send(queue, [udp(A, C, queue, payload=bytes(958))] * 5)
        b.send(queue, [udp(B, C, queue, payload=bytes(958))] * 5)
        switch.turn_at(now)
        now += rng.choice([1, 3, 10, 40]) * US
    assert {row["port"] for row in switch.pauses(now)} == {"a", "b"}
    switch.detach_name("a")
    for _ in range(300):
        switch.turn_at(now)
        left = [row["left_ns"] for row in switch.pauses(now)]
        assert left and min(left) > 0, "a pause that is over has not ended"
        now += 10 * US
    assert c.protocol_errors == 0


def test_live_flows_are_found_when_others_have_left_the_table():
    """250 flows in a table of 2048: some share a run of it. Idle ones in between leave, the others keep their queues."""
    shape = {"queues": 512, "rings": 2048}
    flows, live = 250, range(0, 250, 2)
    switch, a, b = switch_of(A, B, mode="dpfq", flows=1024, idle="10ms", shape=shape, hash_seed=7)
    now = START

    def send(ports):
        """A frame of each of these flows, all in one transmit queue; the receive queue that each comes out of."""
        nonlocal now
        found = {}
        a.send(0, [udp(A, B, 1 + port) for port in ports])
        for _ in range(20):
            now += 10 * US
            switch.turn_at(now)
            found |= {int.from_bytes(frame[34:36], "big") - 1: queue for queue, frame in b.receive(1000)}
        return found

    first = send(range(flows))
    assert sorted(first) == list(range(flows)) and len(set(first.values())) == flows
    for _ in range(4):
        now += 4 * MS
        assert send(live) == {port: first[port] for port in live}
    while len(switch.flows()) > len(live):
        now += 4 * MS
        assert send(live) == {port: first[port] for port in live}
    assert sorted(row["source_port"] - 1 for row in switch.flows()) == list(live)


@pytest.mark.parametrize(("ports", "most"), [((A, B), 32), ((A, B, C), 32)])
def test_how_many_queues_of_a_receiver_one_sender_gets(ports, most):
    """Of 64: another as long as it has fewer than are free, 32; less one per other port, here none or one: 31.5, which is 32."""
    switch, a, *_ = switch_of(*ports, mode="dpfq", shape={"queues": 64, "rings": 256})
    for i in range(100):
        a.send(0, [udp(A, B, 1 + i)])
        switch.turn_at(START + i * US)
    assert len(switch.flows()) == most and switch.ports()[1]["sent_frames"] == 100


def test_flows_without_a_queue_share_those_of_their_sender():
    """Of 8 queues C gets 4 and then A 2: free less one per other port. Their other flows share these, not those of each other."""
    switch, a, b, c = switch_of(A, B, C, mode="dpfq", shape={"queues": 8, "rings": 64})
    for address, app in ((C, c), (A, a)):
        for i in range(40):
            assert app.send(0, [udp(address, B, 1 + i)]) == 1
            switch.turn_at(START + i * US)
    senders = {}
    for queue, frame in b.receive(100):
        senders.setdefault(queue, []).append(frame[26:30])
    assert sorted((len(set(found)), found[0][3]) for found in senders.values()) == [(1, 1)] * 2 + [(1, 3)] * 4
    assert sum(map(len, senders.values())) == 80


def test_a_queue_is_not_taken_from_a_flow_that_has_just_used_it():
    """Of 8 queues A gets 4. A fifth flow shares one for a millisecond; then the first flow, long drained, has to go."""
    switch, a, b = switch_of(A, B, mode="dpfq", shape={"queues": 8, "rings": 64})

    def ports(new, now):
        a.send(0, [udp(A, B, new)])
        switch.turn_at(now)
        b.receive(10)
        switch.turn_at(now + 10)
        return sorted(row["source_port"] for row in switch.flows())

    for i in (1, 2, 3, 4):
        assert ports(i, START + i * US) == [*range(1, i + 1)]
    assert ports(5, START + MS) == [1, 2, 3, 4] and switch.counters()["reclaimed_flows"] == 0
    assert ports(6, START + 10 * MS) == [2, 3, 4, 6] and switch.counters()["reclaimed_flows"] == 1


def test_the_frame_that_is_tried_counts_as_waiting():
    """The receive queue holds 3 of 10 frames of 1000 bytes; the fourth is in the hand of the switch, the others in the ring."""
    switch, a, _ = switch_of(A, B, mode="dpfq", th_goal="1KB", th_over="2KB", th_net="3KB")
    a.send(0, [FRAME] * 10)
    switch.turn_at(START)
    switch.detach_name("a")
    (left,) = switch.detached
    assert (left["waiting_frames"], left["waiting_bytes"]) == (7, 7000)


def test_a_full_queue_takes_frames_again_once_it_is_below_th_over():
    """10 frames fill it to th_net. It stays full with 8 or 5 left; with 4 left one more makes th_over, and it is filled again."""
    switch, a, b = switch_of(A, B, mode="dpfq", th_goal="1KB", th_over="5KB", th_net="10KB")
    a.send(0, [FRAME] * 20)
    now = START
    for take, delivered in ((0, 10), (2, 10), (3, 10), (1, 16)):
        assert take == 0 or len(b.receive(take)) == take
        for _ in range(300):  # longer than any pause
            now += 10 * US
            switch.turn_at(now)
        assert switch.flows()[0]["frames"] == delivered, take


def test_order_of_what_waits_is_kept_when_a_pause_ends():
    switch, a, b = switch_of(A, B, mode="dpfq", th_goal="1KB", th_over="2KB", th_net="3KB")
    a.send(0, [udp(A, B, payload=b"%03d" % i + bytes(955)) for i in range(12)])
    now, got = START, []
    while len(got) < 12:
        switch.turn_at(now)
        now += 60 * US
        got += [int(payload_of(frame)[:3]) for _, frame in b.receive(1)]
    assert got == list(range(12))


@pytest.mark.parametrize(("sizes", "frames"), [([1000], 128), ([200], 128), ([1000, 200], 116)])
def test_a_flow_is_given_half_of_a_receivers_buffers(sizes, frames):
    """Of 256, if all frames are alike.  A buffer counts as a frame of the mean size, into which each goes with a weight of 1/4:

    where 1000 and 200 B alternate, it is 657 B after a long one and 543 after a short one.  Before the 117th frame 69.6 KB
    wait, and 256 * 543 B - 69.6 KB is less than that and 1000 B more; before the 115th, 68.4 KB, it is not.
    """
    switch, a, _ = switch_of(A, B, mode="dpfq", th_goal="1MB", th_over="2MB", th_net="4MB", shape={"buffers": 256})
    for i in range(frames + 1):
        assert switch.flows()[0]["pauses"] == 0 if i else not switch.flows()
        a.send(0, [udp(A, B, payload=bytes(sizes[i % len(sizes)] - 42))])
        switch.turn_at(START + i * US)
    row = switch.flows()[0]
    assert (row["frames"], row["pauses"], row["waiting_bytes"]) == (frames, 1, sum(sizes) * frames // len(sizes))
