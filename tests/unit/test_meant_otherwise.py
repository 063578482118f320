"""Values that are possible, but not what somebody who writes them means: refused or warned of, with what to write instead."""

import pytest

import penstock_net as ps
from penstock_net.errors import SpecError
from penstock_net.spec import parse_spec

TOPO = ps.star(hosts=4)
FLOWS = ps.flow_list(TOPO, [(0, 1, "10KB")])


@pytest.mark.parametrize(
    "make, says",
    [
        (
            lambda: ps.DCQCN(k_min="400KB", k_max="100KB"),
            'ecn.k_min = "400KB": is more than k_max = "100KB"; lower it, or raise k_max',
        ),
        (lambda: ps.DCTCP(k_min="400001"), "k_min"),
        (lambda: ps.scheme("ecn", {"k_min": "500KB"}), 'is more than k_max = "400KB"'),
        (lambda: ps.ECN(k_max="1KB"), 'ecn.k_min = "100KB": is more than k_max = "1KB"'),
        (lambda: ps.scheme("pfc_tagged", {"xon": "65KB"}), 'pfc_tagged.xon = "65KB": is more than xoff = "64KB"'),
        (lambda: ps.scheme("timely", {"t_low": "1ms"}), 'timely.t_low = "1ms": is more than t_high = "500us"'),
        (lambda: ps.scheme("expresspass", {"w_min": 0.4, "w_max": 0.1}), "expresspass.w_min = 0.4: is more than w_max = 0.1"),
        (lambda: ps.scheme("swift", {"min_cwnd": 2000}), "swift.min_cwnd = 2000: is more than max_cwnd"),
        (lambda: ps.scheme("pias", {"thresholds": ["10KB", "2KB"]}), "pias.thresholds = "),
        (lambda: ps.simulate(TOPO, FLOWS, scheme="BFC"), 'did you mean "bfc"?'),
        (lambda: ps.simulate(TOPO, FLOWS, scheme=ps.BFC), "write ps.BFC()"),
        (lambda: ps.poisson(TOPO, load=1.5, load_on="host"), "give --force (in Python: force=True)"),
    ],
)
def test_a_value_that_contradicts_another_or_is_of_another_kind(make, says):
    with pytest.raises(SpecError) as caught:
        make()
    assert says in str(caught.value)


def test_equal_bounds_and_any_order_of_setting_them_are_possible():
    assert ps.DCQCN(k_min="200KB", k_max="200KB").parameters()["ecn.k_min"] == "200KB"
    assert ps.scheme("ecn", {"k_min": "500KB", "k_max": "1MB"}).parameters()["ecn.k_max"] == "1MB"


@pytest.mark.parametrize("share, instead", [(0.99, "99"), (0.999, "99.9"), ([50, 0.5], "50")])
def test_a_percentile_is_no_share(share, instead):
    run = ps.simulate(TOPO, FLOWS, "fifo")
    with pytest.raises(SpecError, match=f"write {instead}$"):
        run.slowdown(share)
    with pytest.raises(SpecError, match=f"write {instead}$"):
        ps.plot.slowdown(run, percentile=share if isinstance(share, float) else 0.5)
    assert len(run.slowdown(0)) == len(run.slowdown(1)) == len(run.slowdown(99.9)) == 1


def test_an_incast_with_fewer_senders_than_flows_is_warned_of():
    given = {"size": "1KB", "duration": "10us", "every": "5us"}
    found = [ps.simulate(TOPO, ps.incast(TOPO, fan_in=n, **given), "fifo").summary["warnings"] for n in (3, 4)]
    assert not any("fan_in" in text for text in found[0])
    assert any("fan_in = 4, but some events have 3 possible senders" in text for text in found[1])
    meant = ps.incast(TOPO, fan_in=4, replace=True, **given)
    assert not any("fan_in" in text for text in ps.simulate(TOPO, meant, "fifo").summary["warnings"])


@pytest.mark.parametrize(
    "change, says",
    [
        (("topology", "kind", "leafspine"), 'topology.kind = "leafspine": must be one of'),
        (("workload", "load", "40%"), 'load = "40%": must be a finite number'),
        (("workload", "lood", 0.4), 'workload.0.lood: unknown key; did you mean "load"?'),
        (("scheme", "queus", 4), 'scheme.queus: scheme "bfc" has no such parameter; did you mean "queues"?'),
        (("topology", "rate", "100"), 'topology.rate = "100": the unit is missing'),
    ],
)
def test_a_spec_is_checked_when_it_is_loaded(change, says):
    spec = {
        "run": {"duration": "1ms"},
        "topology": {"kind": "star"},
        "scheme": {"name": "bfc"},
        "workload": {"kind": "poisson"},
    }
    section, key, value = change
    with pytest.raises(SpecError) as caught:
        parse_spec({**spec, section: {**spec[section], key: value}})
    assert says in str(caught.value)


