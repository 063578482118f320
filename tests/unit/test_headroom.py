"""`penstock explain --headroom`: what links need and get, and what is left of buffers."""

from pathlib import Path

import pytest

from penstock_net.cli import main
from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.report import headroom as report
from penstock_net.sim.headroom import headroom
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import simulate
from penstock_net.topology import behind_vswitches, leaf_spine, star, with_receivers
from penstock_net.units import format_size
from penstock_net.workload import Flows, flow_list

SPEC = """
[run]
duration = "10us"

[topology]
kind = "star"
hosts = 4
buffer = "2MB"

[[scheme]]
name = "hpcc"
pfc.priorities = 4
pfc.lossless = [1, 3]
pfc.priority_alpha = [0, 0.25]
pfc.priority_reserve = ["1KB"]

[[scheme]]
name = "fifo"

[[workload]]
kind = "incast"
fan_in = 2
total = "10KB"
"""


def lines(topo, scheme):
    return list(report.lines(Settings(topo, Flows.none(), scheme)))


def of(topo, **given):
    return headroom(Settings(topo, Flows.none(), parse("pfc", given)), "pfc")


def test_the_text_of_a_spec(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mixed.toml").write_text(SPEC)
    assert main(["explain", "--headroom", "mixed.toml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "hpcc: headroom of pfc",
        "  priority 0: dropped beyond its share, no headroom; threshold 0.11 x free buffer + 1KB of its own",
        "  priority 1: lossless; threshold 0.25 x free buffer + 0B of its own",
        "  priority 2: dropped beyond its share, no headroom; threshold 0.11 x free buffer + 0B of its own",
        "  priority 3: lossless; threshold 0.11 x free buffer + 0B of its own",
        "  4 links of 100Gbps, 1us: 28.53KB may arrive after a pause, headroom 37.503KB for each lossless priority",
        "    cable 25.002KB, frames 3.528KB",
        "  switch0: headroom and reserve 304.024KB of 2MB, 1.112KB kept for one more packet, 1.69486MB to share",
        "fifo: no part of it has headroom",
    ]


def test_the_parts_of_the_headroom_of_each_class_of_links():
    """Cables of hosts and between switches as their lengths; response and cells apart. Both ways, 5.05 ns a metre."""
    topo = leaf_spine(
        hosts=4, tors=2, spines=1, rate="400Gbps", uplink_rate="800Gbps", delay="5m", uplink_delay="40m", buffer="30MB"
    )
    given = {"priorities": 2, "response": "2.14us", "cell": 254}
    found = [line for line in lines(topo, parse("pfc", given)) if line.startswith("    ")]
    mtu, response = 3 * (1048 + 64) + 64, {400: 107_001, 800: 214_001}
    for line, gbps, metres in zip(found, (800, 400), (40, 5)):
        cable = 2 * (-(-metres * 10**12 // 198_000_000) * gbps // 8000 + 1)
        whole = cable + response[gbps] + mtu
        cells = int(of(topo, **given).needed.max() if gbps == 800 else of(topo, **given).needed[1, 0]) - whole
        names = {"cable": cable, "response": response[gbps], "frames": mtu, "cells": cells}
        assert line == "    " + ", ".join(f"{name} {format_size(size)}" for name, size in names.items())
        assert cells > 4 * whole
    plain = [line for line in lines(topo, parse("pfc", {"priorities": 2})) if line.startswith("    ")]
    assert not any("cells" in line or "response" in line for line in plain) and len(plain) == len(found) == 2


def test_a_sweep_is_explained_by_point(tmp_path, monkeypatch, capsys):
    """What varies is said first; a text once, with all points that it is of."""
    monkeypatch.chdir(tmp_path)
    Path("one.toml").write_text(SPEC.replace('"hpcc"', '"pfc"'))
    varied = ["--param", "topology.delay=1us,2us", "--param", "run.duration=10us,20us", "--seeds", "2"]
    assert main(["sweep", "one.toml", "--param", "scheme=pfc", *varied, "--out", "sw"]) == 0
    capsys.readouterr()
    assert main(["explain", "sw"]) == 0
    first = "sw: a sweep of 8 runs, topology.delay = 1us, 2us; run.duration = 10us, 20us; seed = 1, 2"
    assert capsys.readouterr().out.startswith(first)
    assert main(["explain", "--headroom", "sw"]) == 0
    points = [line for line in capsys.readouterr().out.splitlines() if line.startswith("topology.")]
    assert points == [
        f"topology.delay = {t}, run.duration = 10us, pfc; topology.delay = {t}, run.duration = 20us, pfc:" for t in ("1us", "2us")
    ]
    assert main(["explain", "--backpressure", "sw"]) == main(["explain", "one.toml"]) == 2
    assert "explain --headroom one.toml" in capsys.readouterr().err


def test_too_little_headroom_and_static_thresholds():
    topo = leaf_spine(hosts=8, tors=2, spines=2, uplink_rate="400Gbps", buffer="1MB")
    scheme = parse("pfc", {"headroom_bytes": "30KB", "alpha": 0, "reserve": "50KB"})
    found = lines(topo, scheme)
    assert found[1] == "  all priorities: lossless; static threshold, 50KB of its own"
    assert any("400Gbps" in line and "too little, packets may be lost" in line for line in found)
    assert not any("100Gbps" in line and "too little" in line for line in found)
    assert any("tor0 and 1 more: headroom and reserve 480KB of 1MB, 520KB to share" in line for line in found)


def test_a_buffer_that_is_too_small():
    topo = star(hosts=4, buffer="100KB")
    found = lines(topo, parse("pfc"))
    assert found[-1] == "  switch0: headroom and reserve 150.012KB of 100KB, 51.06KB more than there is"


@pytest.mark.parametrize("priorities, lossless, groups", [(1, [0], 1), (1, [], 0), (8, range(8), 8), (8, [7], 1), (2, [0], 1)])
def test_every_lossless_priority_needs_headroom(priorities, lossless, groups):
    found = of(star(hosts=3), priorities=priorities, lossless=list(lossless))
    assert found.given.tolist() == [[0] * 3, [37_503 * (groups > 0)] * 3]
    assert found.taken.tolist() == [3 * groups * 37_503]


@pytest.mark.parametrize(("built", "later"), [("10Gbps", "100Gbps"), ("100Gbps", "10Gbps")])
def test_a_link_that_changes_its_rate_has_the_headroom_of_the_highest_one(built, later):
    """100 Gbit/s x 1 us = 12.5 KB: an upgrade brings more after a pause, and after a downgrade there was more before."""
    changes = [{"time": "5us", "a": "host1", "b": "switch0", "rate": later}]
    changing = star(hosts=3, rate=built).with_changes(changes)
    found = of(changing)
    fast, slow = (of(star(hosts=3, rate=rate)) for rate in ("100Gbps", "10Gbps"))
    assert fast.needed[1, 1] == 2 * 12_501 + 3 * (1048 + 64) > slow.needed[1, 1]
    assert found.needed[1, 1] == fast.needed[1, 1] and found.given[1, 1] == fast.given[1, 1]
    kinds = [line.split(":")[0] for line in lines(changing, parse("pfc")) if "links of" in line]
    assert kinds == [f"  {n} links of {built}, 1us" for n in ((2, 1) if built == "10Gbps" else (3,))]


@pytest.mark.parametrize("scheme", ["pfc", "dcqcn"])
def test_switches_without_the_scheme_and_hosts_as_the_scheme_sets_them(scheme):
    """No headroom where a run has none; a full frame is that of a run, whose hosts the scheme may set."""
    topo = leaf_spine(hosts=4, tors=2, spines=1, uplink_rate="400Gbps")
    found = lines(topo, parse(scheme, {"plain_switches": ["spine*"], "host.mtu": 4000}))
    assert "  spine0: without the scheme" in found
    assert any("4 links of 100Gbps, 1us: 37.338KB may arrive" in line for line in found)  # 2 x 12 501 + 3 x (4048 + 64)
    assert any("tor0 and 1 more: headroom" in line for line in found)


def test_what_the_text_says_is_what_a_run_shares():
    """A port of a switch without traffic takes all that is free: as much as it says, and a packet is refused after that."""
    topo = star(hosts=3, buffer="200KB")
    [text] = [line for line in lines(topo, parse("pfc", {"alpha": 16})) if "to share" in line]
    assert text.endswith("headroom and reserve 112.509KB of 200KB, 87.491KB to share")
    flows = flow_list(topo, [(1, 0, "300KB"), (2, 0, "300KB")])
    most = simulate(topo, flows, parse("pfc", {"alpha": 16})).frame("nodes").filter(node=3)["max_buffer_bytes"].item()
    assert 87_491 - 1048 < most <= 87_491 + 2 * 37_503


def test_a_buffer_that_is_too_small_for_the_highest_rate_is_refused():
    changes = [{"time": "1us", "a": f"host{i}", "b": "switch0", "rate": "100Gbps"} for i in range(4)]
    topo = star(hosts=4, rate="10Gbps", delay="10us", buffer="1MB").with_changes(changes)
    with pytest.raises(SpecError, match=r"the lossless headroom of switch0 alone takes 1\.5"):
        simulate(topo, flow_list(topo, [(1, 0, 1000)]), "pfc")


def test_pauses_that_wait_behind_slow_packets_are_told():
    topo = with_receivers(behind_vswitches(star(hosts=2), apps=1), [{"host": 1, "rate": "1Gbps"}])
    [late] = [line for line in lines(topo, parse("pfc")) if "slower" in line]
    assert late == "  vswitch1 to host1, slower than back: 110.088KB more may arrive, so vswitch1 pauses host1 that much earlier"


def test_response_cells_and_a_pool_are_told():
    """64 ports of 800 Gbit/s at 300 m, as shipped: 3.2 times more than the pool has."""
    topo = star(hosts=64, rate="800Gbps", delay="1515ns", buffer="162539680B")
    given = {"response": "2.14us", "cell": 254, "small_packets": 0.5, "headroom_bytes": 1621536, "headroom_pool": 33374584}
    found = lines(topo, parse("pfc", given))
    assert found[2:4] == [
        "  a neighbour is silent 2.14us after a pause has reached it",
        "  the buffer is counted in cells of 254B, headroom for 50% of the bytes in the smallest packets",
    ]
    assert "64 links of 800Gbps, 1.515us: 1.66392MB may arrive after a pause, headroom 1.62154MB" in found[4]
    assert found[5] == "    cable 303.002KB, response 214.001KB, frames 3.336KB, cells 1.14358MB"
    assert found[6].endswith("headroom and reserve 33.3746MB of 162.54MB, 1.27KB kept for one more packet, 129.164MB to share")
    assert found[7] == "  switch0: the headrooms of all ports together are 103.778MB, 3.11 times the pool of 33.3746MB"


def test_headroom_is_for_the_mtu_that_is_given():
    topo = star(hosts=3)
    needed = [int(of(topo, lossless_mtu=size).needed[1, 0]) for size in (0, 1048, 4144)]
    assert needed[0] == needed[1] == needed[2] - 3 * (4144 - 1048)
