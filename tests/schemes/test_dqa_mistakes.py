"""Planted mistakes in queue assignment, each of which a comparison with the transcription finds.

Mistakes of readings that do not concern each other are in one file, so that few have to be compiled: a reading is compared by the
sheets that name it, and no other mistake of the sheet is in its way.
"""

import pytest
from helpers import check_frames, incast, network, switch_rows, traced
from paper.queue_assignment import READINGS
from test_bfc import crowd, replay
from test_bfc_variants import check_classes, check_label

from penstock_net.composition import FOLDER
from penstock_net.hashing import choice, flow_hash, node_seed
from penstock_net.workload import flow_list

FULL = "reserved, if full unpaused"
SHEETS = [
    {
        "reserved": ("node.now > mine.kept_until[q] or dqa.assignment == UNPAUSED", "1"),  # queues that a flow may stick to
        "literal": (
            "q = next_empty_queue(dqa, node, port, first, end, 0)",
            "q = next_empty_queue(dqa, node, port, first, end, 1)",
        ),
        "rotating": ("(q + 1 - first)", "(q - first)"),  # the start stays at the queue that was taken
        "two_choices": ("< queue_at(port, a).bytes", "<= queue_at(port, a).bytes"),
        FULL: ("        if not queue_at(port, q).paused:\n            if left == 0:", "        if 1:\n            if left == 0:"),
    },
    {
        "reserved": (
            "first <= q < end and not queue_at(port, q).paused:\n                if",
            "first <= q < end:\n                if",
        ),
        "rotating": ("pkt.in_port * PIPELINES // node.port_count", "0"),  # one pipeline
        "two_choices": ("    b = random_queue(dqa, node, first, end)\n", "    b = a\n"),  # one choice
        FULL: ("unpaused += 0 if queue_at(port, q).paused else 1", "unpaused += 1"),
    },
    {
        "unpaused": (" or dqa.assignment == UNPAUSED", ""),  # it is `reserved`
        "rotating_unpaused": ("if dqa.assignment != ROTATING_UNPAUSED or not queue_at(port, q).paused:", "if 1:"),
        "shortest": ("length += PAUSED", "length += 0"),  # paused ones as well
        "joined": ("(queue.paused or queue.length > 0)", "queue.length > 0"),
        "stochastic": ("node.hash_seed + 2", "node.hash_seed + 1"),
        "single": (
            "    if dqa.assignment == SINGLE:\n        return first\n",
            "    if dqa.assignment == SINGLE:\n        return end - 1\n",
        ),
    },
    {
        "literal": ("dqa.assignment != ROTATING_UNPAUSED or not", "not"),  # paused queues are passed over
        "shortest": ("if length < fewest", "if length <= fewest"),  # the last of several
        "joined": ("free * FEW <= end - first", "free * FEW < end - first"),
        "stochastic": ("pick(pkt.hash, node.hash_seed + 2", "pick(pkt.dst, node.hash_seed + 2"),
    },
    {
        "rotating": ("i * (here.queues // here.classes) // PIPELINES", "0 * i"),  # all pipelines start at queue 0
        "joined": ("mine.destination[q] == pkt.dst + 1 and ", ""),  # it was given to another destination since
        "shortest": (" if dqa.assignment == SHORTEST else", " if dqa.assignment != SHORTEST else"),
    },
    {"joined": ("(node.tier != 1 or port.up >= 0) and ", "")},  # at ports to hosts, too
    {"penstock": ("if dqa.assignment == PENSTOCK:", "if dqa.assignment == JOINED:")},
    {"penstock": ("        mine.queue_to[place_of(dqa, node, pkt)] = q\n", "")},  # it is not noted who has the queue
    {
        "reserved": (
            "entry.expires = node.now + my_node(dqa, node).sticky",
            "entry.expires = node.now + my_node(dqa, node).sticky // 2",
        )
    },
    {"reserved": ("        if node.now > entry.expires or dqa.assignment == STOCHASTIC:", "        if 1:")},  # nothing sticks
    {
        "reserved": ("    if queue.length == 0:\n", "    if queue.length <= 1:\n")
    },  # a queue is empty before its last packet leaves
]
VARIANTS = [
    {
        "classes": ("min(pkt.priority, my_node(dqa, node).classes - 1)", "0"),
        "label": (
            "    if index >= here.queues * dqa.table:\n        return end\n",
            "    if index >= here.queues * dqa.table:\n        return first\n",
        ),
    },
    {
        "classes": ("return first * dqa.table + pick(", "return pick("),  # of one part of the flow table
        "label": ("if here.labelled and from_incast(node, pkt):", "if 0:"),
    },
    {
        "classes": ("mine.first[i] = i * mine.queues // mine.classes", "mine.first[i] = i * mine.queues // (mine.classes + 1)"),
        "label": (
            " - here.labelled\n    if index >= here.queues * dqa.table:\n        return end\n",  # others get its queue, too
            "\n    if index >= here.queues * dqa.table:\n        return end - 1\n",
        ),
    },
    {
        "classes": ("(here.first[i + 1] - first) * dqa.table", "dqa.table"),
        "label": (
            "return here.queues * dqa.table + i",
            "return here.queues * dqa.table - 1 - i",
        ),  # an entry that others may have
    },
]


