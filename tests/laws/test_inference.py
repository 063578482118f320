"""Inference: requests by hand to the picosecond on an idle star, and many of them against a fluid model that shares no code.

A token has 1000 B in the cache, a packet: 1048 B on the wire. A message of n packets takes (n + 1) of them and two delays.
"""

import json

import numpy as np
import polars as pl
import pytest

import penstock_net as ps

US = 1_000_000
PACKET, ACK = 1048 * 80, 60 * 80  # ps at 100 Gbit/s
STAR = ps.star(hosts=8, rate="100Gbps", delay="1us")
SMALL = {"tokens_per_second": 1_000_000, "kv_bytes": 1000, "block": 10}  # a token is computed in 1 us
KEYS = ("queue", "prefill", "transfer", "ttft", "ttft_without_network")


def message(packets):
    return (packets + 1) * PACKET + 2 * US


def served(tmp_path, requests, topo=STAR, scheme="pfc", **given):
    """The run of requests (us, tokens, blocks), and the times in ps of each."""
    lines = [
        {"timestamp": at / 1000, "input_length": tokens, "output_length": 1, "hash_ids": list(blocks)}
        for at, tokens, blocks in requests
    ]
    file = tmp_path / "requests.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = ps.simulate(topo, ps.inference(topo, file=str(file), **{**SMALL, **given}), scheme)
    rows = [tuple(round(row[f"{key}_ns"] * 1000) for key in KEYS) for row in run.requests.iter_rows(named=True)]
    return run, rows


def times(queue, prefill, transfer, wait=0):
    """A row of KEYS, in ps, without a queue that the network makes longer."""
    return queue, prefill, transfer, queue + prefill + transfer + wait, queue + prefill + wait


def test_one_request(tmp_path):
    run, rows = served(tmp_path, [(5, 100, ())], first_step="3us")
    assert rows == [times(0, 100 * US, message(100), 3 * US)]
    (row,) = run.requests.iter_rows(named=True)
    assert (row["arrival_ns"], row["first_token_ns"]) == (5000, 5000 + 100_000 + message(100) / 1000 + 3000)
    assert (row["input_tokens"], row["sent_tokens"], row["kv_bytes"], row["cached_tokens"]) == (100, 100, 100_000, 0)


def test_a_queue(tmp_path):
    _, rows = served(tmp_path, [(0, 100, ()), (10, 100, ())])
    assert rows == [times(0, 100 * US, message(100)), times(90 * US, 100 * US, message(100))]


@pytest.mark.parametrize("assign", ["least_loaded", "in_turn", "prefix"])
def test_two_prefill_instances(tmp_path, assign):
    run, rows = served(tmp_path, [(0, 100, ()), (50, 100, ())], prefill=2, assign=assign)
    assert rows == [times(0, 100 * US, message(100))] * 2 and run.requests["prefill"].to_list() == [0, 1]


@pytest.mark.parametrize(
    ("prefill", "decode", "packets"),
    [(2, 2, 50), (2, 1, 100), (1, 2, 100), (2, 3, 60), (4, 2, 60)],
    ids=["each sends half", "into one NIC", "out of one NIC", "shares that overlap", "four to two"],
)
def test_ranks(tmp_path, prefill, decode, packets):
    """The NIC that has most to do decides: of 120 tokens, or of 100 where two halves are meant."""
    tokens = 120 if (prefill, decode) in ((2, 3), (4, 2)) else 100
    run, rows = served(tmp_path, [(0, tokens, ())], prefill_ranks=prefill, decode_ranks=decode)
    assert rows == [times(0, tokens * US, message(packets))]
    assert run.flows["bytes"].sum() == tokens * 1000
    if (prefill, decode) == (2, 3):
        assert run.flows.select("src", "dst", "bytes").rows() == [(0, 2, 40_000), (0, 3, 20_000), (1, 3, 20_000), (1, 4, 40_000)]


def test_layers_behind_the_computation(tmp_path):
    """Only the last of four layers is sent when all is computed."""
    run, rows = served(tmp_path, [(0, 100, ())], send="layer", layers=4)
    assert rows == [times(0, 100 * US, message(25))]
    assert run.flows["start_ns"].to_list() == [25_000, 50_000, 75_000, 100_000]


def test_layers_that_the_network_holds_up(tmp_path):
    """2000 packets from when the first layer is computed on, one after another."""
    _, rows = served(tmp_path, [(0, 100, ())], send="layer", layers=4, kv_bytes=20_000)
    assert rows == [times(0, 100 * US, 25 * US + message(2000) - 100 * US)]


PREFIX = [(0, 100, range(10)), (500, 60, (0, 1, 2, 77))]


