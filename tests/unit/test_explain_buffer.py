"""`penstock explain --buffer` and `buffer_needs`: what ports need of the buffer, as text, table and picture."""

from pathlib import Path

import polars as pl
import pytest

import penstock_net as ps
from penstock_net.cli import main
from penstock_net.errors import SpecError

SPEC = """
[run]
duration = "10us"

[topology]
kind = "leaf_spine"
hosts = 8
tors = 2
spines = 1
rate = "400Gbps"
delay = "5m"
uplink_rate = "800Gbps"
uplink_delay = "50m"
buffer = "32MB"

[host]
mtu = 4096

[[scheme]]
name = "hpcc"
pfc.priorities = 4
pfc.lossless = [1, 3]

[[scheme]]
name = "dcqcn"
pfc.priorities = 4
pfc.lossless = [1, 3]

[[scheme]]
name = "bfc"
plain_switches = ["spine*"]

[[scheme]]
name = "fifo"

[[workload]]
kind = "incast"
fan_in = 2
total = "10KB"
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mixed.toml").write_text(SPEC)
    return "mixed.toml"


def test_the_text_of_a_spec(spec, capsys):
    """Schemes whose part needs the same are one; those that the spec lacks stand beside; its own ports have a star."""
    assert main(["explain", "--buffer", spec]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "fifo: no part of it says what it needs"
    titles = [line for line in lines[3:] if not line.startswith("  ")]
    assert titles == ["pfc of hpcc, dcqcn", "bfc", "cbfc, not in the spec: with its default parameters"]
    start = lines.index("pfc of hpcc, dcqcn")
    # 400 Gbit/s, 26 ns: 2 x 1263 + 3 x (4144 + 64) + 3 x 64; telemetry of HPCC is counted by no switch
    assert lines[start + 1] == "  8 ports of 400Gbps, 25.253ns: 15.342KB / 29.548KB; for all 2 classes 30.684KB / 59.096KB"
    assert lines[start + 2] == "  4 ports of 800Gbps, 252.526ns: 63.322KB / 125.508KB; for all 2 classes 126.644KB / 251.016KB"
    starred = [line.split()[0] for line in lines[start + 3 :] if "*" in line and not line.startswith("  *")]
    assert starred[:2] == ["5m", "50m"]
    assert "  2 ports of 800Gbps" in lines[lines.index("bfc") + 2]  # the spine is plain


def test_the_table_and_the_picture(spec, capsys):
    for name in ("needs.csv", "needs.svg"):
        assert main(["explain", "--buffer", spec, "--out", name]) == 0
        assert capsys.readouterr().out.endswith(f"written to {name}\n")
    table = pl.read_csv("needs.csv")
    assert table.height == 3 * 4 * 10 and set(table["part"]) == {"pfc", "bfc", "cbfc"}
    text = Path("needs.svg").read_text()
    assert text.startswith("<?xml")


def test_the_same_from_python():
    topo = ps.leaf_spine(hosts=4, tors=2, spines=1)
    found = ps.buffer_needs(ps.PFC(priorities=2), topo=topo)
    assert found.rows() == [("pfc", "pfc", 8, 100.0, 1000.0, 198.0, 28_402, 58_764, 1, 2)]
    everything = ps.buffer_needs(rates=["100Gbps"], cables=["40m", "1us"])
    assert everything["part"].to_list() == ["bfc", "bfc", "cbfc", "cbfc", "pfc", "pfc"]
    assert ps.buffer_needs([]).is_empty() and ps.buffer_needs([]).columns == everything.columns


def test_hosts_as_the_scheme_sets_them():
    plain, larger = (ps.buffer_needs("pfc", rates=[1e11], cables=["1ns"], host=host) for host in HOSTS)
    assert larger["lossless_bytes"].item() - plain["lossless_bytes"].item() == 3 * 3000


HOSTS = (ps.HostConfig(mtu=1000), ps.HostConfig(mtu=4000))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schemes": "fifo"}, "no part of fifo says what buffer it needs: name one of bfc, cbfc, pfc"),
        ({"topo": 3}, "must be of type Topology"),
        ({"rates": ["fast"]}, "fast"),
        ({"cables": ["-1m"]}, "-1m"),
    ],
)
def test_refused(given, message):
    with pytest.raises(SpecError) as caught:
        ps.buffer_needs(**given)
    assert message.split(":")[0] in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [["--headroom", "quickstart"], ["--network", "quickstart"], ["--markdown"], ["some/run"], ["--backpressure", "quickstart"]],
)
def test_it_stands_alone(spec, words, capsys):
    assert main(["explain", "--buffer", spec, *words]) == 2
    assert "stands alone, but for --out" in capsys.readouterr().err


def test_a_picture_of_no_known_kind(spec, capsys):
    assert main(["explain", "--buffer", spec, "--out", "needs.txt"]) == 2
    assert "a figure must end in" in capsys.readouterr().err and not Path("needs.txt").exists()


MINE = """
structs = {"need": {"lossless": "int64", "full_rate": "int64", "flows": "int32", "classes": "int32"}}
port_state = {"buffer": "need[1]"}


def set_up_node(mine, node):
    for slot in range(node.port_count):
        need = buffer_at(my_port(mine, port_at(node, slot)), 0)
        need.lossless = 1000
        need.full_rate = 1000 + whole(2 * port_at(node, slot).delay / port_at(node, slot).ps_per_byte)
        need.flows = 3
        need.classes = 1
"""


@pytest.mark.thorough
def test_a_user_s_scheme_may_say_so_too(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    found = ps.buffer_needs(str(tmp_path / "mine.py"), rates=["400Gbps"], cables=["1us"])
    assert found.select("lossless_bytes", "full_rate_bytes", "flows", "classes").rows() == [(1000, 101_000, 3, 1)]
