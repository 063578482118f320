"""Requests to a served model: what files of them say, which instances are chosen, what is refused."""

import json
import math
import string
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

import penstock_net as ps
from penstock_net.errors import SpecError
from penstock_net.spec import parse_spec
from penstock_net.workload.flowfile import flows_to_parquet
from penstock_net.workload.planning import ASSIGNMENTS, Plan
from penstock_net.workload.requests import MAX_TOKENS, Request, poisson, read

TOPO = ps.star(hosts=8)
SOME = {"rate": 1000.0, "input_tokens": 100, "output_tokens": 5, "duration": "20ms"}
LINE = '{"timestamp": 27.5, "input_length": 1500, "output_length": 40, "hash_ids": [0, 7, 8]}\n'
TABLE = "arrival_s,input_tokens,output_tokens\n0.0275,1500,40\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("requests")


def reading(folder, text, name="requests"):
    file = folder / name
    file.write_text(text)
    return read(file)


def test_what_files_say(folder):
    assert reading(folder, LINE) == [Request(27_500_000_000, 1500, 40, (0, 7, 8))]
    assert reading(folder, TABLE) == [Request(27_500_000_000, 1500, 40)]
    assert reading(folder, TABLE.replace(",", ";").replace("arrival_s", "Arrival_s")) == [Request(27_500_000_000, 1500, 40)]
    later = LINE + LINE.replace("27.5", "3")
    assert [request.arrival_ps for request in reading(folder, later)] == [3_000_000_000, 27_500_000_000]