@pytest.mark.parametrize(
    ("given", "computed", "sent"),
    [
        ({}, 30, 30),
        ({"prefill": 2, "assign": "in_turn"}, 60, 30),
        ({"decode": 2, "assign": "in_turn"}, 30, 60),
        ({"prefill": 2, "decode": 2, "assign": "prefix"}, 30, 30),
        ({"prefix_cache": False}, 60, 60),
    ],
    ids=["both have it", "decode has it", "prefill has it", "those that have it are chosen", "nobody keeps it"],
)
def test_a_prefix(tmp_path, given, computed, sent):
    run, rows = served(tmp_path, PREFIX, **given)
    assert rows[1] == times(0, computed * US, message(sent))
    assert run.requests.select("cached_tokens", "sent_tokens").row(1) == (60 - computed, sent)


def test_a_prompt_that_is_there_already(tmp_path):
    """Its last token is computed and sent; blocks that are not whole are not kept."""
    _, rows = served(tmp_path, [(0, 100, range(10)), (500, 100, range(10)), (900, 95, range(10))])
    assert rows[1:] == [times(0, US, message(1)), times(0, 5 * US, message(5))]


def test_a_prefix_that_is_under_way(tmp_path):
    """The second request sends 200 packets from elsewhere, and has its cache when the 2000 of the first have come, too."""
    requests = [(0, 100, range(10)), (0, 110, range(10))]
    run, rows = served(tmp_path, requests, prefill=2, assign="in_turn", kv_bytes=20_000)
    assert rows[1] == times(0, 110 * US, 100 * US + message(2200) - 110 * US)
    assert run.requests["sent_tokens"].to_list() == [100, 10]


def test_a_prefix_is_fetched_from_the_store(tmp_path):
    requests = [(0, 100, range(10)), (1000, 35, range(3))]
    run, rows = served(tmp_path, requests, prefill=2, decode=2, store=1, assign="in_turn")
    fetch = message(30)
    assert rows[1] == (fetch, 5 * US, message(35), fetch + 5 * US + message(35), 5 * US)
    assert run.requests.select("cached_tokens", "fetched_tokens", "sent_tokens").row(1) == (30, 30, 35)
    kept = run.flows.filter(pl.col("class") == "inference/store").select("src", "dst", "bytes").rows()
    assert kept == [(0, 4, 100_000), (4, 1, 30_000)]


def test_a_fetch_waits_for_what_is_written(tmp_path):
    """The first writes 50 tokens beside the 100 that it sends, in turn: packet 99, 100 or 101 is the last of them, and its
    acknowledgement goes before the fetch."""
    requests = [(0, 100, range(5)), (101, 55, range(5))]
    _, rows = served(tmp_path, requests, prefill=2, decode=2, store=1, assign="in_turn")
    late = rows[1][0] - (100 * US + message(99) + message(50) + ACK - 101 * US)
    assert late in (0, PACKET, 2 * PACKET)
    early = [(0, 100, range(5)), (99, 55, range(5))]  # nothing had been computed when it came
    run, rows = served(tmp_path, early, prefill=2, decode=2, store=1, assign="in_turn")
    assert rows[1][:2] == (0, 55 * US) and run.requests["fetched_tokens"].to_list() == [0, 0]


def test_a_fetch_waits_for_all_who_write(tmp_path):
    """The blocks of the third request come from the first, long ago, and from the second, which has just computed them."""
    requests = [(0, 55, range(5)), (1000, 105, range(10)), (1060, 105, range(10))]
    run, _ = served(tmp_path, requests, prefill=3, decode=2, store=1, assign="in_turn")
    stored = run.flows.filter(pl.col("class") == "inference/store").sort("start_ns")
    first, fetched, second, last = stored.iter_rows(named=True)
    assert [row["bytes"] for row in (first, fetched, second, last)] == [50_000, 50_000, 50_000, 100_000]
    assert first["finish_ns"] < fetched["start_ns"] < second["start_ns"] < second["finish_ns"] <= last["start_ns"]


def test_experts_exchange_by_step():
    """25 000 B by shares 1, 1/2, 1/3, 1/4: to the experts, back, and on."""
    given = {"rate": 100.0, "input_tokens": 5, "output_tokens": 5, "duration": "100ms", "requests": 1, **SMALL}
    topo = ps.star(hosts=5)
    flows = ps.inference(topo, **given, decode_ranks=4, steps=3, step="10us", expert_bytes=25_000, skew=1.0)
    run = ps.simulate(topo, flows, "pfc")
    rows = [row for row in run.flows.iter_rows(named=True) if row["class"] == "inference/experts"]
    assert len(rows) == 3 * 2 * 4 * 3
    orders = []
    ready = dict.fromkeys(range(1, 5), 0.0)
    for step in (rows[i : i + 24] for i in range(0, 72, 24)):
        there, back = step[:12], step[12:]
        sizes = {row["dst"]: row["bytes"] for row in there}
        orders.append(tuple(sizes.values()))
        assert sorted(sizes.values()) == [3000, 4000, 6000, 12_000]
        assert all(row["bytes"] == sizes[row["dst"]] for row in there)
        assert sorted((row["dst"], row["src"], row["bytes"]) for row in back) == sorted(
            (row["src"], row["dst"], row["bytes"]) for row in there
        )
        begun = {host: ready[host] + 10_000 for host in ready}
        assert all(row["start_ns"] == begun[row["src"]] for row in there)
        full = {host: max([begun[host], *(row["finish_ns"] for row in there if row["dst"] == host)]) for host in ready}
        assert all(row["start_ns"] == full[row["src"]] for row in back)
        ready = {host: max(begun[host], *(row["finish_ns"] for row in back if row["dst"] == host)) for host in ready}
    assert len(set(orders)) > 1


