"""What is shown of a switch costs in proportion to its ports, flows, pauses and queues; see tests/laws/growth.py."""

import sys
from copy import deepcopy
from pathlib import Path

import pytest
from test_metrics import busy

from penstock_net.vswitch.client import tables, top
from penstock_net.vswitch.daemon import metrics
from penstock_net.vswitch.daemon.events import Events, Watch

sys.path.append(str(Path(__file__).parent.parent / "laws"))

from growth import Stage, check


def many(number, queues=1):
    """The snapshot of a switch of which everything is there so many times; frames of so many queues were dropped."""
    switch, *_ = busy()
    found = deepcopy(metrics.snapshot(switch))
    port = found["ports"][0]
    drops = {queue: {"full": queue} for queue in range(queues)}
    names = [f"p{i}" for i in range(number)]
    found["ports"] = [port | {"port": name, "drops_by_queue": drops if name == "p0" else {}} for name in names]
    found["flows"] = [found["flows"][0] | {"source_port": i} for i in range(number)]
    found["pauses"] = [found["pauses"][0] | {"port": name, "queue": queue} for name in names for queue in range(8)]
    found["losses"] = dict.fromkeys(names, next(iter(found["losses"].values())))
    return found


def page(number):
    found = many(number, number)
    return lambda: metrics.page(found)


def shown(what):
    def stage(number):
        rows = many(number)[what]
        return lambda: (tables.shown(what, rows, 100), tables.wide(rows))

    return stage


def watched(number):
    found, watch = many(number), Watch(Events())
    return lambda: watch.look(found["ports"], found["losses"])


def history(number):
    found = many(number)
    ports = {row["port"]: row for row in found["ports"]}
    flows = {tables.flow_text(row): row for row in found["flows"]}
    samples = top.History([top.Sample(at, ports, flows) for at in (0.0, 1.0)])
    return lambda: (top.table(samples), top.interval(samples))


STAGES = [
    Stage("the page of metrics", page, (8, 3)),
    *(Stage(f"show {what}", shown(what), (12, 3)) for what in ("ports", "flows", "pauses")),
    Stage("events", watched, (12, 3)),
    Stage("top", history, (12, 3)),
]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_what_is_shown_costs_in_proportion(stage):
    check(stage)