def test_two_jobs_have_steps_of_their_own():
    given = {"data": 2, "tensor": 1, "layers": 1, "parameters": "1KB", "iterations": 1}
    one, two = (ps.training(TOPO, hosts=hosts, forward=time, **given) for hosts, time in (([0, 1], "5us"), ([2, 3], "50us")))
    alone = [ps.simulate(TOPO, flows, "fifo").summary["training"]["step_ns"] for flows in (one, two)]
    both = ps.simulate(TOPO, one + two, "fifo").summary["training"]
    assert both["step_ns"] is None and [job["step_ns"] for job in both["jobs"]] == alone


def spine(**more):
    return {"time": "1us", "a": "host0", "b": "switch0", **more}


@pytest.mark.parametrize(
    "changes, says",
    [
        ([spine(rate="50Gbps"), spine(rate="25Gbps")], "is given two rates at 1us, by tables 0 and 1; keep one of them"),
        ([spine(up=False), spine(up=True)], "the link host0 - switch0 is given two states at 1us"),
        ([spine(up=False), spine(up=False, on_down="hold")], "two states"),
        ([spine(up=False, on_down="lose"), spine(up=False, on_down="silent")], "two states"),
        ([spine(rate="50Gbps"), spine(rate="25Gbps", of="host0")], "two rates"),
        ([spine(rate="50Gbps"), spine(up=False), spine(a="switch0", b="host0", rate="1Gbps")], "by tables 0 and 2"),
    ],
)
def test_two_changes_of_a_link_at_one_time_that_contradict(changes, says):
    with pytest.raises(SpecError, match=says):
        TOPO.with_changes(changes)


def test_changes_of_a_link_at_one_time_that_agree():
    both = [spine(rate="50Gbps", of="host0"), spine(rate="25Gbps", of="switch0"), spine(up=False), spine(time="2us", up=True)]
    assert len(TOPO.with_changes([*both, both[0]]).changes) == 5


def test_a_receiver_has_one_speed_at_a_time(tmp_path):
    topo = ps.behind_vswitches(TOPO, apps=1)
    twice = [{"host": 1, "rate": rate, "start": "3us"} for rate in ("1Gbps", "2Gbps")]
    with pytest.raises(SpecError, match="is given two rates at 3us, by tables 0 and 1"):
        ps.with_receivers(topo, twice)
    (tmp_path / "speed.csv").write_text("time,rate\n0us,1Gbps\n5us,2Gbps\n5us,3Gbps\n")
    with pytest.raises(SpecError, match=r"speed.csv:4: time = .5us.: the row before has another rate at this time; keep one"):
        ps.with_receivers(topo, [{"host": 1, "trace": str(tmp_path / "speed.csv")}])


def test_a_number_in_quotes_is_a_name_where_nodes_are_named_by_numbers(tmp_path):
    """Hosts 0, 1 and 4, switches 2 and 3: "2" is no host, and not the third one, which is 4."""
    file = tmp_path / "topology.txt"
    file.write_text("5 2 4\n2 3\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n4 3 1Gbps 1us 0\n2 3 1Gbps 1us 0\n")
    topo = ps.from_file(file)
    assert ps.flow_list(topo, [("0", "4", "1B"), (0, 2, "1B")]).dst.tolist() == [2, 2]
    with pytest.raises(SpecError, match=r'dst = "2": no such host, this is a switch'):
        ps.flow_list(topo, [("0", "2", "1B")])
    with pytest.raises(SpecError, match=r'dst = "7": no such host; known: 0, 1, 4'):
        ps.flow_list(topo, [("0", "7", "1B")])


def test_gaps_without_a_sigma():
    """Which a run with exponential gaps would ignore; as it was before where it is left out."""
    with pytest.raises(SpecError, match=r"sigma = 2.0: exponential gaps have none; leave it out, or give arrivals"):
        ps.poisson(TOPO, load=0.1, load_on="host", sigma=2.0)
    usual, given = (ps.poisson(TOPO, load=0.1, load_on="host", arrivals="lognormal", **more) for more in ({}, {"sigma": 2.0}))
    assert usual.start_ps.tolist() == given.start_ps.tolist() and usual.nominal == given.nominal
