"""What schemes declare that they count and record: numbers in the state that they add to nodes, ports and flows.

A count is a field that only grows; those of nodes and ports are read when the run has ended, those of a flow when it finishes. A
field that is recorded is read at each sample of its node. Without such declarations nothing here is called.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.rows import new_count_row, new_record_row
    from penstock_net.fabric.state import IN_FLOW, IN_NODE, NO_FLOW, counted_at, number_in, port_at, recorded_at, whole


def count_flow(me, node, flow, pkt):
    """Keep the counts of a flow that has finished: an on_finish of the fabric's own, after those of schemes."""
    worker = node.worker
    for i in range(worker.world.counted_count):
        field = counted_at(worker.world, i)
        value = number_in(flow, field.area, field.at, field.kind)
        if value != 0.0:
            row = new_count_row(worker)
            row.time = node.now
            row.node = node.id
            row.number = flow.number
            row.field = i
            row.value = whole(value)


def record(node, first, repeat):
    """Rows of the fields that are recorded of a node, its ports and its flows, for `repeat` samples from `first` on."""
    world = node.worker.world
    for i in range(world.recorded_count):
        field = recorded_at(world, i)
        if field.owner == IN_NODE:
            add_record(node, i, number_in(node, field.area, field.at, field.kind), -1, -1, first, repeat)
        elif field.owner == IN_FLOW:
            flow = node.host.active if node.is_host else NO_FLOW
            while flow:
                if not flow.resting:
                    add_record(node, i, number_in(flow, field.area, field.at, field.kind), -1, flow.number, first, repeat)
                flow = flow.next_active
        else:
            for slot in range(node.port_count):
                value = number_in(port_at(node, slot), field.area, field.at, field.kind)
                add_record(node, i, value, slot, -1, first, repeat)


def add_record(node, field, value, port, number, first, repeat):
    row = new_record_row(node.worker)
    row.time = first
    row.repeat = repeat
    row.value = value
    row.node = node.id
    row.port = port
    row.number = number
    row.field = field