def sheet_of(folder, mistakes):
    """A file with all mistakes of a sheet."""
    text = (FOLDER / "dqa.py").read_text()
    for right, wrong in mistakes.values():
        assert text.count(right) == 1, f"{text.count(right)} places: {right}"
        text = text.replace(right, wrong)
    file = folder / "dqa.py"
    file.write_text(text)
    return str(file)


def many(topo):
    """Flows of three racks to each host of the fourth, and between racks: more than queues, paused ones that have run empty."""
    flows = [(4 + i % 12, i % 4, 9_000 + 700 * (i % 13), f"{1000 + 230 * i}ns") for i in range(120)]
    return flow_list(topo, flows + [(i % 16, (i + 5) % 16, 6_000, f"{1200 + 610 * i}ns") for i in range(48)])


def check(reading, dqa=None):
    """Every choice of a queue under BFC's backpressure."""
    topo = network()
    for flows, queues in ((crowd(topo), 8), (many(topo), 16 if reading in ("joined", "penstock") else 6)):
        given = {"refresh": 0, "assignment": reading.split(",")[0], "queues": queues}
        if reading == FULL:
            given["if_full"] = "unpaused"
        run, rows = traced(topo, flows, f"bfc+{dqa}" if dqa else "bfc", {**given, "dqa": False} if dqa else given)
        assert check_frames(run, topo, replay(topo, run, rows, "bfc", given)) > 50


def check_static(reading, dqa=None):
    """The queue that the hash says, or the first."""
    topo = network()
    flows = incast(topo, range(3, 16), size=20_000, every_ns=300)
    _, rows = traced(topo, flows, dqa or "dqa", {"assignment": reading, "table": 10_000})
    for node, mine in switch_rows(topo, rows).items():
        for row in mine:
            hashed = int(choice(flow_hash(row.flow, 1), node_seed(node, 1) + 2, 32))
            assert row.queue == (hashed if reading == "stochastic" else 0)


def check_variant(variant, dqa):
    if variant == "classes":
        check_classes("reserved", dqa)
    else:
        check_label(4, "reserved", dqa)


@pytest.mark.parametrize("sheet, reading", [(i, name) for i, names in enumerate(SHEETS) for name in names])
def test_a_mistake_in_a_reading_is_found(tmp_path, sheet, reading):
    file = sheet_of(tmp_path, SHEETS[sheet])
    with pytest.raises(AssertionError):
        (check_static if reading in ("stochastic", "single") else check)(reading, file)


@pytest.mark.parametrize("reading", [*READINGS, FULL, "stochastic", "single"])
def test_without_a_mistake_nothing_is_found(reading):
    (check_static if reading in ("stochastic", "single") else check)(reading)


@pytest.mark.parametrize("sheet, variant", [(i, name) for i, names in enumerate(VARIANTS) for name in names])
def test_a_mistake_in_a_variant_is_found(tmp_path, sheet, variant):
    file = sheet_of(tmp_path, VARIANTS[sheet])
    with pytest.raises(AssertionError):
        check_variant(variant, file)
