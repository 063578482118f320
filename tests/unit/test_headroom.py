"""`penstock explain --headroom`: what links need and get, and what is left of buffers."""

from pathlib import Path

import pytest

from penstock.cli import main
from penstock.composition import parse
from penstock.report.headroom import lines
from penstock.sim.config import HostConfig
from penstock.sim.headroom import Headroom
from penstock.topology import leaf_spine, star

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
        "  switch0: headroom and reserve 304.024KB of 2MB, 1.69598MB to share",
        "fifo: no part of it has headroom",
    ]


def test_too_little_headroom_and_static_thresholds():
    topo = leaf_spine(hosts=8, tors=2, spines=2, uplink_rate="400Gbps", buffer="1MB")
    scheme = parse("pfc", {"headroom_bytes": "30KB", "alpha": 0, "reserve": "50KB"})
    found = list(lines(topo, scheme, HostConfig()))
    assert found[1] == "  all priorities: lossless; static threshold, 50KB of its own"
    assert any("400Gbps" in line and "too little, packets may be lost" in line for line in found)
    assert not any("100Gbps" in line and "too little" in line for line in found)
    assert any("tor0 and 1 more: headroom and reserve 480KB of 1MB, 520KB to share" in line for line in found)


def test_a_buffer_that_is_too_small():
    topo = star(hosts=4, buffer="100KB")
    found = list(lines(topo, parse("pfc"), HostConfig()))
    assert found[-1] == "  switch0: headroom and reserve 150.012KB of 100KB, 50.012KB more than there is"


@pytest.mark.parametrize("priorities, lossless, groups", [(1, [0], 1), (1, [], 0), (8, range(8), 8), (8, [7], 1), (2, [0, 5], 1)])
def test_every_lossless_priority_needs_headroom(priorities, lossless, groups):
    topo = star(hosts=3)
    values = parse("pfc", {"priorities": priorities, "lossless": list(lossless)}).values("pfc")
    found = Headroom(topo, values, 1048)
    assert found.needs.tolist() == [groups * 37_503] * 3 + [3 * groups * 37_503]
