"""The BFC of Pyrrha's authors (NASA-NJU/Pyrrha-NS3 3765687, its round robin repaired): what it gave on a star."""

import pytest

import penstock_net as ps

US = 1000  # of ns


def star(preset, senders):
    topo = ps.star(hosts=16, rate="100Gbps", delay="1us", buffer="12MB")
    flows = ps.flow_list(topo, [(i, 15, "1MB") for i in range(senders)])
    host = ps.HostConfig(mtu=1000, header=76, ack_priority="data")
    run = ps.simulate(topo, flows, ps.scheme(f"bfc:{preset}"), host=host)
    return [t / US for t in run.flows["fct_ns"].to_list()], run.summary["max_buffer_bytes"]


@pytest.mark.parametrize(
    ("preset", "times", "longest"),
    [
        ("pyrrha_ns3", [361.4, 361.2, 291.9, 291.8], 110828),
        ("pyrrha_ns3_kept", [400.0, 400.1, 400.2, 400.2], 102220),
    ],
)
def test_four_to_one(preset, times, longest):
    found, buffer = star(preset, 4)
    assert found == pytest.approx(times, rel=0.015)
    assert buffer == pytest.approx(longest, rel=0.02)


@pytest.mark.parametrize(("preset", "longest"), [("pyrrha_ns3", 371220), ("pyrrha_ns3_kept", 370144)])
def test_fourteen_to_one(preset, longest):
    """Which flows share one of the 7 queues is drawn, so only the last one's time is compared."""
    found, buffer = star(preset, 14)
    assert max(found) == pytest.approx(1206.1, rel=0.015)
    assert buffer == pytest.approx(longest, rel=0.02)