def test_what_a_run_does_not_reach_is_null():
    given = {"rate": 20_000.0, "input_tokens": 50, "output_tokens": 1, "duration": "1ms", **SMALL}
    run = ps.simulate(STAR, ps.inference(STAR, **given), "pfc", duration_ps=300 * US, drain=False)
    rows = run.requests
    assert 0 < rows["ttft_ns"].drop_nulls().len() < rows.height
    assert rows.filter(rows["ttft_ns"].is_null())["first_token_ns"].null_count() == rows["ttft_ns"].null_count()
    assert rows["queue_ns"].null_count() > 0 and rows["ttft_without_network_ns"].null_count() == 0


def test_requests_of_two_sources_and_other_flows(tmp_path):
    """Each source's requests keep their own times; flows beside them change nothing."""
    given = {"rate": 5000.0, "input_tokens": 50, "output_tokens": 1, "duration": "1ms", **SMALL}
    one, two = (ps.inference(STAR, **given, hosts=hosts, index=i) for i, hosts in enumerate(([0, 1], [2, 3])))
    alone = [ps.simulate(STAR, flows, "pfc").requests for flows in (one, two)]
    other = ps.flow_list(STAR, [(4, 5, "1MB", "3us")])
    both = ps.simulate(STAR, other + one + two, "pfc").requests
    expected = [frame.drop("request").rows() for frame in alone]
    assert both.drop("request").rows() == expected[0] + expected[1] and both["request"].to_list() == list(range(both.height))
    saved = ps.simulate(STAR, one, "pfc").save(tmp_path / "run")
    assert ps.Run.load(saved).requests.equals(alone[0])


# -- a fluid model


def fluid(messages, capacity):
    """When each message (start, src, dst, bits) ends if links share fairly (max-min), s; links: ("up", host), ("down", host)."""
    left = {i: bits for i, (_, _, _, bits) in enumerate(messages)}
    begins = sorted(range(len(messages)), key=lambda i: messages[i][0])
    active, done, now = {}, {}, 0.0
    while begins or active:
        rates, room = {}, {}
        for i in active:
            for link in active[i]:
                room.setdefault(link, [capacity, 0])[1] += 1
        while len(rates) < len(active):
            tight = min((link for link in room if room[link][1]), key=lambda link: room[link][0] / room[link][1])
            share = room[tight][0] / room[tight][1]
            for i in [i for i in active if i not in rates and tight in active[i]]:
                rates[i] = share
                for link in active[i]:
                    room[link][0] -= share
                    room[link][1] -= 1
        first = min((left[i] / rates[i] for i in active), default=np.inf)
        until = messages[begins[0]][0] if begins else np.inf
        step = min(first, until - now)
        for i in active:
            left[i] -= rates[i] * step
        now += step
        for i in [i for i in active if left[i] <= 1e-3]:
            done[i] = now
            del active[i]
        while begins and messages[begins[0]][0] <= now:
            i = begins.pop(0)
            active[i] = (("up", messages[i][1]), ("down", messages[i][2]))
    return [done[i] for i in range(len(messages))]


def test_many_requests_are_as_in_a_fluid_model():
    """600 requests, 24 prefill and 8 decode instances: every transfer takes what the model says within 2 %.

    Packets of 9000 B take turns (ideal_fq), so a message of 2 to 4 MB is late by a packet per
    competitor, below 1 %; the path's two delays and a packet are added to the model.
    """
    topo = ps.star(hosts=32, rate="100Gbps", delay="1us")
    given = {"input_tokens": [2000, 3000, 4000], "output_tokens": 1, "tokens_per_second": 2_000_000, "kv_bytes": 1000}
    flows = ps.inference(topo, rate=220_000.0, duration="3ms", prefill=24, decode=8, requests=600, connections="message", **given)
    run = ps.simulate(topo, flows, "ideal_fq", host=ps.HostConfig(mtu=9000))
    rows = run.requests
    assert rows.height == 600 and rows["ttft_ns"].null_count() == 0
    computed = ((rows["arrival_ns"] + rows["queue_ns"] + rows["prefill_ns"]) / 1e9).to_list()
    wire = [(size + 48 * -(-size // 9000)) * 8 for size in rows["kv_bytes"]]
    messages = list(zip(computed, rows["prefill"], (rows["decode"] + 24), wire))
    expected = np.array(fluid(messages, 100e9)) - computed + 2e-6 + 9048 * 8 / 100e9
    found = rows["transfer_ns"].to_numpy() / 1e9
    alone = np.array(wire) / 100e9
    assert np.mean(expected > 1.5 * alone) > 0.5, "nothing competes"
    assert np.abs(found / expected - 1).max() < 0.02
