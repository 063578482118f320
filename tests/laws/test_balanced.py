"""Every load balancer under every transport: it runs and all bytes arrive, or it is refused in one line that names both."""

import re
from pathlib import Path

import pytest
from networks import HostConfig, Measure, available, flow_list, simulate

from penstock_net.composition import parse
from penstock_net.errors import SchemeError, SpecError
from penstock_net.topology import leaf_spine

PAGE = Path(__file__).parents[2] / "docs/composing.md"
PATHS = {"choose_path", "choose_port"}
ALONE = {name for name, declared in available().items() if declared.fabric.get("balances") and "uec" in declared.includes}
AT_SENDERS = {name for name, declared in available().items() if declared.fabric.get("balances")} - ALONE
CHOOSING = {name for name, declared in available().items() if declared.hooks & PATHS and not declared.fabric.get("yields_path")}
NETWORKS = {"valiant", "dimension_order"}  # routes of certain networks
BALANCERS = sorted(AT_SENDERS | CHOOSING - {"entropy"} - NETWORKS)
TRANSPORTS = sorted(set(available()) - AT_SENDERS - CHOOSING - ALONE)
VARIANTS = [*BALANCERS, "mixed:bitmap", "least_queue flowlets"]
MORE = ["uec:rccc", "uec:both", "swift+ecn", "dcqcn:cnp", "dctcp+recovery:sack", "recovery:perfect", "uec+bfc"]


def failing():
    """Two paths, of which one fails for a while and comes back, and frames are lost at every link."""
    topo = leaf_spine(hosts=8, tors=2, spines=2, buffer="1MB").with_loss(0.004)
    return topo.with_changes(
        [{"time": time, "a": "tor0", "b": "spine1", "up": up} for time, up in (("9us", False), ("90us", True))]
    )


def composed(transport, balancer):
    """`cbfc` and `recovery` are named last."""
    last = transport.startswith("cbfc")
    first, _, rest = transport.partition("+recovery")
    return f"{balancer}+{transport}" if last else f"{first}+{balancer}{'+recovery' + rest if rest else ''}"


def holds(name):
    """Whether a scheme of the package says what switches hold back, of which there is one."""
    return name in available() and "choose_voq" in available()[name].hooks


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_bytes_arrive_under_every_transport(variant):
    topo, lost = failing(), 0
    flows = [(i, (i + 4) % 8, 24_000 + 500 * i, f"{i}us") for i in range(8)] + [(i, 7, 9_000, "15us") for i in (0, 1)]
    flows = flow_list(topo, flows)
    balancer, _, gap = variant.partition(" ")
    for transport in [*TRANSPORTS, *MORE]:
        name = composed(transport, balancer)
        host = HostConfig(rto="45us" if transport == "pfabric" else "100us")
        if holds(balancer) and holds(transport):
            with pytest.raises(SchemeError, match=f"{transport} and {balancer} both choose what is held back; keep one of them"):
                simulate(topo, flows, name)
            continue
        scheme = parse(name, {"least_queue.gap": "3us"} if gap else {})
        run = simulate(topo, flows, scheme, host=host, max_time_ps=2 * 10**10, measure=Measure(sample="0s"))
        assert run.summary["flows_finished"] == len(flows), name
        lost += run.summary["drops"]
    assert lost > 2 * len(TRANSPORTS)


@pytest.mark.parametrize("balancer", BALANCERS)
def test_another_choice_of_paths_is_refused(balancer):
    topo = failing()
    for other in sorted(CHOOSING | AT_SENDERS):
        if other == balancer or (other == "entropy" and balancer in AT_SENDERS):
            continue
        for name in (f"{balancer}+{other}", f"{other}+{balancer}"):
            with pytest.raises(SpecError, match=r"both choose the (path|entropy)") as caught:
                simulate(topo, flow_list(topo, [(0, 1, 1000)]), name)
            said = str(caught.value)
            assert "\n" not in said and balancer in said and other in said and "keep one of them" in said


def table():
    """Rows of the page's table, by balancer."""
    text = PAGE.read_text().partition("| load balancer |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    return {re.findall(r"`(\w+)`", row[0])[0]: row for row in rows}


def test_the_page_has_them_all():
    rows = table()
    assert sorted(rows) == BALANCERS
    for name, (_, where, *_, order) in rows.items():
        part = parse(f"fifo+{name}")
        assert where.startswith("sender" if name in AT_SENDERS else "switch")
        asks = [available()[one].fabric.get("reordering", 0) for one in part.parts]
        always, sometimes = 1 in asks, any(isinstance(one, str) for one in asks)
        assert order == ("any" if always else "any; with a gap as sent" if sometimes else "as sent"), name
