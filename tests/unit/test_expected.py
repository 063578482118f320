"""What a run will cost is said before it runs: exactly the packet-hops where nothing is lost, roughly time and memory."""

import re
from pathlib import Path

import pytest

import penstock_net as ps
from penstock_net.cli import main
from penstock_net.workload.expected import Expected
from penstock_net.workload.flows import Flows

ROOT = Path(__file__).resolve().parents[2]
SPEC = """
[run]
duration = "50us"
[topology]
kind = "leaf_spine"
hosts = 8
tors = 2
spines = 2
[scheme]
name = "dctcp"
[[workload]]
kind = "poisson"
load = 0.4
"""


@pytest.mark.parametrize("mtu", [1000, 4096])
@pytest.mark.parametrize(
    "topo",
    [ps.star(hosts=6), ps.leaf_spine(hosts=8, tors=2, spines=2), ps.fat_tree(k=4), ps.dumbbell()],
    ids=lambda topo: topo.kind,
)
def test_packet_hops_are_those_of_a_run_without_control_frames(topo, mtu):
    flows = ps.poisson(topo, sizes="google", load=0.3, load_on="host", duration="100us")
    run = ps.simulate(topo, flows, scheme="dctcp", host=ps.HostConfig(mtu=mtu))
    assert run.summary["drops"] == 0
    found = Expected.of(topo, flows, mtu)
    assert found.packet_hops == pytest.approx(run.summary["packet_hops"], rel=1e-9)
    assert found.flows == len(flows) == run.flows.height


def test_computations_of_ranks_send_nothing():
    topo = ps.star(hosts=4)
    flows = ps.training(topo, data=4, layers=2, parameters="100KB")
    run = ps.simulate(topo, flows, scheme="dctcp")
    found = Expected.of(topo, flows, 1000)
    assert found.flows == run.flows.height < len(flows)
    assert found.packet_hops == run.summary["packet_hops"]


def test_nothing_costs_the_start_only():
    topo = ps.star(hosts=2)
    found = Expected.of(topo, Flows.none(), 1000)
    assert (found.flows, found.packet_hops) == (0, 0) and 1e8 < found.memory_bytes < 1.1e8


def test_several_runs_one_after_another():
    both = Expected(10, 4e6, 1e8) + Expected(5, 36e6, 3e8)
    assert both == Expected(15, 40e6, 3e8)
    assert str(both) == "15 flows, 40 M packet-hops, 2s to 10s of processor time, 300MB of memory or more"


def test_memory_and_time_are_near_those_of_the_table_of_large_networks():
    """docs/scale.md has measured them; fifo has no state of its own, and one flow nearly no packets in a buffer."""
    rows = re.findall(
        r"^\| ([\d ]+) \| (\w+) \| ([\d ]+) \| ([\d ]+) \| (\d+) \| .* \| ([\d.]+) \|$",
        (ROOT / "docs/scale.md").read_text(),
        re.M,
    )
    assert len(rows) >= 20
    for hosts, scheme, flows, hops, ns, peak in rows:
        n, count = (int(text.replace(" ", "")) for text in (hosts, flows))
        memory = 100e6 + min(60e6, 60e3 * n) + 8e3 * n + 180 * count
        if scheme == "fifo" and count == 1:
            assert 0.7 < float(peak) * 1e9 / memory < 1.5, (hosts, peak, memory)
        assert float(peak) * 1e9 > 0.6 * memory
        assert 20 < int(ns) <= 1.01e9 / 4e6, (hops, ns)


def test_a_dry_run_says_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(SPEC)
    assert main(["run", "s.toml", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert re.search(
        r"expected of each scheme: \d+ flows, [\d,]+ packet-hops, .* of processor time, 100MB of memory or more", said.err
    )
    assert "[topology]" in said.out and "expected" not in said.out and not Path("runs").exists()


def test_a_dry_sweep_checks_each_run_and_lists_what_is_left(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(SPEC)
    swept = ["sweep", "s.toml", "--param", "workload.0.load=0.2,0.4", "--workers", "1", "--out", "out"]
    assert main([*swept, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[2].startswith("2 runs; to simulate: ") and not Path("out").exists()
    assert "workload.0.load=0.2  dctcp  seed=1  out/" in lines[0] and "packet-hops" in lines[0]
    for line in lines[:2]:
        (Path(line.split()[3])).mkdir(parents=True)
    assert main([*swept, "--dry-run", "--set", "run.duration=1us"]) == 0
    capsys.readouterr()
    assert main(["sweep", "s.toml", "--param", "workload.0.load=0.2,1.5", "--out", "out", "--dry-run"]) != 0
    assert "more than the links can carry" in capsys.readouterr().err