def test_what_is_not_read_is_said(folder):
    with pytest.warns(UserWarning, match=r"not read: keys: session \(2\)"):
        reading(folder, 2 * LINE.replace("{", '{"session": 3, '))
    with pytest.warns(UserWarning, match=r"not read: columns: Model \(1\)"):
        reading(folder, "arrival_s,Model,input_tokens,output_tokens\n0.0275,x,1500,40\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LINE + '{"timestamp": 1}\n', ":2: input_length: is missing"),
        (LINE + LINE[:40], ":2: is not JSON"),
        (LINE + "[1]\n", ":2: [1]: must be an object"),
        (LINE + LINE.replace("27.5", "NaN"), ":2: is not JSON: NaN is no number"),
        (LINE + LINE.replace("27.5", "-1"), ":2: timestamp = "),
        (LINE + LINE.replace("27.5", '"1"'), "timestamp = "),
        (LINE + LINE.replace("27.5", "1e999999"), ":2: timestamp = "),
        (LINE + LINE.replace("1500", "0"), ":2: input_length = 0"),
        (LINE + LINE.replace("1500", "2.5"), ":2: input_length = 2.5"),
        (LINE + LINE.replace("[0, 7, 8]", "7"), ":2: hash_ids = 7"),
        (LINE + LINE.replace("[0, 7, 8]", "[-1]"), ":2: hash_ids.0 = -1"),
        (LINE + LINE.replace("{", '{"timestamp": 5, '), ":2: is not JSON: timestamp is given twice"),
        (TABLE.replace("arrival_s", "arrival"), "arrival_s: the column is missing"),
        (TABLE.replace("1500", "-3"), ':2: input_tokens = "-3"'),
        (TABLE.split("\n")[0] + "\n", "no requests"),
        ("num_ranks 2\n", "this is a trace in GOAL"),
    ],
)
def test_bad_files(folder, text, says):
    with pytest.raises(SpecError) as error:
        reading(folder, text)
    assert says in str(error.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
NAMES = st.sampled_from(["timestamp", "input_length", "output_length", "hash_ids", "more"])


@examples(100)
@given(lines=st.lists(st.dictionaries(NAMES, VALUES, max_size=5), max_size=3), cut=st.integers(0, 60))
def test_any_lines_are_read_or_refused(folder, lines, cut):
    text = LINE + "".join(json.dumps(line) + "\n" for line in lines)
    refused_or_valid(folder, text[: len(text) - cut])


@examples(100)
@given(text=st.text(alphabet=string.digits + '.,;eE+-\n"# ', max_size=60))
def test_any_table_is_read_or_refused(folder, text):
    refused_or_valid(folder, TABLE + text)


def refused_or_valid(folder, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = reading(folder, text)
        except SpecError as error:
            assert "Traceback" not in str(error)
            return
    assert found == sorted(found, key=lambda request: request.arrival_ps)
    for request in found:
        assert 0 <= request.arrival_ps <= 2**62 and 1 <= request.input_tokens <= MAX_TOKENS >= request.output_tokens >= 0


@examples(50)
@given(
    rows=st.lists(
        st.tuples(st.decimals(0, 10**6, places=6), st.integers(1, 10**6), st.integers(0, 10**6), st.lists(st.integers(0, 2**60))),
        min_size=1,
        max_size=5,
    )
)
def test_what_is_written_is_what_is_read(folder, rows):
    lines = "".join(
        f'{{"timestamp": {at}, "input_length": {i}, "output_length": {o}, "hash_ids": {blocks}}}\n' for at, i, o, blocks in rows
    )
    expected = sorted([Request(int(at * 10**9), i, o, tuple(blocks)) for at, i, o, blocks in rows], key=lambda r: r[0])
    assert reading(folder, lines) == expected
    table = "arrival_s,input_tokens,output_tokens\n" + "".join(f"{Decimal(at) / 1000},{i},{o}\n" for at, i, o, _ in rows)
    assert reading(folder, table) == [request._replace(blocks=()) for request in expected]


def test_poisson():
    """Mean and variance of the number that comes, within four standard deviations; lengths in equal parts."""
    found = poisson(10_000.0, [1, 5], 3, duration_ps=10**12, seed=1)
    assert abs(len(found) - 10_000) < 4 * 100
    per_10_ms = np.bincount([request.arrival_ps // 10**10 for request in found], minlength=100)
    assert abs(per_10_ms.var() / 100 - 1) < 4 * math.sqrt(2 / 99)
    assert abs(sum(request.input_tokens == 5 for request in found) - len(found) / 2) < 4 * 50
    assert {request[1:] for request in found} == {(1, 3, ()), (5, 3, ())}
    assert (
        found
        == poisson(10_000.0, [1, 5], 3, duration_ps=10**12, seed=1)
        != poisson(10_000.0, [1, 5], 3, duration_ps=10**12, seed=2)
    )


# -- what serves a request: the definitions of docs/inference.md once more


def hits(blocks, have):
    count = 0
    while count < len(blocks) and blocks[count] in have:
        count += 1
    return count


def served(requests, prefill, decode, rate, assign, block, store):
    """(prefill, decode, cached, fetched, sent, end) of each."""
    ends, loads = [Fraction(0)] * prefill, ([0] * prefill, [0] * decode)
    own, there, when = [set() for _ in range(prefill)], [set() for _ in range(decode)], {}
    for number, (now, tokens, _, named) in enumerate(requests):
        blocks = named[: tokens // block]
        order = [
            [
                (-hits(blocks, have[i]) if assign == "prefix" else 0, max(ends[i], now) if first else 0, load[i], i)
                for i in range(len(have))
            ]
            for have, load, first in ((own, loads[0], True), (there, loads[1], False))
        ]
        p, d = (number % len(each) if assign == "in_turn" else min(each)[-1] for each in order)
        mine = hits(blocks, own[p])
        more = hits(blocks[mine:], {b for b, at in when.items() if at <= now}) if store else 0
        cached = min((mine + more) * block, tokens - 1)
        ends[p] = max(ends[p], now) + round(Fraction(tokens - cached, 1) * 10**12 / rate)
        sent = max(tokens - hits(blocks, there[d]) * block, 1)
        loads[0][p] += tokens
        loads[1][d] += tokens
        own[p] |= set(blocks)
        there[d] |= set(blocks)
        for b in blocks[mine + more :]:
            when.setdefault(b, ends[p])
        yield p, d, cached, more, sent, ends[p]


@examples(150)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 40), st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=12
    ),
    prefill=st.integers(1, 3),
    decode=st.integers(1, 3),
    assign=st.sampled_from(ASSIGNMENTS),
    store=st.integers(0, 2),
)
def test_what_serves_a_request(rows, prefill, decode, assign, store):
    """Prompts are trees: block n of family f, after how many it parts from the family."""
    now, requests = 0, []
    for number, (gap, tokens, common, family) in enumerate(rows):
        now += gap
        blocks = [family * 100 + i if i < common else 10_000 + number * 100 + i for i in range(-(-tokens // 4))]
        requests.append(Request(now, tokens, 1, tuple(blocks)))
    plan = Plan(prefill, decode, 10.0**12, assign, 4, True, store)
    found = plan.serve(requests)
    expected = list(served(requests, prefill, decode, 10**12, assign, 4, store))
    assert [(s.prefill, s.decode, s.cached, len(s.fetched), s.sent, s.free_ps) for s in found] == expected
    for number, (request, one) in enumerate(zip(requests, found)):
        brought = {b for s in one.sources for b in requests[s].blocks[: requests[s].input_tokens // 4]}
        assert all(s < number and found[s].decode == one.decode for s in one.sources)
        assert brought.issuperset(request.blocks[: (request.input_tokens - one.sent) // 4])
        assert not set(one.fetched) - {b for earlier in found[:number] for b in earlier.stored}


# -- what is refused


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "rate: is missing; give it, or a file of requests"),
        ({"file": "x", "rate": 5.0}, "rate = 5.0: file is given, too"),
        ({"file": "nowhere"}, 'nowhere": cannot be read'),
        ({**SOME, "input_tokens": None}, "input_tokens: is missing"),
        ({**SOME, "input_tokens": []}, "input_tokens: the list is empty"),
        ({**SOME, "input_tokens": [3, 0]}, "input_tokens.1 = 0"),
        ({**SOME, "rate": 1e12}, "rate = "),
        ({**SOME, "rate": 1e8}, "requests would come"),
        ({**SOME, "rate": 1e-3}, "no request comes within duration"),
        ({**SOME, "prefill": 8}, "take 9 hosts, but there are 8"),
        ({**SOME, "tokens_per_second": 0}, "tokens_per_second = 0"),
        ({**SOME, "tokens_per_second": 1e-300}, "tokens_per_second = 1e-300"),
        ({**SOME, "kv_bytes": "0B"}, 'kv_bytes = "0B"'),
        ({**SOME, "kv_bytes": "1TB"}, "a cache of 100 tokens"),
        ({**SOME, "assign": "best"}, 'assign = "best"'),
        ({**SOME, "send": "part"}, 'send = "part"'),
        ({**SOME, "store": 1, "prefix_cache": False}, "there is nothing to store"),
        ({**SOME, "store": 1}, "no request names blocks; give a file with hash_ids"),
        ({**SOME, "steps": 3}, "expert_bytes must be given, too"),
        ({**SOME, "expert_bytes": "1KB"}, "steps must be given, too"),
        ({**SOME, "steps": 3, "expert_bytes": "1KB"}, "one rank has all experts"),
        ({**SOME, "connections": "channel"}, 'connections = "channel"'),
        ({**SOME, "hosts": [0, 0]}, "occurs twice"),
        ({**SOME, "layers": 1000, "send": "layer", "rate": 2e5}, "flows, more than 5000000"),
    ],
)
def test_bad_arguments(arguments, says):
    if arguments:
        with pytest.raises(SpecError) as error:
            parse = {"run": {"duration": "20ms"}, "topology": {"kind": "star", "hosts": 8}, "scheme": {"name": "fifo"}}
            spec = parse_spec(
                {**parse, "workload": {"kind": "inference", **{k: v for k, v in arguments.items() if v is not None}}}
            )
            spec.build_flows(spec.build_topology())
        assert says in str(error.value), error.value
    with pytest.raises(SpecError) as error:
        ps.inference(TOPO, **arguments)
    assert says in str(error.value), error.value


def test_a_block_that_does_not_fit_the_file_is_refused(folder):
    file = folder / "blocks"
    file.write_text(LINE)
    with pytest.raises(SpecError, match="names 3 blocks, but its 1500 tokens are at most 1"):
        ps.inference(TOPO, file=str(file), block=2000)


def test_requests_do_not_fit_into_a_file_of_flows(folder):
    with pytest.raises(SpecError, match="do not fit into a file of flows"):
        flows_to_parquet(ps.inference(TOPO, **SOME), folder / "flows.parquet")


def test_requests_beyond_the_run_are_left_out_and_counted(folder):
    file = folder / "late.csv"
    file.write_text("arrival_s,input_tokens,output_tokens\n0,10,1\n0.5,10,1\n2,10,1\n")
    tables = {"run": {"duration": "1s"}, "topology": {"kind": "star", "hosts": 2}, "scheme": {"name": "fifo"}}
    spec = parse_spec({**tables, "workload": {"kind": "inference", "file": str(file)}})
    topo = spec.build_topology()
    run = spec.simulate(spec.schemes[0], topo, spec.build_flows(topo))
    assert run.requests.height == 2 and any("are left out: 1" in warning for warning in run.summary["warnings"])
    with pytest.raises(SpecError, match=r"has no requests; a run has it when a \[\[workload\]\] has kind inference"):
        _ = ps.simulate(TOPO, ps.flow_list(TOPO, [(0, 1, "1KB")]), "fifo").requests
