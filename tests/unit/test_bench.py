"""The benchmark: its traffic, a measurement in another process, the median of several, and its errors."""

import shutil

import pytest

from penstock_net.composition import available, parse
from penstock_net.errors import SpecError
from penstock_net.testing import bench


def test_the_scenario_of_floodgate_begins_with_an_incast():
    topo, flows = bench.flows_of("fg160")
    crowd = (flows.start_ps == 0) & (flows.dst == 0) & (flows.bytes == bench.INCAST_BYTES)
    assert crowd.sum() == bench.SCENARIOS["fg160"]["incast"] and (flows.src[crowd] >= topo.hosts // 2).all()
    assert (flows.src != flows.dst).all()
    _, fewer = bench.flows_of("fg160", 20)
    assert len(fewer) == 20 and (fewer.bytes == bench.FLOW_BYTES).all()


@pytest.mark.parametrize(("scenario", "flows"), [("permutation8192", 8), ("all_to_all1024", 8 * 7)])
def test_scenarios_in_which_all_hosts_begin_at_once(scenario, flows):
    topo, found = bench.flows_of(scenario, 8)
    assert len(found) == flows == len({*zip(found.src, found.dst)})
    assert (found.start_ps == 0).all() and (found.src != found.dst).all() and set(found.src) == set(found.dst) == set(range(8))
    assert (found.bytes == bench.SCENARIOS[scenario]["bytes"]).all() and f"{topo.hosts}" in scenario
    scheme = bench.SCHEMES[scenario][0]
    row = bench.measure(scenario, scheme, 1, 8)
    assert row["flows_finished"] == flows and row["process_cpu_s"] > row["cpu_s"]


def test_packets_of_the_permutation_are_4_kb():
    _, flows = bench.flows_of("permutation8192", 8)
    row = bench.measure("permutation8192", "dctcp+spray", 1, 8)
    assert row["packet_hops"] <= len(flows) * (bench.FLOW_BYTES // 4000) * 8  # four links, and back


def test_every_scheme_of_the_package_is_measured_on_ls128():
    parts = {part for scheme in bench.SCHEMES["ls128"] for part in parse(scheme).parts}
    assert parts == set(available())


def test_a_measurement_in_another_process():
    here, there = bench.measure("ls128", "fifo", 1, 20), bench.in_process(("ls128", "fifo", 1, 20))
    for key in ("packet_hops", "flows_finished"):
        assert here[key] == there[key] > 0
    assert there["packet_hops_per_s"] == pytest.approx(there["packet_hops"] / there["wall_s"])


def test_a_measurement_that_fails_says_why():
    with pytest.raises(
        SpecError, match=r"^the benchmark ls128 nosuch 1 failed: penstock_net.errors.SpecError: .*no scheme has this name"
    ):
        bench.in_process(("ls128", "nosuch", 1))


def test_rows_are_median_runs(monkeypatch):
    """Of three runs each the one in the middle, with the speed of the fastest."""
    walls = iter([3.0, 1.0, 2.0] * 4)

    def in_process(arguments):
        scenario, scheme, threads = arguments
        wall = next(walls)
        return {"scenario": scenario, "scheme": scheme, "threads": threads, "wall_s": wall, "packet_hops_per_s": 6 / wall}

    monkeypatch.setattr(bench, "in_process", in_process)
    monkeypatch.setattr(bench, "instructions_per_hop", lambda scenario, scheme: 500.0)
    rows = bench.run(["ls128"], ["fifo", "bfc"], threads=(1, 2), instructions=True)
    assert [(r["scheme"], r["threads"]) for r in rows] == [("fifo", 1), ("fifo", 2), ("bfc", 1), ("bfc", 2)]
    assert all(r["wall_s"] == 2 and r["packet_hops_per_s"] == 3 and r["fastest"] == 6 for r in rows)
    assert [r.get("instructions_per_hop") for r in rows] == [500, None, 500, None]


def test_an_unknown_scenario():
    with pytest.raises(SpecError, match=r'unknown scenario "ls182"; did you mean "ls128"'):
        bench.run(["ls182"])


def test_without_valgrind_no_instructions_are_counted(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda program: None)
    assert bench.instructions_per_hop("ls128", "fifo") is None


def test_the_machine_is_named():
    assert "processors, Python 3." in bench.machine()
